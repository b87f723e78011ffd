// SPDX-License-Identifier: Apache-2.0
#include "server/generate.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "server/bridge.h"
#include "server/loop.h"
#include "server/reply.h"

#include <time.h>

static void submit_error(struct server *s, int rc, const char *why, struct api_error *e)
{
	switch (rc) {
	case ERR_LIMIT:
		api_error_set(e, 400, NULL, "%s", why);
		e->code = "context_length_exceeded";
		break;
	case ERR_BUSY:
		api_error_set(e, 429, NULL, "the queue is full; try again in a moment");
		e->retry_after = 1;
		s->metrics.rejected++;
		break;
	case ERR_CANCELLED:
		api_error_set(e, 503, NULL, "the server is shutting down");
		e->retry_after = 5;
		break;
	default:
		api_error_set(e, 500, NULL, "the engine refused the request");
		log_error("%s: engine_submit: %s: %s", "generate", err_name(rc), why);
		break;
	}
}

static int submit(struct exchange *ex, int i, struct api_error *e)
{
	struct job *j = ex->job;
	struct prompt *p = &j->prompts[i];
	char why[400] = "";
	struct submission sub = {
		.prompt = p->tokens.ids,
		.n_prompt = (int)p->tokens.n,
		.n = j->params.n,
		.sampling = &j->params.sampling,
		.stops = j->params.stops,
		.stop_lens = j->params.stop_lens,
		.n_stops = j->params.n_stops,
		.include_stop = j->params.include_stop,
		.keep_special = j->params.keep_special,
		.priority = j->params.priority,
		.cache_salt = j->params.cache_salt,
		.use_cache = j->params.use_cache,
	};
	int rc = bridge_submit(ex->server->bridge, &sub, ex->arrival_ns, ex, i, why, sizeof why);
	if (!rc) {
		p->id = sub.id;
		return 0;
	}
	submit_error(ex->server, rc, why, e);
	if (rc == ERR_LIMIT)
		snprintf(e->param, sizeof e->param, "%s", j->dialect == DIALECT_CHAT ? "messages" : "prompt");
	return ERR_INVALID;
}

void generate_start(struct exchange *ex)
{
	struct api_error e = {0};
	struct job *j = ex->job;
	reply_begin(j, (int64_t)time(NULL));
	sse_init(&ex->sse, clock_now_ns());
	for (int i = 0; i < j->n_prompts; i++) {
		if (submit(ex, i, &e)) { // all or nothing
			j->ended = true;
			generate_release(ex);
			exchange_fail(ex, &e);
			return;
		}
	}
}

// What the reply has come to: an answer, an error, or more of a stream.
static void publish(struct exchange *ex)
{
	struct job *j = ex->job;
	if (j->ended && j->error.status) {
		generate_release(ex);
		if (!j->committed)
			exchange_fail(ex, &j->error);
	} else if (j->ended && !j->params.stream) {
		reply_write(j, &ex->answer);
		exchange_answer(ex, 200, "application/json");
	}
	if (j->committed)
		exchange_wake(ex);
}

void generate_on_event(void *owner, int tag, const struct engine_event *ev)
{
	struct exchange *ex = owner;
	struct job *j = ex->job;
	size_t pending = sse_pending(&ex->sse);
	if (ex->gone || j->ended)
		return;
	reply_event(j, tag, ev, &ex->sse.out);
	uint64_t now = clock_now_ns();
	sse_wrote(&ex->sse, pending, now);
	if (j->ended || sse_pending(&ex->sse) != pending)
		publish(ex);
	if (!j->ended)
		generate_check(ex, now);
}

static void pause_all(struct exchange *ex, bool paused)
{
	ex->sse.paused = paused;
	for (int i = 0; i < ex->job->n_prompts; i++)
		bridge_pause(ex->server->bridge, ex->job->prompts[i].id, paused);
}

void generate_check(struct exchange *ex, uint64_t now_ns)
{
	struct job *j = ex->job;
	const struct limits *l = &ex->server->opt.limits;
	if (!j || !j->params.stream || ex->gone || ex->answer_ready)
		return;
	// Before admission nothing is sent: a full queue or its time-out still have a status of their own.
	if (!j->ended && j->prompts[0].started && sse_heartbeat(&ex->sse, l, now_ns)) {
		j->committed = true;
		exchange_wake(ex);
	}
	switch (sse_pressure(&ex->sse, l, now_ns)) {
	case SSE_FLOWS:
		break;
	case SSE_PAUSE:
		pause_all(ex, true);
		break;
	case SSE_RESUME:
		pause_all(ex, false);
		break;
	case SSE_DROP:
		log_info("%s: the client does not read its stream: cancelled", ex->request_id);
		exchange_abandon(ex);
		break;
	}
}

void generate_release(struct exchange *ex)
{
	struct job *j = ex->job;
	for (int i = 0; j && i < j->n_prompts; i++) {
		bridge_release(ex->server->bridge, j->prompts[i].id);
		j->prompts[i].id = 0;
	}
}

void generate_fail(struct exchange *ex, const struct api_error *e)
{
	size_t pending = sse_pending(&ex->sse);
	if (!ex->job || ex->job->ended || ex->gone)
		return;
	reply_fail(ex->job, e, &ex->sse.out);
	sse_wrote(&ex->sse, pending, clock_now_ns());
	publish(ex);
}
