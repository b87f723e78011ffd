// SPDX-License-Identifier: Apache-2.0
//
// What every loader of tokenizers needs: from spellings and types to pieces, tables and the trie of specials.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static struct span keep(struct tokenizer *t, const char *s, size_t n)
{
	mem_grow(&t->pool, &t->pool_cap, t->pool_len + n + 1, 1);
	if (n)
		memcpy(t->pool + t->pool_len, s, n);
	struct span out = {t->pool_len, (uint32_t)n};
	t->pool_len += n;
	return out;
}

void tokenizer__set_size(struct tokenizer *t, size_t n_vocab)
{
	t->n_vocab = n_vocab;
	t->spelling = mem_zalloc(n_vocab, sizeof *t->spelling);
	t->piece = mem_zalloc(n_vocab, sizeof *t->piece);
	t->type = mem_zalloc(n_vocab, sizeof *t->type);
	t->score = mem_zalloc(n_vocab, sizeof *t->score);
	t->eog = mem_zalloc(n_vocab, sizeof *t->eog);
}

void tokenizer__set_token(struct tokenizer *t, size_t id, const char *spelling, size_t n, enum token_type type,
						  float score)
{
	CHECK(id < t->n_vocab && n <= MAX_SPELLING, "%zu of %zu, %zu bytes", id, t->n_vocab, n);
	t->spelling[id] = keep(t, spelling, n);
	t->type[id] = (uint8_t)type;
	t->score[id] = score;
}

// --- pieces

// GPT-2 writes bytes as printable characters: those that are printable in Latin-1 as themselves, the rest from U+0100
// on. byte_of[character] is the byte, or -1 for a character that is not in the alphabet.
static void byte_alphabet(int16_t byte_of[512])
{
	int next = 256;
	memset(byte_of, -1, 512 * sizeof *byte_of);
	for (int b = 0; b < 256; b++) {
		bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
		byte_of[printable ? b : next++] = (int16_t)b;
	}
}

// The bytes behind a spelling in the byte alphabet; what is not in the alphabet stands for itself.
static void decode_bytes(const int16_t byte_of[512], const char *s, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n;) {
		uint32_t cp;
		int k = utf8_decode(s + i, n - i, &cp);
		if (k > 0 && cp < 512 && byte_of[cp] >= 0)
			buf_putc(out, (char)byte_of[cp]);
		else
			buf_append(out, s + i, k > 0 ? (size_t)k : 1);
		i += k > 0 ? (size_t)k : 1;
	}
}

static void decode_spaces(const char *s, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n;) {
		bool mark = n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3);
		buf_putc(out, mark ? ' ' : s[i]);
		i += mark ? 3 : 1;
	}
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'	  ? c - '0'
		   : c >= 'A' && c <= 'F' ? c - 'A' + 10
		   : c >= 'a' && c <= 'f' ? c - 'a' + 10
								  : -1;
}

// The byte of "<0xXX>", or -1.
static int byte_token(const char *s, size_t n)
{
	if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || hex_digit(s[3]) < 0 || hex_digit(s[4]) < 0)
		return -1;
	return hex_digit(s[3]) * 16 + hex_digit(s[4]);
}

static bool is_special(const struct tokenizer *t, size_t id)
{
	return t->type[id] == TOKEN_CONTROL || t->type[id] == TOKEN_USER_DEFINED;
}

static void make_piece(struct tokenizer *t, size_t id, const int16_t byte_of[512], struct buf *tmp)
{
	const char *s = t->pool + t->spelling[id].at;
	size_t n = t->spelling[id].n;
	int type = t->type[id], byte = t->characters && type == TOKEN_BYTE ? byte_token(s, n) : -1;
	buf_clear(tmp);
	if (byte >= 0)
		buf_putc(tmp, (char)byte);
	else if (type == TOKEN_CONTROL || (!t->characters && type == TOKEN_USER_DEFINED))
		buf_append(tmp, s, n);
	else if (t->characters)
		decode_spaces(s, n, tmp);
	else
		decode_bytes(byte_of, s, n, tmp);
	if (tmp->len == 1 && !is_special(t, id) && (!t->characters || byte >= 0))
		t->byte_id[(uint8_t)tmp->data[0]] = (int32_t)id;
	bool same = tmp->len == n && (!n || !memcmp(tmp->data, s, n));
	t->piece[id] = same ? t->spelling[id] : keep(t, tmp->data, tmp->len);
	if (t->piece[id].n > t->max_piece)
		t->max_piece = t->piece[id].n;
}

// --- tables

// The first of two equal ones stays.
static void table_add(struct tokenizer *t, struct id_table *table, const struct span *spans, size_t id)
{
	const char *s = t->pool + spans[id].at;
	size_t i = hash_bytes(0, s, spans[id].n) & table->mask;
	for (; table->slot[i]; i = (i + 1) & table->mask) {
		const struct span *other = &spans[table->slot[i] - 1];
		if (other->n == spans[id].n && !memcmp(t->pool + other->at, s, other->n))
			return;
	}
	table->slot[i] = (uint32_t)id + 1;
}

static void table_init(struct id_table *table, size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	table->mask = size - 1;
	table->slot = mem_zalloc(size, sizeof *table->slot);
}

// "▁" after something that is not "▁": a piece that reaches over the beginning of a word.
static bool has_inner_mark(const char *s, size_t n)
{
	bool after_mark = true;
	for (size_t i = 0; i < n;) {
		bool mark = n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3);
		if (mark && !after_mark)
			return true;
		after_mark = mark;
		i += mark ? 3 : 1;
	}
	return false;
}

static void make_tables(struct tokenizer *t)
{
	t->key = t->characters ? t->spelling : t->piece;
	t->words_at_spaces = t->characters;
	table_init(&t->by_spelling, t->n_vocab);
	table_init(&t->by_key, t->n_vocab);
	for (size_t id = 0; id < t->n_vocab; id++) {
		table_add(t, &t->by_spelling, t->spelling, id);
		if (t->type[id] != TOKEN_NORMAL || !t->key[id].n)
			continue;
		table_add(t, &t->by_key, t->key, id);
		if (t->key[id].n > t->max_key)
			t->max_key = t->key[id].n;
		if (has_inner_mark(t->pool + t->key[id].at, t->key[id].n))
			t->words_at_spaces = false;
	}
}

// --- the trie of specials

static void trie_add(struct tokenizer *t, size_t id)
{
	const char *s = t->pool + t->spelling[id].at;
	size_t n = t->spelling[id].n;
	uint32_t node = 0;
	if (!n)
		return;
	t->first[(uint8_t)s[0]] = true;
	for (size_t k = 0; k < n; k++) {
		uint64_t from = (uint64_t)node << 8 | (uint8_t)s[k];
		size_t i = hash_bytes(3, &from, sizeof from) & t->trie_mask;
		while (t->trie[i].to && t->trie[i].from != from)
			i = (i + 1) & t->trie_mask;
		if (!t->trie[i].to) {
			t->trie[i] = (struct trie_edge){from, t->n_trie};
			t->trie_id[t->n_trie++] = -1;
		}
		node = t->trie[i].to;
	}
	if (t->trie_id[node] < 0)
		t->trie_id[node] = (int32_t)id;
}

int tokenizer__index(struct tokenizer *t)
{
	int16_t byte_of[512];
	size_t bytes = 1, size = 16;
	struct buf tmp;
	buf_init(&tmp);
	byte_alphabet(byte_of);
	memset(t->byte_id, -1, sizeof t->byte_id);
	for (size_t id = 0; id < t->n_vocab; id++) {
		make_piece(t, id, byte_of, &tmp);
		if (is_special(t, id) && t->spelling[id].n > MAX_SPECIAL)
			bytes = SIZE_MAX;
		else if (is_special(t, id) && bytes != SIZE_MAX)
			bytes += t->spelling[id].n;
	}
	buf_deinit(&tmp);
	make_tables(t);
	if (bytes == SIZE_MAX)
		return ERR_INVALID;
	while (size < 2 * bytes)
		size *= 2;
	t->trie_mask = size - 1;
	t->trie = mem_zalloc(size, sizeof *t->trie);
	t->trie_id = mem_alloc(bytes * sizeof *t->trie_id);
	t->trie_id[0] = -1;
	t->n_trie = 1;
	for (size_t id = 0; id < t->n_vocab; id++)
		if (is_special(t, id))
			trie_add(t, id);
	return 0;
}

// --- ends of a generation

void tokenizer__add_eog(struct tokenizer *t, int32_t id)
{
	if (id >= 0)
		t->eog[id] = true;
}
