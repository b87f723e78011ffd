// SPDX-License-Identifier: Apache-2.0
//
// What the parts that know the API share. A worker turns a request's body into an outcome: an error, a finished answer,
// or a job for the engine. Everything in api_context is fixed at start and read by any thread.
#ifndef QUIRE_SERVER_API_H
#define QUIRE_SERVER_API_H

#include "engine/base/buf.h"
#include "server/api_error.h"
#include "server/limits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chat_template;
struct engine_info;
struct job;
struct tokenizer;

struct api_context {
	const struct engine_info *info;
	const struct tokenizer *tokenizer;
	const struct chat_template *chat_template; // NULL: chat is refused with info->template_note
	const struct limits *limits;
	const char *const *served_names;
	size_t n_served_names;
	bool trust_request_chat_template;
	int64_t created;	  // seconds since 1970 when the server started
	char fingerprint[24]; // system_fingerprint: model, build and back end
};

struct outcome {
	struct api_error error; // set: the request failed
	struct job *job;		// or: to be submitted
	struct buf body;		// or: the JSON answer, status 200
};

// A worker's function: body is the parsed object. Any thread.
typedef void (*api_prepare_fn)(const struct api_context *ctx, const json_t *body, struct outcome *out);

void api_prepare_chat(const struct api_context *ctx, const json_t *body, struct outcome *out);
void api_prepare_completion(const struct api_context *ctx, const json_t *body, struct outcome *out);
void api_prepare_tokenize(const struct api_context *ctx, const json_t *body, struct outcome *out);
void api_prepare_detokenize(const struct api_context *ctx, const json_t *body, struct outcome *out);
void api_prepare_template(const struct api_context *ctx, const json_t *body, struct outcome *out);

// Checks the member "model": absent, or a served name; else a 404.
int api_check_model(const struct api_context *ctx, const json_t *body, struct api_error *err);

// A prompt that leaves no room: 400 context_length_exceeded with the prompt's length and the limit.
int api_check_length(const struct api_context *ctx, size_t n_prompt, int max_tokens, const char *param,
					 struct api_error *err);

// Writes the list of models, or the one named id; false: there is no such model. anthropic: in that API's shape.
void api_models_list(const struct api_context *ctx, bool anthropic, struct buf *out);
bool api_models_one(const struct api_context *ctx, const char *id, bool anthropic, struct buf *out);

#endif
