// SPDX-License-Identifier: Apache-2.0
//
// The definition of every storage type: block bytes to float32, in the arithmetic (and the order of operations) of
// ggml's own reference decoders, so that values agree to the bit. Layouts: ggml-common.h.
#include "engine/base/err.h"
#include "kernels/dtype.h"

#include <string.h>

static uint16_t u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static float half(const uint8_t *p)
{
	return f16_to_f32(u16(p));
}

static uint32_t u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void q4_0(const uint8_t *b, float *y)
{
	float d = half(b);
	for (int i = 0; i < 16; i++) {
		y[i] = (float)((b[2 + i] & 15) - 8) * d;
		y[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
	}
}

static void q4_1(const uint8_t *b, float *y)
{
	float d = half(b), m = half(b + 2);
	for (int i = 0; i < 16; i++) {
		y[i] = (float)(b[4 + i] & 15) * d + m;
		y[i + 16] = (float)(b[4 + i] >> 4) * d + m;
	}
}

static void q5_0(const uint8_t *b, float *y)
{
	float d = half(b);
	uint32_t high = u32(b + 2);
	for (int i = 0; i < 16; i++) {
		y[i] = (float)((int)((b[6 + i] & 15) | (high >> i & 1) << 4) - 16) * d;
		y[i + 16] = (float)((int)((b[6 + i] >> 4) | (high >> (i + 16) & 1) << 4) - 16) * d;
	}
}

static void q5_1(const uint8_t *b, float *y)
{
	float d = half(b), m = half(b + 2);
	uint32_t high = u32(b + 4);
	for (int i = 0; i < 16; i++) {
		y[i] = (float)((b[8 + i] & 15) | (high >> i & 1) << 4) * d + m;
		y[i + 16] = (float)((b[8 + i] >> 4) | (high >> (i + 16) & 1) << 4) * d + m;
	}
}

static void q8_0(const uint8_t *b, float *y)
{
	float d = half(b);
	for (int i = 0; i < 32; i++)
		y[i] = (float)(int8_t)b[2 + i] * d;
}

// 6-bit scale and minimum of sub-block j, packed into 12 bytes.
static void scale_min(int j, const uint8_t *q, uint8_t *scale, uint8_t *min)
{
	if (j < 4) {
		*scale = q[j] & 63;
		*min = q[j + 4] & 63;
	} else {
		*scale = (uint8_t)((q[j + 4] & 15) | (q[j - 4] >> 6) << 4);
		*min = (uint8_t)((q[j + 4] >> 4) | (q[j] >> 6) << 4);
	}
}

static void q4_k(const uint8_t *b, float *y)
{
	float d = half(b), dmin = half(b + 2);
	for (int j = 0; j < 8; j++) {
		uint8_t sc, mn;
		scale_min(j, b + 4, &sc, &mn);
		float ds = d * (float)sc, ms = dmin * (float)mn;
		const uint8_t *q = b + 16 + 32 * (j / 2);
		for (int i = 0; i < 32; i++)
			y[32 * j + i] = ds * (float)(j & 1 ? q[i] >> 4 : q[i] & 15) - ms;
	}
}

static void q5_k(const uint8_t *b, float *y)
{
	float d = half(b), dmin = half(b + 2);
	for (int j = 0; j < 8; j++) {
		uint8_t sc, mn;
		scale_min(j, b + 4, &sc, &mn);
		float ds = d * (float)sc, ms = dmin * (float)mn;
		const uint8_t *high = b + 16, *q = b + 48 + 32 * (j / 2);
		for (int i = 0; i < 32; i++)
			y[32 * j + i] = ds * (float)((j & 1 ? q[i] >> 4 : q[i] & 15) + (high[i] >> j & 1) * 16) - ms;
	}
}

static void q6_k(const uint8_t *b, float *y)
{
	float d = half(b + 208);
	for (int n = 0; n < 2; n++) { // 128 values each
		const uint8_t *low = b + 64 * n, *high = b + 128 + 32 * n;
		const int8_t *sc = (const int8_t *)b + 192 + 8 * n;
		for (int i = 0; i < 32; i++) {
			int q[4] = {(low[i] & 15) | (high[i] & 3) << 4, (low[i + 32] & 15) | (high[i] >> 2 & 3) << 4,
						(low[i] >> 4) | (high[i] >> 4 & 3) << 4, (low[i + 32] >> 4) | (high[i] >> 6) << 4};
			for (int k = 0; k < 4; k++)
				y[128 * n + 32 * k + i] = d * (float)sc[i / 16 + 2 * k] * (float)(q[k] - 32);
		}
	}
}

// Types whose block is one value.
static void plain(enum dtype type, const uint8_t *p, size_t n, float *y)
{
	if (type == DTYPE_F32)
		memcpy(y, p, n * sizeof *y);
	else if (type == DTYPE_F16)
		for (size_t i = 0; i < n; i++)
			y[i] = half(p + 2 * i);
	else
		for (size_t i = 0; i < n; i++)
			y[i] = bf16_to_f32(u16(p + 2 * i));
}

static void (*const decoders[])(const uint8_t *block, float *values) = {
	[DTYPE_Q4_0] = q4_0, [DTYPE_Q4_1] = q4_1, [DTYPE_Q5_0] = q5_0, [DTYPE_Q5_1] = q5_1,
	[DTYPE_Q8_0] = q8_0, [DTYPE_Q4_K] = q4_k, [DTYPE_Q5_K] = q5_k, [DTYPE_Q6_K] = q6_k,
};

void dtype_decode(enum dtype type, const void *src, size_t n, float *dst)
{
	const struct dtype_info *info = dtype_info(type);
	CHECK(info && n % info->block == 0, "type %d, %zu values", (int)type, n);
	const uint8_t *block = src;
	if (info->block == 1)
		plain(type, block, n, dst);
	else
		for (size_t i = 0; i < n; i += info->block, block += info->bytes)
			decoders[type](block, dst + i);
}
