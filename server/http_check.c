// SPDX-License-Identifier: Apache-2.0
#include "server/http_check.h"

#include "engine/base/err.h"
#include "server/loop.h"
#include "server/router.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DRAIN_FACTOR = 2 };

struct header_scan {
	size_t bytes;
	int n, n_length, n_encoding, n_host, n_authorization;
	const char *length, *encoding;
};

static enum MHD_Result scan_one(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct header_scan *h = cls;
	h->n++;
	h->bytes += strlen(key) + (value ? strlen(value) : 0) + 4; // ": " and the line's end
	if (strcasecmp(key, "Content-Length") == 0) {
		h->n_length++;
		h->length = value;
	} else if (strcasecmp(key, "Transfer-Encoding") == 0) {
		h->n_encoding++;
		h->encoding = value;
	} else if (strcasecmp(key, "Host") == 0) {
		h->n_host++;
	} else if (strcasecmp(key, "Authorization") == 0) {
		h->n_authorization++;
	}
	return MHD_YES;
}

// Two readers of one request must agree where it ends and whom it is for; what only lenient ones accept is refused.
static int check_framing(const struct header_scan *h, const char *version, struct api_error *err)
{
	if (h->n_length > 1 || h->n_encoding > 1 || h->n_host > 1 || h->n_authorization > 1)
		return api_error_set(
			err, 400, NULL,
			"Content-Length, Transfer-Encoding, Host and Authorization may stand only once in a request");
	if (h->n_encoding && h->n_length)
		return api_error_set(err, 400, NULL, "a request has a Content-Length or a Transfer-Encoding, not both");
	if (h->n_encoding && (!h->encoding || strcasecmp(h->encoding, "chunked") != 0))
		return api_error_set(err, 501, NULL, "the only Transfer-Encoding that works is chunked");
	if (h->n_length && (!h->length || !*h->length || strspn(h->length, "0123456789") != strlen(h->length)))
		return api_error_set(err, 400, NULL, "Content-Length must be a number");
	if (!h->n_host && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
		return api_error_set(err, 400, NULL, "a request of HTTP/1.1 needs a Host");
	return 0;
}

static int check_size(const struct exchange *ex, const struct header_scan *h, struct api_error *err)
{
	const struct limits *l = &ex->server->opt.limits;
	if (h->n > l->max_headers)
		return api_error_set(err, 431, NULL, "the request has %d header fields; at most %d work", h->n, l->max_headers);
	if (h->bytes + strlen(ex->path) > l->max_header_bytes)
		return api_error_set(err, 431, NULL, "the request's header is larger than %zu bytes", l->max_header_bytes);
	return 0;
}

static bool needs_key(const struct exchange *ex)
{
	const struct server *s = ex->server;
	unsigned flags = ex->route ? ex->route->flags : 0;
	if (strcmp(ex->method, "OPTIONS") == 0 || (flags & ROUTE_OPEN))
		return false;
	return !((flags & ROUTE_METRICS) && s->opt.open_metrics);
}

static int check_route(struct exchange *ex, struct api_error *err)
{
	if (needs_key(ex) &&
		!auth_check(&ex->server->auth, exchange_header(ex, "Authorization"), exchange_header(ex, "X-Api-Key"))) {
		api_error_set(err, 401, NULL, "a valid API key is needed: send it as 'Authorization: Bearer KEY'");
		err->code = "invalid_api_key";
		return ERR_INVALID;
	}
	if (strcmp(ex->method, "OPTIONS") == 0)
		return 0;
	if (!ex->route)
		return api_error_set(err, 404, NULL, "there is nothing at this path; the API is under /v1");
	if (!route_allows(ex->route, ex->method))
		return api_error_set(err, 405, NULL, "this path answers %s", route_methods(ex->route));
	return 0;
}

// An upload that is over its limit by its own word, or that waits for our leave, need not begin.
static bool answer_at_once(const struct exchange *ex, const struct header_scan *h)
{
	size_t limit = ex->server->opt.limits.max_body_bytes;
	bool has_body = h->n_encoding || (h->length && strtoull(h->length, NULL, 10) > 0);
	if (!has_body)
		return false;
	return exchange_header(ex, "Expect") || (h->length && strtoull(h->length, NULL, 10) / DRAIN_FACTOR > limit);
}

enum http_verdict http_check(struct exchange *ex, const char *version, struct api_error *err)
{
	struct header_scan h = {0};
	size_t limit = ex->server->opt.limits.max_body_bytes;
	MHD_get_connection_values(ex->mhd, MHD_HEADER_KIND, scan_one, &h);
	if (ex->bad_uri)
		api_error_set(err, 400, NULL, "the request's path is too long or holds a NUL");
	if (ex->bad_uri || check_framing(&h, version, err) || check_size(ex, &h, err)) {
		ex->close = true;
		return HTTP_ANSWER_NOW;
	}
	if (!check_route(ex, err) && h.length && strtoull(h.length, NULL, 10) > limit) {
		api_error_set(err, 413, NULL, "the body has %s bytes; at most %zu work", h.length, limit);
		ex->close = true;
	}
	return err->status && answer_at_once(ex, &h) ? HTTP_ANSWER_NOW : HTTP_READ_ON;
}
