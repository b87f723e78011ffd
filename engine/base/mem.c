// SPDX-License-Identifier: Apache-2.0
#include "engine/base/mem.h"

#include "engine/base/err.h"

#include <stdlib.h>
#include <string.h>

static void *must(void *p, size_t n)
{
	CHECK(p, "out of memory for %zu bytes", n);
	return p;
}

void *mem_alloc(size_t n)
{
	return must(malloc(n ? n : 1), n);
}

void *mem_zalloc(size_t count, size_t size)
{
	size_t n;
	CHECK(mem_mul(count, size, &n), "%zu * %zu", count, size);
	return must(calloc(n ? n : 1, 1), n);
}

void *mem_realloc(void *p, size_t n)
{
	return must(realloc(p, n ? n : 1), n);
}

char *mem_strndup(const char *s, size_t n)
{
	char *p = mem_alloc(n + 1);
	memcpy(p, s, n);
	p[n] = 0;
	return p;
}

char *mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

void mem_grow(void *p, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap)
		return;
	size_t n = *cap ? *cap : 8, bytes;
	while (n < need)
		n *= 2;
	CHECK(mem_mul(n, size, &bytes), "%zu * %zu", n, size);
	void **slot = p;
	*slot = mem_realloc(*slot, bytes);
	*cap = n;
}
