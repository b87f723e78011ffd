// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/attention_rig.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float rig_value(int seq, int pos, int index)
{
	uint64_t x = (uint64_t)seq * 0x9E3779B97F4A7C15u + (uint64_t)pos * 0xC2B2AE3D27D4EB4Fu + (uint64_t)index + 1;
	x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 27) * 0x94D049BB133111EBu;
	return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

int rig_width(const struct rig *r)
{
	return r->o.n_heads * r->o.head_dim;
}

static int qkv_width(const struct rig_options *o)
{
	return (o->n_heads + 2 * o->n_kv_heads) * o->head_dim;
}

static int blocks_a_seq(const struct rig_options *o)
{
	return (o->max_len + o->block_tokens - 1) / o->block_tokens;
}

static void describe_attention(struct rig *r)
{
	const struct rig_options *o = &r->o;
	float norms[MAX_HEAD_DIM];
	for (int i = 0; i < o->rope_dims / 2; i++)
		r->inv_freq[i] = powf(10000, -2 * (float)i / (float)o->rope_dims);
	r->rope = (struct rope){.kind = o->rope,
							.n_dims = o->rope_dims,
							.inv_freq = r->inv_freq,
							.magnitude = o->magnitude != 0 ? o->magnitude : 1};
	r->a = (struct attention){.n_heads = o->n_heads,
							  .n_kv_heads = o->n_kv_heads,
							  .head_dim = o->head_dim,
							  .window = o->window,
							  .scale = 1 / sqrtf((float)o->head_dim),
							  .softcap = o->softcap,
							  .rope = &r->rope,
							  .qk_norm_eps = 1e-6f};
	if (!o->norms)
		return;
	for (int i = 0; i < o->head_dim; i++)
		norms[i] = 1 + rig_value(100, 0, i) / 2;
	CHECK(!r->be->op->vector_load(r->be, norms, (size_t)o->head_dim, &r->q_norm), "no memory");
	CHECK(!r->be->op->vector_load(r->be, norms, (size_t)o->head_dim, &r->k_norm), "no memory");
	r->a.q_norm = r->q_norm;
	r->a.k_norm = r->k_norm;
}

static int common_factor(int a, int b)
{
	return b ? common_factor(b, a % b) : a;
}

static void create_cache(struct rig *r)
{
	const struct rig_options *o = &r->o;
	int each = blocks_a_seq(o), n = each * o->n_seqs, step = 1 + 2 * o->shuffle;
	struct kv_shape shape = {.type = o->kv, .block_tokens = o->block_tokens, .n_layers = 1};
	char err[200] = "";
	shape.n_kv_heads[0] = o->n_kv_heads;
	shape.head_dim[0] = o->head_dim;
	CHECK(!r->be->op->kv_create(r->be, &shape, (size_t)n, err, sizeof err), "%s", err);
	size_t bytes = r->be->op->kv_block_bytes(r->be, &shape);
	uint16_t *old = mem_alloc(bytes);
	for (size_t i = 0; i < bytes / 2; i++)
		old[i] = o->garbage;
	for (int b = 0; o->garbage && b < n; b++)
		r->be->op->kv_write_block(r->be, b, old);
	free(old);
	while (common_factor(n, step) > 1) // a step without one visits every block once
		step += 2;
	for (int s = 0, i = 0; s < o->n_seqs; s++) {
		r->tables[s] = mem_zalloc((size_t)each, sizeof *r->tables[s]);
		for (int b = 0; b < each; b++, i++)
			r->tables[s][b] = o->shuffle ? (int32_t)((int64_t)i * step % n) : i;
	}
}

bool rig_open(struct rig *r, const struct rig_options *o)
{
	char err[200] = "";
	*r = (struct rig){.o = *o};
	bool ref = o->isa && !strcmp(o->isa, "ref");
	if (ref)
		r->be = ref_backend_create(o->threads);
	else if (cpu_backend_create(o->threads, o->isa, &r->be, err, sizeof err))
		return false;
	describe_attention(r);
	struct reserve size = {.max_tokens = o->max_tokens,
						   .max_seqs = RIG_SEQS,
						   .max_out = 1,
						   .d_model = 64,
						   .d_ff = 64,
						   .n_vocab = 64,
						   .max_qkv = qkv_width(o),
						   .n_ropes = 1,
						   .max_blocks = blocks_a_seq(o),
						   .ropes = &r->rope};
	CHECK(!r->be->op->reserve(r->be, &size, err, sizeof err), "%s", err);
	create_cache(r);
	if (ref)
		rig_ref_activations(r->be, &r->qkv, &r->attn);
	else
		r->qkv = cpu_of(r->be)->qkv, r->attn = cpu_of(r->be)->attn;
	r->ids = mem_zalloc((size_t)o->max_tokens, sizeof *r->ids);
	r->pos = mem_zalloc((size_t)o->max_tokens, sizeof *r->pos);
	size_t floats = (size_t)o->max_len * (size_t)rig_width(r);
	for (int s = 0; s < o->n_seqs; s++) {
		r->out[s] = mem_alloc(floats * sizeof(float));
		memset(r->out[s], 0xFF, floats * sizeof(float));
	}
	return true;
}

void rig_close(struct rig *r)
{
	for (int s = 0; s < r->o.n_seqs; s++) {
		free(r->tables[s]);
		free(r->out[s]);
	}
	free(r->ids);
	free(r->pos);
	r->be->op->vector_free(r->be, r->q_norm);
	r->be->op->vector_free(r->be, r->k_norm);
	r->be->op->destroy(r->be);
}

void rig_add(struct rig *r, int s, int n)
{
	int i = r->n_step++, start = r->starts[i];
	CHECK(start + n <= r->o.max_tokens && r->len[s] + n <= r->o.max_len, "%d more tokens of sequence %d", n, s);
	for (int t = 0; t < n; t++)
		r->pos[start + t] = r->len[s] + t;
	r->len[s] += n;
	r->step_seqs[i] = s;
	r->lens[i] = r->len[s];
	r->starts[i + 1] = start + n;
	r->step_tables[i] = r->tables[s];
}

static void fill_rows(struct rig *r)
{
	int width = qkv_width(&r->o), queries = rig_width(r);
	for (int i = 0; i < r->n_step; i++)
		for (int t = r->starts[i]; t < r->starts[i + 1]; t++)
			for (int d = 0; d < width; d++) {
				float v = rig_value(r->step_seqs[i], r->pos[t], d);
				r->qkv[(size_t)t * (size_t)width + (size_t)d] =
					d < queries && r->o.sharpness > 0 ? v * r->o.sharpness : v;
			}
}

void rig_run(struct rig *r, bool attend)
{
	r->step = (struct batch_view){.n_tokens = r->starts[r->n_step],
								  .n_seqs = r->n_step,
								  .ids = r->ids,
								  .pos = r->pos,
								  .seq_start = r->starts,
								  .kv_len = r->lens,
								  .blocks = r->step_tables};
	size_t width = (size_t)rig_width(r);
	r->be->op->begin(r->be, &r->step);
	fill_rows(r);
	r->be->op->rope_append(r->be, &r->a);
	if (attend) {
		r->be->op->attend(r->be, &r->a);
		for (int i = 0; i < r->n_step; i++)
			for (int t = r->starts[i]; t < r->starts[i + 1]; t++)
				memcpy(r->out[r->step_seqs[i]] + (size_t)r->pos[t] * width, r->attn + (size_t)t * width,
					   width * sizeof(float));
	}
	r->n_step = 0;
}

static int smaller(int a, int b)
{
	return a < b ? a : b;
}

void rig_prefill(struct rig *r, int s, int len, int chunk, int from)
{
	while (r->len[s] < smaller(from, len)) {
		rig_add(r, s, smaller(r->o.max_tokens, smaller(from, len) - r->len[s]));
		rig_run(r, false);
	}
	while (r->len[s] < len) {
		rig_add(r, s, smaller(chunk, len - r->len[s]));
		rig_run(r, true);
	}
}

const float *rig_row(const struct rig *r, int s, int pos)
{
	return r->out[s] + (size_t)pos * (size_t)rig_width(r);
}
