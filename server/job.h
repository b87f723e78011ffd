// SPDX-License-Identifier: Apache-2.0
//
// A job: one generation request between its body and its reply. A worker fills the upper half, the loop submits each
// prompt and gathers what comes back in the lower half (reply.c). One thread at a time; handed from the worker to the
// loop.
#ifndef QUIRE_SERVER_JOB_H
#define QUIRE_SERVER_JOB_H

#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/text/tokenizer.h"
#include "server/api_error.h"
#include "server/params.h"

#include <stdbool.h>
#include <stdint.h>

struct api_context;

enum dialect {
	DIALECT_CHAT,
	DIALECT_COMPLETION,
};

// Reported tokens as JSON, values separated by commas. Chat uses only the first part: whole entries.
enum { LOG_TOKENS, LOG_VALUES, LOG_TOPS, LOG_OFFSETS, LOG_PARTS };
struct token_log {
	struct buf part[LOG_PARTS];
};

struct prompt { // one submission to the engine
	struct token_vec tokens;
	char *echo; // the text to repeat before the answer; NULL without echo
	size_t n_echo;
	uint64_t id;  // in the bridge, once submitted; 0 before and after
	bool started; // EVENT_START came
	int n_prompt, n_cached;
	struct token_log log; // of its tokens, for echo with logprobs
	struct buf full_log;  // of its tokens, for the field prompt_logprobs
	size_t log_bytes;	  // bytes of echo that the tokens in log cover
};

struct choice { // index: prompt × n + choice
	bool begun, done;
	enum finish_reason reason;
	int n_completion;
	struct buf text; // not of a stream
	struct token_log log;
	struct buf ids; // return_token_ids
	size_t n_chars; // characters that its tokens stand for so far, echo included: the next text_offset
};

struct job {
	const struct api_context *ctx;
	enum dialect dialect;
	struct arena arena;
	struct params params;
	int n_prompts;
	struct prompt *prompts;

	struct choice *choices;
	int n_choices, n_done;
	char id[40];
	int64_t created;
	struct buf head; // of a stream's chunks, up to the choices
	bool committed;	 // a stream whose status line is, or will be, 200
	bool begun;		 // its first chunk is written
	bool ended;		 // nothing more will be written; error is set if it failed
	struct api_error error;
};

struct job *job_create(const struct api_context *ctx, enum dialect dialect);
void job_destroy(struct job *j);			// NULL is allowed
void job_set_prompts(struct job *j, int n); // makes n empty prompts

#endif
