// SPDX-License-Identifier: Apache-2.0
#include "engine/batch.h"
#include "tests/unit/test.h"

START_TEST(a_plan_becomes_ragged_arrays)
{
	int32_t tokens_a[] = {10, 11, 12, 13}, tokens_b[] = {20, 21, 22, 23, 24, 25}, table_a[] = {3}, table_b[] = {5, 1};
	struct sequence a = {.tokens = tokens_a, .blocks = table_a}, b = {.tokens = tokens_b, .blocks = table_b};
	struct plan_item items[] = {{.seq = &a, .start = 3, .n = 1, .n_out = 1, .samples = true},
								{.seq = &b, .start = 1, .n = 4, .n_out = 2}};
	struct plan p = {.n_items = 2, .items = items, .n_tokens = 5, .n_out = 3};
	struct batch *batch = batch_create(8, 4, 4);
	const struct batch_view *v = batch_build(batch, &p);
	static const int32_t ids[] = {13, 21, 22, 23, 24}, pos[] = {3, 1, 2, 3, 4}, starts[] = {0, 1, 5},
						 rows[] = {0, 3, 4};
	ck_assert_int_eq(v->n_tokens, 5);
	ck_assert_int_eq(v->n_seqs, 2);
	ck_assert_int_eq(v->n_out, 3);
	ck_assert_mem_eq(v->ids, ids, sizeof ids);
	ck_assert_mem_eq(v->pos, pos, sizeof pos);
	ck_assert_mem_eq(v->seq_start, starts, sizeof starts);
	ck_assert_mem_eq(v->out_rows, rows, sizeof rows);
	ck_assert_int_eq(v->kv_len[0], 4);
	ck_assert_int_eq(v->kv_len[1], 5);
	ck_assert_ptr_eq(v->blocks[0], table_a);
	ck_assert_ptr_eq(v->blocks[1], table_b);
	batch_destroy(batch);
	batch_destroy(NULL);
}
END_TEST

START_TEST(a_plan_over_its_size_is_a_fault)
{
	struct plan p = {.n_tokens = 9};
	batch_build(batch_create(8, 4, 4), &p); // aborts
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("batch");
	TCase *c = tcase_create("all");
	tcase_add_test(c, a_plan_becomes_ragged_arrays);
	tcase_add_test_raise_signal(c, a_plan_over_its_size_is_a_fault, 6);
	suite_add_tcase(s, c);
	return s;
}
