// SPDX-License-Identifier: Apache-2.0
//
// A model as the spec and its weights bound together: each layer's operations are made once at load, a step only
// calls them in order. No family has a name here.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"

#include <stdlib.h>

struct layer_ops {
	struct norm attn_norm, post_attn;
	struct attention attention;
	struct mlp mlp;
};

struct model {
	struct model_spec spec;
	struct backend *be;
	struct weights w;
	struct rope ropes[SPEC_MAX_ROPES];
	struct norm final_norm;
	struct layer_ops *layers; // [n_layers]
};

static struct norm make_norm(const struct model_spec *s, const struct vector *w)
{
	return (struct norm){.kind = w ? s->norm : NORM_NONE, .eps = s->norm_eps, .w = w};
}

static void bind_layer(struct model *m, int i)
{
	const struct layer_spec *l = &m->spec.layers[i];
	const struct layer_weights *w = &m->w.layers[i];
	struct layer_ops *o = &m->layers[i];
	o->attn_norm = make_norm(&m->spec, w->attn_norm);
	o->post_attn = make_norm(&m->spec, w->post_attn_norm);
	o->attention = (struct attention){
		.layer = i,
		.n_heads = l->n_heads,
		.n_kv_heads = l->n_kv_heads,
		.head_dim = l->head_dim,
		.window = l->window,
		.scale = l->attn_scale,
		.softcap = l->attn_softcap,
		.rope = l->rope < 0 ? NULL : &m->ropes[l->rope],
		.q_norm = w->q_norm,
		.k_norm = w->k_norm,
		.qk_norm_eps = m->spec.norm_eps,
	};
	o->mlp = (struct mlp){
		.norm = make_norm(&m->spec, w->mlp_norm),
		.in = w->in,
		.in_bias = w->in_bias,
		.down = w->down,
		.down_bias = w->down_bias,
		.post_norm = make_norm(&m->spec, w->post_mlp_norm),
		.act = l->act,
		.gated = l->gated,
		.d_ff = l->d_ff,
	};
}

static void bind(struct model *m)
{
	for (int i = 0; i < m->spec.n_ropes; i++) {
		const struct rope_spec *r = &m->spec.ropes[i];
		m->ropes[i] = (struct rope){r->kind, r->n_dims, r->inv_freq, r->magnitude, i};
	}
	m->layers = mem_zalloc((size_t)m->spec.n_layers, sizeof *m->layers);
	for (int i = 0; i < m->spec.n_layers; i++)
		bind_layer(m, i);
	m->final_norm = make_norm(&m->spec, m->w.final_norm);
}

int model_load(const struct gguf *g, struct backend *be, struct model **out, char *err, size_t len)
{
	struct model *m = mem_zalloc(1, sizeof *m);
	*out = NULL;
	m->be = be;
	int rc = model_read_spec(g, &m->spec, err, len);
	struct weight_source src = gguf_weights(g);
	if (!rc)
		rc = weights_load(&src, &m->spec, be, &m->w, err, len);
	if (rc) {
		model_destroy(m);
		return rc;
	}
	bind(m);
	*out = m;
	return 0;
}

void model_destroy(struct model *m)
{
	if (!m)
		return;
	weights_free(&m->w);
	model_spec_deinit(&m->spec);
	free(m->layers);
	free(m);
}

const struct model_spec *model_spec(const struct model *m)
{
	return &m->spec;
}

size_t model_weight_bytes(const struct model *m)
{
	return m->w.bytes;
}

bool model_borrows_file(const struct model *m)
{
	return m->w.borrows;
}

void model_kv_shape(const struct model_spec *s, enum kv_dtype type, int block_tokens, struct kv_shape *out)
{
	*out = (struct kv_shape){.type = type, .block_tokens = block_tokens, .n_layers = s->n_layers};
	for (int i = 0; i < s->n_layers; i++) {
		out->n_kv_heads[i] = s->layers[i].n_kv_heads;
		out->head_dim[i] = s->layers[i].head_dim;
	}
}

void model_reserve_sizes(const struct model *m, int max_tokens, int max_seqs, int max_out, int max_blocks,
						 struct reserve *out)
{
	*out = (struct reserve){
		.max_tokens = max_tokens,
		.max_seqs = max_seqs,
		.max_out = max_out,
		.d_model = m->spec.d_model,
		.n_vocab = m->spec.n_vocab,
		.n_ropes = m->spec.n_ropes,
		.max_blocks = max_blocks,
		.ropes = m->ropes,
	};
	for (int i = 0; i < m->spec.n_layers; i++) {
		const struct layer_spec *l = &m->spec.layers[i];
		int qkv = (l->n_heads + 2 * l->n_kv_heads) * l->head_dim;
		out->max_qkv = qkv > out->max_qkv ? qkv : out->max_qkv;
		out->d_ff = l->d_ff > out->d_ff ? l->d_ff : out->d_ff;
	}
}

void model_forward(struct model *m, const struct batch_view *b, float *logits)
{
	const struct backend_ops *op = m->be->op;
	op->begin(m->be, b);
	op->embed(m->be, m->w.embed, m->spec.embed_scale);
	for (int i = 0; i < m->spec.n_layers; i++) {
		const struct layer_ops *l = &m->layers[i];
		const struct layer_weights *w = &m->w.layers[i];
		op->norm_qkv(m->be, &l->attn_norm, w->qkv, w->qkv_bias);
		op->rope_append(m->be, &l->attention);
		op->attend(m->be, &l->attention);
		op->attn_out(m->be, w->out, w->out_bias, &l->post_attn, &l->attention);
		op->mlp(m->be, &l->mlp);
	}
	if (b->n_out)
		op->logits(m->be, &m->final_norm, m->w.head, m->spec.logit_softcap, logits);
}
