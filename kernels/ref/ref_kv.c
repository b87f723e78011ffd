// SPDX-License-Identifier: Apache-2.0
//
// KV blocks in the layout of shapes.h, written and read one head of one token at a time.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/ref/ref.h"

#include <string.h>
#include <sys/mman.h>

static size_t element(const struct kv_shape *s)
{
	return s->type == KV_F16 ? 2 : 4;
}

static size_t layout(const struct kv_shape *s, size_t *offsets)
{
	size_t at = 0;
	for (int l = 0; l < s->n_layers; l++) {
		if (offsets)
			offsets[l] = at;
		at += (size_t)s->n_kv_heads[l] * 2 * (size_t)s->head_dim[l] * (size_t)s->block_tokens * element(s);
	}
	return (at + KERNEL_ALIGN - 1) & ~(size_t)(KERNEL_ALIGN - 1);
}

size_t ref_kv_block_bytes(const struct backend *be, const struct kv_shape *shape)
{
	(void)be;
	return layout(shape, NULL);
}

int ref_kv_create(struct backend *b, const struct kv_shape *shape, size_t n_blocks, char *err, size_t len)
{
	struct ref_backend *be = ref_of(b);
	be->kv = *shape;
	be->kv_block_bytes = layout(shape, be->kv_layer_offset);
	if (!mem_mul(be->kv_block_bytes, n_blocks, &be->kv_map_bytes))
		return err_set(err, len, ERR_NOMEM, "%zu KV blocks of %zu bytes are more than an address can hold", n_blocks,
					   be->kv_block_bytes);
	void *p = mmap(NULL, be->kv_map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return err_set(err, len, ERR_NOMEM, "no address space for a KV cache of %zu bytes", be->kv_map_bytes);
	be->kv_base = p;
	return 0;
}

static char *at(const struct ref_backend *be, int layer, int32_t block, int head, int value, int d, int t)
{
	size_t dh = (size_t)be->kv.head_dim[layer], b = (size_t)be->kv.block_tokens;
	size_t index =
		((size_t)head * 2 + (size_t)value) * dh * b + (value ? (size_t)t * dh + (size_t)d : (size_t)d * b + (size_t)t);
	return be->kv_base + (size_t)block * be->kv_block_bytes + be->kv_layer_offset[layer] + index * element(&be->kv);
}

void ref_kv_get(const struct ref_backend *be, int layer, int32_t block, int head, int value, int t, float *row)
{
	size_t step = value ? element(&be->kv) : element(&be->kv) * (size_t)be->kv.block_tokens;
	const char *p = at(be, layer, block, head, value, 0, t);
	for (int d = 0; d < be->kv.head_dim[layer]; d++, p += step)
		row[d] =
			be->kv.type == KV_F16 ? f16_to_f32(*(const uint16_t *)(const void *)p) : *(const float *)(const void *)p;
}

void ref_kv_put(struct ref_backend *be, int layer, int32_t block, int head, int value, int t, const float *row)
{
	size_t step = value ? element(&be->kv) : element(&be->kv) * (size_t)be->kv.block_tokens;
	char *p = at(be, layer, block, head, value, 0, t);
	for (int d = 0; d < be->kv.head_dim[layer]; d++, p += step) {
		if (be->kv.type == KV_F16)
			*(uint16_t *)(void *)p = f32_to_f16(row[d]);
		else
			*(float *)(void *)p = row[d];
	}
}

void ref_kv_copy_tokens(struct backend *b, int32_t src, int32_t dst, int n)
{
	struct ref_backend *be = ref_of(b);
	for (int l = 0; l < be->kv.n_layers; l++)
		for (int h = 0; h < be->kv.n_kv_heads[l]; h++)
			for (int value = 0; value < 2; value++)
				for (int d = 0; d < be->kv.head_dim[l]; d++)
					for (int t = 0; t < n; t++)
						memcpy(at(be, l, dst, h, value, d, t), at(be, l, src, h, value, d, t), element(&be->kv));
}

void ref_kv_read_block(struct backend *b, int32_t block, void *dst)
{
	struct ref_backend *be = ref_of(b);
	memcpy(dst, be->kv_base + (size_t)block * be->kv_block_bytes, be->kv_block_bytes);
}

void ref_kv_write_block(struct backend *b, int32_t block, const void *src)
{
	struct ref_backend *be = ref_of(b);
	memcpy(be->kv_base + (size_t)block * be->kv_block_bytes, src, be->kv_block_bytes);
}
