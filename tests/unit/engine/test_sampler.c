// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { V = 300 };

static float row[V], work[V];
static const int32_t prompt[] = {7, 8, 8};

// Logits with a clear order: token i has -i / 10, but token 5 is the best.
static void fill(void)
{
	for (int i = 0; i < V; i++)
		row[i] = -(float)i / 10;
	row[5] = 1;
}

static struct sampler_output run(struct sampler *s, const struct sampling *p, const int32_t *tokens, int n_prompt, int n, int choice)
{
	static const int32_t ends[] = {5};
	struct sampler_output out;
	struct sampler_input in = {p, tokens, n_prompt, n, choice, ends, 1};
	memcpy(work, row, sizeof row);
	sampler_run(s, &in, work, &out);
	return out;
}

START_TEST(random_numbers_are_philox)
{
	// Known answers of Philox 4x32-10 (Random123's kat_vectors): counter and key of zeros; of ones.
	ck_assert_uint_eq((uint32_t)sampler_random(0, 0, 0), 0x6627e8d5u);
	ck_assert_uint_eq((uint32_t)(sampler_random(0, 0, 0) >> 32), 0xe169c58du);
}
END_TEST

START_TEST(greedy_takes_the_best_and_ties_go_to_the_lower_id)
{
	struct sampler *s = sampler_create(V);
	struct sampling p;
	sampling_defaults(&p);
	fill();
	float cold[] = {0, 1e-4f, 1e-30f};
	for (int i = 0; i < 3; i++) {
		p.temperature = cold[i];
		ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 5);
	}
	p.temperature = 0;
	row[3] = row[9] = 2;
	ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 3);
	row[1] = NAN; // an overflowing model is survived
	ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 3);
	sampler_destroy(s);
}
END_TEST

START_TEST(logprobs_are_of_the_raw_distribution)
{
	struct sampler *s = sampler_create(V);
	struct sampling p;
	sampling_defaults(&p);
	fill();
	double sum = 0;
	for (int i = 0; i < V; i++)
		sum += exp((double)row[i]);
	struct logit_bias ban = {5, -100};
	p.temperature = 0;
	p.bias = &ban;
	p.n_bias = 1;
	p.n_logprobs = 3;
	struct sampler_output o = run(s, &p, prompt, 3, 3, 0);
	ck_assert_int_eq(o.id, 0);
	ck_assert_float_eq_tol(o.logprob, (float)(0 - log(sum)), 1e-5f);
	ck_assert_int_eq(o.n_top, 3);
	ck_assert_int_eq(o.top[0].id, 5); // banned, yet the model's own best
	ck_assert_float_eq_tol(o.top[0].logprob, (float)(1 - log(sum)), 1e-5f);
	ck_assert_int_eq(o.top[1].id, 0);
	ck_assert_int_eq(o.top[2].id, 1);
	sampler_destroy(s);
}
END_TEST

START_TEST(penalties_bias_and_min_tokens_move_the_best)
{
	struct sampler *s = sampler_create(V);
	struct sampling p;
	int32_t text[] = {7, 8, 8, 5, 5};
	sampling_defaults(&p);
	fill();
	p.temperature = 0;
	p.min_tokens = 3; // token 5 is an end: forbidden until three were generated
	ck_assert_int_eq(run(s, &p, text, 3, 5, 0).id, 0);
	p.min_tokens = 2;
	ck_assert_int_eq(run(s, &p, text, 3, 5, 0).id, 5);
	p.frequency_penalty = 0.6f; // 1 - 2 * 0.6 < 0
	ck_assert_int_eq(run(s, &p, text, 3, 5, 0).id, 0);
	p.frequency_penalty = 0;
	p.presence_penalty = 0.6f; // 1 - 0.6 > 0, once however often
	ck_assert_int_eq(run(s, &p, text, 3, 5, 0).id, 5);
	p.presence_penalty = 0;
	row[8] = 1.5f; // in the prompt: the repetition penalty knows it
	p.min_tokens = 0;
	ck_assert_int_eq(run(s, &p, text, 3, 3, 0).id, 8);
	p.repetition_penalty = 2;
	ck_assert_int_eq(run(s, &p, text, 3, 3, 0).id, 5);
	sampler_destroy(s);
}
END_TEST

// Chi-square of n draws against exact probabilities; the bound is the 99.99 % point for k - 1 degrees by Wilson and Hilferty.
static void check_distribution(const struct sampling *p, const double *want, int k)
{
	enum { N = 40000 };
	struct sampler *s = sampler_create(V);
	int *seen = calloc(V, sizeof *seen);
	int32_t text[] = {7, 8, 8};
	struct sampling q = *p;
	for (int i = 0; i < N; i++) {
		q.seed = (uint64_t)i * 977 + 1;
		seen[run(s, &q, text, 3, 3, i % 3).id]++;
	}
	double chi = 0, rest = N;
	for (int i = 0; i < V; i++) {
		if (want[i] * N >= 5) {
			chi += (seen[i] - want[i] * N) * (seen[i] - want[i] * N) / (want[i] * N);
			rest -= seen[i];
		} else if (want[i] == 0) {
			ck_assert_msg(seen[i] == 0, "token %d was drawn though it was filtered", i);
		}
	}
	double d = k - 1, z = 3.72, bound = d * pow(1 - 2 / (9 * d) + z * sqrt(2 / (9 * d)), 3);
	ck_assert_msg(chi < bound, "chi-square %g of %d classes, bound %g (%g draws elsewhere)", chi, k, bound, rest);
	free(seen);
	sampler_destroy(s);
}

// Exact probabilities after temperature and filters, in double, by sorting.
static int exact(const struct sampling *p, double *want)
{
	int order[V], n = V;
	double w[V], best = 1, total = 0;
	for (int i = 0; i < V; i++) {
		order[i] = i;
		w[i] = exp(((double)row[i] - best) / (double)p->temperature);
	}
	for (int i = 1; i < V; i++)
		for (int j = i; j > 0 && w[order[j]] > w[order[j - 1]]; j--) {
			int t = order[j];
			order[j] = order[j - 1];
			order[j - 1] = t;
		}
	while (n > 1 && w[order[n - 1]] < (double)p->min_p)
		n--;
	if (p->top_k && p->top_k < n)
		n = p->top_k;
	for (int i = 0; i < n; i++)
		total += w[order[i]];
	double sum = 0;
	for (int i = 0; i < n; i++) {
		sum += w[order[i]];
		if (sum >= (double)p->top_p * total) {
			n = i + 1;
			break;
		}
	}
	memset(want, 0, V * sizeof *want);
	int classes = 0;
	for (int i = 0; i < n; i++) {
		want[order[i]] = w[order[i]] / sum;
		classes += want[order[i]] * 40000 >= 5;
	}
	return classes;
}

START_TEST(draws_follow_the_distribution)
{
	static const struct {
		float temperature, top_p, min_p;
		int top_k;
	} cases[] = {{1, 1, 0, 0}, {2, 1, 0, 0}, {0.7f, 1, 0, 0}, {1, 0.9f, 0, 0}, {1, 1, 0, 7}, {1.5f, 0.8f, 0, 20}, {1, 1, 0.2f, 0}, {1, 0.95f, 0.05f, 40}};
	double want[V];
	struct sampling p;
	sampling_defaults(&p);
	fill();
	p.temperature = cases[_i].temperature;
	p.top_p = cases[_i].top_p;
	p.min_p = cases[_i].min_p;
	p.top_k = cases[_i].top_k;
	int k = exact(&p, want);
	check_distribution(&p, want, k);
}
END_TEST

START_TEST(draws_are_keyed_by_seed_choice_and_position)
{
	struct sampler *s = sampler_create(V), *other = sampler_create(V);
	struct sampling p;
	int32_t text[64];
	int differ = 0;
	sampling_defaults(&p);
	fill();
	p.temperature = 2;
	p.seed = 42;
	for (int i = 0; i < 64; i++)
		text[i] = i;
	for (int n = 1; n < 60; n++) {
		int a = run(s, &p, text, 1, n, 0).id, b = run(other, &p, text, 1, n, 0).id, c = run(s, &p, text, 1, n, 1).id;
		ck_assert_int_eq(a, b); // nothing is remembered between rows
		differ += a != c;
	}
	ck_assert_int_gt(differ, 20);
	sampler_destroy(s);
	sampler_destroy(other);
}
END_TEST

START_TEST(extreme_filters_leave_the_best)
{
	struct sampler *s = sampler_create(V);
	struct sampling p;
	fill();
	sampling_defaults(&p);
	p.top_p = 0;
	for (uint64_t i = 0; i < 50; i++) {
		p.seed = i;
		ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 5);
	}
	p.top_p = 1;
	p.min_p = 1;
	ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 5);
	p.min_p = 0;
	p.top_k = 1;
	ck_assert_int_eq(run(s, &p, prompt, 3, 3, 0).id, 5);
	sampler_destroy(s);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("sampler");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, random_numbers_are_philox);
	tcase_add_test(t, greedy_takes_the_best_and_ties_go_to_the_lower_id);
	tcase_add_test(t, logprobs_are_of_the_raw_distribution);
	tcase_add_test(t, penalties_bias_and_min_tokens_move_the_best);
	tcase_add_loop_test(t, draws_follow_the_distribution, 0, 8);
	tcase_add_test(t, draws_are_keyed_by_seed_choice_and_position);
	tcase_add_test(t, extreme_filters_leave_the_best);
	suite_add_tcase(s, t);
	return s;
}
