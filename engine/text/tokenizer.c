// SPDX-License-Identifier: Apache-2.0
//
// The front: specials are found first, by a trie; the text between them goes to the model.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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

int32_t tokenizer__lookup(const struct tokenizer *t, const struct id_table *table, const struct span *spans, const char *s, size_t n)
{
	for (size_t i = hash_bytes(0, s, n) & table->mask; table->slot[i]; i = (i + 1) & table->mask) {
		uint32_t id = table->slot[i] - 1;
		if (spans[id].n == n && !memcmp(t->pool + spans[id].at, s, n))
			return (int32_t)id;
	}
	return -1;
}

const struct merge *tokenizer__merge(const struct tokenizer *t, int32_t left, int32_t right)
{
	uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	for (size_t i = hash_bytes(1, &pair, sizeof pair) & t->merge_mask; t->merges[i].id >= 0; i = (i + 1) & t->merge_mask)
		if (t->merges[i].pair == pair)
			return &t->merges[i];
	return NULL;
}

// --- the heap of both models

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->key != b->key ? a->key < b->key : a->left < b->left;
}

void candidate_push(struct candidate_heap *h, struct candidate c)
{
	mem_grow(&h->v, &h->cap, h->n + 1, sizeof *h->v);
	size_t i = h->n++;
	for (; i && before(&c, &h->v[(i - 1) / 2]); i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = c;
}

bool candidate_pop(struct candidate_heap *h, struct candidate *out)
{
	if (!h->n)
		return false;
	*out = h->v[0];
	struct candidate last = h->v[--h->n];
	size_t i = 0;
	for (size_t k; (k = 2 * i + 1) < h->n; i = k) {
		if (k + 1 < h->n && before(&h->v[k + 1], &h->v[k]))
			k++;
		if (!before(&h->v[k], &last))
			break;
		h->v[i] = h->v[k];
	}
	h->v[i] = last;
	return true;
}

// --- encoding

// The longest special that begins at s, or -1. Control tokens count only if parse is set and all their bytes are untainted.
static int32_t special_at(const struct tokenizer *t, const char *s, size_t n, const uint8_t *taint, bool parse, size_t *len)
{
	int32_t best = -1;
	uint32_t node = 0;
	bool clean = true;
	for (size_t i = 0; i < n; i++) {
		uint32_t k = t->trie[node].child;
		while (k && t->trie[k].byte != (uint8_t)s[i])
			k = t->trie[k].next;
		if (!k)
			break;
		node = k;
		clean = clean && !(taint && taint[i]);
		int32_t id = t->trie[node].id;
		if (id >= 0 && (t->type[id] == TOKEN_USER_DEFINED || (parse && clean))) {
			best = id;
			*len = i + 1;
		}
	}
	return best;
}

static void encode_plain(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out)
{
	if (!n)
		return;
	utf8proc_uint8_t *normal = NULL;
	if (t->nfc && utf8_valid(text, n)) {
		utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &normal, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
		if (len >= 0) {
			text = (const char *)normal;
			n = (size_t)len;
		}
	}
	if (t->model == MODEL_BPE)
		bpe_encode(t, text, n, out);
	else
		spm_encode(t, text, n, out);
	free(normal);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, const uint8_t *taint, unsigned flags,
                     struct token_vec *out)
{
	bool parse = flags & TOKENIZE_PARSE_SPECIAL, add = flags & TOKENIZE_ADD_SPECIAL;
	if (n > MAX_TEXT)
		return ERR_LIMIT;
	if (add && t->add_bos && t->bos >= 0)
		token_vec_push(out, t->bos);
	size_t done = 0;
	for (size_t i = 0; i < n;) {
		size_t len = 0;
		int32_t id = special_at(t, text + i, n - i, taint ? taint + i : NULL, parse, &len);
		if (id < 0) {
			i++;
			continue;
		}
		encode_plain(t, text + done, i - done, out);
		token_vec_push(out, id);
		i += len;
		done = i;
	}
	encode_plain(t, text + done, n - done, out);
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
	free(t->by_piece.slot);
	free(t->merges);
	free(t->trie);
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
	return t->model == MODEL_SPM && t->add_space_prefix;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && (size_t)id < t->n_vocab && t->eog[id];
}
