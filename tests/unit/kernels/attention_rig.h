// SPDX-License-Identifier: Apache-2.0
//
// Attention as a test sees it: sequences whose queries, keys and values are a function of (sequence, position), fed to
// a back end in steps of any cut, and what comes out for each position.
#ifndef QUIRE_TESTS_ATTENTION_RIG_H
#define QUIRE_TESTS_ATTENTION_RIG_H

#include "kernels/backend.h"

enum { RIG_SEQS = 6 };

struct rig_options {
	const char *isa; // "ref", or as cpu_backend_create
	int threads;
	enum kv_dtype kv;
	int block_tokens;
	int n_heads, n_kv_heads, head_dim, window;
	float softcap;
	enum rope_kind rope;
	int rope_dims;
	float magnitude;
	bool norms;
	int n_seqs, max_len, max_tokens;
	int shuffle;	  // which permutation of block numbers the sequences get
	float sharpness;  // scores are about this large
	uint16_t garbage; // bytes of blocks before their first use
};

struct rig {
	struct rig_options o;
	struct backend *be;
	float *qkv, *attn; // the back end's own
	struct attention a;
	struct rope rope;
	float inv_freq[MAX_HEAD_DIM / 2];
	struct vector *q_norm, *k_norm;
	int32_t *tables[RIG_SEQS];
	int len[RIG_SEQS];	  // positions in the cache
	float *out[RIG_SEQS]; // [max_len][H Dh], NaN where nothing was computed
	// The step being built, or the last one.
	struct batch_view step;
	int32_t *ids, *pos, starts[RIG_SEQS + 1], lens[RIG_SEQS];
	const int32_t *step_tables[RIG_SEQS];
	int step_seqs[RIG_SEQS], n_step;
};

// False if this machine lacks the instruction set.
bool rig_open(struct rig *r, const struct rig_options *o);
void rig_close(struct rig *r);

// Adds the next n tokens of sequence s to the step.
void rig_add(struct rig *r, int s, int n);
// Runs the step; with attend its outputs are kept, without only keys and values are.
void rig_run(struct rig *r, bool attend);
// All of a sequence up to its len'th token, in steps of `chunk`; attends from position `from` on.
void rig_prefill(struct rig *r, int s, int len, int chunk, int from);
const float *rig_row(const struct rig *r, int s, int pos); // [H Dh]
int rig_width(const struct rig *r);

// A number in -1 … 1 that depends on all arguments.
float rig_value(int seq, int pos, int index);

// The activations inside a reference back end, whose header does not go with the CPU's.
void rig_ref_activations(struct backend *be, float **qkv, float **attn);

#endif
