// SPDX-License-Identifier: Apache-2.0
//
// Events on their way from the engine's thread to the loop: two byte buffers of fixed size that change places. A producer
// that finds its buffer full wakes the consumer and waits, so memory is bounded and no event is ever dropped.
// One producer thread, one consumer thread.
#ifndef QUIRE_ENGINE_OUTBOX_H
#define QUIRE_ENGINE_OUTBOX_H

#include "engine/engine.h"

struct outbox;

struct outbox *outbox_create(size_t bytes, void (*wake)(void *ctx), void *ctx);
void outbox_destroy(struct outbox *o);

// Producer: copies the event with its text and alternatives. They must fit a quarter of the box.
void outbox_put(struct outbox *o, const struct engine_event *ev);
// Producer: after a step; wakes the consumer if anything was put since the last flush.
void outbox_flush(struct outbox *o);
// Any thread: from now on a full box drops events instead of waiting (nobody reads any more).
void outbox_close(struct outbox *o);

// Consumer: calls fn for each event put so far. Returns how many.
size_t outbox_drain(struct outbox *o, void (*fn)(void *ctx, const struct engine_event *ev), void *ctx);

#endif
