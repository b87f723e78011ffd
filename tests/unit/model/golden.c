// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/model/golden.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *read_json(const char *dir, const char *name)
{
	char path[512];
	json_error_t e;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	json_t *root = json_load_file(path, 0, &e);
	CHECK(root, "%s:%d: %s", path, e.line, e.text);
	return root;
}

static float *read_floats(const char *dir, const char *name, size_t n)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "rb");
	CHECK(f, "%s", path);
	float *v = mem_zalloc(n, sizeof *v);
	CHECK(fread(v, sizeof *v, n, f) == n, "%s holds less than %zu floats", path, n);
	CHECK(fgetc(f) == EOF, "%s holds more than %zu floats", path, n);
	fclose(f);
	return v;
}

// An array of numbers, or of arrays of numbers laid end to end; *n counts the outer elements.
static double *numbers(const json_t *a, int inner, int *n)
{
	size_t outer = json_array_size(a);
	double *v = mem_zalloc(outer * (size_t)inner + 1, sizeof *v);
	for (size_t i = 0; i < outer; i++)
		for (int k = 0; k < inner; k++) {
			const json_t *e = json_array_get(a, i);
			v[i * (size_t)inner + (size_t)k] = json_number_value(json_is_array(e) ? json_array_get(e, (size_t)k) : e);
		}
	*n = (int)outer;
	return v;
}

static int32_t *integers(const json_t *a, int inner, int *n)
{
	double *d = numbers(a, inner, n);
	size_t count = (size_t)*n * (size_t)inner;
	int32_t *v = mem_zalloc(count + 1, sizeof *v);
	for (size_t i = 0; i < count; i++)
		v[i] = (int32_t)d[i];
	free(d);
	return v;
}

static void read_rows(const struct golden *g, struct golden_case *c, const json_t *logits)
{
	const json_t *at = json_object_get(logits, "positions");
	c->n_rows = (int)json_integer_value(json_array_get(json_object_get(logits, "shape"), 0));
	c->positions = mem_zalloc((size_t)c->n_rows + 1, sizeof *c->positions);
	for (int i = 0; i < c->n_rows; i++)
		c->positions[i] = json_is_array(at) ? (int)json_integer_value(json_array_get(at, (size_t)i)) : i;
	if (c->n_rows)
		c->logits = read_floats(g->dir, json_string_value(json_object_get(logits, "file")),
								(size_t)c->n_rows * (size_t)g->n_vocab);
}

static void read_case(const struct golden *g, struct golden_case *c, const json_t *j)
{
	int n;
	c->name = json_string_value(json_object_get(j, "name"));
	c->prompt = integers(json_object_get(j, "prompt_ids"), 1, &c->n_prompt);
	c->greedy = integers(json_object_get(j, "greedy_ids"), 1, &c->n_greedy);
	c->gap = numbers(json_object_get(j, "greedy_gap"), 1, &n);
	c->logprob = numbers(json_object_get(j, "greedy_logprob"), 1, &n);
	c->best_ids = integers(json_object_get(j, "greedy_top_ids"), GOLDEN_BEST, &n);
	c->best_logprobs = numbers(json_object_get(j, "greedy_top_logprobs"), GOLDEN_BEST, &n);
	if (json_object_get(j, "prompt_logprobs"))
		c->prompt_logprobs = numbers(json_object_get(j, "prompt_logprobs"), 1, &n);
	c->last_ids = integers(json_object_get(j, "last_top_ids"), 1, &c->n_last);
	c->last_logits = numbers(json_object_get(j, "last_top_logits"), 1, &n);
	read_rows(g, c, json_object_get(j, "logits"));
}

struct golden *golden_read(const char *dir)
{
	struct golden *g = mem_zalloc(1, sizeof *g);
	json_t *root = read_json(dir, "golden.json"), *cases = json_object_get(root, "cases");
	g->json = root;
	g->dir = mem_strdup(dir);
	g->n_vocab = (int)json_integer_value(json_object_get(root, "vocab_size"));
	g->tolerance = json_number_value(json_object_get(root, "tolerance"));
	g->n_cases = (int)json_array_size(cases);
	CHECK(g->n_vocab > 0 && g->n_cases > 0 && g->tolerance > 0, "%s: not golden data", dir);
	g->cases = mem_zalloc((size_t)g->n_cases, sizeof *g->cases);
	for (int i = 0; i < g->n_cases; i++)
		read_case(g, &g->cases[i], json_array_get(cases, (size_t)i));
	return g;
}

void golden_free(struct golden *g)
{
	for (int i = 0; i < g->n_cases; i++) {
		struct golden_case *c = &g->cases[i];
		void *all[] = {c->prompt,		 c->prompt_logprobs, c->greedy, c->gap,		 c->logprob,	c->best_ids,
					   c->best_logprobs, c->positions,		 c->logits, c->last_ids, c->last_logits};
		for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
			free(all[k]);
	}
	json_decref(g->json);
	free(g->cases);
	free(g->dir);
	free(g);
}

struct golden_text *golden_read_text(const char *dir)
{
	struct golden_text *t = mem_zalloc(1, sizeof *t);
	json_t *root = read_json(dir, "perplexity.json");
	t->ids = integers(json_object_get(root, "ids"), 1, &t->n);
	t->nll = read_floats(dir, json_string_value(json_object_get(root, "nll_file")), (size_t)t->n - 1);
	json_decref(root);
	return t;
}

void golden_free_text(struct golden_text *t)
{
	free(t->ids);
	free(t->nll);
	free(t);
}

double golden_logsum(const float *logits, int n_vocab)
{
	double best = (double)logits[golden_argmax(logits, n_vocab)], sum = 0;
	for (int i = 0; i < n_vocab; i++)
		sum += exp((double)logits[i] - best);
	return best + log(sum);
}

int golden_argmax(const float *logits, int n_vocab)
{
	int best = 0;
	for (int i = 1; i < n_vocab; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

// A NaN is as far off as anything can be.
static void raise_worst(double *worst, double difference)
{
	double d = isnan(difference) ? INFINITY : fabs(difference);
	*worst = d > *worst ? d : *worst;
}

static void add_logprob(struct golden_verdict *v, double found, double wanted)
{
	raise_worst(&v->worst_logprob, found - wanted);
	v->sum_logprob += fabs(found - wanted);
	v->n_logprobs++;
}

static void judge_step(const struct golden_case *c, int step, const float *row, int n_vocab, double logsum, double gap,
					   struct golden_verdict *v)
{
	const int32_t *ids = c->best_ids + (size_t)step * GOLDEN_BEST;
	const double *logprobs = c->best_logprobs + (size_t)step * GOLDEN_BEST;
	for (int k = 0; k < GOLDEN_BEST; k++)
		add_logprob(v, (double)row[ids[k]] - logsum, logprobs[k]);
	add_logprob(v, (double)row[c->greedy[step]] - logsum, c->logprob[step]);
	v->n_steps++;
	if (golden_argmax(row, n_vocab) == c->greedy[step])
		v->n_equal++;
	else if (c->gap[step] > gap && !v->n_wrong++)
		v->first_wrong = step;
}

void golden_judge(const struct golden *g, const struct golden_case *c, int first, int n, const float *rows, double gap,
				  struct golden_verdict *v)
{
	for (int p = first; p < first + n; p++) {
		const float *row = rows + (size_t)(p - first) * (size_t)g->n_vocab;
		double logsum = golden_logsum(row, g->n_vocab);
		int step = p - (c->n_prompt - 1);
		for (int i = 0; i < c->n_rows; i++)
			for (int k = 0; c->positions[i] == p && k < g->n_vocab; k++)
				raise_worst(&v->worst_logit,
							(double)row[k] - (double)c->logits[(size_t)i * (size_t)g->n_vocab + (size_t)k]);
		if (step < 0 && c->prompt_logprobs)
			add_logprob(v, (double)row[c->prompt[p + 1]] - logsum, c->prompt_logprobs[p]);
		for (int k = 0; step == 0 && k < c->n_last; k++)
			raise_worst(&v->worst_logit, (double)row[c->last_ids[k]] - c->last_logits[k]);
		if (step >= 0 && step < c->n_greedy)
			judge_step(c, step, row, g->n_vocab, logsum, gap, v);
	}
}
