// SPDX-License-Identifier: Apache-2.0
//
// Tiles on AVX-512 VNNI: a group is two vectors of 16 rows, so 6 tokens take 12 integer sums, 12 float accumulators,
// two weights and a broadcast: 27 of 32 registers. vpdpbusd multiplies unsigned weights by signed activations; a zero
// point costs nothing, because the sum starts at what it takes away.
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/simd.h"

// a = a · b + c, rounded once.
LANES_INLINE void lanes_mul_add(lanes *a, const lanes *b, const lanes *c)
{
	__m512 x, y, z;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	memcpy(&z, c, sizeof z);
	x = _mm512_fmadd_ps(x, y, z);
	memcpy(a, &x, sizeof x);
}

#include "kernels/cpu/linear_rows.h"

enum { INT_TILE = 6, FLOAT_TILE = 6, HALF_GROUPS = 2 };

SIMD_INLINE __m512i load_bytes(const uint8_t *p)
{
	return _mm512_load_si512((const void *)p);
}

SIMD_INLINE __m512 load_halves(const uint8_t *p)
{
	return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

SIMD_INLINE __m512 load_u8(const uint8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)p)));
}

SIMD_INLINE __m512 load_s8(const uint8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(const void *)p)));
}

SIMD_INLINE __m512i four_inputs(const int8_t *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return _mm512_set1_epi32(v);
}

SIMD_INLINE int32_t start_of(const struct act_block *q, int zero, int part)
{
	return zero == 8 ? q->zero8 : zero == 16 ? q->zero16 : zero == 32 ? q->zero32[part] : zero == 128 ? q->zero128 : 0;
}

// A tile in registers: tokens by the two vectors of a group.
typedef __m512i sums[INT_TILE][HALF_GROUPS];
typedef __m512 floats[INT_TILE][HALF_GROUPS];

SIMD_INLINE void add_products(const int n, const __m512i w[HALF_GROUPS], const struct act_block *q, size_t stride,
							  int step, sums s)
{
	SIMD_UNROLL
	for (int t = 0; t < n; t++) {
		__m512i a = four_inputs(q[(size_t)t * stride].q + 4 * step);
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			s[t][h] = _mm512_dpbusd_epi32(s[t][h], w[h], a);
	}
}

// s += codes of steps from … to - 1 (of four inputs) times the tokens' inputs.
SIMD_INLINE void dot_bytes(const int n, const uint8_t *codes, const struct act_block *q, size_t stride, int from,
						   int to, sums s)
{
	__m512i w[HALF_GROUPS];
	SIMD_UNROLL
	for (int g = from; g < to; g++) {
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			w[h] = load_bytes(codes + 128 * g + 64 * h);
		add_products(n, w, q, stride, g, s);
	}
}

SIMD_INLINE void dot_nibbles(const int n, const uint8_t *codes, const struct act_block *q, size_t stride, sums s)
{
	const __m512i low = _mm512_set1_epi8(15);
	__m512i both[HALF_GROUPS], w[HALF_GROUPS];
	SIMD_UNROLL
	for (int j = 0; j < 4; j++) {
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++) {
			both[h] = load_bytes(codes + 128 * j + 64 * h);
			w[h] = _mm512_and_si512(both[h], low);
		}
		add_products(n, w, q, stride, 2 * j, s);
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			w[h] = _mm512_and_si512(_mm512_srli_epi16(both[h], 4), low);
		add_products(n, w, q, stride, 2 * j + 1, s);
	}
}

SIMD_INLINE void start(const int n, const struct act_block *q, size_t stride, const int zero, int part, sums s)
{
	SIMD_UNROLL
	for (int t = 0; t < n; t++) {
		__m512i from = _mm512_set1_epi32(start_of(q + (size_t)t * stride, zero, part));
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			s[t][h] = from;
	}
}

// acc += sums · (scale · d)
SIMD_INLINE void scale_sums(const int n, const struct act_block *q, size_t stride, const __m512 scale[HALF_GROUPS],
							sums s, floats acc)
{
	SIMD_UNROLL
	for (int h = 0; h < HALF_GROUPS; h++) {
		SIMD_UNROLL
		for (int t = 0; t < n; t++) {
			__m512 both = _mm512_mul_ps(scale[h], _mm512_set1_ps(q[(size_t)t * stride].d));
			acc[t][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[t][h]), both, acc[t][h]);
		}
	}
}

SIMD_INLINE void add_minima(const int n, const struct act_block *q, size_t stride, const __m512 min[HALF_GROUPS],
							floats acc)
{
	SIMD_UNROLL
	for (int h = 0; h < HALF_GROUPS; h++) {
		SIMD_UNROLL
		for (int t = 0; t < n; t++)
			acc[t][h] = _mm512_fmadd_ps(min[h], _mm512_set1_ps(q[(size_t)t * stride].d_sum), acc[t][h]);
	}
}

// Scales and minima of 16 rows, vector h of the group. `after` lies behind the codes.
SIMD_INLINE __m512 block_scale(const struct layout_info *l, const uint8_t *header, const uint8_t *after, int part,
							   int h)
{
	if (l->sub_scales == 2)
		return _mm512_mul_ps(load_s8(after + SUB * part + 16 * h), load_halves(header + 32 * h));
	if (l->sub_scales)
		return _mm512_mul_ps(load_u8(after + 16 * h), load_halves(header + 32 * h));
	return load_halves(after + 32 * h);
}

SIMD_INLINE __m512 block_min(const struct layout_info *l, const uint8_t *header, const uint8_t *after, int h)
{
	if (!l->sub_scales)
		return load_halves(after + HALVES + 32 * h);
	__m512 m = _mm512_mul_ps(load_u8(after + SUB + 16 * h), load_halves(header + HALVES + 32 * h));
	return _mm512_sub_ps(_mm512_set1_ps(-0.0f), m);
}

SIMD_INLINE void block_step(const struct layout_info *l, const int n, const uint8_t *header, const uint8_t *block,
							const struct act_block *q, size_t stride, floats acc)
{
	const uint8_t *after = block + (l->code_bits == 4 ? NIBBLES : BYTES);
	const int parts = l->sub_scales == 2 ? 2 : 1;
	sums s;
	__m512 v[HALF_GROUPS];
	SIMD_UNROLL
	for (int part = 0; part < parts; part++) {
		start(n, q, stride, l->zero, part, s);
		if (l->code_bits == 4)
			dot_nibbles(n, block, q, stride, s);
		else
			dot_bytes(n, block, q, stride, 8 / parts * part, 8 / parts * (part + 1), s);
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			v[h] = block_scale(l, header, after, part, h);
		scale_sums(n, q, stride, v, s, acc);
	}
	if (l->has_min) {
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			v[h] = block_min(l, header, after, h);
		add_minima(n, q, stride, v, acc);
	}
}

SIMD_INLINE void multiply_int(const enum cpu_layout layout, const struct cpu_tile *t, const int n)
{
	const struct layout_info *l = &layout_infos[layout];
	const uint8_t *block = t->w, *header = block, *ahead = t->ahead;
	floats acc;
	SIMD_UNROLL
	for (int i = 0; i < n; i++)
		acc[i][0] = acc[i][1] = _mm512_setzero_ps();
	for (size_t b = 0; b < t->n; b++, block += l->block) {
		if (l->header && b % (SUPER / BLOCK) == 0) {
			header = block;
			block += l->header;
		}
		for (int i = 0; i < t->lines; i++, ahead += 64)
			_mm_prefetch((const char *)ahead, _MM_HINT_T0);
		block_step(l, n, header, block, t->q + b, t->stride, acc);
	}
	SIMD_UNROLL
	for (int i = 0; i < n; i++) {
		SIMD_UNROLL
		for (int h = 0; h < HALF_GROUPS; h++)
			_mm512_store_ps(t->c + GROUP * i + 16 * h, acc[i][h]);
	}
}

SIMD_INLINE void load_weights(const enum cpu_layout layout, const uint8_t *w, __m512 v[HALF_GROUPS])
{
	SIMD_UNROLL
	for (int h = 0; h < HALF_GROUPS; h++) {
		if (layout == LAYOUT_F32)
			v[h] = _mm512_load_ps((const void *)(w + 64 * h));
		else if (layout == LAYOUT_F16)
			v[h] = load_halves(w + 32 * h);
		else
			v[h] = _mm512_castsi512_ps(_mm512_slli_epi32(
				_mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(const void *)(w + 32 * h))), 16));
	}
}

SIMD_INLINE void multiply_float(const enum cpu_layout layout, const struct cpu_tile *t, const int n)
{
	const size_t size = layout == LAYOUT_F32 ? 4 * GROUP : 2 * GROUP;
	const uint8_t *p = t->w, *ahead = t->ahead;
	__m512 acc[FLOAT_TILE][HALF_GROUPS], w[HALF_GROUPS];
	SIMD_UNROLL
	for (int i = 0; i < n * HALF_GROUPS; i++)
		acc[i / HALF_GROUPS][i % HALF_GROUPS] = _mm512_load_ps(t->c + 16 * i);
	for (size_t k = 0; k < t->n; k++, p += size) {
		for (int i = 0; i < t->lines; i++, ahead += 64)
			_mm_prefetch((const char *)ahead, _MM_HINT_T0);
		load_weights(layout, p, w);
		SIMD_UNROLL
		for (int i = 0; i < n; i++) {
			__m512 x = _mm512_set1_ps(t->x[(size_t)i * t->stride + k]);
			acc[i][0] = _mm512_fmadd_ps(w[0], x, acc[i][0]);
			acc[i][1] = _mm512_fmadd_ps(w[1], x, acc[i][1]);
		}
	}
	SIMD_UNROLL
	for (int i = 0; i < n * HALF_GROUPS; i++)
		_mm512_store_ps(t->c + 16 * i, acc[i / HALF_GROUPS][i % HALF_GROUPS]);
}

// A function for each layout, with the loops over tokens unrolled for each count: a count that the compiler does not
// know would keep the accumulators in memory.
#define CASE(body, what, n)                                                                                            \
	case n:                                                                                                            \
		body(what, t, n);                                                                                              \
		return;
#define CASES(body, what)                                                                                              \
	CASE(body, what, 1)                                                                                                \
	CASE(body, what, 2)                                                                                                \
	CASE(body, what, 3)                                                                                                \
	CASE(body, what, 4)                                                                                                \
	CASE(body, what, 5)                                                                                                \
	CASE(body, what, 6)
#define TILES(name, body, what)                                                                                        \
	static void name(const struct cpu_tile *t)                                                                         \
	{                                                                                                                  \
		switch (t->n_tokens) {                                                                                         \
			CASES(body, what)                                                                                          \
		}                                                                                                              \
	}

TILES(multiply_q4_0, multiply_int, LAYOUT_Q4_0)
TILES(multiply_q4_1, multiply_int, LAYOUT_Q4_1)
TILES(multiply_q5_0, multiply_int, LAYOUT_Q5_0)
TILES(multiply_q5_1, multiply_int, LAYOUT_Q5_1)
TILES(multiply_q8_0, multiply_int, LAYOUT_Q8_0)
TILES(multiply_q4_k, multiply_int, LAYOUT_Q4_K)
TILES(multiply_q5_k, multiply_int, LAYOUT_Q5_K)
TILES(multiply_q6_k, multiply_int, LAYOUT_Q6_K)
TILES(multiply_f16, multiply_float, LAYOUT_F16)
TILES(multiply_bf16, multiply_float, LAYOUT_BF16)
TILES(multiply_f32, multiply_float, LAYOUT_F32)

const struct cpu_linear_isa cpu_linear_avx512 = {
	.int_tile = INT_TILE,
	.float_tile = FLOAT_TILE,
	.multiply =
		{
			[LAYOUT_Q4_0] = multiply_q4_0,
			[LAYOUT_Q4_1] = multiply_q4_1,
			[LAYOUT_Q5_0] = multiply_q5_0,
			[LAYOUT_Q5_1] = multiply_q5_1,
			[LAYOUT_Q8_0] = multiply_q8_0,
			[LAYOUT_Q4_K] = multiply_q4_k,
			[LAYOUT_Q5_K] = multiply_q5_k,
			[LAYOUT_Q6_K] = multiply_q6_k,
			[LAYOUT_F16] = multiply_f16,
			[LAYOUT_BF16] = multiply_bf16,
			[LAYOUT_F32] = multiply_f32,
		},
	ROWS_OPERATIONS,
};
