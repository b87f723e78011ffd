// SPDX-License-Identifier: Apache-2.0
//
// A node's children in the order of their ids: a treap whose links and random weights lie in the nodes themselves, so
// it needs no memory and no input can unbalance it. All loops, no recursion.
#include "engine/base/err.h"
#include "engine/prefix_tree_internal.h"

int prefix__common(const int32_t *a, const int32_t *b, int n)
{
	int i = 0;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

// Lexicographic; a head comes before what it is the head of.
static int compare(const int32_t *a, int n_a, const int32_t *b, int n_b)
{
	int n = n_a < n_b ? n_a : n_b, i = prefix__common(a, b, n);
	if (i < n)
		return a[i] < b[i] ? -1 : 1;
	return n_a - n_b;
}

static bool precedes(const struct prefix_tree *t, int32_t a, int32_t b)
{
	int order = compare(prefix__ids(t, a), t->nodes[a].n_ids, prefix__ids(t, b), t->nodes[b].n_ids);
	CHECK(order, "nodes %d and %d hold the same ids", a, b);
	return order < 0;
}

void prefix__order_insert(struct prefix_tree *t, int32_t parent, int32_t node)
{
	struct node *x = &t->nodes[node];
	int32_t *at = &t->nodes[parent].first;
	while (*at != PREFIX_NONE && t->nodes[*at].weight >= x->weight)
		at = precedes(t, node, *at) ? &t->nodes[*at].left : &t->nodes[*at].right;
	// What was here is split into what precedes the new node and what follows it.
	int32_t rest = *at, *left = &x->left, *right = &x->right;
	*at = node;
	while (rest != PREFIX_NONE) {
		if (precedes(t, node, rest)) {
			*right = rest;
			right = &t->nodes[rest].left;
			rest = *right;
		} else {
			*left = rest;
			left = &t->nodes[rest].right;
			rest = *left;
		}
	}
	*left = *right = PREFIX_NONE;
	t->nodes[parent].n_children++;
}

void prefix__order_remove(struct prefix_tree *t, int32_t parent, int32_t node)
{
	int32_t *at = &t->nodes[parent].first;
	while (*at != node) {
		CHECK(*at != PREFIX_NONE, "node %d is not below %d", node, parent);
		at = precedes(t, node, *at) ? &t->nodes[*at].left : &t->nodes[*at].right;
	}
	int32_t left = t->nodes[node].left, right = t->nodes[node].right;
	while (left != PREFIX_NONE && right != PREFIX_NONE) {
		if (t->nodes[left].weight > t->nodes[right].weight) {
			*at = left;
			at = &t->nodes[left].right;
			left = *at;
		} else {
			*at = right;
			at = &t->nodes[right].left;
			right = *at;
		}
	}
	*at = left != PREFIX_NONE ? left : right;
	t->nodes[parent].n_children--;
}

void prefix__order_find(const struct prefix_tree *t, int32_t parent, const int32_t *ids, int n, int32_t *before,
						int32_t *after)
{
	*before = *after = PREFIX_NONE;
	int32_t at = t->nodes[parent].first;
	while (at != PREFIX_NONE) {
		bool follows = compare(prefix__ids(t, at), t->nodes[at].n_ids, ids, n) > 0;
		*(follows ? after : before) = at;
		at = follows ? t->nodes[at].left : t->nodes[at].right;
	}
}
