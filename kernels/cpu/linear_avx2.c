// SPDX-License-Identifier: Apache-2.0
//
// Tiles on AVX2, eight rows at a time. Products come from vpmaddubsw, which adds pairs into 16 bits: how many of its
// results may be added before they are widened depends on how large codes are (q is within ±127):
//   codes ≤ 15: 8 (8 · 2 · 15 · 127 = 30480)    ≤ 31: 4 (31496)    ≤ 63: 2 (32004)
// Codes of eight bits would overflow in a single one; they are multiplied as |w| by q with w's sign.
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/simd.h"

// a = a · b + c, rounded once.
LANES_INLINE void lanes_mul_add(lanes *a, const lanes *b, const lanes *c)
{
	__m256 x[2], y[2], z[2];
	memcpy(x, a, sizeof x);
	memcpy(y, b, sizeof y);
	memcpy(z, c, sizeof z);
	x[0] = _mm256_fmadd_ps(x[0], y[0], z[0]);
	x[1] = _mm256_fmadd_ps(x[1], y[1], z[1]);
	memcpy(a, x, sizeof x);
}

#include "kernels/cpu/linear_rows.h"

enum { TILE = 4, ROWS = 8, PARTS = GROUP / ROWS, STEPS = BLOCK / 4 };

SIMD_INLINE __m256i load_bytes(const uint8_t *p)
{
	return _mm256_load_si256((const __m256i *)(const void *)p);
}

SIMD_INLINE __m256 load_halves(const uint8_t *p)
{
	return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

SIMD_INLINE __m256 load_u8(const uint8_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

SIMD_INLINE __m256 load_s8(const uint8_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

SIMD_INLINE __m256i four_inputs(const int8_t *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return _mm256_set1_epi32(v);
}

// The codes of a block for eight rows, a vector for each step of four inputs.
SIMD_INLINE void load_codes(const struct layout_info *l, const uint8_t *codes, __m256i w[STEPS])
{
	const __m256i low = _mm256_set1_epi8(15);
	if (l->code_bits == 8) {
		SIMD_UNROLL
		for (int g = 0; g < STEPS; g++)
			w[g] = load_bytes(codes + 4 * GROUP * g);
		return;
	}
	SIMD_UNROLL
	for (int j = 0; j < STEPS / 2; j++) {
		__m256i both = load_bytes(codes + 4 * GROUP * j);
		w[2 * j] = _mm256_and_si256(both, low);
		w[2 * j + 1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
	}
}

// Σ code · q over steps from … to - 1 for codes small enough to add `safe` products in 16 bits.
SIMD_INLINE __m256i dot_small(const __m256i w[STEPS], const int8_t *q, const int from, const int to, const int safe)
{
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i sum = _mm256_setzero_si256();
	SIMD_UNROLL
	for (int g = from; g < to; g += safe) {
		__m256i pairs = _mm256_maddubs_epi16(w[g], four_inputs(q + 4 * g));
		SIMD_UNROLL
		for (int i = g + 1; i < g + safe; i++)
			pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[i], four_inputs(q + 4 * i)));
		sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
	}
	return sum;
}

// Σ (code - 128) · q for n tokens.
SIMD_INLINE void dot_signed(const uint8_t *codes, const struct act_block *q, size_t stride, const int n,
							__m256i s[TILE])
{
	const __m256i ones = _mm256_set1_epi16(1), top = _mm256_set1_epi8((char)-128);
	SIMD_UNROLL
	for (int t = 0; t < n; t++)
		s[t] = _mm256_setzero_si256();
	SIMD_UNROLL
	for (int g = 0; g < STEPS; g++) {
		__m256i w = _mm256_xor_si256(load_bytes(codes + 4 * GROUP * g), top), size = _mm256_abs_epi8(w);
		SIMD_UNROLL
		for (int t = 0; t < n; t++) {
			__m256i a = _mm256_sign_epi8(four_inputs(q[(size_t)t * stride].q + 4 * g), w);
			s[t] = _mm256_add_epi32(s[t], _mm256_madd_epi16(_mm256_maddubs_epi16(size, a), ones));
		}
	}
}

SIMD_INLINE __m256i start_of(const struct act_block *q, const int zero, int part)
{
	return zero == 8	? _mm256_set1_epi32(q->zero8)
		   : zero == 16 ? _mm256_set1_epi32(q->zero16)
		   : zero == 32 ? _mm256_set1_epi32(q->zero32[part])
						: _mm256_setzero_si256();
}

SIMD_INLINE __m256 add_scaled(__m256i sum, __m256 scale, const struct act_block *q, __m256 acc)
{
	return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(scale, _mm256_set1_ps(q->d)), acc);
}

// Q6_K: two sums of 16 inputs, each with its own scale.
SIMD_INLINE void halves_step(const struct layout_info *l, const uint8_t *header, const uint8_t *after, int part,
							 const __m256i w[STEPS], const struct act_block *q, size_t stride, const int n,
							 __m256 acc[TILE])
{
	SIMD_UNROLL
	for (int i = 0; i < 2; i++) {
		__m256 scale = _mm256_mul_ps(load_s8(after + SUB * i + ROWS * part), load_halves(header + 2 * ROWS * part));
		SIMD_UNROLL
		for (int t = 0; t < n; t++) {
			const struct act_block *a = q + (size_t)t * stride;
			__m256i s = _mm256_add_epi32(start_of(a, l->zero, i), dot_small(w, a->q, 4 * i, 4 * i + 4, 2));
			acc[t] = add_scaled(s, scale, a, acc[t]);
		}
	}
}

// One block of eight rows (part 0 … 3 of the group) for n tokens.
SIMD_INLINE void block_step(const struct layout_info *l, const uint8_t *header, const uint8_t *block, int part,
							const struct act_block *q, size_t stride, const int n, __m256 acc[TILE])
{
	const uint8_t *codes = block + 4 * ROWS * part, *after = block + (l->code_bits == 4 ? NIBBLES : BYTES);
	__m256i w[STEPS], s[TILE];
	if (l->zero == 128)
		dot_signed(codes, q, stride, n, s);
	else
		load_codes(l, codes, w);
	if (l->sub_scales == 2) {
		halves_step(l, header, after, part, w, q, stride, n, acc);
		return;
	}
	__m256 scale = l->sub_scales ? _mm256_mul_ps(load_u8(after + ROWS * part), load_halves(header + 2 * ROWS * part))
								 : load_halves(after + 2 * ROWS * part);
	__m256 min = _mm256_setzero_ps();
	if (l->has_min && l->sub_scales)
		min = _mm256_sub_ps(_mm256_set1_ps(-0.0f), _mm256_mul_ps(load_u8(after + SUB + ROWS * part),
																 load_halves(header + HALVES + 2 * ROWS * part)));
	else if (l->has_min)
		min = load_halves(after + HALVES + 2 * ROWS * part);
	SIMD_UNROLL
	for (int t = 0; t < n; t++) {
		const struct act_block *a = q + (size_t)t * stride;
		if (l->zero != 128)
			s[t] = _mm256_add_epi32(start_of(a, l->zero, 0), dot_small(w, a->q, 0, STEPS, l->code_bits == 4 ? 8 : 4));
		acc[t] = add_scaled(s[t], scale, a, acc[t]);
		if (l->has_min)
			acc[t] = _mm256_fmadd_ps(min, _mm256_set1_ps(a->d_sum), acc[t]);
	}
}

SIMD_INLINE void multiply_int(const enum cpu_layout layout, const struct cpu_tile *t, const int n)
{
	const struct layout_info *l = &layout_infos[layout];
	const uint8_t *ahead = t->ahead;
	for (int part = 0; part < PARTS; part++) {
		__m256 acc[TILE];
		SIMD_UNROLL
		for (int i = 0; i < n; i++)
			acc[i] = _mm256_setzero_ps();
		const uint8_t *block = t->w, *header = block;
		for (size_t b = 0; b < t->n; b++, block += l->block) {
			if (l->header && b % (SUPER / BLOCK) == 0) {
				header = block;
				block += l->header;
			}
			for (int i = part; i < t->lines; i += PARTS)
				_mm_prefetch((const char *)ahead + ((size_t)i + b * (size_t)t->lines) * 64, _MM_HINT_T0);
			block_step(l, header, block, part, t->q + b, t->stride, n, acc);
		}
		SIMD_UNROLL
		for (int i = 0; i < n; i++)
			_mm256_store_ps(t->c + GROUP * i + ROWS * part, acc[i]);
	}
}

SIMD_INLINE __m256 load_weights(const enum cpu_layout layout, const uint8_t *w, int part)
{
	if (layout == LAYOUT_F32)
		return _mm256_load_ps((const void *)(w + 4 * ROWS * part));
	if (layout == LAYOUT_F16)
		return load_halves(w + 2 * ROWS * part);
	__m128i h = _mm_load_si128((const __m128i *)(const void *)(w + 2 * ROWS * part));
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

// 16 rows at a time: with four tokens, eight chains of multiply-adds are enough to hide their latency.
SIMD_INLINE void multiply_float(const enum cpu_layout layout, const struct cpu_tile *t, const int n)
{
	const size_t size = layout == LAYOUT_F32 ? 4 * GROUP : 2 * GROUP;
	for (int part = 0; part < PARTS; part += 2) {
		__m256 acc[TILE][2];
		const uint8_t *p = t->w, *ahead = t->ahead;
		float *c = t->c + ROWS * part;
		SIMD_UNROLL
		for (int i = 0; i < n; i++)
			SIMD_UNROLL
		for (int h = 0; h < 2; h++)
			acc[i][h] = _mm256_load_ps(c + GROUP * i + ROWS * h);
		for (size_t k = 0; k < t->n; k++, p += size) {
			for (int i = 0; part == 0 && i < t->lines; i++, ahead += 64)
				_mm_prefetch((const char *)ahead, _MM_HINT_T0);
			__m256 w[2] = {load_weights(layout, p, part), load_weights(layout, p, part + 1)};
			SIMD_UNROLL
			for (int i = 0; i < n; i++) {
				__m256 x = _mm256_set1_ps(t->x[(size_t)i * t->stride + k]);
				SIMD_UNROLL
				for (int h = 0; h < 2; h++)
					acc[i][h] = _mm256_fmadd_ps(w[h], x, acc[i][h]);
			}
		}
		SIMD_UNROLL
		for (int i = 0; i < n; i++)
			SIMD_UNROLL
		for (int h = 0; h < 2; h++)
			_mm256_store_ps(c + GROUP * i + ROWS * h, acc[i][h]);
	}
}

// A function for each layout, with the loops over tokens unrolled for each count.
#define TILES(name, body, what)                                                                                        \
	static void name(const struct cpu_tile *t)                                                                         \
	{                                                                                                                  \
		switch (t->n_tokens) {                                                                                         \
		case 1:                                                                                                        \
			body(what, t, 1);                                                                                          \
			return;                                                                                                    \
		case 2:                                                                                                        \
			body(what, t, 2);                                                                                          \
			return;                                                                                                    \
		case 3:                                                                                                        \
			body(what, t, 3);                                                                                          \
			return;                                                                                                    \
		default:                                                                                                       \
			body(what, t, 4);                                                                                          \
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

const struct cpu_linear_isa cpu_linear_avx2 = {
	.int_tile = TILE,
	.float_tile = TILE,
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
