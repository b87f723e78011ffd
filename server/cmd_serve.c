// SPDX-License-Identifier: Apache-2.0
//
// quire serve: options to engine and server, the start-up report, and the order in which things begin and end.
#include "config/config.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/engine.h"
#include "server/cmd.h"
#include "server/report.h"
#include "server/server.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE = 1024 };

static int fail(const char *message)
{
	fprintf(stderr, "quire: %s\n", message);
	return 1;
}

static void engine_options_of(const struct config *c, struct engine_options *o)
{
	*o = (struct engine_options){
	    .model_path = c->model,
	    .backend = c->backend,
	    .isa = c->isa,
	    .n_threads = (int)c->threads,
	    .kv_dtype = c->kv_dtype,
	    .block_tokens = (int)c->block_tokens,
	    .max_model_len = (int)c->max_model_len,
	    .max_seqs = (int)c->max_seqs,
	    .max_batched_tokens = (int)c->max_batched_tokens,
	    .kv_cache_bytes = (uint64_t)c->kv_cache_bytes,
	    .kv_cache_tokens = (uint64_t)c->kv_cache_tokens,
	    .memory_utilization = c->memory_utilization,
	    .queue_limit = (int)c->queue_limit,
	    .queue_timeout_ns = (uint64_t)c->queue_timeout_ns,
	    .request_timeout_ns = (uint64_t)c->request_timeout_ns,
	    .target_itl_ns = (uint64_t)c->target_itl_ns,
	    .prefix_caching = c->prefix_caching,
	    .chat_template_path = c->chat_template,
	};
}

// The name that clients use when the operator gives none: the file's, without folder and ending.
static void file_name(const char *path, char *out, size_t len)
{
	const char *slash = strrchr(path, '/');
	snprintf(out, len, "%s", slash ? slash + 1 : path);
	size_t n = strlen(out);
	if (n > 5 && !strcmp(out + n - 5, ".gguf"))
		out[n - 5] = 0;
}

static void server_options_of(const struct config *c, const char *const *name, struct server_options *o)
{
	*o = (struct server_options){
	    .host = c->host,
	    .port = (int)c->port,
	    .api_keys = (const char *const *)c->api_keys.v,
	    .n_api_keys = c->api_keys.n,
	    .admin_key = c->admin_key,
	    .cors_origins = (const char *const *)c->cors_origins.v,
	    .n_cors_origins = c->cors_origins.n,
	    .open_metrics = c->open_metrics,
	    .tls_cert = c->tls_cert,
	    .tls_key = c->tls_key,
	    .served_names = c->served_names.n ? (const char *const *)c->served_names.v : name,
	    .n_served_names = c->served_names.n ? c->served_names.n : 1,
	    .drain_timeout_ns = (uint64_t)c->drain_timeout_ns,
	    .trust_request_chat_template = c->trust_request_chat_template,
	};
	limits_default(&o->limits);
	o->limits.max_body_bytes = (size_t)c->max_body_bytes;
	o->limits.header_timeout_ns = (uint64_t)c->header_timeout_ns;
	o->limits.body_timeout_ns = (uint64_t)c->body_timeout_ns;
	o->limits.idle_timeout_ns = (uint64_t)c->idle_timeout_ns;
	o->limits.max_connections = (int)c->max_connections;
}

static void url_of(const struct config *c, int port, char *out, size_t len)
{
	const char *scheme = c->tls_cert ? "https" : "http";
	if (!strncmp(c->host, "unix:", 5))
		snprintf(out, len, "%s", c->host);
	else
		snprintf(out, len, strchr(c->host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", scheme, c->host, port);
}

static void start_log(const struct config *c)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	int level = LOG_INFO;
	for (int i = 0; i < 4; i++)
		if (!strcmp(c->log_level, levels[i]))
			level = i;
	log_init((enum log_level)level, !strcmp(c->log_format, "json"));
}

static bool is_loopback(const char *host)
{
	return !strncmp(host, "127.", 4) || !strcmp(host, "localhost") || !strcmp(host, "::1") || !strncmp(host, "unix:", 5);
}

static int serve(const struct config *c, uint64_t from)
{
	char err[MESSAGE], name[256], url[512];
	const char *names[] = {name};
	struct engine_options eo;
	struct server_options so;
	struct engine *engine = NULL;
	struct server *server = NULL;
	struct bridge *bridge = bridge_create();
	file_name(c->model, name, sizeof name);
	engine_options_of(c, &eo);
	server_options_of(c, names, &so);
	int rc = engine_open(&eo, bridge_on_events, bridge, &engine, err, sizeof err);
	if (!rc)
		rc = server_create(&so, engine, bridge, &server, err, sizeof err);
	if (rc) {
		engine_close(engine);
		bridge_destroy(bridge);
		return fail(err);
	}
	url_of(c, server_port(server), url, sizeof url);
	report_print(stderr, engine_info(engine), url, (double)(clock_now_ns() - from) * 1e-9);
	if (!is_loopback(c->host) && !c->api_keys.n)
		log_warn("%s is reachable from other machines and no --api-key is set: anybody who reaches it may use it", url);
	if (!engine_info(engine)->has_chat)
		log_warn("chat is refused: %s", engine_info(engine)->template_note);
	rc = server_run(server);
	server_destroy(server);
	engine_close(engine);
	bridge_destroy(bridge);
	return rc ? 1 : 0;
}

int cmd_serve(int argc, char *const *argv)
{
	uint64_t from = clock_now_ns();
	struct config c;
	char err[MESSAGE];
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			config_print_help();
			return 0;
		}
	if (config_read(&c, argc, argv, err, sizeof err)) {
		fail(err);
		return 2;
	}
	start_log(&c);
	int status = serve(&c, from);
	config_deinit(&c);
	return status;
}
