// SPDX-License-Identifier: Apache-2.0
//
// The HTTP server: what main needs of it. Order of life: bridge_create, engine_open(bridge_on_events, bridge),
// server_create, server_run, server_destroy, engine_close, bridge_destroy. All from one thread, which becomes the loop
// thread.
#ifndef QUIRE_SERVER_SERVER_H
#define QUIRE_SERVER_SERVER_H

#include "server/bridge.h"
#include "server/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct server;

struct server_options {			 // borrowed until server_destroy
	const char *host;			 // NULL: "127.0.0.1"; an address, a name, or "unix:/path"
	int port;					 // 0: a free one is chosen (server_port says which)
	const char *const *api_keys; // none: no key is needed
	size_t n_api_keys;
	const char *admin_key;			 // NULL: none; opens everything that an api key opens
	const char *const *cors_origins; // beside the loopback ones; "*" allows every origin
	size_t n_cors_origins;
	bool open_metrics;	  // /metrics needs no key
	const char *tls_cert; // PEM files; both or neither
	const char *tls_key;
	const char *const *served_names; // at least one; the first is the one echoed
	size_t n_served_names;
	struct limits limits; // limits_default, then changed
	uint64_t drain_timeout_ns;
	bool trust_request_chat_template; // accept chat_template in chat requests
};

// Binds and gets ready to serve. A port in use is ERR_IO, its message names the host, the port and --port.
int server_create(const struct server_options *o, struct engine *e, struct bridge *b, struct server **out, char *err,
				  size_t len);

// The port that was bound; 0 for a unix socket.
int server_port(const struct server *s);

// Serves until SIGTERM or SIGINT has drained: running requests finish, new ones get 503, at most drain_timeout_ns; a
// second signal ends it at once. Returns 0.
int server_run(struct server *s);

void server_destroy(struct server *s); // NULL is allowed

#endif
