// SPDX-License-Identifier: Apache-2.0
//
// The detokenizer against the reference's cases, token by token; then promises that hold for any ids.
#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer_internal.h"
#include "tests/unit/test.h"
#include "tests/unit/text/text_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tokenizer *stories;

static void setup(void)
{
	stories = golden_tokenizer("tests/golden/stories260K/stories260K-f16.gguf");
}

static void teardown(void)
{
	tokenizer_destroy(stories);
}

// A vocabulary of just these pieces; the last two are control tokens, "<|end|>" and "<|x|>".
static struct tokenizer *tokenizer_of(const char *const *pieces, const size_t *lens, size_t n, bool strips)
{
	struct tokenizer *t = mem_zalloc(1, sizeof *t);
	tokenizer__set_size(t, n + 2);
	for (size_t i = 0; i < n; i++)
		tokenizer__set_token(t, i, pieces[i], lens[i], TOKEN_USER_DEFINED, 0);
	tokenizer__set_token(t, n, "<|end|>", 7, TOKEN_CONTROL, 0);
	tokenizer__set_token(t, n + 1, "<|x|>", 5, TOKEN_CONTROL, 0);
	ck_assert_int_eq(tokenizer__index(t), 0);
	t->add_space_prefix = strips;
	return t;
}

// Pieces of characters "a" … one byte each, and the two control tokens after them.
static struct tokenizer *letters(void)
{
	static char bytes[256];
	const char *pieces[256];
	size_t lens[256];
	for (int i = 0; i < 256; i++) {
		bytes[i] = (char)i;
		pieces[i] = &bytes[i];
		lens[i] = 1;
	}
	return tokenizer_of(pieces, lens, 256, false);
}
enum { END = 256, X = 257 };

static struct detokenizer *with_stops(const struct tokenizer *t, const char *const *stops, size_t n,
									  struct detokenizer_options o)
{
	size_t lens[64];
	for (size_t i = 0; i < n; i++)
		lens[i] = strlen(stops[i]);
	o.stops = stops;
	o.stop_lens = lens;
	o.n_stops = n;
	return detokenizer_create(t, &o);
}

// --- the reference's cases

enum { MOST_PIECES = 128, MOST_STOPS = 16 };

struct stop_case {
	long long number;
	bool loose, strips;
	size_t n_pieces, n_stops;
	char *piece[MOST_PIECES];
	size_t piece_len[MOST_PIECES];
	const char *stop[MOST_STOPS];
};

static void read_case(const json_t *row, struct stop_case *c)
{
	const json_t *pieces = json_object_get(row, "pieces"), *stops = json_object_get(row, "stops");
	*c = (struct stop_case){.number = json_integer_value(json_object_get(row, "i")),
							.loose = json_object_get(row, "loose") != NULL,
							.strips = json_integer_value(json_object_get(row, "strip_left")) != 0,
							.n_pieces = json_array_size(pieces),
							.n_stops = json_array_size(stops)};
	ck_assert(c->n_pieces <= MOST_PIECES && c->n_stops <= MOST_STOPS);
	for (size_t i = 0; i < c->n_stops; i++)
		c->stop[i] = json_string_value(json_array_get(stops, i));
	for (size_t i = 0; i < c->n_pieces; i++) {
		const char *hex = json_string_value(json_array_get(pieces, i));
		c->piece_len[i] = strlen(hex) / 2;
		c->piece[i] = mem_alloc(c->piece_len[i]);
		for (size_t k = 0; k < c->piece_len[i]; k++)
			sscanf(hex + 2 * k, "%2hhx", (unsigned char *)&c->piece[i][k]);
	}
}

static void expect(const struct stop_case *c, size_t at, const char *got, size_t n, const json_t *want)
{
	ck_assert_msg(n == json_string_length(want) && !memcmp(got, json_string_value(want), n),
				  "case %lld, token %zu: \"%.*s\", wanted \"%s\"", c->number, at, (int)n, got, json_string_value(want));
}

static void check_tokens(const struct stop_case *c, const json_t *row)
{
	struct tokenizer *t = tokenizer_of((const char *const *)c->piece, c->piece_len, c->n_pieces, c->strips);
	struct detokenizer *d = with_stops(t, c->stop, c->n_stops, (struct detokenizer_options){0});
	char *out = mem_alloc(detokenizer_max_output(d));
	size_t n, used = 0;
	int stop = -1;
	while (stop < 0 && used < c->n_pieces) {
		stop = detokenizer_push(d, (int32_t)used, out, &n);
		ck_assert_uint_le(n, detokenizer_max_output(d));
		expect(c, used, out, n, json_array_get(json_object_get(row, "emit"), used));
		used++;
	}
	expect(c, used, out, detokenizer_finish(d, out), json_object_get(row, "flush"));
	ck_assert_int_eq(used, json_integer_value(json_object_get(row, "used")));
	const json_t *want = json_object_get(row, "stop");
	ck_assert_int_eq(stop, json_is_null(want) ? -1 : (int)json_integer_value(want));
	detokenizer_destroy(d);
	tokenizer_destroy(t);
	free(out);
}

// The same text a byte at a time: the same stop in the same place, unless the case says that it may be another.
static void check_bytes(const struct stop_case *c, const json_t *row)
{
	struct tokenizer *t = letters();
	struct detokenizer *d = with_stops(t, c->stop, c->n_stops, (struct detokenizer_options){0});
	char *out = mem_alloc(detokenizer_max_output(d));
	struct buf text;
	size_t n;
	int stop = -1;
	buf_init(&text);
	for (size_t i = 0; i < c->n_pieces && stop < 0; i++)
		for (size_t k = i == 0 && c->strips && c->piece[0][0] == ' '; k < c->piece_len[i] && stop < 0; k++) {
			stop = detokenizer_push(d, (uint8_t)c->piece[i][k], out, &n);
			buf_append(&text, out, n);
		}
	buf_append(&text, out, detokenizer_finish(d, out));
	expect(c, 0, text.data, text.len, json_object_get(row, "text"));
	buf_deinit(&text);
	detokenizer_destroy(d);
	tokenizer_destroy(t);
	free(out);
}

START_TEST(stop_cases_of_the_reference)
{
	json_t *rows = golden_lines("stop/cases.jsonl"), *row;
	size_t i;
	ck_assert_uint_eq(json_array_size(rows), 130);
	json_array_foreach(rows, i, row)
	{
		struct stop_case c;
		read_case(row, &c);
		check_tokens(&c, row);
		if (!c.loose)
			check_bytes(&c, row);
		for (size_t k = 0; k < c.n_pieces; k++)
			free(c.piece[k]);
	}
	json_decref(rows);
}
END_TEST

// --- any ids

static uint32_t next(uint32_t *x)
{
	return (*x = *x * 1664525u + 1013904223u) >> 12;
}

// Streams ids; checks each part; returns the stop. Held back is never more than the rules allow.
static int stream(struct detokenizer *d, const int32_t *ids, size_t n_ids, struct buf *text)
{
	char *out = mem_alloc(detokenizer_max_output(d));
	size_t n;
	int stop = -1;
	for (size_t i = 0; i < n_ids && stop < 0; i++) {
		stop = detokenizer_push(d, ids[i], out, &n);
		ck_assert(utf8_valid(out, n)); // whole characters in every part
		buf_append(text, out, n);
	}
	n = detokenizer_finish(d, out);
	ck_assert(utf8_valid(out, n));
	buf_append(text, out, n);
	ck_assert_uint_eq(detokenizer_held(d), 0);
	ck_assert_uint_eq(detokenizer_finish(d, out), 0);
	free(out);
	return stop;
}

START_TEST(any_ids_give_the_text_of_the_whole)
{
	static const char *const never[] = {"zqzq!", "\xF0\x9F\x98\x80\x21"};
	uint32_t x = 7;
	for (int round = 0; round < 4000; round++) {
		struct detokenizer *d = with_stops(stories, never, 2, (struct detokenizer_options){.keep_special = round & 2});
		struct buf whole, text;
		int32_t ids[24];
		buf_init(&whole);
		buf_init(&text);
		for (int i = 0; i < 24; i++)
			ids[i] = (int32_t)(round & 1 ? 3 + next(&x) % 256 : next(&x) % 512);
		ck_assert_int_eq(stream(d, ids, 24, &text), -1);
		tokenizer_decode(stories, ids, 24, !(round & 2), &whole);
		ck_assert_msg(text.len == whole.len && (!text.len || !memcmp(text.data, whole.data, text.len)),
					  "\"%s\" and \"%s\"", text.data, whole.data);
		buf_deinit(&whole);
		buf_deinit(&text);
		detokenizer_destroy(d);
	}
}
END_TEST

// What the rules say, done the slow way: the stop in the first prefix of the text that holds one.
static int slow_stop(const char *s, size_t n, const char *const *stops, size_t n_stops, size_t *at)
{
	for (size_t end = 1; end <= n; end++)
		for (size_t from = 0; from < end; from++) {
			int best = -1;
			for (size_t i = 0; i < n_stops; i++)
				if (strlen(stops[i]) <= end - from && !memcmp(s + from, stops[i], strlen(stops[i])) &&
					(best < 0 || strlen(stops[i]) > strlen(stops[best])))
					best = (int)i;
			*at = from;
			if (best >= 0)
				return best;
		}
	return -1;
}

static size_t slow_hold(const char *s, size_t n, const char *const *stops, size_t n_stops)
{
	for (size_t k = n; k > 0; k--)
		for (size_t i = 0; i < n_stops; i++)
			if (strlen(stops[i]) > k && !memcmp(stops[i], s + n - k, k))
				return k;
	return 0;
}

START_TEST(stops_in_random_text_are_found_as_by_hand)
{
	struct tokenizer *t = letters();
	uint32_t x = 99;
	for (int round = 0; round < 20000; round++) {
		char text[24], stop[3][6], out[2048];
		const char *stops[3] = {stop[0], stop[1], stop[2]};
		size_t n = 1 + next(&x) % 23, given = 0, at = 0;
		for (size_t i = 0; i < n; i++)
			text[i] = (char)('a' + next(&x) % 2);
		for (int i = 0; i < 3; i++) {
			size_t len = 1 + next(&x) % 5;
			for (size_t k = 0; k < len; k++)
				stop[i][k] = (char)('a' + next(&x) % 2);
			stop[i][len] = 0;
		}
		struct detokenizer *d = with_stops(t, stops, 3, (struct detokenizer_options){0});
		int got = -1, want = slow_stop(text, n, stops, 3, &at);
		for (size_t i = 0, k; i < n && got < 0; i++) {
			got = detokenizer_push(d, text[i], out + given, &k);
			given += k;
			if (got < 0)
				ck_assert_uint_eq(detokenizer_held(d), slow_hold(text, i + 1, stops, 3));
		}
		given += detokenizer_finish(d, out + given);
		ck_assert_int_eq(got < 0, want < 0);
		if (want >= 0)
			ck_assert_str_eq(stops[got], stops[want]);
		ck_assert_uint_eq(given, want < 0 ? n : at);
		ck_assert(!memcmp(out, text, given));
		detokenizer_destroy(d);
	}
	tokenizer_destroy(t);
}
END_TEST

// --- single promises

static int push_text(struct detokenizer *d, const char *s, struct buf *out)
{
	char room[8192];
	size_t n;
	int stop = -1;
	for (; *s && stop < 0; s++) {
		stop = detokenizer_push(d, (uint8_t)*s, room, &n);
		buf_append(out, room, n);
	}
	return stop;
}

START_TEST(only_what_may_become_a_stop_is_held)
{
	static const char *const stops[] = {"abcd", "\n\n\n\n\n\n\n\n"};
	struct tokenizer *t = letters();
	struct detokenizer *d = with_stops(t, stops, 2, (struct detokenizer_options){0});
	struct buf out;
	buf_init(&out);
	ck_assert_int_eq(push_text(d, "Hello", &out), -1); // a long stop string delays nothing that is not its beginning
	ck_assert_str_eq(out.data, "Hello");
	ck_assert_int_eq(push_text(d, "abc", &out), -1);
	ck_assert_str_eq(out.data, "Hello");
	ck_assert_uint_eq(detokenizer_held(d), 3);
	ck_assert_int_eq(push_text(d, "a", &out), -1); // "abca": the first three are certain now
	ck_assert_str_eq(out.data, "Helloabc");
	ck_assert_int_eq(push_text(d, "bcdX", &out), 0);
	ck_assert_str_eq(out.data, "Helloabc");
	ck_assert_uint_eq(detokenizer_held(d), 0);
	buf_deinit(&out);
	detokenizer_destroy(d);
	tokenizer_destroy(t);
}
END_TEST

START_TEST(a_control_token_is_a_stop_by_its_spelling)
{
	static const char *const stops[] = {"never", "<|end|>"};
	for (int include = 0; include < 2; include++) {
		struct tokenizer *t = letters();
		struct detokenizer *d = with_stops(t, stops, 2, (struct detokenizer_options){.include_stop = include});
		char room[4096];
		size_t n;
		struct buf out;
		buf_init(&out);
		push_text(d, "ok nev\xE2\x82", &out); // held: the beginning of a stop, and of a character
		ck_assert_str_eq(out.data, "ok ");
		ck_assert_int_eq(detokenizer_push(d, X, room, &n), -1); // another control token writes nothing
		ck_assert_uint_eq(n, 0);
		ck_assert_int_eq(detokenizer_push(d, END, room, &n), 1);
		buf_append(&out, room, n);
		ck_assert_str_eq(out.data, include ? "ok nev\xEF\xBF\xBD<|end|>" : "ok nev\xEF\xBF\xBD");
		ck_assert_uint_eq(detokenizer_finish(d, room), 0);
		buf_deinit(&out);
		detokenizer_destroy(d);
		tokenizer_destroy(t);
	}
}
END_TEST

START_TEST(special_tokens_are_written_on_request)
{
	struct tokenizer *t = letters();
	struct detokenizer *d = with_stops(t, NULL, 0, (struct detokenizer_options){.keep_special = true});
	int32_t ids[] = {'a', X, 'b'};
	struct buf text;
	buf_init(&text);
	ck_assert_int_eq(stream(d, ids, 3, &text), -1);
	ck_assert_str_eq(text.data, "a<|x|>b");
	buf_deinit(&text);
	detokenizer_destroy(d);
	tokenizer_destroy(t);
}
END_TEST

// "▁" in front of a text is dropped once, and not where the text goes on from a prompt.
START_TEST(one_leading_space_is_dropped_once)
{
	static const char *const pieces[] = {" ", " leading", " x"};
	static const size_t lens[] = {1, 8, 2};
	static const int32_t ids[] = {0, 1, 2};
	for (int continues = 0; continues < 2; continues++) {
		struct tokenizer *t = tokenizer_of(pieces, lens, 3, true);
		struct detokenizer *d = with_stops(t, NULL, 0, (struct detokenizer_options){.continues = continues});
		struct buf text;
		buf_init(&text);
		stream(d, ids, 3, &text);
		ck_assert_str_eq(text.data, continues ? "  leading x" : " leading x");
		buf_deinit(&text);
		detokenizer_destroy(d);
		tokenizer_destroy(t);
	}
}
END_TEST

START_TEST(an_unfinished_character_becomes_one_mark)
{
	static const struct {
		const char *bytes, *text;
	} cases[] = {
		{"\xF0\x9F\x98", "\xEF\xBF\xBD"},
		{"a\xE2\x82", "a\xEF\xBF\xBD"},
		{"\xC4\x8F", "\xC4\x8F"},
		{"\xE2\x82\x41", "\xEF\xBF\xBD\x41"},
		{"\xF0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
		{"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct tokenizer *t = letters();
		struct detokenizer *d = with_stops(t, NULL, 0, (struct detokenizer_options){0});
		char room[4096];
		struct buf text;
		buf_init(&text);
		push_text(d, cases[i].bytes, &text);
		buf_append(&text, room, detokenizer_finish(d, room));
		ck_assert_str_eq(text.data, cases[i].text);
		buf_deinit(&text);
		detokenizer_destroy(d);
		tokenizer_destroy(t);
	}
}
END_TEST

// A stop string of a megabyte against a text that almost is one costs a look at each byte.
START_TEST(long_stops_cost_nothing)
{
	enum { N = 1 << 20 };
	struct tokenizer *t = letters();
	char *stop = mem_alloc(N + 1), *out;
	size_t n, len = N;
	memset(stop, 'a', N);
	stop[N - 1] = 'b';
	struct detokenizer_options o = {.stops = (const char *const[]){stop}, .stop_lens = &len, .n_stops = 1};
	struct detokenizer *d = detokenizer_create(t, &o);
	out = mem_alloc(detokenizer_max_output(d));
	double from = cpu_seconds();
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < N / 8; i++) {
			ck_assert_int_eq(detokenizer_push(d, 'a', out, &n), -1);
			if (n)
				ck_abort_msg("%zu bytes too early", n);
		}
		ck_assert_int_eq(detokenizer_push(d, 'c', out, &n), -1);
		ck_assert_uint_eq(n, N / 8 + 1);
	}
	ck_assert_msg(cpu_seconds() - from < 10 * TIME_LIMIT, "%g s", cpu_seconds() - from);
	detokenizer_destroy(d);
	tokenizer_destroy(t);
	free(stop);
	free(out);
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
	tcase_add_test(t, stops_in_random_text_are_found_as_by_hand);
	tcase_add_test(t, only_what_may_become_a_stop_is_held);
	tcase_add_test(t, a_control_token_is_a_stop_by_its_spelling);
	tcase_add_test(t, special_tokens_are_written_on_request);
	tcase_add_test(t, one_leading_space_is_dropped_once);
	tcase_add_test(t, an_unfinished_character_becomes_one_mark);
	tcase_add_test(t, long_stops_cost_nothing);
	suite_add_tcase(s, t);
	return s;
}
