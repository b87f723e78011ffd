// SPDX-License-Identifier: Apache-2.0
//
// The fields that would change what text comes out, or what shape comes back, and that this server does not do. They
// are refused by name, never silently ignored. A value that asks for nothing (null, false, 0, "", [], {}) is fine. Any
// thread.
#ifndef QUIRE_SERVER_REFUSED_H
#define QUIRE_SERVER_REFUSED_H

#include "server/api_error.h"

#include <jansson.h>

// routes: PARAMS_* of params.h. 0, or ERR_INVALID with a 400 that says what would work.
int refused_check(unsigned route, const json_t *body, struct api_error *err);

#endif
