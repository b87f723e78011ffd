// SPDX-License-Identifier: Apache-2.0
//
// Log probabilities in the shapes of the API: chat's list of entries, completions' four parallel arrays, and vLLM's
// list for prompt_logprobs. All append JSON values with commas between. Any thread.
#ifndef QUIRE_SERVER_TOKEN_LOG_H
#define QUIRE_SERVER_TOKEN_LOG_H

#include "server/job.h"
#include "server/json_out.h"

// {"token","logprob","bytes","top_logprobs"}
void token_log_chat(struct token_log *log, const struct tokenizer *t, const struct engine_event *ev);

// One value in each of the four arrays. A first prompt token has no logprob: null twice.
void token_log_completion(struct token_log *log, const struct tokenizer *t, const struct engine_event *ev,
						  size_t offset);

// null, or {"id":{"logprob","rank","decoded_token"}}
void token_log_prompt(struct buf *out, const struct tokenizer *t, const struct engine_event *ev);

// {"tokens":[…],…} or {"content":[…],"refusal":null} as the next value. head, if not NULL, goes before log.
void token_log_write(struct json_out *o, enum dialect dialect, const struct token_log *head,
					 const struct token_log *log);

void token_log_clear(struct token_log *log);

// Characters in text, counted by their first bytes.
size_t token_log_chars(const char *text, size_t n);

#endif
