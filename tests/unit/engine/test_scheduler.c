// SPDX-License-Identifier: Apache-2.0
//
// Scenarios, each a promise of the design or a fault that users reported elsewhere (the names begin with what it is
// about).
#include "engine/base/clock.h"
#include "tests/unit/engine/fake_device.h"
#include "tests/unit/test.h"

#include <stdio.h>

enum { B = 16, MAX_SEQS_HERE = 256 };

struct lab {
	struct scheduler *s;
	struct fake_device dev;
	struct scheduler_options opt;
	const struct plan *plan; // of the last step
	uint64_t arrivals, now;
	int n_sampled; // sequences that got a token in the last step
};

static struct scheduler_options defaults(int n_blocks)
{
	return (struct scheduler_options){
		.n_blocks = n_blocks,
		.block_tokens = B,
		.max_seqs = 64,
		.max_batched_tokens = 512,
		.max_model_len = 100000,
		.max_out = 64,
		.queue_limit = 256,
		.queue_tokens = 10000000,
		.target_itl_ns = 0,
		.prefix_caching = true,
	};
}

static struct lab open_lab(struct scheduler_options o)
{
	struct lab l = {.opt = o, .now = 1000};
	ck_assert_int_eq(scheduler_create(&o, &l.s, NULL, 0), 0);
	fake_device_init(&l.dev, o.n_blocks, o.block_tokens, 1000);
	return l;
}

static void close_lab(struct lab *l)
{
	scheduler_check(l->s);
	scheduler_destroy(l->s);
	fake_device_deinit(&l->dev);
}

// A prompt of n tokens: the first n_shared are the same for all, the rest only its own.
static struct sequence *make(struct lab *l, int n, int n_shared, int n_new)
{
	struct sequence *seq = mem_zalloc(1, sizeof *seq);
	seq->tokens = mem_alloc((size_t)(n + n_new) * sizeof *seq->tokens);
	seq->arrival = l->arrivals++;
	for (int i = 0; i < n; i++)
		seq->tokens[i] = i < n_shared ? i % 900 : (int32_t)(1000 + seq->arrival * 7919 + (uint64_t)i);
	seq->n_prompt = seq->n_tokens = n;
	seq->n_max = n + n_new;
	seq->first_logit = n - 1;
	seq->ns = "";
	seq->use_cache = true;
	return seq;
}

static struct sequence *add(struct lab *l, int n, int n_shared, int n_new)
{
	struct sequence *seq = make(l, n, n_shared, n_new);
	ck_assert_int_eq(scheduler_add(l->s, seq, l->now), 0);
	return seq;
}

static void drop(struct lab *l, struct sequence *seq)
{
	scheduler_finish(l->s, seq);
	free(seq->tokens);
	free(seq);
}

static bool step_for(struct lab *l, uint64_t duration)
{
	int32_t ids[MAX_SEQS_HERE];
	scheduler_check(l->s);
	l->plan = scheduler_plan(l->s, l->now);
	if (!l->plan->n_items)
		return false;
	fake_device_run(&l->dev, l->plan);
	for (int i = 0; i < l->plan->n_items; i++)
		ids[i] = l->plan->items[i].samples ? fake_sample(&l->dev, &l->plan->items[i]) : -1;
	scheduler_commit(l->s, duration);
	l->n_sampled = 0;
	for (int i = 0; i < l->plan->n_items; i++) {
		struct sequence *seq = l->plan->items[i].seq;
		if (ids[i] < 0)
			continue;
		l->n_sampled++;
		if (seq->n_tokens + 1 < seq->n_max)
			scheduler_append(l->s, seq, ids[i]);
		else
			scheduler_finish(l->s, seq);
	}
	l->now += duration;
	return true;
}

static bool step(struct lab *l)
{
	return step_for(l, 1000000);
}

static void run_all(struct lab *l)
{
	int limit = 200000;
	while (scheduler_has_work(l->s) && limit-- > 0)
		ck_assert(step(l));
	ck_assert_int_gt(limit, 0);
}

static void free_all(struct sequence **seqs, int n)
{
	for (int i = 0; i < n; i++) {
		free(seqs[i]->tokens);
		free(seqs[i]);
	}
}

static struct scheduler_stats stats(const struct lab *l)
{
	struct scheduler_stats st;
	scheduler_get_stats(l->s, &st);
	return st;
}

static const struct plan_item *item_of(const struct lab *l, const struct sequence *seq)
{
	for (int i = 0; i < l->plan->n_items; i++)
		if (l->plan->items[i].seq == seq)
			return &l->plan->items[i];
	return NULL;
}

// --- reuse

START_TEST(reuse_f6_cached_tokens_are_true)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *seqs[4];
	for (int i = 0; i < 2; i++) {
		seqs[i] = add(&l, 100, 100, 4);
		run_all(&l);
	}
	ck_assert_int_eq(seqs[0]->n_cached, 0);
	ck_assert_int_eq(seqs[1]->n_cached, 99);
	seqs[2] = add(&l, 3190, 0, 4); // takes all there is
	run_all(&l);
	seqs[3] = add(&l, 100, 100, 4);
	run_all(&l);
	ck_assert_int_eq(seqs[3]->n_cached, 0);
	ck_assert_uint_eq(stats(&l).prefix_queries, 100 + 100 + 3190 + 100);
	ck_assert_uint_eq(stats(&l).prefix_hits, 99);
	free_all(seqs, 4);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_is_by_token_inside_a_block)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *seqs[2] = {add(&l, 100, 71, 1), NULL};
	run_all(&l);
	seqs[1] = add(&l, 100, 71, 1);
	ck_assert(step(&l));
	ck_assert_int_eq(l.plan->n_copies, 1);
	ck_assert_int_eq(l.plan->copies[0].n, 71 % B);
	ck_assert_int_eq(seqs[1]->n_cached, 71);
	run_all(&l);
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_includes_what_was_generated)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *a = add(&l, 40, 40, 60);
	run_all(&l);
	struct sequence *b = make(&l, 99, 0, 5);
	memcpy(b->tokens, a->tokens, 99 * sizeof *b->tokens); // the next turn: prompt and answer
	ck_assert_int_eq(scheduler_add(l.s, b, l.now), 0);
	run_all(&l);
	ck_assert_int_eq(b->n_cached, 98);
	struct sequence *seqs[] = {a, b};
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_of_an_unreferenced_tail_needs_no_copy)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *a = add(&l, 40, 40, 11);
	run_all(&l);
	struct sequence *b = make(&l, 60, 0, 5);
	for (int i = 0; i < 60; i++)
		b->tokens[i] = i < 50 ? a->tokens[i] : 777;
	ck_assert_int_eq(scheduler_add(l.s, b, l.now), 0);
	ck_assert(step(&l));
	ck_assert_int_eq(l.plan->n_copies, 0);
	ck_assert_int_eq(b->n_cached, a->n_tokens);
	run_all(&l);
	struct sequence *seqs[] = {a, b};
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_f10_a_side_request_leaves_both_branches)
{
	struct lab l = open_lab(defaults(100));
	struct sequence *seqs[3];
	seqs[0] = add(&l, 200, 200, 20);
	run_all(&l);
	seqs[1] = add(&l, 230, 150, 20); // "make a title": shares the head
	run_all(&l);
	seqs[2] = make(&l, 260, 0, 20);
	for (int i = 0; i < 260; i++)
		seqs[2]->tokens[i] = i < 219 ? seqs[0]->tokens[i] : 5;
	ck_assert_int_eq(scheduler_add(l.s, seqs[2], l.now), 0);
	run_all(&l);
	ck_assert_int_eq(seqs[1]->n_cached, 150);
	ck_assert_int_ge(seqs[2]->n_cached, 219);
	free_all(seqs, 3);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_f12_a_long_prompt_is_findable_chunk_by_chunk)
{
	struct lab l = open_lab(defaults(400));
	struct sequence *a = add(&l, 4000, 4000, 1);
	ck_assert(step(&l));
	ck_assert(step(&l));
	drop(&l, a); // cancelled in the middle of its prompt
	struct sequence *b = add(&l, 4000, 4000, 1);
	ck_assert(step(&l));
	ck_assert_int_eq(b->n_cached, 1024);
	drop(&l, b);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_stops_at_the_first_wanted_logit)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *a = add(&l, 100, 100, 1), *b = make(&l, 100, 100, 1);
	run_all(&l);
	b->first_logit = 37;
	ck_assert_int_eq(scheduler_add(l.s, b, l.now), 0);
	ck_assert(step(&l));
	ck_assert_int_eq(b->n_cached, 37);
	ck_assert_int_eq(item_of(&l, b)->n, 63);
	ck_assert_int_eq(item_of(&l, b)->n_out, 63);
	ck_assert_int_eq(stats(&l).blocks_cached, 7); // computed again, and merged
	struct sequence *seqs[] = {a, b};
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(reuse_can_be_refused)
{
	for (int server = 0; server < 2; server++) {
		struct scheduler_options o = defaults(200);
		o.prefix_caching = !server;
		struct lab l = open_lab(o);
		struct sequence *seqs[3];
		for (int i = 0; i < 3; i++) {
			seqs[i] = make(&l, 100, 100, 4);
			seqs[i]->use_cache = server || i == 2;
			ck_assert_int_eq(scheduler_add(l.s, seqs[i], l.now), 0);
			run_all(&l);
			ck_assert_int_eq(seqs[i]->n_cached, 0);
			ck_assert_int_eq(stats(&l).blocks_cached, !server && i == 2 ? 7 : 0);
		}
		free_all(seqs, 3);
		close_lab(&l);
	}
}
END_TEST

START_TEST(reuse_f3_never_crosses_namespaces)
{
	struct lab l = open_lab(defaults(200));
	struct sequence *seqs[3];
	static const char *const keys[] = {"org_1|2345", "org_12345|", "org_1|2345"};
	for (int i = 0; i < 3; i++) {
		seqs[i] = make(&l, 64, 64, 2);
		seqs[i]->ns = keys[i];
		seqs[i]->ns_len = strlen(keys[i]);
		ck_assert_int_eq(scheduler_add(l.s, seqs[i], l.now), 0);
	}
	run_all(&l);
	ck_assert_int_eq(seqs[0]->n_cached, 0);
	ck_assert_int_eq(seqs[1]->n_cached, 0);
	ck_assert_int_eq(seqs[2]->n_cached, 63); // in flight
	free_all(seqs, 3);
	close_lab(&l);
}
END_TEST

// --- in flight

START_TEST(in_flight_twenty_equal_prompts_cost_one)
{
	static const int budgets[] = {128, 256, 600, 8192};
	for (size_t k = 0; k < sizeof budgets / sizeof *budgets; k++) {
		struct scheduler_options o = defaults(400);
		o.max_batched_tokens = budgets[k];
		struct lab l = open_lab(o);
		struct sequence *seqs[20];
		for (int i = 0; i < 20; i++)
			seqs[i] = add(&l, 600, 600, 8);
		run_all(&l);
		ck_assert_uint_eq(stats(&l).prompt_tokens_computed, 619);
		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(seqs[i]->n_cached, i ? 599 : 0);
		free_all(seqs, 20);
		close_lab(&l);
	}
}
END_TEST

START_TEST(in_flight_a_waiter_never_waits_for_one_that_is_gone)
{
	struct lab l = open_lab(defaults(400));
	struct sequence *a = add(&l, 2000, 2000, 8), *b = add(&l, 2000, 2000, 8), *c = add(&l, 2000, 2000, 8);
	ck_assert(step(&l));
	ck_assert_ptr_null(item_of(&l, b));
	drop(&l, a);
	ck_assert(step(&l)); // cancelled: the next one computes, from where it stopped
	ck_assert_int_eq(item_of(&l, b)->start, 512);
	scheduler_pause(l.s, b, true);
	ck_assert(step(&l));
	ck_assert_int_eq(item_of(&l, c)->start, 1024);
	scheduler_pause(l.s, b, false);
	run_all(&l);
	ck_assert_uint_eq(stats(&l).prompt_tokens_computed, 2001);
	struct sequence *seqs[] = {b, c};
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(in_flight_urgency_passes_to_the_one_waited_for)
{
	struct scheduler_options o = defaults(400);
	o.max_batched_tokens = 128;
	struct lab l = open_lab(o);
	struct sequence *slow = add(&l, 3000, 3000, 2);
	slow->priority = 0;
	ck_assert(step(&l));
	struct sequence *other = add(&l, 1500, 0, 2), *urgent = make(&l, 3000, 3000, 2);
	urgent->priority = -1;
	ck_assert_int_eq(scheduler_add(l.s, urgent, l.now), 0);
	// Whoever computes the shared tokens, it is done at the urgent one's rank, once, and before the other prompt.
	while (urgent->state != SEQ_FINISHED)
		ck_assert(step(&l));
	ck_assert_int_lt(other->n_computed, 256); // no more than what was left of the last steps
	run_all(&l);
	ck_assert_uint_eq(stats(&l).prompt_tokens_computed, 3001 + 1500);
	struct sequence *seqs[] = {slow, other, urgent};
	free_all(seqs, 3);
	close_lab(&l);
}
END_TEST

START_TEST(in_flight_a_few_common_tokens_are_not_worth_a_step)
{
	struct lab l = open_lab(defaults(400));
	struct sequence *seqs[2] = {add(&l, 100, 5, 2), add(&l, 100, 5, 2)};
	ck_assert(step(&l));
	ck_assert_int_eq(l.plan->n_items, 2);
	run_all(&l);
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

// --- steps

START_TEST(step_decodes_come_first_and_the_oldest_prompt_gets_a_tile)
{
	struct scheduler_options o = defaults(2000);
	o.target_itl_ns = 10000000;
	struct lab l = open_lab(o);
	struct sequence *seqs[9];
	for (int i = 0; i < 8; i++)
		seqs[i] = add(&l, 20, 0, 600);
	for (int i = 0; i < 100; i++)
		ck_assert(step_for(&l, 50000000)); // decodes alone take five times the target
	seqs[8] = add(&l, 1000, 0, 2);
	for (int i = 0; i < 62; i++) {
		ck_assert(step_for(&l, 66000000));
		ck_assert_int_eq(l.plan->n_items, 9);
		for (int k = 0; k < 8; k++)
			ck_assert_int_eq(l.plan->items[k].n, 1);
		ck_assert_int_eq(l.plan->items[8].n, 16);
	}
	run_all(&l);
	free_all(seqs, 9);
	close_lab(&l);
}
END_TEST

// Fixed 2 ms, 0.1 ms a prompt token, 0.2 ms a sequence: once learned, steps with a chunk keep to the target.
START_TEST(step_chunks_are_chosen_by_time)
{
	struct scheduler_options o = defaults(4000);
	o.target_itl_ns = 20000000;
	o.max_batched_tokens = 4096;
	struct lab l = open_lab(o);
	struct sequence *seqs[8];
	for (int i = 0; i < 8; i++)
		seqs[i] = add(&l, 50, 0, 1500);
	int over = 0, steps = 0, chunk = 0;
	for (int round = 0; round < 2; round++) {
		struct sequence *prompt_of = add(&l, 8000, 0, 9);
		while (prompt_of->n_tokens == 8000) {
			l.plan = scheduler_plan(l.s, l.now);
			int prompt = l.plan->n_tokens - 8;
			uint64_t took = 2000000 + (uint64_t)l.plan->n_items * 200000 + (uint64_t)(prompt > 0 ? prompt : 0) * 100000;
			fake_device_run(&l.dev, l.plan);
			scheduler_commit(l.s, took);
			for (int i = 0; i < l.plan->n_items; i++)
				if (l.plan->items[i].samples)
					scheduler_append(l.s, l.plan->items[i].seq, 5);
			l.now += took;
			steps += round;
			over += round && took > 22000000;
			chunk = round && prompt > chunk ? prompt : chunk;
		}
		drop(&l, prompt_of);
	}
	ck_assert_int_ge(steps, 40);
	ck_assert_int_eq(over, 0);
	ck_assert_int_ge(chunk, 128); // (20 - 2 - 1.8) / 0.1 = 162
	for (int i = 0; i < 8; i++)
		drop(&l, seqs[i]);
	close_lab(&l);
}
END_TEST

START_TEST(step_without_decodes_is_as_big_as_it_may_be)
{
	struct scheduler_options o = defaults(400);
	o.target_itl_ns = 1;
	struct lab l = open_lab(o);
	struct sequence *seq = add(&l, 5000, 0, 1);
	ck_assert(step_for(&l, 1000000000));
	ck_assert_int_eq(l.plan->n_tokens, 512);
	drop(&l, seq);
	close_lab(&l);
}
END_TEST

START_TEST(step_rows_of_prompt_logprobs_are_bounded)
{
	struct lab l = open_lab(defaults(400));
	struct sequence *seq = make(&l, 300, 0, 1);
	seq->first_logit = 100;
	ck_assert_int_eq(scheduler_add(l.s, seq, l.now), 0);
	int rows = 0;
	while (seq->state != SEQ_FINISHED) {
		ck_assert(step(&l));
		ck_assert_int_le(l.plan->n_out, 64);
		rows += l.plan->n_out;
		seq->first_logit = seq->n_computed < 299 && seq->n_computed > 100 ? seq->n_computed : seq->first_logit;
	}
	ck_assert_int_eq(rows, 200);
	free_all(&seq, 1);
	close_lab(&l);
}
END_TEST

// --- admission

START_TEST(admission_refuses_what_can_never_fit)
{
	struct scheduler_options o = defaults(4);
	o.max_model_len = 100;
	o.queue_limit = 2;
	struct lab l = open_lab(o);
	struct sequence *a = make(&l, 64, 0, 1), *b = make(&l, 64, 0, 0), *c = make(&l, 63, 0, 37),
					*d = make(&l, 90, 0, 20);
	ck_assert_int_eq(scheduler_add(l.s, a, 0), ERR_LIMIT); // 65 tokens in four blocks
	ck_assert_int_eq(scheduler_add(l.s, d, 0), ERR_LIMIT); // over max_model_len
	ck_assert_int_eq(scheduler_add(l.s, b, 0), 0);		   // only to be scored
	ck_assert_int_eq(scheduler_add(l.s, c, 0), 0);
	ck_assert_int_eq(c->n_max, 64); // ends by length where the pool ends
	ck_assert_int_eq(scheduler_add(l.s, a, 0), ERR_LIMIT);
	a->n_tokens = a->n_prompt = 10;
	ck_assert_int_eq(scheduler_add(l.s, a, 0), ERR_BUSY);
	run_all(&l);
	ck_assert_int_eq(c->n_tokens, 63);
	struct sequence *seqs[] = {a, b, c, d};
	free_all(seqs, 4);
	close_lab(&l);
}
END_TEST

START_TEST(admission_bounds_the_queue_in_tokens)
{
	struct scheduler_options o = defaults(100);
	o.queue_tokens = 100;
	struct lab l = open_lab(o);
	struct sequence *a = add(&l, 150, 0, 1), *b = make(&l, 10, 0, 1);
	ck_assert_int_eq(scheduler_add(l.s, b, 0), ERR_BUSY);
	run_all(&l);
	ck_assert_int_eq(scheduler_add(l.s, b, 0), 0);
	run_all(&l);
	struct sequence *seqs[] = {a, b};
	free_all(seqs, 2);
	close_lab(&l);
}
END_TEST

START_TEST(admission_g4_small_ones_pass_a_big_one_but_never_starve_it)
{
	struct lab l = open_lab(defaults(100));
	struct sequence *hog = add(&l, 800, 0, 4000), *big = NULL, *small[200];
	ck_assert(step(&l));
	ck_assert(step(&l));
	big = add(&l, 1400, 0, 2); // 88 blocks beside 51
	int passed = 0;
	for (int i = 0; i < 200; i++) {
		small[i] = add(&l, 20, 0, 2);
		ck_assert(step(&l));
		ck_assert(step(&l));
	}
	for (int i = 0; i < 200; i++)
		passed += small[i]->state == SEQ_FINISHED;
	ck_assert_int_ge(passed, 8);
	ck_assert_int_le(passed, 16);
	scheduler_finish(l.s, hog);
	ck_assert(step(&l));
	ck_assert_int_eq(big->state, SEQ_RUNNING);
	run_all(&l);
	free_all(small, 200);
	free_all((struct sequence *[]){hog, big}, 2);
	close_lab(&l);
}
END_TEST

START_TEST(admission_an_urgent_class_takes_a_seat)
{
	struct scheduler_options o = defaults(100);
	o.max_seqs = 2;
	struct lab l = open_lab(o);
	struct sequence *a = add(&l, 50, 0, 50), *b = add(&l, 50, 0, 50), *urgent = make(&l, 50, 0, 5);
	ck_assert(step(&l));
	urgent->priority = -1;
	ck_assert_int_eq(scheduler_add(l.s, urgent, l.now), 0);
	ck_assert(step(&l));
	ck_assert_int_eq(urgent->state, SEQ_RUNNING);
	ck_assert_int_eq(a->state, SEQ_RUNNING);
	ck_assert_int_eq(b->n_preempted, 1);
	run_all(&l);
	ck_assert_uint_eq(stats(&l).prompt_tokens_recomputed, 0); // it found what it had
	free_all((struct sequence *[]){a, b, urgent}, 3);
	close_lab(&l);
}
END_TEST

// --- preemption

START_TEST(preemption_g1_g3_a_pool_a_quarter_of_the_need_serves_all)
{
	struct lab l = open_lab(defaults(64 * 20 / 4));
	struct sequence *seqs[64];
	for (int i = 0; i < 64; i++)
		seqs[i] = add(&l, 160, 0, 160);
	int most = 0;
	run_all(&l);
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(seqs[i]->state, SEQ_FINISHED);
		most = seqs[i]->n_preempted > most ? seqs[i]->n_preempted : most;
		// The same tokens as alone: each is a function of those before it.
		for (int k = 160; k < seqs[i]->n_tokens; k++)
			ck_assert_int_eq(seqs[i]->tokens[k], (int32_t)(fake_chain(seqs[i], k) % 1000));
	}
	ck_assert_int_eq(seqs[0]->n_preempted, 0); // the oldest never
	ck_assert_int_le(most, 4);
	ck_assert_uint_le(stats(&l).prompt_tokens_recomputed, 64 * 320 / 10);
	free_all(seqs, 64);
	close_lab(&l);
}
END_TEST

START_TEST(preemption_takes_the_paused_first)
{
	struct lab l = open_lab(defaults(30));
	struct sequence *a = add(&l, 100, 0, 300), *b = add(&l, 100, 0, 300);
	ck_assert(step(&l));
	ck_assert_int_eq(b->state, SEQ_RUNNING);
	scheduler_pause(l.s, a, true);
	for (int i = 0; i < 290; i++) {
		ck_assert(step(&l));
		ck_assert_ptr_null(item_of(&l, a));
	}
	ck_assert_int_eq(a->n_preempted, 1);
	ck_assert_int_eq(b->n_preempted, 0);
	scheduler_finish(l.s, b);
	ck_assert(!scheduler_has_work(l.s));
	ck_assert(!step(&l));
	scheduler_pause(l.s, a, false);
	run_all(&l);
	free_all((struct sequence *[]){a, b}, 2);
	close_lab(&l);
}
END_TEST

// --- cancellation

START_TEST(cancel_g6_gives_everything_back_in_any_state)
{
	struct scheduler_options o = defaults(100);
	o.max_seqs = 2;
	struct lab l = open_lab(o);
	struct sequence *decoding = add(&l, 20, 0, 50), *prefilling = add(&l, 1000, 0, 5), *queued = add(&l, 20, 0, 5);
	ck_assert(step(&l));
	ck_assert_int_eq(decoding->n_tokens, 21);
	ck_assert_int_lt(prefilling->n_computed, 1000);
	ck_assert_int_eq(queued->state, SEQ_WAITING);
	drop(&l, queued);
	drop(&l, prefilling);
	drop(&l, decoding);
	ck_assert(!scheduler_has_work(l.s));
	struct scheduler_stats st = stats(&l);
	ck_assert_int_eq(st.blocks_used, 0);
	ck_assert_int_eq(st.n_waiting + st.n_running, 0);
	ck_assert_int_eq(st.waiting_tokens, 0);
	close_lab(&l);
}
END_TEST

START_TEST(cancel_g8_ten_thousand_requests_leave_nothing)
{
	struct lab l = open_lab(defaults(50));
	for (int i = 0; i < 10000; i++) {
		struct sequence *seq = add(&l, 10, 3, 3);
		ck_assert(step(&l));
		drop(&l, seq);
	}
	ck_assert_int_eq(stats(&l).blocks_used, 0);
	close_lab(&l);
}
END_TEST

START_TEST(options_are_checked_by_name)
{
	struct scheduler *s;
	char err[200];
	struct scheduler_options o = defaults(10);
	o.max_batched_tokens = 79; // 64 seats and a tile are 80
	ck_assert_int_eq(scheduler_create(&o, &s, err, sizeof err), ERR_INVALID);
	ck_assert_str_eq(err, "max_batched_tokens is 79, must be 80 to 1073741824");
	o = defaults(0);
	ck_assert_int_eq(scheduler_create(&o, &s, err, sizeof err), ERR_INVALID);
	scheduler_destroy(NULL);
}
END_TEST

// --- speed: generous bounds that only a change of the order of growth can miss

static double microseconds_a_step(struct lab *l, int steps)
{
	uint64_t total = 0;
	for (int i = 0; i < steps; i++) {
		uint64_t from = clock_now_ns();
		const struct plan *p = scheduler_plan(l->s, l->now);
		scheduler_commit(l->s, 1000000);
		total += clock_now_ns() - from;
		for (int k = 0; k < p->n_items; k++)
			if (p->items[k].samples)
				scheduler_append(l->s, p->items[k].seq, i * 31 + k);
	}
	return (double)total / 1e3 / steps;
}

START_TEST(speed_of_a_step_of_64_decodes)
{
	struct scheduler_options o = defaults(20000);
	o.target_itl_ns = 50000000;
	o.max_batched_tokens = 4096;
	struct lab l = open_lab(o);
	struct sequence *seqs[64];
	for (int i = 0; i < 64; i++)
		seqs[i] = add(&l, 100, 0, 3000);
	while (stats(&l).n_waiting)
		ck_assert(step(&l));
	double us = microseconds_a_step(&l, 2000);
	printf("64 decodes: %.1f us a plan and commit\n", us);
	ck_assert_double_lt(us, 400);
	for (int i = 0; i < 64; i++)
		drop(&l, seqs[i]);
	close_lab(&l);
}
END_TEST

// F9: evicting from a full pool of prompts that never come again costs the same whatever its size.
START_TEST(speed_f9_of_a_full_pool)
{
	double us[2];
	for (int big = 0; big < 2; big++) {
		struct scheduler_options o = defaults(big ? 60000 : 600);
		struct lab l = open_lab(o);
		uint64_t total = 0;
		for (int i = 0; i < (big ? 8000 : 4000); i++) {
			struct sequence *seq = add(&l, 160, 0, 1);
			uint64_t from = clock_now_ns();
			scheduler_plan(l.s, l.now);
			scheduler_commit(l.s, 1000);
			scheduler_finish(l.s, seq);
			total += i >= (big ? 6500 : 1000) ? clock_now_ns() - from : 0;
			free(seq->tokens);
			free(seq);
		}
		ck_assert_uint_gt(stats(&l).evictions, 10000);
		us[big] = (double)total / 1e3 / (big ? 1500 : 3000);
		close_lab(&l);
	}
	printf("a prompt of ten blocks into a full pool: %.1f us (600 blocks), %.1f us (60,000)\n", us[0], us[1]);
	ck_assert_double_lt(us[1], us[0] * 10 + 50);
}
END_TEST

static TCase *tests_of_reuse(void)
{
	TCase *c = tcase_create("reuse");
	tcase_add_test(c, reuse_f6_cached_tokens_are_true);
	tcase_add_test(c, reuse_is_by_token_inside_a_block);
	tcase_add_test(c, reuse_includes_what_was_generated);
	tcase_add_test(c, reuse_of_an_unreferenced_tail_needs_no_copy);
	tcase_add_test(c, reuse_f10_a_side_request_leaves_both_branches);
	tcase_add_test(c, reuse_f12_a_long_prompt_is_findable_chunk_by_chunk);
	tcase_add_test(c, reuse_stops_at_the_first_wanted_logit);
	tcase_add_test(c, reuse_can_be_refused);
	tcase_add_test(c, reuse_f3_never_crosses_namespaces);
	tcase_add_test(c, in_flight_twenty_equal_prompts_cost_one);
	tcase_add_test(c, in_flight_a_waiter_never_waits_for_one_that_is_gone);
	tcase_add_test(c, in_flight_urgency_passes_to_the_one_waited_for);
	tcase_add_test(c, in_flight_a_few_common_tokens_are_not_worth_a_step);
	return c;
}

static TCase *tests_of_steps(void)
{
	TCase *c = tcase_create("steps");
	tcase_add_test(c, step_decodes_come_first_and_the_oldest_prompt_gets_a_tile);
	tcase_add_test(c, step_chunks_are_chosen_by_time);
	tcase_add_test(c, step_without_decodes_is_as_big_as_it_may_be);
	tcase_add_test(c, step_rows_of_prompt_logprobs_are_bounded);
	tcase_add_test(c, admission_refuses_what_can_never_fit);
	tcase_add_test(c, admission_bounds_the_queue_in_tokens);
	tcase_add_test(c, admission_g4_small_ones_pass_a_big_one_but_never_starve_it);
	tcase_add_test(c, admission_an_urgent_class_takes_a_seat);
	tcase_add_test(c, preemption_g1_g3_a_pool_a_quarter_of_the_need_serves_all);
	tcase_add_test(c, preemption_takes_the_paused_first);
	tcase_add_test(c, cancel_g6_gives_everything_back_in_any_state);
	tcase_add_test(c, cancel_g8_ten_thousand_requests_leave_nothing);
	tcase_add_test(c, options_are_checked_by_name);
	tcase_add_test(c, speed_of_a_step_of_64_decodes);
	tcase_add_test(c, speed_f9_of_a_full_pool);
	return c;
}

Suite *test_suite(void)
{
	Suite *s = suite_create("scheduler");
	TCase *cases[] = {tests_of_reuse(), tests_of_steps()};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tcase_set_timeout(cases[i], 30);
		suite_add_tcase(s, cases[i]);
	}
	return s;
}
