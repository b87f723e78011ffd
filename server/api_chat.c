// SPDX-License-Identifier: Apache-2.0
//
// POST /v1/chat/completions
#include "engine/engine.h"
#include "server/api.h"
#include "server/chat.h"
#include "server/job.h"

void api_prepare_chat(const struct api_context *ctx, const json_t *body, struct outcome *out)
{
	struct job *j = job_create(ctx, DIALECT_CHAT);
	struct params_rules rules = {PARAMS_CHAT, ctx->info->n_vocab, ctx->limits};
	unsigned flags = ctx->trust_request_chat_template ? CHAT_TEMPLATE_ALLOWED : 0;
	job_set_prompts(j, 1);
	struct token_vec *tokens = &j->prompts[0].tokens;
	if (api_check_model(ctx, body, &out->error) || params_read(&rules, body, &j->arena, &j->params, &out->error) ||
		chat_tokenize(ctx, body, flags, j->params.add_special, tokens, &out->error) ||
		api_check_length(ctx, tokens->n, j->params.sampling.max_tokens, "messages", &out->error)) {
		job_destroy(j);
		return;
	}
	out->job = j;
}
