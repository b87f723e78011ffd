// SPDX-License-Identifier: Apache-2.0
//
// Every limit on what a client may send or hold, in one table. limits_default fills it; an option may change each
// member before server_create, nothing changes it afterwards.
#ifndef QUIRE_SERVER_LIMITS_H
#define QUIRE_SERVER_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct limits {
	size_t max_body_bytes;		// of one request: 413
	size_t max_bodies_bytes;	// of all bodies being read or parsed at once: 503
	size_t max_header_bytes;	// request line and header fields: 431
	int max_headers;			// 431
	uint64_t header_timeout_ns; // from the connection (or the request line) to the end of the header, however slowly
								// bytes come
	uint64_t body_timeout_ns;	// from the end of the header to the end of the body: 408
	uint64_t idle_timeout_ns;	// a connection between requests, or a reader that takes nothing of a plain reply
	int max_connections;		// 0: what the descriptor limit allows; more wait in the backlog
	int json_depth;				// nesting of arrays and objects: 400
	size_t json_values;			// values in one body: bounds what a small body can become in memory
	size_t big_body_bytes;		// bodies over this are parsed by at most half of the workers
	int max_n;					// choices of one prompt
	int max_prompts;			// prompts × choices of one completion request
	int max_messages;
	int max_stops;		   // stop strings
	size_t max_stop_bytes; // of one stop string
	int max_stop_ids;
	int max_logprobs;
	size_t stream_soft_bytes; // unsent bytes of a stream above which its sequences are not scheduled
	size_t stream_hard_bytes; // above which it is cancelled
	uint64_t stream_stall_ns; // a stream whose client takes nothing for so long is cancelled
	uint64_t heartbeat_ns;	  // silence after which a stream carries a comment
};

void limits_default(struct limits *l);

#endif
