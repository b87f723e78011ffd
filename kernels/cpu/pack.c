// SPDX-License-Identifier: Apache-2.0
//
// From the block types of files to packed groups and back. A file's block is first taken apart into plain codes, scales
// and minima, then written once for each row; so a new type costs one function here, and a kernel where none fits.
#include "engine/base/err.h"
#include "kernels/cpu/matrix.h"

#include <string.h>

// A block of a file taken apart; up to SUPER values.
struct parts {
	uint8_t code[SUPER];
	uint16_t scale, min;	 // f16
	uint8_t sub[SUPER / 16]; // sub-scales: one every 32 codes, or (signed) every 16
	uint8_t sub_min[SUPER / BLOCK];
};

static uint16_t u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// 32 values in 16 bytes: first halves are values 0 … 15.
static void split_nibbles(const uint8_t *q, uint8_t *code)
{
	for (int i = 0; i < 16; i++) {
		code[i] = q[i] & 15;
		code[i + 16] = q[i] >> 4;
	}
}

static void add_fifth_bits(uint32_t high, uint8_t *code)
{
	for (int i = 0; i < 32; i++)
		code[i] |= (uint8_t)((high >> i & 1) << 4);
}

// The 6-bit sub-scales and sub-minima of Q4_K and Q5_K: eight of each in 12 bytes.
static void split_scales(const uint8_t *b, struct parts *p)
{
	for (int j = 0; j < 4; j++) {
		p->sub[j] = b[j] & 63;
		p->sub_min[j] = b[j + 4] & 63;
		p->sub[j + 4] = (uint8_t)((b[j + 8] & 15) | b[j] >> 6 << 4);
		p->sub_min[j + 4] = (uint8_t)(b[j + 8] >> 4 | b[j + 4] >> 6 << 4);
	}
}

static void split_k(const uint8_t *b, const uint8_t *q, const uint8_t *high, struct parts *p)
{
	p->scale = u16(b);
	p->min = u16(b + 2);
	split_scales(b + 4, p);
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 32; i++) {
			uint8_t v = q[32 * (j / 2) + i];
			p->code[32 * j + i] = (uint8_t)((j & 1 ? v >> 4 : v & 15) | (high ? (high[i] >> j & 1) << 4 : 0));
		}
}

static void split_q6_k(const uint8_t *b, struct parts *p)
{
	p->scale = u16(b + 208);
	memcpy(p->sub, b + 192, 16);
	for (int h = 0; h < 2; h++) { // halves of 128 values
		const uint8_t *low = b + 64 * h, *high = b + 128 + 32 * h;
		uint8_t *code = p->code + 128 * h;
		for (int i = 0; i < 32; i++) {
			code[i] = (uint8_t)((low[i] & 15) | (high[i] & 3) << 4);
			code[i + 32] = (uint8_t)((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
			code[i + 64] = (uint8_t)(low[i] >> 4 | (high[i] >> 4 & 3) << 4);
			code[i + 96] = (uint8_t)(low[i + 32] >> 4 | high[i] >> 6 << 4);
		}
	}
}

static void split(enum cpu_layout layout, const uint8_t *b, struct parts *p)
{
	switch (layout) {
	case LAYOUT_Q4_0:
		p->scale = u16(b);
		split_nibbles(b + 2, p->code);
		return;
	case LAYOUT_Q4_1:
		p->scale = u16(b);
		p->min = u16(b + 2);
		split_nibbles(b + 4, p->code);
		return;
	case LAYOUT_Q5_0:
		p->scale = u16(b);
		split_nibbles(b + 6, p->code);
		add_fifth_bits(u32(b + 2), p->code);
		return;
	case LAYOUT_Q5_1:
		p->scale = u16(b);
		p->min = u16(b + 2);
		split_nibbles(b + 8, p->code);
		add_fifth_bits(u32(b + 4), p->code);
		return;
	case LAYOUT_Q8_0:
		p->scale = u16(b);
		for (int i = 0; i < 32; i++)
			p->code[i] = b[2 + i] ^ 128;
		return;
	case LAYOUT_Q4_K:
		split_k(b, b + 16, NULL, p);
		return;
	case LAYOUT_Q5_K:
		split_k(b, b + 48, b + 16, p);
		return;
	case LAYOUT_Q6_K:
		split_q6_k(b, p);
		return;
	default:
		CHECK(false, "layout %d has no blocks", (int)layout);
	}
}

static void put_codes(bool nibbles, const uint8_t *code, size_t r, uint8_t *block)
{
	for (size_t i = 0; i < BLOCK / 4; i += 1 + nibbles) {
		uint32_t low, high;
		memcpy(&low, code + 4 * i, 4);
		if (nibbles) {
			memcpy(&high, code + 4 * i + 4, 4);
			low |= high << 4; // codes are below 16, so no bit crosses a byte
		}
		memcpy(block + (i >> nibbles) * 4 * GROUP + 4 * r, &low, 4);
	}
}

// Writes row r of the blocks that a file's block makes.
static void put(const struct layout_info *l, const struct parts *p, size_t n_blocks, size_t r, uint8_t *to)
{
	size_t codes = l->code_bits == 4 ? NIBBLES : BYTES;
	if (l->header) {
		memcpy(to + 2 * r, &p->scale, 2);
		if (l->has_min)
			memcpy(to + HALVES + 2 * r, &p->min, 2);
		to += l->header;
	}
	for (size_t b = 0; b < n_blocks; b++, to += l->block) {
		put_codes(l->code_bits == 4, p->code + BLOCK * b, r, to);
		if (l->sub_scales) {
			to[codes + r] = p->sub[l->sub_scales * b];
			to[codes + SUB + r] = l->has_min ? p->sub_min[b] : p->sub[2 * b + 1];
		} else {
			memcpy(to + codes + 2 * r, &p->scale, 2);
			if (l->has_min)
				memcpy(to + codes + HALVES + 2 * r, &p->min, 2);
		}
	}
}

size_t layout_group_bytes(enum cpu_layout layout, size_t k)
{
	const struct layout_info *l = &layout_infos[layout];
	return l->code_bits ? k / BLOCK * l->block + k / SUPER * l->header : k * l->block;
}

static void pack_floats(size_t size, const uint8_t *row, size_t r, size_t k, uint8_t *group)
{
	for (size_t i = 0; i < k; i++)
		memcpy(group + (i * GROUP + r) * size, row + i * size, size);
}

void pack_group(enum cpu_layout layout, const uint8_t *rows, size_t row_bytes, size_t n_rows, size_t k, uint8_t *group)
{
	const struct layout_info *l = &layout_infos[layout];
	const struct dtype_info *file = dtype_info(l->type);
	struct parts p = {.min = 0};
	if (n_rows < GROUP)
		memset(group, 0, layout_group_bytes(layout, k));
	for (size_t r = 0; r < n_rows; r++, rows += row_bytes) {
		if (!l->code_bits) {
			pack_floats(file->bytes, rows, r, k, group);
			continue;
		}
		uint8_t *to = group;
		for (size_t at = 0; at < k; at += file->block) {
			split(layout, rows + at / file->block * file->bytes, &p);
			put(l, &p, file->block / BLOCK, r, to);
			to += l->header + file->block / BLOCK * l->block;
		}
	}
}

static float half(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return f16_to_f32(h);
}

static int code_at(const struct layout_info *l, const uint8_t *block, size_t r, size_t i)
{
	if (l->code_bits == 8)
		return block[i / 4 * 4 * GROUP + 4 * r + i % 4];
	uint8_t two = block[i / 8 * 4 * GROUP + 4 * r + i % 4];
	return i / 4 & 1 ? two >> 4 : two & 15;
}

// The orders of operations are those of dtype_decode, so that an embedding is the file's own to the bit.
static void read_block(const struct layout_info *l, const uint8_t *header, const uint8_t *block, size_t r, float *y)
{
	size_t codes = l->code_bits == 4 ? NIBBLES : BYTES;
	const uint8_t *after = block + codes;
	for (size_t i = 0; i < BLOCK; i++) {
		float v = (float)(code_at(l, block, r, i) - l->zero);
		if (l->sub_scales == 2)
			y[i] = half(header + 2 * r) * (float)(int8_t)after[i / 16 * SUB + r] * v;
		else if (l->sub_scales)
			y[i] = half(header + 2 * r) * (float)after[r] * v - half(header + HALVES + 2 * r) * (float)after[SUB + r];
		else
			y[i] = v * half(after + 2 * r);
		if (l->has_min && !l->sub_scales)
			y[i] += half(after + HALVES + 2 * r);
	}
}

void pack_read_row(enum cpu_layout layout, const uint8_t *group, size_t r, size_t k, float *row)
{
	const struct layout_info *l = &layout_infos[layout];
	if (!l->code_bits) {
		for (size_t i = 0; i < k; i++)
			dtype_decode(l->type, group + (i * GROUP + r) * (l->block / GROUP), 1, row + i);
		return;
	}
	const uint8_t *header = group;
	for (size_t at = 0; at < k; at += BLOCK) {
		if (l->header && at % SUPER == 0) {
			header = group;
			group += l->header;
		}
		read_block(l, header, group, r, row + at);
		group += l->block;
	}
}
