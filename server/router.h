// SPDX-License-Identifier: Apache-2.0
//
// Paths to what answers them. OpenAI's routes answer with and without /v1, because clients join their base URL and the
// path as text. Any thread.
#ifndef QUIRE_SERVER_ROUTER_H
#define QUIRE_SERVER_ROUTER_H

#include "server/api.h"

#include <stdbool.h>
#include <stddef.h>

struct exchange;

enum { ROUTE_V1 = 1, ROUTE_OPEN = 2, ROUTE_METRICS = 4, ROUTE_REST = 8, ROUTE_GENERATES = 16 };

struct route {
	const char *path;
	unsigned flags;										// V1: also under /v1; OPEN: needs no key; REST: a prefix, what
														// follows belongs to the handler; GENERATES: needs the engine
	void (*get)(struct exchange *ex, const char *rest); // loop thread: answers at once; NULL: no GET
	api_prepare_fn prepare;								// worker: NULL: no POST
};

// url as the library decoded it, to out: absolute form cut to its path, runs of '/' collapsed, one trailing '/'
// dropped.
void router_normalise(const char *url, char *out, size_t len);

// NULL: no such path. *rest: what follows a prefix.
const struct route *router_find(const char *path, const char **rest);

bool route_allows(const struct route *r, const char *method);
const char *route_methods(const struct route *r); // the value of Allow

#endif
