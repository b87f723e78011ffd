// SPDX-License-Identifier: Apache-2.0
//
// Which web pages may read our replies. Pages served from this machine may; others only if the operator lists their
// origin. Any thread.
#ifndef QUIRE_SERVER_CORS_H
#define QUIRE_SERVER_CORS_H

#include <stdbool.h>
#include <stddef.h>

struct cors {
	const char *const *origins; // borrowed; "*" allows all
	size_t n;
};

// The value of Access-Control-Allow-Origin for a request with this Origin (NULL: none); NULL: no header.
const char *cors_allow(const struct cors *c, const char *origin);

// http(s)://localhost, 127.0.0.1 or [::1], on any port; exactly, never a name that only begins so.
bool cors_is_loopback(const char *origin);

#endif
