// SPDX-License-Identifier: Apache-2.0
#include "server/bridge.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "server/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

struct slot {
	uint32_t generation;
	bool in_use;
	void *owner; // NULL: released
	int tag;
	struct request_meter meter;
	uint32_t next_free; // index + 1
};

struct bridge {
	pthread_mutex_t lock; // guards `attached` against the engine's thread
	bool attached;
	uv_async_t async;
	struct engine *engine;
	struct metrics *metrics;
	struct bridge_owner owner;
	struct slot *slots;
	size_t n_slots, cap_slots;
	uint32_t free_list; // index + 1, 0: none
};

struct bridge *bridge_create(void)
{
	struct bridge *b = mem_zalloc(1, sizeof *b);
	pthread_mutex_init(&b->lock, NULL);
	return b;
}

void bridge_destroy(struct bridge *b)
{
	if (!b)
		return;
	CHECK(!b->attached, "bridge_detach comes first");
	pthread_mutex_destroy(&b->lock);
	free(b->slots);
	free(b);
}

void bridge_on_events(void *bridge)
{
	struct bridge *b = bridge;
	pthread_mutex_lock(&b->lock);
	if (b->attached)
		uv_async_send(&b->async);
	pthread_mutex_unlock(&b->lock);
}

static struct slot *find(struct bridge *b, uint64_t id)
{
	size_t index = (size_t)(id & 0xFFFFFFFFu) - 1;
	if (!id || index >= b->n_slots)
		return NULL;
	struct slot *s = &b->slots[index];
	return s->in_use && s->generation == (uint32_t)(id >> 32) ? s : NULL;
}

static uint64_t id_of(const struct bridge *b, const struct slot *s)
{
	return (uint64_t)s->generation << 32 | (uint64_t)(s - b->slots + 1);
}

static struct slot *slot_take(struct bridge *b)
{
	if (!b->free_list) {
		CHECK(b->n_slots < UINT32_MAX - 1, "%zu", b->n_slots);
		mem_grow(&b->slots, &b->cap_slots, b->n_slots + 1, sizeof *b->slots);
		b->slots[b->n_slots++] = (struct slot){0};
		b->free_list = (uint32_t)b->n_slots;
	}
	struct slot *s = &b->slots[b->free_list - 1];
	b->free_list = s->next_free;
	*s = (struct slot){.generation = s->generation + 1, .in_use = true};
	return s;
}

static void slot_free(struct bridge *b, struct slot *s)
{
	s->in_use = false;
	s->owner = NULL;
	s->next_free = b->free_list;
	b->free_list = (uint32_t)(s - b->slots + 1);
}

// The last event of a request frees its slot, after its owner has heard it.
static void on_event(void *ctx, const struct engine_event *ev)
{
	struct bridge *b = ctx;
	struct slot *s = find(b, ev->id);
	if (!s)
		return;
	bool last = metrics_event(b->metrics, &s->meter, ev, clock_now_ns());
	void *owner = s->owner;
	int tag = s->tag;
	if (last)
		slot_free(b, s);
	if (owner)
		b->owner.on_event(owner, tag, ev);
}

static void on_async(uv_async_t *handle)
{
	struct bridge *b = handle->data;
	engine_poll(b->engine, on_event, b); // once: what is published later wakes the loop again
	b->owner.on_batch(b->owner.ctx);
}

int bridge_attach(struct bridge *b, struct uv_loop_s *loop, struct engine *e, struct metrics *m,
				  const struct bridge_owner *owner)
{
	if (uv_async_init(loop, &b->async, on_async))
		return ERR_IO;
	b->async.data = b;
	b->engine = e;
	b->metrics = m;
	b->owner = *owner;
	pthread_mutex_lock(&b->lock);
	b->attached = true;
	pthread_mutex_unlock(&b->lock);
	return 0;
}

void bridge_detach(struct bridge *b)
{
	if (!b->attached)
		return;
	pthread_mutex_lock(&b->lock);
	b->attached = false;
	pthread_mutex_unlock(&b->lock);
	uv_close((uv_handle_t *)&b->async, NULL);
	for (size_t i = 0; i < b->n_slots; i++) {
		struct slot *s = &b->slots[i];
		if (!s->in_use)
			continue;
		engine_cancel(b->engine, id_of(b, s));
		metrics_drop(b->metrics, &s->meter);
		slot_free(b, s);
	}
}

int bridge_submit(struct bridge *b, struct submission *sub, uint64_t arrival_ns, void *owner, int tag, char *err,
				  size_t len)
{
	struct slot *s = slot_take(b);
	sub->id = id_of(b, s);
	int rc = engine_submit(b->engine, sub, err, len);
	if (rc) {
		slot_free(b, s);
		return rc;
	}
	s->owner = owner;
	s->tag = tag;
	metrics_start(b->metrics, &s->meter, sub->sampling, sub->n, arrival_ns);
	return 0;
}

void bridge_cancel(struct bridge *b, uint64_t id)
{
	if (find(b, id))
		engine_cancel(b->engine, id);
}

void bridge_pause(struct bridge *b, uint64_t id, bool paused)
{
	if (find(b, id))
		engine_pause(b->engine, id, paused);
}

void bridge_release(struct bridge *b, uint64_t id)
{
	struct slot *s = find(b, id);
	if (!s)
		return;
	s->owner = NULL;
	engine_cancel(b->engine, id);
}
