// SPDX-License-Identifier: Apache-2.0
#include "server/respond.h"

#include "engine/base/clock.h"
#include "server/generate.h"
#include "server/job.h"
#include "server/json_out.h"
#include "server/loop.h"
#include "server/router.h"

#include <stdio.h>
#include <string.h>

// Of a stream: the library allocates it per response and uses it only for clients of HTTP/1.0.
enum { BLOCK_BYTES = 1024 };

static void add(struct MHD_Response *r, const char *name, const char *value)
{
	if (value)
		MHD_add_response_header(r, name, value);
}

static void add_cors(struct exchange *ex, struct MHD_Response *r)
{
	const char *allow = cors_allow(&ex->server->cors, exchange_header(ex, "Origin"));
	if (!allow)
		return;
	add(r, "Access-Control-Allow-Origin", allow);
	add(r, "Vary", "Origin");
	add(r, "Access-Control-Expose-Headers", "x-request-id, retry-after");
	if (!ex->method || strcmp(ex->method, "OPTIONS") != 0)
		return;
	add(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
	// Reflected, because clients add headers of their own with every release.
	add(r, "Access-Control-Allow-Headers", exchange_header(ex, "Access-Control-Request-Headers"));
	add(r, "Access-Control-Max-Age", "86400");
}

static void add_error(const struct exchange *ex, struct MHD_Response *r)
{
	char seconds[16];
	const struct api_error *e = &ex->error;
	snprintf(seconds, sizeof seconds, "%d", e->retry_after);
	add(r, "Retry-After", e->retry_after ? seconds : NULL);
	add(r, "x-should-retry", e->no_retry ? "false" : NULL);
	add(r, "Allow", e->status == 405 && ex->route ? route_methods(ex->route) : NULL);
	add(r, "WWW-Authenticate", e->status == 401 ? "Bearer" : NULL);
}

static enum MHD_Result queue(struct exchange *ex, int status, struct MHD_Response *r)
{
	add(r, "x-request-id", ex->request_id);
	add(r, "request-id", ex->request_id);
	add_cors(ex, r);
	if (ex->close)
		add(r, "Connection", "close");
	if (ex->state < EXCHANGE_WAITING)
		ex->server->n_busy++;
	ex->state = EXCHANGE_ANSWERED;
	ex->status = status;
	enum MHD_Result rc = MHD_queue_response(ex->mhd, (unsigned)status, r);
	MHD_destroy_response(r);
	return rc;
}

static void write_error(struct exchange *ex)
{
	struct json_out o;
	buf_clear(&ex->answer);
	json_out_init(&o, &ex->answer);
	json_out_begin(&o, '{');
	json_out_key(&o, "error");
	api_error_write(&ex->error, &o);
	json_out_end(&o, '}');
	ex->content_type = "application/json";
	ex->status = ex->error.status;
}

enum MHD_Result respond_plain(struct exchange *ex)
{
	if (ex->error.status)
		write_error(ex);
	size_t n = ex->answer.len;
	struct MHD_Response *r = MHD_create_response_from_buffer(n, buf_take(&ex->answer), MHD_RESPMEM_MUST_FREE);
	if (!r)
		return MHD_NO;
	add(r, "Content-Type", ex->content_type);
	add_error(ex, r);
	return queue(ex, ex->status, r);
}

static ssize_t read_stream(void *cls, uint64_t pos, char *to, size_t max)
{
	struct exchange *ex = cls;
	ex->server->progress++;
	if (ex->gone)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	uint64_t now = clock_now_ns();
	size_t n = sse_take(&ex->sse, to, max, now);
	if (n) {
		if (ex->sse.paused)
			generate_check(ex, now);
		return (ssize_t)n;
	}
	if (ex->job->ended) {
		ex->close = ex->close || ex->job->error.status; // some clients wait for it after an error
		return MHD_CONTENT_READER_END_OF_STREAM;
	}
	ex->suspended = true; // returning 0 without this would be called again at once
	MHD_suspend_connection(ex->mhd);
	return 0;
}

enum MHD_Result respond_stream(struct exchange *ex)
{
	struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, ex, NULL);
	if (!r)
		return MHD_NO;
	add(r, "Content-Type", "text/event-stream; charset=utf-8");
	add(r, "Cache-Control", "no-cache");
	add(r, "X-Accel-Buffering", "no");
	return queue(ex, 200, r);
}
