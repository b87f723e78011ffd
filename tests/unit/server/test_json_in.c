// SPDX-License-Identifier: Apache-2.0
#include "server/json_in.h"

#include "engine/base/buf.h"
#include "tests/unit/test.h"

#include <string.h>

static json_t *parse(const char *s, struct api_error *e)
{
	*e = (struct api_error){0};
	return json_in_parse(s, strlen(s), 4, 10, e);
}

START_TEST(test_accepts)
{
	struct api_error e;
	json_t *v = parse("{\"a\":1,\"b\":{\"c\":[[2]]},\"a\":3}", &e);
	ck_assert_ptr_nonnull(v);
	ck_assert_int_eq(json_integer_value(json_object_get(v, "a")), 3); // the last of equal keys
	json_decref(v);
}
END_TEST

START_TEST(test_refuses)
{
	static const char *const BAD[] = {
		"",
		"{",
		"{]",
		"{\"a\":01}",
		"{\"a\":NaN}",
		"{\"a\":1e400}",
		"{\"a\":\"\xFF\"}",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":\"\\u0000\"}",
		"{} x",
		"[[[[[1]]]]]",
		"[1,2,3,4,5,6,7,8,9,10,11,12]",
		"\"\\",
		"{\"a\":1,}",
	};
	for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
		struct api_error e;
		ck_assert_msg(parse(BAD[i], &e) == NULL, "%s", BAD[i]);
		ck_assert_int_eq(e.status, 400);
		ck_assert_msg(!strchr(e.message, '\xFF'), "input in the message: %s", e.message);
	}
}
END_TEST

START_TEST(test_brackets_in_strings_do_not_count)
{
	struct api_error e;
	json_t *v = parse("{\"a\":\"[[[[[[,,,,,,,,,,,,,\\\"{{{\"}", &e);
	ck_assert_ptr_nonnull(v);
	json_decref(v);
}
END_TEST

START_TEST(test_very_deep)
{
	struct buf b = {0};
	struct api_error e = {0};
	for (int i = 0; i < 1000000; i++)
		buf_putc(&b, '[');
	ck_assert_ptr_null(json_in_parse(b.data, b.len, 64, 1 << 20, &e));
	ck_assert_ptr_nonnull(strstr(e.message, "64"));
	buf_deinit(&b);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("json_in");
	TCase *t = tcase_create("json_in");
	tcase_add_test(t, test_accepts);
	tcase_add_test(t, test_refuses);
	tcase_add_test(t, test_brackets_in_strings_do_not_count);
	tcase_add_test(t, test_very_deep);
	suite_add_tcase(s, t);
	return s;
}
