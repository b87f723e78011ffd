// SPDX-License-Identifier: Apache-2.0
#include "server/prepare.h"

#include "engine/base/err.h"
#include "server/generate.h"
#include "server/job.h"
#include "server/json_in.h"
#include "server/loop.h"
#include "server/router.h"

#include <stdlib.h>

enum { WORKERS = 4 }; // libuv's pool, unless UV_THREADPOOL_SIZE says otherwise

static void start_next_big(struct server *s);

// On a worker: body to outcome.
static void work(uv_work_t *w)
{
	struct exchange *ex = w->data;
	const struct api_context *ctx = &ex->server->ctx;
	json_t *root = json_in_parse(ex->body ? ex->body : "", ex->n_body, ctx->limits->json_depth,
								 ctx->limits->json_values, &ex->outcome.error);
	free(ex->body);
	ex->body = NULL;
	if (root && !json_is_object(root))
		api_error_set(&ex->outcome.error, 400, NULL, "the body must be a JSON object");
	else if (root)
		ex->route->prepare(ctx, root, &ex->outcome);
	json_decref(root);
}

static void after_work(uv_work_t *w, int status)
{
	struct exchange *ex = w->data;
	struct server *s = ex->server;
	struct outcome *o = &ex->outcome;
	ex->working = false;
	s->n_working--;
	s->bodies_bytes -= ex->cap_body;
	ex->cap_body = 0;
	if (ex->big) {
		s->n_big--;
		start_next_big(s);
	}
	ex->job = o->job;
	if (ex->gone || status) {
		buf_deinit(&o->body);
		exchange_wake(ex);
	} else if (o->error.status) {
		buf_deinit(&o->body);
		exchange_fail(ex, &o->error);
	} else if (o->job) {
		generate_start(ex);
	} else {
		ex->answer = o->body;
		o->body = (struct buf){0};
		exchange_answer(ex, 200, "application/json");
	}
	server_pump(s);
}

static void queue(struct exchange *ex)
{
	struct server *s = ex->server;
	ex->work.data = ex;
	int rc = uv_queue_work(&s->loop, &ex->work, work, after_work);
	CHECK(rc == 0, "uv_queue_work: %s", uv_strerror(rc));
}

static void start_next_big(struct server *s)
{
	if (list_empty(&s->big_waiting) || s->n_big >= WORKERS / 2)
		return;
	struct exchange *ex = LIST_ENTRY(s->big_waiting.next, struct exchange, big_link);
	list_remove(&ex->big_link);
	s->n_big++;
	queue(ex);
}

void prepare_start(struct exchange *ex)
{
	struct server *s = ex->server;
	ex->working = true;
	s->n_working++;
	ex->big = ex->n_body > s->opt.limits.big_body_bytes;
	if (!ex->big) {
		queue(ex);
		return;
	}
	list_push_back(&s->big_waiting, &ex->big_link);
	start_next_big(s);
}

void prepare_cancel(struct exchange *ex)
{
	if (!ex->working)
		return;
	if (list_empty(&ex->big_link)) {
		uv_cancel((uv_req_t *)&ex->work); // fails if it runs: then it ends by itself soon
		return;
	}
	list_remove(&ex->big_link);
	ex->working = ex->big = false;
	ex->server->n_working--;
	exchange_wake(ex);
}
