// SPDX-License-Identifier: Apache-2.0
//
// Fills a tokenizer from GGUF metadata (tokenizer.ggml.*).
#include "engine/text/tokenizer_internal.h"

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/model/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VOCAB = 1 << 24, MAX_SPELLING = 4096 };

struct loader {
	const struct gguf *g;
	struct tokenizer *t;
	char *err;
	size_t len;
	int16_t byte_of[512]; // of a character of the GPT-2 byte alphabet, -1: not in it
};

static int fail(struct loader *l, const char *what)
{
	return err_set(l->err, l->len, ERR_INVALID, "%s: %s", gguf_path(l->g), what);
}

static struct span keep(struct tokenizer *t, const char *s, size_t n)
{
	mem_grow(&t->pool, &t->pool_cap, t->pool_len + n + 1, 1);
	memcpy(t->pool + t->pool_len, s, n);
	struct span out = {t->pool_len, (uint32_t)n};
	t->pool_len += n;
	return out;
}

// GPT-2 writes bytes as printable characters: those that are printable in Latin-1 as themselves, the rest from U+0100 on.
static void byte_alphabet(struct loader *l)
{
	int next = 256;
	memset(l->byte_of, -1, sizeof l->byte_of);
	for (int b = 0; b < 256; b++) {
		bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
		l->byte_of[printable ? b : next++] = (int16_t)b;
	}
}

// The bytes behind a spelling in the byte alphabet; what is not in the alphabet stands for itself.
static void decode_bytes(const struct loader *l, const char *s, size_t n, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0; i < n;) {
		uint32_t cp;
		int k = utf8_decode(s + i, n - i, &cp);
		if (k > 0 && cp < 512 && l->byte_of[cp] >= 0)
			buf_putc(out, (char)l->byte_of[cp]);
		else
			buf_append(out, s + i, k > 0 ? (size_t)k : 1);
		i += k > 0 ? (size_t)k : 1;
	}
}

static void decode_spaces(const char *s, size_t n, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0; i < n;) {
		if (n - i >= 3 && !memcmp(s + i, "\xE2\x96\x81", 3)) {
			buf_putc(out, ' ');
			i += 3;
		} else {
			buf_putc(out, s[i++]);
		}
	}
}

static bool byte_token(const char *s, size_t n, uint8_t *byte)
{
	char text[8] = {0};
	unsigned v;
	char end;
	if (n != 6)
		return false;
	memcpy(text, s, 6);
	if (sscanf(text, "<0x%2X%c", &v, &end) != 2 || end != '>')
		return false;
	*byte = (uint8_t)v;
	return true;
}

static void make_piece(struct loader *l, size_t i, struct buf *tmp)
{
	struct tokenizer *t = l->t;
	const char *s = t->pool + t->spelling[i].at;
	size_t n = t->spelling[i].n;
	uint8_t byte;
	if (t->type[i] == TOKEN_CONTROL || t->type[i] == TOKEN_UNKNOWN || (t->model == MODEL_BPE && t->type[i] == TOKEN_USER_DEFINED)) {
		t->piece[i] = t->spelling[i];
	} else if (t->model == MODEL_SPM && t->type[i] == TOKEN_BYTE && byte_token(s, n, &byte)) {
		t->piece[i] = keep(t, (const char *)&byte, 1);
		t->byte_id[byte] = (int32_t)i;
	} else {
		if (t->model == MODEL_BPE)
			decode_bytes(l, s, n, tmp);
		else
			decode_spaces(s, n, tmp);
		t->piece[i] = keep(t, tmp->data ? tmp->data : "", tmp->len);
		if (t->model == MODEL_BPE && tmp->len == 1)
			t->byte_id[(uint8_t)tmp->data[0]] = (int32_t)i;
	}
	if (t->piece[i].n > t->max_piece)
		t->max_piece = t->piece[i].n;
}

static void index_add(struct tokenizer *t, struct id_table *table, const struct span *spans, size_t i)
{
	const char *s = t->pool + spans[i].at;
	size_t k = hash_bytes(0, s, spans[i].n) & table->mask;
	for (; table->slot[k]; k = (k + 1) & table->mask) {
		uint32_t id = table->slot[k] - 1;
		if (spans[id].n == spans[i].n && !memcmp(t->pool + spans[id].at, s, spans[i].n))
			return; // the first of two equal spellings wins
	}
	table->slot[k] = (uint32_t)i + 1;
}

static void table_init(struct id_table *table, size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	table->mask = size - 1;
	table->slot = mem_zalloc(size, sizeof *table->slot);
}

static int read_model(struct loader *l)
{
	struct gguf_str s;
	if (gguf_get_str(l->g, "tokenizer.ggml.model", &s) <= 0)
		return fail(l, "tokenizer.ggml.model is missing");
	if (s.len == 4 && !memcmp(s.data, "gpt2", 4))
		l->t->model = MODEL_BPE;
	else if (s.len == 5 && !memcmp(s.data, "llama", 5))
		l->t->model = MODEL_SPM;
	else
		return err_set(l->err, l->len, ERR_UNSUPPORTED, "%s: the tokenizer model %.*s is not known; gpt2 and llama are", gguf_path(l->g),
		               (int)(s.len < 32 ? s.len : 32), s.data);
	return 0;
}

static int read_vocabulary(struct loader *l)
{
	struct tokenizer *t = l->t;
	struct gguf_array tokens, types = {0}, scores = {0};
	if (gguf_get_array(l->g, "tokenizer.ggml.tokens", &tokens) <= 0 || tokens.type != GGUF_STRING || !tokens.n || tokens.n > MAX_VOCAB)
		return fail(l, "tokenizer.ggml.tokens must be a list of strings");
	bool has_types = gguf_get_array(l->g, "tokenizer.ggml.token_type", &types) > 0;
	bool has_scores = gguf_get_array(l->g, "tokenizer.ggml.scores", &scores) > 0;
	if (has_types && (types.n != tokens.n || types.type == GGUF_STRING || types.type == GGUF_F32 || types.type == GGUF_F64))
		return fail(l, "tokenizer.ggml.token_type must have one whole number for each token");
	if (has_scores && (scores.n != tokens.n || scores.type == GGUF_STRING))
		return fail(l, "tokenizer.ggml.scores must have one number for each token");
	if (t->model == MODEL_SPM && !has_scores)
		return fail(l, "tokenizer.ggml.scores is missing; a llama tokenizer needs it");
	t->n_vocab = tokens.n;
	t->spelling = mem_zalloc(t->n_vocab, sizeof *t->spelling);
	t->piece = mem_zalloc(t->n_vocab, sizeof *t->piece);
	t->type = mem_zalloc(t->n_vocab, 1);
	t->score = mem_zalloc(t->n_vocab, sizeof *t->score);
	t->eog = mem_zalloc(t->n_vocab, sizeof *t->eog);
	for (size_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str s = gguf_array_str(&tokens, i);
		int64_t type = has_types ? gguf_array_i64(&types, i) : TOKEN_NORMAL;
		if (s.len > MAX_SPELLING)
			return fail(l, "a token of tokenizer.ggml.tokens is longer than 4096 bytes");
		if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
			type = TOKEN_NORMAL;
		t->spelling[i] = keep(t, s.data, s.len);
		t->type[i] = (uint8_t)type;
		t->score[i] = has_scores ? (float)gguf_array_f64(&scores, i) : 0;
	}
	return 0;
}

static void index_vocabulary(struct loader *l)
{
	struct tokenizer *t = l->t;
	struct buf tmp;
	buf_init(&tmp);
	memset(t->byte_id, -1, sizeof t->byte_id);
	for (size_t i = 0; i < t->n_vocab; i++)
		make_piece(l, i, &tmp);
	buf_deinit(&tmp);
	table_init(&t->by_spelling, t->n_vocab);
	table_init(&t->by_piece, t->n_vocab);
	for (size_t i = 0; i < t->n_vocab; i++) {
		index_add(t, &t->by_spelling, t->spelling, i);
		if (t->type[i] == TOKEN_NORMAL)
			index_add(t, &t->by_piece, t->piece, i);
	}
}

static int read_merges(struct loader *l)
{
	struct tokenizer *t = l->t;
	struct gguf_array a;
	if (gguf_get_array(l->g, "tokenizer.ggml.merges", &a) <= 0 || a.type != GGUF_STRING || a.n > MAX_VOCAB)
		return fail(l, "tokenizer.ggml.merges must be a list of strings");
	size_t size = 16;
	while (size < 2 * a.n)
		size *= 2;
	t->merge_mask = size - 1;
	t->merges = mem_zalloc(size, sizeof *t->merges);
	for (size_t i = 0; i < size; i++)
		t->merges[i].id = -1;
	char joined[2 * MAX_SPELLING];
	for (size_t i = 0; i < a.n; i++) {
		struct gguf_str s = gguf_array_str(&a, i);
		const char *space = s.len > 1 ? memchr(s.data + 1, ' ', s.len - 1) : NULL;
		if (!space || s.len > sizeof joined)
			return fail(l, "an entry of tokenizer.ggml.merges is not two pieces with a space between");
		size_t left = (size_t)(space - s.data), right = s.len - left - 1;
		memcpy(joined, s.data, left);
		memcpy(joined + left, space + 1, right);
		int32_t x = tokenizer_find(t, s.data, left), y = tokenizer_find(t, space + 1, right), xy = tokenizer_find(t, joined, left + right);
		if (x < 0 || y < 0 || xy < 0 || tokenizer__merge(t, x, y))
			continue; // a merge of what the vocabulary lacks can never happen
		uint64_t pair = (uint64_t)(uint32_t)x << 32 | (uint32_t)y;
		size_t k = hash_bytes(1, &pair, sizeof pair) & t->merge_mask;
		while (t->merges[k].id >= 0)
			k = (k + 1) & t->merge_mask;
		t->merges[k] = (struct merge){pair, (int32_t)i, xy};
	}
	return 0;
}

static void trie_add(struct tokenizer *t, const char *s, size_t n, int32_t id)
{
	uint32_t node = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t k = t->trie[node].child;
		while (k && t->trie[k].byte != (uint8_t)s[i])
			k = t->trie[k].next;
		if (!k) {
			mem_grow(&t->trie, &t->cap_trie, t->n_trie + 1, sizeof *t->trie);
			k = (uint32_t)t->n_trie++;
			t->trie[k] = (struct trie_node){(uint8_t)s[i], -1, 0, t->trie[node].child};
			t->trie[node].child = k;
		}
		node = k;
	}
	if (node && t->trie[node].id < 0)
		t->trie[node].id = id;
}

static int role(struct loader *l, const char *key, int32_t *out)
{
	uint64_t v;
	int rc = gguf_get_u64(l->g, key, &v);
	*out = -1;
	if (rc == 0 || (rc > 0 && v == UINT32_MAX))
		return 0;
	if (rc < 0 || v >= l->t->n_vocab)
		return err_set(l->err, l->len, ERR_INVALID, "%s: %s must be an id inside the vocabulary of %zu", gguf_path(l->g), key, l->t->n_vocab);
	*out = (int32_t)v;
	return 0;
}

static int read_ends(struct loader *l)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
	static const char *const known[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|endoftext|>", "<|end|>"};
	struct tokenizer *t = l->t;
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		int32_t id;
		int rc = role(l, keys[i], &id);
		if (rc)
			return rc;
		if (id >= 0)
			t->eog[id] = true;
	}
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		int32_t id = tokenizer_find(t, known[i], strlen(known[i]));
		if (id >= 0 && t->type[id] == TOKEN_CONTROL)
			t->eog[id] = true;
	}
	return 0;
}

static int read_roles(struct loader *l)
{
	struct tokenizer *t = l->t;
	int rc = role(l, "tokenizer.ggml.bos_token_id", &t->bos);
	if (!rc)
		rc = role(l, "tokenizer.ggml.eos_token_id", &t->eos);
	if (!rc)
		rc = role(l, "tokenizer.ggml.unknown_token_id", &t->unk);
	if (rc)
		return rc;
	t->add_bos = t->model == MODEL_SPM;
	t->add_space_prefix = t->model == MODEL_SPM;
	if (gguf_get_bool(l->g, "tokenizer.ggml.add_bos_token", &t->add_bos) < 0 || gguf_get_bool(l->g, "tokenizer.ggml.add_eos_token", &t->add_eos) < 0 ||
	    gguf_get_bool(l->g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix) < 0)
		return fail(l, "tokenizer.ggml.add_bos_token, add_eos_token and add_space_prefix must be true or false");
	return read_ends(l);
}

static int read_pre(struct loader *l)
{
	struct gguf_str pre = {"default", 7};
	char why[3072];
	(void)gguf_get_str(l->g, "tokenizer.ggml.pre", &pre);
	int rc = pretokenizer_create(pre.data, pre.len, &l->t->pre, why, sizeof why);
	if (rc)
		return err_set(l->err, l->len, rc, "%s: %s", gguf_path(l->g), why);
	l->t->nfc = pre.len >= 5 && !memcmp(pre.data, "qwen2", pre.len < 5 ? pre.len : 5); // the file does not say it, the models were trained so
	return 0;
}

int tokenizer_from_gguf(const struct gguf *g, struct tokenizer **out, char *err, size_t len)
{
	struct loader l = {.g = g, .t = mem_zalloc(1, sizeof *l.t), .err = err, .len = len};
	struct tokenizer *t = l.t;
	*out = NULL;
	byte_alphabet(&l);
	int rc = read_model(&l);
	if (!rc)
		rc = read_vocabulary(&l);
	if (!rc) {
		index_vocabulary(&l);
		rc = read_roles(&l);
	}
	if (!rc && t->model == MODEL_BPE)
		rc = read_merges(&l);
	if (!rc && t->model == MODEL_BPE)
		rc = read_pre(&l);
	if (rc) {
		tokenizer_destroy(t);
		return rc;
	}
	mem_grow(&t->trie, &t->cap_trie, 1, sizeof *t->trie);
	t->trie[t->n_trie++] = (struct trie_node){0, -1, 0, 0};
	for (size_t i = 0; i < t->n_vocab; i++)
		if (t->type[i] == TOKEN_CONTROL || t->type[i] == TOKEN_USER_DEFINED || t->type[i] == TOKEN_UNKNOWN)
			trie_add(t, t->pool + t->spelling[i].at, t->spelling[i].n, (int32_t)i);
	*out = t;
	return 0;
}
