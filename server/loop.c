// SPDX-License-Identifier: Apache-2.0
//
// The loop thread: libuv around libmicrohttpd's own epoll instance, the watch over clients that go away, the periodic
// sweep, signals and the drain.
#include "server/loop.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "server/exchange.h"
#include "server/generate.h"
#include "server/http.h"
#include "server/listen.h"

#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
	RUNS_PER_PUMP = 4,		// a resumed connection needs two: one fills the chunk, one sends it
	RESUMES_PER_PUMP = 256, // so that health checks and new requests get their turn between
	SWEEP_MS = 100,
	HUP_BATCH = 64,
	FLUSH_MS = 1000, // for the last words of streams cut by the end of a drain
};

// --- the pump

static void on_timer(uv_timer_t *t)
{
	server_pump(t->data);
}

static void on_idle(uv_idle_t *h)
{
	uv_idle_stop(h);
	server_pump(h->data);
}

static void resume_some(struct server *s)
{
	for (int i = 0; i < RESUMES_PER_PUMP && !list_empty(&s->ready); i++) {
		struct exchange *ex = LIST_ENTRY(s->ready.next, struct exchange, ready);
		list_remove(&ex->ready);
		ex->suspended = false;
		s->progress++;
		MHD_resume_connection(ex->mhd);
	}
}

// When to come back, in ms; false: when something happens. The library is edge-triggered: not asking it would hang.
static bool next_timeout(struct server *s, uint64_t *ms)
{
	MHD_UNSIGNED_LONG_LONG t;
	if (MHD_get_timeout(s->daemon, &t) != MHD_YES)
		return false;
	*ms = t;
	return true;
}

// Coming back at once goes through an idle handle: a zero timer would run again within the same turn in this libuv
// and starve everything else. If the library says "at once" but did nothing (half a TLS handshake), a millisecond must
// pass.
static void arm(struct server *s, bool have, uint64_t ms, bool moved)
{
	uv_idle_stop(&s->idle);
	uv_timer_stop(&s->mhd_timer);
	if (!list_empty(&s->ready) || (have && !ms && moved))
		uv_idle_start(&s->idle, on_idle);
	else if (have)
		uv_timer_start(&s->mhd_timer, on_timer, ms ? ms : 1, 0);
}

void server_pump(struct server *s)
{
	uint64_t ms = 0, before = s->progress;
	bool have = false;
	if (s->pumping || !s->daemon) // it must not be entered from its own callbacks
		return;
	s->pumping = true;
	resume_some(s);
	for (int i = 0; i < RUNS_PER_PUMP; i++) {
		s->closed_in_run = false;
		MHD_run(s->daemon);
		have = next_timeout(s, &ms);
		if (s->closed_in_run) // after a limit was hit it listens again only in the run after one that closed something
			continue;
		if (!have || ms)
			break;
	}
	s->pumping = false;
	if (s->closed_in_run) {
		have = true;
		ms = 0;
	}
	arm(s, have, ms, s->progress != before);
}

static void on_mhd(uv_poll_t *p, int status, int events)
{
	server_pump(p->data);
}

static void on_batch(void *ctx)
{
	server_pump(ctx);
}

// --- clients that go away. The library does not look at suspended connections, so an epoll of our own does.

void server_watch(struct server *s, struct exchange *ex)
{
	struct epoll_event e = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = ex};
	if (ex->conn && !ex->watched && epoll_ctl(s->hup_fd, EPOLL_CTL_ADD, ex->conn->fd, &e) == 0)
		ex->watched = true;
}

void server_unwatch(struct server *s, struct exchange *ex)
{
	if (ex->watched)
		epoll_ctl(s->hup_fd, EPOLL_CTL_DEL, ex->conn->fd, NULL);
	ex->watched = false;
}

// Half a close is a close: a client that sends no more is taken to be gone, as most servers do.
static void on_hup(uv_poll_t *p, int status, int events)
{
	struct server *s = p->data;
	struct epoll_event e[HUP_BATCH];
	int n;
	do {
		n = epoll_wait(s->hup_fd, e, HUP_BATCH, 0);
		for (int i = 0; i < n; i++)
			exchange_abandon(e[i].data.ptr);
	} while (n == HUP_BATCH);
	server_pump(s);
}

// --- sweep and drain

static void fail_all(struct server *s)
{
	struct api_error e = {0};
	api_error_set(&e, 503, NULL, "the server is shutting down");
	e.retry_after = 5;
	LIST_FOREACH_SAFE(it, &s->exchanges)
	generate_fail(LIST_ENTRY(it, struct exchange, link), &e);
}

static void drain_step(struct server *s, uint64_t now)
{
	if (!s->n_busy || s->signals > 1 || (s->drain_failed && now >= s->drain_end_ns)) {
		uv_stop(&s->loop);
		return;
	}
	if (!s->drain_failed && now >= s->drain_end_ns) {
		log_warn("%d requests did not finish within --drain-timeout and are ended", s->n_busy);
		fail_all(s);
		s->drain_failed = true;
		s->drain_end_ns = now + FLUSH_MS * 1000000ull;
	}
}

static void on_sweep(uv_timer_t *t)
{
	struct server *s = t->data;
	uint64_t now = clock_now_ns();
	http_sweep(s, now);
	LIST_FOREACH_SAFE(it, &s->exchanges)
	generate_check(LIST_ENTRY(it, struct exchange, link), now);
	if (s->draining)
		drain_step(s, now);
	server_pump(s);
}

static void on_signal(uv_signal_t *h, int number)
{
	struct server *s = h->data;
	s->signals++;
	if (!s->draining) {
		s->draining = true;
		s->drain_end_ns = clock_now_ns() + s->opt.drain_timeout_ns;
		log_info("%s: %d requests finish, new ones are refused; once more ends at once", strsignal(number), s->n_busy);
	}
	drain_step(s, clock_now_ns());
}

// --- create, run, destroy

static void fill_context(struct server *s)
{
	struct api_context *c = &s->ctx;
	c->info = engine_info(s->engine);
	c->tokenizer = engine_tokenizer(s->engine);
	c->chat_template = c->info->has_chat ? engine_chat_template(s->engine) : NULL;
	c->limits = &s->opt.limits;
	c->served_names = s->opt.served_names;
	c->n_served_names = s->opt.n_served_names;
	c->trust_request_chat_template = s->opt.trust_request_chat_template;
	c->created = (int64_t)time(NULL);
	uint64_t h = hash_bytes(c->info->file_bytes, c->info->model_name, strlen(c->info->model_name));
	h = hash_bytes(h, c->info->backend, strlen(c->info->backend));
	h = hash_bytes(h, QUIRE_VERSION, strlen(QUIRE_VERSION));
	snprintf(c->fingerprint, sizeof c->fingerprint, "fp_%012llx", (unsigned long long)(h >> 16));
	s->auth = (struct auth){s->opt.api_keys, s->opt.n_api_keys, s->opt.admin_key};
	s->cors = (struct cors){s->opt.cors_origins, s->opt.n_cors_origins};
	metrics_init(&s->metrics, c->info->max_model_len, c->created);
}

static int load_tls(struct server *s, char *err, size_t len)
{
	if (!s->opt.tls_cert && !s->opt.tls_key)
		return 0;
	if (!s->opt.tls_cert || !s->opt.tls_key)
		return err_set(err, len, ERR_INVALID, "--tls-cert and --tls-key work only together");
	s->tls_cert = listen_read_file(s->opt.tls_cert, "--tls-cert", err, len);
	s->tls_key = s->tls_cert ? listen_read_file(s->opt.tls_key, "--tls-key", err, len) : NULL;
	return s->tls_key ? 0 : ERR_IO;
}

static void open_handles(struct server *s)
{
	uv_loop_init(&s->loop);
	uv_timer_init(&s->loop, &s->mhd_timer);
	uv_timer_init(&s->loop, &s->sweep_timer);
	uv_idle_init(&s->loop, &s->idle);
	uv_signal_init(&s->loop, &s->sigterm);
	uv_signal_init(&s->loop, &s->sigint);
	uv_poll_init(&s->loop, &s->hup_poll, s->hup_fd);
	s->mhd_timer.data = s->sweep_timer.data = s->idle.data = s->sigterm.data = s->sigint.data = s->hup_poll.data = s;
	s->handles_open = true;
}

static int start(struct server *s, char *err, size_t len)
{
	struct bridge_owner owner = {generate_on_event, on_batch, s};
	const char *host = s->opt.host ? s->opt.host : "127.0.0.1";
	if (load_tls(s, err, len) || listen_open(host, s->opt.port, &s->listen_fd, &s->port, &s->unix_path, err, len))
		return ERR_IO;
	s->hup_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->hup_fd < 0)
		return err_set(err, len, ERR_IO, "epoll_create1 failed");
	open_handles(s);
	if (http_start(s, err, len))
		return ERR_IO;
	if (bridge_attach(s->bridge, &s->loop, s->engine, &s->metrics, &owner))
		return err_set(err, len, ERR_IO, "uv_async_init failed");
	uv_poll_init(&s->loop, &s->mhd_poll, MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
	s->mhd_poll.data = s;
	uv_poll_start(&s->mhd_poll, UV_READABLE, on_mhd);
	uv_poll_start(&s->hup_poll, UV_READABLE, on_hup);
	uv_timer_start(&s->sweep_timer, on_sweep, SWEEP_MS, SWEEP_MS);
	uv_signal_start(&s->sigterm, on_signal, SIGTERM);
	uv_signal_start(&s->sigint, on_signal, SIGINT);
	return 0;
}

int server_create(const struct server_options *o, struct engine *e, struct bridge *b, struct server **out, char *err,
				  size_t len)
{
	struct server *s = mem_zalloc(1, sizeof *s);
	s->opt = *o;
	if (s->opt.limits.max_bodies_bytes / 4 < o->limits.max_body_bytes) // a buffer grows to twice what it holds
		s->opt.limits.max_bodies_bytes = 4 * o->limits.max_body_bytes;
	s->engine = e;
	s->bridge = b;
	s->listen_fd = s->hup_fd = -1;
	list_init(&s->connections);
	list_init(&s->exchanges);
	list_init(&s->ready);
	list_init(&s->big_waiting);
	signal(SIGPIPE, SIG_IGN);
	json_object_seed(0);
	fill_context(s);
	int rc = start(s, err, len);
	if (rc) {
		server_destroy(s);
		return rc;
	}
	*out = s;
	return 0;
}

int server_port(const struct server *s)
{
	return s->port;
}

int server_run(struct server *s)
{
	server_pump(s);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	return 0;
}

// The library may not stop while a connection is suspended, and a worker may not lose its exchange.
static void end_exchanges(struct server *s)
{
	LIST_FOREACH_SAFE(it, &s->exchanges)
	exchange_abandon(LIST_ENTRY(it, struct exchange, link));
	while (s->n_working)
		uv_run(&s->loop, UV_RUN_ONCE);
	while (!list_empty(&s->ready))
		server_pump(s);
}

static void close_handle(uv_handle_t *h, void *arg)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	if (s->daemon)
		end_exchanges(s);
	if (s->handles_open && s->daemon)
		uv_poll_stop(&s->hup_poll);
	bridge_detach(s->bridge);
	if (s->handles_open) {
		uv_walk(&s->loop, close_handle, NULL);
		uv_run(&s->loop, UV_RUN_DEFAULT);
	}
	http_stop(s);
	if (s->handles_open)
		uv_loop_close(&s->loop);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->hup_fd >= 0)
		close(s->hup_fd);
	if (s->unix_path)
		unlink(s->unix_path);
	free(s->unix_path);
	free(s->tls_cert);
	free(s->tls_key);
	free(s);
}
