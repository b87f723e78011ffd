// SPDX-License-Identifier: Apache-2.0
//
// What is refused by the header alone: framing that a proxy might read differently, sizes, unknown paths and methods,
// missing keys. Loop thread.
#ifndef QUIRE_SERVER_HTTP_CHECK_H
#define QUIRE_SERVER_HTTP_CHECK_H

#include "server/exchange.h"

enum http_verdict {
	HTTP_READ_ON,	 // accepted; or the error waits for the body
	HTTP_ANSWER_NOW, // the error goes out at once and the connection closes
};

// err is filled if the request is refused. ex->close may be set.
enum http_verdict http_check(struct exchange *ex, const char *version, struct api_error *err);

#endif
