// SPDX-License-Identifier: Apache-2.0
//
// Messages to prompt: checks and normalises them, renders the chat template, tokenizes with the taint that keeps what a
// user typed from becoming control tokens. Workers.
#ifndef QUIRE_SERVER_CHAT_H
#define QUIRE_SERVER_CHAT_H

#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "server/api.h"

enum {						   // flags
	CHAT_TEMPLATE_ALLOWED = 1, // the request may bring its own chat_template
	CHAT_WITH_TOOLS = 2,	   // render the member tools
};

// A new array fit for the template, or NULL with err filled. developer_known: the template knows the role "developer",
// else it becomes "system".
json_t *chat_messages(const json_t *messages, const struct limits *l, bool developer_known, struct api_error *err);

// Renders body's messages and template fields into out (initialised by the caller).
int chat_render(const struct api_context *ctx, const json_t *body, unsigned flags, struct jinja_output *out,
				struct api_error *err);

// The same, as token ids.
int chat_tokenize(const struct api_context *ctx, const json_t *body, unsigned flags, bool add_special,
				  struct token_vec *out, struct api_error *err);

#endif
