// SPDX-License-Identifier: Apache-2.0
//
// The only place where loop and engine meet. Requests get ids made of a slot and its generation, so that a late event
// of a dead request finds nobody; the engine's thread wakes the loop by one uv_async per step. Loop thread, but
// bridge_create, bridge_on_events and bridge_destroy.
#ifndef QUIRE_SERVER_BRIDGE_H
#define QUIRE_SERVER_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bridge;
struct engine;
struct engine_event;
struct metrics;
struct submission;
struct uv_loop_s;

struct bridge *bridge_create(void);
void bridge_on_events(void *bridge);   // for engine_open: any thread, also before bridge_attach
void bridge_destroy(struct bridge *b); // after the engine is closed; NULL is allowed

struct bridge_owner { // who hears of events
	void (*on_event)(void *owner, int tag, const struct engine_event *ev);
	void (*on_batch)(void *ctx); // after all events of a wake-up
	void *ctx;
};

int bridge_attach(struct bridge *b, struct uv_loop_s *loop, struct engine *e, struct metrics *m,
				  const struct bridge_owner *owner);
void bridge_detach(struct bridge *b); // the handle closes in the loop's next turn; later events are not delivered

// Submits; s->id is set to the new id. owner and tag come back with every event. Errors are engine_submit's.
int bridge_submit(struct bridge *b, struct submission *s, uint64_t arrival_ns, void *owner, int tag, char *err,
				  size_t len);

void bridge_cancel(struct bridge *b, uint64_t id); // its EVENT_DONE still comes
void bridge_pause(struct bridge *b, uint64_t id, bool paused);

// The owner goes away: cancels what still runs and delivers nothing more.
void bridge_release(struct bridge *b, uint64_t id);

#endif
