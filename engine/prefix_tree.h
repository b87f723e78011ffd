// SPDX-License-Identifier: Apache-2.0
//
// Every cached prefix is a path of nodes. A node holds the 1 … B token ids of one block; only a full node (B ids) has
// children, so the path to a node says exactly which tokens its block's keys and values follow. A namespace is a root
// of its own: paths of different roots never meet. The tree decides what is found and what is forgotten; who refers to
// a block is the pool's to know.
//
// A table's blocks are shared where they are full nodes. The last, partly filled one may be a node too (so that its
// head can be found and copied), but only one table ever writes it: others copy.
//
// Full children are found by a hash of (parent, ids) and always confirmed by comparing both: a collision costs a
// comparison, never a wrong hit. Children are also ordered by ids (shorter first), so that the child with the longest
// common head is one of two neighbours, O(log children). No node that nobody refers to is the head of a sibling: such a
// one is let go.
//
// Eviction takes unreferenced leaves, least recently used first, O(1); a parent joins when its last child goes. Nothing
// is allocated after create. Engine thread only.
#ifndef QUIRE_ENGINE_PREFIX_TREE_H
#define QUIRE_ENGINE_PREFIX_TREE_H

#include "engine/kv_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_tree;

// A longer namespace key is not cached (prefix_tree_root_hold fails).
enum { PREFIX_KEY_MAX = 512, PREFIX_NONE = -1 };

struct prefix_tree_options {
	int block_tokens; // B ≥ 1
	int n_roots;	  // namespaces with something cached or held at a time, ≥ 1
	int hash_bits;	  // 0: all. Fewer make collisions, for tests
};

// The pool is borrowed and outlives the tree. There is a node for each of its blocks.
struct prefix_tree *prefix_tree_create(const struct prefix_tree_options *o, struct kv_pool *pool);
void prefix_tree_destroy(struct prefix_tree *t);

// The root of a namespace, or PREFIX_NONE. hold also makes it, evicting a few old leaves if all roots are taken; it
// fails (PREFIX_NONE) if that frees none, or if the key is too long. A root lives while it is held or has children.
int32_t prefix_tree_root_find(const struct prefix_tree *t, const void *key, size_t len);
int32_t prefix_tree_root_hold(struct prefix_tree *t, const void *key, size_t len);
void prefix_tree_root_drop(struct prefix_tree *t, int32_t root);

struct prefix_match {
	int32_t node; // deepest full node that matches (or where the search began)
	int n;		  // positions up to its end
	int32_t
		tail; // a child of it whose first n_tail ids (fewer than B, or than it holds) go on matching, or PREFIX_NONE
	int n_tail;
};

// The longest cached head of ids[0 … limit), searched below `from`, a root or full node whose path holds ids[0 … n).
void prefix_tree_match(const struct prefix_tree *t, int32_t from, int n, const int32_t *ids, int limit,
					   struct prefix_match *out);

// The first n ids after `parent` are in *block, on which the caller has a reference and to which it alone writes. n ==
// B: returns the full node that holds them; if there was one already, the caller's reference moves to its block, *block
// says which, and the duplicate is given back. n < B: makes the tail findable if no sibling holds it already; returns
// its node or PREFIX_NONE. If *block is a node (n smaller before), it grows in place.
int32_t prefix_tree_store(struct prefix_tree *t, int32_t parent, const int32_t *ids, int n, int32_t *block);

// References of tables to blocks, whether these are nodes or not. `use` is the time of the last use; it never falls. A
// table is released from its end, so that tails are evicted before heads.
void prefix_tree_acquire(struct prefix_tree *t, int32_t block);
void prefix_tree_release(struct prefix_tree *t, int32_t block, uint64_t use);

// Forgets the least recently used unreferenced leaf; its block is free then. False if there is none.
bool prefix_tree_evict(struct prefix_tree *t);

int32_t prefix_tree_node_of(const struct prefix_tree *t, int32_t block); // or PREFIX_NONE
int32_t prefix_tree_block(const struct prefix_tree *t, int32_t node);
int32_t prefix_tree_parent(const struct prefix_tree *t, int32_t node); // a root has none: PREFIX_NONE
int prefix_tree_n_ids(const struct prefix_tree *t, int32_t node);	   // of the node itself; 0 for a root
const int32_t *prefix_tree_ids(const struct prefix_tree *t, int32_t node);
// Changes when a node or root is recycled: one that is remembered with its generation is still the same if this is.
uint32_t prefix_tree_generation(const struct prefix_tree *t, int32_t node);
uint64_t prefix_tree_n_evictions(const struct prefix_tree *t);
int prefix_tree_n_roots(const struct prefix_tree *t); // in use

// Aborts unless children imply parents, the orders and lists agree, and every node's block is kept. O(blocks).
void prefix_tree_check(const struct prefix_tree *t);

#endif
