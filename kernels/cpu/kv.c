// SPDX-License-Identifier: Apache-2.0
//
// The KV cache as one mapping: address space for all blocks is taken at once, pages come with the first write to them.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/cpu.h"

#include <string.h>
#include <sys/mman.h>

static size_t element(const struct kv_shape *s)
{
	return s->type == KV_F16 ? sizeof(uint16_t) : sizeof(float);
}

// Bytes of a block; offsets[l], if asked for, is where layer l starts. A head of a layer is a multiple of
// KERNEL_ALIGN bytes, since B is one of 16.
static size_t lay_out(const struct kv_shape *s, size_t *offsets)
{
	size_t at = 0;
	for (int l = 0; l < s->n_layers; l++) {
		if (offsets)
			offsets[l] = at;
		at += (size_t)s->n_kv_heads[l] * 2 * (size_t)s->head_dim[l] * (size_t)s->block_tokens * element(s);
	}
	return (at + KERNEL_ALIGN - 1) & ~(size_t)(KERNEL_ALIGN - 1);
}

size_t cpu_kv_block_bytes(const struct backend *be, const struct kv_shape *shape)
{
	(void)be;
	return lay_out(shape, NULL);
}

int cpu_kv_create(struct backend *b, const struct kv_shape *shape, size_t n_blocks, char *err, size_t len)
{
	struct cpu_kv *kv = &cpu_of(b)->kv;
	CHECK(!kv->base, "a back end has one cache");
	if (shape->block_tokens < STRIP || ATTENTION_CHUNK % shape->block_tokens || shape->block_tokens % STRIP)
		return err_set(err, len, ERR_UNSUPPORTED, "blocks of %d tokens; choose 16, 32, 64, 128 or 256",
					   shape->block_tokens);
	kv->shape = *shape;
	kv->n_blocks = n_blocks;
	kv->block_bytes = lay_out(shape, kv->layer_offset);
	if (!mem_mul(kv->block_bytes, n_blocks, &kv->map_bytes))
		return err_set(err, len, ERR_NOMEM, "%zu KV blocks of %zu bytes are more than an address can hold", n_blocks,
					   kv->block_bytes);
	void *p = mmap(NULL, kv->map_bytes ? kv->map_bytes : 1, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return err_set(err, len, ERR_NOMEM, "no address space for a KV cache of %zu bytes; ask for fewer blocks",
					   kv->map_bytes);
	kv->base = p;
	return 0;
}

void cpu_kv_release(struct cpu_backend *be)
{
	if (be->kv.base)
		munmap(be->kv.base, be->kv.map_bytes ? be->kv.map_bytes : 1);
	be->kv.base = NULL;
}

static char *block_at(const struct cpu_kv *kv, int32_t block)
{
	CHECK(block >= 0 && (size_t)block < kv->n_blocks, "block %d of %zu", block, kv->n_blocks);
	return kv->base + (size_t)block * kv->block_bytes;
}

// K's first n columns, then V's first n rows.
static void copy_head(const char *src, char *dst, size_t dh, size_t block_tokens, size_t n, size_t size)
{
	for (size_t d = 0; d < dh; d++)
		memcpy(dst + d * block_tokens * size, src + d * block_tokens * size, n * size);
	size_t v = dh * block_tokens * size;
	memcpy(dst + v, src + v, n * dh * size);
}

void cpu_kv_copy_tokens(struct backend *b, int32_t src, int32_t dst, int n)
{
	const struct cpu_kv *kv = &cpu_of(b)->kv;
	const struct kv_shape *s = &kv->shape;
	const char *from = block_at(kv, src);
	char *to = block_at(kv, dst);
	CHECK(n >= 0 && n <= s->block_tokens && src != dst, "%d tokens of block %d to %d", n, src, dst);
	size_t size = element(s), tokens = (size_t)s->block_tokens;
	for (int l = 0; l < s->n_layers; l++) {
		size_t dh = (size_t)s->head_dim[l], head = 2 * dh * tokens * size;
		for (int h = 0; h < s->n_kv_heads[l]; h++) {
			size_t at = kv->layer_offset[l] + (size_t)h * head;
			copy_head(from + at, to + at, dh, tokens, (size_t)n, size);
		}
	}
}

void cpu_kv_read_block(struct backend *b, int32_t block, void *dst)
{
	const struct cpu_kv *kv = &cpu_of(b)->kv;
	memcpy(dst, block_at(kv, block), kv->block_bytes);
}

void cpu_kv_write_block(struct backend *b, int32_t block, const void *src)
{
	const struct cpu_kv *kv = &cpu_of(b)->kv;
	memcpy(block_at(kv, block), src, kv->block_bytes);
}
