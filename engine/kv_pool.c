// SPDX-License-Identifier: Apache-2.0
//
// Free blocks are bits of a tree of words, 64 children a word: a set bit means "something free below". Finding the
// first free block at or after a given one climbs and descends at most LEVELS words, whatever the size of the pool, and
// unlike a stack it can prefer neighbours.
#include "engine/kv_pool.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <stdlib.h>

enum { LEVELS = 5 }; // 64^5 > KV_POOL_MAX_BLOCKS

struct kv_pool {
	int n_blocks;
	int n_free, n_cached;
	int32_t *refs;			  // [n_blocks]
	bool *kept;				  // [n_blocks] the tree holds it
	int n_levels;			  // the topmost level is one word
	uint64_t *levels[LEVELS]; // levels[0]: a bit a block
};

static void mark_free(struct kv_pool *p, int32_t block)
{
	uint32_t at = (uint32_t)block;
	for (int l = 0; l < p->n_levels; l++, at >>= 6)
		p->levels[l][at >> 6] |= 1ull << (at & 63);
	p->n_free++;
}

static void mark_taken(struct kv_pool *p, int32_t block)
{
	uint32_t at = (uint32_t)block;
	for (int l = 0; l < p->n_levels; l++, at >>= 6) {
		p->levels[l][at >> 6] &= ~(1ull << (at & 63));
		if (p->levels[l][at >> 6])
			break; // the words above still have something free below
	}
	p->n_free--;
}

static bool is_free(const struct kv_pool *p, int32_t block)
{
	return p->levels[0][block >> 6] >> (block & 63) & 1;
}

// The first free block ≥ from, or KV_NO_BLOCK.
static int32_t find_free(const struct kv_pool *p, uint32_t from)
{
	if (from >= (uint32_t)p->n_blocks)
		return KV_NO_BLOCK;
	uint32_t at = from;
	for (int l = 0; l < p->n_levels; l++) {
		uint64_t word = p->levels[l][at >> 6] & ~0ull << (at & 63);
		if (word) {
			at = (at & ~63u) | (uint32_t)__builtin_ctzll(word);
			while (l-- > 0)
				at = at << 6 | (uint32_t)__builtin_ctzll(p->levels[l][at]);
			return (int32_t)at;
		}
		at = (at >> 6) + 1; // nothing in this word: the next one, seen from the level above
	}
	return KV_NO_BLOCK;
}

int kv_pool_create(int n_blocks, struct kv_pool **out, char *err, size_t len)
{
	if (n_blocks < 1 || n_blocks > KV_POOL_MAX_BLOCKS)
		return err_set(err, len, ERR_INVALID, "n_blocks is %d, must be 1 to %d", n_blocks, KV_POOL_MAX_BLOCKS);
	struct kv_pool *p = mem_zalloc(1, sizeof *p);
	p->n_blocks = n_blocks;
	p->refs = mem_zalloc((size_t)n_blocks, sizeof *p->refs);
	p->kept = mem_zalloc((size_t)n_blocks, sizeof *p->kept);
	size_t bits = (size_t)n_blocks;
	do {
		// One word more than needed, so that "the next word" exists at every level.
		size_t words = bits / 64 + 1;
		p->levels[p->n_levels++] = mem_zalloc(words, sizeof(uint64_t));
		bits = words;
	} while (bits > 1);
	for (int32_t b = 0; b < n_blocks; b++)
		mark_free(p, b);
	*out = p;
	return 0;
}

void kv_pool_destroy(struct kv_pool *p)
{
	if (!p)
		return;
	for (int l = 0; l < p->n_levels; l++)
		free(p->levels[l]);
	free(p->kept);
	free(p->refs);
	free(p);
}

int32_t kv_pool_alloc(struct kv_pool *p, int32_t near)
{
	int32_t block = find_free(p, (uint32_t)(near + 1));
	if (block == KV_NO_BLOCK && near != KV_NO_BLOCK)
		block = find_free(p, 0);
	if (block == KV_NO_BLOCK)
		return block;
	mark_taken(p, block);
	p->refs[block] = 1;
	return block;
}

void kv_pool_ref(struct kv_pool *p, int32_t block)
{
	CHECK(p->refs[block] > 0 || p->kept[block], "block %d is free", block);
	if (p->refs[block]++ == 0)
		p->n_cached--;
}

void kv_pool_unref(struct kv_pool *p, int32_t block)
{
	CHECK(p->refs[block] > 0, "block %d", block);
	if (--p->refs[block] > 0)
		return;
	if (p->kept[block])
		p->n_cached++;
	else
		mark_free(p, block);
}

void kv_pool_keep(struct kv_pool *p, int32_t block)
{
	CHECK(p->refs[block] > 0 && !p->kept[block], "block %d", block);
	p->kept[block] = true;
}

void kv_pool_drop(struct kv_pool *p, int32_t block)
{
	CHECK(p->kept[block], "block %d", block);
	p->kept[block] = false;
	if (p->refs[block] > 0)
		return;
	p->n_cached--;
	mark_free(p, block);
}

int kv_pool_refs(const struct kv_pool *p, int32_t block)
{
	return p->refs[block];
}

bool kv_pool_is_kept(const struct kv_pool *p, int32_t block)
{
	return p->kept[block];
}

int kv_pool_n_blocks(const struct kv_pool *p)
{
	return p->n_blocks;
}

int kv_pool_n_free(const struct kv_pool *p)
{
	return p->n_free;
}

int kv_pool_n_cached(const struct kv_pool *p)
{
	return p->n_cached;
}

int kv_pool_n_used(const struct kv_pool *p)
{
	return p->n_blocks - p->n_free - p->n_cached;
}

void kv_pool_check(const struct kv_pool *p, const int32_t *refs)
{
	int n_free = 0, n_cached = 0;
	for (int32_t b = 0; b < p->n_blocks; b++) {
		CHECK(!refs || refs[b] == p->refs[b], "block %d: %d occurrences, %d references", b, refs[b], p->refs[b]);
		CHECK(p->refs[b] >= 0, "block %d", b);
		bool idle = p->refs[b] == 0;
		n_cached += idle && p->kept[b];
		n_free += idle && !p->kept[b];
		CHECK(is_free(p, b) == (idle && !p->kept[b]), "block %d: %d references, kept %d", b, p->refs[b], p->kept[b]);
	}
	CHECK(n_free == p->n_free && n_cached == p->n_cached, "free %d, counted %d; cached %d, counted %d", p->n_free,
		  n_free, p->n_cached, n_cached);
}
