// SPDX-License-Identifier: Apache-2.0
//
// Attention on AVX2 with FMA and F16C: a strip is two vectors, 16 registers hold up to 12 sums.
#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/simd.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

typedef __m256 vec;
enum { LANES = 8, MAX_ROWS = 6 };
#define COLUMNS(rows) ((rows) <= 1 ? 8 : (rows) <= 3 ? 4 : 2)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)

INLINE vec vec_set1(float x)
{
	return _mm256_set1_ps(x);
}

INLINE vec vec_load(const float *p)
{
	return _mm256_loadu_ps(p);
}

INLINE void vec_store(float *p, vec x)
{
	_mm256_storeu_ps(p, x);
}

INLINE vec vec_load_f16(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

INLINE void vec_store_f16(uint16_t *p, vec x)
{
	_mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE vec vec_add(vec a, vec b)
{
	return _mm256_add_ps(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
	return _mm256_sub_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
	return _mm256_mul_ps(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
	return _mm256_div_ps(a, b);
}

INLINE vec vec_max(vec a, vec b)
{
	return _mm256_max_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
	return _mm256_fmadd_ps(a, b, c);
}

INLINE vec vec_round(vec x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// x · 2ⁿ by adding n to the exponent: x is near 1 and n ≥ -126, so neither end of the range is reached.
INLINE vec vec_scale2(vec x, vec n)
{
	__m256i shifted = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
	__m256 sum = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shifted));
	return _mm256_blendv_ps(sum, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

INLINE vec vec_abs(vec x)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

INLINE vec vec_copysign(vec magnitude, vec sign)
{
	return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

INLINE vec vec_less_select(vec a, vec b, vec x, vec y)
{
	return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

INLINE vec vec_keep(vec x, int from, int to, vec other)
{
	__m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i early = _mm256_cmpgt_epi32(_mm256_set1_epi32(from), lane);
	__m256i kept = _mm256_andnot_si256(early, _mm256_cmpgt_epi32(_mm256_set1_epi32(to), lane));
	return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(kept));
}

INLINE float vec_sum(vec x)
{
	__m128 h = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	h = _mm_add_ps(h, _mm_movehl_ps(h, h));
	return _mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
}

INLINE float vec_largest(vec x)
{
	__m128 h = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	h = _mm_max_ps(h, _mm_movehl_ps(h, h));
	return _mm_cvtss_f32(_mm_max_ss(h, _mm_shuffle_ps(h, h, 1)));
}

#include "kernels/cpu/attention_tiles.h"

#include "kernels/cpu/attention_heads.h"

const struct cpu_attention_isa cpu_attention_avx2 = {ATTENTION_OPERATIONS};
