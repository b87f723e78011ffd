// SPDX-License-Identifier: Apache-2.0
//
// Inside the reference back end: every operation as plain loops in float32, dot products summed in double. Slow and
// obvious on purpose: it judges all other back ends. Rows are spread over the thread team; one row is always one
// thread's work.
#ifndef QUIRE_REF_REF_H
#define QUIRE_REF_REF_H

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

struct matrix {
	size_t n, k;
	float *w; // [n][k], decoded at load
};

struct vector {
	size_t n;
	float v[];
};

struct ref_backend {
	struct backend base;
	struct team *team;
	struct reserve size;
	const struct batch_view *batch;
	float *x, *qkv, *attn;		// as in backend.h
	float *norm, *hidden, *out; // [T][max(D, F, H Dh)], [T][2F], [T][D]
	struct kv_shape kv;
	size_t kv_layer_offset[MAX_LAYERS], kv_block_bytes, kv_map_bytes;
	char *kv_base;
	char describe[48];
};

static inline struct ref_backend *ref_of(struct backend *be)
{
	return (struct ref_backend *)(void *)be;
}

// y[D] = norm(x); y may be x.
void ref_norm_row(const struct norm *n, const float *x, size_t d, float *y);
// y[T][D] = norm(residual stream)
void ref_norm_all(struct ref_backend *be, const struct norm *n, float *y);
// y[T][N] = x[T][K] · Wᵀ + bias
void ref_linear(struct ref_backend *be, const float *x, int t, const struct matrix *w, const struct vector *bias,
				float *y);
// x[T][D] += post(y)
void ref_add_residual(struct ref_backend *be, const struct norm *post, float *y);

void ref_embed(struct backend *be, const struct matrix *table, float scale);
void ref_norm_qkv(struct backend *be, const struct norm *n, const struct matrix *w, const struct vector *bias);
void ref_attn_out(struct backend *be, const struct matrix *w, const struct vector *bias, const struct norm *post,
				  const struct attention *a);
void ref_mlp(struct backend *be, const struct mlp *m);
void ref_logits(struct backend *be, const struct norm *n, const struct matrix *head, float softcap, float *logits);
void ref_rope_append(struct backend *be, const struct attention *a);
void ref_attend(struct backend *be, const struct attention *a);
size_t ref_kv_block_bytes(const struct backend *be, const struct kv_shape *shape);
int ref_kv_create(struct backend *be, const struct kv_shape *shape, size_t n_blocks, char *err, size_t len);
void ref_kv_copy_tokens(struct backend *be, int32_t src, int32_t dst, int n);
void ref_kv_read_block(struct backend *be, int32_t block, void *dst);
void ref_kv_write_block(struct backend *be, int32_t block, const void *src);
// row[Dh]: K (value 0) or V (value 1) of one head of token slot t of a block, decoded.
void ref_kv_get(const struct ref_backend *be, int layer, int32_t block, int head, int value, int t, float *row);
void ref_kv_put(struct ref_backend *be, int layer, int32_t block, int head, int value, int t, const float *row);

#endif
