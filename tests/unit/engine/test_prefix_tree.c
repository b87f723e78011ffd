// SPDX-License-Identifier: Apache-2.0
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/prefix_tree.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

enum { B = 4 };

struct fixture {
	struct kv_pool *pool;
	struct prefix_tree *tree;
	int32_t root;
	uint64_t use;
};

static struct fixture make(int n_blocks, int n_roots, int hash_bits)
{
	struct fixture f = {.use = 1};
	struct prefix_tree_options o = {.block_tokens = B, .n_roots = n_roots, .hash_bits = hash_bits};
	ck_assert_int_eq(kv_pool_create(n_blocks, &f.pool, NULL, 0), 0);
	f.tree = prefix_tree_create(&o, f.pool);
	f.root = prefix_tree_root_hold(f.tree, "t", 1);
	return f;
}

static void done(struct fixture *f)
{
	prefix_tree_check(f->tree);
	prefix_tree_root_drop(f->tree, f->root);
	while (prefix_tree_evict(f->tree))
		;
	ck_assert_int_eq(prefix_tree_n_roots(f->tree), 0);
	ck_assert_int_eq(kv_pool_n_free(f->pool), kv_pool_n_blocks(f->pool));
	prefix_tree_check(f->tree);
	prefix_tree_destroy(f->tree);
	kv_pool_destroy(f->pool);
}

// Stores a whole prompt as a sequence would and releases it. Returns its last node.
static int32_t put(struct fixture *f, int32_t root, const int32_t *ids, int n)
{
	int32_t blocks[64], node = root, last = root;
	int k = 0;
	for (int at = 0; at < n; at += B, k++) {
		int m = n - at < B ? n - at : B;
		blocks[k] = kv_pool_alloc(f->pool, KV_NO_BLOCK);
		ck_assert_int_ge(blocks[k], 0);
		last = prefix_tree_store(f->tree, node, ids + at, m, &blocks[k]);
		node = m == B ? last : node;
	}
	f->use++;
	while (k > 0)
		prefix_tree_release(f->tree, blocks[--k], f->use);
	prefix_tree_check(f->tree);
	return last;
}

static int found(const struct fixture *f, int32_t root, const int32_t *ids, int n)
{
	struct prefix_match m;
	prefix_tree_match(f->tree, root, 0, ids, n, &m);
	return m.n + m.n_tail;
}

#define IDS(...) ((const int32_t[]){__VA_ARGS__})

START_TEST(finds_by_token_not_by_block)
{
	struct fixture f = make(32, 4, 0);
	put(&f, f.root, IDS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 10);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 10), 10);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 9), 9);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 4, 5, 6, 0, 8, 9, 10), 10), 6);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 0), 4), 3);
	ck_assert_int_eq(found(&f, f.root, IDS(2, 2, 3, 4), 4), 0);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 4), 0), 0);
	done(&f);
}
END_TEST

START_TEST(the_child_with_the_longest_head_is_found_among_many)
{
	struct fixture f = make(2000, 4, 0);
	for (int i = 0; i < 1500; i++)
		put(&f, f.root, IDS(i % 11, i % 13, i % 17, i), 4);
	for (int i = 0; i < 1500; i += 7) {
		ck_assert_int_eq(found(&f, f.root, IDS(i % 11, i % 13, i % 17, 5000), 4), 3);
		ck_assert_int_eq(found(&f, f.root, IDS(i % 11, i % 13, 900, i), 4), 2);
		ck_assert_int_eq(found(&f, f.root, IDS(i % 11, -1, 900, i), 4), 1);
	}
	done(&f);
}
END_TEST

START_TEST(a_block_stored_twice_is_merged)
{
	struct fixture f = make(8, 4, 0);
	int32_t a = kv_pool_alloc(f.pool, KV_NO_BLOCK), b = kv_pool_alloc(f.pool, a), first = a;
	int32_t node = prefix_tree_store(f.tree, f.root, IDS(1, 2, 3, 4), B, &a);
	ck_assert_int_eq(prefix_tree_store(f.tree, f.root, IDS(1, 2), 2, &b), PREFIX_NONE); // held already
	ck_assert_int_eq(prefix_tree_store(f.tree, f.root, IDS(1, 2, 3, 4), B, &b), node);
	ck_assert_int_eq(b, first);
	ck_assert_int_eq(kv_pool_refs(f.pool, first), 2);
	ck_assert_int_eq(kv_pool_n_free(f.pool), 7);
	prefix_tree_release(f.tree, a, 2);
	prefix_tree_release(f.tree, b, 2);
	done(&f);
}
END_TEST

START_TEST(a_tail_grows_in_place_and_yields_to_its_longer_twin)
{
	struct fixture f = make(8, 4, 0);
	int32_t a = kv_pool_alloc(f.pool, KV_NO_BLOCK), b = kv_pool_alloc(f.pool, a);
	int32_t node = prefix_tree_store(f.tree, f.root, IDS(7), 1, &a);
	ck_assert_int_eq(prefix_tree_store(f.tree, f.root, IDS(7, 9), 2, &b) != node, 1);
	prefix_tree_check(f.tree);
	ck_assert_int_eq(prefix_tree_store(f.tree, f.root, IDS(7, 8), 2, &a), node);
	ck_assert_int_eq(found(&f, f.root, IDS(7, 8, 1), 3), 2);
	// The first becomes what the second holds: one is enough, its writer keeps the block for itself.
	ck_assert_int_ne(prefix_tree_store(f.tree, f.root, IDS(7, 9, 3), 3, &b), PREFIX_NONE);
	int32_t c = kv_pool_alloc(f.pool, b);
	ck_assert_int_eq(prefix_tree_store(f.tree, f.root, IDS(7, 9), 2, &c), PREFIX_NONE);
	ck_assert_int_eq(prefix_tree_node_of(f.tree, c), PREFIX_NONE);
	prefix_tree_release(f.tree, c, 3);
	prefix_tree_release(f.tree, b, 3);
	prefix_tree_release(f.tree, a, 3);
	ck_assert_int_eq(kv_pool_n_cached(f.pool), 2);
	done(&f);
}
END_TEST

START_TEST(the_head_of_a_longer_leaf_is_let_go)
{
	struct fixture f = make(8, 4, 0);
	put(&f, f.root, IDS(1, 2), 2);
	put(&f, f.root, IDS(1, 2, 3), 3);
	ck_assert_int_eq(kv_pool_n_cached(f.pool), 1);
	put(&f, f.root, IDS(1, 2), 2); // adds nothing
	ck_assert_int_eq(kv_pool_n_cached(f.pool), 1);
	done(&f);
}
END_TEST

// F3: namespaces are compared whole; no two share anything.
START_TEST(namespaces_never_meet)
{
	struct fixture f = make(16, 4, 0);
	int32_t a = prefix_tree_root_hold(f.tree,
									  "org_1\0"
									  "2345",
									  10),
			b = prefix_tree_root_hold(f.tree, "org_12345\0", 10);
	ck_assert_int_ne(a, b);
	put(&f, a, IDS(1, 2, 3, 4, 5), 5);
	ck_assert_int_eq(found(&f, b, IDS(1, 2, 3, 4, 5), 5), 0);
	ck_assert_int_eq(found(&f, f.root, IDS(1, 2, 3, 4, 5), 5), 0);
	ck_assert_int_eq(found(&f, a, IDS(1, 2, 3, 4, 5), 5), 5);
	ck_assert_int_eq(prefix_tree_root_find(f.tree, "org_1", 5), PREFIX_NONE);
	prefix_tree_root_drop(f.tree, b);
	ck_assert_int_eq(prefix_tree_root_find(f.tree, "org_12345\0", 10), PREFIX_NONE); // empty: recycled
	prefix_tree_root_drop(f.tree, a);
	ck_assert_int_eq(prefix_tree_root_find(f.tree,
										   "org_1\0"
										   "2345",
										   10),
					 a); // lives while something is cached
	done(&f);
}
END_TEST

START_TEST(a_flood_of_namespaces_recycles_old_ones)
{
	struct fixture f = make(64, 8, 0);
	for (int i = 0; i < 500; i++) {
		int32_t r = prefix_tree_root_hold(f.tree, &i, sizeof i);
		ck_assert_int_ne(r, PREFIX_NONE);
		put(&f, r, IDS(i, 1, 2), 3);
		prefix_tree_root_drop(f.tree, r);
		ck_assert_int_le(prefix_tree_n_roots(f.tree), 8);
	}
	int last = 499;
	ck_assert_int_ne(prefix_tree_root_find(f.tree, &last, sizeof last), PREFIX_NONE);
	char *longer = mem_zalloc(PREFIX_KEY_MAX + 1, 1);
	ck_assert_int_eq(prefix_tree_root_hold(f.tree, longer, PREFIX_KEY_MAX + 1), PREFIX_NONE);
	ck_assert_int_ne(prefix_tree_root_hold(f.tree, longer, PREFIX_KEY_MAX), PREFIX_NONE);
	prefix_tree_root_drop(f.tree, prefix_tree_root_find(f.tree, longer, PREFIX_KEY_MAX));
	free(longer);
	done(&f);
}
END_TEST

START_TEST(evicts_the_least_recently_used_tail_first)
{
	struct fixture f = make(16, 4, 0);
	put(&f, f.root, IDS(1, 1, 1, 1, 2, 2, 2, 2, 3), 9);
	put(&f, f.root, IDS(5, 5, 5, 5, 6), 5);
	for (int left = 8; left >= 0; left -= 4) {
		ck_assert(prefix_tree_evict(f.tree));
		ck_assert_int_eq(found(&f, f.root, IDS(1, 1, 1, 1, 2, 2, 2, 2, 3), 9), left);
		ck_assert_int_eq(found(&f, f.root, IDS(5, 5, 5, 5, 6), 5), 5);
		prefix_tree_check(f.tree);
	}
	ck_assert(prefix_tree_evict(f.tree));
	ck_assert_int_eq(found(&f, f.root, IDS(5, 5, 5, 5, 6), 5), 4);
	done(&f);
}
END_TEST

START_TEST(what_is_referenced_is_never_evicted)
{
	struct fixture f = make(16, 4, 0);
	int32_t node = put(&f, f.root, IDS(1, 2, 3, 4), 4), block = prefix_tree_block(f.tree, node);
	uint32_t generation = prefix_tree_generation(f.tree, node);
	prefix_tree_acquire(f.tree, block);
	ck_assert(!prefix_tree_evict(f.tree));
	prefix_tree_release(f.tree, block, 9);
	ck_assert(prefix_tree_evict(f.tree));
	ck_assert_uint_ne(prefix_tree_generation(f.tree, node), generation);
	ck_assert_uint_eq(prefix_tree_n_evictions(f.tree), 1);
	done(&f);
}
END_TEST

// F1, F2: with all hashes in one or a few buckets, what is found is the same.
START_TEST(collisions_never_give_a_wrong_hit)
{
	for (int bits = 0; bits <= 8; bits += 4) {
		struct fixture f = make(4096, 4, bits ? bits : 1);
		for (int i = 0; i < 500; i++)
			put(&f, f.root, IDS(i, 1, 2, 3, i / 2, 5, 6, 7), 8);
		for (int i = 0; i < 500; i++) {
			ck_assert_int_eq(found(&f, f.root, IDS(i, 1, 2, 3, i / 2, 5, 6, 7), 8), 8);
			ck_assert_int_eq(found(&f, f.root, IDS(i, 1, 2, 3, i / 2 + 1, 5, 6, 7), 8), 4);
		}
		done(&f);
	}
}
END_TEST

START_TEST(a_long_prompt_is_matched_quickly)
{
	enum { N = 100000 };
	struct fixture f = make(N / B, 4, 0);
	int32_t *ids = mem_alloc(N * sizeof *ids), node = f.root;
	for (int i = 0; i < N; i++)
		ids[i] = i * 7;
	for (int at = 0; at < N; at += B) {
		int32_t block = kv_pool_alloc(f.pool, KV_NO_BLOCK);
		node = prefix_tree_store(f.tree, node, ids + at, B, &block);
	}
	uint64_t from = clock_now_ns();
	ck_assert_int_eq(found(&f, f.root, ids, N), N);
	ck_assert_uint_lt(clock_now_ns() - from,
					  100000000); // 10 ms is the aim, for blocks four times as long, on a quiet machine
	for (int32_t b = N / B - 1; b >= 0; b--)
		prefix_tree_release(f.tree, b, 1);
	free(ids);
	done(&f);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("prefix_tree");
	TCase *c = tcase_create("all");
	tcase_set_timeout(c, 20);
	tcase_add_test(c, finds_by_token_not_by_block);
	tcase_add_test(c, the_child_with_the_longest_head_is_found_among_many);
	tcase_add_test(c, a_block_stored_twice_is_merged);
	tcase_add_test(c, a_tail_grows_in_place_and_yields_to_its_longer_twin);
	tcase_add_test(c, the_head_of_a_longer_leaf_is_let_go);
	tcase_add_test(c, namespaces_never_meet);
	tcase_add_test(c, a_flood_of_namespaces_recycles_old_ones);
	tcase_add_test(c, evicts_the_least_recently_used_tail_first);
	tcase_add_test(c, what_is_referenced_is_never_evicted);
	tcase_add_test(c, collisions_never_give_a_wrong_hit);
	tcase_add_test(c, a_long_prompt_is_matched_quickly);
	suite_add_tcase(s, c);
	return s;
}
