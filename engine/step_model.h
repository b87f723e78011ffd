// SPDX-License-Identifier: Apache-2.0
//
// How long a step will take, learned from the steps so far:
//   time = fixed + per_token × prompt tokens + per_seq × sequences + per_kv × KV tokens read
// by least squares over the recent steps, relative to the time itself (a microsecond of a short step weighs as much
// as a millisecond of a long one). Outliers are clipped, coefficients never negative. It decides how much prompt a step
// may take; it never decides what is computed. Plain data, engine thread only.
#ifndef QUIRE_ENGINE_STEP_MODEL_H
#define QUIRE_ENGINE_STEP_MODEL_H

#include <stdint.h>

enum { STEP_TILE = 16, STEP_TERMS = 4 };

struct step_work {
	int n_prompt; // prompt tokens
	int n_seqs;
	int64_t n_kv; // cached tokens read: rows of a prompt tile read them together
};

struct step_model {
	double weight[STEP_TERMS];			   // of the scaled terms, in ns
	double square[STEP_TERMS][STEP_TERMS]; // sums over the steps seen, older ones less: terms × terms / time²
	double cross[STEP_TERMS];			   // and terms × time / time²
	int n_observed;
};

// target_ns is the wanted step time; the first guess is that a step of 64 prompt tokens takes that long.
void step_model_init(struct step_model *m, uint64_t target_ns);
double step_model_predict(const struct step_model *m, const struct step_work *w); // ns, > 0
void step_model_observe(struct step_model *m, const struct step_work *w, uint64_t duration_ns);

// KV tokens read by n rows at positions start … start + n - 1.
int64_t step_model_kv(int start, int n);

// The most rows, at most `most`, that a prompt at position start may add to w so that the step stays within budget_ns;
// 0 if none.
int step_model_fit(const struct step_model *m, const struct step_work *w, int start, int most, uint64_t budget_ns);

#endif
