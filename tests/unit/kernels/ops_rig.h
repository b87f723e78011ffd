// SPDX-License-Identifier: Apache-2.0
//
// A small model's worth of weights on a back end, and its activations, so that a test can run one operation at a time
// and compare what two back ends make of the same input.
#ifndef QUIRE_TESTS_OPS_RIG_H
#define QUIRE_TESTS_OPS_RIG_H

#include "kernels/backend.h"

enum { OPS_MAX_TOKENS = 100 };

struct ops_options {
	const char *backend; // "ref", or an instruction set of the CPU back end
	int threads;
	enum dtype type; // of every weight but those named below
	enum dtype v_type, down_type;
	int d_model, d_ff, n_heads, n_kv_heads, head_dim, n_vocab;
	bool fused_mlp; // gate and up come as one part
	bool gated, biases, post_norms, layer_norm;
	enum activation act;
	float softcap;
};

struct ops_rig {
	struct ops_options o;
	struct backend *be;
	float *x, *qkv, *attn; // the back end's own
	struct matrix *embed, *qkv_w, *out_w, *in_w, *down_w, *head;
	struct vector *norm_w, *norm_b, *qkv_b, *out_b, *in_b, *down_b;
	struct attention a;
	struct mlp mlp;
	struct norm norm, post;
	// The step.
	struct batch_view view;
	int32_t ids[OPS_MAX_TOKENS], pos[OPS_MAX_TOKENS], out_rows[OPS_MAX_TOKENS], seq_start[2], kv_len[1];
	int32_t table[OPS_MAX_TOKENS];
	const int32_t *tables[1];
	float *logits; // [OPS_MAX_TOKENS][V]
	// What activations start from, made for one seed.
	uint32_t seed;
	float *x0, *qkv0, *attn0;
};

// False if this machine lacks the back end.
bool ops_open(struct ops_rig *r, const struct ops_options *o);
void ops_close(struct ops_rig *r);
// Begins a step of n tokens of one sequence; every second row wants logits. Activations get the values of `seed`, the
// same for a row whatever n is.
void ops_begin(struct ops_rig *r, int n, uint32_t seed);

// The activations inside a reference back end, whose header does not go with the CPU's.
void ops_ref_activations(struct backend *be, float **x, float **qkv, float **attn);

#endif
