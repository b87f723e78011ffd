// SPDX-License-Identifier: Apache-2.0
#include "engine/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int err_set(char *err, size_t len, int code, const char *fmt, ...)
{
	if (err && len) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(err, len, fmt, ap);
		va_end(ap);
	}
	return code;
}

const char *err_name(int code)
{
	static const char *const names[] = {"ok",          "invalid",   "out of memory", "i/o",      "over a limit",
	                                    "unsupported", "not found", "busy",          "cancelled", "internal"};
	int i = -code;
	return i >= 0 && i < (int)(sizeof names / sizeof names[0]) ? names[i] : "unknown";
}

_Noreturn void err__die(const char *file, int line, const char *cond, const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "%s:%d: check failed: %s ", file, line, cond);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}
