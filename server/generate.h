// SPDX-License-Identifier: Apache-2.0
//
// Carries a job through the engine: submits it, feeds its events to the reply, minds back-pressure. Loop thread.
#ifndef QUIRE_SERVER_GENERATE_H
#define QUIRE_SERVER_GENERATE_H

#include "server/exchange.h"

struct engine_event;

// ex->job was prepared; answers with an error if the engine does not take it.
void generate_start(struct exchange *ex);

// The bridge's on_event: owner is the exchange, tag the prompt.
void generate_on_event(void *owner, int tag, const struct engine_event *ev);

// After the client took bytes, and from time to time: heartbeats, pauses, and an end to clients that take nothing.
void generate_check(struct exchange *ex, uint64_t now_ns);

// Cancels what still runs; no event comes any more.
void generate_release(struct exchange *ex);

// Ends a running job with an error, such as at the end of a drain.
void generate_fail(struct exchange *ex, const struct api_error *e);

#endif
