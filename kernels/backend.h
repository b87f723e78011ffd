// SPDX-License-Identifier: Apache-2.0
//
// The one table of operations that every back end fills: ref (plain loops, float32: the judge), cpu, cuda. Operations are
// coarse, so that a back end can fuse. All letters are those of shapes.h.
//
// Promise of every back end (DESIGN: determinism): the bits of a row depend on that row, its sequence's cache and the
// weights, never on which other rows are in the step, how a prompt was cut into chunks, or on the number of threads.
// Loops end at a sequence's length; what lies past it in a block is never multiplied.
//
// One thread (the engine's) calls everything but describe. Loading may use the back end's own threads. No operation after
// load allocates memory; a back end sizes its scratch at `reserve`.
#ifndef QUIRE_KERNELS_BACKEND_H
#define QUIRE_KERNELS_BACKEND_H

#include "kernels/dtype.h"
#include "kernels/shapes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backend;
struct matrix; // [N][K] weights in the back end's own layout
struct vector; // [N] float32

// Rows of a matrix as a file holds them; one matrix may be stacked from several (Q, K and V; gate and up), whose types
// may differ.
struct matrix_part {
	enum dtype type;
	uint64_t rows;
	const void *data; // rows of K values each, packed; only read during matrix_load
};

enum norm_kind { NORM_NONE, NORM_RMS, NORM_LAYER };

// RMS: y = x / sqrt(mean(x²) + eps) * w.  LAYER: y = (x - mean) / sqrt(var + eps) * w + b. (Gemma's 1 + w is folded at load.)
struct norm {
	enum norm_kind kind;
	float eps;
	const struct vector *w; // [D]
	const struct vector *b; // [D] or NULL
};

enum activation { ACT_SILU, ACT_GELU_TANH, ACT_GELU_ERF };

// x += post_norm(down(act(gate(norm(x))) * up(norm(x)))), or without up: x += post_norm(down(act(up(norm(x)))))
struct mlp {
	struct norm norm;
	const struct matrix *in; // gated: [2F][D], gate rows first; plain: [F][D]
	const struct vector *in_bias;
	const struct matrix *down; // [D][F]
	const struct vector *down_bias;
	struct norm post_norm; // NORM_NONE where the model has none
	enum activation act;
	bool gated;
	int d_ff; // F
};

enum rope_kind { ROPE_NONE, ROPE_HALVES /* pairs (i, i + n/2): NeoX */, ROPE_PAIRS /* pairs (2i, 2i + 1) */ };

struct rope {
	enum rope_kind kind;
	int n_dims;            // first n_dims of a head are rotated, the rest pass
	const float *inv_freq; // [n_dims / 2], scaling already applied; angle = (float)pos * inv_freq[i]
	float magnitude;       // multiplies cos and sin (YaRN), else 1
	int index;             // which of the model's rope tables this is, 0 … n_ropes - 1
};

struct attention {
	int layer; // which part of a block
	int n_heads, n_kv_heads, head_dim;
	int window;    // 0: all earlier positions; else a query sees itself and the window - 1 before it
	float scale;   // of q·k
	float softcap; // 0: none; else s = cap * tanh(s / cap)
	const struct rope *rope;
	const struct vector *q_norm, *k_norm; // [Dh] RMS norms of every head before the rotation, or NULL
	float qk_norm_eps;
};

// What one step computes: a ragged batch of prompt chunks and decodes. Rows of a sequence have consecutive positions.
struct batch_view {
	int n_tokens;                 // T
	int n_seqs;                   // S
	const int32_t *ids;           // [T]
	const int32_t *pos;           // [T] absolute positions
	const int32_t *seq_start;     // [S + 1] rows seq_start[s] … seq_start[s + 1] - 1 belong to sequence s
	const int32_t *kv_len;        // [S] its positions in the cache once this step's are appended: last pos + 1
	const int32_t *const *blocks; // [S] block tables: position p lies in block blocks[s][p / B], slot p % B
	int n_out;                    // rows whose logits are wanted
	const int32_t *out_rows;      // [n_out] ascending
};

enum kv_dtype { KV_F16, KV_F32 };

struct kv_shape {
	enum kv_dtype type;
	int block_tokens; // B
	int n_layers;
	int n_kv_heads[MAX_LAYERS];
	int head_dim[MAX_LAYERS];
};

struct reserve { // the largest step, for scratch
	int max_tokens, max_seqs, max_out;
	int d_model, d_ff, n_vocab, max_qkv /* (H + 2 KH) * Dh of the widest layer */;
	int n_ropes, max_blocks /* a sequence's table */;
	const struct rope *ropes; // [n_ropes], lives as long as the back end
};

struct backend_ops {
	// One line for reports and bug reports, such as "cpu avx512-vnni, 2 threads". Any thread.
	const char *(*describe)(const struct backend *be);
	void (*destroy)(struct backend *be); // everything loaded must have been freed

	// Weights. ERR_UNSUPPORTED for a type the back end cannot take, ERR_NOMEM; err names what. The matrix may keep reading
	// `data` for as long as it lives only if *borrows is set to true (the file must then stay mapped).
	int (*matrix_load)(struct backend *be, const struct matrix_part *parts, int n_parts, uint64_t k, struct matrix **out,
	                   bool *borrows, char *err, size_t len);
	void (*matrix_free)(struct backend *be, struct matrix *m);
	size_t (*matrix_bytes)(const struct matrix *m); // of the back end's own copy
	int (*vector_load)(struct backend *be, const float *values, size_t n, struct vector **out);
	void (*vector_free)(struct backend *be, struct vector *v);

	// Scratch and activations for steps up to these sizes; called once. scratch_bytes says what it takes, before or after.
	size_t (*scratch_bytes)(const struct backend *be, const struct reserve *r);
	int (*reserve)(struct backend *be, const struct reserve *r, char *err, size_t len);

	// KV blocks: address space for n_blocks is taken here, pages on first use. One cache a back end.
	size_t (*kv_block_bytes)(const struct backend *be, const struct kv_shape *shape);
	int (*kv_create)(struct backend *be, const struct kv_shape *shape, size_t n_blocks, char *err, size_t len);
	void (*kv_copy_tokens)(struct backend *be, int32_t src, int32_t dst, int n); // first n tokens of a block, all layers
	void (*kv_read_block)(struct backend *be, int32_t block, void *dst);         // whole blocks, opaque bytes
	void (*kv_write_block)(struct backend *be, int32_t block, const void *src);

	// A step: begin, then the operations in model order. x is the residual stream float[T][D], allocated by the back end
	// at reserve and shared by the operations of one step; qkv and attn likewise: callers name them by these functions' order.
	void (*begin)(struct backend *be, const struct batch_view *b);
	void (*embed)(struct backend *be, const struct matrix *table, float scale);                       // ids → x
	void (*add_positions)(struct backend *be, const struct matrix *table);                            // x += table[pos]; optional (NULL)
	void (*norm_qkv)(struct backend *be, const struct norm *n, const struct matrix *w, const struct vector *bias); // x → qkv
	void (*rope_append)(struct backend *be, const struct attention *a);                              // qkv: norm, rotate, append K and V
	void (*attend)(struct backend *be, const struct attention *a);                                    // q of qkv → attn[T][H Dh]
	void (*attn_out)(struct backend *be, const struct matrix *w, const struct vector *bias, const struct norm *post,
	                 const struct attention *a);                                                      // x += post(attn · Wᵀ + bias)
	void (*mlp)(struct backend *be, const struct mlp *m);                                             // x += …
	// Final norm and head on the rows of out_rows; logits[n_out][V] is the caller's host memory.
	void (*logits)(struct backend *be, const struct norm *n, const struct matrix *head, float softcap, float *logits);
};

struct backend {
	const struct backend_ops *op;
};

struct backend *ref_backend_create(int n_threads); // rows over a few threads; never fails
// n_threads 0: all cores this process may use. isa NULL: the best one here; else "avx512-vnni", "avx2", "scalar"
// (ERR_UNSUPPORTED when the machine lacks it).
int cpu_backend_create(int n_threads, const char *isa, struct backend **out, char *err, size_t len);

#endif
