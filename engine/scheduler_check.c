// SPDX-License-Identifier: Apache-2.0
//
// The invariants of the scheduler and of what it owns, counted from scratch.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/scheduler_internal.h"

#include <stdlib.h>
#include <string.h>

static void check_lengths(const struct scheduler *s, const struct sequence *seq)
{
	CHECK(seq->n_computed >= 0 && seq->n_computed <= seq->n_tokens && seq->n_tokens <= seq->n_max,
		  "computed %d, tokens %d, most %d", seq->n_computed, seq->n_tokens, seq->n_max);
	CHECK(seq->n_cached < seq->n_prompt || !seq->n_cached, "cached %d of %d", seq->n_cached, seq->n_prompt);
	CHECK(scheduler__state(seq)->seq == seq, "a state of another sequence");
}

// The table holds the computed positions and no more, or what the step in progress computes; full blocks are the path's
// nodes.
static void check_table(const struct scheduler *s, const struct sequence *seq)
{
	const struct seq_state *st = scheduler__state(seq);
	const int B = s->opt.block_tokens;
	if (!s->in_step)
		CHECK(seq->n_blocks == scheduler__blocks_for(s, seq->n_computed), "%d blocks for %d positions", seq->n_blocks,
			  seq->n_computed);
	if (st->root == PREFIX_NONE)
		return;
	CHECK(st->n_path == seq->n_computed / B * B, "path %d of %d positions", st->n_path, seq->n_computed);
	int32_t node = st->node;
	for (int i = st->n_path / B - 1; i >= 0; i--, node = prefix_tree_parent(s->tree, node)) {
		CHECK(prefix_tree_block(s->tree, node) == seq->blocks[i], "block %d of the table is %d, of the path %d", i,
			  seq->blocks[i], prefix_tree_block(s->tree, node));
		CHECK(memcmp(prefix_tree_ids(s->tree, node), seq->tokens + i * B, (size_t)B * sizeof *seq->tokens) == 0,
			  "block %d of the table holds other tokens", i);
	}
	CHECK(node == st->root, "the path ends at %d, not at its root %d", node, st->root);
	// The last, partly filled block has no other writer, and nobody shares it.
	if (seq->n_blocks > st->n_path / B && !s->in_step)
		CHECK(kv_pool_refs(s->pool, seq->blocks[seq->n_blocks - 1]) == 1, "block %d", seq->blocks[seq->n_blocks - 1]);
}

static void check_running(const struct scheduler *s, int32_t *refs)
{
	int n_paused = 0;
	for (int i = 0; i < s->n_running; i++) {
		const struct sequence *seq = s->running[i];
		CHECK(seq->state == SEQ_RUNNING && seq->slot >= 0, "state %d, slot %d", seq->state, seq->slot);
		CHECK(i == 0 || !scheduler__before(scheduler__rank(seq), scheduler__rank(s->running[i - 1])), "%d", i);
		for (int k = 0; k < i; k++)
			CHECK(s->running[k]->slot != seq->slot, "two sequences in slot %d", seq->slot);
		n_paused += scheduler__state(seq)->paused;
		check_lengths(s, seq);
		check_table(s, seq);
		for (int k = 0; k < seq->n_blocks; k++)
			refs[seq->blocks[k]]++;
	}
	CHECK(n_paused == s->n_running_paused, "%d paused, %d counted", n_paused, s->n_running_paused);
	CHECK(s->n_running + s->n_free_slots == s->opt.max_seqs, "%d run, %d slots free", s->n_running, s->n_free_slots);
}

static void check_queue(const struct scheduler *s, const struct list *queue, bool paused, int *n, int64_t *n_tokens)
{
	const struct sequence *last = NULL;
	LIST_FOREACH(it, queue)
	{
		const struct sequence *seq = LIST_ENTRY(it, struct sequence, link);
		CHECK(seq->state == SEQ_WAITING && seq->slot == -1 && !seq->n_blocks && !seq->n_computed, "state %d, %d blocks",
			  seq->state, seq->n_blocks);
		CHECK(scheduler__state(seq)->paused == paused, "in the wrong queue");
		CHECK(!last || !scheduler__before(scheduler__rank(seq), scheduler__rank(last)), "the queue is not by rank");
		check_lengths(s, seq);
		last = seq;
		*n += 1;
		*n_tokens += seq->n_tokens;
	}
}

void scheduler_check(const struct scheduler *s)
{
	int n = 0;
	int64_t n_tokens = 0;
	int32_t *refs = mem_zalloc((size_t)s->opt.n_blocks, sizeof *refs);
	check_running(s, refs);
	for (int i = 0; s->in_step && i < s->plan.n_copies; i++)
		refs[s->copies[i].src]++;
	kv_pool_check(s->pool, refs);
	prefix_tree_check(s->tree);
	check_queue(s, &s->waiting, false, &n, &n_tokens);
	check_queue(s, &s->paused, true, &n, &n_tokens);
	CHECK(n == s->n_waiting && n_tokens == s->waiting_tokens, "%d of %d wait, %lld of %lld tokens", n, s->n_waiting,
		  (long long)n_tokens, (long long)s->waiting_tokens);
	free(refs);
}
