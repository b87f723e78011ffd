// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARTS = 3, NAME = 96 };

struct loader {
	const struct gguf *g;
	const struct model_spec *spec;
	struct weights *w;
	char *err;
	size_t len;
};

struct wanted { // one tensor of a stacked matrix or vector
	const char *name; // with %d for the layer
	int rows;
};

static void name_of(char out[NAME], const char *pattern, int layer)
{
	snprintf(out, NAME, pattern, layer); // patterns are this file's own
}

static const struct gguf_tensor *find(struct loader *ld, const char *pattern, int layer, uint64_t k, uint64_t rows, int *rc)
{
	char name[NAME];
	name_of(name, pattern, layer);
	const struct gguf_tensor *t = gguf_find_tensor(ld->g, name);
	if (!t) {
		*rc = err_set(ld->err, ld->len, ERR_INVALID, "%s: the tensor %s is missing", gguf_path(ld->g), name);
		return NULL;
	}
	if (t->dim[0] != k || t->dim[1] != rows || t->dim[2] != 1 || t->dim[3] != 1) {
		*rc = err_set(ld->err, ld->len, ERR_INVALID, "%s: the tensor %s is %" PRIu64 " × %" PRIu64 ", the model's sizes want %" PRIu64 " × %" PRIu64,
		              gguf_path(ld->g), name, t->dim[0], t->dim[1], k, rows);
		return NULL;
	}
	return t;
}

static int load_matrix(struct loader *ld, const struct wanted *parts, int n, int layer, int k, struct matrix **out)
{
	struct matrix_part p[MAX_PARTS];
	const struct gguf_tensor *t[MAX_PARTS];
	int rc = 0;
	bool borrows = false;
	for (int i = 0; i < n; i++) {
		t[i] = find(ld, parts[i].name, layer, (uint64_t)k, (uint64_t)parts[i].rows, &rc);
		if (!t[i])
			return rc;
		p[i] = (struct matrix_part){t[i]->type, (uint64_t)parts[i].rows, t[i]->data};
	}
	char why[256];
	rc = ld->w->be->op->matrix_load(ld->w->be, p, n, (uint64_t)k, out, &borrows, why, sizeof why);
	if (rc)
		return err_set(ld->err, ld->len, rc, "%s: %s: %s", gguf_path(ld->g), t[0]->name, why);
	ld->w->bytes += ld->w->be->op->matrix_bytes(*out);
	ld->w->borrows |= borrows;
	for (int i = 0; i < n && !borrows; i++)
		gguf_drop_pages(ld->g, t[i]);
	return 0;
}

static int load_vector(struct loader *ld, const struct wanted *parts, int n, int layer, struct vector **out)
{
	size_t total = 0;
	int rc = 0;
	for (int i = 0; i < n; i++)
		total += (size_t)parts[i].rows;
	float *v = mem_zalloc(total, sizeof *v), *at = v;
	for (int i = 0; i < n && !rc; i++) {
		const struct gguf_tensor *t = find(ld, parts[i].name, layer, (uint64_t)parts[i].rows, 1, &rc);
		if (t)
			dtype_decode(t->type, t->data, (size_t)parts[i].rows, at);
		at += parts[i].rows;
	}
	if (!rc)
		rc = ld->w->be->op->vector_load(ld->w->be, v, total, out);
	free(v);
	return rc;
}

static int load_attention(struct loader *ld, int i, struct layer_weights *w)
{
	const struct layer_spec *l = &ld->spec->layers[i];
	int q = l->n_heads * l->head_dim, kv = l->n_kv_heads * l->head_dim, d = ld->spec->d_model;
	struct wanted qkv[] = {{"blk.%d.attn_q.weight", q}, {"blk.%d.attn_k.weight", kv}, {"blk.%d.attn_v.weight", kv}};
	struct wanted bias[] = {{"blk.%d.attn_q.bias", q}, {"blk.%d.attn_k.bias", kv}, {"blk.%d.attn_v.bias", kv}};
	struct wanted out = {"blk.%d.attn_output.weight", d}, out_bias = {"blk.%d.attn_output.bias", d};
	struct wanted norm = {"blk.%d.attn_norm.weight", d}, post = {"blk.%d.post_attention_norm.weight", d};
	struct wanted q_norm = {"blk.%d.attn_q_norm.weight", l->head_dim}, k_norm = {"blk.%d.attn_k_norm.weight", l->head_dim};
	int rc = load_vector(ld, &norm, 1, i, &w->attn_norm);
	if (!rc)
		rc = load_matrix(ld, qkv, 3, i, d, &w->qkv);
	if (!rc && l->qkv_bias)
		rc = load_vector(ld, bias, 3, i, &w->qkv_bias);
	if (!rc && l->qk_norm)
		rc = load_vector(ld, &q_norm, 1, i, &w->q_norm);
	if (!rc && l->qk_norm)
		rc = load_vector(ld, &k_norm, 1, i, &w->k_norm);
	if (!rc)
		rc = load_matrix(ld, &out, 1, i, q, &w->out);
	if (!rc && l->out_bias)
		rc = load_vector(ld, &out_bias, 1, i, &w->out_bias);
	if (!rc && l->post_norms)
		rc = load_vector(ld, &post, 1, i, &w->post_attn_norm);
	return rc;
}

static int load_mlp(struct loader *ld, int i, struct layer_weights *w)
{
	const struct layer_spec *l = &ld->spec->layers[i];
	int d = ld->spec->d_model, f = l->d_ff;
	struct wanted in[] = {{"blk.%d.ffn_gate.weight", f}, {"blk.%d.ffn_up.weight", f}};
	struct wanted in_bias[] = {{"blk.%d.ffn_gate.bias", f}, {"blk.%d.ffn_up.bias", f}};
	struct wanted down = {"blk.%d.ffn_down.weight", d}, down_bias = {"blk.%d.ffn_down.bias", d};
	struct wanted norm = {"blk.%d.ffn_norm.weight", d}, post = {"blk.%d.post_ffw_norm.weight", d};
	int skip = l->gated ? 0 : 1, n = 2 - skip;
	int rc = load_vector(ld, &norm, 1, i, &w->ffn_norm);
	if (!rc)
		rc = load_matrix(ld, in + skip, n, i, d, &w->in);
	if (!rc && l->mlp_bias)
		rc = load_vector(ld, in_bias + skip, n, i, &w->in_bias);
	if (!rc)
		rc = load_matrix(ld, &down, 1, i, f, &w->down);
	if (!rc && l->mlp_bias)
		rc = load_vector(ld, &down_bias, 1, i, &w->down_bias);
	if (!rc && l->post_norms)
		rc = load_vector(ld, &post, 1, i, &w->post_ffn_norm);
	return rc;
}

int weights_load(const struct gguf *g, const struct model_spec *s, struct backend *be, struct weights *out, char *err, size_t len)
{
	*out = (struct weights){.be = be, .n_layers = s->n_layers};
	struct loader ld = {g, s, out, err, len};
	struct wanted embed = {"token_embd.weight", s->n_vocab}, head = {"output.weight", s->n_vocab}, norm = {"output_norm.weight", s->d_model};
	out->layers = mem_zalloc((size_t)s->n_layers, sizeof *out->layers);
	int rc = load_matrix(&ld, &embed, 1, 0, s->d_model, &out->embed);
	for (int i = 0; i < s->n_layers && !rc; i++) {
		rc = load_attention(&ld, i, &out->layers[i]);
		if (!rc)
			rc = load_mlp(&ld, i, &out->layers[i]);
	}
	if (!rc)
		rc = load_vector(&ld, &norm, 1, 0, &out->final_norm);
	if (!rc && s->tied)
		out->head = out->embed;
	else if (!rc)
		rc = load_matrix(&ld, &head, 1, 0, s->d_model, &out->head);
	if (rc)
		weights_free(out);
	return rc;
}

void weights_free(struct weights *w)
{
	if (!w->be)
		return;
	const struct backend_ops *op = w->be->op;
	for (int i = 0; i < w->n_layers; i++) {
		struct layer_weights *l = &w->layers[i];
		struct matrix *m[] = {l->qkv, l->out, l->in, l->down};
		struct vector *v[] = {l->attn_norm, l->ffn_norm, l->post_attn_norm, l->post_ffn_norm, l->q_norm,
		                      l->k_norm,    l->qkv_bias, l->out_bias,       l->in_bias,       l->down_bias};
		for (size_t k = 0; k < sizeof m / sizeof m[0]; k++)
			op->matrix_free(w->be, m[k]);
		for (size_t k = 0; k < sizeof v / sizeof v[0]; k++)
			op->vector_free(w->be, v[k]);
	}
	if (w->head != w->embed)
		op->matrix_free(w->be, w->head);
	op->matrix_free(w->be, w->embed);
	op->vector_free(w->be, w->final_norm);
	free(w->layers);
	*w = (struct weights){0};
}
