// SPDX-License-Identifier: Apache-2.0
//
// Inside the CPU back end: its state, shared by backend.c (the table of operations), matrix.c (packing), linear.c (norm,
// quantise, multiply, epilogue), rows.c (embedding and other row-wise work), attend.c and kv.c. ISA-specific code lives in files named *_avx512.c, *_avx2.c
// and *_scalar.c that fill one struct cpu_isa each; nothing else is compiled with ISA flags.
#ifndef QUIRE_CPU_CPU_H
#define QUIRE_CPU_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

struct cpu_linear_isa;    // kernels/cpu/linear_isa.h: quantise, pack order and GEMM tiles by type
struct cpu_attention_isa; // kernels/cpu/attention_isa.h: attention tiles, rotation, K and V stores

struct cpu_isa {
	const char *name; // "avx512-vnni", "avx2", "scalar"
	const struct cpu_linear_isa *linear;
	const struct cpu_attention_isa *attention;
};

struct cpu_kv {
	struct kv_shape shape;
	size_t layer_offset[MAX_LAYERS]; // bytes from a block's start to layer l: [KH] × { K [Dh][B], V [B][Dh] }
	size_t block_bytes;              // a multiple of KERNEL_ALIGN
	size_t n_blocks;
	char *base;                      // mmap, pages on first use
	size_t map_bytes;
};

struct cpu_backend {
	struct backend base; // first: a struct backend * is one of these
	struct team *team;
	const struct cpu_isa *isa;
	char describe[96];
	struct reserve size;
	struct cpu_kv kv;
	const struct batch_view *batch; // bound by begin
	// Activations of a step, KERNEL_ALIGNed.
	float *x;    // [T][D]
	float *qkv;  // [T][max_qkv]: row stride is the layer's own (H + 2 KH) * Dh
	float *attn; // [T][H * Dh]
	float *rope; // [n_ropes][T][n_dims / 2][2]: cos, sin of this step's rows, filled by begin; see cpu_rope_row
	struct slab *slab;       // where the next matrix is packed; owned by matrix.c
	struct linear_scratch *linear_scratch; // owned by linear.c
	void *attention_scratch; // owned by attend.c
};

static inline struct cpu_backend *cpu_of(struct backend *be)
{
	return (struct cpu_backend *)(void *)be;
}

// linear.c and matrix.c
int cpu_matrix_load(struct backend *be, const struct matrix_part *parts, int n_parts, uint64_t k, struct matrix **out,
                    bool *borrows, char *err, size_t len);
void cpu_matrix_free(struct backend *be, struct matrix *m);
size_t cpu_matrix_bytes(const struct matrix *m);
size_t cpu_linear_scratch_bytes(const struct cpu_backend *be, const struct reserve *r);
int cpu_linear_reserve(struct cpu_backend *be, const struct reserve *r); // ERR_NOMEM
void cpu_linear_release(struct cpu_backend *be);
void cpu_embed(struct backend *be, const struct matrix *table, float scale);
void cpu_norm_qkv(struct backend *be, const struct norm *n, const struct matrix *w, const struct vector *bias);
void cpu_attn_out(struct backend *be, const struct matrix *w, const struct vector *bias, const struct norm *post,
                  const struct attention *a);
void cpu_mlp(struct backend *be, const struct mlp *m);
void cpu_logits(struct backend *be, const struct norm *n, const struct matrix *head, float softcap, float *logits);

// attend.c, rope.c and kv.c
size_t cpu_attention_scratch_bytes(const struct cpu_backend *be, const struct reserve *r);
int cpu_attention_reserve(struct cpu_backend *be, const struct reserve *r);
void cpu_attention_release(struct cpu_backend *be);
void cpu_rope_begin(struct cpu_backend *be); // fills be->rope for be->batch
void cpu_rope_append(struct backend *be, const struct attention *a);
void cpu_attend(struct backend *be, const struct attention *a);
size_t cpu_kv_block_bytes(const struct backend *be, const struct kv_shape *shape);
int cpu_kv_create(struct backend *be, const struct kv_shape *shape, size_t n_blocks, char *err, size_t len);
void cpu_kv_release(struct cpu_backend *be);
void cpu_kv_copy_tokens(struct backend *be, int32_t src, int32_t dst, int n);
void cpu_kv_read_block(struct backend *be, int32_t block, void *dst);
void cpu_kv_write_block(struct backend *be, int32_t block, const void *src);

// Vectors are plain arrays on the CPU: [n] float32, KERNEL_ALIGNed, in backend.c.
struct vector {
	size_t n;
	_Alignas(KERNEL_ALIGN) float v[];
};

#endif
