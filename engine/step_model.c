// SPDX-License-Identifier: Apache-2.0
#include "engine/step_model.h"

#include <math.h>
#include <string.h>

// FORGET: the memory is some 100 steps. CLIP: a step that took twice as long as predicted was disturbed (another
// process, a page fault), or the model is far off; either way it moves the model by no more than this share. CERTAIN
// bounds the covariance, so that a long run of equal steps does not make the model nervous about everything else.
static const double FORGET = 0.99, CLIP = 0.5, CERTAIN = 100;

// Typical sizes, so that all terms are about one and their weights are all nanoseconds.
static const double SCALE[STEP_TERMS] = {1, 64, 16, 16384};

static void terms(const struct step_work *w, double x[STEP_TERMS])
{
	x[0] = 1;
	x[1] = w->n_prompt / SCALE[1];
	x[2] = w->n_seqs / SCALE[2];
	x[3] = (double)w->n_kv / SCALE[3];
}

static double scale_of(const struct step_model *m)
{
	return m->weight[0] + m->weight[1] + m->weight[2] + m->weight[3] + 1;
}

// "Any weight may be off by as much as all of them together."
static void reset_covariance(struct step_model *m)
{
	double scale = scale_of(m);
	memset(m->covariance, 0, sizeof m->covariance);
	for (int i = 0; i < STEP_TERMS; i++)
		m->covariance[i][i] = scale * scale;
}

void step_model_init(struct step_model *m, uint64_t target_ns)
{
	double target = target_ns ? (double)target_ns : 50e6;
	memset(m, 0, sizeof *m);
	m->weight[0] = target * 0.1;
	m->weight[1] = target;
	m->weight[2] = target * 0.1;
	m->weight[3] = target * 0.02;
	reset_covariance(m);
}

double step_model_predict(const struct step_model *m, const struct step_work *w)
{
	double x[STEP_TERMS], sum = 0;
	terms(w, x);
	for (int i = 0; i < STEP_TERMS; i++)
		sum += m->weight[i] * x[i];
	return fmax(sum, 1);
}

static void update_covariance(struct step_model *m, const double gain[STEP_TERMS], const double px[STEP_TERMS])
{
	double largest = 0, scale = scale_of(m);
	for (int i = 0; i < STEP_TERMS; i++) {
		for (int j = 0; j < STEP_TERMS; j++)
			m->covariance[i][j] = (m->covariance[i][j] - gain[i] * px[j]) / FORGET;
		largest = fmax(largest, m->covariance[i][i] / (scale * scale));
		if (!(m->covariance[i][i] >= 0) || !isfinite(m->covariance[i][i]))
			largest = INFINITY;
	}
	if (largest > CERTAIN)
		reset_covariance(m);
}

void step_model_observe(struct step_model *m, const struct step_work *w, uint64_t duration_ns)
{
	double x[STEP_TERMS], px[STEP_TERMS], gain[STEP_TERMS], took = fmax((double)duration_ns, 1);
	double predicted = step_model_predict(m, w), error = took - predicted;
	double noise = took * took * 0.01; // ten per cent of the step's own time
	double sum = noise * FORGET;
	m->n_observed++;
	// The first steps may be off by any factor: only later ones can be called outliers.
	if (m->n_observed > 8)
		error = fmin(fmax(error, -CLIP * predicted), CLIP * predicted);
	terms(w, x);
	for (int i = 0; i < STEP_TERMS; i++) {
		px[i] = 0;
		for (int j = 0; j < STEP_TERMS; j++)
			px[i] += m->covariance[i][j] * x[j];
		sum += px[i] * x[i];
	}
	for (int i = 0; i < STEP_TERMS; i++) {
		gain[i] = px[i] / sum;
		m->weight[i] = fmax(m->weight[i] + gain[i] * error, 0);
	}
	update_covariance(m, gain, px);
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
