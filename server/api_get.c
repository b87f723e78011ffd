// SPDX-License-Identifier: Apache-2.0
#include "server/api_get.h"

#include "server/exchange.h"
#include "server/loop.h"

static const char JSON[] = "application/json";

void api_get_root(struct exchange *ex, const char *rest)
{
	buf_puts(&ex->answer, "quire " QUIRE_VERSION "\n\n"
						  "An LLM inference server. The OpenAI API is under /v1:\n"
						  "  POST /v1/chat/completions  POST /v1/completions  GET /v1/models\n"
						  "  POST /tokenize  POST /detokenize  POST /apply-template\n"
						  "  GET /health  GET /ready  GET /metrics\n");
	exchange_answer(ex, 200, "text/plain; charset=utf-8");
}

void api_get_health(struct exchange *ex, const char *rest)
{
	buf_puts(&ex->answer, "{\"status\":\"ok\"}");
	exchange_answer(ex, 200, JSON);
}

void api_get_ready(struct exchange *ex, const char *rest)
{
	if (ex->server->draining) {
		struct api_error e = {0};
		api_error_set(&e, 503, NULL, "the server is shutting down");
		e.retry_after = 5;
		exchange_fail(ex, &e);
		return;
	}
	buf_puts(&ex->answer, "{\"status\":\"ready\"}");
	exchange_answer(ex, 200, JSON);
}

void api_get_metrics(struct exchange *ex, const char *rest)
{
	struct server *s = ex->server;
	struct engine_stats stats;
	engine_get_stats(s->engine, &stats);
	metrics_write(&s->metrics, s->ctx.info, &stats, s->ctx.served_names[0], &ex->answer);
	exchange_answer(ex, 200, "text/plain; version=0.0.4; charset=utf-8");
}

static bool wants_anthropic(const struct exchange *ex)
{
	return exchange_header(ex, "anthropic-version") != NULL;
}

void api_get_models(struct exchange *ex, const char *rest)
{
	api_models_list(&ex->server->ctx, wants_anthropic(ex), &ex->answer);
	exchange_answer(ex, 200, JSON);
}

void api_get_model(struct exchange *ex, const char *rest)
{
	if (api_models_one(&ex->server->ctx, rest, wants_anthropic(ex), &ex->answer)) {
		exchange_answer(ex, 200, JSON);
		return;
	}
	struct api_error e = {0};
	api_error_set(&e, 404, "model", "this model does not exist here; \"%s\" does", ex->server->ctx.served_names[0]);
	e.code = "model_not_found";
	exchange_fail(ex, &e);
}
