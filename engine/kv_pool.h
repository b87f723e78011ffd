// SPDX-License-Identifier: Apache-2.0
//
// Who holds which KV block. The pool knows numbers, not bytes: block b of the back end is index b here. A block is
//   free    nobody has it
//   in use  references > 0; a reference is an occurrence in a block table (or a copy source held during one step)
//   cached  references == 0, but the prefix tree keeps it: it becomes free when the tree lets go
// free + cached + in use = total, always. Everything is sized at create; every operation is O(1). Engine thread only.
#ifndef QUIRE_ENGINE_KV_POOL_H
#define QUIRE_ENGINE_KV_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_pool;

enum { KV_POOL_MAX_BLOCKS = 1 << 28, KV_NO_BLOCK = -1 };

// ERR_INVALID unless 1 ≤ n_blocks ≤ KV_POOL_MAX_BLOCKS.
int kv_pool_create(int n_blocks, struct kv_pool **out, char *err, size_t len);
void kv_pool_destroy(struct kv_pool *p);

// A free block with one reference, or KV_NO_BLOCK. The first free one after `near` (the last block of the table that
// grows), so that a sequence's blocks ascend and are neighbours where they can; from the start of the pool if there is
// none, or if near is KV_NO_BLOCK.
int32_t kv_pool_alloc(struct kv_pool *p, int32_t near);

void kv_pool_ref(struct kv_pool *p, int32_t block);	  // the block is in use, or cached
void kv_pool_unref(struct kv_pool *p, int32_t block); // the last one makes it cached if it is kept, else free
void kv_pool_keep(struct kv_pool *p, int32_t block);  // the tree holds it from now on; it is in use
void kv_pool_drop(struct kv_pool *p, int32_t block);  // the tree lets go: free at once if nobody refers to it

int kv_pool_refs(const struct kv_pool *p, int32_t block);
bool kv_pool_is_kept(const struct kv_pool *p, int32_t block);
int kv_pool_n_blocks(const struct kv_pool *p);
int kv_pool_n_free(const struct kv_pool *p);
int kv_pool_n_cached(const struct kv_pool *p);
int kv_pool_n_used(const struct kv_pool *p);

// Aborts unless the states add up and refs[b] is the number of references of every block (NULL: not compared).
// O(blocks).
void kv_pool_check(const struct kv_pool *p, const int32_t *refs);

#endif
