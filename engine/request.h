// SPDX-License-Identifier: Apache-2.0
//
// A sequence: one choice of a request, what the scheduler schedules. Its four lengths say everything,
// 0 ≤ n_cached ≤ n_computed ≤ n_tokens ≤ n_max; whatever else one wants to know is derived from them:
//   prefilling  n_computed < n_tokens - 1    decoding  n_computed == n_tokens - 1    done  n_tokens == n_max
// The engine thread owns every sequence. The scheduler writes n_cached, n_computed, state, slot, blocks and its own links; the
// commit writes tokens and n_tokens (through scheduler_append) and first_logit.
#ifndef QUIRE_ENGINE_REQUEST_H
#define QUIRE_ENGINE_REQUEST_H

#include "engine/base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum sequence_state {
	SEQ_WAITING,  // queued: new, or preempted
	SEQ_RUNNING,  // has a slot and a block table
	SEQ_FINISHED, // holds nothing any more
};

struct sequence {
	void *owner;        // the engine's request; opaque to the scheduler
	int choice;         // 0 … n - 1
	int priority;       // lower runs first, as in vLLM; 0 by default
	uint64_t arrival;   // order of submission: ties in priority go to the smaller
	uint64_t added_ns;  // when it was queued
	uint64_t admitted_ns; // when it first ran; 0 before
	const void *ns;     // namespace key (tenant, salt …): sequences of different keys never share blocks
	size_t ns_len;
	bool use_cache;     // false: neither finds nor leaves cached blocks (cache_prompt: false)

	int32_t *tokens;    // [n_max] prompt, then what was generated
	int n_prompt;
	int n_cached;       // prompt tokens found in the cache or in a request in flight; fixed at first admission
	int n_computed;     // positions whose keys and values are in its blocks
	int n_tokens;       // known tokens
	int n_max;          // never more than this
	int first_logit;    // first position whose logits are still wanted; n_prompt - 1 unless prompt logprobs were asked for.
	                    // The cache is used only before this position

	enum sequence_state state;
	int slot;           // 0 … max_seqs - 1 while running, else -1
	int32_t *blocks;    // block table of the slot, [max_blocks], while running
	int n_blocks;
	int n_preempted;    // how often it lost its blocks
	struct list link;   // in the scheduler's queue or running list
	void *sched;        // private to the scheduler
	uint32_t sched_pos; // private to the scheduler
};

#endif
