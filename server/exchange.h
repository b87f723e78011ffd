// SPDX-License-Identifier: Apache-2.0
//
// One HTTP request and its answer, from the request line to the last byte. Made and destroyed by http.c; loop thread,
// but for body and outcome, which a worker owns while `working`.
#ifndef QUIRE_SERVER_EXCHANGE_H
#define QUIRE_SERVER_EXCHANGE_H

#include "engine/base/buf.h"
#include "engine/base/list.h"
#include "server/api.h"
#include "server/sse.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct MHD_Connection;
struct job;
struct route;
struct server;

enum { EXCHANGE_PATH = 1024 };

enum exchange_state {
	EXCHANGE_HEADER,   // the request line is known
	EXCHANGE_BODY,	   // the header was accepted, or an error waits for the body to be read
	EXCHANGE_WAITING,  // suspended for a worker or the engine
	EXCHANGE_ANSWERED, // a response is with the library
};

struct connection { // one TCP or unix connection: the deadlines of its reading phases
	struct list link;
	int fd;
	uint64_t deadline_ns; // 0: none now
	bool heard;			  // something of a request has come, so a late one is told 408
};

struct exchange {
	struct server *server;
	struct MHD_Connection *mhd;
	struct connection *conn;
	struct list link;  // of the server's exchanges
	struct list ready; // of those to be resumed
	enum exchange_state state;
	char request_id[40];

	// The request.
	bool bad_uri;			   // its line has a %00
	const char *method;		   // the library's, while the exchange lives
	char path[EXCHANGE_PATH];  // normalised
	const struct route *route; // NULL: none
	const char *rest;		   // of a prefix route's path
	char *body;
	size_t n_body, cap_body, n_seen; // n_seen: with what was thrown away
	uint64_t arrival_ns;			 // when it was read whole

	// Its work.
	bool suspended; // in the library
	bool watched;	// for its client going away
	bool gone;		// its client has gone
	bool working;	// a worker has it
	bool big;		// counted among the big bodies
	uv_work_t work;
	struct list big_link; // in the queue of big bodies
	struct outcome outcome;
	struct job *job; // NULL: it does not generate
	struct sse sse;

	// Its answer.
	struct api_error error; // status != 0: this is the answer
	bool answer_ready;
	int status;
	const char *content_type;
	struct buf answer;
	bool close; // the connection closes afterwards
};

// Answers with what is in ex->answer.
void exchange_answer(struct exchange *ex, int status, const char *content_type);

// Answers with an error.
void exchange_fail(struct exchange *ex, const struct api_error *e);

// Something to write, or the end: has the library come back to a suspended exchange. The loop pumps afterwards.
void exchange_wake(struct exchange *ex);

// Its client has gone, or must go: cancels the work and closes the connection.
void exchange_abandon(struct exchange *ex);

// A header of the request, or NULL.
const char *exchange_header(const struct exchange *ex, const char *name);

#endif
