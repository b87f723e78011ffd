// SPDX-License-Identifier: Apache-2.0
#include "engine/base/arena.h"

#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 16 * 1024, ALIGN = 16 };

struct arena_page {
	struct arena_page *next;
	size_t used, cap;
	_Alignas(ALIGN) char data[];
};

void arena_init(struct arena *a, size_t limit)
{
	*a = (struct arena){.limit = limit};
}

void arena_deinit(struct arena *a)
{
	for (struct arena_page *p = a->pages, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	a->pages = NULL;
	a->used = 0;
}

void *arena_alloc(struct arena *a, size_t n)
{
	size_t want;
	if (!mem_add(n, ALIGN - 1, &want))
		return NULL;
	want &= ~(size_t)(ALIGN - 1);
	if (a->limit && want > a->limit - (a->used < a->limit ? a->used : a->limit))
		return NULL;
	struct arena_page *p = a->pages;
	if (!p || p->cap - p->used < want) {
		size_t cap = want > PAGE / 4 ? want : PAGE;
		p = mem_alloc(sizeof *p + cap);
		p->used = 0;
		p->cap = cap;
		// A big allocation gets a page of its own behind the head, so that the head's rest stays in use.
		if (a->pages && cap == want) {
			p->next = a->pages->next;
			a->pages->next = p;
		} else {
			p->next = a->pages;
			a->pages = p;
		}
	}
	void *out = p->data + p->used;
	p->used += want;
	a->used += want;
	return out;
}

void *arena_zalloc(struct arena *a, size_t n)
{
	void *p = arena_alloc(a, n);
	return p ? memset(p, 0, n) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = n < (size_t)-1 ? arena_alloc(a, n + 1) : NULL;
	if (!p)
		return NULL;
	memcpy(p, s, n);
	p[n] = 0;
	return p;
}
