// SPDX-License-Identifier: Apache-2.0
#include "server/api.h"

#include "engine/base/err.h"
#include "engine/engine.h"
#include "server/json_out.h"

#include <string.h>
#include <time.h>

static bool is_served(const struct api_context *ctx, const char *name)
{
	for (size_t i = 0; i < ctx->n_served_names; i++)
		if (strcmp(ctx->served_names[i], name) == 0)
			return true;
	return false;
}

int api_check_model(const struct api_context *ctx, const json_t *body, struct api_error *err)
{
	const json_t *v = json_object_get(body, "model");
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return api_error_set(err, 400, "model", "'model' must be a string; \"%s\" works", ctx->served_names[0]);
	if (is_served(ctx, json_string_value(v)))
		return 0;
	api_error_set(err, 404, "model", "the model of this request does not exist here; \"%s\" does",
				  ctx->served_names[0]);
	err->code = "model_not_found";
	return ERR_INVALID;
}

int api_check_length(const struct api_context *ctx, size_t n_prompt, int max_tokens, const char *param,
					 struct api_error *err)
{
	size_t limit = (size_t)ctx->info->max_model_len;
	if (!n_prompt)
		return api_error_set(err, 400, param, "the prompt is empty and the model has no token to begin with");
	if (n_prompt + (max_tokens > 0) <= limit)
		return 0;
	api_error_set(err, 400, param,
				  "the prompt has %zu tokens; the model's context is %zu tokens, prompt and answer together", n_prompt,
				  limit);
	err->code = "context_length_exceeded";
	return ERR_INVALID;
}

static void write_time(struct json_out *o, const char *key, int64_t seconds)
{
	char text[32];
	time_t t = (time_t)seconds;
	struct tm tm;
	gmtime_r(&t, &tm);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_out_member_str(o, key, text);
}

static void write_model(const struct api_context *ctx, const char *id, bool anthropic, struct json_out *o)
{
	json_out_begin(o, '{');
	json_out_member_str(o, "id", id);
	if (anthropic) {
		json_out_member_str(o, "type", "model");
		json_out_member_str(o, "display_name", id);
		write_time(o, "created_at", ctx->created);
	} else {
		json_out_member_str(o, "object", "model");
		json_out_member_int(o, "created", ctx->created);
		json_out_member_str(o, "owned_by", "quire");
		json_out_member_str(o, "root", ctx->info->model_name);
		json_out_key(o, "parent");
		json_out_null(o);
	}
	json_out_member_int(o, "max_model_len", ctx->info->max_model_len);
	json_out_end(o, '}');
}

void api_models_list(const struct api_context *ctx, bool anthropic, struct buf *out)
{
	struct json_out o;
	json_out_init(&o, out);
	json_out_begin(&o, '{');
	if (!anthropic)
		json_out_member_str(&o, "object", "list");
	json_out_key(&o, "data");
	json_out_begin(&o, '[');
	for (size_t i = 0; i < ctx->n_served_names; i++)
		write_model(ctx, ctx->served_names[i], anthropic, &o);
	json_out_end(&o, ']');
	if (anthropic) {
		json_out_key(&o, "has_more");
		json_out_bool(&o, false);
		json_out_member_str(&o, "first_id", ctx->served_names[0]);
		json_out_member_str(&o, "last_id", ctx->served_names[ctx->n_served_names - 1]);
	}
	json_out_end(&o, '}');
}

bool api_models_one(const struct api_context *ctx, const char *id, bool anthropic, struct buf *out)
{
	struct json_out o;
	if (!is_served(ctx, id))
		return false;
	json_out_init(&o, out);
	write_model(ctx, id, anthropic, &o);
	return true;
}
