// SPDX-License-Identifier: Apache-2.0
//
// The invariants of the prefix tree, checked from scratch. Uses no memory of its own: what each part says about a node
// is compared with what the others say, and the totals must agree.
#include "engine/base/err.h"
#include "engine/prefix_tree_internal.h"

// Follows the order from the children's first to last: each must come before the next. Returns how many there are.
static int count_children(const struct prefix_tree *t, int32_t parent)
{
	int n = 0;
	int32_t before, at = PREFIX_NONE;
	prefix__order_find(t, parent, NULL, 0, &before, &at); // nothing precedes the empty head
	CHECK(before == PREFIX_NONE, "below %d", parent);
	while (at != PREFIX_NONE) {
		const struct node *x = &t->nodes[at];
		int32_t self, next;
		CHECK(x->parent == parent, "node %d is below %d and %d", at, parent, x->parent);
		prefix__order_find(t, parent, prefix__ids(t, at), x->n_ids, &self, &next);
		CHECK(self == at, "node %d is not found where it should be, but %d", at, self);
		n++;
		at = next;
	}
	return n;
}

static void check_node(const struct prefix_tree *t, int32_t node)
{
	const struct node *x = &t->nodes[node], *parent = &t->nodes[x->parent];
	int refs = kv_pool_refs(t->pool, x->block);
	CHECK(t->node_of[x->block] == node, "node %d, block %d", node, x->block);
	CHECK(kv_pool_is_kept(t->pool, x->block), "block %d", x->block);
	CHECK(x->n_ids >= 1 && x->n_ids <= t->block_tokens, "node %d holds %d ids", node, x->n_ids);
	CHECK(!x->n_children || x->n_ids == t->block_tokens, "partial node %d has children", node);
	CHECK(list_empty(&x->lru) == (refs > 0 || x->n_children > 0), "node %d: %d references, %d children", node, refs,
		  x->n_children);
	if (prefix__is_root(t, x->parent)) {
		CHECK(t->roots[x->parent - t->n_nodes].live, "node %d has a dead root %d", node, x->parent);
	} else {
		CHECK(parent->parent != PREFIX_NONE, "node %d has no parent", node);
		CHECK(!refs || kv_pool_refs(t->pool, parent->block) > 0, "node %d is referenced, its parent is not", node);
	}
	if (x->n_ids < t->block_tokens) {
		int32_t self, next;
		prefix__order_find(t, x->parent, prefix__ids(t, node), x->n_ids, &self, &next);
		CHECK(refs || next == PREFIX_NONE ||
				  prefix__common(prefix__ids(t, node), prefix__ids(t, next), x->n_ids) < x->n_ids,
			  "node %d is the head of %d", node, next);
		return;
	}
	int32_t at = t->buckets[prefix__bucket(t, x->parent, prefix__ids(t, node))];
	while (at != PREFIX_NONE && at != node)
		at = t->nodes[at].hash_next;
	CHECK(at == node, "full node %d cannot be found", node);
}

static int count_hashed(const struct prefix_tree *t)
{
	int n = 0;
	for (uint32_t b = 0; b <= t->hash_mask; b++)
		for (int32_t at = t->buckets[b]; at != PREFIX_NONE; at = t->nodes[at].hash_next)
			n++;
	return n;
}

static int count_lru(const struct prefix_tree *t)
{
	int n = 0;
	LIST_FOREACH(it, &t->lru)
	n++;
	return n;
}

void prefix_tree_check(const struct prefix_tree *t)
{
	int n_nodes = 0, n_full = 0, n_leaves = 0, n_children = 0, n_roots = 0, n_mapped = 0;
	for (int32_t i = 0; i < t->n_touched_nodes; i++) {
		const struct node *x = &t->nodes[i];
		if (x->parent == PREFIX_NONE)
			continue;
		check_node(t, i);
		n_nodes++;
		n_full += x->n_ids == t->block_tokens;
		n_leaves += !list_empty(&x->lru);
		CHECK(count_children(t, i) == x->n_children, "node %d has %d children", i, x->n_children);
		n_children += x->n_children;
	}
	for (int32_t r = 0; r < t->n_touched_roots; r++) {
		if (!t->roots[r].live)
			continue;
		const struct node *x = &t->nodes[t->n_nodes + r];
		n_roots++;
		CHECK(t->roots[r].holds || x->n_children, "root %d is empty", r);
		CHECK(count_children(t, t->n_nodes + r) == x->n_children, "root %d has %d children", r, x->n_children);
		n_children += x->n_children;
	}
	for (int32_t b = 0; b < t->n_nodes; b++) {
		n_mapped += t->node_of[b] != PREFIX_NONE;
		CHECK(kv_pool_is_kept(t->pool, b) == (t->node_of[b] != PREFIX_NONE), "block %d", b);
	}
	CHECK(n_nodes == n_children && n_nodes == n_mapped, "%d nodes, %d children, %d mapped", n_nodes, n_children,
		  n_mapped);
	CHECK(n_full == count_hashed(t), "%d full nodes, %d hashed", n_full, count_hashed(t));
	CHECK(n_leaves == count_lru(t), "%d unreferenced leaves, %d listed", n_leaves, count_lru(t));
	CHECK(n_roots == t->n_live_roots, "%d roots, %d counted", n_roots, t->n_live_roots);
}
