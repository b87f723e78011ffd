// SPDX-License-Identifier: Apache-2.0
//
// POST /tokenize, /detokenize and /apply-template: what the server would make of a text, without the engine.
#include "engine/base/err.h"
#include "engine/engine.h"
#include "server/api.h"
#include "server/chat.h"
#include "server/json_out.h"
#include "server/params.h"
#include "server/token_ids.h"

struct tokenize_request {
	bool add_special, parse_special;
	bool with_strings; // vLLM's member token_strs
	bool with_pieces;  // llama-server's objects
};

static int read_tokenize(const json_t *body, struct tokenize_request *r, struct api_error *err)
{
	bool plain = json_object_get(body, "prompt") != NULL;
	*r = (struct tokenize_request){.add_special = plain, .parse_special = true};
	if (params_read_bool(body, "add_special_tokens", &r->add_special, err) ||
		params_read_bool(body, "add_special", &r->add_special, err) ||
		params_read_bool(body, "parse_special", &r->parse_special, err) ||
		params_read_bool(body, "return_token_strs", &r->with_strings, err) ||
		params_read_bool(body, "with_pieces", &r->with_pieces, err))
		return ERR_INVALID;
	return 0;
}

static int tokenize(const struct api_context *ctx, const json_t *body, const struct tokenize_request *r,
					struct token_vec *out, struct api_error *err)
{
	const json_t *text = json_object_get(body, "prompt");
	if (!text)
		text = json_object_get(body, "content");
	if (!text && json_object_get(body, "messages"))
		return chat_tokenize(ctx, body, CHAT_TEMPLATE_ALLOWED | CHAT_WITH_TOOLS, r->add_special, out, err);
	if (!json_is_string(text))
		return api_error_set(err, 400, "prompt", "give a string 'prompt' or 'content', or an array 'messages'");
	unsigned how = (r->add_special ? TOKENIZE_ADD_SPECIAL : 0) | (r->parse_special ? TOKENIZE_PARSE_SPECIAL : 0);
	if (tokenizer_encode(ctx->tokenizer, json_string_value(text), json_string_length(text), NULL, how, out))
		return api_error_set(err, 400, "prompt", "the text is too long to be tokenized");
	return 0;
}

static void write_piece(struct json_out *o, const struct tokenizer *t, int32_t id)
{
	size_t n;
	const char *piece = tokenizer_piece(t, id, &n);
	json_out_string(o, piece, n);
}

static void write_tokens(const struct api_context *ctx, const struct tokenize_request *r, const struct token_vec *v,
						 struct buf *out)
{
	struct json_out o;
	json_out_init(&o, out);
	json_out_begin(&o, '{');
	json_out_key(&o, "tokens");
	json_out_begin(&o, '[');
	for (size_t i = 0; i < v->n; i++) {
		if (!r->with_pieces) {
			json_out_int(&o, v->ids[i]);
			continue;
		}
		json_out_begin(&o, '{');
		json_out_member_int(&o, "id", v->ids[i]);
		json_out_key(&o, "piece");
		write_piece(&o, ctx->tokenizer, v->ids[i]);
		json_out_end(&o, '}');
	}
	json_out_end(&o, ']');
	json_out_member_int(&o, "count", (int64_t)v->n);
	json_out_member_int(&o, "max_model_len", ctx->info->max_model_len);
	if (r->with_strings) {
		json_out_key(&o, "token_strs");
		json_out_begin(&o, '[');
		for (size_t i = 0; i < v->n; i++)
			write_piece(&o, ctx->tokenizer, v->ids[i]);
		json_out_end(&o, ']');
	}
	json_out_end(&o, '}');
}

void api_prepare_tokenize(const struct api_context *ctx, const json_t *body, struct outcome *out)
{
	struct tokenize_request r;
	struct token_vec tokens = {0};
	if (!api_check_model(ctx, body, &out->error) && !read_tokenize(body, &r, &out->error) &&
		!tokenize(ctx, body, &r, &tokens, &out->error))
		write_tokens(ctx, &r, &tokens, &out->body);
	token_vec_deinit(&tokens);
}

void api_prepare_detokenize(const struct api_context *ctx, const json_t *body, struct outcome *out)
{
	struct token_vec tokens = {0};
	if (!api_check_model(ctx, body, &out->error) &&
		!token_ids_read(json_object_get(body, "tokens"), "tokens", ctx->info->n_vocab, &tokens, &out->error)) {
		struct buf text = {0};
		struct json_out o;
		tokenizer_decode(ctx->tokenizer, tokens.ids, tokens.n, false, &text);
		json_out_init(&o, &out->body);
		json_out_begin(&o, '{');
		json_out_member_string(&o, "prompt", text.data, text.len);
		json_out_member_string(&o, "content", text.data, text.len);
		json_out_end(&o, '}');
		buf_deinit(&text);
	}
	token_vec_deinit(&tokens);
}

void api_prepare_template(const struct api_context *ctx, const json_t *body, struct outcome *out)
{
	struct jinja_output text;
	jinja_output_init(&text);
	if (!api_check_model(ctx, body, &out->error) &&
		!chat_render(ctx, body, CHAT_TEMPLATE_ALLOWED | CHAT_WITH_TOOLS, &text, &out->error)) {
		struct json_out o;
		json_out_init(&o, &out->body);
		json_out_begin(&o, '{');
		json_out_member_string(&o, "prompt", text.text.data, text.text.len);
		json_out_end(&o, '}');
	}
	jinja_output_deinit(&text);
}
