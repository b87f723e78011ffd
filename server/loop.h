// SPDX-License-Identifier: Apache-2.0
//
// The server's state, all of it the loop thread's, and the pump: the only function that runs the HTTP library.
#ifndef QUIRE_SERVER_LOOP_H
#define QUIRE_SERVER_LOOP_H

#include "engine/base/list.h"
#include "server/api.h"
#include "server/auth.h"
#include "server/cors.h"
#include "server/metrics.h"
#include "server/server.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct MHD_Daemon;

struct server {
	struct server_options opt;
	struct engine *engine;
	struct bridge *bridge;
	struct api_context ctx;
	struct auth auth;
	struct cors cors;
	struct metrics metrics;

	uv_loop_t loop;
	uv_poll_t mhd_poll, hup_poll;
	uv_timer_t mhd_timer, sweep_timer;
	uv_idle_t idle;
	uv_signal_t sigterm, sigint;
	bool handles_open;

	struct MHD_Daemon *daemon;
	int listen_fd, port;
	int hup_fd; // epoll of the sockets whose clients we wait for
	char *unix_path;
	char *tls_cert, *tls_key; // file contents

	struct list connections, exchanges, ready, big_waiting;
	int n_busy;	   // exchanges past their body
	int n_working; // exchanges with a worker
	int n_big;	   // of them, with a big body
	size_t bodies_bytes;

	bool pumping, closed_in_run;
	uint64_t progress; // bumped by every callback of the library: tells a backlog from a spin

	int signals;
	bool draining, drain_failed;
	uint64_t drain_end_ns;
};

// Runs the library until it has nothing to do now, and arms what calls again. Never from inside one of its callbacks'
// callers.
void server_pump(struct server *s);

// Starts and stops watching an exchange's socket for its client going away.
struct exchange;
void server_watch(struct server *s, struct exchange *ex);
void server_unwatch(struct server *s, struct exchange *ex);

#endif
