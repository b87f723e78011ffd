// SPDX-License-Identifier: Apache-2.0
//
// Published models against golden data, on any back end:
//
//     test_golden_real BACKEND MODEL.gguf FOLDER [MAX_PROMPT] [TEXT_TOKENS]
//
// Prompts longer than MAX_PROMPT are left out (0: none); the first TEXT_TOKENS of the perplexity text are judged (0:
// none, -1: all). The reference back end must agree as float32 does. Others quantise activations, so they are held to
// what that may cost: never another token where the reference was sure, log probabilities close on average, perplexity
// the same.
#include "tests/unit/model/golden.h"
#include "tests/unit/model/runner.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/model/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 }; // of a step: their logits are kept, 1 MB each for a vocabulary of 262,144

struct limits {
	double gap; // a step whose reference gap is larger must choose the same token
	double worst_logit, worst_logprob, mean_logprob;
	double equal_share; // of steps with the same token
	double perplexity;	// relative
};

struct run {
	struct runner *r;
	struct golden *g;
	struct limits limit;
	float *rows;
	int failures;
};

static void expect(struct run *run, bool ok, const char *what, double found, double limit)
{
	printf("  %-28s %-12.6g limit %-10.6g %s\n", what, found, limit, ok ? "ok" : "FAILED");
	run->failures += !ok;
}

static bool is_quantised(const char *path)
{
	struct gguf *g;
	char err[256];
	if (gguf_open(path, &g, err, sizeof err))
		return false; // runner_open says why
	bool found = false;
	for (size_t i = 0; i < gguf_n_tensors(g); i++)
		found |= dtype_info(gguf_tensor_at(g, i)->type)->block > 1;
	gguf_close(g);
	return found;
}

static struct limits limits_of(const char *backend, const char *model)
{
	if (!strcmp(backend, "ref"))
		return (struct limits){.gap = 0.001,
							   .worst_logit = 0.001,
							   .worst_logprob = 0.002,
							   .mean_logprob = 0.0001,
							   .equal_share = 0.99,
							   .perplexity = 0.0001};
	return (struct limits){.gap = is_quantised(model) ? 0.5 : 0.05,
						   .worst_logit = INFINITY,
						   .worst_logprob = INFINITY,
						   .mean_logprob = 0.2,
						   .equal_share = 0.95,
						   .perplexity = 0.005};
}

static void run_case(struct run *run, const struct golden_case *c, struct golden_verdict *v)
{
	int n = c->n_prompt + c->n_greedy;
	struct golden_verdict one = {0};
	int32_t *ids = mem_alloc((size_t)n * sizeof *ids);
	uint64_t from = clock_now_ns();
	memcpy(ids, c->prompt, (size_t)c->n_prompt * sizeof *ids);
	memcpy(ids + c->n_prompt, c->greedy, (size_t)c->n_greedy * sizeof *ids);
	runner_rewind(run->r, 0, 0);
	for (int at = 0; at < n; at += ROWS) {
		int more = n - at < ROWS ? n - at : ROWS;
		runner_feed(run->r, 0, ids + at, more, run->rows);
		golden_judge(run->g, c, at, more, run->rows, run->limit.gap, &one);
	}
	free(ids);
	printf("  %-12s %4d tokens  logits %.2e  logprobs worst %.2e mean %.2e  tokens %d of %d equal, %d wrong  %.1f s\n",
		   c->name, n, one.worst_logit, one.worst_logprob, one.sum_logprob / one.n_logprobs, one.n_equal, one.n_steps,
		   one.n_wrong, (double)(clock_now_ns() - from) * 1e-9);
	v->worst_logit = fmax(v->worst_logit, one.worst_logit);
	v->worst_logprob = fmax(v->worst_logprob, one.worst_logprob);
	v->sum_logprob += one.sum_logprob;
	v->n_logprobs += one.n_logprobs;
	v->n_steps += one.n_steps;
	v->n_equal += one.n_equal;
	v->n_wrong += one.n_wrong;
}

static void run_cases(struct run *run, int max_prompt)
{
	struct golden_verdict v = {0};
	for (int i = 0; i < run->g->n_cases; i++)
		if (run->g->cases[i].n_prompt <= max_prompt)
			run_case(run, &run->g->cases[i], &v);
	if (!v.n_steps)
		return;
	const struct limits *l = &run->limit;
	double mean = v.sum_logprob / v.n_logprobs, share = (double)v.n_equal / v.n_steps;
	expect(run, v.worst_logit <= l->worst_logit, "worst logit", v.worst_logit, l->worst_logit);
	expect(run, v.worst_logprob <= l->worst_logprob, "worst log probability", v.worst_logprob, l->worst_logprob);
	expect(run, mean <= l->mean_logprob, "mean log probability", mean, l->mean_logprob);
	expect(run, v.n_wrong == 0, "wrong tokens", v.n_wrong, 0);
	expect(run, share >= l->equal_share, "share of equal tokens", share, l->equal_share);
}

static void run_text(struct run *run, const char *dir, int tokens)
{
	struct golden_text *t = golden_read_text(dir);
	int n = tokens < 0 || tokens > t->n ? t->n : tokens, v = run->g->n_vocab;
	double found = 0, wanted = 0;
	uint64_t from = clock_now_ns();
	runner_rewind(run->r, 0, 0);
	for (int at = 0; at < n; at += ROWS) {
		int more = n - at < ROWS ? n - at : ROWS;
		runner_feed(run->r, 0, t->ids + at, more, run->rows);
		for (int i = at; i < at + more && i + 1 < n; i++) {
			const float *row = run->rows + (size_t)(i - at) * (size_t)v;
			found += golden_logsum(row, v) - (double)row[t->ids[i + 1]];
			wanted += (double)t->nll[i];
		}
	}
	double ours = exp(found / (n - 1)), theirs = exp(wanted / (n - 1));
	printf("  perplexity of %d tokens: %.4f, reference %.4f  %.1f s\n", n, ours, theirs,
		   (double)(clock_now_ns() - from) * 1e-9);
	expect(run, fabs(ours / theirs - 1) <= run->limit.perplexity, "perplexity, relative", ours / theirs - 1,
		   run->limit.perplexity);
	golden_free_text(t);
}

static int usage(void)
{
	fprintf(stderr, "usage: test_golden_real ref|cpu|cpu:ISA MODEL.gguf FOLDER [MAX_PROMPT] [TEXT_TOKENS]\n");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc > 6)
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0); // it runs for minutes: show each line as it comes
	const char *backend = argv[1], *model = argv[2], *dir = argv[3];
	int max_prompt = argc > 4 ? atoi(argv[4]) : 1 << 20, text = argc > 5 ? atoi(argv[5]) : 0;
	char err[256] = "";
	struct runner_options o = {.backend = backend,
							   .kv = strcmp(backend, "ref") ? KV_F16 : KV_F32,
							   .max_tokens = ROWS,
							   .max_seqs = 1,
							   .max_len = 4096};
	struct run run = {.r = runner_open(model, &o, err, sizeof err)};
	if (!run.r) {
		fprintf(stderr, "%s\n", err);
		return EXIT_FAILURE;
	}
	run.g = golden_read(dir);
	run.limit = limits_of(backend, model);
	run.rows = mem_zalloc((size_t)ROWS * (size_t)run.g->n_vocab, sizeof *run.rows);
	printf("%s on %s\n", model, runner_describe(run.r));
	if (runner_n_vocab(run.r) != run.g->n_vocab) {
		fprintf(stderr, "the model has %d tokens, the golden data %d\n", runner_n_vocab(run.r), run.g->n_vocab);
		return EXIT_FAILURE;
	}
	if (max_prompt)
		run_cases(&run, max_prompt);
	if (text)
		run_text(&run, dir, text);
	free(run.rows);
	golden_free(run.g);
	runner_close(run.r);
	return run.failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
