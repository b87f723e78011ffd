// SPDX-License-Identifier: Apache-2.0
//
// The step: schedule, batch, forward, sample, commit. Nothing here allocates memory.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/engine_internal.h"

#include <math.h>
#include <stdlib.h>

const double engine_iteration_bounds[ENGINE_ITER_BUCKETS] = {1,    8,    16,   32,   64,    128,   256,   512,
                                                             1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

enum { DEADLINE_SCAN_NS = 5000000 };

static struct choice *choice_of(const struct sequence *seq)
{
	return LIST_ENTRY(seq, struct choice, seq);
}

static struct request *request_of(const struct sequence *seq)
{
	return seq->owner;
}

static int n_completion(const struct sequence *seq)
{
	return seq->n_tokens - seq->n_prompt;
}

void request__destroy(struct request *r)
{
	for (int i = 0; i < r->n_choices; i++) {
		detokenizer_destroy(r->choices[i].detok);
		free(r->choices[i].seq.tokens);
	}
	free(r->arrays);
	free(r->ns);
	free(r);
}

// The choice left the queue, by starting or by ending: its place is free.
static void leave_queue(struct engine *e, struct choice *c)
{
	if (c->left_queue)
		return;
	c->left_queue = true;
	pthread_mutex_lock(&e->mu);
	e->n_unstarted--;
	pthread_mutex_unlock(&e->mu);
}

// A choice is over: its blocks go back, its last text and reason go out. `token` is the stop id that ended it, else -1;
// n_text bytes of last text lie in e->text already.
static void finish(struct engine *e, struct choice *c, enum finish_reason reason, int32_t token, int stop_index,
                   size_t n_text, int completion, uint64_t now)
{
	struct request *r = request_of(&c->seq);
	leave_queue(e, c);
	if (stop_index < 0)
		n_text += detokenizer_finish(c->detok, e->text + n_text);
	struct engine_event ev = {
	    .id = r->id,
	    .kind = EVENT_DONE,
	    .choice = c->seq.choice,
	    .token = token,
	    .text = e->text,
	    .n_text = n_text,
	    .reason = reason,
	    .stop_index = stop_index,
	    .n_prompt = c->seq.n_prompt,
	    .n_cached = r->choices[0].seq.n_cached,
	    .n_completion = completion,
	    .time_ns = now,
	    .n_preempted = c->seq.n_preempted,
	};
	uint64_t admitted = c->seq.admitted_ns ? c->seq.admitted_ns : now;
	uint64_t first = c->first_token_ns ? c->first_token_ns : now;
	ev.queue_ns = admitted - c->seq.added_ns;
	ev.prefill_ns = first - admitted;
	ev.decode_ns = now - first;
	scheduler_finish(e->sched, &c->seq);
	outbox_put(e->out, &ev);
	c->done = true;
	if (++r->n_done == r->n_choices) {
		list_remove(&r->link);
		request__destroy(r);
	}
}

void engine__end(struct engine *e, struct request *r, enum finish_reason reason, uint64_t now)
{
	// The last finish frees r, so the loop must not look at it again.
	for (int i = 0, n = r->n_choices, left = n - r->n_done; i < n && left; i++) {
		if (r->choices[i].done)
			continue;
		left--;
		finish(e, &r->choices[i], reason, -1, -1, 0, n_completion(&r->choices[i].seq), now);
	}
}

void engine__admit(struct engine *e, struct request *r, uint64_t now)
{
	list_push_back(&e->requests, &r->link);
	if (r->max_text > e->text_cap) {
		free(e->text);
		e->text = malloc(r->max_text);
		e->text_cap = r->max_text;
		CHECK(e->text, "%zu bytes", r->max_text);
	}
	for (int i = 0; i < r->n_choices; i++) {
		struct sequence *seq = &r->choices[i].seq;
		seq->arrival = e->arrivals++;
		int rc = scheduler_add(e->sched, seq, now);
		CHECK(!rc, "the queue refused a request that submit had let in: %s", err_name(rc));
	}
}

void engine__check_deadlines(struct engine *e, uint64_t now)
{
	if (now - e->last_deadline_scan_ns < DEADLINE_SCAN_NS)
		return;
	e->last_deadline_scan_ns = now;
	LIST_FOREACH_SAFE(it, &e->requests) {
		struct request *r = LIST_ENTRY(it, struct request, link);
		if (r->deadline_ns && now >= r->deadline_ns)
			engine__end(e, r, FINISH_DEADLINE, now);
		else if (!r->started && r->queue_deadline_ns && now >= r->queue_deadline_ns)
			engine__end(e, r, FINISH_QUEUE_TIMEOUT, now);
	}
}

// --- prompt logprobs

static void put_prompt_token(struct engine *e, const struct sequence *seq, int position, const struct sampler_output *lp,
                             uint64_t now)
{
	struct engine_event ev = {
	    .id = request_of(seq)->id,
	    .kind = EVENT_PROMPT_TOKEN,
	    .choice = seq->choice,
	    .position = position,
	    .token = seq->tokens[position],
	    .logprob = lp ? lp->logprob : NAN,
	    .n_top = lp ? lp->n_top : 0,
	    .top = lp ? lp->top : NULL,
	    .n_prompt = seq->n_prompt,
	    .stop_index = -1,
	    .time_ns = now,
	};
	outbox_put(e->out, &ev);
}

// Rows of an item that lie before the prompt's last position tell the probability of the prompt token that follows.
static void commit_prompt_rows(struct engine *e, const struct plan_item *it, const float *logits, uint64_t now)
{
	struct sequence *seq = it->seq;
	int n_top = request_of(seq)->sampling.n_prompt_logprobs;
	if (n_top == SAMPLING_NO_LOGPROBS)
		return;
	for (int i = 0; i < it->n_out; i++) {
		int position = it->start + it->n - it->n_out + i; // of the row; its logits speak of position + 1
		if (position + 1 >= seq->n_prompt)
			break;
		struct sampler_output lp;
		sampler_logprobs(e->sampler, logits + (size_t)i * (size_t)e->info.n_vocab, seq->tokens[position + 1], n_top, &lp);
		put_prompt_token(e, seq, position + 1, &lp, now);
		seq->first_logit = position + 1;
	}
}

// --- the five rows of the step

static void announce(struct engine *e, const struct plan *p, uint64_t now)
{
	for (int i = 0; i < p->n_items; i++) {
		struct sequence *seq = p->items[i].seq;
		struct request *r = request_of(seq);
		leave_queue(e, choice_of(seq));
		if (r->started || seq->choice != 0)
			continue;
		r->started = true;
		struct engine_event ev = {.id = r->id,
		                          .kind = EVENT_START,
		                          .n_prompt = seq->n_prompt,
		                          .n_cached = seq->n_cached,
		                          .stop_index = -1,
		                          .time_ns = now};
		outbox_put(e->out, &ev);
		if (r->sampling.n_prompt_logprobs != SAMPLING_NO_LOGPROBS)
			put_prompt_token(e, seq, 0, NULL, now);
	}
}

static void forward(struct engine *e, const struct plan *p, const struct batch_view *b)
{
	for (int i = 0; i < p->n_copies; i++)
		e->be->op->kv_copy_tokens(e->be, p->copies[i].src, p->copies[i].dst, p->copies[i].n);
	model_forward(e->model, b, e->logits);
}

static void sample(struct engine *e, const struct plan *p)
{
	float *row = e->logits;
	for (int i = 0; i < p->n_items; i++) {
		const struct plan_item *it = &p->items[i];
		row += (size_t)it->n_out * (size_t)e->info.n_vocab;
		if (!it->samples || it->seq->n_tokens == it->seq->n_max)
			continue;
		struct sampler_input in = {
		    .sampling = &request_of(it->seq)->sampling,
		    .tokens = it->seq->tokens,
		    .n_prompt = it->seq->n_prompt,
		    .n_tokens = it->seq->n_tokens,
		    .choice = it->seq->choice,
		    .ends = e->ends,
		    .n_ends = e->n_ends,
		};
		sampler_run(e->sampler, &in, row - e->info.n_vocab, &e->chosen[i]);
	}
}

static bool is_stop_id(const struct sampling *s, int32_t id)
{
	for (size_t i = 0; i < s->n_stop_ids; i++)
		if (s->stop_ids[i] == id)
			return true;
	return false;
}

static void commit_token(struct engine *e, struct choice *c, const struct sampler_output *o, uint64_t now)
{
	struct sequence *seq = &c->seq;
	struct request *r = request_of(seq);
	const struct sampling *s = &r->sampling;
	struct engine_event ev = {
	    .id = r->id,
	    .kind = EVENT_TOKEN,
	    .choice = seq->choice,
	    .position = seq->n_tokens,
	    .token = o->id,
	    .logprob = o->logprob,
	    .n_top = o->n_top,
	    .top = o->top,
	    .text = e->text,
	    .stop_index = -1,
	    .time_ns = now,
	};
	if (!c->first_token_ns)
		c->first_token_ns = now;
	e->generated++;
	bool end = !s->ignore_eos && tokenizer_is_eog(e->tok, o->id), stop_id = is_stop_id(s, o->id);
	int stop = -1, completion = n_completion(seq) + 1;
	ev.hidden = end || stop_id;
	if (!ev.hidden)
		stop = detokenizer_push(c->detok, o->id, e->text, &ev.n_text);
	outbox_put(e->out, &ev);
	if (end || stop_id)
		finish(e, c, end ? FINISH_STOP : FINISH_STOP_STRING, stop_id && !end ? o->id : -1, -1, 0, completion, now);
	else if (stop >= 0)
		finish(e, c, FINISH_STOP_STRING, -1, stop, 0, completion, now);
	else if (seq->n_tokens + 1 >= seq->n_max)
		finish(e, c, FINISH_LENGTH, -1, -1, 0, completion, now);
	else
		scheduler_append(e->sched, seq, o->id);
}

static void commit(struct engine *e, const struct plan *p, uint64_t now)
{
	const float *rows = e->logits;
	for (int i = 0; i < p->n_items; i++) {
		const struct plan_item *it = &p->items[i];
		commit_prompt_rows(e, it, rows, now);
		rows += (size_t)it->n_out * (size_t)e->info.n_vocab;
		if (!it->samples)
			continue;
		if (it->seq->n_tokens == it->seq->n_max) // max_tokens 0: the prompt was only to be scored or cached
			finish(e, choice_of(it->seq), FINISH_LENGTH, -1, -1, 0, 0, now);
		else
			commit_token(e, choice_of(it->seq), &e->chosen[i], now);
	}
}

static void count_step(struct engine *e, const struct plan *p, uint64_t from, uint64_t now)
{
	int b = 0;
	while (b < ENGINE_ITER_BUCKETS && (double)p->n_tokens > engine_iteration_bounds[b])
		b++;
	e->iter_bucket[b]++;
	e->iter_sum += (uint64_t)p->n_tokens;
	e->iter_n++;
	e->busy_ns += now - from;
}

bool engine__step(struct engine *e)
{
	uint64_t from = clock_now_ns();
	const struct plan *plan = scheduler_plan(e->sched, from);      // 7 schedule
	if (!plan->n_items)
		return false;
	announce(e, plan, from);
	const struct batch_view *batch = batch_build(e->batch, plan);  // 8 batch
	forward(e, plan, batch);                                       // 9 forward
	sample(e, plan);                                               // 10 sample
	uint64_t now = clock_now_ns();
	scheduler_commit(e->sched, now - from);                        // 11 commit
	count_step(e, plan, from, now);
	commit(e, plan, now);
	return true;
}
