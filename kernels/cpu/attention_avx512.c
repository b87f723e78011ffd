// SPDX-License-Identifier: Apache-2.0
//
// Attention on AVX-512: a vector is one strip, 32 registers hold up to 24 sums.
#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/simd.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
enum { LANES = 16, MAX_ROWS = 16 };
#define COLUMNS(rows) ((rows) <= 3 ? 4 : (rows) <= 6 ? 2 : 1)
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

INLINE vec vec_set1(float x)
{
	return _mm512_set1_ps(x);
}

INLINE vec vec_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

INLINE void vec_store(float *p, vec x)
{
	_mm512_storeu_ps(p, x);
}

INLINE vec vec_load_f16(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

INLINE void vec_store_f16(uint16_t *p, vec x)
{
	_mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE vec vec_add(vec a, vec b)
{
	return _mm512_add_ps(a, b);
}

INLINE vec vec_sub(vec a, vec b)
{
	return _mm512_sub_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
	return _mm512_mul_ps(a, b);
}

INLINE vec vec_div(vec a, vec b)
{
	return _mm512_div_ps(a, b);
}

INLINE vec vec_max(vec a, vec b)
{
	return _mm512_max_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
	return _mm512_fmadd_ps(a, b, c);
}

INLINE vec vec_round(vec x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE vec vec_scale2(vec x, vec n)
{
	return _mm512_scalef_ps(x, n);
}

INLINE vec vec_abs(vec x)
{
	return _mm512_abs_ps(x);
}

INLINE vec vec_copysign(vec magnitude, vec sign)
{
	__m512i bit = _mm512_set1_epi32(INT32_MIN);
	return _mm512_castsi512_ps(
		_mm512_or_si512(_mm512_castps_si512(magnitude), _mm512_and_si512(bit, _mm512_castps_si512(sign))));
}

INLINE vec vec_less_select(vec a, vec b, vec x, vec y)
{
	return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

INLINE vec vec_keep(vec x, int from, int to, vec other)
{
	__mmask16 kept = (__mmask16)(((1u << to) - 1) & ~((1u << from) - 1));
	return _mm512_mask_blend_ps(kept, other, x);
}

INLINE float vec_sum(vec x)
{
	return _mm512_reduce_add_ps(x);
}

INLINE float vec_largest(vec x)
{
	return _mm512_reduce_max_ps(x);
}

#include "kernels/cpu/attention_tiles.h"

#include "kernels/cpu/attention_heads.h"

const struct cpu_attention_isa cpu_attention_avx512 = {ATTENTION_OPERATIONS};
