// SPDX-License-Identifier: Apache-2.0
//
// Products with weights, the norms before them and the residual after them.
#include "engine/base/err.h"
#include "kernels/ref/ref.h"

#include <math.h>

void ref_norm_row(const struct norm *n, const float *x, size_t d, float *y)
{
	double mean = 0, sq = 0;
	if (n->kind == NORM_LAYER) {
		for (size_t i = 0; i < d; i++)
			mean += (double)x[i];
		mean /= (double)d;
	}
	for (size_t i = 0; i < d; i++)
		sq += ((double)x[i] - mean) * ((double)x[i] - mean);
	float scale = (float)(1 / sqrt(sq / (double)d + (double)n->eps));
	for (size_t i = 0; i < d; i++)
		y[i] = ((x[i] - (float)mean) * scale) * n->w->v[i] + (n->b ? n->b->v[i] : 0);
}

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

void ref_add_residual(struct ref_backend *be, const struct norm *post, float *y)
{
	size_t d = (size_t)be->size.d_model;
	for (int t = 0; t < be->batch->n_tokens; t++) {
		float *x = be->x + (size_t)t * d, *row = y + (size_t)t * d;
		if (post && post->kind != NORM_NONE)
			ref_norm_row(post, row, d, row);
		for (size_t i = 0; i < d; i++)
			x[i] += row[i];
	}
}

static void norm_all(struct ref_backend *be, const struct norm *n, float *y)
{
	size_t d = (size_t)be->size.d_model;
	for (int t = 0; t < be->batch->n_tokens; t++)
		ref_norm_row(n, be->x + (size_t)t * d, d, y + (size_t)t * d);
}

void ref_norm_qkv(struct backend *b, const struct norm *n, const struct matrix *w, const struct vector *bias)
{
	struct ref_backend *be = ref_of(b);
	norm_all(be, n, be->norm);
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

static float activate(enum activation act, float v)
{
	switch (act) {
	case ACT_SILU:
		return v / (1 + expf(-v));
	case ACT_GELU_TANH:
		return 0.5f * v * (1 + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
	default:
		return 0.5f * v * (1 + erff(v * 0.70710678118654752f));
	}
}

void ref_mlp(struct backend *b, const struct mlp *m)
{
	struct ref_backend *be = ref_of(b);
	size_t f = (size_t)m->d_ff, width = m->in->n;
	norm_all(be, &m->norm, be->norm);
	ref_linear(be, be->norm, be->batch->n_tokens, m->in, m->in_bias, be->hidden);
	for (int t = 0; t < be->batch->n_tokens; t++)
		for (size_t i = 0; i < f; i++) {
			const float *h = be->hidden + (size_t)t * width;
			be->norm[(size_t)t * f + i] = m->gated ? activate(m->act, h[i]) * h[f + i] : activate(m->act, h[i]);
		}
	ref_linear(be, be->norm, be->batch->n_tokens, m->down, m->down_bias, be->out);
	ref_add_residual(be, &m->post_norm, be->out);
}

void ref_logits(struct backend *b, const struct norm *n, const struct matrix *head, float softcap, float *logits)
{
	struct ref_backend *be = ref_of(b);
	size_t d = (size_t)be->size.d_model;
	for (int i = 0; i < be->batch->n_out; i++)
		ref_norm_row(n, be->x + (size_t)be->batch->out_rows[i] * d, d, be->norm + (size_t)i * d);
	ref_linear(be, be->norm, be->batch->n_out, head, NULL, logits);
	for (size_t i = 0; softcap > 0 && i < (size_t)be->batch->n_out * head->n; i++)
		logits[i] = softcap * tanhf(logits[i] / softcap);
}
