// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as the Unicode standard defines it (table 3-7): no surrogates, no overlong forms, at most U+10FFFF. Any thread.
#ifndef QUIRE_BASE_UTF8_H
#define QUIRE_BASE_UTF8_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Decodes one character of s[0..n). Returns its length, 1 to 4, and *cp. An invalid start gives minus the length of the
// maximal bad part (1 to 3, what becomes one U+FFFD); 0 means that s is a proper prefix of a character.
int utf8_decode(const char *s, size_t n, uint32_t *cp);

// Writes cp to out[4] and returns the length; cp must be a scalar value.
int utf8_encode(uint32_t cp, char out[4]);

bool utf8_valid(const char *s, size_t n);

// Length of the longest prefix of s that does not end inside a character; bad bytes count as whole.
size_t utf8_whole(const char *s, size_t n);

// Appends s to out with one U+FFFD for each maximal bad part, an unfinished tail included.
void utf8_sanitize(struct buf *out, const char *s, size_t n);

#endif
