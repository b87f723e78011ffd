// SPDX-License-Identifier: Apache-2.0
//
// Small allocations that may not fail: running out of them aborts in one place, mem.c. Big things (KV blocks,
// request bodies, weights) do not come from here; they fail as an error. Any thread.
#ifndef QUIRE_BASE_MEM_H
#define QUIRE_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *mem_alloc(size_t n);             // uninitialised; n == 0 gives a unique pointer
void *mem_zalloc(size_t count, size_t size); // zeroed; count * size is checked for overflow
void *mem_realloc(void *p, size_t n);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); // copies n bytes and terminates them

// Grows the array *p of *cap elements of the given size so that it holds at least need; doubles.
void mem_grow(void *p, size_t *cap, size_t need, size_t size);

// a * b and a + b into *out; false on overflow. For every size that comes from a file or the network.
static inline bool mem_mul(size_t a, size_t b, size_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}
static inline bool mem_add(size_t a, size_t b, size_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

#endif
