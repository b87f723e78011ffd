// SPDX-License-Identifier: Apache-2.0
//
// libmicrohttpd's callbacks: reading requests within limits, refusing what a proxy in front might read differently,
// answering. Loop thread, from server_pump only.
#ifndef QUIRE_SERVER_HTTP_H
#define QUIRE_SERVER_HTTP_H

#include <stddef.h>
#include <stdint.h>

struct server;

// Starts the library on s->listen_fd. ERR_* with a message.
int http_start(struct server *s, char *err, size_t len);

// Ends it: no exchange may be suspended any more.
void http_stop(struct server *s);

// Closes connections whose request is overdue.
void http_sweep(struct server *s, uint64_t now_ns);

#endif
