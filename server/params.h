// SPDX-License-Identifier: Apache-2.0
//
// The fields of a generation request, checked: type, range, and whether this server does what they ask. One table says
// all of it (params.c). A field that would change the text and is not supported is a 400 that names it;
// unknown fields are accepted; null is the same as absent. Any thread.
#ifndef QUIRE_SERVER_PARAMS_H
#define QUIRE_SERVER_PARAMS_H

#include "engine/base/arena.h"
#include "engine/sampling.h"
#include "server/api_error.h"
#include "server/limits.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { // routes that a field belongs to
	PARAMS_CHAT = 1,
	PARAMS_COMPLETION = 2,
};

struct params {
	struct sampling sampling; // its arrays lie in the arena
	int n;
	int best_of;
	bool stream;
	bool include_usage; // stream_options.include_usage, of a stream
	bool echo;
	bool logprobs;		  // the reply carries them
	bool prompt_logprobs; // the field of that name was given
	bool return_token_ids;
	bool include_stop;
	bool keep_special;
	bool use_cache;
	bool add_special; // BOS before a raw prompt
	int priority;
	const char *cache_salt; // NULL: none
	const char **stops;
	size_t *stop_lens;
	size_t n_stops;
};

struct params_rules {
	unsigned route; // PARAMS_*
	int n_vocab;
	const struct limits *limits;
};

// 0, or ERR_INVALID with err filled. Strings are copied into the arena, so body may go.
int params_read(const struct params_rules *rules, const json_t *body, struct arena *arena, struct params *out,
				struct api_error *err);

// Reads one boolean member for parts with a few fields of their own; absent or null keeps *out.
int params_read_bool(const json_t *body, const char *name, bool *out, struct api_error *err);

#endif
