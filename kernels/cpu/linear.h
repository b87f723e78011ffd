// SPDX-License-Identifier: Apache-2.0
//
// Row work of the linear operations (rows.c): norms and quantisation before a product, norms and the residual after
// one.
#ifndef QUIRE_CPU_LINEAR_H
#define QUIRE_CPU_LINEAR_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_isa.h"

// Blocks from one row of quantised activations to the next: odd, since rows that are a power of two apart would share
// the same few cache sets.
static inline size_t act_stride(size_t k)
{
	return k / BLOCK | 1;
}

struct row_work {
	const struct cpu_linear_isa *isa;
	const struct norm *norm; // NULL or NORM_NONE: rows stay as they are
	const float *x;			 // [T][d]
	const int32_t *rows;	 // row i is x[rows[i]]; NULL: x[i]
	size_t d;
	// Where row i goes: quantised, as floats, added to the residual stream. NULL where not wanted.
	struct act_block *q; // [T][act_stride(d)]
	bool with_residues;	 // [2 T]: after every row what rounding it to 8 bits left, again in 8 bits
	float *y;			 // [T][d]
	float *residual;	 // [T][d]
	float *scratch;		 // [threads][scratch_floats]
	size_t scratch_floats;
};

// On the caller alone where that is less work than waking the team.
void rows_run(struct cpu_backend *be, const struct row_work *w, size_t n);

#endif
