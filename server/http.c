// SPDX-License-Identifier: Apache-2.0
//
// The library calls us in this order for each request: on_uri (its line is known), on_request once with the header,
// then with pieces of the body, then with none left (again after every resume), and on_completed. A response can only
// be queued in the first of these on_request calls (the connection then closes) or in the last: errors found early wait
// until the body was read and thrown away, so that the client is still there to read them.
#include "server/http.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/exchange.h"
#include "server/generate.h"
#include "server/http_check.h"
#include "server/job.h"
#include "server/loop.h"
#include "server/prepare.h"
#include "server/random_id.h"
#include "server/respond.h"
#include "server/router.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
	POOL_BYTES = 32768, // of the library, per connection: header and what is being sent; more goes to mmap
	SPARE_FILES = 64,	// descriptors kept for everything that is no connection
	DRAIN_FACTOR = 2,	// a body over its limit is read and thrown away up to this many limits, then cut
};

// --- connections

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return i ? i->socket_context : NULL;
}

// A peer that vanished without a word is noticed within a minute, in silence and while sending.
static void tune_socket(int fd)
{
	int on = 1, idle = 30, interval = 10, count = 3, unacked_ms = 30000;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof unacked_ms);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
						  enum MHD_ConnectionNotificationCode code)
{
	struct server *s = cls;
	s->progress++;
	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		struct connection *c = *context;
		s->closed_in_run = true;
		if (c)
			list_remove(&c->link);
		free(c);
		*context = NULL;
		return;
	}
	struct connection *c = mem_zalloc(1, sizeof *c);
	c->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	c->deadline_ns = clock_now_ns() + s->opt.limits.header_timeout_ns;
	list_push_back(&s->connections, &c->link);
	tune_socket(c->fd);
	*context = c;
}

// Nothing was sent on this connection since its last answer, so a reply of our own making fits in. If the socket does
// not take it, the client goes without.
static void tell_late(int fd)
{
	static const char BODY[] =
		"{\"error\":{\"message\":\"the request did not come in time\",\"type\":\"invalid_request_error\","
		"\"param\":null,\"code\":null}}";
	char reply[512];
	int n = snprintf(reply, sizeof reply,
					 "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
					 "Connection: close\r\n\r\n%s",
					 sizeof BODY - 1, BODY);
	(void)!send(fd, reply, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The library's own time-out is for silence; a client that sends a byte a second is stopped here. shutdown, never
// close: the descriptor is the library's.
void http_sweep(struct server *s, uint64_t now_ns)
{
	LIST_FOREACH_SAFE(it, &s->connections)
	{
		struct connection *c = LIST_ENTRY(it, struct connection, link);
		if (!c->deadline_ns || now_ns < c->deadline_ns)
			continue;
		if (c->heard && !s->tls_cert)
			tell_late(c->fd);
		c->deadline_ns = 0;
		shutdown(c->fd, SHUT_RDWR);
	}
}

// --- the life of an exchange

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct server *s = cls;
	struct exchange *ex = mem_zalloc(1, sizeof *ex);
	s->progress++;
	ex->server = s;
	ex->mhd = mhd;
	ex->conn = connection_of(mhd);
	ex->bad_uri = strstr(uri, "%00") != NULL || strlen(uri) >= EXCHANGE_PATH * 2;
	random_id(ex->request_id, sizeof ex->request_id, "req_");
	list_push_back(&s->exchanges, &ex->link);
	list_init(&ex->ready);
	list_init(&ex->big_link);
	if (ex->conn) {
		ex->conn->heard = true;
		ex->conn->deadline_ns = clock_now_ns() + s->opt.limits.header_timeout_ns;
	}
	return ex;
}

static void release_body(struct exchange *ex)
{
	ex->server->bodies_bytes -= ex->cap_body;
	free(ex->body);
	ex->body = NULL;
	ex->n_body = ex->cap_body = 0;
}

// A line for every generation, for the operator; everything else only when asked for.
static void log_exchange(const struct exchange *ex)
{
	double seconds = ex->arrival_ns ? (double)(clock_now_ns() - ex->arrival_ns) * 1e-9 : 0;
	const char *gone = ex->gone ? ", client gone" : "";
	if (!ex->job || !ex->job->n_choices) {
		log_debug("%s %s %s: %d in %.3f s%s", ex->request_id, ex->method ? ex->method : "-", ex->path, ex->status,
				  seconds, gone);
		return;
	}
	int64_t n_prompt = 0, n_cached = 0, n_completion = 0;
	for (int i = 0; i < ex->job->n_prompts; i++) {
		n_prompt += (int64_t)ex->job->prompts[i].tokens.n;
		n_cached += ex->job->prompts[i].n_cached;
	}
	for (int i = 0; i < ex->job->n_choices; i++)
		n_completion += ex->job->choices[i].n_completion;
	log_info("%s %s: %d, %lld prompt tokens (%lld cached), %lld generated in %.3f s%s", ex->request_id, ex->path,
			 ex->status, (long long)n_prompt, (long long)n_cached, (long long)n_completion, seconds, gone);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode how)
{
	struct exchange *ex = *context;
	struct server *s = cls;
	s->progress++;
	if (!ex)
		return;
	CHECK(!ex->working && !ex->suspended, "%s", ex->request_id);
	*context = NULL;
	server_unwatch(s, ex);
	generate_release(ex);
	if (ex->state >= EXCHANGE_WAITING)
		s->n_busy--;
	if (ex->conn) { // the next request may begin; a connection without one is closed by the library after the idle time
		ex->conn->heard = false;
		ex->conn->deadline_ns = clock_now_ns() + s->opt.limits.idle_timeout_ns + s->opt.limits.header_timeout_ns;
		if (ex->close && ex->job && ex->job->committed) // the end of a stream names no close in its header
			shutdown(ex->conn->fd, SHUT_RDWR);
	}
	log_exchange(ex);
	list_remove(&ex->link);
	list_remove(&ex->ready);
	job_destroy(ex->job);
	release_body(ex);
	buf_deinit(&ex->answer);
	sse_deinit(&ex->sse);
	free(ex);
}

static enum MHD_Result suspend(struct exchange *ex)
{
	ex->suspended = true;
	MHD_suspend_connection(ex->mhd);
	return MHD_YES;
}

// --- reading

static enum MHD_Result on_header(struct exchange *ex, const char *url, const char *method, const char *version)
{
	struct server *s = ex->server;
	ex->method = method;
	ex->state = EXCHANGE_BODY;
	if (ex->conn)
		ex->conn->deadline_ns = clock_now_ns() + s->opt.limits.body_timeout_ns;
	router_normalise(url, ex->path, sizeof ex->path);
	ex->route = router_find(ex->path, &ex->rest);
	enum http_verdict v = http_check(ex, version, &ex->error);
	if (v == HTTP_ANSWER_NOW)
		return respond_plain(ex);
	return MHD_YES;
}

static int grow_body(struct exchange *ex, size_t need)
{
	struct server *s = ex->server;
	if (need <= ex->cap_body)
		return 0;
	size_t cap = ex->cap_body ? ex->cap_body : 4096;
	while (cap < need)
		cap *= 2;
	size_t more = cap - ex->cap_body;
	char *p = s->bodies_bytes + more <= s->opt.limits.max_bodies_bytes ? realloc(ex->body, cap) : NULL;
	if (!p) {
		api_error_set(&ex->error, 503, NULL, "the server has no memory for more request bodies now");
		ex->error.retry_after = 1;
		return ERR_NOMEM;
	}
	s->bodies_bytes += more;
	ex->body = p;
	ex->cap_body = cap;
	return 0;
}

// Returns MHD_NO, which cuts the connection, only for a body that goes on far past its limit.
static enum MHD_Result on_body(struct exchange *ex, const char *data, size_t n)
{
	size_t limit = ex->server->opt.limits.max_body_bytes;
	ex->n_seen += n;
	if (ex->n_seen > limit && !ex->error.status) {
		api_error_set(&ex->error, 413, NULL, "the body is larger than %zu bytes", limit);
		ex->close = true;
	}
	if (ex->error.status) {
		release_body(ex);
		return ex->n_seen / DRAIN_FACTOR > limit ? MHD_NO : MHD_YES;
	}
	if (!ex->route || !ex->route->prepare || grow_body(ex, ex->n_body + n))
		return MHD_YES;
	memcpy(ex->body + ex->n_body, data, n);
	ex->n_body += n;
	return MHD_YES;
}

// The request is whole.
static void dispatch(struct exchange *ex)
{
	struct server *s = ex->server;
	ex->arrival_ns = clock_now_ns();
	ex->state = EXCHANGE_WAITING;
	s->n_busy++;
	if (ex->conn)
		ex->conn->deadline_ns = 0;
	if (ex->error.status)
		exchange_fail(ex, &ex->error);
	else if (strcmp(ex->method, "OPTIONS") == 0)
		exchange_answer(ex, 204, NULL);
	else if (strcmp(ex->method, "POST") != 0)
		ex->route->get(ex, ex->rest);
	else if (s->draining && (ex->route->flags & ROUTE_GENERATES)) {
		struct api_error e = {0};
		api_error_set(&e, 503, NULL, "the server is shutting down");
		e.retry_after = 5;
		ex->close = true;
		exchange_fail(ex, &e);
	} else {
		server_watch(s, ex);
		prepare_start(ex);
	}
}

// Called when the request is whole and again after every resume.
static enum MHD_Result proceed(struct exchange *ex)
{
	if (ex->state == EXCHANGE_BODY)
		dispatch(ex);
	if (ex->working) // the exchange stays until its worker is done with it
		return suspend(ex);
	if (ex->gone)
		return MHD_NO;
	if (ex->answer_ready)
		return respond_plain(ex);
	if (ex->job && ex->job->committed)
		return respond_stream(ex);
	return suspend(ex);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
								  const char *version, const char *data, size_t *n, void **context)
{
	struct server *s = cls;
	struct exchange *ex = *context;
	s->progress++;
	if (ex->state == EXCHANGE_HEADER)
		return on_header(ex, url, method, version);
	if (*n) {
		size_t got = *n;
		*n = 0;
		return on_body(ex, data, got);
	}
	return proceed(ex);
}

// --- what the other parts say about an exchange

void exchange_answer(struct exchange *ex, int status, const char *content_type)
{
	ex->answer_ready = true;
	ex->status = status;
	ex->content_type = content_type;
	exchange_wake(ex);
}

void exchange_fail(struct exchange *ex, const struct api_error *e)
{
	ex->error = *e;
	buf_clear(&ex->answer);
	exchange_answer(ex, e->status, "application/json");
}

void exchange_wake(struct exchange *ex)
{
	if (ex->suspended && list_empty(&ex->ready))
		list_push_back(&ex->server->ready, &ex->ready);
}

void exchange_abandon(struct exchange *ex)
{
	if (ex->gone)
		return;
	ex->gone = true;
	generate_release(ex);
	prepare_cancel(ex);
	if (ex->working)
		return;
	if (ex->suspended)
		exchange_wake(ex);
	else if (ex->conn) // the library waits for the socket to take more: it never will
		shutdown(ex->conn->fd, SHUT_RDWR);
}

const char *exchange_header(const struct exchange *ex, const char *name)
{
	return MHD_lookup_connection_value(ex->mhd, MHD_HEADER_KIND, name);
}

// --- start and stop

static void on_log(void *cls, const char *format, va_list ap)
{
	char line[512];
	if (!log_enabled(LOG_DEBUG))
		return;
	vsnprintf(line, sizeof line, format, ap);
	line[strcspn(line, "\n")] = 0;
	log_debug("http library: %s", line);
}

// Every connection is a descriptor: takes what the system allows, and says how many connections that makes.
static unsigned connection_limit(int wanted)
{
	struct rlimit r;
	unsigned most = 1024 - SPARE_FILES;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
		getrlimit(RLIMIT_NOFILE, &r);
		most = r.rlim_cur > 1u << 20		  ? 1u << 20
			   : r.rlim_cur > 2 * SPARE_FILES ? (unsigned)r.rlim_cur - SPARE_FILES
											  : SPARE_FILES;
	}
	return wanted > 0 && (unsigned)wanted < most ? (unsigned)wanted : most;
}

int http_start(struct server *s, char *err, size_t len)
{
	// No polling thread: the loop runs the library when its epoll has something (server_pump). Addresses are not shared
	// with other processes (LISTENING_ADDRESS_REUSE is SO_REUSEPORT: two servers would split the clients between them).
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (s->tls_cert ? MHD_USE_TLS : 0);
	uint64_t idle_s = (s->opt.limits.idle_timeout_ns + 999999999) / 1000000000;
	struct MHD_OptionItem options[8];
	int n = 0;
	options[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)(idle_s ? idle_s : 1), NULL};
	options[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES, NULL};
	options[n++] =
		(struct MHD_OptionItem){MHD_OPTION_CONNECTION_LIMIT, connection_limit(s->opt.limits.max_connections), NULL};
	options[n++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, s->listen_fd, NULL};
	if (s->tls_cert) {
		options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls_cert};
		options[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, s->tls_key};
	}
	options[n++] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
	s->daemon =
		MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, s, MHD_OPTION_ARRAY,
						 options, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
						 on_connection, s, MHD_OPTION_URI_LOG_CALLBACK, on_uri, s, MHD_OPTION_END);
	if (s->daemon)
		return 0;
	return err_set(err, len, ERR_IO, "the HTTP library does not start%s",
				   s->tls_cert ? ": --tls-cert and --tls-key must be a certificate and its key, in PEM" : "");
}

void http_stop(struct server *s)
{
	if (s->daemon) {
		MHD_stop_daemon(s->daemon);
		s->listen_fd = -1; // closed with it
	}
	s->daemon = NULL;
}
