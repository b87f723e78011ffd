// SPDX-License-Identifier: Apache-2.0
//
// Random operations (arrivals, steps, cancels, pauses) on the scheduler, its pool and its tree, in small random worlds,
// against a device that knows what every slot must hold. Small vocabularies and few prompts make prefixes collide in
// every way: shared, partly shared, diverging inside a block, evicted, preempted. QUIRE_PROPERTY_OPS sets the number of
// operations.
#include "tests/unit/engine/fake_device.h"
#include "tests/unit/test.h"

#include <stdio.h>

enum { MAX_LIVE = 96, MAX_LEN = 160, WORLD_OPS = 2500 };

// Sanitizers make an operation some ten times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEFAULT_OPS = 40000 };
#else
enum { DEFAULT_OPS = 200000 };
#endif

struct world {
	struct scheduler *s;
	struct scheduler_options opt;
	struct fake_device dev;
	struct sequence *live[MAX_LIVE];
	int n_live;
	uint64_t random, arrivals, now, n_added, n_ended, idle_steps;
	int prompts[8][MAX_LEN]; // families that most prompts begin with
};

static uint32_t any(struct world *w, uint32_t n) // 0 … n - 1
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((w->random >> 33) % n);
}

static int between(struct world *w, int low, int high)
{
	return low + (int)any(w, (uint32_t)(high - low + 1));
}

static void world_init(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof *w);
	w->random = seed * 77777 + 1;
	int B = (const int[]){1, 2, 4, 16}[any(w, 4)], vocabulary = (const int[]){2, 3, 50}[any(w, 3)];
	int seqs = between(w, 1, 12);
	w->opt = (struct scheduler_options){
		.n_blocks = between(w, 4, any(w, 2) ? 30 : 200),
		.block_tokens = B,
		.max_seqs = seqs,
		.max_batched_tokens = seqs + 16 + (int)any(w, 64),
		.max_model_len = MAX_LEN,
		.max_out = seqs + (int)any(w, 20),
		.queue_limit = MAX_LIVE,
		.queue_tokens = INT64_MAX,
		.target_itl_ns = any(w, 3) ? 1000000 : 0,
		.prefix_caching = any(w, 8) > 0,
		.hash_bits = any(w, 2) ? 0 : between(w, 1, 8),
	};
	ck_assert_int_eq(scheduler_create(&w->opt, &w->s, NULL, 0), 0);
	fake_device_init(&w->dev, w->opt.n_blocks, B, vocabulary);
	for (int i = 0; i < 8; i++)
		for (int k = 0; k < MAX_LEN; k++)
			w->prompts[i][k] = (int)any(w, (uint32_t)vocabulary);
}

static void end(struct world *w, int i)
{
	struct sequence *seq = w->live[i];
	scheduler_finish(w->s, seq);
	ck_assert_int_eq(seq->state, SEQ_FINISHED);
	free(seq->tokens);
	free(seq);
	w->live[i] = w->live[--w->n_live];
	w->n_ended++;
}

static void add(struct world *w)
{
	static const char *const tenants[] = {"a", "b", ""};
	if (w->n_live == MAX_LIVE)
		return;
	struct sequence *seq = mem_zalloc(1, sizeof *seq);
	const int *family = w->prompts[any(w, 8)];
	int shared = (int)any(w, MAX_LEN);
	seq->n_prompt = seq->n_tokens = between(w, 1, any(w, 4) ? 40 : MAX_LEN);
	seq->n_max = between(w, seq->n_prompt, any(w, 4) && seq->n_prompt < MAX_LEN - 20 ? seq->n_prompt + 20 : MAX_LEN);
	seq->tokens = mem_alloc(MAX_LEN * sizeof *seq->tokens);
	for (int k = 0; k < seq->n_prompt; k++)
		seq->tokens[k] = k < shared ? family[k] : (int32_t)any(w, (uint32_t)w->dev.vocabulary);
	seq->ns = tenants[any(w, 3)];
	seq->ns_len = strlen(seq->ns);
	seq->use_cache = any(w, 10) > 0;
	seq->priority = any(w, 5) ? 0 : between(w, -1, 1);
	seq->arrival = w->arrivals++;
	seq->first_logit = any(w, 8) ? seq->n_prompt - 1 : (int)any(w, (uint32_t)seq->n_prompt);
	int n = seq->n_max > seq->n_tokens ? seq->n_tokens + 1 : seq->n_tokens;
	bool never = n > w->opt.n_blocks * w->opt.block_tokens;
	int rc = scheduler_add(w->s, seq, w->now);
	ck_assert_int_eq(rc, never ? ERR_LIMIT : 0);
	if (rc) {
		free(seq->tokens);
		free(seq);
		return;
	}
	w->live[w->n_live++] = seq;
	w->n_added++;
}

static void check_item(const struct plan_item *it)
{
	const struct sequence *seq = it->seq;
	int end = it->start + it->n, first = seq->first_logit > it->start ? seq->first_logit : it->start;
	ck_assert_int_eq(seq->state, SEQ_RUNNING);
	ck_assert_int_ge(it->n, 1);
	ck_assert_int_eq(it->start, seq->n_computed);
	ck_assert_int_le(end, seq->n_tokens);
	ck_assert_int_eq(it->samples, end == seq->n_tokens);
	ck_assert_int_eq(it->n_out, end > first ? end - first : 0);
	ck_assert_int_le(it->start, seq->first_logit); // positions whose logits are wanted are computed
}

static void step(struct world *w)
{
	int32_t chosen[16];
	struct sequence *of[16];
	int n_chosen = 0, n_tokens = 0, n_out = 0;
	bool work = scheduler_has_work(w->s);
	const struct plan *p = scheduler_plan(w->s, w->now);
	ck_assert_int_eq(p->n_items > 0, work);
	scheduler_check(w->s);
	if (!p->n_items)
		return;
	for (int i = 0; i < p->n_items; i++) {
		check_item(&p->items[i]);
		n_tokens += p->items[i].n;
		n_out += p->items[i].n_out;
	}
	ck_assert_int_eq(n_tokens, p->n_tokens);
	ck_assert_int_eq(n_out, p->n_out);
	ck_assert_int_le(n_tokens, w->opt.max_batched_tokens);
	ck_assert_int_le(n_out, w->opt.max_out);
	fake_device_run(&w->dev, p);
	for (int i = 0; i < p->n_items; i++) {
		const struct plan_item *it = &p->items[i];
		if (it->samples) {
			of[n_chosen] = it->seq;
			chosen[n_chosen++] = fake_sample(&w->dev, it);
		}
	}
	scheduler_commit(w->s, 10000 + (uint64_t)n_tokens * 20000);
	for (int i = 0; i < p->n_items; i++) {
		struct sequence *seq = p->items[i].seq;
		int end = p->items[i].start + p->items[i].n;
		// As the engine does: what was scored is wanted no more.
		if (end > seq->first_logit && seq->first_logit < seq->n_prompt - 1)
			seq->first_logit = end < seq->n_prompt ? end : seq->n_prompt - 1;
		fake_check_positions(&w->dev, seq, seq->n_computed);
	}
	for (int i = 0; i < n_chosen; i++) {
		struct sequence *seq = of[i];
		uint64_t truth = fake_chain(seq, seq->n_tokens);
		ck_assert_int_eq(chosen[i], (int32_t)(truth % (uint64_t)w->dev.vocabulary));
		if (seq->n_tokens + 1 < seq->n_max) {
			scheduler_append(w->s, seq, chosen[i]);
			continue;
		}
		for (int k = 0; k < w->n_live; k++)
			if (w->live[k] == seq)
				end(w, k);
	}
	scheduler_check(w->s);
	w->now += 1000;
}

static void operate(struct world *w)
{
	uint32_t what = any(w, 100);
	if (what < 18)
		add(w);
	else if (what < 21 && w->n_live)
		end(w, (int)any(w, (uint32_t)w->n_live));
	else if (what < 26 && w->n_live)
		scheduler_pause(w->s, w->live[any(w, (uint32_t)w->n_live)], any(w, 3) == 0);
	else if (what == 26) // a burst of equals
		for (int i = 0; i < 6; i++)
			add(w);
	else
		step(w);
}

static void run_world(uint64_t seed, int ops)
{
	struct world w;
	world_init(&w, seed);
	for (int i = 0; i < ops; i++)
		operate(&w);
	for (int i = 0; i < w.n_live; i++)
		scheduler_pause(w.s, w.live[i], false);
	// Everybody finishes: with no arrivals, each step computes a token at least, and few are computed twice.
	int64_t left = (int64_t)MAX_LIVE * MAX_LEN * 20;
	for (; w.n_live && left > 0; left--)
		step(&w);
	ck_assert_int_eq(w.n_live, 0);
	ck_assert_uint_eq(w.n_added, w.n_ended);
	struct scheduler_stats st;
	scheduler_get_stats(w.s, &st);
	ck_assert_int_eq(st.blocks_used, 0);
	ck_assert_int_eq(st.blocks_free + st.blocks_cached, st.blocks_total);
	ck_assert_int_eq(st.n_running + st.n_waiting, 0);
	scheduler_check(w.s);
	scheduler_destroy(w.s);
	fake_device_deinit(&w.dev);
}

START_TEST(random_operations_keep_every_promise)
{
	const char *text = getenv("QUIRE_PROPERTY_OPS");
	long long ops = text ? atoll(text) : DEFAULT_OPS;
	for (uint64_t seed = 1; ops > 0; seed++, ops -= WORLD_OPS)
		run_world(seed, WORLD_OPS);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("cache_property");
	TCase *c = tcase_create("random");
	tcase_set_timeout(c, getenv("QUIRE_PROPERTY_OPS") ? 3600 : 60);
	tcase_add_test(c, random_operations_keep_every_promise);
	suite_add_tcase(s, c);
	return s;
}
