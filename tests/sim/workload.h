// SPDX-License-Identifier: Apache-2.0
//
// Synthetic requests for the simulator, by a seed: the same seed gives the same workload, whatever the scheduler does.
#ifndef QUIRE_TESTS_SIM_WORKLOAD_H
#define QUIRE_TESTS_SIM_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

enum workload_kind {
	WORKLOAD_CHAT,	  // system prompts by Zipf, several turns that carry the conversation on, Poisson arrivals
	WORKLOAD_BURST,	  // the same, all of a second's requests at its start
	WORKLOAD_UNIQUE,  // no two prompts share anything
	WORKLOAD_HEAVY,	  // heavy-tailed lengths, from 10 tokens to a hundred times that
	WORKLOAD_HOSTILE, // many tenants, shared heads that end in the middle of blocks, cancels at every stage, slow
					  // readers
};

struct arrival {
	uint64_t at_ns;
	int n_prompt, n_output;
	uint64_t head_seed, body_seed; // tokens 0 … n_head - 1 follow from the first, the others from the second
	int n_head;
	int tenant, priority;
	int cancel_after; // steps after its arrival; 0: never
	int pause_after;  // likewise: its reader stops for a while
};

struct workload {
	enum workload_kind kind;
	uint64_t random, now_ns;
	double rate; // requests a second
};

const char *workload_name(enum workload_kind kind);
void workload_init(struct workload *w, enum workload_kind kind, double rate, uint64_t seed);
struct arrival workload_next(struct workload *w);
int32_t workload_token(const struct arrival *a, int position);

#endif
