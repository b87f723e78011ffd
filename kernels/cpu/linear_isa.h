// SPDX-License-Identifier: Apache-2.0
//
// What the linear operations need of an instruction set, and the data that passes between: packed weights, quantised
// activations, tiles. The packed form is the same on every instruction set, and so is every float step; integer sums
// are exact. All instruction sets therefore give the same bits for every type.
//
// Packed weights. GROUP output rows lie together, as blocks of BLOCK inputs in ascending order. A block is
//   codes: BLOCK / 4 steps of 4 inputs; in a step, row r's four bytes are at 4 r. Nibble types put step 2j into the low
//          and step 2j + 1 into the high half of 128 bytes.
//   scales: see the table of struct cpu_layout. Types with super-blocks of SUPER inputs have a header before every
//          SUPER / BLOCK blocks.
// Every plane is a multiple of 64 bytes, and a group is one linear stream. Float types are [K][GROUP].
//
// A block adds to the one accumulator of an output (all arithmetic float32, fma rounds once; s exact):
//   s = Σ (code - zero) · q      a = fma((float)s, scale · d, a)      with minima: a = fma(min, d · Σ q, a)
// where SUB types have scale = (float)sub_scale · super_scale and min = -(float)sub_min · super_min, and Q6_K takes two
// such steps of 16 inputs a block. Float types: a = fma(w, x, a) for ascending k.
#ifndef QUIRE_CPU_LINEAR_ISA_H
#define QUIRE_CPU_LINEAR_ISA_H

#include "kernels/backend.h"

enum {
	GROUP = 32,
	BLOCK = 32,
	SUPER = 256,
	MAX_TILE = 8, // tokens
};

enum cpu_layout {
	LAYOUT_Q4_0,
	LAYOUT_Q4_1,
	LAYOUT_Q5_0,
	LAYOUT_Q5_1,
	LAYOUT_Q8_0,
	LAYOUT_Q4_K,
	LAYOUT_Q5_K,
	LAYOUT_Q6_K,
	N_INT_LAYOUTS,
	LAYOUT_F16 = N_INT_LAYOUTS,
	LAYOUT_BF16,
	LAYOUT_F32,
	N_LAYOUTS
};

// A block of BLOCK activations of one row: x ≈ d · q. One cache line, the same whatever the batch.
struct act_block {
	_Alignas(64) int8_t q[BLOCK];
	float d;
	float d_sum; // d · Σ q
	// -zero · Σ q for each zero point that a layout has: where an integer accumulator starts.
	int32_t zero8, zero16, zero128;
	int32_t zero32[2]; // of each half of the block
};

struct cpu_tile {
	const uint8_t *w;		   // a group
	size_t n;				   // blocks; float types: inputs
	const struct act_block *q; // first row, [stride] blocks a row
	const float *x;			   // float types instead: [stride] floats a row
	size_t stride;
	int n_tokens;		  // 1 … MAX_TILE
	float *c;			  // [n_tokens][GROUP], 64-byte aligned; float types add to it
	const uint8_t *ahead; // prefetched while computing: `lines` cache lines with every block
	int lines;
};

// What happens to a tile of results: y = [softcap of] c + bias [+ y].
struct cpu_columns {
	const float *c;		// [n][GROUP], or [n][2][GROUP]
	bool with_residues; // every row is the sum of two
	size_t n, cols;		// of which the first cols are meant
	const float *bias;	// [cols] or NULL
	float softcap;		// cap · tanh(v / cap), or 0
	bool residual;
	float *y; // [n][stride]
	size_t stride;
};

// The same for an MLP's hidden values: act(gate + bias) · (up + up_bias), as inputs of the next product.
struct cpu_hidden {
	const float *gate, *up; // [n][GROUP]; up NULL: not gated
	size_t n, cols;
	const float *bias, *up_bias; // [cols] or both NULL
	enum activation act;
	struct act_block *q; // [n][q_stride], or NULL
	size_t q_stride;
	float *y; // [n][y_stride], or NULL
	size_t y_stride;
};

struct cpu_linear_isa {
	int int_tile, float_tile; // tokens that a tile takes at most
	void (*multiply[N_LAYOUTS])(const struct cpu_tile *t);
	void (*store)(const struct cpu_columns *s);
	void (*hidden)(const struct cpu_hidden *s);
	// One row. y may be x.
	void (*norm)(const struct norm *n, const float *x, size_t d, float *y);
	void (*quantise)(const float *x, size_t n, struct act_block *q); // n is a multiple of BLOCK
	void (*add)(float *y, const float *a, size_t n);				 // y += a
};

extern const struct cpu_linear_isa cpu_linear_scalar, cpu_linear_avx2, cpu_linear_avx512;

#endif
