// SPDX-License-Identifier: Apache-2.0
//
// Cuts a stretch of text into words, merges inside each, and writes the tokens. A word that was seen before in the same
// stretch is copied from the ids written then.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

// A longer word is merged in slices: what merging may cost in memory stays some 50 MiB a call.
enum { MAX_WORD = 1 << 20, MAX_SEEN = 1 << 13 };

struct seen { // a word of this stretch and where its ids begin
	const char *s;
	uint32_t n, n_ids;
	size_t ids;
};

struct words {
	const struct tokenizer *t;
	struct token_vec *out;
	struct merger m;
	struct seen *seen; // by hash; a newer word takes the place of an older one
	size_t mask;
};

// A character without a token becomes the tokens of its bytes; where one of these is missing, the unknown token if
// there is one.
static void emit_bytes(struct words *w, const char *s, size_t n)
{
	const int32_t *byte_id = w->t->byte_id;
	size_t known = 0;
	while (known < n && byte_id[(uint8_t)s[known]] >= 0)
		known++;
	for (size_t i = 0; known == n && i < n; i++)
		token_vec_push(w->out, byte_id[(uint8_t)s[i]]);
	if (known < n && w->t->unk >= 0)
		token_vec_push(w->out, w->t->unk);
}

// Bytes that the vocabulary lacks vanish before anything merges, as in the reference.
static void add_bytes(struct words *w, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (w->t->byte_id[(uint8_t)s[i]] >= 0)
			merger_add(&w->m, i, 1, w->t->byte_id[(uint8_t)s[i]]);
}

static void add_characters(struct words *w, const char *s, size_t n)
{
	uint32_t cp;
	for (size_t i = 0; i < n;) {
		int len = utf8_decode(s + i, n - i, &cp);
		size_t k = len > 0 ? (size_t)len : 1;
		merger_add(&w->m, i, k, tokenizer__lookup(w->t, &w->t->by_key, w->t->key, s + i, k));
		i += k;
	}
}

static void merge_word(struct words *w, const char *s, size_t n)
{
	merger_start(&w->m, s);
	if (w->t->characters)
		add_characters(w, s, n);
	else
		add_bytes(w, s, n);
	merger_run(&w->m);
	for (int32_t i = w->m.n ? 0 : -1; i >= 0; i = w->m.sym[i].next) {
		const struct symbol *y = &w->m.sym[i];
		if (y->id >= 0)
			token_vec_push(w->out, y->id);
		else
			emit_bytes(w, s + y->at, y->len);
	}
}

static bool all_newlines(const char *s, size_t n)
{
	size_t i = 0;
	while (i < n && s[i] == '\n')
		i++;
	return i == n;
}

static void encode_short(struct words *w, const char *s, size_t n)
{
	const struct tokenizer *t = w->t;
	if (n <= t->max_key && (t->ignore_merges || (t->whole_newlines && all_newlines(s, n)))) {
		int32_t id = tokenizer__lookup(t, &t->by_key, t->key, s, n);
		if (id >= 0) {
			token_vec_push(w->out, id);
			return;
		}
	}
	struct seen *seen = &w->seen[hash_bytes(2, s, n) & w->mask];
	if (seen->n == n && !memcmp(seen->s, s, n)) {
		for (size_t i = 0; i < seen->n_ids; i++)
			token_vec_push(w->out, w->out->ids[seen->ids + i]);
		return;
	}
	size_t from = w->out->n;
	merge_word(w, s, n);
	*seen = (struct seen){s, (uint32_t)n, (uint32_t)(w->out->n - from), from};
}

static void encode_word(void *ctx, const char *s, size_t n)
{
	while (n > MAX_WORD) {
		size_t slice = utf8_whole(s, MAX_WORD);
		encode_short(ctx, s, slice);
		s += slice;
		n -= slice;
	}
	encode_short(ctx, s, n);
}

// A word begins at each "▁" that follows something else.
static void split_at_spaces(struct words *w, const char *text, size_t n)
{
	static const char mark[] = "\xE2\x96\x81";
	size_t done = 0;
	bool after_mark = true;
	for (size_t i = 0; i < n;) {
		bool is_mark = n - i >= 3 && !memcmp(text + i, mark, 3);
		if (is_mark && !after_mark) {
			encode_word(w, text + done, i - done);
			done = i;
		}
		after_mark = is_mark;
		i += is_mark ? 3 : 1;
	}
	encode_word(w, text + done, n - done);
}

void words_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out)
{
	if (!n)
		return;
	size_t size = 16;
	while (size < MAX_SEEN && size < n / 8)
		size *= 2;
	struct words w = {.t = t, .out = out, .m = {.t = t}, .seen = mem_zalloc(size, sizeof *w.seen), .mask = size - 1};
	if (t->pre)
		pretokenizer_split(t->pre, text, n, encode_word, &w);
	else if (t->words_at_spaces)
		split_at_spaces(&w, text, n);
	else
		encode_word(&w, text, n);
	merger_deinit(&w.m);
	free(w.seen);
}
