// SPDX-License-Identifier: Apache-2.0
#include "server/json_out.h"

#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *as_string(const char *s, size_t n)
{
	struct buf b = {0};
	struct json_out o;
	json_out_init(&o, &b);
	json_out_string(&o, s, n);
	return buf_take(&b);
}

START_TEST(test_structure)
{
	struct buf b = {0};
	struct json_out o;
	json_out_init(&o, &b);
	json_out_begin(&o, '{');
	json_out_member_int(&o, "a", -5);
	json_out_key(&o, "b");
	json_out_begin(&o, '[');
	json_out_end(&o, ']');
	json_out_key(&o, "c");
	json_out_begin(&o, '[');
	json_out_bool(&o, true);
	json_out_null(&o);
	json_out_begin(&o, '{');
	json_out_end(&o, '}');
	json_out_raw(&o, "1,2", 3);
	json_out_raw(&o, "", 0);
	json_out_end(&o, ']');
	json_out_member_str(&o, "d", "x");
	json_out_end(&o, '}');
	ck_assert_str_eq(b.data, "{\"a\":-5,\"b\":[],\"c\":[true,null,{},1,2],\"d\":\"x\"}");
	buf_deinit(&b);
}
END_TEST

START_TEST(test_escapes)
{
	char *s = as_string("a\"\\\b\f\n\r\t\x01\x1f\x7f/é🌶", strlen("a\"\\\b\f\n\r\t\x01\x1f\x7f/é🌶"));
	ck_assert_str_eq(s, "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f/é🌶\"");
	free(s);
	s = as_string("a\0b", 3);
	ck_assert_str_eq(s, "\"a\\u0000b\"");
	free(s);
	s = as_string(NULL, 0);
	ck_assert_str_eq(s, "\"\"");
	free(s);
}
END_TEST

START_TEST(test_bad_utf8_is_replaced)
{
	const struct {
		const char *in, *out;
	} cases[] = {
		{"\xFF", "\"\uFFFD\""},
		{"a\xC4", "\"a\uFFFD\""},
		{"\xC4\x8F", "\"ď\""},
		{"\xE5\xAE", "\"\uFFFD\""},
		{"\xED\xA0\x80", "\"\uFFFD\uFFFD\uFFFD\""},
		{"\xC0\x80z", "\"\uFFFD\uFFFDz\""},
		{"\xF0\x9F\x8C"
		 "b",
		 "\"\uFFFDb\""},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *s = as_string(cases[i].in, strlen(cases[i].in));
		ck_assert_str_eq(s, cases[i].out);
		free(s);
	}
}
END_TEST

// Any bytes at all become a string that a strict reader takes.
START_TEST(test_any_bytes_read_back)
{
	char in[64];
	srand(7);
	for (int round = 0; round < 5000; round++) {
		size_t n = (size_t)rand() % sizeof in;
		for (size_t i = 0; i < n; i++)
			in[i] = (char)(rand() % 3 ? rand() : 0x80 + rand() % 0x80);
		char *s = as_string(in, n);
		json_t *v = json_loads(s, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		ck_assert_msg(v != NULL, "%s", s);
		json_decref(v);
		free(s);
	}
}
END_TEST

static void check_float(float v, const char *text)
{
	struct buf b = {0};
	struct json_out o;
	json_out_init(&o, &b);
	json_out_float(&o, v);
	ck_assert_str_eq(b.data, text);
	buf_deinit(&b);
}

START_TEST(test_floats)
{
	check_float(-0.25f, "-0.25");
	check_float(0.1f, "0.1");
	check_float(-1.0f / 3, "-0.33333334");
	check_float(-17.0f, "-17.0");
	check_float(0.0f, "0.0");
	check_float(-INFINITY, "-9999.0");
	check_float(NAN, "null");
	check_float(1e-30f, "1e-30");
	srand(3);
	for (int i = 0; i < 20000; i++) {
		float v = -(float)rand() / (float)(1 + rand() % 100000);
		struct buf b = {0};
		struct json_out o;
		json_out_init(&o, &b);
		json_out_float(&o, v);
		ck_assert(strtof(b.data, NULL) == v);
		buf_deinit(&b);
	}
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("json_out");
	TCase *t = tcase_create("json_out");
	tcase_add_test(t, test_structure);
	tcase_add_test(t, test_escapes);
	tcase_add_test(t, test_bad_utf8_is_replaced);
	tcase_add_test(t, test_any_bytes_read_back);
	tcase_add_test(t, test_floats);
	suite_add_tcase(s, t);
	return s;
}
