// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 };

double peak_int8_avx512(int loops)
{
	__m512i s[CHAINS], a = _mm512_set1_epi32(0x01020304), b = _mm512_set1_epi32(0x04030201);
	for (int i = 0; i < CHAINS; i++)
		s[i] = _mm512_set1_epi32(i);
	for (int l = 0; l < loops; l++)
		_Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
		{
			s[i] = _mm512_dpbusd_epi32(s[i], a, b);
			__asm__ volatile("" ::"v"(s[i]));
		}
	return 2.0 * 64 * CHAINS * loops;
}

double peak_f32_avx512(int loops)
{
	__m512 s[CHAINS], a = _mm512_set1_ps(0.5f);
	for (int i = 0; i < CHAINS; i++)
		s[i] = _mm512_set1_ps((float)i);
	for (int l = 0; l < loops; l++)
		_Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
		{
			s[i] = _mm512_fmadd_ps(s[i], a, a);
			__asm__ volatile("" ::"v"(s[i]));
		}
	return 2.0 * 16 * CHAINS * loops;
}
