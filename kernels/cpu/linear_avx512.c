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

// sums[t][h] += the codes of steps from … to - 1 (of four inputs) times the tokens' inputs.
SIMD_INLINE void dot_bytes(const uint8_t *codes, const struct act_block *q, size_t stride, const int n, int from,
						   int to, __m512i s[INT_TILE][HALF_GROUPS])
{
	SIMD_UNROLL for (int g = from; g < to; g++)
	{
		__m512i w0 = load_bytes(codes + 128 * g), w1 = load_bytes(codes + 128 * g + 64);
		SIMD_UNROLL for (int t = 0; t < n; t++)
		{
			__m512i a = four_inputs(q[(size_t)t * stride].q + 4 * g);
			s[t][0] = _mm512_dpbusd_epi32(s[t][0], w0, a);
			s[t][1] = _mm512_dpbusd_epi32(s[t][1], w1, a);
		}
	}
}

SIMD_INLINE void dot_nibbles(const uint8_t *codes, const struct act_block *q, size_t stride, const int n,
							 __m512i s[INT_TILE][HALF_GROUPS])
{
	const __m512i low = _mm512_set1_epi8(15);
	SIMD_UNROLL for (int j = 0; j < 4; j++)
	{
		__m512i w0 = load_bytes(codes + 128 * j), w1 = load_bytes(codes + 128 * j + 64);
		__m512i v0 = _mm512_and_si512(w0, low), v1 = _mm512_and_si512(w1, low);
		SIMD_UNROLL for (int t = 0; t < n; t++)
		{
			__m512i a = four_inputs(q[(size_t)t * stride].q + 8 * j);
			s[t][0] = _mm512_dpbusd_epi32(s[t][0], v0, a);
			s[t][1] = _mm512_dpbusd_epi32(s[t][1], v1, a);
		}
		v0 = _mm512_and_si512(_mm512_srli_epi16(w0, 4), low);
		v1 = _mm512_and_si512(_mm512_srli_epi16(w1, 4), low);
		SIMD_UNROLL for (int t = 0; t < n; t++)
		{
			__m512i a = four_inputs(q[(size_t)t * stride].q + 8 * j + 4);
			s[t][0] = _mm512_dpbusd_epi32(s[t][0], v0, a);
			s[t][1] = _mm512_dpbusd_epi32(s[t][1], v1, a);
		}
	}
}

SIMD_INLINE void start(const struct act_block *q, size_t stride, const int n, const int zero, int part,
					   __m512i s[INT_TILE][HALF_GROUPS])
{
	SIMD_UNROLL for (int t = 0; t < n; t++) s[t][0] = s[t][1] =
		_mm512_set1_epi32(start_of(q + (size_t)t * stride, zero, part));
}

// acc += sums · (scale · d), for both halves of the group.
SIMD_INLINE void scale_sums(const struct act_block *q, size_t stride, const int n, __m512 scale[HALF_GROUPS],
							__m512i s[INT_TILE][HALF_GROUPS], __m512 acc[INT_TILE][HALF_GROUPS])
{
	SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) SIMD_UNROLL for (int t = 0; t < n; t++) acc[t][h] =
		_mm512_fmadd_ps(_mm512_cvtepi32_ps(s[t][h]), _mm512_mul_ps(scale[h], _mm512_set1_ps(q[(size_t)t * stride].d)),
						acc[t][h]);
}

SIMD_INLINE void add_minima(const struct act_block *q, size_t stride, const int n, __m512 min[HALF_GROUPS],
							__m512 acc[INT_TILE][HALF_GROUPS])
{
	SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) SIMD_UNROLL for (int t = 0; t < n; t++) acc[t][h] =
		_mm512_fmadd_ps(min[h], _mm512_set1_ps(q[(size_t)t * stride].d_sum), acc[t][h]);
}

// Scales and minima of a block's 16 rows from h on. `after` lies behind the codes.
SIMD_INLINE __m512 block_scale(const struct layout_info *l, const uint8_t *header, const uint8_t *after, int h)
{
	return l->sub_scales ? _mm512_mul_ps(load_u8(after + 16 * h), load_halves(header + 32 * h))
						 : load_halves(after + 32 * h);
}

SIMD_INLINE __m512 block_min(const struct layout_info *l, const uint8_t *header, const uint8_t *after, int h)
{
	if (!l->sub_scales)
		return load_halves(after + HALVES + 32 * h);
	__m512 m = _mm512_mul_ps(load_u8(after + SUB + 16 * h), load_halves(header + HALVES + 32 * h));
	return _mm512_sub_ps(_mm512_set1_ps(-0.0f), m);
}

// One block for n tokens.
SIMD_INLINE void block_step(const struct layout_info *l, const uint8_t *header, const uint8_t *block,
							const struct act_block *q, size_t stride, const int n, __m512 acc[INT_TILE][HALF_GROUPS])
{
	const uint8_t *after = block + (l->code_bits == 4 ? NIBBLES : BYTES);
	__m512i s[INT_TILE][HALF_GROUPS];
	__m512 scale[HALF_GROUPS], min[HALF_GROUPS];
	if (l->sub_scales == 2) {
		SIMD_UNROLL for (int i = 0; i < 2; i++)
		{
			start(q, stride, n, l->zero, i, s);
			dot_bytes(block, q, stride, n, 4 * i, 4 * i + 4, s);
			SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) scale[h] =
				_mm512_mul_ps(load_s8(after + SUB * i + 16 * h), load_halves(header + 32 * h));
			scale_sums(q, stride, n, scale, s, acc);
		}
		return;
	}
	start(q, stride, n, l->zero, 0, s);
	if (l->code_bits == 4)
		dot_nibbles(block, q, stride, n, s);
	else
		dot_bytes(block, q, stride, n, 0, 8, s);
	SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) scale[h] = block_scale(l, header, after, h);
	scale_sums(q, stride, n, scale, s, acc);
	if (l->has_min) {
		SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) min[h] = block_min(l, header, after, h);
		add_minima(q, stride, n, min, acc);
	}
}

SIMD_INLINE void multiply_int(const enum cpu_layout layout, const struct cpu_tile *t, const int n)
{
	const struct layout_info *l = &layout_infos[layout];
	__m512 acc[INT_TILE][HALF_GROUPS];
	SIMD_UNROLL for (int i = 0; i < n; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
	const uint8_t *block = t->w, *header = block, *ahead = t->ahead;
	for (size_t b = 0; b < t->n; b++, block += l->block) {
		if (l->header && b % (SUPER / BLOCK) == 0) {
			header = block;
			block += l->header;
		}
		for (int i = 0; i < t->lines; i++, ahead += 64)
			_mm_prefetch((const char *)ahead, _MM_HINT_T0);
		block_step(l, header, block, t->q + b, t->stride, n, acc);
	}
	SIMD_UNROLL for (int i = 0; i < n; i++)
	{
		_mm512_store_ps(t->c + GROUP * i, acc[i][0]);
		_mm512_store_ps(t->c + GROUP * i + 16, acc[i][1]);
	}
}

SIMD_INLINE void load_weights(const enum cpu_layout layout, const uint8_t *w, __m512 v[HALF_GROUPS])
{
	SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++)
	{
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
	__m512 acc[FLOAT_TILE][HALF_GROUPS], w[HALF_GROUPS];
	SIMD_UNROLL for (int i = 0; i < n; i++) SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) acc[i][h] =
		_mm512_load_ps(t->c + GROUP * i + 16 * h);
	const uint8_t *p = t->w, *ahead = t->ahead;
	for (size_t k = 0; k < t->n; k++, p += size) {
		for (int i = 0; i < t->lines; i++, ahead += 64)
			_mm_prefetch((const char *)ahead, _MM_HINT_T0);
		load_weights(layout, p, w);
		SIMD_UNROLL for (int i = 0; i < n; i++)
		{
			__m512 x = _mm512_set1_ps(t->x[(size_t)i * t->stride + k]);
			SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++) acc[i][h] = _mm512_fmadd_ps(w[h], x, acc[i][h]);
		}
	}
	SIMD_UNROLL for (int i = 0; i < n; i++) SIMD_UNROLL for (int h = 0; h < HALF_GROUPS; h++)
		_mm512_store_ps(t->c + GROUP * i + 16 * h, acc[i][h]);
}

// A function for each layout, with the loops over tokens unrolled for each count: a count that the compiler does not
// know would keep the accumulators in memory.
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
		case 4:                                                                                                        \
			body(what, t, 4);                                                                                          \
			return;                                                                                                    \
		case 5:                                                                                                        \
			body(what, t, 5);                                                                                          \
			return;                                                                                                    \
		default:                                                                                                       \
			body(what, t, 6);                                                                                          \
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
