// SPDX-License-Identifier: Apache-2.0
#include "engine/step_model.h"
#include "tests/unit/test.h"

#include <math.h>

static uint32_t noise(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	return *random >> 8;
}

// A machine: fixed, per prompt token, per sequence, per KV token, in ns.
struct machine {
	double fixed, token, seq, kv;
};

static double truth(const struct machine *m, const struct step_work *w)
{
	return m->fixed + m->token * w->n_prompt + m->seq * w->n_seqs + m->kv * (double)w->n_kv;
}

// Steps as a server sees them: mostly decodes, now and then a chunk; five per cent noise, an outlier in fifty.
static void learn(struct step_model *model, const struct machine *m, int steps, uint32_t *random)
{
	for (int i = 0; i < steps; i++) {
		struct step_work w = {.n_seqs = 1 + (int)(noise(random) % 16)};
		w.n_kv = w.n_seqs * (int64_t)(100 + noise(random) % 3000);
		if (i % 4 == 0) {
			w.n_prompt = 16 + (int)(noise(random) % 500);
			w.n_kv += step_model_kv((int)(noise(random) % 4000), w.n_prompt);
		}
		double t = truth(m, &w) * (0.95 + 0.1 * (noise(random) % 1000) / 1000.0);
		step_model_observe(model, &w, (uint64_t)(noise(random) % 50 ? t : t * 20));
	}
}

static void check_close(const struct step_model *model, const struct machine *m, double tolerance)
{
	static const struct step_work works[] = {
		{0, 1, 500}, {0, 8, 16000}, {128, 9, 20000}, {512, 4, 40000}, {256, 1, 4000}};
	for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
		double p = step_model_predict(model, &works[i]), t = truth(m, &works[i]);
		ck_assert_msg(fabs(p - t) < tolerance * t, "work %zu: predicted %.0f us, is %.0f us", i, p / 1e3, t / 1e3);
	}
}

START_TEST(learns_machines_that_differ_a_thousandfold)
{
	static const struct machine machines[] = {{20e6, 3e6, 1e6, 200}, {1e6, 10e3, 20e3, 2}, {50e3, 2e3, 1e3, 0.1}};
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		struct step_model model;
		uint32_t random = 5;
		step_model_init(&model, 50000000);
		learn(&model, &machines[i], 400, &random);
		check_close(&model, &machines[i], 0.3);
	}
}
END_TEST

START_TEST(follows_a_machine_that_changes)
{
	struct machine fast = {2e6, 300e3, 100e3, 20}, slow = {4e6, 600e3, 200e3, 40};
	struct step_model model;
	uint32_t random = 9;
	step_model_init(&model, 50000000);
	learn(&model, &fast, 400, &random);
	learn(&model, &slow, 600, &random);
	check_close(&model, &slow, 0.3);
}
END_TEST

START_TEST(never_says_nonsense)
{
	struct step_model model;
	step_model_init(&model, 0);
	struct step_work w = {0, 1, 10};
	for (int i = 0; i < 20000; i++)
		step_model_observe(&model, &w, i % 3 ? 0 : UINT64_C(1) << 50);
	for (int i = 0; i < STEP_TERMS; i++)
		ck_assert(isfinite(model.weight[i]) && model.weight[i] >= 0);
	double p = step_model_predict(&model, &w);
	ck_assert(isfinite(p) && p >= 1);
}
END_TEST

START_TEST(a_chunk_fits_the_budget_exactly)
{
	struct step_model model;
	step_model_init(&model, 50000000);
	struct step_work w = {0, 3, 3000};
	for (int start = 0; start < 20000; start += 1777) {
		int n = step_model_fit(&model, &w, start, 4096, 50000000);
		struct step_work with = {n, 4, w.n_kv + step_model_kv(start, n)};
		ck_assert(n == 0 || step_model_predict(&model, &with) <= 50e6);
		struct step_work more = {n + 1, 4, w.n_kv + step_model_kv(start, n + 1)};
		ck_assert(n == 4096 || step_model_predict(&model, &more) > 50e6);
	}
	ck_assert_int_eq(step_model_fit(&model, &w, 0, 10, UINT64_C(1) << 60), 10);
	ck_assert_int_eq(step_model_fit(&model, &w, 0, 10, 1), 0);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("step_model");
	TCase *c = tcase_create("all");
	tcase_add_test(c, learns_machines_that_differ_a_thousandfold);
	tcase_add_test(c, follows_a_machine_that_changes);
	tcase_add_test(c, never_says_nonsense);
	tcase_add_test(c, a_chunk_fits_the_budget_exactly);
	suite_add_tcase(s, c);
	return s;
}
