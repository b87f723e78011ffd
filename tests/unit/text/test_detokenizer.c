// SPDX-License-Identifier: Apache-2.0
#include "engine/base/buf.h"
#include "engine/base/utf8.h"
#include "engine/model/gguf.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tokenizer *stories;

static void setup(void)
{
	char err[256];
	struct gguf *g;
	ck_assert_msg(!gguf_open("tests/golden/stories260K/stories260K-f16.gguf", &g, err, sizeof err), "%s", err);
	ck_assert_msg(!tokenizer_from_gguf(g, &stories, err, sizeof err), "%s", err);
	gguf_close(g);
}

static void teardown(void)
{
	tokenizer_destroy(stories);
}

// The bytes of a hex string as one token of the stories vocabulary each: every byte has its token there (ids 3 … 258).
static size_t push_bytes(struct detokenizer *d, const char *hex, char *out, int *stop)
{
	size_t total = 0;
	*stop = -1;
	for (size_t i = 0; hex[i] && *stop < 0; i += 2) {
		unsigned byte;
		size_t n;
		ck_assert_int_eq(sscanf(hex + i, "%2x", &byte), 1);
		*stop = detokenizer_push(d, (int32_t)byte + 3, out + total, &n);
		total += n;
	}
	return total;
}

// Reading byte by byte may emit earlier than the reference does after a whole token, but never other text; a case marked loose
// may pick another stop.
static void check_case(const json_t *c)
{
	const json_t *stops = json_object_get(c, "stops"), *pieces = json_object_get(c, "pieces");
	const char *s[64];
	size_t len[64], n = json_array_size(stops);
	if (json_object_get(c, "loose"))
		return;
	for (size_t i = 0; i < n; i++) {
		s[i] = json_string_value(json_array_get(stops, i));
		len[i] = json_string_length(json_array_get(stops, i));
	}
	struct detokenizer_options o = {.stops = s, .stop_lens = len, .n_stops = n, .continues = !json_integer_value(json_object_get(c, "strip_left"))};
	struct detokenizer *d = detokenizer_create(stories, &o);
	char *out = malloc(1 << 16);
	size_t total = 0;
	int stop = -1;
	for (size_t i = 0; i < json_array_size(pieces) && stop < 0; i++)
		total += push_bytes(d, json_string_value(json_array_get(pieces, i)), out + total, &stop);
	if (stop < 0)
		total += detokenizer_finish(d, out + total);
	const json_t *want = json_object_get(c, "text"), *want_stop = json_object_get(c, "stop");
	ck_assert_msg(total == json_string_length(want) && !memcmp(out, json_string_value(want), total), "case %lld: \"%.*s\", wanted \"%s\"",
	              json_integer_value(json_object_get(c, "i")), (int)total, out, json_string_value(want));
	ck_assert_int_eq(stop, json_is_null(want_stop) ? -1 : (int)json_integer_value(want_stop));
	detokenizer_destroy(d);
	free(out);
}

START_TEST(stop_cases_of_the_reference)
{
	FILE *f = fopen("tests/golden/text/stop/cases.jsonl", "r");
	char *line = NULL;
	size_t cap = 0;
	int seen = 0;
	ck_assert_ptr_nonnull(f);
	while (getline(&line, &cap, f) > 0) {
		json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
		check_case(c);
		json_decref(c);
		seen++;
	}
	ck_assert_int_eq(seen, 130);
	free(line);
	fclose(f);
}
END_TEST

START_TEST(any_ids_give_the_text_of_the_whole)
{
	unsigned x = 7;
	for (int round = 0; round < 2000; round++) {
		const char *stops[] = {"zqzq!", "\xF0\x9F\x98\x80\x21"};
		size_t lens[] = {5, 5}, total = 0, n;
		struct detokenizer_options o = {.stops = stops, .stop_lens = lens, .n_stops = 2};
		struct detokenizer *d = detokenizer_create(stories, &o);
		int32_t ids[24];
		char out[4096];
		struct buf whole;
		buf_init(&whole);
		for (int i = 0; i < 24; i++) {
			x = x * 1103515245 + 12345;
			ids[i] = (int32_t)(round & 1 ? 3 + (x >> 16) % 256 : (x >> 16) % 512);
			ck_assert_int_eq(detokenizer_push(d, ids[i], out + total, &n), -1);
			ck_assert(utf8_valid(out + total, n)); // whole characters in every piece
			total += n;
		}
		total += detokenizer_finish(d, out + total);
		tokenizer_decode(stories, ids, 24, true, &whole);
		ck_assert_msg(total == whole.len && !memcmp(out, whole.data, total), "\"%.*s\" and \"%s\"", (int)total, out, whole.data);
		buf_deinit(&whole);
		detokenizer_destroy(d);
	}
}
END_TEST

START_TEST(only_what_may_become_a_stop_is_held)
{
	const char *stops[] = {"abcd"};
	size_t lens[] = {4}, n;
	struct detokenizer_options o = {.stops = stops, .stop_lens = lens, .n_stops = 1, .continues = true};
	struct detokenizer *d = detokenizer_create(stories, &o);
	char out[256];
	detokenizer_push(d, 3 + 'x', out, &n);
	ck_assert_uint_eq(n, 1);
	for (const char *s = "abc"; *s; s++) {
		ck_assert_int_eq(detokenizer_push(d, 3 + *s, out, &n), -1);
		ck_assert_uint_eq(n, 0);
	}
	ck_assert_uint_eq(detokenizer_held(d), 3);
	ck_assert_int_eq(detokenizer_push(d, 3 + 'a', out, &n), -1); // "abca": the first three are certain now
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(detokenizer_finish(d, out), 1);
	detokenizer_destroy(d);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("detokenizer");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, stop_cases_of_the_reference);
	tcase_add_test(t, any_ids_give_the_text_of_the_whole);
	tcase_add_test(t, only_what_may_become_a_stop_is_held);
	suite_add_tcase(s, t);
	return s;
}
