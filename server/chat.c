// SPDX-License-Identifier: Apache-2.0
#include "server/chat.h"

#include "engine/base/err.h"
#include "engine/engine.h"
#include "server/params.h"

#include <string.h>
#include <time.h>

// The template that serves this request: the model's, or the one it brings. *own is to be destroyed if not NULL.
static const struct chat_template *pick_template(const struct api_context *ctx, const json_t *body, unsigned flags,
												 struct chat_template **own, struct api_error *err)
{
	const json_t *source = json_object_get(body, "chat_template");
	if (source && !json_is_null(source)) {
		char why[300];
		const char *note;
		if (!(flags & CHAT_TEMPLATE_ALLOWED)) {
			api_error_set(
				err, 400, "chat_template",
				"'chat_template' is accepted only from trusted clients: start with --trust-request-chat-template");
			return NULL;
		}
		if (!json_is_string(source)) {
			api_error_set(err, 400, "chat_template", "'chat_template' must be a string");
			return NULL;
		}
		if (chat_template_create(json_string_value(source), json_string_length(source), ctx->tokenizer, own, &note, why,
								 sizeof why)) {
			api_error_set(err, 400, "chat_template", "'chat_template' cannot be compiled: %s", why);
			return NULL;
		}
		return *own;
	}
	if (!ctx->chat_template)
		api_error_set(err, 400, "messages", "this model cannot chat: %s", ctx->info->template_note);
	return ctx->chat_template;
}

// The extra variables: chat_template_kwargs, and reasoning_effort where the template asks for it. New reference or
// NULL.
static int template_kwargs(const json_t *body, const struct chat_template *t, json_t **out, struct api_error *err)
{
	const json_t *given = json_object_get(body, "chat_template_kwargs");
	const json_t *effort = json_object_get(body, "reasoning_effort");
	if (given && !json_is_null(given) && !json_is_object(given))
		return api_error_set(err, 400, "chat_template_kwargs", "'chat_template_kwargs' must be an object");
	if (json_object_get(given, "chat_template"))
		return api_error_set(err, 400, "chat_template_kwargs",
							 "'chat_template_kwargs' must not hold a 'chat_template'");
	*out = json_is_object(given) ? json_copy((json_t *)given) : json_object();
	if (json_is_string(effort) && !json_object_get(*out, "reasoning_effort") &&
		chat_template_uses(t, "reasoning_effort"))
		json_object_set(*out, "reasoning_effort", (json_t *)effort);
	return 0;
}

static int read_array(const json_t *body, const char *name, const json_t **out, struct api_error *err)
{
	const json_t *v = json_object_get(body, name);
	*out = NULL;
	if (!v || json_is_null(v) || (json_is_array(v) && !json_array_size(v)))
		return 0;
	if (!json_is_array(v))
		return api_error_set(err, 400, name, "'%s' must be an array", name);
	*out = v;
	return 0;
}

static int read_request(const json_t *body, unsigned flags, struct chat_request *r, struct api_error *err)
{
	*r = (struct chat_request){0};
	if (params_read_bool(body, "continue_final_message", &r->continue_final_message, err))
		return ERR_INVALID;
	r->add_generation_prompt = !r->continue_final_message;
	if (params_read_bool(body, "add_generation_prompt", &r->add_generation_prompt, err))
		return ERR_INVALID;
	if (r->continue_final_message && r->add_generation_prompt)
		return api_error_set(err, 400, "continue_final_message",
							 "'continue_final_message' and 'add_generation_prompt' cannot both be true");
	if (read_array(body, "documents", &r->documents, err))
		return ERR_INVALID;
	return flags & CHAT_WITH_TOOLS ? read_array(body, "tools", &r->tools, err) : 0;
}

static int render_with(const struct api_context *ctx, const json_t *body, const struct chat_template *t,
					   struct chat_request *r, struct jinja_output *out, struct api_error *err)
{
	char why[400];
	json_t *kwargs = NULL;
	json_t *messages =
		chat_messages(json_object_get(body, "messages"), ctx->limits, chat_template_uses(t, "developer"), err);
	if (!messages)
		return ERR_INVALID;
	int rc = template_kwargs(body, t, &kwargs, err);
	const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
	const char *last_role = json_string_value(json_object_get(last, "role"));
	if (!rc && r->continue_final_message && strcmp(last_role, "assistant") != 0)
		rc = api_error_set(err, 400, "continue_final_message",
						   "'continue_final_message' needs a last message of the assistant");
	if (!rc) {
		r->messages = messages;
		r->kwargs = kwargs;
		rc = chat_template_render(t, r, (int64_t)time(NULL), out, why, sizeof why);
		if (rc)
			rc = api_error_set(err, 400, "messages", "%s", why);
	}
	json_decref(kwargs);
	json_decref(messages);
	return rc;
}

int chat_render(const struct api_context *ctx, const json_t *body, unsigned flags, struct jinja_output *out,
				struct api_error *err)
{
	struct chat_template *own = NULL;
	struct chat_request r;
	const struct chat_template *t = pick_template(ctx, body, flags, &own, err);
	if (!t)
		return ERR_INVALID;
	int rc = read_request(body, flags, &r, err);
	if (!rc)
		rc = render_with(ctx, body, t, &r, out, err);
	chat_template_destroy(own);
	return rc;
}

int chat_tokenize(const struct api_context *ctx, const json_t *body, unsigned flags, bool add_special,
				  struct token_vec *out, struct api_error *err)
{
	struct jinja_output text;
	jinja_output_init(&text);
	int rc = chat_render(ctx, body, flags, &text, err);
	if (!rc) {
		unsigned how = TOKENIZE_PARSE_SPECIAL | (add_special ? TOKENIZE_ADD_SPECIAL : 0);
		rc =
			tokenizer_encode(ctx->tokenizer, text.text.data, text.text.len, (const uint8_t *)text.taint.data, how, out);
		if (rc)
			rc = api_error_set(err, 400, "messages", "the prompt is too long to be tokenized");
	}
	jinja_output_deinit(&text);
	return rc;
}
