// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 };

// Four vpmaddubsw results are added before they are widened: the densest sequence for small codes.
double peak_int8_avx2(int loops)
{
	__m256i s[CHAINS], a = _mm256_set1_epi32(0x01020304), b = _mm256_set1_epi32(0x04030201), one = _mm256_set1_epi16(1);
	for (int i = 0; i < CHAINS; i++)
		s[i] = _mm256_set1_epi32(i);
	for (int l = 0; l < loops; l++)
		_Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
		{
			__m256i pairs = _mm256_maddubs_epi16(a, b);
			_Pragma("GCC unroll 3") for (int j = 1; j < 4; j++)
			{
				__asm__ volatile("" : "+x"(a));
				pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(a, b));
			}
			s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(pairs, one));
			__asm__ volatile("" ::"x"(s[i]));
		}
	return 2.0 * 32 * 4 * CHAINS * loops;
}

double peak_f32_avx2(int loops)
{
	__m256 s[CHAINS], a = _mm256_set1_ps(0.5f);
	for (int i = 0; i < CHAINS; i++)
		s[i] = _mm256_set1_ps((float)i);
	for (int l = 0; l < loops; l++)
		_Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
		{
			s[i] = _mm256_fmadd_ps(s[i], a, a);
			__asm__ volatile("" ::"x"(s[i]));
		}
	return 2.0 * 8 * CHAINS * loops;
}
