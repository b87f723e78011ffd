// SPDX-License-Identifier: Apache-2.0
//
// POST /v1/completions. A prompt is a text, a list of token ids, or a list of either.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "server/api.h"
#include "server/job.h"
#include "server/token_ids.h"

// The document before any text: what the model was trained to begin with.
static int32_t first_token(const struct tokenizer *t)
{
	return tokenizer_bos(t) >= 0 ? tokenizer_bos(t) : tokenizer_eos(t);
}

static int text_prompt(struct job *j, struct prompt *p, const json_t *v, struct api_error *err)
{
	const struct tokenizer *t = j->ctx->tokenizer;
	const char *text = json_is_string(v) ? json_string_value(v) : "";
	size_t n = json_is_string(v) ? json_string_length(v) : 0;
	unsigned how = TOKENIZE_PARSE_SPECIAL | (j->params.add_special ? TOKENIZE_ADD_SPECIAL : 0);
	if (tokenizer_encode(t, text, n, NULL, how, &p->tokens))
		return api_error_set(err, 400, "prompt", "'prompt' is too long to be tokenized");
	if (!p->tokens.n && first_token(t) >= 0)
		token_vec_push(&p->tokens, first_token(t));
	if (j->params.echo) {
		p->echo = mem_strndup(text, n);
		p->n_echo = n;
	}
	return 0;
}

static int id_prompt(struct job *j, struct prompt *p, const json_t *v, struct api_error *err)
{
	if (token_ids_read(v, "prompt", j->ctx->info->n_vocab, &p->tokens, err))
		return ERR_INVALID;
	if (!p->tokens.n)
		return api_error_set(err, 400, "prompt", "'prompt' has an empty list of token ids");
	if (j->params.echo) {
		struct buf text = {0};
		tokenizer_decode(j->ctx->tokenizer, p->tokens.ids, p->tokens.n, false, &text);
		p->n_echo = text.len;
		p->echo = buf_take(&text);
	}
	return 0;
}

static int one_prompt(struct job *j, int i, const json_t *v, struct api_error *err)
{
	struct prompt *p = &j->prompts[i];
	int rc;
	if (json_is_string(v) || json_is_null(v))
		rc = text_prompt(j, p, v, err);
	else if (json_is_array(v))
		rc = id_prompt(j, p, v, err);
	else
		rc = api_error_set(err, 400, "prompt",
						   "'prompt' must be a string, an array of token ids, or an array of either");
	return rc ? rc : api_check_length(j->ctx, p->tokens.n, j->params.sampling.max_tokens, "prompt", err);
}

static int read_prompts(struct job *j, const json_t *v, struct api_error *err)
{
	if (!v)
		return api_error_set(err, 400, "prompt", "'prompt' is missing");
	bool many = json_is_array(v) && !json_is_number(json_array_get(v, 0));
	size_t n = many ? json_array_size(v) : 1;
	int most = j->ctx->limits->max_prompts / j->params.n;
	if (!n)
		return api_error_set(err, 400, "prompt", "'prompt' must not be an empty array");
	if (n > (size_t)most)
		return api_error_set(err, 400, "prompt", "'prompt' has %zu prompts; at most %d work with 'n' %d", n, most,
							 j->params.n);
	job_set_prompts(j, (int)n);
	for (size_t i = 0; i < n; i++)
		if (one_prompt(j, (int)i, many ? json_array_get(v, i) : v, err))
			return ERR_INVALID;
	return 0;
}

void api_prepare_completion(const struct api_context *ctx, const json_t *body, struct outcome *out)
{
	struct job *j = job_create(ctx, DIALECT_COMPLETION);
	struct params_rules rules = {PARAMS_COMPLETION, ctx->info->n_vocab, ctx->limits};
	if (api_check_model(ctx, body, &out->error) || params_read(&rules, body, &j->arena, &j->params, &out->error) ||
		read_prompts(j, json_object_get(body, "prompt"), &out->error)) {
		job_destroy(j);
		return;
	}
	out->job = j;
}
