// SPDX-License-Identifier: Apache-2.0
//
// Errors. An expected failure is a negative ERR_* code; the text for a person is written once, at the edge, into
// a caller's buffer. A programmer's error is caught by CHECK, which prints what it saw and aborts.
// Any thread may call everything here.
#ifndef QUIRE_BASE_ERR_H
#define QUIRE_BASE_ERR_H

#include <stddef.h>

enum {
	ERR_INVALID = -1,     // the input breaks a rule; the message names the field and the value that would work
	ERR_NOMEM = -2,       // something big (a pool, a body) could not be had
	ERR_IO = -3,          // the operating system said no
	ERR_LIMIT = -4,       // a length, count, depth or time is over its limit
	ERR_UNSUPPORTED = -5, // well-formed, but not something this build does
	ERR_NOTFOUND = -6,
	ERR_BUSY = -7,        // try again later: a queue is full, or the engine drains
	ERR_CANCELLED = -8,
	ERR_INTERNAL = -9,
};

// Writes a message into err (always terminated, cut to fit; NULL is allowed) and returns code, so that
// a parser can say `return err_set(err, len, ERR_INVALID, "…")`.
int err_set(char *err, size_t len, int code, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

// The code's short name, such as "invalid"; for logs.
const char *err_name(int code);

#define CHECK(cond, ...)                                                                                               \
	do {                                                                                                               \
		if (__builtin_expect(!(cond), 0))                                                                              \
			err__die(__FILE__, __LINE__, #cond, "" __VA_ARGS__);                                                       \
	} while (0)

_Noreturn void err__die(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
