// SPDX-License-Identifier: Apache-2.0
//
// The reference back end's table, weights and scratch.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/ref/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *describe(const struct backend *be)
{
	return ((const struct ref_backend *)(const void *)be)->describe;
}

static void destroy(struct backend *b)
{
	struct ref_backend *be = ref_of(b);
	team_destroy(be->team);
	float *scratch[] = {be->x, be->qkv, be->attn, be->norm, be->hidden, be->out};
	for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++)
		free(scratch[i]);
	if (be->kv_base)
		munmap(be->kv_base, be->kv_map_bytes);
	free(be);
}

static int matrix_load(struct backend *be, const struct matrix_part *parts, int n_parts, uint64_t k,
					   struct matrix **out, bool *borrows, char *err, size_t len)
{
	size_t rows = 0, bytes, row_bytes;
	(void)be;
	for (int i = 0; i < n_parts; i++)
		rows += parts[i].rows;
	if (!mem_mul(rows, (size_t)k, &bytes) || !mem_mul(bytes, sizeof(float), &bytes))
		return err_set(err, len, ERR_NOMEM, "a matrix of %zu × %llu is too large", rows, (unsigned long long)k);
	struct matrix *m = mem_zalloc(1, sizeof *m);
	m->n = rows;
	m->k = (size_t)k;
	m->w = malloc(bytes);
	if (!m->w) {
		free(m);
		return err_set(err, len, ERR_NOMEM, "no memory for %zu bytes of weights in float32", bytes);
	}
	float *w = m->w;
	for (int i = 0; i < n_parts; i++) {
		CHECK(dtype_row_bytes(parts[i].type, k, &row_bytes), "rows of %llu", (unsigned long long)k);
		dtype_decode(parts[i].type, parts[i].data, (size_t)(parts[i].rows * k), w);
		w += parts[i].rows * k;
	}
	*out = m;
	*borrows = false;
	return 0;
}

static void matrix_free(struct backend *be, struct matrix *m)
{
	(void)be;
	if (m)
		free(m->w);
	free(m);
}

static size_t matrix_bytes(const struct matrix *m)
{
	return m->n * m->k * sizeof *m->w;
}

static int vector_load(struct backend *be, const float *values, size_t n, struct vector **out)
{
	(void)be;
	*out = mem_alloc(sizeof **out + n * sizeof(float));
	(*out)->n = n;
	memcpy((*out)->v, values, n * sizeof(float));
	return 0;
}

static void vector_free(struct backend *be, struct vector *v)
{
	(void)be;
	free(v);
}

static void widths(const struct reserve *r, size_t w[6])
{
	size_t wide = (size_t)(r->d_ff > r->d_model ? r->d_ff : r->d_model);
	if ((size_t)r->max_qkv > wide)
		wide = (size_t)r->max_qkv;
	w[0] = (size_t)r->d_model;
	w[1] = w[2] = (size_t)r->max_qkv;
	w[3] = wide;
	w[4] = 2 * (size_t)r->d_ff;
	w[5] = (size_t)r->d_model;
}

static size_t scratch_bytes(const struct backend *be, const struct reserve *r)
{
	size_t w[6], sum = 0;
	(void)be;
	widths(r, w);
	for (int i = 0; i < 6; i++)
		sum += w[i];
	return sum * (size_t)r->max_tokens * sizeof(float);
}

static int reserve(struct backend *b, const struct reserve *r, char *err, size_t len)
{
	struct ref_backend *be = ref_of(b);
	float **slot[] = {&be->x, &be->qkv, &be->attn, &be->norm, &be->hidden, &be->out};
	size_t w[6];
	widths(r, w);
	be->size = *r;
	for (int i = 0; i < 6; i++) {
		*slot[i] = malloc(w[i] * (size_t)r->max_tokens * sizeof(float));
		if (!*slot[i])
			return err_set(err, len, ERR_NOMEM, "no memory for the activations of %d tokens", r->max_tokens);
	}
	return 0;
}

static void begin(struct backend *be, const struct batch_view *b)
{
	ref_of(be)->batch = b;
}

static const struct backend_ops ref_ops = {
	.describe = describe,
	.destroy = destroy,
	.matrix_load = matrix_load,
	.matrix_free = matrix_free,
	.matrix_bytes = matrix_bytes,
	.vector_load = vector_load,
	.vector_free = vector_free,
	.scratch_bytes = scratch_bytes,
	.reserve = reserve,
	.kv_block_bytes = ref_kv_block_bytes,
	.kv_create = ref_kv_create,
	.kv_copy_tokens = ref_kv_copy_tokens,
	.kv_read_block = ref_kv_read_block,
	.kv_write_block = ref_kv_write_block,
	.begin = begin,
	.embed = ref_embed,
	.norm_qkv = ref_norm_qkv,
	.rope_append = ref_rope_append,
	.attend = ref_attend,
	.attn_out = ref_attn_out,
	.mlp = ref_mlp,
	.logits = ref_logits,
};

struct backend *ref_backend_create(int n_threads)
{
	struct ref_backend *be = mem_zalloc(1, sizeof *be);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int n = n_threads ? n_threads : cores > 64 ? 64 : (int)cores;
	be->base.op = &ref_ops;
	be->team = team_create(n < 1 ? 1 : n);
	snprintf(be->describe, sizeof be->describe, "ref float32, %d threads", team_size(be->team));
	return &be->base;
}
