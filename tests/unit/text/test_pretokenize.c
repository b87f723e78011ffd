// SPDX-License-Identifier: Apache-2.0
//
// Every name of a pre-tokenizer cuts 570 strings where the reference engine, given the published patterns, cuts them.
// The golden file holds a checksum of the cuts of each string; see tests/golden/ORIGINS.md.
#include "engine/base/mem.h"
#include "engine/text/pretokenize.h"
#include "tests/unit/test.h"
#include "tests/unit/text/text_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *texts, *rows;

static void setup(void)
{
	json_t *corpus = golden_lines("tok/corpus.jsonl");
	size_t i;
	json_t *row;
	rows = golden_lines("pretokenize.jsonl");
	texts = json_array();
	json_array_foreach(corpus, i, row) json_array_append(texts, json_object_get(row, "text"));
	json_array_extend(texts, json_object_get(json_array_get(rows, 0), "extra"));
	json_decref(corpus);
	json_array_remove(rows, 0);
}

static void teardown(void)
{
	json_decref(texts);
	json_decref(rows);
}

struct cuts {
	const char *text;
	uint32_t crc;
	size_t end, gaps;
};

// CRC-32 as in zlib, over the ends of the pieces as little-endian 32-bit numbers.
static void add_cut(void *ctx, const char *s, size_t n)
{
	struct cuts *c = ctx;
	if (!n || s != c->text + c->end)
		c->gaps++;
	c->end += n;
	for (int i = 0; i < 4; i++) {
		c->crc ^= (uint32_t)(c->end >> 8 * i) & 0xFF;
		for (int bit = 0; bit < 8; bit++)
			c->crc = c->crc >> 1 ^ (c->crc & 1 ? 0xEDB88320u : 0);
	}
}

static struct cuts split(const struct pretokenizer *p, const char *s, size_t n)
{
	struct cuts c = {s, 0xFFFFFFFFu, 0, 0};
	pretokenizer_split(p, s, n, add_cut, &c);
	ck_assert_uint_eq(c.end, n);
	ck_assert_uint_eq(c.gaps, 0);
	c.crc ^= 0xFFFFFFFFu;
	return c;
}

static int check_row(const struct pretokenizer_name *name, const json_t *crcs)
{
	struct pretokenizer *p;
	char err[256];
	int bad = 0;
	ck_assert_msg(!pretokenizer_create(name->steps, &p, err, sizeof err), "%s: %s", name->name, err);
	ck_assert_uint_eq(json_array_size(crcs), json_array_size(texts));
	for (size_t i = 0; i < json_array_size(texts); i++) {
		const json_t *text = json_array_get(texts, i);
		if (strstr(json_string_value(text), "\xF0\x9F\xAA\xBF"))
			continue; // U+1FABF is younger than PCRE2's tables: no symbol yet
		struct cuts c = split(p, json_string_value(text), json_string_length(text));
		if (c.crc != (uint32_t)json_integer_value(json_array_get(crcs, i)) && ++bad <= 8)
			fprintf(stderr, "%s: string %zu is cut elsewhere: \"%.60s\"\n", name->name, i, json_string_value(text));
	}
	pretokenizer_destroy(p);
	return bad;
}

static unsigned flags_of(const json_t *v)
{
	return (json_is_true(json_object_get(v, "ignore_merges")) ? PRE_IGNORE_MERGES : 0u) |
		   (json_is_true(json_object_get(v, "add_bos")) ? PRE_ADD_BOS : 0u) |
		   (json_is_true(json_object_get(v, "characters")) ? PRE_CHARACTERS : 0u) |
		   (json_is_true(json_object_get(v, "escape_whitespaces")) ? PRE_ESCAPE_SPACES : 0u);
}

START_TEST(every_name_cuts_as_the_reference_does)
{
	const unsigned judged = PRE_IGNORE_MERGES | PRE_ADD_BOS | PRE_CHARACTERS | PRE_ESCAPE_SPACES;
	size_t i, known = 0, seen = 0;
	json_t *row, *value;
	const char *name;
	int bad = 0;
	while (pretokenizer_names[known].name)
		known++;
	json_array_foreach(rows, i, row)
	{
		const struct pretokenizer_name *p = NULL, *first = NULL;
		json_object_foreach(json_object_get(row, "names"), name, value)
		{
			p = pretokenizer_find(name, strlen(name));
			ck_assert_msg(p != NULL, "%s is missing", name);
			ck_assert_msg((p->flags & judged) == flags_of(value), "%s: flags %u", name, p->flags);
			if (!first || p->steps != first->steps)
				bad += check_row(p, json_object_get(row, "crc"));
			first = p;
			seen++;
		}
	}
	ck_assert_int_eq(bad, 0);
	ck_assert_uint_eq(seen, known);
}
END_TEST

static void count(void *ctx, const char *s, size_t n)
{
	*(size_t *)ctx += n;
}

// A megabyte of what makes a pattern look ahead, or start again, as often as it can: one run that does not last to the
// end.
static const char *const runs[] = {"a",	 " ", "1", "\n",		   " \n",	   "\xCC\x81", "A",
								   "a ", "!", "'", "\xE4\xBD\xA0", "\xC5\xBF", " \xC2\xA0"};
enum { KINDS = sizeof runs / sizeof runs[0], SIZE = 1 << 20 };

static size_t hostile(char *s, int kind)
{
	size_t unit = strlen(runs[kind]), n = 0;
	for (; n + unit < SIZE; n += unit)
		memcpy(s + n, runs[kind], unit);
	s[n++] = 'x';
	return n;
}

START_TEST(a_megabyte_of_anything_takes_no_time)
{
	char *s = mem_alloc(SIZE), err[256];
	for (const struct pretokenizer_name *name = pretokenizer_names; name->name; name++) {
		struct pretokenizer *p;
		if (name > pretokenizer_names && name[-1].steps == name->steps)
			continue;
		ck_assert(!pretokenizer_create(name->steps, &p, err, sizeof err));
		for (int kind = 0; kind < KINDS; kind++) {
			size_t n = hostile(s, kind);
			double seconds = TIME_LIMIT;
			for (int again = 0; again < 3 && seconds >= TIME_LIMIT; again++) { // the machine may be busy
				size_t sum = 0;
				double from = cpu_seconds();
				pretokenizer_split(p, s, n, count, &sum);
				seconds = cpu_seconds() - from;
				ck_assert_uint_eq(sum, n);
			}
			ck_assert_msg(seconds < TIME_LIMIT, "%s, kind %d: %g s", name->name, kind, seconds);
		}
		pretokenizer_destroy(p);
	}
	free(s);
}
END_TEST

START_TEST(what_is_not_known_is_refused_in_words)
{
	static const struct pretokenizer_step broken[] = {{CUT_AROUND, "a("}, {CUT_AROUND, 0}};
	struct pretokenizer *p;
	char err[4096];
	ck_assert_ptr_null(pretokenizer_find("llama-bp", 8));
	ck_assert_ptr_null(pretokenizer_find("llama-bpe2", 10));
	ck_assert_int_eq(pretokenizer_unknown("a.gguf", "nonsense", 8, err, sizeof err), -5);
	ck_assert_ptr_nonnull(strstr(err, "a.gguf: the pre-tokenizer \"nonsense\" is not known; known: "));
	ck_assert_ptr_nonnull(strstr(err, " llama-bpe "));
	ck_assert_int_eq(pretokenizer_create(broken, &p, err, sizeof err), -1);
	ck_assert_ptr_null(p);
	ck_assert_ptr_nonnull(strstr(err, "pattern 1"));
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("pretokenize");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_name_cuts_as_the_reference_does);
	tcase_add_test(t, a_megabyte_of_anything_takes_no_time);
	tcase_add_test(t, what_is_not_known_is_refused_in_words);
	suite_add_tcase(s, t);
	return s;
}
