// SPDX-License-Identifier: Apache-2.0
#include "engine/step_model.h"

#include <math.h>
#include <string.h>

// FORGET: the memory is some 100 steps. CLIP: a step that took far longer than predicted was disturbed (another
// process, a page fault), or the model is far off; either way it counts as no further off than this share. STAY: how
// strongly a weight that the steps say nothing about keeps its value; SWEEPS of coordinate descent, which starts where
// the last step ended.
enum { TRUSTED = 8, SWEEPS = 12 };
static const double FORGET = 0.99, CLIP = 0.5, STAY = 1e-3;

// Typical sizes, so that all terms are about one and their weights are all nanoseconds.
static const double SCALE[STEP_TERMS] = {1, 64, 16, 16384};

static void terms(const struct step_work *w, double x[STEP_TERMS])
{
	x[0] = 1;
	x[1] = w->n_prompt / SCALE[1];
	x[2] = w->n_seqs / SCALE[2];
	x[3] = (double)w->n_kv / SCALE[3];
}

void step_model_init(struct step_model *m, uint64_t target_ns)
{
	double target = target_ns ? (double)target_ns : 50e6;
	memset(m, 0, sizeof *m);
	m->weight[0] = target * 0.1;
	m->weight[1] = target;
	m->weight[2] = target * 0.1;
	m->weight[3] = target * 0.02;
}

double step_model_predict(const struct step_model *m, const struct step_work *w)
{
	double x[STEP_TERMS], sum = 0;
	terms(w, x);
	for (int i = 0; i < STEP_TERMS; i++)
		sum += m->weight[i] * x[i];
	return fmax(sum, 1);
}

// The weights ≥ 0 that fit the sums best, and among those that fit alike the ones closest to what they were, relative
// to their size.
static void solve(struct step_model *m)
{
	double was[STEP_TERMS], stay[STEP_TERMS], sum = 1;
	for (int i = 0; i < STEP_TERMS; i++)
		sum += m->weight[i];
	for (int i = 0; i < STEP_TERMS; i++) {
		double size = m->weight[i] + 0.01 * sum;
		was[i] = m->weight[i];
		stay[i] = STAY / (size * size);
	}
	for (int sweep = 0; sweep < SWEEPS; sweep++)
		for (int i = 0; i < STEP_TERMS; i++) {
			double rest = m->cross[i] + stay[i] * was[i];
			for (int j = 0; j < STEP_TERMS; j++)
				rest -= j == i ? 0 : m->square[i][j] * m->weight[j];
			m->weight[i] = fmax(rest / (m->square[i][i] + stay[i]), 0);
		}
}

void step_model_observe(struct step_model *m, const struct step_work *w, uint64_t duration_ns)
{
	double x[STEP_TERMS], took = fmax((double)duration_ns, 1), predicted = step_model_predict(m, w);
	// The first steps may be off by any factor: only later ones can be called outliers.
	if (++m->n_observed > TRUSTED)
		took = fmin(fmax(took, (1 - CLIP) * predicted), (1 + CLIP) * predicted);
	terms(w, x);
	for (int i = 0; i < STEP_TERMS; i++) {
		for (int j = 0; j < STEP_TERMS; j++)
			m->square[i][j] = FORGET * m->square[i][j] + x[i] * x[j] / (took * took);
		m->cross[i] = FORGET * m->cross[i] + x[i] / took;
	}
	solve(m);
}

int64_t step_model_kv(int start, int n)
{
	return (int64_t)((n + STEP_TILE - 1) / STEP_TILE) * (start + (int64_t)(n + 1) / 2);
}

int step_model_fit(const struct step_model *m, const struct step_work *w, int start, int most, uint64_t budget_ns)
{
	int low = 0, high = most; // low rows fit
	while (low < high) {
		int n = low + (high - low + 1) / 2;
		struct step_work with = {w->n_prompt + n, w->n_seqs + 1, w->n_kv + step_model_kv(start, n)};
		if (step_model_predict(m, &with) <= (double)budget_ns)
			low = n;
		else
			high = n - 1;
	}
	return low;
}
