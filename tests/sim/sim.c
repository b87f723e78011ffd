// SPDX-License-Identifier: Apache-2.0
//
// The simulator: the server's own scheduler, pool and tree under a virtual clock, with a cost model for the time of a
// step. It asserts that nothing is lost, nobody starves and no step is empty while there is work, and prints what a
// server would have shown.
//
//   sim [--requests N] [--seed S] [--workload NAME]        N requests of each workload; default 20,000
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/scheduler.h"
#include "engine/step_model.h"
#include "tests/sim/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIVE = 1200, MAX_LEN = 4096, BUCKETS = 700, CHECK_EVERY = 500, PAUSE_STEPS = 40 };
static const uint64_t TARGET_NS = 25000000;

// The machine: 2 ms a step, 25 µs a prompt token, 0.1 ms a sequence, 5 ns a KV token; a tenth of noise.
static uint64_t step_cost(const struct plan *p, uint64_t step)
{
	double ns = 2e6;
	for (int i = 0; i < p->n_items; i++) {
		const struct plan_item *it = &p->items[i];
		ns += 1e5 + (it->n > 1 ? 25e3 * it->n : 0) + 5.0 * (double)step_model_kv(it->start, it->n);
	}
	return (uint64_t)(ns * (0.95 + 0.1 * (double)(step * 2654435761u % 1000) / 1000));
}

struct histogram { // logarithmic: a bucket is four per cent wide
	uint64_t counts[BUCKETS], n;
};

static void histogram_add(struct histogram *h, uint64_t ns)
{
	int b = (int)(log((double)ns + 1) / log(1.04));
	h->counts[b < BUCKETS ? b : BUCKETS - 1]++;
	h->n++;
}

static double histogram_ms(const struct histogram *h, double share)
{
	uint64_t seen = 0, want = (uint64_t)(share * (double)h->n);
	int b = 0;
	for (; b < BUCKETS - 1; b++)
		if ((seen += h->counts[b]) > want)
			break;
	return pow(1.04, b + 1) / 1e6;
}

struct visitor { // a live request
	struct sequence seq;
	struct arrival a;
	uint64_t arrived_step, last_token_ns, paused_until;
	int n_output;
	char tenant[16];
};

struct sim {
	struct scheduler *s;
	struct scheduler_options opt;
	struct workload w;
	struct visitor *visitors; // [MAX_LIVE]
	struct visitor *live[MAX_LIVE], *spare[MAX_LIVE];
	int n_live, n_spare, most_preempted;
	uint64_t now, step, arrivals, finished, cancelled, asked, generated, plan_ns;
	struct histogram ttft, itl;
};

// What each workload meets: requests a second, and blocks. The last two have too few of these, so that sequences are
// preempted.
static const struct setting {
	double rate;
	int n_blocks;
} settings[] = {
	[WORKLOAD_CHAT] = {70, 4000},  [WORKLOAD_BURST] = {60, 4000},  [WORKLOAD_UNIQUE] = {70, 4000},
	[WORKLOAD_HEAVY] = {150, 300}, [WORKLOAD_HOSTILE] = {60, 400},
};

static struct sim *sim_create(enum workload_kind kind, uint64_t seed)
{
	struct sim *m = mem_zalloc(1, sizeof *m);
	char err[200] = "";
	m->opt = (struct scheduler_options){
		.n_blocks = settings[kind].n_blocks,
		.block_tokens = 16,
		.max_seqs = 64,
		.max_batched_tokens = 2048,
		.max_model_len = MAX_LEN,
		.max_out = 64,
		.queue_limit = MAX_LIVE,
		.queue_tokens = INT64_MAX,
		.target_itl_ns = TARGET_NS,
		.prefix_caching = true,
	};
	int rc = scheduler_create(&m->opt, &m->s, err, sizeof err);
	CHECK(!rc, "%s", err);
	workload_init(&m->w, kind, settings[kind].rate, seed);
	m->visitors = mem_zalloc(MAX_LIVE, sizeof *m->visitors);
	for (int i = 0; i < MAX_LIVE; i++) {
		m->visitors[i].seq.tokens = mem_alloc(MAX_LEN * sizeof(int32_t));
		m->spare[m->n_spare++] = &m->visitors[i];
	}
	return m;
}

static void sim_destroy(struct sim *m)
{
	scheduler_destroy(m->s);
	for (int i = 0; i < MAX_LIVE; i++)
		free(m->visitors[i].seq.tokens);
	free(m->visitors);
	free(m);
}

static void arrive(struct sim *m, const struct arrival *a)
{
	struct visitor *v = m->spare[--m->n_spare];
	int32_t *tokens = v->seq.tokens;
	snprintf(v->tenant, sizeof v->tenant, "t%d", a->tenant);
	v->a = *a;
	v->arrived_step = m->step;
	v->last_token_ns = v->paused_until = 0;
	v->n_output = a->n_output;
	v->seq = (struct sequence){
		.owner = v,
		.priority = a->priority,
		.arrival = m->arrivals++,
		.ns = v->tenant,
		.ns_len = strlen(v->tenant),
		.use_cache = true,
		.tokens = tokens,
		.n_prompt = a->n_prompt,
		.n_tokens = a->n_prompt,
		.n_max = a->n_prompt + 600 < MAX_LEN ? a->n_prompt + 600 : MAX_LEN, // clients rarely know how much will come
		.first_logit = a->n_prompt - 1,
	};
	for (int i = 0; i < a->n_prompt; i++)
		tokens[i] = workload_token(a, i);
	int rc = scheduler_add(m->s, &v->seq, a->at_ns);
	CHECK(!rc, "%s", err_name(rc));
	m->asked += (uint64_t)a->n_prompt;
	m->live[m->n_live++] = v;
}

static void leave(struct sim *m, int i)
{
	struct visitor *v = m->live[i];
	if (v->seq.n_preempted > m->most_preempted)
		m->most_preempted = v->seq.n_preempted;
	scheduler_finish(m->s, &v->seq);
	m->live[i] = m->live[--m->n_live];
	m->spare[m->n_spare++] = v;
}

// Cancels and slow readers.
static void disturb(struct sim *m)
{
	for (int i = m->n_live - 1; i >= 0; i--) {
		struct visitor *v = m->live[i];
		uint64_t age = m->step - v->arrived_step;
		if (v->a.cancel_after && age >= (uint64_t)v->a.cancel_after) {
			leave(m, i);
			m->cancelled++;
			continue;
		}
		if (v->a.pause_after && age == (uint64_t)v->a.pause_after) {
			v->paused_until = m->step + PAUSE_STEPS;
			scheduler_pause(m->s, &v->seq, true);
		} else if (v->paused_until && m->step >= v->paused_until) {
			v->paused_until = 0;
			scheduler_pause(m->s, &v->seq, false);
		}
	}
}

static void receive_token(struct sim *m, struct visitor *v)
{
	struct sequence *seq = &v->seq;
	if (v->last_token_ns)
		histogram_add(&m->itl, m->now - v->last_token_ns);
	else
		histogram_add(&m->ttft, m->now - v->a.at_ns);
	v->last_token_ns = m->now;
	m->generated++;
	if (seq->n_tokens + 1 - seq->n_prompt < v->n_output && seq->n_tokens + 1 < seq->n_max)
		scheduler_append(m->s, seq, workload_token(&v->a, seq->n_tokens));
	else
		v->n_output = 0; // done; it leaves at the end of the step
}

static bool sim_step(struct sim *m)
{
	bool work = scheduler_has_work(m->s);
	uint64_t from = clock_now_ns();
	const struct plan *p = scheduler_plan(m->s, m->now);
	m->plan_ns += clock_now_ns() - from;
	CHECK((p->n_items > 0) == work, "step %llu: has_work says %d, the plan has %d items", (unsigned long long)m->step,
		  work, p->n_items);
	m->step++;
	if (!work)
		return false;
	uint64_t took = step_cost(p, m->step);
	m->now += took;
	from = clock_now_ns();
	scheduler_commit(m->s, took);
	m->plan_ns += clock_now_ns() - from;
	for (int i = 0; i < p->n_items; i++)
		if (p->items[i].samples)
			receive_token(m, p->items[i].seq->owner);
	for (int i = m->n_live - 1; i >= 0; i--)
		if (m->live[i]->n_output == 0) {
			leave(m, i);
			m->finished++;
		}
	return true;
}

static void check_now(const struct sim *m)
{
	struct scheduler_stats st;
	scheduler_get_stats(m->s, &st);
	CHECK(st.blocks_free + st.blocks_cached + st.blocks_used == st.blocks_total, "%d + %d + %d", st.blocks_free,
		  st.blocks_cached, st.blocks_used);
	CHECK(st.n_running + st.n_waiting == m->n_live, "%d run, %d wait, %d live", st.n_running, st.n_waiting, m->n_live);
	if (m->step % CHECK_EVERY == 0)
		scheduler_check(m->s);
}

static void report(const struct sim *m, uint64_t requests)
{
	struct scheduler_stats st;
	scheduler_get_stats(m->s, &st);
	printf("%-8s %9llu %9.0f %7.1f%% %11llu %6.2f%% %8llu %4d %9llu %8.0f %8.0f %7.1f %7.1f %7.1f\n",
		   workload_name(m->w.kind), (unsigned long long)requests, (double)m->now / 1e9,
		   100.0 * (double)st.prefix_hits / (double)(st.prefix_queries ? st.prefix_queries : 1),
		   (unsigned long long)st.prompt_tokens_computed,
		   100.0 * (double)st.prompt_tokens_recomputed / (double)(st.prompt_tokens_computed + m->generated),
		   (unsigned long long)st.preemptions, m->most_preempted, (unsigned long long)st.evictions,
		   histogram_ms(&m->ttft, 0.5), histogram_ms(&m->ttft, 0.99), histogram_ms(&m->itl, 0.5),
		   histogram_ms(&m->itl, 0.99), (double)m->plan_ns / 1e3 / (double)m->step);
	fflush(stdout);
}

// Arrivals beyond what the server's queue takes come back as soon as there is room, and have waited since.
static void run(enum workload_kind kind, uint64_t requests, uint64_t seed)
{
	struct sim *m = sim_create(kind, seed);
	struct arrival next = workload_next(&m->w);
	while (m->arrivals < requests || m->n_live) {
		while (m->arrivals < requests && next.at_ns <= m->now && m->n_spare) {
			arrive(m, &next);
			next = workload_next(&m->w);
		}
		disturb(m);
		if (!sim_step(m) && !m->n_live && m->arrivals < requests)
			m->now = next.at_ns;
		check_now(m);
	}
	struct scheduler_stats st;
	scheduler_get_stats(m->s, &st);
	CHECK(m->finished + m->cancelled == requests, "%llu + %llu of %llu", (unsigned long long)m->finished,
		  (unsigned long long)m->cancelled, (unsigned long long)requests);
	CHECK(st.blocks_used == 0, "%d blocks leaked", st.blocks_used);
	CHECK(m->most_preempted <= 20, "a request was preempted %d times", m->most_preempted);
	scheduler_check(m->s);
	report(m, requests);
	// A stream that is neither preempted nor paused sees steps near the target.
	if (kind == WORKLOAD_CHAT || kind == WORKLOAD_BURST || kind == WORKLOAD_UNIQUE)
		CHECK(histogram_ms(&m->itl, 0.99) <= 2 * (double)TARGET_NS / 1e6, "inter-token time p99 %.1f ms",
			  histogram_ms(&m->itl, 0.99));
	sim_destroy(m);
}

// Twenty users behind one system prompt of 12,000 tokens: they hold it once, and compute it once.
static void run_classic(void)
{
	enum { USERS = 20, SYSTEM = 12000, OWN = 200, OUTPUT = 100, B = 16 };
	struct scheduler_options o = {.n_blocks = 2000, .block_tokens = B, .max_seqs = 32, .max_batched_tokens = 2048};
	o.max_model_len = 16384;
	o.max_out = o.max_seqs;
	o.queue_limit = 100;
	o.queue_tokens = INT64_MAX;
	o.target_itl_ns = TARGET_NS;
	o.prefix_caching = true;
	struct scheduler *s;
	struct sequence users[USERS];
	struct scheduler_stats st;
	int most = 0, rc = scheduler_create(&o, &s, NULL, 0), all = SYSTEM + OWN + OUTPUT;
	CHECK(!rc, "%s", err_name(rc));
	for (int u = 0; u < USERS; u++) {
		struct arrival a = {.n_head = SYSTEM, .head_seed = 1, .body_seed = (uint64_t)u + 10};
		users[u] = (struct sequence){.arrival = (uint64_t)u, .ns = "", .use_cache = true, .n_prompt = SYSTEM + OWN};
		users[u].n_tokens = users[u].n_prompt;
		users[u].n_max = all + 1;
		users[u].first_logit = users[u].n_prompt - 1;
		users[u].tokens = mem_alloc((size_t)users[u].n_max * sizeof(int32_t));
		for (int i = 0; i < users[u].n_prompt; i++)
			users[u].tokens[i] = workload_token(&a, i);
		rc = scheduler_add(s, &users[u], 0);
		CHECK(!rc, "%s", err_name(rc));
	}
	int ready = 0;
	for (uint64_t step = 1; ready < USERS; step++) {
		const struct plan *p = scheduler_plan(s, step);
		scheduler_commit(s, step_cost(p, step));
		scheduler_check(s);
		for (int i = 0; i < p->n_items; i++)
			if (p->items[i].samples) {
				struct sequence *seq = p->items[i].seq;
				if (seq->n_tokens < all)
					scheduler_append(s, seq, (int32_t)seq->arrival);
				ready += seq->n_computed == all;
				scheduler_pause(s, seq, seq->n_computed == all); // until all are there
			}
		scheduler_get_stats(s, &st);
		most = st.blocks_used > most ? st.blocks_used : most;
	}
	int bound = SYSTEM / B + USERS * ((OWN + OUTPUT + B - 1) / B);
	CHECK(most == bound && !st.preemptions, "%d blocks, should be %d", most, bound);
	CHECK(st.prompt_tokens_computed == SYSTEM + USERS * OWN, "%llu", (unsigned long long)st.prompt_tokens_computed);
	printf(
		"classic  20 users behind 12,000 tokens hold %d positions (12,000 + 20 x %d, in blocks of 16), compute %llu\n",
		most * B, OWN + OUTPUT, (unsigned long long)st.prompt_tokens_computed);
	for (int u = 0; u < USERS; u++) {
		scheduler_finish(s, &users[u]);
		free(users[u].tokens);
	}
	scheduler_destroy(s);
}

int main(int argc, char **argv)
{
	uint64_t requests = 20000, seed = 1;
	const char *only = NULL;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--requests") == 0)
			requests = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--workload") == 0)
			only = argv[i + 1];
	}
	run_classic();
	printf("%-8s %9s %9s %8s %11s %7s %8s %4s %9s %8s %8s %7s %7s %7s\n", "workload", "requests", "seconds", "found",
		   "computed", "again", "preempt", "most", "evicted", "ttft p50", "p99 ms", "itl p50", "p99 ms", "us/step");
	for (int k = WORKLOAD_CHAT; k <= WORKLOAD_HOSTILE; k++)
		if (!only || strcmp(only, workload_name((enum workload_kind)k)) == 0)
			run((enum workload_kind)k, requests, seed);
	return 0;
}
