// SPDX-License-Identifier: Apache-2.0
#include "engine/base/buf.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b)
{
	*b = (struct buf){0};
}

void buf_deinit(struct buf *b)
{
	free(b->data);
	*b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = 0;
}

void buf_reserve(struct buf *b, size_t more)
{
	mem_grow(&b->data, &b->cap, b->len + more + 1, 1);
}

void buf_append(struct buf *b, const void *p, size_t n)
{
	buf_reserve(b, n);
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = 0;
}

void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	buf_append(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	CHECK(n >= 0, "bad format %s", fmt);
	buf_reserve(b, (size_t)n);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
	va_end(again);
	b->len += (size_t)n;
}

void buf_consume(struct buf *b, size_t n)
{
	CHECK(n <= b->len, "%zu of %zu", n, b->len);
	if (!n)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

char *buf_take(struct buf *b)
{
	buf_reserve(b, 0);
	b->data[b->len] = 0;
	char *p = b->data;
	*b = (struct buf){0};
	return p;
}
