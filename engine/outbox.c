// SPDX-License-Identifier: Apache-2.0
#include "engine/outbox.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct outbox {
	pthread_mutex_t mu;
	pthread_cond_t room;
	char *write, *read; // the producer's and the consumer's side
	size_t used, cap;
	bool dirty, closed;
	void (*wake)(void *);
	void *ctx;
};

enum { ALIGN = 8 };

static size_t align(size_t n)
{
	return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

struct outbox *outbox_create(size_t bytes, void (*wake)(void *), void *ctx)
{
	struct outbox *o = mem_zalloc(1, sizeof *o);
	pthread_mutex_init(&o->mu, NULL);
	pthread_cond_init(&o->room, NULL);
	o->cap = bytes;
	o->write = mem_alloc(bytes);
	o->read = mem_alloc(bytes);
	o->wake = wake;
	o->ctx = ctx;
	return o;
}

void outbox_destroy(struct outbox *o)
{
	if (!o)
		return;
	free(o->write);
	free(o->read);
	pthread_cond_destroy(&o->room);
	pthread_mutex_destroy(&o->mu);
	free(o);
}

void outbox_put(struct outbox *o, const struct engine_event *ev)
{
	size_t n_top = (size_t)ev->n_top * sizeof *ev->top;
	size_t need = align(sizeof *ev) + align(n_top) + align(ev->n_text);
	CHECK(need <= o->cap / 4, "an event of %zu bytes", need);
	pthread_mutex_lock(&o->mu);
	while (o->used + need > o->cap && !o->closed) {
		o->wake(o->ctx);
		pthread_cond_wait(&o->room, &o->mu);
	}
	if (o->used + need <= o->cap) {
		char *p = o->write + o->used;
		memcpy(p, ev, sizeof *ev);
		p += align(sizeof *ev);
		if (n_top)
			memcpy(p, ev->top, n_top);
		p += align(n_top);
		if (ev->n_text)
			memcpy(p, ev->text, ev->n_text);
		o->used += need;
		o->dirty = true;
	}
	pthread_mutex_unlock(&o->mu);
}

void outbox_flush(struct outbox *o)
{
	pthread_mutex_lock(&o->mu);
	bool dirty = o->dirty;
	o->dirty = false;
	pthread_mutex_unlock(&o->mu);
	if (dirty)
		o->wake(o->ctx);
}

void outbox_close(struct outbox *o)
{
	pthread_mutex_lock(&o->mu);
	o->closed = true;
	pthread_cond_broadcast(&o->room);
	pthread_mutex_unlock(&o->mu);
}

size_t outbox_drain(struct outbox *o, void (*fn)(void *ctx, const struct engine_event *ev), void *ctx)
{
	pthread_mutex_lock(&o->mu);
	char *p = o->write;
	size_t left = o->used, n = 0;
	o->write = o->read;
	o->read = p;
	o->used = 0;
	pthread_cond_signal(&o->room);
	pthread_mutex_unlock(&o->mu);
	for (char *end = p + left; p < end; n++) {
		struct engine_event ev;
		memcpy(&ev, p, sizeof ev);
		p += align(sizeof ev);
		ev.top = (const struct token_logprob *)(void *)p;
		p += align((size_t)ev.n_top * sizeof *ev.top);
		ev.text = p;
		p += align(ev.n_text);
		fn(ctx, &ev);
	}
	return n;
}
