// SPDX-License-Identifier: Apache-2.0
//
// The scheduler's hands: block tables. A running sequence's table holds exactly the blocks of its computed positions,
// and within a step those that it will compute. If it is cached, all of its full blocks are nodes of one path.
#include "engine/base/err.h"
#include "engine/scheduler_internal.h"

#include <string.h>

static int32_t last_block(const struct sequence *seq)
{
	return seq->n_blocks ? seq->blocks[seq->n_blocks - 1] : KV_NO_BLOCK;
}

// Whoever calls has counted: there is a free block, or a cached one to evict.
static int32_t take_block(struct scheduler *s, int32_t near)
{
	int32_t block = kv_pool_alloc(s->pool, near);
	if (block != KV_NO_BLOCK)
		return block;
	CHECK(prefix_tree_evict(s->tree), "%d blocks, all in use", s->opt.n_blocks);
	return kv_pool_alloc(s->pool, near);
}

void scheduler__grow_table(struct scheduler *s, struct sequence *seq, int n_positions)
{
	int n = scheduler__blocks_for(s, n_positions);
	while (seq->n_blocks < n) {
		seq->blocks[seq->n_blocks] = take_block(s, last_block(seq));
		seq->n_blocks++;
		s->owed--;
	}
}

// Positions before this may come from the cache: the last token is always computed, and so is every one whose logits
// are wanted.
static int match_limit(const struct sequence *seq)
{
	int last = seq->n_tokens - 1;
	return seq->first_logit < last ? seq->first_logit : last;
}

void scheduler__match(struct scheduler *s, struct sequence *seq, struct prefix_match *m)
{
	struct seq_state *st = scheduler__state(seq);
	int limit = match_limit(seq);
	*m = (struct prefix_match){.node = PREFIX_NONE, .tail = PREFIX_NONE};
	if (!scheduler__is_cached(s, seq))
		return;
	bool known = st->node != PREFIX_NONE && prefix_tree_generation(s->tree, st->node) == st->generation;
	if (seq->state == SEQ_RUNNING && (!known || st->n_path > limit))
		return;
	if (!known || st->n_path > limit) {
		st->node = prefix_tree_root_find(s->tree, seq->ns, seq->ns_len);
		st->n_path = 0;
	}
	if (st->node == PREFIX_NONE)
		return;
	prefix_tree_match(s->tree, st->node, st->n_path, seq->tokens, limit, m);
	if (seq->state != SEQ_WAITING)
		return;
	st->node = m->node;
	st->n_path = m->n;
	st->generation = prefix_tree_generation(s->tree, m->node);
}

int scheduler__count_idle(const struct scheduler *s, const struct prefix_match *m, int most)
{
	int n = 0, depth = m->n / s->opt.block_tokens;
	if (m->n_tail && kv_pool_refs(s->pool, prefix_tree_block(s->tree, m->tail)) == 0)
		n++;
	// A referenced node's parents are referenced too.
	for (int32_t at = m->node; depth > 0 && n < most; depth--, at = prefix_tree_parent(s->tree, at)) {
		if (kv_pool_refs(s->pool, prefix_tree_block(s->tree, at)) > 0)
			break;
		n++;
	}
	return n;
}

// A partial leaf that matches to its end and that nobody needs is carried on where it is; any other is copied.
bool scheduler__takes_in_place(const struct scheduler *s, const struct prefix_match *m)
{
	return m->n_tail && m->n_tail == prefix_tree_n_ids(s->tree, m->tail) &&
		   kv_pool_refs(s->pool, prefix_tree_block(s->tree, m->tail)) == 0;
}

static void share_full_blocks(struct scheduler *s, struct sequence *seq, const struct prefix_match *m)
{
	int have = seq->n_computed / s->opt.block_tokens, want = m->n / s->opt.block_tokens;
	if (want == have)
		return;
	// A block begun by the sequence itself is replaced by the full one.
	while (seq->n_blocks > have) {
		prefix_tree_release(s->tree, seq->blocks[--seq->n_blocks], s->step);
		s->owed++;
	}
	int32_t at = m->node;
	for (int i = want - 1; i >= have; i--, at = prefix_tree_parent(s->tree, at)) {
		seq->blocks[i] = prefix_tree_block(s->tree, at);
		prefix_tree_acquire(s->tree, seq->blocks[i]);
	}
	seq->n_blocks = want;
	s->owed -= want - have;
}

static void copy_tail(struct scheduler *s, struct sequence *seq, const struct prefix_match *m)
{
	struct plan_copy *c = &s->copies[s->plan.n_copies++];
	c->src = prefix_tree_block(s->tree, m->tail);
	c->n = m->n_tail;
	prefix_tree_acquire(s->tree, c->src); // held: it must live until the copy has run
	scheduler__grow_table(s, seq, m->n + 1);
	c->dst = last_block(seq);
}

void scheduler__adopt(struct scheduler *s, struct sequence *seq, const struct prefix_match *m)
{
	struct seq_state *st = scheduler__state(seq);
	bool in_place = scheduler__takes_in_place(s, m);
	if (m->node == PREFIX_NONE)
		return;
	share_full_blocks(s, seq, m);
	if (in_place && seq->n_blocks == m->n / s->opt.block_tokens) {
		int32_t block = prefix_tree_block(s->tree, m->tail);
		prefix_tree_acquire(s->tree, block);
		seq->blocks[seq->n_blocks++] = block;
		s->owed--;
	} else if (m->n_tail) {
		copy_tail(s, seq, m);
	}
	seq->n_computed = m->n + m->n_tail;
	st->node = m->node;
	st->generation = prefix_tree_generation(s->tree, m->node);
	st->n_path = m->n;
}

void scheduler__store(struct scheduler *s, struct sequence *seq)
{
	struct seq_state *st = scheduler__state(seq);
	const int B = s->opt.block_tokens;
	if (st->root == PREFIX_NONE)
		return;
	while (st->n_path + B <= seq->n_computed) {
		st->node = prefix_tree_store(s->tree, st->node, seq->tokens + st->n_path, B, &seq->blocks[st->n_path / B]);
		st->n_path += B;
	}
	st->generation = prefix_tree_generation(s->tree, st->node);
	int tail = seq->n_computed - st->n_path;
	if (tail)
		prefix_tree_store(s->tree, st->node, seq->tokens + st->n_path, tail, &seq->blocks[st->n_path / B]);
}

void scheduler__start(struct scheduler *s, struct sequence *seq)
{
	struct seq_state *st = scheduler__state(seq);
	int at = s->n_running++;
	for (; at > 0 && scheduler__before(scheduler__rank(seq), scheduler__rank(s->running[at - 1])); at--)
		s->running[at] = s->running[at - 1];
	s->running[at] = seq;
	seq->state = SEQ_RUNNING;
	seq->slot = s->free_slots[--s->n_free_slots];
	seq->blocks = s->tables + (size_t)seq->slot * (size_t)s->max_blocks;
	seq->n_blocks = 0;
	seq->n_computed = 0;
	if (scheduler__is_cached(s, seq))
		st->root = prefix_tree_root_hold(s->tree, seq->ns, seq->ns_len);
	if (st->node == PREFIX_NONE) {
		st->node = st->root;
		if (st->root != PREFIX_NONE)
			st->generation = prefix_tree_generation(s->tree, st->root);
	}
}

void scheduler__stop(struct scheduler *s, struct sequence *seq)
{
	struct seq_state *st = scheduler__state(seq);
	while (seq->n_blocks > 0)
		prefix_tree_release(s->tree, seq->blocks[--seq->n_blocks], s->step);
	if (st->root != PREFIX_NONE)
		prefix_tree_root_drop(s->tree, st->root);
	st->root = PREFIX_NONE;
	s->free_slots[s->n_free_slots++] = seq->slot;
	seq->slot = -1;
	seq->blocks = NULL;
	int at = 0;
	while (s->running[at] != seq)
		at++;
	s->n_running--;
	memmove(s->running + at, s->running + at + 1, (size_t)(s->n_running - at) * sizeof(struct sequence *));
	s->n_running_paused -= st->paused;
}

void scheduler__preempt(struct scheduler *s, struct sequence *seq)
{
	struct seq_state *st = scheduler__state(seq);
	if (seq->n_computed > st->n_high)
		st->n_high = seq->n_computed;
	scheduler__stop(s, seq);
	seq->n_computed = 0;
	seq->n_preempted++;
	s->preemptions++;
	scheduler__enqueue(s, seq);
}
