// SPDX-License-Identifier: Apache-2.0
//
// The promise of determinism, on the reference back end: the bits of a row do not depend on how its prompt was cut into
// chunks, on what else was in the step, on the size of a block, on the number of threads, or on what a recycled block
// held before.
#include "tests/unit/model/golden.h"
#include "tests/unit/model/runner.h"
#include "tests/unit/test.h"

#include "engine/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {
	"tests/golden/stories260K/stories260K-q4_0.gguf",
	"tests/golden/tiny/llama_tied.gguf",
	"tests/golden/tiny/mistral.gguf",
	"tests/golden/tiny/qwen3.gguf",
	"tests/golden/tiny/gemma3_text.gguf",
};
enum { N_MODELS = sizeof models / sizeof models[0], N_SEQS = 5, MAX_LEN = 120 };

struct rng {
	uint64_t state;
};

static int pick(struct rng *r, int min, int max)
{
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return min + (int)((r->state >> 33) % (uint64_t)(max - min + 1));
}

static struct runner *open_model(int i, enum kv_dtype kv, int threads, int block_tokens)
{
	struct runner_options o = {.backend = "ref",
							   .n_threads = threads,
							   .kv = kv,
							   .block_tokens = block_tokens,
							   .max_tokens = N_SEQS * MAX_LEN,
							   .max_seqs = N_SEQS,
							   .max_len = MAX_LEN};
	char err[256] = "";
	struct runner *r = runner_open(models[i], &o, err, sizeof err);
	ck_assert_msg(r != NULL, "%s", err);
	return r;
}

struct texts {
	int n[N_SEQS];
	int32_t ids[N_SEQS][MAX_LEN];
	float *alone[N_SEQS]; // [n][V]: logits of the sequence by itself, whole
};

static void make_texts(struct texts *t, struct runner *r, struct rng *rng)
{
	for (int s = 0; s < N_SEQS; s++) {
		t->n[s] = s == 0 ? MAX_LEN : pick(rng, 1, MAX_LEN);
		for (int i = 0; i < t->n[s]; i++)
			t->ids[s][i] = pick(rng, 3, runner_n_vocab(r) - 1);
		t->alone[s] = mem_zalloc((size_t)t->n[s] * (size_t)runner_n_vocab(r), sizeof(float));
		runner_feed(r, s, t->ids[s], t->n[s], t->alone[s]);
		runner_rewind(r, s, 0);
	}
}

static void free_texts(struct texts *t)
{
	for (int s = 0; s < N_SEQS; s++)
		free(t->alone[s]);
}

static void expect_same(const struct texts *t, int s, int first, int n, int n_vocab, const float *rows)
{
	size_t row = (size_t)n_vocab * sizeof *rows;
	for (int i = 0; i < n; i++)
		ck_assert_msg(
			!memcmp(rows + (size_t)i * (size_t)n_vocab, t->alone[s] + (size_t)(first + i) * (size_t)n_vocab, row),
			"sequence %d, token %d of %d: other bits than alone", s, first + i, t->n[s]);
}

// Steps of random chunks of random sequences, in random order, until all are through.
static void run_ragged(struct runner *r, const struct texts *t, struct rng *rng)
{
	int done[N_SEQS] = {0}, v = runner_n_vocab(r);
	float *logits = mem_alloc((size_t)(N_SEQS * MAX_LEN) * (size_t)v * sizeof *logits);
	for (;;) {
		struct chunk chunks[N_SEQS];
		int n = 0, from = pick(rng, 0, N_SEQS - 1), step = pick(rng, 1, N_SEQS - 1), left = 0;
		for (int k = 0; k < N_SEQS; k++) { // N_SEQS is prime: every sequence once
			int s = (from + k * step) % N_SEQS, rest = t->n[s] - done[s];
			left += rest;
			if (rest && pick(rng, 0, 2))
				chunks[n++] = (struct chunk){s, pick(rng, 0, 1) ? 1 : pick(rng, 1, rest), t->ids[s] + done[s]};
		}
		if (!left)
			break;
		if (!n)
			continue;
		runner_step(r, chunks, n, true, logits);
		const float *at = logits;
		for (int k = 0; k < n; k++) {
			int s = chunks[k].seq;
			expect_same(t, s, done[s], chunks[k].n, v, at);
			at += (size_t)chunks[k].n * (size_t)v;
			done[s] += chunks[k].n;
		}
	}
	for (int s = 0; s < N_SEQS; s++)
		runner_rewind(r, s, 0);
	free(logits);
}

START_TEST(ragged_batches)
{
	struct rng rng = {(uint64_t)_i * 77 + 5};
	struct texts t;
	struct runner *r = open_model(_i, _i % 2 ? KV_F32 : KV_F16, 2, 16);
	make_texts(&t, r, &rng);
	for (int round = 0; round < 4; round++)
		run_ragged(r, &t, &rng);
	free_texts(&t);
	runner_close(r);
}
END_TEST

START_TEST(threads_and_blocks)
{
	struct rng rng = {(uint64_t)_i * 31 + 9};
	struct texts t;
	struct runner *one = open_model(_i, KV_F16, 1, 16), *other = open_model(_i, KV_F16, 3, 8);
	make_texts(&t, one, &rng);
	run_ragged(other, &t, &rng);
	free_texts(&t);
	runner_close(one);
	runner_close(other);
}
END_TEST

// Blocks are recycled with what they held: bytes that are NaN in every type must never reach a sum.
START_TEST(poisoned_blocks)
{
	struct rng rng = {(uint64_t)_i * 13 + 1};
	struct texts t;
	struct runner *r = open_model(_i, _i % 2 ? KV_F16 : KV_F32, 2, 16);
	make_texts(&t, r, &rng);
	runner_poison(r);
	run_ragged(r, &t, &rng);
	free_texts(&t);
	runner_close(r);
}
END_TEST

// A text that goes on from a copy of another's first tokens, cut anywhere in a block.
START_TEST(copied_prefix)
{
	struct rng rng = {(uint64_t)_i * 3 + 2};
	struct texts t;
	struct runner *r = open_model(_i, KV_F16, 2, 16);
	make_texts(&t, r, &rng);
	int v = runner_n_vocab(r);
	float *logits = mem_alloc((size_t)MAX_LEN * (size_t)v * sizeof *logits);
	for (int cut = 1; cut < MAX_LEN; cut += 7) {
		runner_poison(r);
		runner_feed(r, 0, t.ids[0], cut, logits);
		runner_fork(r, 0, 1, cut);
		runner_feed(r, 0, t.ids[1], 1, logits); // the original goes its own way
		runner_feed(r, 1, t.ids[0] + cut, t.n[0] - cut, logits);
		expect_same(&t, 0, cut, t.n[0] - cut, v, logits);
	}
	free(logits);
	free_texts(&t);
	runner_close(r);
}
END_TEST

// Only asked-for rows are written, and asking for fewer changes no bit.
START_TEST(last_rows_only)
{
	struct rng rng = {(uint64_t)_i + 100};
	struct texts t;
	struct runner *r = open_model(_i, KV_F32, 2, 16);
	make_texts(&t, r, &rng);
	struct chunk chunks[N_SEQS];
	int v = runner_n_vocab(r);
	for (int s = 0; s < N_SEQS; s++)
		chunks[s] = (struct chunk){s, t.n[s], t.ids[s]};
	float *logits = mem_alloc((size_t)(N_SEQS + 1) * (size_t)v * sizeof *logits),
		  *guard = logits + (size_t)N_SEQS * (size_t)v;
	for (int i = 0; i < v; i++)
		guard[i] = 12345;
	runner_step(r, chunks, N_SEQS, false, logits);
	for (int s = 0; s < N_SEQS; s++)
		expect_same(&t, s, t.n[s] - 1, 1, v, logits + (size_t)s * (size_t)v);
	for (int i = 0; i < v; i++)
		ck_assert(guard[i] == 12345);
	free(logits);
	free_texts(&t);
	runner_close(r);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("forward");
	TCase *t = tcase_create("determinism");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, ragged_batches, 0, N_MODELS);
	tcase_add_loop_test(t, threads_and_blocks, 0, N_MODELS);
	tcase_add_loop_test(t, poisoned_blocks, 0, N_MODELS);
	tcase_add_loop_test(t, copied_prefix, 0, N_MODELS);
	tcase_add_loop_test(t, last_rows_only, 0, N_MODELS);
	suite_add_tcase(s, t);
	return s;
}
