// SPDX-License-Identifier: Apache-2.0
//
// How tokens are chosen, and what is reported about them. Plain data: filled by the server's parameter checks, which
// guarantee the ranges; copied by engine_submit.
#ifndef QUIRE_ENGINE_SAMPLING_H
#define QUIRE_ENGINE_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct logit_bias {
	int32_t id;  // inside the vocabulary
	float bias;  // -100 … 100
};

enum { SAMPLING_MAX_LOGPROBS = 20, SAMPLING_NO_LOGPROBS = -1 };

struct sampling {
	float temperature;        // 0: greedy (also below 1e-3); to 2
	float top_p;              // 0 … 1; 0 keeps the best token
	float min_p;              // 0 … 1, of the best token's probability
	int top_k;                // 0: off
	float repetition_penalty; // > 0, 1: off; over prompt and generated tokens, as in vLLM
	float frequency_penalty, presence_penalty; // -2 … 2, over generated tokens
	uint64_t seed;            // always set: the server draws 64 fresh bits where the client names none
	int max_tokens;           // tokens to generate, at least 0; clamped to the room left
	int min_tokens;           // before this many, no end-of-generation token and no stop string or id
	bool ignore_eos;
	int n_logprobs;           // SAMPLING_NO_LOGPROBS, or how many alternatives beside the chosen token's own
	int n_prompt_logprobs;    // the same for prompt tokens
	const int32_t *stop_ids;  // borrowed during engine_submit, as the arrays below
	size_t n_stop_ids;
	const struct logit_bias *bias;
	size_t n_bias;
};

// The defaults of the OpenAI API: temperature 1, top_p 1, everything else off; max_tokens INT32_MAX.
void sampling_defaults(struct sampling *s);

#endif
