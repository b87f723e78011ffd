// SPDX-License-Identifier: Apache-2.0
//
// Products with weights, and the two operations that are little else.
#include "engine/base/err.h"
#include "kernels/ref/ref.h"

struct linear {
	const float *x;
	const struct matrix *w;
	const struct vector *bias;
	float *y;
	size_t t;
};

enum { LANES = 8 };

// Summed in double, as LANES sums so that a compiler may use vectors; the order is the same for every row of every
// step.
static float dot(const float *w, const float *x, size_t k)
{
	double lane[LANES] = {0}, sum = 0;
	size_t i = 0;
	for (; i + LANES <= k; i += LANES)
		for (size_t j = 0; j < LANES; j++)
			lane[j] += (double)w[i + j] * (double)x[i + j];
	for (; i < k; i++)
		sum += (double)w[i] * (double)x[i];
	for (size_t j = 0; j < LANES; j++)
		sum += lane[j];
	return (float)sum;
}

// Items are output rows of the weight: each is read once for all T rows.
static void linear_rows(void *ctx, size_t first, size_t last, int thread)
{
	const struct linear *l = ctx;
	(void)thread;
	for (size_t n = first; n < last; n++) {
		const float *w = l->w->w + n * l->w->k;
		for (size_t t = 0; t < l->t; t++)
			l->y[t * l->w->n + n] = dot(w, l->x + t * l->w->k, l->w->k) + (l->bias ? l->bias->v[n] : 0);
	}
}

void ref_linear(struct ref_backend *be, const float *x, int t, const struct matrix *w, const struct vector *bias,
				float *y)
{
	struct linear l = {x, w, bias, y, (size_t)t};
	team_run(be->team, w->n, 16, linear_rows, &l);
}

void ref_norm_qkv(struct backend *b, const struct norm *n, const struct matrix *w, const struct vector *bias)
{
	struct ref_backend *be = ref_of(b);
	ref_norm_all(be, n, be->norm);
	ref_linear(be, be->norm, be->batch->n_tokens, w, bias, be->qkv);
}

void ref_attn_out(struct backend *b, const struct matrix *w, const struct vector *bias, const struct norm *post,
				  const struct attention *a)
{
	struct ref_backend *be = ref_of(b);
	CHECK(w->k == (size_t)a->n_heads * (size_t)a->head_dim, "%zu inputs", w->k);
	ref_linear(be, be->attn, be->batch->n_tokens, w, bias, be->out);
	ref_add_residual(be, post, be->out);
}
