// SPDX-License-Identifier: Apache-2.0
//
// The engine's thread and its doors: submit, cancel and pause put orders into an inbox that the thread empties between
// steps; everything else belongs to the thread alone.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	OUTBOX_BYTES = 4 << 20,
	IDLE_WAIT_MS = 20,             // how exact deadlines are while nothing runs
	IDLE_CHECK_NS = 1000000000,    // at most one check of all invariants a second, when there is nothing else to do
};

// --- the thread

static struct request *find(struct engine *e, uint64_t id)
{
	LIST_FOREACH(it, &e->requests) {
		struct request *r = LIST_ENTRY(it, struct request, link);
		if (r->id == id)
			return r;
	}
	return NULL;
}

static void follow(struct engine *e, const struct order *o, uint64_t now)
{
	struct request *r = find(e, o->id);
	if (!r)
		return; // it ended while the order was on its way
	if (o->what == ORDER_CANCEL) {
		engine__end(e, r, FINISH_CANCELLED, now);
		return;
	}
	for (int i = 0; i < r->n_choices; i++)
		if (!r->choices[i].done)
			scheduler_pause(e->sched, &r->choices[i].seq, o->what == ORDER_PAUSE);
}

// Requests first, then orders: an order may be about a request that came in the same moment.
static bool take_inbox(struct engine *e)
{
	struct order *orders = NULL;
	size_t n_orders;
	struct list fresh;
	list_init(&fresh);
	pthread_mutex_lock(&e->mu);
	while (!list_empty(&e->inbox)) {
		struct list *it = e->inbox.next;
		list_remove(it);
		list_push_back(&fresh, it);
	}
	n_orders = e->n_orders;
	if (n_orders) {
		orders = e->orders;
		e->orders = NULL;
		e->n_orders = e->cap_orders = 0;
	}
	bool go_on = !e->stopping;
	pthread_mutex_unlock(&e->mu);
	uint64_t now = clock_now_ns();
	while (!list_empty(&fresh)) {
		struct list *it = fresh.next;
		list_remove(it);
		engine__admit(e, LIST_ENTRY(it, struct request, link), now);
	}
	for (size_t i = 0; i < n_orders; i++)
		follow(e, &orders[i], now);
	free(orders);
	return go_on;
}

static void publish_stats(struct engine *e)
{
	struct engine_stats s = {
	    .busy_ns = e->busy_ns,
	    .generated_tokens = e->generated,
	    .iteration_tokens_sum = e->iter_sum,
	    .iterations = e->iter_n,
	    .last_step_ns = clock_now_ns(),
	};
	memcpy(s.iteration_bucket, e->iter_bucket, sizeof s.iteration_bucket);
	scheduler_get_stats(e->sched, &s.sched);
	pthread_mutex_lock(&e->mu);
	e->stats = s;
	pthread_mutex_unlock(&e->mu);
}

static void wait_for_work(struct engine *e)
{
	uint64_t now = clock_now_ns();
	if (now - e->last_check_ns > IDLE_CHECK_NS) {
		e->last_check_ns = now;
		scheduler_check(e->sched);
	}
	pthread_mutex_lock(&e->mu);
	if (list_empty(&e->inbox) && !e->n_orders && !e->stopping) {
		if (list_empty(&e->requests)) {
			pthread_cond_wait(&e->wake, &e->mu);
		} else { // only paused requests, or ones that wait for room: their deadlines still count
			struct timespec t;
			clock_gettime(CLOCK_MONOTONIC, &t);
			t.tv_nsec += IDLE_WAIT_MS * 1000000;
			if (t.tv_nsec >= 1000000000) {
				t.tv_nsec -= 1000000000;
				t.tv_sec++;
			}
			pthread_cond_timedwait(&e->wake, &e->mu, &t);
		}
	}
	pthread_mutex_unlock(&e->mu);
}

static void *engine_main(void *arg)
{
	struct engine *e = arg;
	while (take_inbox(e)) {
		engine__check_deadlines(e, clock_now_ns());
		bool worked = engine__step(e);
#ifdef QUIRE_DEBUG
		scheduler_check(e->sched);
#endif
		publish_stats(e);
		outbox_flush(e->out);
		if (!worked)
			wait_for_work(e);
	}
	uint64_t now = clock_now_ns();
	LIST_FOREACH_SAFE(it, &e->requests)
		engine__end(e, LIST_ENTRY(it, struct request, link), FINISH_CANCELLED, now);
	publish_stats(e);
	outbox_flush(e->out);
	return NULL;
}

// --- open and close

int engine_open(const struct engine_options *o, void (*on_events)(void *ctx), void *ctx, struct engine **out, char *err,
                size_t len)
{
	struct engine *e = mem_zalloc(1, sizeof *e);
	*out = NULL;
	e->opt = *o;
	list_init(&e->requests);
	list_init(&e->inbox);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&e->mu, NULL);
	pthread_cond_init(&e->wake, &attr);
	pthread_condattr_destroy(&attr);
	e->out = outbox_create(OUTBOX_BYTES, on_events, ctx);
	int rc = engine__load(e, err, len);
	if (!rc && pthread_create(&e->thread, NULL, engine_main, e)) {
		engine__unload(e);
		rc = err_set(err, len, ERR_NOMEM, "cannot start the engine's thread");
	}
	if (rc) {
		outbox_destroy(e->out);
		free(e);
		return rc;
	}
	*out = e;
	return 0;
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->mu);
	e->stopping = true;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->mu);
	outbox_close(e->out);
	pthread_join(e->thread, NULL);
	// What arrived after the thread's last look was never promised an event that somebody could still read.
	LIST_FOREACH_SAFE(it, &e->inbox)
		request__destroy(LIST_ENTRY(it, struct request, link));
	engine__unload(e);
	outbox_destroy(e->out);
	free(e->orders);
	pthread_cond_destroy(&e->wake);
	pthread_mutex_destroy(&e->mu);
	free(e);
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
	return e->tok;
}

const struct chat_template *engine_chat_template(const struct engine *e)
{
	return e->chat;
}

// --- submit

// Tenant, then salt inside it: length-prefixed, so that no two pairs share a key (("a", "bc") and ("ab", "c")).
static char *namespace_key(const struct submission *s, size_t *n)
{
	const char *tenant = s->tenant ? s->tenant : "", *salt = s->cache_salt ? s->cache_salt : "";
	uint64_t len = strlen(tenant);
	size_t salt_len = strlen(salt);
	*n = sizeof len + len + salt_len;
	char *key = mem_alloc(*n);
	memcpy(key, &len, sizeof len);
	memcpy(key + sizeof len, tenant, len);
	memcpy(key + sizeof len + len, salt, salt_len);
	return key;
}

static void copy_sampling(struct request *r, const struct sampling *s)
{
	size_t stop_bytes = s->n_stop_ids * sizeof *s->stop_ids, bias_bytes = s->n_bias * sizeof *s->bias;
	r->sampling = *s;
	r->arrays = mem_alloc(bias_bytes + stop_bytes);
	struct logit_bias *bias = r->arrays;
	int32_t *stops = (int32_t *)(void *)((char *)r->arrays + bias_bytes);
	if (bias_bytes)
		memcpy(bias, s->bias, bias_bytes);
	if (stop_bytes)
		memcpy(stops, s->stop_ids, stop_bytes);
	r->sampling.bias = bias;
	r->sampling.stop_ids = stops;
}

static void init_choice(const struct engine *e, struct request *r, int i, const struct submission *s, size_t ns_len,
                        uint64_t now)
{
	struct sequence *seq = &r->choices[i].seq;
	int room = e->info.max_model_len - s->n_prompt;
	int max_new = s->sampling->max_tokens < room ? s->sampling->max_tokens : room;
	bool scores = s->sampling->n_prompt_logprobs != SAMPLING_NO_LOGPROBS && i == 0;
	*seq = (struct sequence){
	    .owner = r,
	    .choice = i,
	    .priority = s->priority,
	    .added_ns = now,
	    .ns = r->ns,
	    .ns_len = ns_len,
	    .use_cache = s->use_cache,
	    .n_prompt = s->n_prompt,
	    .n_tokens = s->n_prompt,
	    .n_max = s->n_prompt + max_new,
	    .first_logit = scores ? 0 : s->n_prompt - 1,
	    .slot = -1,
	};
	list_init(&seq->link);
	// Only what is written takes memory: pages past the last token stay untouched however large max_tokens is.
	seq->tokens = mem_alloc((size_t)seq->n_max * sizeof *seq->tokens);
	memcpy(seq->tokens, s->prompt, (size_t)s->n_prompt * sizeof *s->prompt);
	struct detokenizer_options d = {
	    .stops = s->stops,
	    .stop_lens = s->stop_lens,
	    .n_stops = s->n_stops,
	    .include_stop = s->include_stop,
	    .keep_special = s->keep_special,
	    .continues = true,
	};
	r->choices[i].detok = detokenizer_create(e->tok, &d);
	// A choice's last event may carry what a push wrote and what finish flushes.
	size_t n = 2 * detokenizer_max_output(r->choices[i].detok);
	r->max_text = n > r->max_text ? n : r->max_text;
}

static struct request *make_request(const struct engine *e, const struct submission *s)
{
	uint64_t now = clock_now_ns(), timeout = s->timeout_ns ? s->timeout_ns : e->opt.request_timeout_ns;
	size_t ns_len;
	struct request *r = mem_zalloc(1, sizeof *r + (size_t)s->n * sizeof r->choices[0]);
	list_init(&r->link);
	r->id = s->id;
	r->n_choices = s->n;
	r->ns = namespace_key(s, &ns_len);
	r->deadline_ns = timeout ? now + timeout : 0;
	r->queue_deadline_ns = e->opt.queue_timeout_ns ? now + e->opt.queue_timeout_ns : 0;
	copy_sampling(r, s->sampling);
	for (int i = 0; i < s->n; i++)
		init_choice(e, r, i, s, ns_len, now);
	return r;
}

static int refuse_if_full(struct engine *e, int n, char *err, size_t len)
{
	if (e->stopping)
		return err_set(err, len, ERR_CANCELLED, "the server is shutting down");
	if (e->n_unstarted + n > e->opt.queue_limit)
		return err_set(err, len, ERR_BUSY, "%d requests are waiting, the most that --queue-limit %d allows",
		               e->n_unstarted, e->opt.queue_limit);
	return 0;
}

int engine_submit(struct engine *e, const struct submission *s, char *err, size_t len)
{
	CHECK(s->n_prompt >= 1 && s->n >= 1, "%d tokens, %d choices", s->n_prompt, s->n);
	// A prompt that fills the context leaves no room for an answer; without one to give it may fill it exactly.
	int room = e->info.max_model_len - (s->sampling->max_tokens > 0);
	if (s->n_prompt > room)
		return err_set(err, len, ERR_LIMIT,
		               "the prompt has %d tokens, but this model's context is %d tokens with room for at least one more; at most %d fit",
		               s->n_prompt, e->info.max_model_len, room);
	pthread_mutex_lock(&e->mu);
	int rc = refuse_if_full(e, s->n, err, len);
	if (!rc)
		e->n_unstarted += s->n; // the place is taken before the copy is made, outside of the lock
	pthread_mutex_unlock(&e->mu);
	if (rc)
		return rc;
	struct request *r = make_request(e, s);
	pthread_mutex_lock(&e->mu);
	list_push_back(&e->inbox, &r->link);
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->mu);
	return 0;
}

static void give_order(struct engine *e, struct order o)
{
	pthread_mutex_lock(&e->mu);
	mem_grow(&e->orders, &e->cap_orders, e->n_orders + 1, sizeof *e->orders);
	e->orders[e->n_orders++] = o;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->mu);
}

void engine_cancel(struct engine *e, uint64_t id)
{
	give_order(e, (struct order){id, ORDER_CANCEL});
}

void engine_pause(struct engine *e, uint64_t id, bool paused)
{
	give_order(e, (struct order){id, paused ? ORDER_PAUSE : ORDER_RESUME});
}

size_t engine_poll(struct engine *e, void (*fn)(void *ctx, const struct engine_event *ev), void *ctx)
{
	return outbox_drain(e->out, fn, ctx);
}

void engine_get_stats(struct engine *e, struct engine_stats *out)
{
	pthread_mutex_lock(&e->mu);
	*out = e->stats;
	out->sched.n_waiting = e->n_unstarted > out->sched.n_waiting ? e->n_unstarted : out->sched.n_waiting;
	pthread_mutex_unlock(&e->mu);
}
