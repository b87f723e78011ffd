// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_PARTS = 3 };

static bool layer_has(const struct layer_spec *l, enum weight_role role)
{
	switch (role) {
	case WEIGHT_Q_BIAS:
	case WEIGHT_K_BIAS:
	case WEIGHT_V_BIAS:
		return l->qkv_bias;
	case WEIGHT_Q_NORM:
	case WEIGHT_K_NORM:
		return l->qk_norm;
	case WEIGHT_OUT_BIAS:
		return l->out_bias;
	case WEIGHT_GATE:
		return l->gated;
	case WEIGHT_GATE_BIAS:
		return l->gated && l->mlp_bias;
	case WEIGHT_UP_BIAS:
	case WEIGHT_DOWN_BIAS:
		return l->mlp_bias;
	case WEIGHT_POST_ATTN_NORM:
	case WEIGHT_POST_MLP_NORM:
		return l->post_norms;
	default:
		return true;
	}
}

static void layer_shape(const struct layer_spec *l, enum weight_role role, uint64_t d, uint64_t *k, uint64_t *rows)
{
	uint64_t q = (uint64_t)l->n_heads * (uint64_t)l->head_dim, kv = (uint64_t)l->n_kv_heads * (uint64_t)l->head_dim;
	uint64_t f = (uint64_t)l->d_ff, dh = (uint64_t)l->head_dim;
	const struct {
		uint64_t k, rows;
	} shapes[WEIGHT_ROLES] = {
		[WEIGHT_ATTN_NORM] = {d, 1}, [WEIGHT_POST_ATTN_NORM] = {d, 1},
		[WEIGHT_MLP_NORM] = {d, 1},	 [WEIGHT_POST_MLP_NORM] = {d, 1},
		[WEIGHT_Q] = {d, q},		 [WEIGHT_K] = {d, kv},
		[WEIGHT_V] = {d, kv},		 [WEIGHT_OUT] = {q, d},
		[WEIGHT_Q_BIAS] = {q, 1},	 [WEIGHT_K_BIAS] = {kv, 1},
		[WEIGHT_V_BIAS] = {kv, 1},	 [WEIGHT_OUT_BIAS] = {d, 1},
		[WEIGHT_Q_NORM] = {dh, 1},	 [WEIGHT_K_NORM] = {dh, 1},
		[WEIGHT_GATE] = {d, f},		 [WEIGHT_UP] = {d, f},
		[WEIGHT_DOWN] = {f, d},		 [WEIGHT_GATE_BIAS] = {f, 1},
		[WEIGHT_UP_BIAS] = {f, 1},	 [WEIGHT_DOWN_BIAS] = {d, 1},
	};
	*k = shapes[role].k;
	*rows = shapes[role].rows;
}

bool weight_shape(const struct model_spec *s, enum weight_role role, int layer, uint64_t *k, uint64_t *rows)
{
	*k = (uint64_t)s->d_model;
	*rows = role == WEIGHT_FINAL_NORM ? 1 : (uint64_t)s->n_vocab;
	if (role < WEIGHT_ATTN_NORM)
		return role != WEIGHT_HEAD || !s->tied;
	layer_shape(&s->layers[layer], role, (uint64_t)s->d_model, k, rows);
	return layer_has(&s->layers[layer], role);
}

static int check_one(const struct weight_source *src, const struct model_spec *s, enum weight_role role, int layer,
					 char *err, size_t len)
{
	char name[WEIGHT_NAME];
	struct gguf_tensor t;
	uint64_t k, rows;
	if (!weight_shape(s, role, layer, &k, &rows))
		return 0;
	src->name(role, layer, name);
	if (!src->find(src, role, layer, &t))
		return err_set(err, len, ERR_INVALID, "%s: the tensor %s is missing", src->path, name);
	if (t.dim[0] != k || t.dim[1] != rows || t.dim[2] != 1 || t.dim[3] != 1)
		return err_set(err, len, ERR_INVALID,
					   "%s: the tensor %s is %" PRIu64 " × %" PRIu64 " × %" PRIu64 ", the model's sizes want %" PRIu64
					   " × %" PRIu64,
					   src->path, name, t.dim[0], t.dim[1], t.dim[2] * t.dim[3], k, rows);
	return 0;
}

int weights_check(const struct weight_source *src, const struct model_spec *s, char *err, size_t len)
{
	int rc = 0;
	for (int role = 0; role < WEIGHT_ATTN_NORM && !rc; role++)
		rc = check_one(src, s, (enum weight_role)role, 0, err, len);
	for (int layer = 0; layer < s->n_layers; layer++)
		for (int role = WEIGHT_ATTN_NORM; role < WEIGHT_ROLES && !rc; role++)
			rc = check_one(src, s, (enum weight_role)role, layer, err, len);
	const char *stray = rc ? NULL : src->stray(src, s);
	if (stray)
		rc = err_set(err, len, ERR_UNSUPPORTED, "%s: the tensor %s is not part of a %s model that this build can run",
					 src->path, stray, s->arch);
	return rc;
}

struct loader {
	const struct weight_source *src;
	const struct model_spec *spec;
	struct weights *w;
	int layer;
	int rc; // the first failure; nothing is loaded after it
	char *err;
	size_t len;
};

// Those of the roles that the spec has, in order: what is stacked into one matrix or vector.
static int gather(struct loader *ld, const enum weight_role *roles, int n, struct gguf_tensor *out)
{
	uint64_t k, rows;
	int found = 0;
	for (int i = 0; i < n; i++) {
		if (!weight_shape(ld->spec, roles[i], ld->layer, &k, &rows))
			continue;
		bool there = ld->src->find(ld->src, roles[i], ld->layer, &out[found]);
		CHECK(there && out[found].dim[0] == k && out[found].dim[1] == rows, "role %d of layer %d was not checked",
			  (int)roles[i], ld->layer);
		found++;
	}
	return found;
}

static void load_matrix(struct loader *ld, struct matrix **out, const enum weight_role *roles, int n)
{
	struct gguf_tensor t[MAX_PARTS];
	struct matrix_part parts[MAX_PARTS];
	const struct backend_ops *op = ld->w->be->op;
	bool borrows = false;
	char why[256] = "";
	if (ld->rc)
		return;
	n = gather(ld, roles, n, t);
	for (int i = 0; i < n; i++)
		parts[i] = (struct matrix_part){t[i].type, t[i].dim[1], t[i].data};
	ld->rc = op->matrix_load(ld->w->be, parts, n, t[0].dim[0], out, &borrows, why, sizeof why);
	if (ld->rc) {
		*out = NULL;
		err_set(ld->err, ld->len, ld->rc, "%s: the tensor %s: %s", ld->src->path, t[0].name, why);
		return;
	}
	ld->w->bytes += op->matrix_bytes(*out);
	ld->w->borrows |= borrows;
	for (int i = 0; i < n; i++) {
		if (borrows)
			ld->w->bytes += t[i].bytes;
		else
			ld->src->release(ld->src, &t[i]);
	}
}

static void load_vector(struct loader *ld, struct vector **out, const enum weight_role *roles, int n)
{
	struct gguf_tensor t[MAX_PARTS];
	size_t total = 0;
	if (ld->rc || !(n = gather(ld, roles, n, t)))
		return;
	for (int i = 0; i < n; i++)
		total += (size_t)t[i].dim[0];
	float *values = mem_zalloc(total, sizeof *values), *at = values;
	for (int i = 0; i < n; i++, at += t[i - 1].dim[0])
		dtype_decode(t[i].type, t[i].data, (size_t)t[i].dim[0], at);
	ld->rc = ld->w->be->op->vector_load(ld->w->be, values, total, out);
	if (ld->rc) {
		*out = NULL;
		err_set(ld->err, ld->len, ld->rc, "%s: the tensor %s: no memory for %zu values", ld->src->path, t[0].name,
				total);
	}
	ld->w->bytes += total * sizeof *values;
	free(values);
}

#define ROLES(...)                                                                                                     \
	(const enum weight_role[]){__VA_ARGS__},                                                                           \
		(int)(sizeof((const enum weight_role[]){__VA_ARGS__}) / sizeof(enum weight_role))

static void load_layer(struct loader *ld, struct layer_weights *w)
{
	load_vector(ld, &w->attn_norm, ROLES(WEIGHT_ATTN_NORM));
	load_matrix(ld, &w->qkv, ROLES(WEIGHT_Q, WEIGHT_K, WEIGHT_V));
	load_vector(ld, &w->qkv_bias, ROLES(WEIGHT_Q_BIAS, WEIGHT_K_BIAS, WEIGHT_V_BIAS));
	load_vector(ld, &w->q_norm, ROLES(WEIGHT_Q_NORM));
	load_vector(ld, &w->k_norm, ROLES(WEIGHT_K_NORM));
	load_matrix(ld, &w->out, ROLES(WEIGHT_OUT));
	load_vector(ld, &w->out_bias, ROLES(WEIGHT_OUT_BIAS));
	load_vector(ld, &w->post_attn_norm, ROLES(WEIGHT_POST_ATTN_NORM));
	load_vector(ld, &w->mlp_norm, ROLES(WEIGHT_MLP_NORM));
	load_matrix(ld, &w->in, ROLES(WEIGHT_GATE, WEIGHT_UP));
	load_vector(ld, &w->in_bias, ROLES(WEIGHT_GATE_BIAS, WEIGHT_UP_BIAS));
	load_matrix(ld, &w->down, ROLES(WEIGHT_DOWN));
	load_vector(ld, &w->down_bias, ROLES(WEIGHT_DOWN_BIAS));
	load_vector(ld, &w->post_mlp_norm, ROLES(WEIGHT_POST_MLP_NORM));
}

int weights_load(const struct weight_source *src, const struct model_spec *s, struct backend *be, struct weights *out,
				 char *err, size_t len)
{
	*out = (struct weights){.be = be, .n_layers = s->n_layers};
	struct loader ld = {.src = src, .spec = s, .w = out, .err = err, .len = len};
	out->layers = mem_zalloc((size_t)s->n_layers, sizeof *out->layers);
	load_matrix(&ld, &out->embed, ROLES(WEIGHT_EMBED));
	for (ld.layer = 0; ld.layer < s->n_layers; ld.layer++)
		load_layer(&ld, &out->layers[ld.layer]);
	load_vector(&ld, &out->final_norm, ROLES(WEIGHT_FINAL_NORM));
	if (s->tied)
		out->head = out->embed;
	else
		load_matrix(&ld, &out->head, ROLES(WEIGHT_HEAD));
	if (ld.rc)
		weights_free(out);
	return ld.rc;
}

void weights_free(struct weights *w)
{
	if (!w->be)
		return;
	const struct backend_ops *op = w->be->op;
	for (int i = 0; i < w->n_layers; i++) {
		struct layer_weights *l = &w->layers[i];
		struct matrix *m[] = {l->qkv, l->out, l->in, l->down};
		struct vector *v[] = {l->attn_norm, l->mlp_norm, l->post_attn_norm, l->post_mlp_norm, l->q_norm,
							  l->k_norm,	l->qkv_bias, l->out_bias,		l->in_bias,		  l->down_bias};
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
