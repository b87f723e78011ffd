// SPDX-License-Identifier: Apache-2.0
//
// What a model is: sizes, and per layer which attention, norm, MLP and rotation. A family's arch_*.c fills it from
// file metadata; forward.c executes it and has no family names in it. Plain data, immutable after load.
#ifndef QUIRE_MODEL_SPEC_H
#define QUIRE_MODEL_SPEC_H

#include "kernels/backend.h"

enum { SPEC_MAX_ROPES = 4, SPEC_NAME = 96 };

enum layer_kind { LAYER_ATTENTION }; // latent, state-space and linear layers join here

struct layer_spec {
	enum layer_kind kind;
	int n_heads, n_kv_heads, head_dim;
	int window; // 0: full attention
	int rope;	// index into ropes, -1: no rotation
	float attn_scale;
	float attn_softcap;
	bool qk_norm; // RMS norm of each query and key head
	bool qkv_bias, out_bias, mlp_bias;
	bool post_norms; // norms after attention and MLP, before the residual (Gemma 2 and 3)
	int d_ff;
	bool gated;
	enum activation act;
};

struct rope_spec {
	enum rope_kind kind;
	int n_dims;
	double base;
	float *inv_freq; // [n_dims / 2], owned by the spec
	float magnitude;
};

struct model_spec {
	char arch[SPEC_NAME]; // "llama"
	char name[SPEC_NAME]; // general.name, or the file's
	int n_layers, d_model, n_vocab;
	int n_ctx; // longest context that the file states
	enum norm_kind norm;
	float norm_eps;
	float embed_scale;
	float logit_softcap; // 0: none
	bool tied;			 // the head is the embedding table
	int n_ropes;
	struct rope_spec ropes[SPEC_MAX_ROPES];
	struct layer_spec *layers; // [n_layers]
};

void model_spec_deinit(struct model_spec *s);

#endif
