// SPDX-License-Identifier: Apache-2.0
//
// The intrinsics of x86. Built with -DQUIRE_SIMDE (tests only), SIMDe gives the same names on any machine, so that a
// kernel can be tested where its instruction set is missing.
#ifndef QUIRE_CPU_SIMD_H
#define QUIRE_CPU_SIMD_H

#ifdef QUIRE_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <math.h>
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

// SIMDe's own rounds the product and the sum; the instruction rounds once, and bits are what these tests compare.
static inline void simd_fma_floats(float *a, const float *b, const float *c, int n)
{
	for (int i = 0; i < n; i++)
		a[i] = fmaf(a[i], b[i], c[i]);
}

static inline simde__m256 simd_fma256(simde__m256 a, simde__m256 b, simde__m256 c)
{
	simd_fma_floats((float *)&a, (const float *)&b, (const float *)&c, 8);
	return a;
}

static inline simde__m512 simd_fma512(simde__m512 a, simde__m512 b, simde__m512 c)
{
	simd_fma_floats((float *)&a, (const float *)&b, (const float *)&c, 16);
	return a;
}

// Missing in SIMDe.
#ifndef _MM_FROUND_NO_EXC
#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC
#endif
#ifndef _MM_FROUND_TO_NEAREST_INT
#define _MM_FROUND_TO_NEAREST_INT SIMDE_MM_FROUND_TO_NEAREST_INT
#endif
#define _mm512_cvtepi8_epi32(a) _mm512_cvtepi16_epi32(_mm256_cvtepi8_epi16(a))
#define _mm512_cvtepu8_epi32(a) _mm512_cvtepi16_epi32(_mm256_cvtepu8_epi16(a))

static inline simde__m256i simd_cvtps_ph(simde__m512 a, int rounding)
{
	const float *x = (const float *)&a;
	simde__m256i h = simde_mm256_setzero_si256();
	h = simde_mm256_insertf128_si256(h, simde_mm256_cvtps_ph(simde_mm256_loadu_ps(x), 0), 0);
	return simde_mm256_insertf128_si256(h, simde_mm256_cvtps_ph(simde_mm256_loadu_ps(x + 8), 0), 1);
}

static inline float simd_reduce_add(simde__m512 a)
{
	float *x = (float *)&a;
	for (int half = 8; half; half /= 2)
		for (int i = 0; i < half; i++)
			x[i] += x[i + half];
	return x[0];
}

#define _mm512_cvtps_ph simd_cvtps_ph // to nearest even, the only way it is used
#define _mm512_reduce_add_ps simd_reduce_add

#undef _mm256_fmadd_ps
#undef _mm512_fmadd_ps
#define _mm256_fmadd_ps simd_fma256
#define _mm512_fmadd_ps simd_fma512
// Unrolled, calls that are not one instruction would take a compiler minutes.
#define SIMD_INLINE static inline
#define SIMD_UNROLL
#else
#include <immintrin.h>
#define SIMD_INLINE static inline __attribute__((always_inline))
#define SIMD_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
