// SPDX-License-Identifier: Apache-2.0
//
// Decides who computes how many tokens in the next step, in which blocks. Touches no device and reads no clock: times and
// durations are arguments, so the simulator runs this very code. Owns the block pool and the prefix tree.
// Engine thread only. plan, commit, append and finish never allocate memory.
//
// A step:  plan (admits, preempts, allots blocks) → the engine copies plan.copies, computes plan.items → commit(duration)
// (computed positions become findable) → append a sampled token to each item that ends at n_tokens, or finish it.
#ifndef QUIRE_ENGINE_SCHEDULER_H
#define QUIRE_ENGINE_SCHEDULER_H

#include "engine/request.h"

#include <stddef.h>

struct scheduler;

struct scheduler_options {
	int n_blocks;           // of the pool
	int block_tokens;       // B
	int max_seqs;           // sequences running at once
	int max_batched_tokens; // most tokens of one step, at least max_seqs + one tile
	int max_model_len;      // most tokens of one sequence
	int max_out;            // most rows of one step whose logits are wanted, at least max_seqs
	int queue_limit;        // waiting sequences; more are refused
	int64_t queue_tokens;   // prompt tokens waiting; more are refused
	uint64_t target_itl_ns; // step time that prompt chunks respect while something decodes
	bool prefix_caching;
	int hash_bits; // 0; for tests: hashes of the prefix tree are cut to so many bits
};

struct plan_item {
	struct sequence *seq;
	int start;    // first position computed: seq->n_computed
	int n;        // positions start … start + n - 1
	int n_out;    // the last n_out of them want logits
	bool samples; // the last position is the sequence's last token: a new token is chosen from its logits
};

struct plan_copy { // before anything is computed: the first n tokens of block src into dst
	int32_t src, dst;
	int n;
};

struct plan {
	int n_items; // 0: nothing to do now
	const struct plan_item *items; // by slot: decodes first, then prompt chunks
	int n_copies;
	const struct plan_copy *copies;
	int n_tokens, n_out; // sums over items
};

struct scheduler_stats { // counters since start, and the state now
	int n_running, n_waiting;
	int64_t waiting_tokens;
	int blocks_total, blocks_free, blocks_cached, blocks_used; // they add up
	uint64_t prefix_queries, prefix_hits; // prompt tokens asked for and found, once per request (choice 0)
	uint64_t preemptions, evictions, steps;
	uint64_t prompt_tokens_computed;   // positions of prompts, and of whatever is computed again
	uint64_t prompt_tokens_recomputed; // of these: computed before, and lost by a preemption
};

// n_blocks and the rest are checked: ERR_INVALID with the value that would work.
int scheduler_create(const struct scheduler_options *o, struct scheduler **out, char *err, size_t len);
void scheduler_destroy(struct scheduler *s); // every sequence must be finished

// Queues a sequence (state WAITING). ERR_LIMIT: n_max is more than max_model_len, or the known tokens and one more can never fit, judged
// against the whole pool. An n_max that the whole pool could not hold is cut to what it holds, so that a sequence that grows
// alone ends by length. ERR_BUSY: the queue is full (an empty one takes any prompt).
int scheduler_add(struct scheduler *s, struct sequence *seq, uint64_t now_ns);

// The next step. The plan belongs to the scheduler and its arrays hold until the next plan. A sequence waits while one that is scheduled in
// this very step computes the tokens it wants (same namespace): it then finds them. The wait must be worth a step: it is for a block's
// worth of tokens, or for half of what the sequence has to compute. An urgent class (lower priority) takes seats and blocks from a
// less urgent one. A plan with items must be committed before the next; one without is nothing.
const struct plan *scheduler_plan(struct scheduler *s, uint64_t now_ns);

// What the plan computed is in the cache; duration_ns fits the step model.
void scheduler_commit(struct scheduler *s, uint64_t duration_ns);

// A new last token (after commit), whose logits are the next that are wanted (first_logit). The caller has checked n_tokens < n_max.
void scheduler_append(struct scheduler *s, struct sequence *seq, int32_t id);

// Ends a sequence in any state, also in the middle of its prompt or while queued: blocks go back, what is computed stays
// findable. Not between plan and commit.
void scheduler_finish(struct scheduler *s, struct sequence *seq);

// Its client is slow: do not schedule it (and preempt it first) until resumed.
void scheduler_pause(struct scheduler *s, struct sequence *seq, bool paused);

// Sequences that may run now: false means that plan would return nothing.
bool scheduler_has_work(const struct scheduler *s);
void scheduler_get_stats(const struct scheduler *s, struct scheduler_stats *out);

// Checks every invariant of pool, tree and queues (DESIGN section 2); aborts with what is wrong. O(blocks).
void scheduler_check(const struct scheduler *s);

#endif
