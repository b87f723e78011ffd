// SPDX-License-Identifier: Apache-2.0
//
// The intrinsics of x86. Built with -DQUIRE_SIMDE (tests only), SIMDe gives the same names on any machine, so that a
// kernel can be tested where its instruction set is missing.
#ifndef QUIRE_CPU_SIMD_H
#define QUIRE_CPU_SIMD_H

#ifdef QUIRE_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#else
#include <immintrin.h>
#endif

#endif
