// SPDX-License-Identifier: Apache-2.0
//
// Inside the prefix tree: shared by prefix_tree.c (nodes, roots, eviction), prefix_order.c (children ordered by ids)
// and prefix_check.c (invariants).
#ifndef QUIRE_ENGINE_PREFIX_TREE_INTERNAL_H
#define QUIRE_ENGINE_PREFIX_TREE_INTERNAL_H

#include "engine/base/list.h"
#include "engine/prefix_tree.h"

struct node {		 // or a root: the same, without ids and block
	struct list lru; // in tree.lru iff it is an unreferenced leaf
	uint64_t last_use;
	int32_t parent; // PREFIX_NONE: a root, or free
	int32_t block;
	int32_t n_ids; // 1 … B
	int32_t n_children;
	int32_t first;		 // top of the treap of its children
	int32_t left, right; // in the treap of its parent's children; a free node's next free one is `left`
	uint32_t weight;	 // of the treap: random
	uint32_t generation;
	uint32_t bucket; // full nodes
	int32_t hash_next;
};

struct root {
	int holds;
	int32_t hash_next; // also: next free
	size_t len;
	uint32_t bucket;
	bool live;
	char key[PREFIX_KEY_MAX];
};

struct prefix_tree {
	struct kv_pool *pool;
	int block_tokens, n_nodes, n_roots, n_live_roots;
	uint64_t seed, random;
	uint32_t hash_mask, root_mask;
	struct node *nodes;					// [n_nodes + n_roots]: root r is node n_nodes + r
	int32_t *ids;						// [n_nodes][B]
	int32_t *node_of;					// [n_nodes] by block
	int32_t *buckets;					// [hash_mask + 1] of full nodes
	struct root *roots;					// [n_roots]
	int32_t *root_buckets;				// [root_mask + 1]
	int32_t free_node, n_touched_nodes; // never used ones follow, so that their pages stay untouched
	int32_t free_root, n_touched_roots;
	struct list lru; // least recently used first
	uint64_t n_evictions;
};

static inline int32_t *prefix__ids(const struct prefix_tree *t, int32_t node)
{
	return t->ids + (size_t)node * (size_t)t->block_tokens;
}

static inline bool prefix__is_root(const struct prefix_tree *t, int32_t node)
{
	return node >= t->n_nodes;
}

int prefix__common(const int32_t *a, const int32_t *b, int n); // length of the common head of the first n

// The children of a node in the order of their ids.
void prefix__order_insert(struct prefix_tree *t, int32_t parent, int32_t node);
void prefix__order_remove(struct prefix_tree *t, int32_t parent, int32_t node);
// The last child ≤ ids[0 … n) and the first one after it, or PREFIX_NONE.
void prefix__order_find(const struct prefix_tree *t, int32_t parent, const int32_t *ids, int n, int32_t *before,
						int32_t *after);

uint32_t prefix__bucket(const struct prefix_tree *t, int32_t parent, const int32_t *ids);

#endif
