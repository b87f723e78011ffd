// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double TTFT_BOUNDS[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,	.75,
									 1,	   2.5,	 5,	  7.5, 10,	20,	 40,  80, 160, 640, 2560};
static const double ITL_BOUNDS[] = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
static const double LATENCY_BOUNDS[] = {.3, .5, .8, 1,	1.5, 2,	  2.5, 5,	10,	  15,  20,
										30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double N_BOUNDS[] = {1, 2, 5, 10, 20};

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void histogram_init(struct histogram *h, const double *bounds, int n)
{
	CHECK(n <= HISTOGRAM_BUCKETS, "%d", n);
	*h = (struct histogram){.bounds = bounds, .n_bounds = n};
}

void histogram_add(struct histogram *h, double value)
{
	int i = 0;
	while (i < h->n_bounds && value > h->bounds[i])
		i++;
	h->count[i]++;
	h->sum += value;
}

void metrics_init(struct metrics *m, int max_model_len, int64_t started_at)
{
	static const int STEPS[] = {1, 2, 5};
	int n = 0;
	*m = (struct metrics){.started_at = started_at};
	for (double decade = 1; decade <= max_model_len; decade *= 10)
		for (int i = 0; i < 3 && n < HISTOGRAM_BUCKETS && decade * STEPS[i] <= max_model_len; i++)
			m->token_bounds[n++] = decade * STEPS[i];
	histogram_init(&m->ttft, TTFT_BOUNDS, COUNT(TTFT_BOUNDS));
	histogram_init(&m->itl, ITL_BOUNDS, COUNT(ITL_BOUNDS));
	histogram_init(&m->tpot, ITL_BOUNDS, COUNT(ITL_BOUNDS));
	struct histogram *latencies[] = {&m->e2e, &m->queue, &m->inference, &m->prefill, &m->decode};
	for (int i = 0; i < COUNT(latencies); i++)
		histogram_init(latencies[i], LATENCY_BOUNDS, COUNT(LATENCY_BOUNDS));
	struct histogram *lengths[] = {&m->prompt_len, &m->generated_len, &m->longest_len, &m->computed_len,
								   &m->params_max_tokens};
	for (int i = 0; i < COUNT(lengths); i++)
		histogram_init(lengths[i], m->token_bounds, n);
	histogram_init(&m->params_n, N_BOUNDS, COUNT(N_BOUNDS));
}

void metrics_start(struct metrics *m, struct request_meter *meter, const struct sampling *s, int n, uint64_t arrival_ns)
{
	*meter = (struct request_meter){.arrival_ns = arrival_ns, .n = n, .max_tokens = s->max_tokens};
	meter->last_ns = mem_zalloc((size_t)n, sizeof *meter->last_ns);
	m->started++;
	m->waiting++;
}

static double seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

static void take_start(struct metrics *m, struct request_meter *r, const struct engine_event *ev)
{
	if (r->admitted)
		return;
	r->admitted = true;
	r->n_prompt = ev->n_prompt;
	r->n_cached = ev->n_cached;
	m->waiting--;
	m->running++;
	m->prompt_tokens += (uint64_t)ev->n_prompt;
	m->cached_tokens += (uint64_t)ev->n_cached;
}

static void take_token(struct metrics *m, struct request_meter *r, const struct engine_event *ev, uint64_t now_ns)
{
	m->generated_tokens++;
	r->n_tokens++;
	if (!r->has_token)
		histogram_add(&m->ttft, seconds(now_ns - r->arrival_ns));
	r->has_token = true;
	uint64_t *last = &r->last_ns[ev->choice], at = ev->time_ns ? ev->time_ns : now_ns;
	if (*last && at >= *last)
		histogram_add(&m->itl, seconds(at - *last));
	*last = at;
}

static enum finish_class class_of(enum finish_reason reason)
{
	switch (reason) {
	case FINISH_STOP:
	case FINISH_STOP_STRING:
		return FINISHED_STOP;
	case FINISH_LENGTH:
		return FINISHED_LENGTH;
	case FINISH_CANCELLED:
	case FINISH_DEADLINE:
	case FINISH_QUEUE_TIMEOUT:
		return FINISHED_ABORT;
	case FINISH_ERROR:
		break;
	}
	return FINISHED_ERROR;
}

// Times and lengths of a request that ran to its end: what an aborted one took says nothing about the server's speed.
static void observe_finished(struct metrics *m, const struct request_meter *r, const struct engine_event *ev,
							 uint64_t now_ns)
{
	histogram_add(&m->e2e, seconds(now_ns - r->arrival_ns));
	histogram_add(&m->queue, seconds(ev->queue_ns));
	histogram_add(&m->prefill, seconds(ev->prefill_ns));
	histogram_add(&m->decode, seconds(ev->decode_ns));
	histogram_add(&m->inference, seconds(ev->prefill_ns + ev->decode_ns));
	if (ev->n_completion > 1)
		histogram_add(&m->tpot, seconds(ev->decode_ns) / (ev->n_completion - 1));
	histogram_add(&m->prompt_len, r->n_prompt);
	histogram_add(&m->computed_len, r->n_prompt - r->n_cached);
	histogram_add(&m->generated_len, (double)r->n_tokens);
	histogram_add(&m->longest_len, r->longest);
	histogram_add(&m->params_n, r->n);
	if (r->max_tokens != INT_MAX) // a request without one names no number
		histogram_add(&m->params_max_tokens, r->max_tokens);
}

static void leave(struct metrics *m, struct request_meter *r)
{
	if (r->admitted)
		m->running--;
	else
		m->waiting--;
	free(r->last_ns);
	r->last_ns = NULL;
}

bool metrics_event(struct metrics *m, struct request_meter *r, const struct engine_event *ev, uint64_t now_ns)
{
	if (ev->kind == EVENT_START)
		take_start(m, r, ev);
	else if (ev->kind == EVENT_TOKEN)
		take_token(m, r, ev, now_ns);
	if (ev->kind != EVENT_DONE)
		return false;
	enum finish_class class = class_of(ev->reason);
	r->worst = class > r->worst ? class : r->worst;
	r->longest = ev->n_completion > r->longest ? ev->n_completion : r->longest;
	if (++r->n_done < r->n)
		return false;
	leave(m, r);
	m->finished[r->worst]++;
	if (r->worst == FINISHED_STOP || r->worst == FINISHED_LENGTH)
		observe_finished(m, r, ev, now_ns);
	return true;
}

void metrics_drop(struct metrics *m, struct request_meter *r)
{
	leave(m, r);
	m->finished[FINISHED_ABORT]++;
}

// --- exposition

struct writer {
	struct buf *out;
	char labels[512]; // model_name="…",engine="0"
};

static void init_labels(struct writer *w, const char *model)
{
	size_t n = 0;
	n += (size_t)snprintf(w->labels, sizeof w->labels, "model_name=\"");
	for (; *model && n < sizeof w->labels - 32; model++) {
		if (*model == '"' || *model == '\\')
			w->labels[n++] = '\\';
		w->labels[n++] = *model == '\n' ? ' ' : *model;
	}
	snprintf(w->labels + n, sizeof w->labels - n, "\",engine=\"0\"");
}

static void write_type(struct writer *w, const char *name, const char *type, const char *help)
{
	buf_printf(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(struct writer *w, const char *name, const char *type, const char *help, double value)
{
	write_type(w, name, type, help);
	buf_printf(w->out, "%s{%s} %.17g\n", name, w->labels, value);
}

static void write_histogram(struct writer *w, const char *name, const char *help, const double *bounds, int n,
							const uint64_t *counts, double sum)
{
	uint64_t total = 0;
	write_type(w, name, "histogram", help);
	for (int i = 0; i < n; i++) {
		total += counts[i];
		buf_printf(w->out, "%s_bucket{%s,le=\"%.15g\"} %llu\n", name, w->labels, bounds[i], (unsigned long long)total);
	}
	total += counts[n];
	buf_printf(w->out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, w->labels, (unsigned long long)total);
	buf_printf(w->out, "%s_sum{%s} %.17g\n", name, w->labels, sum);
	buf_printf(w->out, "%s_count{%s} %llu\n", name, w->labels, (unsigned long long)total);
}

static void write_gauges(struct writer *w, const struct metrics *m, const struct engine_info *info,
						 const struct engine_stats *stats)
{
	int total = stats->sched.blocks_total ? stats->sched.blocks_total : 1;
	write_value(w, "vllm:num_requests_running", "gauge", "Requests being computed.", (double)m->running);
	write_value(w, "vllm:num_requests_waiting", "gauge", "Requests in the queue.", (double)m->waiting);
	write_value(w, "vllm:kv_cache_usage_perc", "gauge", "Share of KV blocks that running requests hold; 1 is all.",
				(double)stats->sched.blocks_used / total);
	write_type(w, "vllm:cache_config_info", "gauge", "How the KV cache is laid out.");
	buf_printf(w->out, "vllm:cache_config_info{%s,block_size=\"%d\",num_gpu_blocks=\"%d\",cache_dtype=\"%s\"} 1\n",
			   w->labels, info->block_tokens, info->n_blocks, info->kv_dtype);
}

static void write_counters(struct writer *w, const struct metrics *m, const struct engine_stats *stats)
{
	static const char *const WORDS[] = {"stop", "length", "abort", "error"};
	const char *counter = "counter";
	write_value(w, "vllm:prompt_tokens_total", counter, "Prompt tokens, once per request, cached ones included.",
				(double)m->prompt_tokens);
	write_value(w, "vllm:generation_tokens_total", counter, "Generated tokens.", (double)m->generated_tokens);
	write_value(w, "vllm:prefix_cache_queries_total", counter, "Prompt tokens looked up in the cache.",
				(double)m->prompt_tokens);
	write_value(w, "vllm:prefix_cache_hits_total", counter, "Prompt tokens found in the cache.",
				(double)m->cached_tokens);
	write_value(w, "vllm:prompt_tokens_cached_total", counter, "Prompt tokens found in the cache.",
				(double)m->cached_tokens);
	write_type(w, "vllm:prompt_tokens_by_source_total", counter,
			   "Prompt tokens by where their keys and values came from.");
	buf_printf(w->out, "vllm:prompt_tokens_by_source_total{%s,source=\"local_compute\"} %llu\n", w->labels,
			   (unsigned long long)(m->prompt_tokens - m->cached_tokens));
	buf_printf(w->out, "vllm:prompt_tokens_by_source_total{%s,source=\"local_cache_hit\"} %llu\n", w->labels,
			   (unsigned long long)m->cached_tokens);
	write_value(w, "vllm:prompt_tokens_recomputed_total", counter, "Prompt tokens computed again after a preemption.",
				(double)stats->sched.prompt_tokens_recomputed);
	write_value(w, "vllm:num_preemptions_total", counter, "Times a request lost its blocks.",
				(double)stats->sched.preemptions);
	write_type(w, "vllm:request_success_total", counter, "Finished requests.");
	for (int i = 0; i < FINISH_CLASSES; i++)
		buf_printf(w->out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n", w->labels, WORDS[i],
				   (unsigned long long)m->finished[i]);
	write_value(w, "quire:requests_started_total", counter, "Requests that the engine accepted.", (double)m->started);
	write_value(w, "quire:requests_rejected_total", counter, "Requests refused because the queue was full.",
				(double)m->rejected);
	write_value(w, "quire:kv_evictions_total", counter, "Cached blocks given up for others.",
				(double)stats->sched.evictions);
	write_value(w, "quire:busy_seconds_total", counter, "Time spent in engine steps.", (double)stats->busy_ns * 1e-9);
}

static void write_histograms(struct writer *w, const struct metrics *m, const struct engine_stats *stats)
{
	const struct {
		const char *name, *help;
		const struct histogram *h;
	} LIST[] = {
		{"vllm:time_to_first_token_seconds", "From the whole request to its first token.", &m->ttft},
		{"vllm:inter_token_latency_seconds", "Between two tokens of a choice.", &m->itl},
		{"vllm:request_time_per_output_token_seconds", "Mean time per token after the first.", &m->tpot},
		{"vllm:e2e_request_latency_seconds", "From the whole request to its last token.", &m->e2e},
		{"vllm:request_queue_time_seconds", "Waiting for admission.", &m->queue},
		{"vllm:request_inference_time_seconds", "Prefill and decode.", &m->inference},
		{"vllm:request_prefill_time_seconds", "From admission to the first token.", &m->prefill},
		{"vllm:request_decode_time_seconds", "From the first token to the last.", &m->decode},
		{"vllm:request_prefill_kv_computed_tokens", "Prompt tokens not found in the cache.", &m->computed_len},
		{"vllm:request_prompt_tokens", "Prompt tokens of a request.", &m->prompt_len},
		{"vllm:request_generation_tokens", "Generated tokens of a request.", &m->generated_len},
		{"vllm:request_max_num_generation_tokens", "Tokens of a request's longest choice.", &m->longest_len},
		{"vllm:request_params_n", "Choices asked for.", &m->params_n},
		{"vllm:request_params_max_tokens", "max_tokens where given.", &m->params_max_tokens},
	};
	for (int i = 0; i < COUNT(LIST); i++)
		write_histogram(w, LIST[i].name, LIST[i].help, LIST[i].h->bounds, LIST[i].h->n_bounds, LIST[i].h->count,
						LIST[i].h->sum);
	write_histogram(w, "vllm:iteration_tokens_total", "Tokens of a step.", engine_iteration_bounds, ENGINE_ITER_BUCKETS,
					stats->iteration_bucket, (double)stats->iteration_tokens_sum);
}

static void write_process(struct writer *w, const struct metrics *m)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	write_type(w, "process_resident_memory_bytes", "gauge", "Resident memory.");
	buf_printf(w->out, "process_resident_memory_bytes %lld\n", (long long)pages * sysconf(_SC_PAGESIZE));
	write_type(w, "process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.");
	buf_printf(w->out, "process_start_time_seconds %lld\n", (long long)m->started_at);
}

void metrics_write(const struct metrics *m, const struct engine_info *info, const struct engine_stats *stats,
				   const char *model_name, struct buf *out)
{
	struct writer w = {.out = out};
	init_labels(&w, model_name);
	write_gauges(&w, m, info, stats);
	write_counters(&w, m, stats);
	write_histograms(&w, m, stats);
	write_process(&w, m);
}
