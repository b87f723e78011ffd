// SPDX-License-Identifier: Apache-2.0
//
// Attention without any instruction set: four floats in the compiler's own vector type, which every machine has in some
// form. Multiply and add round separately here.
#include "kernels/cpu/attention_isa.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(16)));
typedef int32_t bits __attribute__((vector_size(16)));
enum { LANES = 4, MAX_ROWS = 3 };
#define COLUMNS(rows) ((rows) <= 1 ? 8 : 4)
#define EACH_ROWS(X) X(1) X(2) X(3)

INLINE vec vec_set1(float x)
{
	return (vec){x, x, x, x};
}

INLINE vec vec_load(const float *p)
{
	vec x;
	memcpy(&x, p, sizeof x);
	return x;
}

INLINE void vec_store(float *p, vec x)
{
	memcpy(p, &x, sizeof x);
}

INLINE vec vec_select(bits which, vec x, vec y)
{
	return (vec)((which & (bits)x) | (~which & (bits)y));
}

// Exponent and mantissa moved to their places in a float are the value times 2^-112, subnormal or not; infinities and
// NaN need the largest exponent instead.
INLINE vec vec_load_f16(const uint16_t *p)
{
	bits h = {p[0], p[1], p[2], p[3]}, sign = (h & 0x8000) << 16, rest = (h & 0x7FFF) << 13;
	bits special = rest >= 0x7C00 << 13;
	bits finite = (bits)((vec)rest * vec_set1(0x1p112f));
	return (vec)(sign | (special & (rest | 0x7F800000)) | (~special & finite));
}

INLINE void vec_store_f16(uint16_t *p, vec x)
{
	for (int i = 0; i < LANES; i++)
		p[i] = f32_to_f16(x[i]);
}

INLINE vec vec_add(vec a, vec b)
{
	return a + b;
}

INLINE vec vec_sub(vec a, vec b)
{
	return a - b;
}

INLINE vec vec_mul(vec a, vec b)
{
	return a * b;
}

INLINE vec vec_div(vec a, vec b)
{
	return a / b;
}

INLINE vec vec_max(vec a, vec b)
{
	return vec_select(a > b, a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
	return a * b + c;
}

// Adding 1.5 · 2^23 leaves no bits for a fraction.
INLINE vec vec_round(vec x)
{
	return (x + 0x1.8p23f) - 0x1.8p23f;
}

// x · 2ⁿ; the product with 1.5 · 2^23 + 127 + n as an integer's low bits, moved to the exponent, is 2ⁿ.
INLINE vec vec_scale2(vec x, vec n)
{
	return x * (vec)((bits)(n + (0x1.8p23f + 127)) << 23);
}

INLINE vec vec_abs(vec x)
{
	return (vec)((bits)x & INT32_MAX);
}

INLINE vec vec_copysign(vec magnitude, vec sign)
{
	return (vec)((bits)magnitude | ((bits)sign & INT32_MIN));
}

INLINE vec vec_less_select(vec a, vec b, vec x, vec y)
{
	return vec_select(a < b, x, y);
}

INLINE vec vec_keep(vec x, int from, int to, vec other)
{
	bits lane = {0, 1, 2, 3};
	return vec_select((lane >= from) & (lane < to), x, other);
}

INLINE float vec_sum(vec x)
{
	return (x[0] + x[2]) + (x[1] + x[3]);
}

INLINE float vec_largest(vec x)
{
	float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
	return a > b ? a : b;
}

#include "kernels/cpu/attention_tiles.h"

#include "kernels/cpu/attention_heads.h"

const struct cpu_attention_isa cpu_attention_scalar = {ATTENTION_OPERATIONS};
