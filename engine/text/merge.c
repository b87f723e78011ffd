// SPDX-License-Identifier: Apache-2.0
//
// Merging inside a word: a list of symbols and a heap of pairs, since one word may be a megabyte of the same letter.
// A pair in the heap whose symbols have merged otherwise since is recognised when its turn comes.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/mem.h"

#include <stdlib.h>

static bool before(const struct candidate *a, const struct candidate *b)
{
	return a->key != b->key ? a->key < b->key : a->left < b->left;
}

// Four children to a node: half the levels, and the children of one lie side by side.
static void push(struct merger *m, struct candidate c)
{
	mem_grow(&m->heap, &m->cap_heap, m->n_heap + 1, sizeof *m->heap);
	size_t i = m->n_heap++;
	for (; i && before(&c, &m->heap[(i - 1) / 4]); i = (i - 1) / 4)
		m->heap[i] = m->heap[(i - 1) / 4];
	m->heap[i] = c;
}

static struct candidate pop(struct merger *m)
{
	struct candidate top = m->heap[0], last = m->heap[--m->n_heap];
	size_t i = 0;
	for (size_t k; (k = 4 * i + 1) < m->n_heap; i = k) {
		size_t end = k + 4 < m->n_heap ? k + 4 : m->n_heap;
		for (size_t j = k + 1; j < end; j++)
			if (before(&m->heap[j], &m->heap[k]))
				k = j;
		if (!before(&m->heap[k], &last))
			break;
		m->heap[i] = m->heap[k];
	}
	m->heap[i] = last;
	return top;
}

static void propose(struct merger *m, int32_t left)
{
	if (left < 0 || m->sym[left].next < 0)
		return;
	const struct symbol *l = &m->sym[left], *r = &m->sym[l->next];
	struct candidate c = {.left = left, .len = l->len + r->len};
	if (m->t->model == MODEL_BPE ? bpe_pair(m->t, l, r, &c.id, &c.key) : spm_pair(m->t, m->word, l, r, &c.id, &c.key))
		push(m, c);
}

void merger_start(struct merger *m, const char *word)
{
	m->word = word;
	m->n = m->n_heap = 0;
}

void merger_add(struct merger *m, size_t at, size_t len, int32_t id)
{
	int32_t k = (int32_t)m->n;
	mem_grow(&m->sym, &m->cap, m->n + 1, sizeof *m->sym);
	m->sym[m->n++] = (struct symbol){(uint32_t)at, (uint32_t)len, id, k - 1, -1};
	if (k)
		m->sym[k - 1].next = k;
}

void merger_run(struct merger *m)
{
	for (size_t i = 0; i < m->n; i++)
		propose(m, (int32_t)i);
	while (m->n_heap) {
		struct candidate c = pop(m);
		struct symbol *l = &m->sym[c.left];
		// A symbol and the next only ever grow together: as long as then means unchanged.
		if (!l->len || l->next < 0 || l->len + m->sym[l->next].len != c.len)
			continue;
		struct symbol *r = &m->sym[l->next];
		l->len = c.len;
		l->id = c.id;
		l->next = r->next;
		r->len = 0;
		if (l->next >= 0)
			m->sym[l->next].prev = c.left;
		propose(m, l->prev);
		propose(m, c.left);
	}
}

void merger_deinit(struct merger *m)
{
	free(m->sym);
	free(m->heap);
}
