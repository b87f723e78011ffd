// SPDX-License-Identifier: Apache-2.0
//
// Norms of query and key heads, rotation, and appending keys and values to the cache.
#include "kernels/ref/ref.h"

#include <math.h>

static void rotate(const struct rope *r, int pos, float *head)
{
	if (!r || r->kind == ROPE_NONE)
		return;
	int half = r->n_dims / 2;
	for (int i = 0; i < half; i++) {
		float angle = (float)pos * r->inv_freq[i], c = cosf(angle) * r->magnitude, s = sinf(angle) * r->magnitude;
		float *a = r->kind == ROPE_PAIRS ? head + 2 * i : head + i,
			  *b = r->kind == ROPE_PAIRS ? head + 2 * i + 1 : head + i + half;
		float x = *a, y = *b;
		*a = x * c - y * s;
		*b = x * s + y * c;
	}
}

static void prepare_head(const struct attention *a, const struct vector *w, int pos, float *head)
{
	struct norm n = {.kind = NORM_RMS, .eps = a->qk_norm_eps, .w = w};
	if (w)
		ref_norm_row(&n, head, (size_t)a->head_dim, head);
	rotate(a->rope, pos, head);
}

void ref_rope_append(struct backend *b, const struct attention *a)
{
	struct ref_backend *be = ref_of(b);
	const struct batch_view *v = be->batch;
	int dh = a->head_dim, stride = (a->n_heads + 2 * a->n_kv_heads) * dh, block = be->kv.block_tokens;
	for (int s = 0; s < v->n_seqs; s++)
		for (int t = v->seq_start[s]; t < v->seq_start[s + 1]; t++) {
			float *q = be->qkv + (size_t)t * (size_t)stride, *k = q + a->n_heads * dh, *val = k + a->n_kv_heads * dh;
			int pos = v->pos[t], slot = pos % block;
			int32_t page = v->blocks[s][pos / block];
			for (int h = 0; h < a->n_heads; h++)
				prepare_head(a, a->q_norm, pos, q + h * dh);
			for (int h = 0; h < a->n_kv_heads; h++) {
				prepare_head(a, a->k_norm, pos, k + h * dh);
				ref_kv_put(be, a->layer, page, h, 0, slot, k + h * dh);
				ref_kv_put(be, a->layer, page, h, 1, slot, val + h * dh);
			}
		}
}
