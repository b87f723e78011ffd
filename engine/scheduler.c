// SPDX-License-Identifier: Apache-2.0
//
// The queue, and what happens to sequences between plans. The decisions are in scheduler_plan.c.
#include "engine/scheduler.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/scheduler_internal.h"

#include <stdlib.h>

// MAX_ROOTS: namespaces with something cached, beyond one for each seat. LEARN: how much the last sequence's output
// moves the mean.
enum { MAX_ROOTS = 4096, MAX_BLOCK_TOKENS = 1024, MAX_SEQS = 65536, MAX_TOKENS = 1 << 30 };
static const double LEARN = 1.0 / 16;

static int check_options(const struct scheduler_options *o, char *err, size_t len)
{
	const struct {
		const char *name;
		int value, least, most;
	} rules[] = {
		{"block_tokens", o->block_tokens, 1, MAX_BLOCK_TOKENS},
		{"n_blocks", o->n_blocks, 1, KV_POOL_MAX_BLOCKS},
		{"max_seqs", o->max_seqs, 1, MAX_SEQS},
		{"max_batched_tokens", o->max_batched_tokens, o->max_seqs + STEP_TILE, MAX_TOKENS},
		{"max_model_len", o->max_model_len, 1, MAX_TOKENS},
		{"max_out", o->max_out, o->max_seqs, MAX_TOKENS},
		{"queue_limit", o->queue_limit, 1, MAX_TOKENS},
	};
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (rules[i].value < rules[i].least || rules[i].value > rules[i].most)
			return err_set(err, len, ERR_INVALID, "%s is %d, must be %d to %d", rules[i].name, rules[i].value,
						   rules[i].least, rules[i].most);
	if (o->queue_tokens < 1)
		return err_set(err, len, ERR_INVALID, "queue_tokens is %lld, must be at least 1", (long long)o->queue_tokens);
	return 0;
}

static void create_arrays(struct scheduler *s)
{
	size_t n = (size_t)s->opt.max_seqs;
	int longest = scheduler__blocks_for(s, s->opt.max_model_len);
	s->max_blocks = longest < s->opt.n_blocks ? longest : s->opt.n_blocks;
	s->n_states = s->opt.queue_limit + s->opt.max_seqs;
	s->states = mem_zalloc((size_t)s->n_states, sizeof *s->states);
	s->free_state = -1;
	s->running = mem_zalloc(n, sizeof(struct sequence *));
	s->order = mem_zalloc(n, sizeof(struct sequence *));
	s->free_slots = mem_zalloc(n, sizeof *s->free_slots);
	s->tables = mem_zalloc(n * (size_t)s->max_blocks, sizeof *s->tables);
	s->items = mem_zalloc(n, sizeof *s->items);
	s->copies = mem_zalloc(n, sizeof *s->copies);
	for (int i = s->opt.max_seqs - 1; i >= 0; i--)
		s->free_slots[s->n_free_slots++] = i;
}

int scheduler_create(const struct scheduler_options *o, struct scheduler **out, char *err, size_t len)
{
	struct kv_pool *pool;
	int rc = check_options(o, err, len);
	if (!rc)
		rc = kv_pool_create(o->n_blocks, &pool, err, len);
	if (rc)
		return rc;
	int roots = (o->n_blocks < MAX_ROOTS ? o->n_blocks : MAX_ROOTS) + o->max_seqs;
	struct prefix_tree_options to = {.block_tokens = o->block_tokens, .n_roots = roots, .hash_bits = o->hash_bits};
	struct scheduler *s = mem_zalloc(1, sizeof *s);
	s->opt = *o;
	s->pool = pool;
	s->tree = prefix_tree_create(&to, pool);
	list_init(&s->waiting);
	list_init(&s->paused);
	step_model_init(&s->model, o->target_itl_ns);
	create_arrays(s);
	*out = s;
	return 0;
}

void scheduler_destroy(struct scheduler *s)
{
	if (!s)
		return;
	CHECK(!s->n_running && !s->n_waiting, "%d sequences run, %d wait", s->n_running, s->n_waiting);
	free(s->copies);
	free(s->items);
	free(s->tables);
	free(s->free_slots);
	free(s->order);
	free(s->running);
	free(s->states);
	prefix_tree_destroy(s->tree);
	kv_pool_destroy(s->pool);
	free(s);
}

// --- the queue

void scheduler__enqueue(struct scheduler *s, struct sequence *seq)
{
	struct list *head = scheduler__state(seq)->paused ? &s->paused : &s->waiting, *at = head->prev;
	// From the end: a new one is the last of its class. The queue is bounded, and so is this walk.
	while (at != head &&
		   scheduler__before(scheduler__rank(seq), scheduler__rank(LIST_ENTRY(at, struct sequence, link))))
		at = at->prev;
	list_insert_before(at->next, &seq->link);
	seq->state = SEQ_WAITING;
	s->n_waiting++;
	s->waiting_tokens += seq->n_tokens;
}

void scheduler__dequeue(struct scheduler *s, struct sequence *seq)
{
	list_remove(&seq->link);
	s->n_waiting--;
	s->waiting_tokens -= seq->n_tokens;
}

static void take_state(struct scheduler *s, struct sequence *seq)
{
	int32_t i = s->free_state;
	if (i >= 0)
		s->free_state = s->states[i].next_free;
	else
		i = s->n_touched_states++;
	CHECK(i < s->n_states, "%d states", s->n_states);
	s->states[i] = (struct seq_state){.seq = seq, .node = PREFIX_NONE, .root = PREFIX_NONE};
	seq->sched = &s->states[i];
}

static void give_state(struct scheduler *s, struct sequence *seq)
{
	struct seq_state *st = seq->sched;
	st->seq = NULL;
	st->next_free = s->free_state;
	s->free_state = (int32_t)(st - s->states);
	seq->sched = NULL;
}

int scheduler_add(struct scheduler *s, struct sequence *seq, uint64_t now_ns)
{
	CHECK(seq->n_tokens >= 1 && seq->n_tokens <= seq->n_max && seq->n_prompt >= 1, "%d of %d tokens, %d of the prompt",
		  seq->n_tokens, seq->n_max, seq->n_prompt);
	int64_t most = (int64_t)s->opt.n_blocks * s->opt.block_tokens;
	if (seq->n_max > s->opt.max_model_len || seq->n_tokens + (seq->n_tokens < seq->n_max) > most)
		return ERR_LIMIT;
	if (s->n_waiting >= s->opt.queue_limit)
		return ERR_BUSY;
	if (s->n_waiting && s->waiting_tokens + seq->n_tokens > s->opt.queue_tokens)
		return ERR_BUSY;
	if (seq->n_max > most)
		seq->n_max = (int)most;
	seq->added_ns = now_ns;
	seq->admitted_ns = 0;
	seq->n_cached = seq->n_computed = seq->n_blocks = seq->n_preempted = 0;
	seq->slot = -1;
	seq->blocks = NULL;
	list_init(&seq->link);
	take_state(s, seq);
	scheduler__enqueue(s, seq);
	return 0;
}

void scheduler_finish(struct scheduler *s, struct sequence *seq)
{
	CHECK(!s->in_step, "between plan and commit");
	if (seq->state == SEQ_FINISHED)
		return;
	if (seq->state == SEQ_RUNNING)
		scheduler__stop(s, seq);
	else
		scheduler__dequeue(s, seq);
	int generated = seq->n_tokens - seq->n_prompt;
	if (generated > 0)
		s->mean_output += (generated - s->mean_output) * (s->mean_output > 0 ? LEARN : 1);
	seq->state = SEQ_FINISHED;
	give_state(s, seq);
}

void scheduler_pause(struct scheduler *s, struct sequence *seq, bool paused)
{
	if (seq->state == SEQ_FINISHED || scheduler__state(seq)->paused == paused)
		return;
	CHECK(!s->in_step, "between plan and commit");
	bool waits = seq->state == SEQ_WAITING;
	if (waits)
		scheduler__dequeue(s, seq);
	else
		s->n_running_paused += paused ? 1 : -1;
	scheduler__state(seq)->paused = paused;
	if (waits)
		scheduler__enqueue(s, seq);
}

// --- after the step

void scheduler_commit(struct scheduler *s, uint64_t duration_ns)
{
	CHECK(s->in_step, "no plan");
	s->in_step = false;
	for (int i = 0; i < s->plan.n_items; i++) {
		const struct plan_item *it = &s->items[i];
		it->seq->n_computed += it->n;
		scheduler__store(s, it->seq);
	}
	for (int i = 0; i < s->plan.n_copies; i++)
		prefix_tree_release(s->tree, s->copies[i].src, s->step);
	step_model_observe(&s->model, &s->work, duration_ns);
	s->n_steps++;
}

void scheduler_append(struct scheduler *s, struct sequence *seq, int32_t id)
{
	CHECK(seq->n_tokens < seq->n_max && seq->state == SEQ_RUNNING, "%d of %d tokens", seq->n_tokens, seq->n_max);
	seq->first_logit = seq->n_tokens;
	seq->tokens[seq->n_tokens++] = id;
}

bool scheduler_has_work(const struct scheduler *s)
{
	return !list_empty(&s->waiting) || s->n_running > s->n_running_paused;
}

void scheduler_get_stats(const struct scheduler *s, struct scheduler_stats *out)
{
	*out = (struct scheduler_stats){
		.n_running = s->n_running,
		.n_waiting = s->n_waiting,
		.waiting_tokens = s->waiting_tokens,
		.blocks_total = s->opt.n_blocks,
		.blocks_free = kv_pool_n_free(s->pool),
		.blocks_cached = kv_pool_n_cached(s->pool),
		.blocks_used = kv_pool_n_used(s->pool),
		.prefix_queries = s->prefix_queries,
		.prefix_hits = s->prefix_hits,
		.preemptions = s->preemptions,
		.evictions = prefix_tree_n_evictions(s->tree),
		.steps = s->n_steps,
		.prompt_tokens_computed = s->prompt_tokens_computed,
		.prompt_tokens_recomputed = s->prompt_tokens_recomputed,
	};
}
