// SPDX-License-Identifier: Apache-2.0
//
// The tiles in plain C: for machines without AVX2, and the definition that the other instruction sets are tested
// against, bit by bit.
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/matrix.h"

#include <math.h>

// a = a · b + c, rounded once.
LANES_INLINE void lanes_mul_add(lanes *a, const lanes *b, const lanes *c)
{
	for (int i = 0; i < LANES; i++)
		(*a)[i] = fmaf((*a)[i], (*b)[i], (*c)[i]);
}

#include "kernels/cpu/linear_rows.h"

static float half(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return f16_to_f32(h);
}

static int32_t start_of(const struct act_block *q, int zero, int part)
{
	switch (zero) {
	case 8:
		return q->zero8;
	case 16:
		return q->zero16;
	case 32:
		return q->zero32[part];
	case 128:
		return q->zero128;
	default:
		return 0;
	}
}

// Σ code · q over inputs from … to - 1 of row r.
static int32_t dot(const struct layout_info *l, const uint8_t *codes, size_t r, const int8_t *q, size_t from, size_t to)
{
	int32_t s = 0;
	for (size_t i = from; i < to; i++) {
		int code;
		if (l->code_bits == 8) {
			code = codes[i / 4 * 4 * GROUP + 4 * r + i % 4];
		} else {
			uint8_t two = codes[i / 8 * 4 * GROUP + 4 * r + i % 4];
			code = i / 4 & 1 ? two >> 4 : two & 15;
		}
		s += code * q[i];
	}
	return s;
}

static float step(const struct layout_info *l, const uint8_t *header, const uint8_t *block, size_t r,
				  const struct act_block *q, float acc)
{
	const uint8_t *after = block + (l->code_bits == 4 ? NIBBLES : BYTES);
	if (l->sub_scales == 2) {
		for (int i = 0; i < 2; i++) {
			int32_t s =
				start_of(q, l->zero, i) + dot(l, block, r, q->q, BLOCK / 2 * (size_t)i, BLOCK / 2 * (size_t)(i + 1));
			float scale = (float)(int8_t)after[i * SUB + (int)r] * half(header + 2 * r);
			acc = fmaf((float)s, scale * q->d, acc);
		}
		return acc;
	}
	float scale = l->sub_scales ? (float)after[r] * half(header + 2 * r) : half(after + 2 * r);
	acc = fmaf((float)(start_of(q, l->zero, 0) + dot(l, block, r, q->q, 0, BLOCK)), scale * q->d, acc);
	if (l->has_min) {
		float min =
			l->sub_scales ? -((float)after[SUB + r] * half(header + HALVES + 2 * r)) : half(after + HALVES + 2 * r);
		acc = fmaf(min, q->d_sum, acc);
	}
	return acc;
}

static void multiply_int(enum cpu_layout layout, const struct cpu_tile *t)
{
	const struct layout_info *l = &layout_infos[layout];
	memset(t->c, 0, (size_t)t->n_tokens * GROUP * sizeof *t->c);
	const uint8_t *block = t->w, *header = block;
	for (size_t b = 0; b < t->n; b++, block += l->block) {
		if (l->header && b % (SUPER / BLOCK) == 0) {
			header = block;
			block += l->header;
		}
		for (int i = 0; i < t->n_tokens; i++)
			for (size_t r = 0; r < GROUP; r++) {
				float *c = t->c + (size_t)i * GROUP + r;
				*c = step(l, header, block, r, t->q + (size_t)i * t->stride + b, *c);
			}
	}
}

static void multiply_float(enum cpu_layout layout, const struct cpu_tile *t)
{
	const struct layout_info *l = &layout_infos[layout];
	size_t size = l->block / GROUP;
	for (size_t k = 0; k < t->n; k++)
		for (size_t r = 0; r < GROUP; r++) {
			float w;
			dtype_decode(l->type, t->w + (k * GROUP + r) * size, 1, &w);
			for (int i = 0; i < t->n_tokens; i++)
				t->c[(size_t)i * GROUP + r] = fmaf(w, t->x[(size_t)i * t->stride + k], t->c[(size_t)i * GROUP + r]);
		}
}

#define INT(layout)                                                                                                    \
	static void multiply_##layout(const struct cpu_tile *t)                                                            \
	{                                                                                                                  \
		multiply_int(LAYOUT_##layout, t);                                                                              \
	}
#define FLOAT(layout)                                                                                                  \
	static void multiply_##layout(const struct cpu_tile *t)                                                            \
	{                                                                                                                  \
		multiply_float(LAYOUT_##layout, t);                                                                            \
	}
INT(Q4_0)
INT(Q4_1)
INT(Q5_0)
INT(Q5_1)
INT(Q8_0)
INT(Q4_K)
INT(Q5_K)
INT(Q6_K)
FLOAT(F16)
FLOAT(BF16)
FLOAT(F32)

const struct cpu_linear_isa cpu_linear_scalar = {
	.int_tile = 4,
	.float_tile = 4,
	.multiply =
		{
			[LAYOUT_Q4_0] = multiply_Q4_0,
			[LAYOUT_Q4_1] = multiply_Q4_1,
			[LAYOUT_Q5_0] = multiply_Q5_0,
			[LAYOUT_Q5_1] = multiply_Q5_1,
			[LAYOUT_Q8_0] = multiply_Q8_0,
			[LAYOUT_Q4_K] = multiply_Q4_K,
			[LAYOUT_Q5_K] = multiply_Q5_K,
			[LAYOUT_Q6_K] = multiply_Q6_K,
			[LAYOUT_F16] = multiply_F16,
			[LAYOUT_BF16] = multiply_BF16,
			[LAYOUT_F32] = multiply_F32,
		},
	ROWS_OPERATIONS,
};
