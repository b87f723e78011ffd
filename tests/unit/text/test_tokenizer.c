// SPDX-License-Identifier: Apache-2.0
//
// Every string of the corpus through every tokenizer, against the answers of the reference implementations: ids with
// and without specials, the bytes of each token, and the decoded text.
#include "engine/base/buf.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/test.h"
#include "tests/unit/text/text_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VOCAB "tests/golden/text/vocab/"

struct subject {
	const char *file;	 // a GGUF; one that ends in .xz is unpacked first
	const char *answers; // below tests/golden/text
	bool optional;		 // a model that is fetched, below $QUIRE_MODELS or models/: it may not be on this machine
	bool absent; // the file lacks added tokens that the answers have: "<image_soft_token>", and runs of "▁" as such
};

static const struct subject subjects[] = {
	{VOCAB "ggml-vocab-gpt-2.gguf.xz", "tok/llamacpp-gpt-2.jsonl", false, false},
	{VOCAB "ggml-vocab-llama-spm.gguf.xz", "tok/llamacpp-llama-spm.jsonl", false, false},
	{VOCAB "ggml-vocab-deepseek-coder.gguf.xz", "tok/llamacpp-deepseek-coder.jsonl", false, false},
	{VOCAB "smollm2.gguf.xz", "tok/smollm2.jsonl", false, false},
	{VOCAB "qwen3.gguf.xz", "tok/qwen3.jsonl", false, false},
	{"tests/golden/stories260K/stories260K-f16.gguf", "tok/stories260k.jsonl", false, false},
	{"gemma3-270m-q4_k_m.gguf", "tok/gemma3.jsonl", true, true},
};

// Compares ids; prints the first difference of a case.
static bool same(const struct token_vec *got, const json_t *want, size_t i, const char *what)
{
	size_t n = json_array_size(want), k = 0;
	while (k < n && k < got->n && json_integer_value(json_array_get(want, k)) == got->ids[k])
		k++;
	if (k == n && n == got->n)
		return true;
	fprintf(stderr, "string %zu, %s: %zu tokens, %zu wanted; differ at %zu (%d, %lld)\n", i, what, got->n, n, k,
			k < got->n ? got->ids[k] : -1, k < n ? json_integer_value(json_array_get(want, k)) : -1);
	return false;
}

static bool check_one(const struct tokenizer *t, size_t i, const json_t *text, const json_t *answer)
{
	struct token_vec v = {0};
	size_t n = json_string_length(text);
	const char *s = json_string_value(text);
	const json_t *ids = json_object_get(answer, "ids"), *plain = json_object_get(answer, "plain"),
				 *special = json_object_get(answer, "ids_special");
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

// The bytes of each token, and the text of all.
static bool check_text(const struct tokenizer *t, size_t i, const json_t *text, const json_t *answer)
{
	const json_t *ids = json_object_get(answer, "ids"), *pieces = json_object_get(answer, "pieces");
	struct token_vec v = {0};
	bool ok = true;
	for (size_t k = 0; k < json_array_size(ids); k++)
		token_vec_push(&v, (int32_t)json_integer_value(json_array_get(ids, k)));
	for (size_t k = 0; k < json_array_size(pieces); k++) {
		size_t n;
		const char *p = tokenizer_piece(t, v.ids[k], &n), *hex = json_string_value(json_array_get(pieces, k));
		unsigned byte;
		bool same_piece = strlen(hex) == 2 * n;
		for (size_t j = 0; same_piece && j < n; j++)
			same_piece = sscanf(hex + 2 * j, "%2x", &byte) == 1 && byte == (uint8_t)p[j];
		if (!same_piece)
			fprintf(stderr, "string %zu: token %d stands for \"%.*s\", wanted %s\n", i, v.ids[k], (int)n, p, hex);
		ok = ok && same_piece;
	}
	for (int skip = 0; skip < 2; skip++) {
		const json_t *want = json_object_get(answer, skip ? "decoded_skip" : "decoded");
		struct buf b;
		buf_init(&b);
		if (!want)
			want = json_object_get(answer, "decoded") ? json_object_get(answer, "decoded") : text;
		tokenizer_decode(t, v.ids, v.n, skip, &b);
		if (b.len != json_string_length(want) || (b.len && memcmp(b.data, json_string_value(want), b.len) != 0)) {
			fprintf(stderr, "string %zu decodes to \"%s\", wanted \"%s\"\n", i, b.len ? b.data : "",
					json_string_value(want));
			ok = false;
		}
		buf_deinit(&b);
	}
	token_vec_deinit(&v);
	return ok;
}

static bool lacks(const char *text)
{
	return strstr(text, "<image_soft_token>") || strstr(text, "▁▁");
}

// The path of a subject, or NULL where an optional one is missing.
static const char *path_of(const struct subject *u, char *path, size_t len)
{
	const char *models = getenv("QUIRE_MODELS");
	if (!u->optional)
		return u->file;
	snprintf(path, len, "%s/%s", models ? models : "models", u->file);
	return access(path, R_OK) ? NULL : path;
}

START_TEST(all_strings_are_tokenized_as_the_reference_does)
{
	const struct subject *u = &subjects[_i];
	char room[512];
	const char *path = path_of(u, room, sizeof room);
	if (!path) {
		fprintf(stderr, "%s is not on this machine: left out\n", u->file);
		return;
	}
	struct tokenizer *t = golden_tokenizer(path);
	json_t *corpus = golden_lines("tok/corpus.jsonl"), *answers = golden_lines(u->answers);
	int bad = 0, seen = 0;
	for (size_t i = 0; i < json_array_size(corpus); i++) {
		json_t *answer = json_array_get(answers, i + 1); // the first line is about the file
		ck_assert_int_eq(json_integer_value(json_object_get(answer, "i")), (json_int_t)i);
		const json_t *text = json_object_get(json_array_get(corpus, i), "text");
		if (u->absent && lacks(json_string_value(text)))
			continue;
		seen++;
		bad += !check_one(t, i, text, answer) || (json_object_get(answer, "pieces") && !check_text(t, i, text, answer));
	}
	ck_assert_msg(!bad, "%d of %d strings differ for %s", bad, seen, u->answers);
	ck_assert_int_ge(seen, u->absent ? 485 : 500);
	json_decref(corpus);
	json_decref(answers);
	tokenizer_destroy(t);
}
END_TEST

// llama.cpp's own vectors: texts between separators, and a line of ids for each.
START_TEST(the_vectors_that_come_with_the_vocabularies)
{
	static const char *const names[] = {"gpt-2", "llama-spm", "deepseek-coder"};
	static const char separator[] = "\n__ggml_vocab_test__\n";
	char path[256];
	snprintf(path, sizeof path, VOCAB "ggml-vocab-%s.gguf.xz", names[_i]);
	struct tokenizer *t = golden_tokenizer(path);
	snprintf(path, sizeof path, VOCAB "ggml-vocab-%s.gguf.inp", names[_i]);
	char *texts = golden_file(path), *text = texts;
	snprintf(path, sizeof path, VOCAB "ggml-vocab-%s.gguf.out", names[_i]);
	char *lines = golden_file(path), *line = lines;
	int i = 0;
	for (char *end; (end = strstr(text, separator)); i++) {
		struct token_vec v = {0};
		char *next = strchr(line, '\n');
		size_t n = (size_t)(end - text), k = 0;
		ck_assert_int_eq(tokenizer_encode(t, text, n, NULL, 0, &v), 0);
		ck_assert_ptr_nonnull(next);
		for (char *p = line; p < next; k++) {
			long id = strtol(p, &p, 10);
			p += strspn(p, " ");
			ck_assert_msg(k < v.n && v.ids[k] == id, "text %d of %s differs at token %zu", i, names[_i], k);
		}
		ck_assert_uint_eq(k, v.n);
		token_vec_deinit(&v);
		text = end + strlen(separator);
		line = next + 1;
	}
	ck_assert_int_eq(i, 46);
	free(texts);
	free(lines);
	tokenizer_destroy(t);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("tokenizer");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, all_strings_are_tokenized_as_the_reference_does, 0,
						(int)(sizeof subjects / sizeof subjects[0]));
	tcase_add_loop_test(t, the_vectors_that_come_with_the_vocabularies, 0, 3);
	suite_add_tcase(s, t);
	return s;
}
