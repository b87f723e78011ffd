// SPDX-License-Identifier: Apache-2.0
//
// Attention as its definition says it: one query head at a time over every position that it sees.
#include "kernels/ref/ref.h"

#include <math.h>

static float score(const struct attention *a, const float *q, const float *k)
{
	double s = 0;
	for (int d = 0; d < a->head_dim; d++)
		s += (double)q[d] * (double)k[d];
	float v = (float)s * a->scale;
	return a->softcap > 0 ? a->softcap * tanhf(v / a->softcap) : v;
}

// One query head over positions first … pos. Scores are computed twice rather than stored: there is no buffer to size.
static void attend_head(const struct ref_backend *be, const struct attention *a, const float *q, const int32_t *blocks,
						int pos, int kv_head, float *out)
{
	int first = a->window && pos - a->window + 1 > 0 ? pos - a->window + 1 : 0, block = be->kv.block_tokens;
	float best = -INFINITY, row[MAX_HEAD_DIM];
	for (int p = first; p <= pos; p++) {
		ref_kv_get(be, a->layer, blocks[p / block], kv_head, 0, p % block, row);
		float s = score(a, q, row);
		best = s > best ? s : best;
	}
	double sum = 0, acc[MAX_HEAD_DIM] = {0};
	for (int p = first; p <= pos; p++) {
		ref_kv_get(be, a->layer, blocks[p / block], kv_head, 0, p % block, row);
		float w = expf(score(a, q, row) - best);
		sum += (double)w;
		ref_kv_get(be, a->layer, blocks[p / block], kv_head, 1, p % block, row);
		for (int d = 0; d < a->head_dim; d++)
			acc[d] += (double)w * (double)row[d];
	}
	for (int d = 0; d < a->head_dim; d++)
		out[d] = (float)(acc[d] / sum);
}

struct attend {
	struct ref_backend *be;
	const struct attention *a;
};

static void attend_rows(void *ctx, size_t first, size_t last, int thread)
{
	const struct attend *c = ctx;
	const struct attention *a = c->a;
	const struct batch_view *v = c->be->batch;
	int dh = a->head_dim, stride = (a->n_heads + 2 * a->n_kv_heads) * dh, group = a->n_heads / a->n_kv_heads, s = 0;
	(void)thread;
	for (int t = (int)first; t < (int)last; t++) {
		while (t >= v->seq_start[s + 1])
			s++;
		for (int h = 0; h < a->n_heads; h++)
			attend_head(c->be, a, c->be->qkv + (size_t)t * (size_t)stride + h * dh, v->blocks[s], v->pos[t], h / group,
						c->be->attn + (size_t)t * (size_t)(a->n_heads * dh) + h * dh);
	}
}

void ref_attend(struct backend *b, const struct attention *a)
{
	struct attend c = {ref_of(b), a};
	team_run(c.be->team, (size_t)c.be->batch->n_tokens, 1, attend_rows, &c);
}
