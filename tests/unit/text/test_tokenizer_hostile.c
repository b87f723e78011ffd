// SPDX-License-Identifier: Apache-2.0
//
// What no reference answers: text that is meant to be slow, is no UTF-8, or pretends to be a control token.
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer_internal.h"
#include "tests/unit/test.h"
#include "tests/unit/text/text_golden.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB "tests/golden/text/vocab/"

static const char *const files[] = {
	VOCAB "ggml-vocab-llama-spm.gguf.xz",	   VOCAB "qwen3.gguf.xz",	VOCAB "ggml-vocab-gpt-2.gguf.xz",
	VOCAB "ggml-vocab-deepseek-coder.gguf.xz", VOCAB "smollm2.gguf.xz",
};
enum { N_FILES = sizeof files / sizeof files[0], LLAMA = 0, MEGABYTE = 1 << 20 };

static struct token_vec encode(const struct tokenizer *t, const char *s, size_t n, const uint8_t *taint)
{
	struct token_vec v = {0};
	ck_assert_int_eq(tokenizer_encode(t, s, n, taint, TOKENIZE_PARSE_SPECIAL, &v), 0);
	return v;
}

static void check_comes_back(const struct tokenizer *t, const struct token_vec *v, const char *s, size_t n)
{
	struct buf back;
	buf_init(&back);
	tokenizer_decode(t, v->ids, v->n, false, &back);
	ck_assert_uint_eq(back.len, n);
	ck_assert(!n || !memcmp(back.data, s, n));
	buf_deinit(&back);
}

// Encodes within the limit of time; repeats where the machine may have been busy.
static struct token_vec encode_in_time(const struct tokenizer *t, const char *s, size_t n, const char *what)
{
	struct token_vec v = {0};
	double seconds = TIME_LIMIT;
	for (int again = 0; again < 3 && seconds >= TIME_LIMIT; again++) {
		token_vec_deinit(&v);
		double from = cpu_seconds();
		v = encode(t, s, n, NULL);
		seconds = cpu_seconds() - from;
	}
	ck_assert_msg(seconds < TIME_LIMIT, "%s of %zu bytes took %g s", what, n, seconds);
	return v;
}

static size_t repeat(char *s, size_t size, const char *unit)
{
	size_t n = 0, k = strlen(unit);
	for (; n + k <= size; n += k)
		memcpy(s + n, unit, k);
	return n;
}

START_TEST(a_megabyte_of_the_same_takes_no_time_and_comes_back)
{
	static const char *const units[] = {"a",
										" ",
										"\n",
										"1",
										"ab",
										"<",
										"<|",
										"the ",
										"\xC3\xBC",
										"\xE4\xBD\xA0",
										"\xE2\x96\x81",
										"\xCC\x95",
										"\xCC\x95\xCC\x96",
										" \n\t",
										"A1!a ",
										"<s> ",
										"<|im_start|>"};
	struct tokenizer *t = golden_tokenizer(files[_i]);
	char *s = mem_alloc(MEGABYTE);
	for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
		size_t n = repeat(s, MEGABYTE, units[u]);
		struct token_vec v = encode_in_time(t, s, n, units[u]);
		// A "▁" comes back as a space, marks come back in their canonical order, and "<s>" takes the dummy space of
		// what follows.
		if ((units[u][0] & 0xF0) != 0xE0 && (uint8_t)units[u][0] != 0xCC && units[u][1] != 's')
			check_comes_back(t, &v, s, n);
		token_vec_deinit(&v);
	}
	size_t n = repeat(s, 100000, "x");
	struct token_vec v = encode_in_time(t, s, n, "a hundred thousand characters");
	check_comes_back(t, &v, s, n);
	token_vec_deinit(&v);
	free(s);
	tokenizer_destroy(t);
}
END_TEST

static char *random_bytes(size_t n, unsigned mask)
{
	char *s = mem_alloc(n);
	uint32_t x = 12345;
	for (size_t i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		s[i] = (char)(x >> 16 & mask);
	}
	return s;
}

START_TEST(bytes_that_are_no_text)
{
	struct tokenizer *t = golden_tokenizer(files[_i]);
	for (int high = 0; high < 2; high++) {
		char *s = random_bytes(MEGABYTE, high ? 0xFF : 0x7F);
		struct token_vec v = encode_in_time(t, s, MEGABYTE, "noise");
		struct buf back;
		buf_init(&back);
		tokenizer_decode(t, v.ids, v.n, false, &back);
		ck_assert(utf8_valid(back.data, back.len));
		buf_deinit(&back);
		token_vec_deinit(&v);
		free(s);
	}
	tokenizer_destroy(t);
}
END_TEST

// Each byte alone, in bad company, and NUL: it comes back where the vocabulary has all bytes.
START_TEST(every_byte_comes_back)
{
	struct tokenizer *t = golden_tokenizer(files[_i]);
	for (int b = 0; b < 256; b++) {
		char s[5] = {'x', (char)b, 'y', ' ', (char)b};
		struct token_vec v = encode(t, s, sizeof s, NULL);
		struct buf raw;
		buf_init(&raw);
		for (size_t k = 0; k < v.n; k++) {
			size_t n;
			const char *piece = tokenizer_piece(t, v.ids[k], &n);
			buf_append(&raw, piece, n);
		}
		if (t->byte_id[b] >= 0) {
			size_t skip = tokenizer_strips_left(t);
			ck_assert_msg(raw.len == sizeof s + skip && !memcmp(raw.data + skip, s, sizeof s), "byte %02X", b);
		}
		buf_deinit(&raw);
		token_vec_deinit(&v);
	}
	ck_assert_uint_eq(encode(t, "", 0, NULL).n, 0);
	tokenizer_destroy(t);
}
END_TEST

START_TEST(too_much_is_refused)
{
	struct tokenizer *t = golden_tokenizer(files[0]);
	struct token_vec v = {0};
	ck_assert_int_eq(tokenizer_encode(t, "", ((size_t)256 << 20) + 1, NULL, 0, &v), ERR_LIMIT);
	ck_assert_uint_eq(v.n, 0);
	tokenizer_destroy(t);
}
END_TEST

// --- control tokens

static size_t count_control(const struct tokenizer *t, const struct token_vec *v)
{
	size_t n = 0;
	for (size_t i = 0; i < v->n; i++)
		n += tokenizer_type(t, v->ids[i]) == TOKEN_CONTROL;
	return n;
}

START_TEST(what_a_user_types_is_never_a_control_token)
{
	struct tokenizer *t = golden_tokenizer(files[_i]);
	for (size_t id = 0; id < tokenizer_n_vocab(t); id++) {
		char text[1100];
		uint8_t taint[1100];
		struct span s = t->spelling[id];
		if (t->type[id] != TOKEN_CONTROL || s.n > 512)
			continue;
		memcpy(text, "a ", 2);
		memcpy(text + 2, t->pool + s.at, s.n);
		memcpy(text + 2 + s.n, " b", 2);
		struct token_vec v = encode(t, text, s.n + 4, NULL);
		ck_assert_uint_eq(count_control(t, &v), 1);
		token_vec_deinit(&v);
		for (size_t k = 0; k <= s.n; k++) { // all of it is tainted, or a single byte
			memset(taint, k == s.n, sizeof taint);
			taint[2 + (k == s.n ? 0 : k)] = 1;
			v = encode(t, text, s.n + 4, taint);
			ck_assert_uint_eq(count_control(t, &v), 0);
			token_vec_deinit(&v);
		}
	}
	tokenizer_destroy(t);
}
END_TEST

START_TEST(typed_byte_tokens_stay_text)
{
	struct tokenizer *t = golden_tokenizer(files[LLAMA]);
	struct token_vec v = encode(t, "<0x41>", 6, NULL);
	ck_assert_uint_gt(v.n, 1);
	for (size_t i = 0; i < v.n; i++)
		ck_assert_int_ne(tokenizer_type(t, v.ids[i]), TOKEN_BYTE);
	check_comes_back(t, &v, "<0x41>", 6);
	token_vec_deinit(&v);
	static const char mixed[] = "a\xF0\x93\x80\x80"
								"b\x07"
								"c"; // a hieroglyph and a bell: byte tokens
	v = encode(t, mixed, sizeof mixed - 1, NULL);
	check_comes_back(t, &v, mixed, sizeof mixed - 1);
	token_vec_deinit(&v);
	tokenizer_destroy(t);
}
END_TEST

// --- normal form C

START_TEST(marks_are_sorted_and_composed)
{
	static const struct {
		const char *text, *normal;
	} cases[] = {
		{"e\xCC\x81", "\xC3\xA9"},								  // é
		{"e\xCC\x81\xCC\xA3", "\xE1\xBA\xB9\xCC\x81"},			  // the dot below sorts first and composes
		{"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"}, // Hangul
		{"\xE2\x84\xAB", "\xC3\x85"},							  // the Ångström sign
		{"\xE0\xA4\x95\xE0\xA4\xBC", "\xE0\xA4\x95\xE0\xA4\xBC"}, // excluded from composition
		{"\xF0\x9D\x85\x97\xF0\x9D\x85\xA5", "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5"},	// so is this
		{"x\xCC\x81\xCC\x81\xCC\xA3\xCC\xA3", "x\xCC\xA3\xCC\xA3\xCC\x81\xCC\x81"}, // stable among equals
		{"\xCC\x81"
		 "e",
		 "\xCC\x81"
		 "e"}, // nothing to compose with
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf out;
		buf_init(&out);
		nfc_append(&out, cases[i].text, strlen(cases[i].text));
		ck_assert_msg(!strcmp(out.data, cases[i].normal), "case %zu: %s", i, out.data);
		buf_deinit(&out);
	}
	ck_assert(nfc_quick_check("\xC3\xA9 caf\xCB\xBF", 9));
	ck_assert(!nfc_quick_check("e\xCC\x81", 3));
}
END_TEST

// --- many threads, one tokenizer

struct share {
	const struct tokenizer *t;
	const char *text;
	size_t n;
	struct token_vec v;
};

static void *encode_often(void *arg)
{
	struct share *s = arg;
	for (int i = 0; i < 20; i++) {
		s->v.n = 0;
		if (tokenizer_encode(s->t, s->text, s->n, NULL, TOKENIZE_PARSE_SPECIAL, &s->v))
			return NULL;
	}
	return s;
}

START_TEST(threads_share_a_tokenizer)
{
	struct tokenizer *t = golden_tokenizer(files[_i]);
	static const char text[] = "Ünïcödé e\xCC\x81 don't 123 <|im_end|> \n\n  x = y + 4217; 你好 the quick brown fox";
	pthread_t threads[4];
	struct share shares[4];
	for (int i = 0; i < 4; i++) {
		shares[i] = (struct share){.t = t, .text = text, .n = sizeof text - 1};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, encode_often, &shares[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		void *done;
		pthread_join(threads[i], &done);
		ck_assert_ptr_eq(done, &shares[i]);
		ck_assert_uint_eq(shares[i].v.n, shares[0].v.n);
		ck_assert(!memcmp(shares[i].v.ids, shares[0].v.ids, shares[0].v.n * sizeof(int32_t)));
	}
	for (int i = 0; i < 4; i++)
		token_vec_deinit(&shares[i].v);
	tokenizer_destroy(t);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("tokenizer, hostile text");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_megabyte_of_the_same_takes_no_time_and_comes_back, 0, 3);
	tcase_add_loop_test(t, bytes_that_are_no_text, 0, N_FILES);
	tcase_add_loop_test(t, every_byte_comes_back, 0, N_FILES);
	tcase_add_test(t, too_much_is_refused);
	tcase_add_loop_test(t, what_a_user_types_is_never_a_control_token, 0, N_FILES);
	tcase_add_test(t, typed_byte_tokens_stay_text);
	tcase_add_test(t, marks_are_sorted_and_composed);
	tcase_add_loop_test(t, threads_share_a_tokenizer, 0, N_FILES);
	suite_add_tcase(s, t);
	return s;
}
