// SPDX-License-Identifier: Apache-2.0
//
// The front: specials are found first, the leftmost and there the longest; the text between them is normalised and
// encoded.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 << 20 };

void token_vec_push(struct token_vec *v, int32_t id)
{
	mem_grow(&v->ids, &v->cap, v->n + 1, sizeof *v->ids);
	v->ids[v->n++] = id;
}

void token_vec_deinit(struct token_vec *v)
{
	free(v->ids);
	*v = (struct token_vec){0};
}

int32_t tokenizer__lookup(const struct tokenizer *t, const struct id_table *table, const struct span *spans,
						  const char *s, size_t n)
{
	for (size_t i = hash_bytes(0, s, n) & table->mask; table->slot[i]; i = (i + 1) & table->mask) {
		uint32_t id = table->slot[i] - 1;
		if (spans[id].n == n && !memcmp(t->pool + spans[id].at, s, n))
			return (int32_t)id;
	}
	return -1;
}

// --- encoding

static uint32_t trie_step(const struct tokenizer *t, uint32_t node, char byte)
{
	uint64_t from = (uint64_t)node << 8 | (uint8_t)byte;
	size_t i = hash_bytes(3, &from, sizeof from) & t->trie_mask;
	while (t->trie[i].to && t->trie[i].from != from)
		i = (i + 1) & t->trie_mask;
	return t->trie[i].to;
}

// The longest special that begins at s, or -1. Control tokens count only if parse is set and all their bytes are
// untainted.
static int32_t special_at(const struct tokenizer *t, const char *s, size_t n, const uint8_t *taint, bool parse,
						  size_t *len)
{
	int32_t best = -1;
	uint32_t node = 0;
	for (size_t i = 0; i < n && (node = trie_step(t, node, s[i])); i++) {
		parse = parse && !(taint && taint[i]);
		int32_t id = t->trie_id[node];
		if (id >= 0 && (parse || t->type[id] == TOKEN_USER_DEFINED)) {
			best = id;
			*len = i + 1;
		}
	}
	return best;
}

// Spaces as "▁", if the model writes them so, and one more in front of a stretch.
static void escape(const struct tokenizer *t, const char *s, size_t n, bool begins, struct buf *out)
{
	if (begins && t->add_space_prefix)
		buf_append(out, "\xE2\x96\x81", 3);
	for (size_t i = 0; i < n; i++) {
		size_t from = i;
		while (i < n && s[i] != ' ')
			i++;
		buf_append(out, s + from, i - from);
		if (i < n)
			buf_append(out, "\xE2\x96\x81", 3);
	}
}

// Text without specials that is valid UTF-8; begins: nothing stands before it in its stretch.
static void encode_valid(const struct tokenizer *t, const char *s, size_t n, bool begins, struct token_vec *out)
{
	struct buf normal, escaped;
	buf_init(&normal);
	buf_init(&escaped);
	if (t->nfc && !nfc_quick_check(s, n)) {
		nfc_append(&normal, s, n);
		s = normal.data;
		n = normal.len;
	}
	if (t->escape_spaces) {
		escape(t, s, n, begins, &escaped);
		s = escaped.data;
		n = escaped.len;
	}
	words_encode(t, s, n, out);
	buf_deinit(&normal);
	buf_deinit(&escaped);
}

static size_t valid_length(const char *s, size_t n)
{
	size_t i = 0;
	uint32_t cp;
	for (int k; i < n && (k = utf8_decode(s + i, n - i, &cp)) > 0; i += (size_t)k)
		;
	return i;
}

// Text without specials: characters go to the model, bad bytes to the tokens of single bytes.
static void encode_stretch(const struct tokenizer *t, const char *s, size_t n, struct token_vec *out)
{
	for (size_t i = 0; i < n;) {
		size_t valid = valid_length(s + i, n - i);
		if (valid)
			encode_valid(t, s + i, valid, i == 0, out);
		i += valid;
		if (i < n && t->byte_id[(uint8_t)s[i]] >= 0)
			token_vec_push(out, t->byte_id[(uint8_t)s[i]]);
		i += i < n;
	}
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, const uint8_t *taint, unsigned flags,
					 struct token_vec *out)
{
	bool parse = flags & TOKENIZE_PARSE_SPECIAL, add = flags & TOKENIZE_ADD_SPECIAL;
	size_t done = 0;
	if (n > MAX_TEXT)
		return ERR_LIMIT;
	if (add && tokenizer_adds_bos(t))
		token_vec_push(out, t->bos);
	for (size_t i = 0; i < n;) {
		size_t len = 0;
		int32_t id =
			t->first[(uint8_t)text[i]] ? special_at(t, text + i, n - i, taint ? taint + i : NULL, parse, &len) : -1;
		if (id < 0) {
			i++;
			continue;
		}
		encode_stretch(t, text + done, i - done, out);
		token_vec_push(out, id);
		done = i += len;
	}
	encode_stretch(t, text + done, n - done, out);
	if (add && t->add_eos && t->eos >= 0)
		token_vec_push(out, t->eos);
	return 0;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out)
{
	struct buf raw;
	buf_init(&raw);
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const char *s = tokenizer_piece(t, ids[i], &len);
		if (!skip_special || t->type[ids[i]] != TOKEN_CONTROL)
			buf_append(&raw, s, len);
	}
	size_t skip = raw.len && raw.data[0] == ' ' && tokenizer_strips_left(t);
	if (raw.len)
		utf8_sanitize(out, raw.data + skip, raw.len - skip);
	buf_deinit(&raw);
}

// --- questions

void tokenizer_destroy(struct tokenizer *t)
{
	if (!t)
		return;
	free(t->pool);
	free(t->spelling);
	free(t->piece);
	free(t->type);
	free(t->score);
	free(t->eog);
	free(t->by_spelling.slot);
	free(t->by_key.slot);
	free(t->merges);
	free(t->trie);
	free(t->trie_id);
	pretokenizer_destroy(t->pre);
	free(t);
}

size_t tokenizer_n_vocab(const struct tokenizer *t)
{
	return t->n_vocab;
}

size_t tokenizer_max_piece(const struct tokenizer *t)
{
	return t->max_piece;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n)
{
	CHECK(id >= 0 && (size_t)id < t->n_vocab, "%d of %zu", id, t->n_vocab);
	*n = t->piece[id].n;
	return t->pool + t->piece[id].at;
}

enum token_type tokenizer_type(const struct tokenizer *t, int32_t id)
{
	CHECK(id >= 0 && (size_t)id < t->n_vocab, "%d of %zu", id, t->n_vocab);
	return (enum token_type)t->type[id];
}

int32_t tokenizer_find(const struct tokenizer *t, const char *spelling, size_t n)
{
	return tokenizer__lookup(t, &t->by_spelling, t->spelling, spelling, n);
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->add_bos && t->bos >= 0;
}

bool tokenizer_strips_left(const struct tokenizer *t)
{
	return t->add_space_prefix;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && (size_t)id < t->n_vocab && t->eog[id];
}
