// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/weights_rig.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <string.h>

const enum dtype rig_types[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q4_K,
								DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_F16,	DTYPE_BF16, DTYPE_F32};

uint32_t rig_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static float unit(uint32_t *state)
{
	return (float)(int32_t)rig_random(state) * 0x1p-31f;
}

void rig_fill(float *x, size_t n, uint32_t seed)
{
	uint32_t s = seed * 2654435761u + 1;
	for (size_t i = 0; i < n; i++)
		x[i] = unit(&s) * (rig_random(&s) % 97 ? 1 : 8);
}

static void put_half(uint8_t *p, float v)
{
	uint16_t h = f32_to_f16(v);
	memcpy(p, &h, 2);
}

// Block types: random codes, then scales (and minima) that make weights about `scale`.
static void finish_block(enum dtype type, uint8_t *b, float scale, uint32_t *s)
{
	float v = scale * (1.5f + unit(s)), m = scale * unit(s);
	uint32_t bits;
	switch (type) {
	case DTYPE_F32:
		m = 2 * scale * unit(s);
		memcpy(b, &m, 4);
		return;
	case DTYPE_BF16:
		m = 2 * scale * unit(s);
		memcpy(&bits, &m, 4);
		bits >>= 16;
		memcpy(b, &bits, 2);
		return;
	case DTYPE_F16:
		put_half(b, 2 * scale * unit(s));
		return;
	case DTYPE_Q4_0:
		put_half(b, v / 8);
		return;
	case DTYPE_Q5_0:
		put_half(b, v / 16);
		return;
	case DTYPE_Q8_0:
		put_half(b, v / 128);
		return;
	case DTYPE_Q6_K:
		put_half(b + 208, v / 32 / 64);
		return;
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
		put_half(b, v / 16);
		put_half(b + 2, m);
		return;
	default: // Q4_K, Q5_K
		put_half(b, v / 16 / 32);
		put_half(b + 2, m / 32);
	}
}

uint8_t *rig_weights(enum dtype type, size_t n_rows, size_t k, float scale, uint32_t seed)
{
	const struct dtype_info *info = dtype_info(type);
	uint32_t s = seed * 2246822519u + 7;
	size_t row;
	CHECK(dtype_row_bytes(type, k, &row), "%zu values", k);
	uint8_t *w = mem_alloc(row * n_rows + 1);
	for (size_t i = 0; i < row * n_rows; i++)
		w[i] = (uint8_t)(rig_random(&s) >> 11);
	for (size_t i = 0; i < row * n_rows; i += info->bytes)
		finish_block(type, w + i, scale, &s);
	return w;
}
