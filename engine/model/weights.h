// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a model on its back end, under the names that forward.c uses. Engine thread.
#ifndef QUIRE_MODEL_WEIGHTS_H
#define QUIRE_MODEL_WEIGHTS_H

#include "engine/model/gguf.h"
#include "engine/model/spec.h"

struct layer_weights {
	struct vector *attn_norm, *ffn_norm, *post_attn_norm, *post_ffn_norm, *q_norm, *k_norm;
	struct vector *qkv_bias, *out_bias, *in_bias, *down_bias;
	struct matrix *qkv, *out, *in, *down;
};

struct weights {
	struct backend *be;
	struct matrix *embed, *head; // head == embed where tied
	struct vector *final_norm;
	struct layer_weights *layers; // [n_layers]
	int n_layers;
	size_t bytes;                 // of the back end's copies
	bool borrows;                 // some matrix still reads the file
};

// Checks that every tensor of the spec is there with its shape (err names tensor, found and wanted shape) and loads it.
int weights_load(const struct gguf *g, const struct model_spec *s, struct backend *be, struct weights *out, char *err, size_t len);
void weights_free(struct weights *w);

#endif
