// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ops_rig.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/unit/kernels/weights_rig.h"

#include <stdlib.h>
#include <string.h>

struct part {
	enum dtype type;
	int rows;
};

static struct matrix *load(struct ops_rig *r, const struct part *parts, int n, int k, uint32_t seed)
{
	struct matrix_part p[3];
	struct matrix *m;
	char err[200] = "";
	bool borrows;
	for (int i = 0; i < n; i++)
		p[i] = (struct matrix_part){
			parts[i].type, (uint64_t)parts[i].rows,
			rig_weights(parts[i].type, (size_t)parts[i].rows, (size_t)k, 0.05f, seed + (uint32_t)i)};
	CHECK(!r->be->op->matrix_load(r->be, p, n, (uint64_t)k, &m, &borrows, err, sizeof err), "%s", err);
	CHECK(!borrows, "it must not keep the file's bytes");
	for (int i = 0; i < n; i++)
		free((void *)(uintptr_t)p[i].data);
	return m;
}

// base + spread times numbers of about one.
static struct vector *vector(struct ops_rig *r, int n, float base, float spread, uint32_t seed)
{
	float *v = mem_alloc((size_t)n * sizeof *v);
	struct vector *out;
	rig_fill(v, (size_t)n, seed);
	for (int i = 0; i < n; i++)
		v[i] = base + spread * v[i];
	CHECK(!r->be->op->vector_load(r->be, v, (size_t)n, &out), "no memory");
	free(v);
	return out;
}

static void load_weights(struct ops_rig *r)
{
	const struct ops_options *o = &r->o;
	int d = o->d_model, q = o->n_heads * o->head_dim, kv = o->n_kv_heads * o->head_dim;
	const struct part qkv[] = {{o->type, q}, {o->type, kv}, {o->v_type, kv}},
					  gate_up[] = {{o->type, o->d_ff}, {o->type, o->d_ff}};
	const struct part fused = {o->type, o->d_ff * (o->gated ? 2 : 1)}, out = {o->type, d}, down = {o->down_type, d};
	const struct part vocab = {o->type, o->n_vocab};
	r->embed = load(r, &vocab, 1, d, 10);
	r->qkv_w = load(r, qkv, 3, d, 20);
	r->out_w = load(r, &out, 1, q, 30);
	r->in_w = o->gated && !o->fused_mlp ? load(r, gate_up, 2, d, 40) : load(r, &fused, 1, d, 40);
	r->down_w = load(r, &down, 1, o->d_ff, 50);
	r->head = load(r, &vocab, 1, d, 60);
	// A norm's weights are near one: outliers here as well as in the activations would leave a quantised block little
	// but one value.
	r->norm_w = vector(r, d, 1, 0.03f, 1);
	r->norm_b = o->layer_norm ? vector(r, d, 0, 1, 2) : NULL;
	if (!o->biases)
		return;
	r->qkv_b = vector(r, q + 2 * kv, 0, 1, 3);
	r->out_b = vector(r, d, 0, 1, 4);
	r->in_b = vector(r, fused.rows, 0, 1, 5);
	r->down_b = vector(r, d, 0, 1, 6);
}

static void create_cache(struct ops_rig *r)
{
	struct kv_shape shape = {.type = KV_F16, .block_tokens = 16, .n_layers = 1};
	char err[200] = "";
	shape.n_kv_heads[0] = r->o.n_kv_heads;
	shape.head_dim[0] = r->o.head_dim;
	CHECK(!r->be->op->kv_create(r->be, &shape, OPS_MAX_TOKENS, err, sizeof err), "%s", err);
	for (int i = 0; i < OPS_MAX_TOKENS; i++)
		r->table[i] = i;
	r->tables[0] = r->table;
}

bool ops_open(struct ops_rig *r, const struct ops_options *o)
{
	bool ref = !strcmp(o->backend, "ref");
	char err[200] = "";
	*r = (struct ops_rig){.o = *o};
	if (ref)
		r->be = ref_backend_create(o->threads);
	else if (cpu_backend_create(o->threads, o->backend, &r->be, err, sizeof err))
		return false;
	struct reserve size = {.max_tokens = OPS_MAX_TOKENS,
						   .max_seqs = 1,
						   .max_out = OPS_MAX_TOKENS,
						   .d_model = o->d_model,
						   .d_ff = o->d_ff,
						   .n_vocab = o->n_vocab,
						   .max_qkv = (o->n_heads + 2 * o->n_kv_heads) * o->head_dim,
						   .max_blocks = OPS_MAX_TOKENS};
	load_weights(r);
	CHECK(!r->be->op->reserve(r->be, &size, err, sizeof err), "%s", err);
	create_cache(r);
	if (ref) {
		ops_ref_activations(r->be, &r->x, &r->qkv, &r->attn);
	} else {
		r->x = cpu_of(r->be)->x;
		r->qkv = cpu_of(r->be)->qkv;
		r->attn = cpu_of(r->be)->attn;
	}
	r->norm = (struct norm){o->layer_norm ? NORM_LAYER : NORM_RMS, 1e-5f, r->norm_w, r->norm_b};
	r->post = o->post_norms ? r->norm : (struct norm){.kind = NORM_NONE};
	r->a =
		(struct attention){.n_heads = o->n_heads, .n_kv_heads = o->n_kv_heads, .head_dim = o->head_dim, .scale = 0.2f};
	r->mlp = (struct mlp){.norm = r->norm,
						  .in = r->in_w,
						  .in_bias = r->in_b,
						  .down = r->down_w,
						  .down_bias = r->down_b,
						  .post_norm = r->post,
						  .act = o->act,
						  .gated = o->gated,
						  .d_ff = o->d_ff};
	r->logits = mem_zalloc((size_t)OPS_MAX_TOKENS * (size_t)o->n_vocab, sizeof *r->logits);
	return true;
}

void ops_close(struct ops_rig *r)
{
	struct matrix *m[] = {r->embed, r->qkv_w, r->out_w, r->in_w, r->down_w, r->head};
	struct vector *v[] = {r->norm_w, r->norm_b, r->qkv_b, r->out_b, r->in_b, r->down_b};
	for (int i = 0; i < 6; i++) {
		r->be->op->matrix_free(r->be, m[i]);
		r->be->op->vector_free(r->be, v[i]);
	}
	r->be->op->destroy(r->be);
	free(r->logits);
	free(r->x0);
	free(r->qkv0);
	free(r->attn0);
}

static void fill(struct ops_rig *r, size_t d, size_t q, size_t qkv, uint32_t seed)
{
	if (!r->x0) {
		r->x0 = mem_alloc(OPS_MAX_TOKENS * d * sizeof(float));
		r->qkv0 = mem_alloc(OPS_MAX_TOKENS * qkv * sizeof(float));
		r->attn0 = mem_alloc(OPS_MAX_TOKENS * q * sizeof(float));
	} else if (r->seed == seed) {
		return;
	}
	r->seed = seed;
	rig_fill(r->x0, OPS_MAX_TOKENS * d, seed);
	rig_fill(r->qkv0, OPS_MAX_TOKENS * qkv, seed + 1000);
	rig_fill(r->attn0, OPS_MAX_TOKENS * q, seed + 2000);
}

void ops_begin(struct ops_rig *r, int n, uint32_t seed)
{
	const struct ops_options *o = &r->o;
	size_t d = (size_t)o->d_model, q = (size_t)(o->n_heads * o->head_dim),
		   qkv = (size_t)((o->n_heads + 2 * o->n_kv_heads) * o->head_dim);
	r->view = (struct batch_view){.n_tokens = n,
								  .n_seqs = 1,
								  .ids = r->ids,
								  .pos = r->pos,
								  .seq_start = r->seq_start,
								  .kv_len = r->kv_len,
								  .blocks = r->tables,
								  .out_rows = r->out_rows};
	r->seq_start[1] = n;
	r->kv_len[0] = n;
	for (int t = 0; t < n; t++) {
		r->ids[t] = t * 7 % o->n_vocab;
		r->pos[t] = t;
		if (t % 2 == 0)
			r->out_rows[r->view.n_out++] = t;
	}
	fill(r, d, q, qkv, seed);
	memcpy(r->x, r->x0, (size_t)n * d * sizeof(float));
	memcpy(r->qkv, r->qkv0, (size_t)n * qkv * sizeof(float));
	memcpy(r->attn, r->attn0, (size_t)n * q * sizeof(float));
	r->be->op->begin(r->be, &r->view);
}
