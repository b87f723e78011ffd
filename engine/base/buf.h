// SPDX-License-Identifier: Apache-2.0
//
// A growable byte buffer, always terminated by a NUL that len does not count. The caller's storage; one thread.
#ifndef QUIRE_BASE_BUF_H
#define QUIRE_BASE_BUF_H

#include <stddef.h>

struct buf {
	char *data; // NULL until the first append
	size_t len, cap;
};

void buf_init(struct buf *b);
void buf_deinit(struct buf *b);
void buf_clear(struct buf *b); // length 0, memory kept
void buf_reserve(struct buf *b, size_t more);
void buf_append(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); // drops the first n bytes
char *buf_take(struct buf *b);             // the bytes, terminated, now the caller's (free()); the buffer is empty

#endif
