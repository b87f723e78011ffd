// SPDX-License-Identifier: Apache-2.0
//
// Sixteen floats in the compiler's own vector type, which it cuts to what an instruction set has.
#ifndef QUIRE_CPU_LANES_H
#define QUIRE_CPU_LANES_H

#include <stdint.h>
#include <string.h>

enum { LANES = 16 };
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t int_lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t int_lanes8 __attribute__((vector_size(32)));
typedef int32_t int_lanes4 __attribute__((vector_size(16)));
typedef int8_t byte_lanes __attribute__((vector_size(LANES)));

#define LANES_INLINE static inline __attribute__((always_inline))

LANES_INLINE void lanes_load(const float *p, lanes *v)
{
	memcpy(v, p, sizeof *v);
}

LANES_INLINE void lanes_store(float *p, const lanes *v)
{
	memcpy(p, v, sizeof *v);
}

#endif
