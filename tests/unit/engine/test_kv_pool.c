// SPDX-License-Identifier: Apache-2.0
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/kv_pool.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

static struct kv_pool *make(int n)
{
	struct kv_pool *p;
	ck_assert_int_eq(kv_pool_create(n, &p, NULL, 0), 0);
	return p;
}

START_TEST(refuses_sizes_that_cannot_work)
{
	struct kv_pool *p;
	char err[128];
	ck_assert_int_eq(kv_pool_create(0, &p, err, sizeof err), ERR_INVALID);
	ck_assert_ptr_nonnull(strstr(err, "n_blocks is 0"));
	ck_assert_int_eq(kv_pool_create(-5, &p, NULL, 0), ERR_INVALID);
	kv_pool_destroy(NULL);
}
END_TEST

START_TEST(gives_neighbours_in_ascending_order)
{
	struct kv_pool *p = make(10);
	ck_assert_int_eq(kv_pool_alloc(p, KV_NO_BLOCK), 0);
	ck_assert_int_eq(kv_pool_alloc(p, 0), 1);
	ck_assert_int_eq(kv_pool_alloc(p, 6), 7);
	ck_assert_int_eq(kv_pool_alloc(p, 6), 8);
	ck_assert_int_eq(kv_pool_alloc(p, 8), 9);
	ck_assert_int_eq(kv_pool_alloc(p, 9), 2); // from the start again
	kv_pool_unref(p, 1);
	ck_assert_int_eq(kv_pool_alloc(p, 0), 1);
	kv_pool_check(p, NULL);
	kv_pool_destroy(p);
}
END_TEST

START_TEST(a_block_is_free_cached_or_in_use)
{
	struct kv_pool *p = make(3);
	int32_t b = kv_pool_alloc(p, KV_NO_BLOCK);
	kv_pool_ref(p, b);
	kv_pool_keep(p, b);
	kv_pool_unref(p, b);
	ck_assert_int_eq(kv_pool_n_used(p), 1);
	kv_pool_unref(p, b);
	ck_assert_int_eq(kv_pool_n_cached(p), 1);
	ck_assert_int_eq(kv_pool_n_used(p), 0);
	kv_pool_ref(p, b);
	ck_assert_int_eq(kv_pool_n_cached(p), 0);
	kv_pool_drop(p, b); // let go while in use: free only after the last reference
	ck_assert_int_eq(kv_pool_n_free(p), 2);
	kv_pool_unref(p, b);
	ck_assert_int_eq(kv_pool_n_free(p), 3);
	kv_pool_check(p, (const int32_t[]){0, 0, 0});
	kv_pool_destroy(p);
}
END_TEST

// Every size around the words of the bit tree: each block comes once, then none.
START_TEST(every_block_is_found)
{
	static const int sizes[] = {1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 5000, 262144, 262145};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct kv_pool *p = make(sizes[i]);
		for (int b = 0; b < sizes[i]; b++)
			ck_assert_int_eq(kv_pool_alloc(p, b - 1), b);
		ck_assert_int_eq(kv_pool_alloc(p, KV_NO_BLOCK), KV_NO_BLOCK);
		ck_assert_int_eq(kv_pool_alloc(p, sizes[i] - 1), KV_NO_BLOCK);
		kv_pool_unref(p, sizes[i] - 1);
		if (sizes[i] > 1)
			kv_pool_unref(p, 0);
		ck_assert_int_eq(kv_pool_alloc(p, sizes[i] / 2 - 1), sizes[i] - 1);
		kv_pool_check(p, NULL);
		kv_pool_destroy(p);
	}
}
END_TEST

// Against the naive search, in pools of a size where all levels matter.
START_TEST(finds_the_first_free_after_any_block)
{
	enum { N = 9000 };
	struct kv_pool *p = make(N);
	bool *used = mem_zalloc(N, sizeof *used);
	uint32_t random = 7;
	for (int i = 0; i < 60000; i++) {
		random = random * 1664525 + 1013904223;
		int at = (int)(random >> 8) % N;
		if (used[at] && i % 5 < 2) {
			kv_pool_unref(p, at);
			used[at] = false;
			continue;
		}
		int want = at;
		for (int k = 0; k < N && used[want]; k++)
			want = (want + 1) % N;
		want = used[want] ? KV_NO_BLOCK : want;
		ck_assert_int_eq(kv_pool_alloc(p, at - 1), want);
		if (want >= 0)
			used[want] = true;
	}
	kv_pool_check(p, NULL);
	free(used);
	kv_pool_destroy(p);
}
END_TEST

START_TEST(a_free_block_cannot_be_referenced)
{
	struct kv_pool *p = make(2);
	kv_pool_ref(p, 1); // aborts
}
END_TEST

START_TEST(check_sees_a_wrong_count)
{
	struct kv_pool *p = make(2);
	kv_pool_alloc(p, KV_NO_BLOCK);
	kv_pool_check(p, (const int32_t[]){2, 0}); // aborts
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("kv_pool");
	TCase *c = tcase_create("all");
	tcase_add_test(c, refuses_sizes_that_cannot_work);
	tcase_add_test(c, gives_neighbours_in_ascending_order);
	tcase_add_test(c, a_block_is_free_cached_or_in_use);
	tcase_add_test(c, every_block_is_found);
	tcase_add_test(c, finds_the_first_free_after_any_block);
	tcase_add_test_raise_signal(c, a_free_block_cannot_be_referenced, 6);
	tcase_add_test_raise_signal(c, check_sees_a_wrong_count, 6);
	suite_add_tcase(s, c);
	return s;
}
