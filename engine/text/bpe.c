// SPDX-License-Identifier: Apache-2.0
//
// Byte-level BPE: each word starts as its bytes' tokens; the pair of lowest rank merges first, leftmost on ties. A heap keeps
// it O(n log n), since one word may be a megabyte of the same letter.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/mem.h"

#include <stdlib.h>

struct symbol {
	int32_t id, prev, next; // id -1: merged away
	uint32_t len;
};

struct bpe {
	const struct tokenizer *t;
	struct token_vec *out;
	struct symbol *sym;
	size_t cap;
	struct candidate_heap heap;
};

static void propose(struct bpe *b, int32_t left)
{
	int32_t right = left < 0 ? -1 : b->sym[left].next;
	if (right < 0)
		return;
	const struct merge *m = tokenizer__merge(b->t, b->sym[left].id, b->sym[right].id);
	if (m)
		candidate_push(&b->heap, (struct candidate){m->rank, left, right, b->sym[left].len + b->sym[right].len});
}

static void merge_all(struct bpe *b)
{
	struct candidate c;
	while (candidate_pop(&b->heap, &c)) {
		struct symbol *l = &b->sym[c.left], *r = &b->sym[c.right];
		if (l->id < 0 || r->id < 0 || l->next != c.right || l->len + r->len != c.len)
			continue; // one of them has merged with another since
		const struct merge *m = tokenizer__merge(b->t, l->id, r->id);
		if (!m || m->rank != c.key)
			continue;
		l->id = m->id;
		l->len += r->len;
		l->next = r->next;
		r->id = -1;
		if (l->next >= 0)
			b->sym[l->next].prev = c.left;
		propose(b, l->prev);
		propose(b, c.left);
	}
}

static void encode_word(void *ctx, const char *s, size_t n)
{
	struct bpe *b = ctx;
	const struct tokenizer *t = b->t;
	if (n == 1) {
		if (t->byte_id[(uint8_t)*s] >= 0)
			token_vec_push(b->out, t->byte_id[(uint8_t)*s]);
		return;
	}
	if (pretokenizer_ignores_merges(t->pre)) {
		int32_t id = tokenizer__lookup(t, &t->by_piece, t->piece, s, n);
		if (id >= 0) {
			token_vec_push(b->out, id);
			return;
		}
	}
	int32_t k = 0;
	mem_grow(&b->sym, &b->cap, n, sizeof *b->sym);
	for (size_t i = 0; i < n; i++) {
		int32_t id = t->byte_id[(uint8_t)s[i]];
		if (id < 0)
			continue; // a vocabulary may lack a byte: it vanishes, as in the reference
		b->sym[k] = (struct symbol){id, k - 1, k + 1, 1};
		k++;
	}
	if (!k)
		return;
	b->sym[k - 1].next = -1;
	for (int32_t i = 0; i < k - 1; i++)
		propose(b, i);
	merge_all(b);
	for (int32_t i = 0; i >= 0; i = b->sym[i].next)
		token_vec_push(b->out, b->sym[i].id);
}

void bpe_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out)
{
	struct bpe b = {.t = t, .out = out};
	pretokenizer_split(t->pre, text, n, encode_word, &b);
	free(b.sym);
	free(b.heap.v);
}
