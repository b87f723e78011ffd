// SPDX-License-Identifier: Apache-2.0
//
// The table of storage types, and half precision in integers: the same bits on every machine, whatever it can do in
// hardware.
#include "kernels/dtype.h"

#include "engine/base/mem.h"

#include <string.h>

// bytes 0: a type that this build cannot read, listed so that a message can name it. That includes those which ggml
// itself gave up (Q4_2, the interleaved Q4_0_4_4 …): old files still have them.
static const struct {
	uint32_t type;
	struct dtype_info info;
} table[] = {
	{DTYPE_F32, {"F32", 1, 4}},
	{DTYPE_F16, {"F16", 1, 2}},
	{DTYPE_BF16, {"BF16", 1, 2}},
	{DTYPE_Q4_0, {"Q4_0", 32, 18}},
	{DTYPE_Q4_1, {"Q4_1", 32, 20}},
	{DTYPE_Q5_0, {"Q5_0", 32, 22}},
	{DTYPE_Q5_1, {"Q5_1", 32, 24}},
	{DTYPE_Q8_0, {"Q8_0", 32, 34}},
	{DTYPE_Q4_K, {"Q4_K", 256, 144}},
	{DTYPE_Q5_K, {"Q5_K", 256, 176}},
	{DTYPE_Q6_K, {"Q6_K", 256, 210}},
	{4, {"Q4_2", 0, 0}},
	{5, {"Q4_3", 0, 0}},
	{9, {"Q8_1", 0, 0}},
	{10, {"Q2_K", 0, 0}},
	{11, {"Q3_K", 0, 0}},
	{15, {"Q8_K", 0, 0}},
	{16, {"IQ2_XXS", 0, 0}},
	{17, {"IQ2_XS", 0, 0}},
	{18, {"IQ3_XXS", 0, 0}},
	{19, {"IQ1_S", 0, 0}},
	{20, {"IQ4_NL", 0, 0}},
	{21, {"IQ3_S", 0, 0}},
	{22, {"IQ2_S", 0, 0}},
	{23, {"IQ4_XS", 0, 0}},
	{24, {"I8", 0, 0}},
	{25, {"I16", 0, 0}},
	{26, {"I32", 0, 0}},
	{27, {"I64", 0, 0}},
	{28, {"F64", 0, 0}},
	{29, {"IQ1_M", 0, 0}},
	{31, {"Q4_0_4_4", 0, 0}},
	{32, {"Q4_0_4_8", 0, 0}},
	{33, {"Q4_0_8_8", 0, 0}},
	{34, {"TQ1_0", 0, 0}},
	{35, {"TQ2_0", 0, 0}},
	{36, {"IQ4_NL_4_4", 0, 0}},
	{37, {"IQ4_NL_4_8", 0, 0}},
	{38, {"IQ4_NL_8_8", 0, 0}},
	{39, {"MXFP4", 0, 0}},
	{40, {"NVFP4", 0, 0}},
	{41, {"Q1_0", 0, 0}},
	{42, {"Q2_0", 0, 0}},
};

static const struct dtype_info *entry(uint32_t type)
{
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].type == type)
			return &table[i].info;
	return NULL;
}

const struct dtype_info *dtype_info(uint32_t type)
{
	const struct dtype_info *e = entry(type);
	return e && e->bytes ? e : NULL;
}

const char *dtype_name(uint32_t type)
{
	const struct dtype_info *e = entry(type);
	return e ? e->name : NULL;
}

bool dtype_row_bytes(uint32_t type, uint64_t n, size_t *bytes)
{
	const struct dtype_info *e = dtype_info(type);
	return e && n % e->block == 0 && mem_mul(n / e->block, e->bytes, bytes);
}

float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 0x3FF;
	union {
		uint32_t u;
		float f;
	} v;
	if (exp == 31) {
		v.u = sign | 0x7F800000 | frac << 13;
	} else if (exp) {
		v.u = sign | (exp + 112) << 23 | frac << 13;
	} else { // zero or subnormal: exact in float32
		v.f = (float)frac * 0x1p-24f;
		v.u |= sign;
	}
	return v.f;
}

uint16_t f32_to_f16(float f)
{
	union {
		float f;
		uint32_t u;
	} v = {.f = f};
	uint32_t sign = v.u >> 16 & 0x8000, a = v.u & 0x7FFFFFFF;
	if (a > 0x7F800000)
		return (uint16_t)(sign | 0x7E00 | (a >> 13 & 0x3FF)); // a NaN stays quiet and keeps its upper payload
	if (a >= 0x477FF000)
		return (uint16_t)(sign | 0x7C00); // rounds past 65504
	if (a < 0x38800000) {
		// Subnormal: a half's last bit is then 2^-24, which is also the last bit of a float in [0.5, 1). Adding 0.5
		// therefore lets the float adder do the rounding, and subtracting its pattern leaves the half's bits.
		union {
			float f;
			uint32_t u;
		} t = {.u = a}, magic = {.u = 0x3F000000};
		t.f += magic.f;
		return (uint16_t)(sign | (t.u - magic.u));
	}
	a += 0xFFF + (a >> 13 & 1); // to nearest, ties to even
	return (uint16_t)(sign | (a - 0x38000000) >> 13);
}
