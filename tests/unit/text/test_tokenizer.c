// SPDX-License-Identifier: Apache-2.0
//
// Every string of the corpus through every tokenizer, against the answers of the reference implementations; then what no
// reference answers: hostile input and its cost.
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/utf8.h"
#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOK "tests/golden/text/tok/"

struct subject {
	const char *file;    // a GGUF; one that ends in .xz is unpacked first
	const char *answers; // below TOK
	bool optional;       // a large model that may not be on this machine
	bool absent;         // the file lacks added tokens that the answers have: "<image_soft_token>", and runs of "▁" as such
};

static const struct subject subjects[] = {
    {"tests/golden/text/vocab/ggml-vocab-gpt-2.gguf.xz", "llamacpp-gpt-2.jsonl", false, false},
    {"tests/golden/text/vocab/ggml-vocab-llama-spm.gguf.xz", "llamacpp-llama-spm.jsonl", false, false},
    {"tests/golden/stories260K/stories260K-f16.gguf", "stories260k.jsonl", false, false},
    {"models/SmolLM2-135M-Instruct-Q4_1.gguf", "smollm2.jsonl", true, false},
    {"models/gemma3-270m-q4_k_m.gguf", "gemma3.jsonl", true, true},
};

static struct tokenizer *open_file(const char *path)
{
	char unpacked[] = "/tmp/quire-vocab-XXXXXX", command[512], err[512];
	struct gguf *g;
	struct tokenizer *t;
	bool packed = strlen(path) > 3 && !strcmp(path + strlen(path) - 3, ".xz");
	if (packed) {
		close(mkstemp(unpacked));
		snprintf(command, sizeof command, "xz -dc %s > %s", path, unpacked);
		ck_assert_int_eq(system(command), 0);
	}
	ck_assert_msg(!gguf_open(packed ? unpacked : path, &g, err, sizeof err), "%s", err);
	ck_assert_msg(!tokenizer_from_gguf(g, &t, err, sizeof err), "%s", err);
	gguf_close(g);
	if (packed)
		unlink(unpacked);
	return t;
}

static json_t *read_lines(const char *name)
{
	char path[256], *line = NULL;
	size_t cap = 0;
	json_t *all = json_array();
	snprintf(path, sizeof path, TOK "%s", name);
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (getline(&line, &cap, f) > 0)
		json_array_append_new(all, json_loads(line, JSON_ALLOW_NUL, NULL));
	free(line);
	fclose(f);
	return all;
}

// Compares ids; prints the first difference of a case.
static bool same(const struct token_vec *got, const json_t *want, size_t i, const char *what)
{
	size_t n = json_array_size(want), k = 0;
	while (k < n && k < got->n && json_integer_value(json_array_get(want, k)) == got->ids[k])
		k++;
	if (k == n && n == got->n)
		return true;
	printf("string %zu, %s: %zu tokens, %zu wanted; differ at %zu (%d, %lld)\n", i, what, got->n, n, k, k < got->n ? got->ids[k] : -1,
	       k < n ? json_integer_value(json_array_get(want, k)) : -1);
	return false;
}

static bool check_one(const struct tokenizer *t, size_t i, const json_t *text, const json_t *answer)
{
	struct token_vec v = {0};
	size_t n = json_string_length(text);
	const char *s = json_string_value(text);
	const json_t *ids = json_object_get(answer, "ids"), *plain = json_object_get(answer, "plain"), *special = json_object_get(answer, "ids_special");
	uint8_t *taint = malloc(n + 1);
	memset(taint, 1, n + 1);
	ck_assert_int_eq(tokenizer_encode(t, s, n, NULL, TOKENIZE_PARSE_SPECIAL, &v), 0);
	bool ok = same(&v, ids, i, "specials parsed");
	v.n = 0;
	ck_assert_int_eq(tokenizer_encode(t, s, n, NULL, 0, &v), 0);
	ok = same(&v, plain ? plain : ids, i, "specials not parsed") && ok;
	v.n = 0; // what a user types is never a control token, whatever the flags
	ck_assert_int_eq(tokenizer_encode(t, s, n, taint, TOKENIZE_PARSE_SPECIAL, &v), 0);
	ok = same(&v, plain ? plain : ids, i, "tainted") && ok;
	if (special) {
		v.n = 0;
		ck_assert_int_eq(tokenizer_encode(t, s, n, NULL, TOKENIZE_PARSE_SPECIAL | TOKENIZE_ADD_SPECIAL, &v), 0);
		ok = same(&v, special, i, "specials added") && ok;
	}
	free(taint);
	token_vec_deinit(&v);
	return ok;
}

static bool lacks(const char *text)
{
	return strstr(text, "<image_soft_token>") || strstr(text, "▁▁");
}

START_TEST(all_strings_are_tokenized_as_the_reference_does)
{
	const struct subject *u = &subjects[_i];
	if (u->optional && access(u->file, R_OK)) {
		printf("%s is not on this machine: left out\n", u->file);
		return;
	}
	struct tokenizer *t = open_file(u->file);
	json_t *corpus = read_lines("corpus.jsonl"), *answers = read_lines(u->answers);
	int bad = 0;
	for (size_t i = 0; i < json_array_size(corpus); i++) {
		json_t *answer = json_array_get(answers, i + 1); // the first line is about the file
		ck_assert_int_eq(json_integer_value(json_object_get(answer, "i")), (json_int_t)i);
		const json_t *text = json_object_get(json_array_get(corpus, i), "text");
		if (u->absent && lacks(json_string_value(text)))
			continue;
		bad += !check_one(t, i, text, answer);
	}
	ck_assert_msg(!bad, "%d of %zu strings differ for %s", bad, json_array_size(corpus), u->answers);
	json_decref(corpus);
	json_decref(answers);
	tokenizer_destroy(t);
}
END_TEST

static double encode_seconds(const struct tokenizer *t, const char *s, size_t n, struct token_vec *v)
{
	uint64_t from = clock_now_ns();
	ck_assert_int_eq(tokenizer_encode(t, s, n, NULL, TOKENIZE_PARSE_SPECIAL, v), 0);
	return (double)(clock_now_ns() - from) * 1e-9;
}

START_TEST(hostile_text_costs_little_and_comes_back)
{
	enum { N = 1 << 20 };
	struct tokenizer *t = open_file(subjects[_i].file);
	char *s = malloc(N);
	for (int kind = 0; kind < 5; kind++) {
		struct token_vec v = {0};
		struct buf back;
		unsigned x = 1;
		buf_init(&back);
		for (int i = 0; i < N; i++) {
			x = x * 1103515245 + 12345;
			s[i] = kind == 0 ? 'a' : kind == 1 ? ' ' : kind == 2 ? '<' : kind == 3 ? (char)(x >> 16 & 0x7F) : (char)(x >> 16);
		}
		double seconds = encode_seconds(t, s, N, &v);
#ifndef __SANITIZE_ADDRESS__
		ck_assert_msg(seconds < 5, "kind %d took %g s", kind, seconds);
#endif
		(void)seconds;
		tokenizer_decode(t, v.ids, v.n, false, &back);
		ck_assert(utf8_valid(back.data, back.len));
		if (kind < 3) { // plain text comes back, but for one dummy space that the model adds and takes away
			ck_assert_uint_eq(back.len, N);
			ck_assert(!memcmp(back.data, s, N));
		}
		buf_deinit(&back);
		token_vec_deinit(&v);
	}
	free(s);
	tokenizer_destroy(t);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("tokenizer");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, all_strings_are_tokenized_as_the_reference_does, 0, (int)(sizeof subjects / sizeof subjects[0]));
	tcase_add_loop_test(t, hostile_text_costs_little_and_comes_back, 0, 3);
	suite_add_tcase(s, t);
	return s;
}
