// SPDX-License-Identifier: Apache-2.0
//
// The framing of server-sent events, and the buffer between an engine that writes and a socket that takes. Time and
// limits are arguments. The caller's storage; loop thread.
#ifndef QUIRE_SERVER_SSE_H
#define QUIRE_SERVER_SSE_H

#include "engine/base/buf.h"
#include "server/limits.h"

#include <stdbool.h>
#include <stdint.h>

// One event is sse_begin, one line of JSON, sse_end.
void sse_begin(struct buf *out);
void sse_end(struct buf *out);

struct sse {
	struct buf out; // events; the first `sent` bytes are gone
	size_t sent;
	uint64_t progress_ns; // when the client last took bytes, or had none to take
	uint64_t written_ns;  // when something was last appended
	bool paused;		  // the engine was told not to schedule this request
};

enum sse_pressure {
	SSE_FLOWS,	// nothing to do
	SSE_PAUSE,	// over the soft limit: pause its sequences
	SSE_RESUME, // paused, and the client has caught up
	SSE_DROP,	// over the hard limit, or stuck for too long: cancel
};

void sse_init(struct sse *s, uint64_t now_ns);
void sse_deinit(struct sse *s);
size_t sse_pending(const struct sse *s);

// After something was appended to s->out; pending is what it was before.
void sse_wrote(struct sse *s, size_t pending, uint64_t now_ns);

// Moves at most max bytes to `to`; returns how many.
size_t sse_take(struct sse *s, char *to, size_t max, uint64_t now_ns);

// Appends a comment if nothing was written for a while; true if it did.
bool sse_heartbeat(struct sse *s, const struct limits *l, uint64_t now_ns);

enum sse_pressure sse_pressure(const struct sse *s, const struct limits *l, uint64_t now_ns);

#endif
