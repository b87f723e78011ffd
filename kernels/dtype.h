// SPDX-License-Identifier: Apache-2.0
//
// Storage types of weights and of keys and values: how many values make a block, how many bytes it takes.
// Numbers and layouts of the block types are ggml's (ggml.h, ggml-common.h), since GGUF files hold them verbatim.
#ifndef QUIRE_KERNELS_DTYPE_H
#define QUIRE_KERNELS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype { // values are those of GGUF tensor infos
	DTYPE_F32 = 0,
	DTYPE_F16 = 1,
	DTYPE_Q4_0 = 2,
	DTYPE_Q4_1 = 3,
	DTYPE_Q5_0 = 6,
	DTYPE_Q5_1 = 7,
	DTYPE_Q8_0 = 8,
	DTYPE_Q4_K = 12,
	DTYPE_Q5_K = 13,
	DTYPE_Q6_K = 14,
	DTYPE_BF16 = 30,
};

struct dtype_info {
	const char *name;   // as published, such as "Q4_K"
	unsigned block;     // values a block
	unsigned bytes;     // bytes a block
};

// NULL for a type this build cannot read.
const struct dtype_info *dtype_info(uint32_t type);

// The published name of any ggml type, also of those this build cannot read ("IQ2_XS"); NULL for an unknown number.
const char *dtype_name(uint32_t type);

// Bytes of n values in a row; false if n is no multiple of the block or the size overflows.
bool dtype_row_bytes(uint32_t type, uint64_t n, size_t *bytes);

// Decodes n values (a multiple of the block) to float32: the plain-loop definition of each format. Any thread.
void dtype_decode(enum dtype type, const void *src, size_t n, float *dst);

// IEEE half and bfloat16, round to nearest even; subnormals, infinities and NaN are kept.
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
static inline float bf16_to_f32(uint16_t h)
{
	union {
		uint32_t u;
		float f;
	} v = {.u = (uint32_t)h << 16};
	return v.f;
}

#endif
