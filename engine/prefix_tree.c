// SPDX-License-Identifier: Apache-2.0
#include "engine/prefix_tree.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/prefix_tree_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

// Most leaves evicted to free a root for a new namespace: the step stays short, and a flood of namespaces, which is
// what takes all roots, has mostly one leaf in each.
enum { ROOT_EVICTIONS = 64 };

static uint32_t mask_for(int n)
{
	uint32_t m = 1;
	while (m < (uint32_t)n)
		m = m << 1 | 1;
	return m;
}

static int32_t *filled(size_t n)
{
	int32_t *a = mem_zalloc(n, sizeof *a);
	memset(a, 0xff, n * sizeof *a); // PREFIX_NONE
	return a;
}

struct prefix_tree *prefix_tree_create(const struct prefix_tree_options *o, struct kv_pool *pool)
{
	CHECK(o->block_tokens >= 1 && o->n_roots >= 1 && o->hash_bits >= 0 && o->hash_bits < 32, "B %d, roots %d, bits %d",
		  o->block_tokens, o->n_roots, o->hash_bits);
	struct prefix_tree *t = mem_zalloc(1, sizeof *t);
	t->pool = pool;
	t->block_tokens = o->block_tokens;
	t->n_nodes = kv_pool_n_blocks(pool);
	t->n_roots = o->n_roots;
	// A secret seed, so that nobody can send prompts whose hashes all collide. What is found does not depend on it.
	if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != (ssize_t)sizeof t->seed)
		t->seed = (uint64_t)(uintptr_t)t;
	t->random = t->seed | 1;
	t->hash_mask = o->hash_bits ? (1u << o->hash_bits) - 1 : mask_for(t->n_nodes);
	t->root_mask = mask_for(t->n_roots);
	t->nodes = mem_zalloc((size_t)t->n_nodes + (size_t)t->n_roots, sizeof *t->nodes);
	t->ids = mem_zalloc((size_t)t->n_nodes * (size_t)t->block_tokens, sizeof *t->ids);
	t->node_of = filled((size_t)t->n_nodes);
	t->buckets = filled((size_t)t->hash_mask + 1);
	t->roots = mem_zalloc((size_t)t->n_roots, sizeof *t->roots);
	t->root_buckets = filled((size_t)t->root_mask + 1);
	t->free_node = t->free_root = PREFIX_NONE;
	list_init(&t->lru);
	return t;
}

void prefix_tree_destroy(struct prefix_tree *t)
{
	if (!t)
		return;
	free(t->root_buckets);
	free(t->roots);
	free(t->buckets);
	free(t->node_of);
	free(t->ids);
	free(t->nodes);
	free(t);
}

static uint32_t next_random(struct prefix_tree *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (uint32_t)(t->random >> 32);
}

// --- full nodes by hash

uint32_t prefix__bucket(const struct prefix_tree *t, int32_t parent, const int32_t *ids)
{
	uint64_t seed = t->seed + (uint64_t)(uint32_t)parent * 0x9e3779b97f4a7c15u;
	return (uint32_t)hash_bytes(seed, ids, (size_t)t->block_tokens * sizeof *ids) & t->hash_mask;
}

static int32_t find_full(const struct prefix_tree *t, int32_t parent, const int32_t *ids)
{
	size_t bytes = (size_t)t->block_tokens * sizeof *ids;
	int32_t at = t->buckets[prefix__bucket(t, parent, ids)];
	while (at != PREFIX_NONE && (t->nodes[at].parent != parent || memcmp(prefix__ids(t, at), ids, bytes) != 0))
		at = t->nodes[at].hash_next;
	return at;
}

static void hash_insert(struct prefix_tree *t, int32_t node)
{
	struct node *x = &t->nodes[node];
	x->bucket = prefix__bucket(t, x->parent, prefix__ids(t, node));
	x->hash_next = t->buckets[x->bucket];
	t->buckets[x->bucket] = node;
}

static void hash_remove(struct prefix_tree *t, int32_t node)
{
	int32_t *at = &t->buckets[t->nodes[node].bucket];
	while (*at != node)
		at = &t->nodes[*at].hash_next;
	*at = t->nodes[node].hash_next;
}

// --- roots

static uint32_t root_bucket(const struct prefix_tree *t, const void *key, size_t len)
{
	return (uint32_t)hash_bytes(t->seed, key, len) & t->root_mask;
}

int32_t prefix_tree_root_find(const struct prefix_tree *t, const void *key, size_t len)
{
	if (len > PREFIX_KEY_MAX)
		return PREFIX_NONE;
	int32_t r = t->root_buckets[root_bucket(t, key, len)];
	while (r != PREFIX_NONE && (t->roots[r].len != len || (len && memcmp(t->roots[r].key, key, len) != 0)))
		r = t->roots[r].hash_next;
	return r == PREFIX_NONE ? r : t->n_nodes + r;
}

// Gives a root that nobody holds and that has no children back.
static void recycle_root_if_empty(struct prefix_tree *t, int32_t id)
{
	int32_t r = id - t->n_nodes;
	struct root *root = &t->roots[r];
	if (root->holds || t->nodes[id].n_children)
		return;
	int32_t *at = &t->root_buckets[root->bucket];
	while (*at != r)
		at = &t->roots[*at].hash_next;
	*at = root->hash_next;
	root->hash_next = t->free_root;
	root->live = false;
	t->free_root = r;
	t->nodes[id].generation++;
	t->n_live_roots--;
}

static int32_t take_root(struct prefix_tree *t)
{
	for (int i = 0; i < ROOT_EVICTIONS && t->n_live_roots == t->n_roots; i++)
		if (!prefix_tree_evict(t))
			break;
	if (t->n_live_roots == t->n_roots)
		return PREFIX_NONE;
	int32_t r = t->free_root;
	if (r != PREFIX_NONE)
		t->free_root = t->roots[r].hash_next;
	else
		r = t->n_touched_roots++;
	t->n_live_roots++;
	return r;
}

int32_t prefix_tree_root_hold(struct prefix_tree *t, const void *key, size_t len)
{
	int32_t id = prefix_tree_root_find(t, key, len);
	if (id == PREFIX_NONE) {
		int32_t r = len <= PREFIX_KEY_MAX ? take_root(t) : PREFIX_NONE;
		if (r == PREFIX_NONE)
			return r;
		struct root *root = &t->roots[r];
		root->holds = 0;
		root->live = true;
		root->len = len;
		if (len)
			memcpy(root->key, key, len);
		root->bucket = root_bucket(t, key, len);
		root->hash_next = t->root_buckets[root->bucket];
		t->root_buckets[root->bucket] = r;
		id = t->n_nodes + r;
		struct node *x = &t->nodes[id];
		x->parent = x->block = x->first = PREFIX_NONE;
		x->n_ids = x->n_children = 0;
	}
	t->roots[id - t->n_nodes].holds++;
	return id;
}

void prefix_tree_root_drop(struct prefix_tree *t, int32_t root)
{
	CHECK(t->roots[root - t->n_nodes].holds > 0, "root %d", root);
	t->roots[root - t->n_nodes].holds--;
	recycle_root_if_empty(t, root);
}

// --- nodes

static bool is_idle(const struct prefix_tree *t, int32_t node)
{
	return kv_pool_refs(t->pool, t->nodes[node].block) == 0;
}

static int32_t insert(struct prefix_tree *t, int32_t parent, const int32_t *ids, int n, int32_t block)
{
	int32_t node = t->free_node;
	if (node != PREFIX_NONE)
		t->free_node = t->nodes[node].left;
	else
		node = t->n_touched_nodes++; // a node holds a block of its own, so there is one
	struct node *x = &t->nodes[node];
	list_init(&x->lru);
	x->parent = parent;
	x->block = block;
	x->n_ids = n;
	x->n_children = 0;
	x->first = PREFIX_NONE;
	x->weight = next_random(t);
	memcpy(prefix__ids(t, node), ids, (size_t)n * sizeof *ids);
	t->node_of[block] = node;
	kv_pool_keep(t->pool, block);
	prefix__order_insert(t, parent, node);
	if (n == t->block_tokens)
		hash_insert(t, node);
	return node;
}

// Forgets a leaf. Its parent may become a leaf that nobody refers to: then it is the next to go, unless it was used
// later than its child (its head was copied), which makes it as good as new.
static void forget(struct prefix_tree *t, int32_t node)
{
	struct node *x = &t->nodes[node];
	int32_t parent = x->parent;
	CHECK(x->n_children == 0, "node %d", node);
	prefix__order_remove(t, parent, node);
	if (x->n_ids == t->block_tokens)
		hash_remove(t, node);
	list_remove(&x->lru);
	t->node_of[x->block] = PREFIX_NONE;
	kv_pool_drop(t->pool, x->block);
	x->generation++;
	x->parent = PREFIX_NONE;
	x->left = t->free_node;
	t->free_node = node;
	if (prefix__is_root(t, parent)) {
		recycle_root_if_empty(t, parent);
	} else if (t->nodes[parent].n_children == 0 && is_idle(t, parent)) {
		bool later = t->nodes[parent].last_use > x->last_use;
		(later ? list_push_back : list_push_front)(&t->lru, &t->nodes[parent].lru);
	}
}

// The sibling before a node, if that is a head of it which nobody needs: the node holds all of it.
static void forget_head_of(struct prefix_tree *t, int32_t node)
{
	struct node *x = &t->nodes[node];
	if (t->nodes[x->parent].n_children == 1)
		return;
	int32_t before, after;
	prefix__order_find(t, x->parent, prefix__ids(t, node), x->n_ids - 1, &before, &after);
	if (before == PREFIX_NONE || t->nodes[before].n_ids >= x->n_ids || !is_idle(t, before))
		return;
	int n = t->nodes[before].n_ids;
	if (prefix__common(prefix__ids(t, before), prefix__ids(t, node), n) == n)
		forget(t, before);
}

// Is ids[0 … n) the head of a child? It is one that follows it then.
static bool is_held(const struct prefix_tree *t, int32_t parent, const int32_t *ids, int n)
{
	int32_t near[2];
	prefix__order_find(t, parent, ids, n, &near[0], &near[1]);
	for (int i = 0; i < 2; i++)
		if (near[i] != PREFIX_NONE && t->nodes[near[i]].n_ids >= n &&
			prefix__common(prefix__ids(t, near[i]), ids, n) == n)
			return true;
	return false;
}

// A partial node gets more ids; it stays in its place among its siblings or moves. False: a sibling holds them already,
// and the node is gone.
static bool grow(struct prefix_tree *t, int32_t node, const int32_t *ids, int n)
{
	struct node *x = &t->nodes[node];
	int32_t parent = x->parent;
	bool alone = t->nodes[parent].n_children == 1;
	if (!alone) {
		prefix__order_remove(t, parent, node);
		if (is_held(t, parent, ids, n)) {
			prefix__order_insert(t, parent, node);
			forget(t, node);
			return false;
		}
	}
	memcpy(prefix__ids(t, node) + x->n_ids, ids + x->n_ids, (size_t)(n - x->n_ids) * sizeof *ids);
	x->n_ids = n;
	if (!alone)
		prefix__order_insert(t, parent, node);
	if (n == t->block_tokens)
		hash_insert(t, node);
	return true;
}

int32_t prefix_tree_store(struct prefix_tree *t, int32_t parent, const int32_t *ids, int n, int32_t *block)
{
	CHECK(n >= 1 && n <= t->block_tokens, "n %d", n);
	int32_t own = t->node_of[*block];
	if (n == t->block_tokens) {
		int32_t twin = find_full(t, parent, ids);
		if (twin != PREFIX_NONE && twin != own) {
			int32_t duplicate = *block;
			if (own != PREFIX_NONE)
				forget(t, own);
			*block = t->nodes[twin].block;
			prefix_tree_acquire(t, *block);
			kv_pool_unref(t->pool, duplicate);
			return twin;
		}
	}
	if (own != PREFIX_NONE) {
		CHECK(t->nodes[own].parent == parent, "block %d", *block);
		if (t->nodes[own].n_ids < n && !grow(t, own, ids, n))
			return PREFIX_NONE;
	} else {
		if (n < t->block_tokens && t->nodes[parent].n_children && is_held(t, parent, ids, n))
			return PREFIX_NONE;
		own = insert(t, parent, ids, n, *block);
	}
	forget_head_of(t, own);
	return own;
}

void prefix_tree_match(const struct prefix_tree *t, int32_t from, int n, const int32_t *ids, int limit,
					   struct prefix_match *out)
{
	const int B = t->block_tokens;
	*out = (struct prefix_match){.node = from, .n = n, .tail = PREFIX_NONE};
	while (limit - out->n >= B) {
		int32_t child = find_full(t, out->node, ids + out->n);
		if (child == PREFIX_NONE)
			break;
		out->node = child;
		out->n += B;
	}
	int rest = limit - out->n < B ? limit - out->n : B;
	if (rest <= 0 || !t->nodes[out->node].n_children)
		return;
	int32_t near[2];
	prefix__order_find(t, out->node, ids + out->n, rest, &near[0], &near[1]);
	for (int i = 0; i < 2; i++) {
		if (near[i] == PREFIX_NONE)
			continue;
		int n_ids = t->nodes[near[i]].n_ids, most = n_ids < rest ? n_ids : rest;
		int common = prefix__common(prefix__ids(t, near[i]), ids + out->n, most);
		if (common > out->n_tail) {
			out->tail = near[i];
			out->n_tail = common;
		}
	}
}

// --- references and eviction

void prefix_tree_acquire(struct prefix_tree *t, int32_t block)
{
	int32_t node = t->node_of[block];
	kv_pool_ref(t->pool, block);
	if (node != PREFIX_NONE)
		list_remove(&t->nodes[node].lru);
}

// A partial leaf that a sibling holds wholly is of no use any more.
static bool is_redundant(const struct prefix_tree *t, int32_t node)
{
	const struct node *x = &t->nodes[node];
	if (x->n_ids == t->block_tokens || t->nodes[x->parent].n_children == 1)
		return false;
	int32_t before, after;
	prefix__order_find(t, x->parent, prefix__ids(t, node), x->n_ids, &before, &after);
	return after != PREFIX_NONE && t->nodes[after].n_ids >= x->n_ids &&
		   prefix__common(prefix__ids(t, after), prefix__ids(t, node), x->n_ids) == x->n_ids;
}

void prefix_tree_release(struct prefix_tree *t, int32_t block, uint64_t use)
{
	int32_t node = t->node_of[block];
	kv_pool_unref(t->pool, block);
	if (node == PREFIX_NONE)
		return;
	struct node *x = &t->nodes[node];
	x->last_use = use;
	if (x->n_children || !is_idle(t, node))
		return;
	if (is_redundant(t, node)) {
		forget(t, node);
		return;
	}
	list_remove(&x->lru);
	list_push_back(&t->lru, &x->lru);
}

bool prefix_tree_evict(struct prefix_tree *t)
{
	if (list_empty(&t->lru))
		return false;
	forget(t, (int32_t)(LIST_ENTRY(t->lru.next, struct node, lru) - t->nodes));
	t->n_evictions++;
	return true;
}

// --- facts

int32_t prefix_tree_node_of(const struct prefix_tree *t, int32_t block)
{
	return t->node_of[block];
}

int32_t prefix_tree_block(const struct prefix_tree *t, int32_t node)
{
	return t->nodes[node].block;
}

int32_t prefix_tree_parent(const struct prefix_tree *t, int32_t node)
{
	return t->nodes[node].parent;
}

int prefix_tree_n_ids(const struct prefix_tree *t, int32_t node)
{
	return t->nodes[node].n_ids;
}

const int32_t *prefix_tree_ids(const struct prefix_tree *t, int32_t node)
{
	return prefix__ids(t, node);
}

uint32_t prefix_tree_generation(const struct prefix_tree *t, int32_t node)
{
	return t->nodes[node].generation;
}

uint64_t prefix_tree_n_evictions(const struct prefix_tree *t)
{
	return t->n_evictions;
}

int prefix_tree_n_roots(const struct prefix_tree *t)
{
	return t->n_live_roots;
}
