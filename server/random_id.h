// SPDX-License-Identifier: Apache-2.0
//
// Identifiers that nobody can guess: a prefix and 96 random bits in hexadecimal. Any thread.
#ifndef QUIRE_SERVER_RANDOM_ID_H
#define QUIRE_SERVER_RANDOM_ID_H

#include <stddef.h>

enum { RANDOM_ID_DIGITS = 24 };

// out has room for the prefix, 24 digits and the NUL.
void random_id(char *out, size_t len, const char *prefix);

#endif
