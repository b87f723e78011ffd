// SPDX-License-Identifier: Apache-2.0
//
// An arena: many small allocations that live and die together (one HTTP request, one template render). It has a limit
// in bytes, so that nothing fed by the network can grow without bound. One thread at a time; it may be handed on.
#ifndef QUIRE_BASE_ARENA_H
#define QUIRE_BASE_ARENA_H

#include <stddef.h>

struct arena_page;

struct arena {
	struct arena_page *pages; // newest first
	size_t used;              // bytes handed out, rounding included
	size_t limit;             // most bytes it may hand out; 0: no limit
};

void arena_init(struct arena *a, size_t limit);
void arena_deinit(struct arena *a); // frees every allocation; the arena may be used again after arena_init

// 16-byte aligned, uninitialised; NULL only when the limit would be passed.
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
char *arena_strndup(struct arena *a, const char *s, size_t n); // copies n bytes and terminates them

#endif
