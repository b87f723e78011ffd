// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a model on its back end, under the names that forward.c uses. Engine thread.
//
// A file format is a weight_source: it finds the tensor that plays a role in a layer. GGUF's is gguf_weights; another
// format brings its own table of names, and nothing else here or in forward.c changes.
#ifndef QUIRE_MODEL_WEIGHTS_H
#define QUIRE_MODEL_WEIGHTS_H

#include "engine/model/gguf.h"
#include "engine/model/spec.h"

enum weight_role {
	WEIGHT_EMBED, // the first three are no layer's
	WEIGHT_HEAD,
	WEIGHT_FINAL_NORM,
	WEIGHT_ATTN_NORM,
	WEIGHT_Q,
	WEIGHT_K,
	WEIGHT_V,
	WEIGHT_Q_BIAS,
	WEIGHT_K_BIAS,
	WEIGHT_V_BIAS,
	WEIGHT_Q_NORM,
	WEIGHT_K_NORM,
	WEIGHT_OUT,
	WEIGHT_OUT_BIAS,
	WEIGHT_POST_ATTN_NORM,
	WEIGHT_MLP_NORM,
	WEIGHT_GATE,
	WEIGHT_UP,
	WEIGHT_GATE_BIAS,
	WEIGHT_UP_BIAS,
	WEIGHT_DOWN,
	WEIGHT_DOWN_BIAS,
	WEIGHT_POST_MLP_NORM,
	WEIGHT_ROLES,
};

enum { WEIGHT_NAME = 96 };

struct weight_source {
	const struct gguf *file;
	const char *path;
	void (*name)(enum weight_role role, int layer, char out[WEIGHT_NAME]);
	bool (*find)(const struct weight_source *src, enum weight_role role, int layer, struct gguf_tensor *out);
	// The first tensor of the file that plays no part in this spec, or NULL.
	const char *(*stray)(const struct weight_source *src, const struct model_spec *s);
	void (*release)(const struct weight_source *src, const struct gguf_tensor *t); // its bytes were copied
};

struct weight_source gguf_weights(const struct gguf *g);

// Whether the spec has such a tensor, and its row length and rows (1 for a vector).
bool weight_shape(const struct model_spec *s, enum weight_role role, int layer, uint64_t *k, uint64_t *rows);

// That every tensor of the spec is there with its shape and that the file has no others: a model with parts that this
// build would leave out must not seem to work. err names the tensor, what was found and what was wanted.
int weights_check(const struct weight_source *src, const struct model_spec *s, char *err, size_t len);

struct layer_weights {
	struct vector *attn_norm, *mlp_norm, *post_attn_norm, *post_mlp_norm, *q_norm, *k_norm;
	struct vector *qkv_bias, *out_bias, *in_bias, *down_bias;
	struct matrix *qkv, *out, *in, *down;
};

struct weights {
	struct backend *be;
	struct matrix *embed, *head; // head == embed where tied
	struct vector *final_norm;
	struct layer_weights *layers; // [n_layers]
	int n_layers;
	size_t bytes; // of the back end's copies, and of the file where it borrows
	bool borrows; // some matrix still reads the file
};

// After weights_check.
int weights_load(const struct weight_source *src, const struct model_spec *s, struct backend *be, struct weights *out,
				 char *err, size_t len);
void weights_free(struct weights *w);

#endif
