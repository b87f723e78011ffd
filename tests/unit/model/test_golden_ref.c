// SPDX-License-Identifier: Apache-2.0
//
// The reference back end against golden data from PyTorch in float32: every stored logit, log probability and greedy
// token of small models, one for each way in which a family differs.
#include "tests/unit/model/golden.h"
#include "tests/unit/model/runner.h"
#include "tests/unit/test.h"

#include "engine/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What float32 in another order of operations may differ by.
static const double LOGIT_TOLERANCE = 0.001, GAP = 0.001;

static const struct {
	const char *model, *golden;
} models[] = {
	{"stories260K/stories260K-f16.gguf", "stories260K-f16"},
	{"stories260K/stories260K-q8_0.gguf", "stories260K-q8_0"},
	{"stories260K/stories260K-q4_0.gguf", "stories260K-q4_0"},
	{"tiny/llama.gguf", "tiny/llama"},
	{"tiny/llama_tied.gguf", "tiny/llama_tied"},
	{"tiny/llama3_rope.gguf", "tiny/llama3_rope"},
	{"tiny/mistral.gguf", "tiny/mistral"},
	{"tiny/qwen2.gguf", "tiny/qwen2"},
	{"tiny/qwen3.gguf", "tiny/qwen3"},
	{"tiny/gemma3_text.gguf", "tiny/gemma3_text"},
};
enum { N_MODELS = sizeof models / sizeof models[0], MAX_LEN = 320 };

static struct runner *open_model(int i, const struct runner_options *o)
{
	char path[128], err[256] = "";
	snprintf(path, sizeof path, "tests/golden/%s", models[i].model);
	struct runner *r = runner_open(path, o, err, sizeof err);
	ck_assert_msg(r != NULL, "%s: %s", path, err);
	return r;
}

static struct golden *open_golden(int i)
{
	char path[128];
	snprintf(path, sizeof path, "tests/golden/%s", models[i].golden);
	return golden_read(path);
}

static int32_t *whole_text(const struct golden_case *c)
{
	int32_t *ids = mem_alloc((size_t)(c->n_prompt + c->n_greedy) * sizeof *ids);
	memcpy(ids, c->prompt, (size_t)c->n_prompt * sizeof *ids);
	memcpy(ids + c->n_prompt, c->greedy, (size_t)c->n_greedy * sizeof *ids);
	return ids;
}

// All cases of a model as one ragged batch, prompt and continuation together.
START_TEST(teacher_forced)
{
	struct golden *g = open_golden(_i);
	struct runner_options o = {
		.backend = "ref", .n_threads = 2, .kv = KV_F32, .max_tokens = 8 * MAX_LEN, .max_seqs = 8, .max_len = MAX_LEN};
	struct runner *r = open_model(_i, &o);
	struct chunk chunks[8];
	size_t rows = 0;
	ck_assert_int_eq(runner_n_vocab(r), g->n_vocab);
	ck_assert_int_le(g->n_cases, 8);
	for (int i = 0; i < g->n_cases; i++) {
		const struct golden_case *c = &g->cases[i];
		chunks[i] = (struct chunk){i, c->n_prompt + c->n_greedy, whole_text(c)};
		rows += (size_t)chunks[i].n;
	}
	float *logits = mem_zalloc(rows * (size_t)g->n_vocab, sizeof *logits), *at = logits;
	runner_step(r, chunks, g->n_cases, true, logits);
	struct golden_verdict v = {0};
	for (int i = 0; i < g->n_cases; i++) {
		golden_judge(g, &g->cases[i], 0, chunks[i].n, at, GAP, &v);
		at += (size_t)chunks[i].n * (size_t)g->n_vocab;
		free((void *)chunks[i].ids);
	}
	if (getenv("GOLDEN_VERBOSE"))
		printf("%-16s logits %.2e  logprobs %.2e  greedy %d of %d\n", models[_i].golden, v.worst_logit, v.worst_logprob,
			   v.n_equal, v.n_steps);
	ck_assert_msg(v.worst_logit <= LOGIT_TOLERANCE, "%s: a logit is off by %g", models[_i].model, v.worst_logit);
	ck_assert_msg(v.worst_logprob <= g->tolerance, "%s: a log probability is off by %g", models[_i].model,
				  v.worst_logprob);
	ck_assert_msg(v.n_wrong == 0, "%s: %d of %d greedy ids differ, first at step %d", models[_i].model, v.n_wrong,
				  v.n_steps, v.first_wrong);
	ck_assert_int_gt(v.n_steps, 0);
	free(logits);
	runner_close(r);
	golden_free(g);
}
END_TEST

// The model's own choices fed back to it, one token a step: the reference's continuation comes out.
START_TEST(free_greedy)
{
	struct golden *g = open_golden(_i);
	struct runner_options o = {
		.backend = "ref", .n_threads = 1, .kv = KV_F32, .max_tokens = MAX_LEN, .max_seqs = 1, .max_len = MAX_LEN};
	struct runner *r = open_model(_i, &o);
	float *logits = mem_zalloc((size_t)g->n_vocab, sizeof *logits);
	for (int i = 0; i < g->n_cases; i++) {
		const struct golden_case *c = &g->cases[i];
		struct chunk next = {0, c->n_prompt, c->prompt};
		runner_rewind(r, 0, 0);
		for (int step = 0; step < c->n_greedy; step++) {
			runner_step(r, &next, 1, false, logits);
			int32_t id = golden_argmax(logits, g->n_vocab);
			if (id != c->greedy[step] && c->gap[step] <= GAP)
				break; // a tie: from here on the texts may differ
			ck_assert_msg(id == c->greedy[step], "%s, %s, step %d: %d, not %d (gap %g)", models[_i].model, c->name,
						  step, id, c->greedy[step], c->gap[step]);
			next = (struct chunk){0, 1, &c->greedy[step]};
		}
	}
	free(logits);
	runner_close(r);
	golden_free(g);
}
END_TEST

// A 16-bit cache costs little.
START_TEST(half_precision_cache)
{
	struct golden *g = open_golden(_i);
	struct runner_options o = {
		.backend = "ref", .n_threads = 1, .kv = KV_F16, .max_tokens = MAX_LEN, .max_seqs = 1, .max_len = MAX_LEN};
	struct runner *r = open_model(_i, &o);
	const struct golden_case *c = &g->cases[g->n_cases - 1];
	int32_t *ids = whole_text(c);
	int n = c->n_prompt + c->n_greedy;
	float *logits = mem_zalloc((size_t)n * (size_t)g->n_vocab, sizeof *logits);
	runner_feed(r, 0, ids, n, logits);
	struct golden_verdict v = {0};
	golden_judge(g, c, 0, n, logits, 0.05, &v);
	double mean = v.sum_logprob / v.n_logprobs;
	ck_assert_msg(v.worst_logprob <= 0.1 && mean <= 0.005, "%s: log probabilities are off by %g, %g on average",
				  models[_i].model, v.worst_logprob, mean);
	ck_assert_int_eq(v.n_wrong, 0);
	free(logits);
	free(ids);
	runner_close(r);
	golden_free(g);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("golden_ref");
	TCase *t = tcase_create("models");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, teacher_forced, 0, N_MODELS);
	tcase_add_loop_test(t, free_greedy, 0, N_MODELS);
	tcase_add_loop_test(t, half_precision_cache, 0, N_MODELS);
	suite_add_tcase(s, t);
	return s;
}
