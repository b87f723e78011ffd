// SPDX-License-Identifier: Apache-2.0
//
// SentencePiece BPE: spaces become "▁", symbols start as characters, the pair whose piece has the best score merges first
// (leftmost on ties); what is no piece in the end falls back to byte tokens.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct symbol {
	uint32_t at, len; // of the text; len 0: merged away
	int32_t prev, next;
};

struct spm {
	const struct tokenizer *t;
	const char *text;
	struct symbol *sym;
	struct candidate_heap heap;
};

// Floats in an order that integers keep, best score first.
static int64_t key_of(float score)
{
	union {
		float f;
		int32_t i;
	} v = {.f = score};
	int64_t ordered = v.i >= 0 ? v.i : (int64_t)INT32_MIN - v.i;
	return -ordered;
}

static void propose(struct spm *s, int32_t left)
{
	int32_t right = left < 0 ? -1 : s->sym[left].next;
	if (right < 0)
		return;
	uint32_t len = s->sym[left].len + s->sym[right].len;
	if (len > s->t->max_piece * 3) // "▁" is written with three bytes and stands for one
		return;
	int32_t id = tokenizer_find(s->t, s->text + s->sym[left].at, len);
	if (id >= 0)
		candidate_push(&s->heap, (struct candidate){key_of(s->t->score[id]), left, right, len});
}

static void merge_all(struct spm *s)
{
	struct candidate c;
	while (candidate_pop(&s->heap, &c)) {
		struct symbol *l = &s->sym[c.left], *r = &s->sym[c.right];
		if (!l->len || !r->len || l->next != c.right || l->len + r->len != c.len)
			continue;
		l->len = c.len;
		l->next = r->next;
		r->len = 0;
		if (l->next >= 0)
			s->sym[l->next].prev = c.left;
		propose(s, l->prev);
		propose(s, c.left);
	}
}

static void emit(const struct spm *s, const struct symbol *y, struct token_vec *out)
{
	int32_t id = tokenizer_find(s->t, s->text + y->at, y->len);
	if (id >= 0 && s->t->type[id] != TOKEN_BYTE && s->t->type[id] != TOKEN_CONTROL) {
		token_vec_push(out, id);
		return;
	}
	for (uint32_t i = 0; i < y->len; i++) {
		id = s->t->byte_id[(uint8_t)s->text[y->at + i]];
		if (id < 0)
			id = s->t->unk;
		if (id >= 0)
			token_vec_push(out, id);
	}
}

void spm_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out)
{
	struct buf b;
	buf_init(&b);
	buf_reserve(&b, n + 3);
	if (t->add_space_prefix)
		buf_append(&b, "\xE2\x96\x81", 3);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == ' ')
			buf_append(&b, "\xE2\x96\x81", 3);
		else
			buf_putc(&b, text[i]);
	}
	struct spm s = {.t = t, .text = b.data, .sym = mem_alloc(b.len * sizeof *s.sym)};
	int32_t k = 0;
	for (size_t i = 0; i < b.len; k++) {
		uint32_t cp;
		int len = utf8_decode(b.data + i, b.len - i, &cp);
		if (len <= 0)
			len = 1; // a bad byte is a symbol of its own
		s.sym[k] = (struct symbol){(uint32_t)i, (uint32_t)len, k - 1, k + 1};
		i += (size_t)len;
	}
	if (k) {
		s.sym[k - 1].next = -1;
		for (int32_t i = 0; i < k - 1; i++)
			propose(&s, i);
		merge_all(&s);
		for (int32_t i = 0; i >= 0; i = s.sym[i].next)
			emit(&s, &s.sym[i], out);
	}
	free(s.sym);
	free(s.heap.v);
	buf_deinit(&b);
}
