// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/server/fake_engine.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/engine.h"
#include "engine/text/tokenizer.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHOICES = 128, TOP = 20, TICK_US = 500 };

struct fake_choice {
	int n_tokens;
	bool done;
	struct buf raw; // bytes of its tokens
	size_t shown;	// bytes of raw that were published as text
};

struct fake_request {
	struct fake_request *next;
	uint64_t id, born_ns, due_ns, step_ns, admit_ns;
	struct submission s;
	struct sampling sampling;
	int32_t *prompt;
	char **stops;
	const char *answer;
	size_t n_answer;
	bool queued, endless, huge, fail_now, fail_later, cancelled, paused, started;
	int limit;
	struct fake_choice choices[CHOICES];
};

struct fake_event {
	struct engine_event ev;
	struct token_logprob top[TOP];
	char *text;
};

struct engine {
	pthread_mutex_t lock;
	pthread_t thread;
	bool stop, has_news;
	void (*on_events)(void *ctx);
	void *ctx;
	struct fake_request *requests;
	struct fake_event *events;
	size_t n_events, cap_events;
	struct engine_info info;
	int n_waiting;
};

const double engine_iteration_bounds[ENGINE_ITER_BUCKETS] = {1,	   8,	 16,   32,	 64,	128,   256,	  512,
															 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

static void publish(struct engine *e, struct engine_event ev, const char *text, size_t n)
{
	mem_grow(&e->events, &e->cap_events, e->n_events + 1, sizeof *e->events);
	struct fake_event *f = &e->events[e->n_events++];
	ev.time_ns = clock_now_ns();
	f->ev = ev;
	for (int i = 0; i < ev.n_top; i++)
		f->top[i] = ev.top[i];
	f->text = mem_strndup(n ? text : "", n);
	f->ev.n_text = n;
	e->has_news = true;
}

// A made-up distribution: the chosen token first, then its neighbours.
static void fill_logprobs(struct engine_event *ev, struct token_logprob *top, int n)
{
	ev->logprob = -0.75f;
	ev->n_top = n > 0 ? n : 0;
	ev->top = top;
	for (int i = 0; i < ev->n_top; i++)
		top[i] = (struct token_logprob){(ev->token + i) % FAKE_VOCAB, -0.75f - (float)i};
}

static void start(struct engine *e, struct fake_request *r)
{
	struct token_logprob top[TOP];
	r->started = true;
	e->n_waiting--;
	publish(e, (struct engine_event){.id = r->id, .kind = EVENT_START, .n_prompt = r->s.n_prompt}, NULL, 0);
	for (int i = 0; r->sampling.n_prompt_logprobs >= 0 && i < r->s.n_prompt; i++) {
		struct engine_event ev = {.id = r->id, .kind = EVENT_PROMPT_TOKEN, .position = i, .token = r->prompt[i]};
		fill_logprobs(&ev, top, i ? r->sampling.n_prompt_logprobs : 0);
		if (!i)
			ev.logprob = NAN;
		publish(e, ev, NULL, 0);
	}
}

static void finish(struct engine *e, struct fake_request *r, int c, enum finish_reason reason, int stop_index)
{
	struct fake_choice *h = &r->choices[c];
	struct buf text = {0};
	size_t from = h->shown < h->raw.len ? h->shown : h->raw.len;
	if (reason != FINISH_STOP_STRING)
		utf8_sanitize(&text, h->raw.len ? h->raw.data + from : "", h->raw.len - from);
	h->done = true;
	if (!r->started && c == 0)
		e->n_waiting--;
	publish(e,
			(struct engine_event){.id = r->id,
								  .kind = EVENT_DONE,
								  .choice = c,
								  .reason = reason,
								  .stop_index = stop_index,
								  .n_prompt = r->s.n_prompt,
								  .n_completion = h->n_tokens,
								  .queue_ns = 1000000,
								  .prefill_ns = 2000000,
								  .decode_ns = clock_now_ns() - r->born_ns},
			text.data, text.len);
	buf_deinit(&text);
}

static int32_t next_token(const struct fake_request *r, int c)
{
	int k = r->choices[c].n_tokens;
	if (r->huge)
		return 260;
	if (!r->endless && (size_t)k >= r->n_answer)
		return r->sampling.ignore_eos ? '.' : FAKE_EOS;
	return (unsigned char)r->answer[(size_t)(k + (r->endless ? c : 0)) % r->n_answer];
}

// Holds back an unfinished character and what may become a stop string; says which stop string is complete.
static int look_for_stop(struct fake_request *r, struct fake_choice *h, size_t *ready)
{
	*ready = utf8_whole(h->raw.data, h->raw.len);
	for (size_t i = 0; i < r->s.n_stops; i++) {
		char *at = memmem(h->raw.data, h->raw.len, r->stops[i], r->s.stop_lens[i]);
		if (at) {
			*ready = (size_t)(at - h->raw.data) + (r->s.include_stop ? r->s.stop_lens[i] : 0);
			return (int)i;
		}
		for (size_t n = r->s.stop_lens[i] - 1; n > 0; n--) {
			if (n <= h->raw.len && !memcmp(h->raw.data + h->raw.len - n, r->stops[i], n)) {
				*ready = h->raw.len - n < *ready ? h->raw.len - n : *ready;
				break;
			}
		}
	}
	return -1;
}

static void step(struct engine *e, struct fake_request *r, int c)
{
	static char padding[1024];
	struct token_logprob top[TOP];
	struct fake_choice *h = &r->choices[c];
	if (r->limit == 0) {
		finish(e, r, c, FINISH_LENGTH, -1);
		return;
	}
	int32_t id = next_token(r, c);
	struct engine_event ev = {.id = r->id, .kind = EVENT_TOKEN, .choice = c, .token = id, .position = r->s.n_prompt};
	ev.hidden = id == FAKE_EOS;
	if (r->sampling.n_logprobs >= 0)
		fill_logprobs(&ev, top, r->sampling.n_logprobs);
	h->n_tokens++;
	if (id < 256)
		buf_putc(&h->raw, (char)id);
	size_t ready = h->shown;
	int stop = ev.hidden ? -1 : look_for_stop(r, h, &ready);
	memset(padding, 'x', sizeof padding);
	if (r->huge)
		publish(e, ev, padding, sizeof padding);
	else
		publish(e, ev, h->raw.data + h->shown, ready > h->shown ? ready - h->shown : 0);
	h->shown = ready > h->shown ? ready : h->shown;
	if (stop >= 0)
		finish(e, r, c, FINISH_STOP_STRING, stop);
	else if (ev.hidden)
		finish(e, r, c, FINISH_STOP, -1);
	else if (r->fail_later && h->n_tokens == 3)
		finish(e, r, c, FINISH_ERROR, -1);
	else if (h->n_tokens >= r->limit)
		finish(e, r, c, FINISH_LENGTH, -1);
}

// True when it has ended.
static bool run_request(struct engine *e, struct fake_request *r, uint64_t now)
{
	int n_done = 0;
	if (r->cancelled || e->stop || r->fail_now) {
		for (int c = 0; c < r->s.n; c++)
			if (!r->choices[c].done)
				finish(e, r, c, r->cancelled || e->stop ? FINISH_CANCELLED : FINISH_ERROR, -1);
		return true;
	}
	if (r->queued || r->paused || now < r->due_ns)
		return false;
	if (!r->started) {
		start(e, r);
		r->due_ns = now + r->admit_ns;
		if (r->admit_ns)
			return false;
	}
	for (int c = 0; c < r->s.n; c++) {
		if (!r->choices[c].done)
			step(e, r, c);
		n_done += r->choices[c].done;
	}
	r->due_ns = now + r->step_ns;
	return n_done == r->s.n;
}

static void free_request(struct fake_request *r)
{
	for (int c = 0; c < r->s.n; c++)
		buf_deinit(&r->choices[c].raw);
	for (size_t i = 0; i < r->s.n_stops; i++)
		free(r->stops[i]);
	free(r->stops);
	free((void *)r->s.stop_lens);
	free(r->prompt);
	free(r);
}

static void *fake_main(void *arg)
{
	struct engine *e = arg;
	bool stop = false;
	while (!stop) {
		pthread_mutex_lock(&e->lock);
		uint64_t now = clock_now_ns();
		stop = e->stop;
		for (struct fake_request **at = &e->requests; *at;) {
			struct fake_request *r = *at;
			if (!run_request(e, r, now)) {
				at = &r->next;
				continue;
			}
			*at = r->next;
			free_request(r);
		}
		bool news = e->has_news;
		e->has_news = false;
		pthread_mutex_unlock(&e->lock);
		if (news)
			e->on_events(e->ctx);
		usleep(TICK_US);
	}
	return NULL;
}

int engine_open(const struct engine_options *o, void (*on_events)(void *ctx), void *ctx, struct engine **out, char *err,
				size_t len)
{
	struct engine *e = mem_zalloc(1, sizeof *e);
	pthread_mutex_init(&e->lock, NULL);
	e->on_events = on_events;
	e->ctx = ctx;
	e->info = (struct engine_info){.model_name = "fake",
								   .arch = "fake",
								   .quantization = "none",
								   .backend = "fake",
								   .template_note = "a template of tests",
								   .has_chat = true,
								   .n_vocab = FAKE_VOCAB,
								   .n_ctx_train = 4096,
								   .max_model_len = o->max_model_len ? o->max_model_len : 4096,
								   .max_seqs = 64,
								   .max_batched_tokens = 512,
								   .block_tokens = 16,
								   .n_blocks = 1024,
								   .n_layers = 1,
								   .n_kv_heads = 1,
								   .head_dim = 16,
								   .kv_dtype = "f16",
								   .kv_bytes_per_token = 1,
								   .queue_limit = o->queue_limit ? o->queue_limit : 1024};
	if (pthread_create(&e->thread, NULL, fake_main, e))
		return err_set(err, len, ERR_IO, "no thread");
	*out = e;
	return 0;
}

void engine_close(struct engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->stop = true;
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	for (size_t i = 0; i < e->n_events; i++)
		free(e->events[i].text);
	free(e->events);
	free(e);
}

const struct engine_info *engine_info(const struct engine *e)
{
	return &e->info;
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
	return (const struct tokenizer *)e;
}

const struct chat_template *engine_chat_template(const struct engine *e)
{
	return (const struct chat_template *)e;
}

static bool says(const char *text, const char *word)
{
	return strstr(text, word) != NULL;
}

// What the words of the prompt ask for.
static void steer(struct fake_request *r)
{
	static const char UTF8_ANSWER[] = "\xC4\x8F\xC3\xA1"
									  "belsk\xC3\xA9 \xF0\x9F\x8C\xB6 \xE5\xAE\xA2\xE5\x8D\x95\xE4\xBB\xB7";
	struct buf text = {0};
	tokenizer_decode(NULL, r->prompt, (size_t)r->s.n_prompt, true, &text);
	buf_reserve(&text, 0);
	text.data[text.len] = 0;
	r->answer = says(text.data, "UTF8") ? UTF8_ANSWER : "The answer is 42, of course.";
	r->n_answer = strlen(r->answer);
	r->step_ns = says(text.data, "VERYSLOW") ? 200000000 : says(text.data, "SLOW") ? 20000000 : 0;
	r->queued = says(text.data, "QUEUED");
	r->fail_now = says(text.data, "FAILNOW");
	r->fail_later = says(text.data, "FAILLATER");
	r->huge = says(text.data, "HUGE");
	r->endless = says(text.data, "LONG") || r->huge;
	r->admit_ns = says(text.data, "PREFILL") ? 3000000000 : 0;
	buf_deinit(&text);
}

int engine_submit(struct engine *e, const struct submission *s, char *err, size_t len)
{
	if (s->n_prompt >= e->info.max_model_len + (s->sampling->max_tokens == 0))
		return err_set(err, len, ERR_LIMIT, "the prompt has %d tokens, the limit is %d", s->n_prompt,
					   e->info.max_model_len);
	struct fake_request *r = mem_zalloc(1, sizeof *r);
	r->s = *s;
	r->id = s->id;
	r->sampling = *s->sampling;
	r->prompt = mem_alloc((size_t)s->n_prompt * sizeof *r->prompt);
	memcpy(r->prompt, s->prompt, (size_t)s->n_prompt * sizeof *r->prompt);
	size_t *lens = mem_alloc(s->n_stops * sizeof *lens);
	r->stops = mem_alloc(s->n_stops * sizeof *r->stops);
	for (size_t i = 0; i < s->n_stops; i++) {
		r->stops[i] = mem_strndup(s->stops[i], s->stop_lens[i]);
		lens[i] = s->stop_lens[i];
	}
	r->s.stop_lens = lens;
	r->limit = e->info.max_model_len - s->n_prompt < s->sampling->max_tokens ? e->info.max_model_len - s->n_prompt
																			 : s->sampling->max_tokens;
	steer(r);
	r->born_ns = clock_now_ns();
	pthread_mutex_lock(&e->lock);
	bool full = e->n_waiting >= e->info.queue_limit;
	if (!full) {
		struct fake_request **at = &e->requests;
		while (*at)
			at = &(*at)->next;
		*at = r;
		e->n_waiting++;
	}
	pthread_mutex_unlock(&e->lock);
	if (!full)
		return 0;
	free_request(r);
	return err_set(err, len, ERR_BUSY, "the queue is full");
}

static void set_flag(struct engine *e, uint64_t id, bool cancel, bool pause)
{
	pthread_mutex_lock(&e->lock);
	for (struct fake_request *r = e->requests; r; r = r->next) {
		if (r->id != id)
			continue;
		r->cancelled |= cancel;
		r->paused = pause;
	}
	pthread_mutex_unlock(&e->lock);
}

void engine_cancel(struct engine *e, uint64_t id)
{
	set_flag(e, id, true, false);
}

void engine_pause(struct engine *e, uint64_t id, bool paused)
{
	set_flag(e, id, false, paused);
}

size_t engine_poll(struct engine *e, void (*fn)(void *ctx, const struct engine_event *ev), void *ctx)
{
	pthread_mutex_lock(&e->lock);
	struct fake_event *events = e->events;
	size_t n = e->n_events;
	e->events = NULL;
	e->n_events = e->cap_events = 0;
	pthread_mutex_unlock(&e->lock);
	for (size_t i = 0; i < n; i++) {
		events[i].ev.text = events[i].text;
		events[i].ev.top = events[i].top;
		fn(ctx, &events[i].ev);
		free(events[i].text);
	}
	free(events);
	return n;
}

void engine_get_stats(struct engine *e, struct engine_stats *out)
{
	*out = (struct engine_stats){.sched = {.blocks_total = 1024, .blocks_free = 1024}};
}
