// SPDX-License-Identifier: Apache-2.0
//
// Weights packed for the CPU (the form is described in linear_isa.h). A matrix is a list of sections, one for each part
// that it was stacked from, each with its own type and its own row groups; the last group of a section is padded with
// zeros.
#ifndef QUIRE_CPU_MATRIX_H
#define QUIRE_CPU_MATRIX_H

#include "kernels/cpu/linear_isa.h"

struct layout_info {
	enum dtype type;
	unsigned char code_bits;  // 4 or 8; float types: 0
	unsigned char zero;		  // what a code of zero weight is
	bool has_min;			  // f16 minima, or with sub-scales: 6-bit sub-minima
	unsigned char sub_scales; // a block: 0, or 1 (with a sub-minimum), or 2
	unsigned short header;	  // bytes before a super-block
	unsigned short block;	  // bytes a block of GROUP rows; float types: bytes an input
};

// Bytes of the planes of a block: codes, f16 values, sub-scales.
enum { NIBBLES = GROUP * BLOCK / 2, BYTES = GROUP * BLOCK, HALVES = GROUP * 2, SUB = GROUP };

// Here rather than in a .c file, so that kernels made for one layout are compiled with its numbers.
static const struct layout_info layout_infos[N_LAYOUTS] = {
	[LAYOUT_Q4_0] = {DTYPE_Q4_0, 4, 8, false, 0, 0, NIBBLES + HALVES},
	[LAYOUT_Q4_1] = {DTYPE_Q4_1, 4, 0, true, 0, 0, NIBBLES + 2 * HALVES},
	[LAYOUT_Q5_0] = {DTYPE_Q5_0, 8, 16, false, 0, 0, BYTES + HALVES},
	[LAYOUT_Q5_1] = {DTYPE_Q5_1, 8, 0, true, 0, 0, BYTES + 2 * HALVES},
	[LAYOUT_Q8_0] = {DTYPE_Q8_0, 8, 128, false, 0, 0, BYTES + HALVES},
	[LAYOUT_Q4_K] = {DTYPE_Q4_K, 4, 0, true, 1, 2 * HALVES, NIBBLES + 2 * SUB},
	[LAYOUT_Q5_K] = {DTYPE_Q5_K, 8, 0, true, 1, 2 * HALVES, BYTES + 2 * SUB},
	[LAYOUT_Q6_K] = {DTYPE_Q6_K, 8, 32, false, 2, HALVES, BYTES + 2 * SUB},
	[LAYOUT_F16] = {DTYPE_F16, 0, 0, false, 0, 0, GROUP * 2},
	[LAYOUT_BF16] = {DTYPE_BF16, 0, 0, false, 0, 0, GROUP * 2},
	[LAYOUT_F32] = {DTYPE_F32, 0, 0, false, 0, 0, GROUP * 4},
};

struct section {
	enum cpu_layout layout;
	size_t first_row, rows; // of the matrix
	size_t first_group, n_groups;
	size_t group_bytes;
	uint8_t *w;
};

struct matrix {
	size_t n, k; // rows, inputs
	size_t n_groups;
	bool takes_int, takes_float; // what its sections multiply with
	struct slab *slab;
	size_t bytes;
	int n_sections;
	struct section section[];
};

// Bytes of one group of K inputs.
size_t layout_group_bytes(enum cpu_layout layout, size_t k);

// Packs n_rows (at most GROUP) rows of K inputs, row_bytes apart, into a group.
void pack_group(enum cpu_layout layout, const uint8_t *rows, size_t row_bytes, size_t n_rows, size_t k, uint8_t *group);

// Decodes row r of a group to float32, with the same bits as dtype_decode gave for it before packing.
void pack_read_row(enum cpu_layout layout, const uint8_t *group, size_t r, size_t k, float *row);

// Which section has this group, or this row.
static inline const struct section *matrix_section(const struct matrix *m, size_t group)
{
	const struct section *s = m->section;
	while (group >= s->first_group + s->n_groups)
		s++;
	return s;
}

static inline const struct section *matrix_section_of_row(const struct matrix *m, size_t row)
{
	const struct section *s = m->section;
	while (row >= s->first_row + s->rows)
		s++;
	return s;
}

void matrix_read_row(const struct matrix *m, size_t row, float *out);

#endif
