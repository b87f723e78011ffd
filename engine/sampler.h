// SPDX-License-Identifier: Apache-2.0
//
// From logits to a token. Order, as in vLLM: logprobs of the raw distribution are taken first; then logit bias, forbidden
// end tokens (min_tokens), penalties, temperature, min_p, top_k, top_p; then one draw. The draw is a counter-based random
// number keyed by (seed, choice, position), so the same request gives the same tokens in any batch.
// Scratch is allocated at create; sampler_run allocates nothing. Engine thread only.
#ifndef QUIRE_ENGINE_SAMPLER_H
#define QUIRE_ENGINE_SAMPLER_H

#include "engine/engine.h"

struct sampler;

struct sampler_input {
	const struct sampling *sampling;
	const int32_t *tokens;     // prompt, then generated
	int n_prompt, n_tokens;
	int choice;
	const int32_t *ends;       // end-of-generation ids, forbidden while fewer than min_tokens were generated (and stop_ids)
	int n_ends;
};

struct sampler_output {
	int32_t id;
	float logprob;             // of id in the raw distribution; 0 unless logprobs were asked for
	int n_top;
	struct token_logprob top[SAMPLING_MAX_LOGPROBS];
};

struct sampler *sampler_create(int n_vocab);
void sampler_destroy(struct sampler *s);

// Chooses the next token from logits[n_vocab], which it may overwrite.
void sampler_run(struct sampler *s, const struct sampler_input *in, float *logits, struct sampler_output *out);

// Raw log probability of `id` and the n_top best, without choosing.
void sampler_logprobs(struct sampler *s, const float *logits, int32_t id, int n_top, struct sampler_output *out);

// 64 random bits for (seed, choice, position): Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011), key = seed, counter = (position, choice, 0, 0), first two words of the result.
uint64_t sampler_random(uint64_t seed, uint32_t choice, uint32_t position);

#endif
