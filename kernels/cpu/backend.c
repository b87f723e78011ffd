// SPDX-License-Identifier: Apache-2.0
//
// The CPU back end's table of operations, its creation, and the activations of a step.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/isa.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 256 };

static const char *describe(const struct backend *be)
{
	return ((const struct cpu_backend *)(const void *)be)->describe;
}

static size_t aligned(size_t bytes)
{
	return (bytes + KERNEL_ALIGN - 1) & ~(size_t)(KERNEL_ALIGN - 1);
}

// Bytes of x, qkv, attn and rope for these sizes.
static void activation_bytes(const struct reserve *r, size_t bytes[4])
{
	size_t t = (size_t)r->max_tokens, rope = 0;
	for (int i = 0; i < r->n_ropes; i++)
		if ((size_t)r->ropes[i].n_dims > rope)
			rope = (size_t)r->ropes[i].n_dims;
	bytes[0] = aligned(t * (size_t)r->d_model * sizeof(float));
	bytes[1] = bytes[2] = aligned(t * (size_t)r->max_qkv * sizeof(float));
	bytes[3] = aligned(t * rope * (size_t)r->n_ropes * sizeof(float));
}

static size_t scratch_bytes(const struct backend *b, const struct reserve *r)
{
	const struct cpu_backend *be = (const struct cpu_backend *)(const void *)b;
	size_t bytes[4];
	activation_bytes(r, bytes);
	return bytes[0] + bytes[1] + bytes[2] + bytes[3] + cpu_linear_scratch_bytes(be, r) +
		   cpu_attention_scratch_bytes(be, r);
}

static int reserve(struct backend *b, const struct reserve *r, char *err, size_t len)
{
	struct cpu_backend *be = cpu_of(b);
	float **slots[] = {&be->x, &be->qkv, &be->attn, &be->rope};
	size_t bytes[4];
	int rc = 0;
	activation_bytes(r, bytes);
	be->size = *r;
	for (int i = 0; i < 4 && !rc; i++) {
		*slots[i] = aligned_alloc(KERNEL_ALIGN, bytes[i] ? bytes[i] : KERNEL_ALIGN);
		rc = *slots[i] ? 0 : ERR_NOMEM;
	}
	if (!rc)
		rc = cpu_linear_reserve(be, r);
	if (!rc)
		rc = cpu_attention_reserve(be, r);
	if (rc)
		return err_set(err, len, rc, "no memory for %zu bytes of activations; fewer tokens a step need less",
					   scratch_bytes(b, r));
	return 0;
}

static int vector_load(struct backend *be, const float *values, size_t n, struct vector **out)
{
	(void)be;
	struct vector *v = aligned_alloc(KERNEL_ALIGN, aligned(sizeof *v + n * sizeof *values));
	if (!v)
		return ERR_NOMEM;
	v->n = n;
	memcpy(v->v, values, n * sizeof *values);
	*out = v;
	return 0;
}

static void vector_free(struct backend *be, struct vector *v)
{
	(void)be;
	free(v);
}

static void begin(struct backend *b, const struct batch_view *batch)
{
	struct cpu_backend *be = cpu_of(b);
	CHECK(batch->n_tokens <= be->size.max_tokens && batch->n_out <= be->size.max_out, "%d tokens, %d outputs",
		  batch->n_tokens, batch->n_out);
	be->batch = batch;
	cpu_rope_begin(be);
}

static void destroy(struct backend *b)
{
	struct cpu_backend *be = cpu_of(b);
	if (!be)
		return;
	team_destroy(be->team);
	cpu_linear_release(be);
	cpu_attention_release(be);
	cpu_kv_release(be);
	free(be->x);
	free(be->qkv);
	free(be->attn);
	free(be->rope);
	free(be);
}

static const struct backend_ops cpu_ops = {
	.describe = describe,
	.destroy = destroy,
	.matrix_load = cpu_matrix_load,
	.matrix_free = cpu_matrix_free,
	.matrix_bytes = cpu_matrix_bytes,
	.vector_load = vector_load,
	.vector_free = vector_free,
	.scratch_bytes = scratch_bytes,
	.reserve = reserve,
	.kv_block_bytes = cpu_kv_block_bytes,
	.kv_create = cpu_kv_create,
	.kv_copy_tokens = cpu_kv_copy_tokens,
	.kv_read_block = cpu_kv_read_block,
	.kv_write_block = cpu_kv_write_block,
	.begin = begin,
	.embed = cpu_embed,
	.norm_qkv = cpu_norm_qkv,
	.rope_append = cpu_rope_append,
	.attend = cpu_attend,
	.attn_out = cpu_attn_out,
	.mlp = cpu_mlp,
	.logits = cpu_logits,
};

static int usable_cores(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
	return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

int cpu_backend_create(int n_threads, const char *isa, struct backend **out, char *err, size_t len)
{
	const struct cpu_isa *chosen;
	if (n_threads < 0 || n_threads > MAX_THREADS)
		return err_set(err, len, ERR_INVALID, "%d threads; choose 1 to %d, or 0 for all cores", n_threads, MAX_THREADS);
	int rc = cpu_isa_choose(isa, &chosen, err, len);
	if (rc)
		return rc;
	struct cpu_backend *be = mem_zalloc(1, sizeof *be);
	be->base.op = &cpu_ops;
	be->isa = chosen;
	be->team = team_create(n_threads ? n_threads : usable_cores());
	int n = team_size(be->team);
	snprintf(be->describe, sizeof be->describe, "cpu %s, %d thread%s", chosen->name, n, n == 1 ? "" : "s");
	*out = &be->base;
	return 0;
}
