// SPDX-License-Identifier: Apache-2.0
//
// An intrusive doubly linked list with a head node: O(1) everywhere, no allocation. A node outside of any list points
// to itself, so list_remove may be called twice.
#ifndef QUIRE_BASE_LIST_H
#define QUIRE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))
#define LIST_FOREACH(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
// The body may remove `it`.
#define LIST_FOREACH_SAFE(it, head)                                                                                    \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_insert_before(struct list *at, struct list *n)
{
	n->prev = at->prev;
	n->next = at;
	at->prev->next = n;
	at->prev = n;
}
static inline void list_push_back(struct list *head, struct list *n)
{
	list_insert_before(head, n);
}
static inline void list_push_front(struct list *head, struct list *n)
{
	list_insert_before(head->next, n);
}
static inline void list_remove(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = n;
}

#endif
