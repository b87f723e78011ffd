// SPDX-License-Identifier: Apache-2.0
//
// The decisions of a step, in this order:
//   make way      an urgent class takes seats and blocks from a less urgent one
//   secure        by rank, every running sequence is assured the blocks for the tokens it has; where they run out,
//   paused
//                 sequences, then the last in rank are preempted. So the oldest always goes on, and nothing scheduled
//                 below is undone
//   decodes       one token each
//   prompts       running ones and the queue, merged by rank, each as long a chunk as tokens, time and logit rows allow
// Everything is O(running + admitted); of the queue only a bounded number is looked at.
#include "engine/base/err.h"
#include "engine/scheduler_internal.h"

// MAX_PASSED: how many sequences may be admitted past one that does not fit, before the blocks that become free are
// kept for it. LOOK: how many waiting ones a step looks at, beyond the number of seats.
// FIRST_GUESS: tokens a sequence is expected to generate, before any has ended.
enum { MAX_PASSED = 16, LOOK = 64, FIRST_GUESS = 128 };

static bool is_decoding(const struct sequence *seq)
{
	return seq->n_computed == seq->n_tokens - 1;
}

// One that others waited for in the step before is as urgent as the most urgent of them.
static struct rank rank_now(const struct scheduler *s, const struct sequence *seq)
{
	const struct seq_state *st = scheduler__state(seq);
	struct rank own = scheduler__rank(seq);
	bool urged = st->urgent_step && st->urgent_step + 1 == s->step && scheduler__before(st->urgent, own);
	return urged ? st->urgent : own;
}

static void order_running(struct scheduler *s)
{
	s->n_order = 0;
	for (int i = 0; i < s->n_running; i++) {
		struct sequence *seq = s->running[i];
		if (scheduler__state(seq)->paused)
			continue;
		int at = s->n_order++;
		for (; at > 0 && scheduler__before(rank_now(s, seq), rank_now(s, s->order[at - 1])); at--)
			s->order[at] = s->order[at - 1];
		s->order[at] = seq;
	}
}

static struct sequence *last_paused(const struct scheduler *s)
{
	for (int i = s->n_running_paused ? s->n_running - 1 : -1; i >= 0; i--)
		if (scheduler__state(s->running[i])->paused)
			return s->running[i];
	return NULL;
}

// Blocks for tokens that a sequence will probably generate: what others did on average is left of it, but at least a
// block.
static int expected_growth(const struct scheduler *s, const struct sequence *seq)
{
	int mean = s->mean_output > 0 ? (int)s->mean_output : FIRST_GUESS;
	int left = mean - (seq->n_tokens - seq->n_prompt), room = seq->n_max - seq->n_tokens;
	left = left < s->opt.block_tokens ? s->opt.block_tokens : left;
	left = left > room ? room : left;
	return scheduler__blocks_for(s, seq->n_tokens + left) - scheduler__blocks_for(s, seq->n_tokens);
}

// --- make way and secure

static struct sequence *first_waiting(const struct scheduler *s)
{
	return list_empty(&s->waiting) ? NULL : LIST_ENTRY(s->waiting.next, struct sequence, link);
}

static void make_way(struct scheduler *s)
{
	struct sequence *seq = first_waiting(s);
	if (!seq || !s->n_running || s->running[s->n_running - 1]->priority <= seq->priority)
		return;
	struct prefix_match m;
	scheduler__match(s, seq, &m);
	int need = scheduler__blocks_for(s, seq->n_tokens) - m.n / s->opt.block_tokens;
	while (s->n_running && s->running[s->n_running - 1]->priority > seq->priority &&
		   (!s->n_free_slots || need > scheduler__available(s)))
		scheduler__preempt(s, s->running[s->n_running - 1]);
}

static void secure(struct scheduler *s)
{
	s->owed = s->growth = 0;
	for (int i = 0; i < s->n_order; i++) {
		struct sequence *seq = s->order[i];
		int need = scheduler__blocks_for(s, seq->n_tokens) - seq->n_blocks;
		s->owed += need;
		while (s->owed > scheduler__available(s)) {
			struct sequence *victim = last_paused(s);
			if (!victim)
				victim = s->order[--s->n_order];
			scheduler__preempt(s, victim);
			if (victim == seq) {
				s->owed -= need;
				return;
			}
		}
		s->growth += expected_growth(s, seq);
	}
}

// --- items

static void add_item(struct scheduler *s, struct sequence *seq, int n)
{
	int start = seq->n_computed, end = start + n;
	int first = seq->first_logit > start ? seq->first_logit : start;
	struct plan_item *it = &s->items[s->plan.n_items++];
	scheduler__grow_table(s, seq, end);
	*it = (struct plan_item){.seq = seq, .start = start, .n = n, .samples = end == seq->n_tokens};
	it->n_out = end > first ? end - first : 0;
	s->plan.n_tokens += n;
	s->plan.n_out += it->n_out;
	s->work.n_seqs++;
	s->work.n_kv += step_model_kv(start, n);

	int n_high = scheduler__state(seq)->n_high, again = n_high < end ? n_high - start : n;
	int prompt_end = seq->n_prompt > n_high ? seq->n_prompt : n_high, asked = prompt_end < end ? prompt_end - start : n;
	s->prompt_tokens_recomputed += (uint64_t)(again > 0 ? again : 0);
	s->prompt_tokens_computed += (uint64_t)(asked > 0 ? asked : 0);
}

static void plan_decodes(struct scheduler *s)
{
	for (int i = 0; i < s->n_order; i++)
		if (is_decoding(s->order[i]))
			add_item(s, s->order[i], 1);
	s->n_decodes = s->plan.n_items;
}

// How many positions of a prompt, from `start` on, this step takes; 0: none. Where the prompt goes on after it, the
// chunk ends with a block, so that a whole block becomes findable.
static int chunk_size(const struct scheduler *s, const struct sequence *seq, int start)
{
	bool first = s->plan.n_items == s->n_decodes;
	int left = seq->n_tokens - start, most = s->opt.max_batched_tokens - s->plan.n_tokens;
	int no_rows = seq->first_logit > start ? seq->first_logit - start : 0;
	int least = first ? STEP_TILE : 1;
	if (most > no_rows + s->opt.max_out - s->plan.n_out)
		most = no_rows + s->opt.max_out - s->plan.n_out;
	if (most > left)
		most = left;
	if (s->n_decodes && s->opt.target_itl_ns) {
		int fit = step_model_fit(&s->model, &s->work, start, most, s->opt.target_itl_ns);
		fit = fit < least && first ? least : fit;
		most = most > fit ? fit : most;
	}
	if (most <= 0 || most == left)
		return most > 0 ? most : 0;
	int whole = (start + most) / s->opt.block_tokens * s->opt.block_tokens - start;
	return whole >= least ? whole : first ? most : 0;
}

static void add_chunk(struct scheduler *s, struct sequence *seq, int n)
{
	s->work.n_prompt += n;
	add_item(s, seq, n);
}

// --- in flight

// Does an item compute the position after the match m of seq's first tokens, following the same tokens? How many of the
// positions that seq wants it computes.
static int common_ahead(const struct scheduler *s, const struct plan_item *it, const struct sequence *seq,
						const struct prefix_match *m)
{
	const struct sequence *other = it->seq;
	const int B = s->opt.block_tokens, at = m->n + m->n_tail;
	int end = it->start + it->n, limit = seq->n_tokens - 1;
	if (scheduler__state(other)->root == PREFIX_NONE || it->start > at || end <= at)
		return 0;
	limit = seq->first_logit < limit ? seq->first_logit : limit;
	int32_t node = m->n ? prefix_tree_node_of(s->tree, other->blocks[m->n / B - 1]) : scheduler__state(other)->root;
	if (node != m->node)
		return 0;
	end = end < limit ? end : limit;
	int i = m->n;
	while (i < end && other->tokens[i] == seq->tokens[i])
		i++;
	return i > at ? i - at : 0;
}

// Is what seq would compute next being computed in this very step? Then it is matched again in the next one. The wait
// must be worth a step: a block, or half of what is left. Its urgency passes to the one it waits for.
static bool waits(struct scheduler *s, const struct sequence *seq, const struct prefix_match *m)
{
	int at = m->n + m->n_tail, left = seq->n_tokens - at;
	if (m->node == PREFIX_NONE)
		return false;
	for (int i = s->n_decodes; i < s->plan.n_items; i++) {
		int gain = common_ahead(s, &s->items[i], seq, m);
		if (gain < s->opt.block_tokens && 2 * gain < left)
			continue;
		struct seq_state *other = scheduler__state(s->items[i].seq);
		struct rank rank = rank_now(s, seq);
		if (other->urgent_step != s->step || scheduler__before(rank, other->urgent))
			other->urgent = rank;
		other->urgent_step = s->step;
		return true;
	}
	return false;
}

// --- prompts

// One that runs already may find what others have computed since.
static void plan_running_prompt(struct scheduler *s, struct sequence *seq)
{
	struct prefix_match m;
	scheduler__match(s, seq, &m);
	if (m.node != PREFIX_NONE) {
		// A copy holds its source for the step: only where that leaves enough for everybody.
		if (m.n_tail && s->owed >= scheduler__available(s))
			m.n_tail = 0;
		int at = seq->n_computed;
		struct prefix_match here = m;
		bool further = m.n + m.n_tail > at;
		if (!further) {
			here.n = at / s->opt.block_tokens * s->opt.block_tokens;
			here.n_tail = at - here.n;
		}
		if (waits(s, seq, &here))
			return;
		if (further && chunk_size(s, seq, m.n + m.n_tail) > 0)
			scheduler__adopt(s, seq, &m);
	}
	int n = chunk_size(s, seq, seq->n_computed);
	if (n > 0)
		add_chunk(s, seq, n);
}

// Blocks for all its tokens, for what everybody owes and is expected to grow by. Alone it needs no reserve:
// scheduler_add has seen to it that it fits.
static bool fits(const struct scheduler *s, const struct sequence *seq, const struct prefix_match *m)
{
	int have = m->n / s->opt.block_tokens + scheduler__takes_in_place(s, m);
	int need = scheduler__blocks_for(s, seq->n_tokens) - have + s->owed;
	if (s->n_running)
		need += s->growth + expected_growth(s, seq);
	int spare = scheduler__available(s) - need;
	return spare >= 0 && scheduler__count_idle(s, m, spare + 1) <= spare;
}

// Blocks and a seat, from paused sequences if need be. May give up the tail of the match, whose copy needs its source
// for a step.
static bool find_room(struct scheduler *s, const struct sequence *seq, struct prefix_match *m)
{
	while (!s->n_free_slots || !fits(s, seq, m)) {
		struct sequence *victim = last_paused(s);
		if (victim) {
			scheduler__preempt(s, victim);
			continue;
		}
		if (!s->n_free_slots || s->n_running || !m->n_tail)
			return false;
		m->n_tail = 0;
		m->tail = PREFIX_NONE;
	}
	return true;
}

static void admit(struct scheduler *s, struct sequence *seq, const struct prefix_match *m)
{
	bool first_time = !seq->admitted_ns;
	scheduler__dequeue(s, seq);
	s->growth += expected_growth(s, seq);
	s->owed += scheduler__blocks_for(s, seq->n_tokens);
	scheduler__start(s, seq);
	scheduler__adopt(s, seq, m);
	scheduler__state(seq)->n_passed = 0;
	if (!first_time)
		return;
	seq->admitted_ns = s->now_ns ? s->now_ns : 1;
	seq->n_cached = seq->n_computed;
	if (seq->choice == 0 && scheduler__is_cached(s, seq)) {
		s->prefix_queries += (uint64_t)seq->n_prompt;
		s->prefix_hits += (uint64_t)seq->n_cached;
	}
}

enum verdict { ADMITTED, PASSED_OVER, DOES_NOT_FIT, STEP_FULL };

static enum verdict consider_waiting(struct scheduler *s, struct sequence *seq)
{
	struct prefix_match m;
	scheduler__match(s, seq, &m);
	if (waits(s, seq, &m))
		return PASSED_OVER;
	if (!chunk_size(s, seq, m.n + m.n_tail))
		return STEP_FULL;
	if (!find_room(s, seq, &m))
		return s->n_free_slots ? DOES_NOT_FIT : STEP_FULL;
	int n = chunk_size(s, seq, m.n + m.n_tail); // the match may have shrunk
	admit(s, seq, &m);
	add_chunk(s, seq, n);
	return ADMITTED;
}

// The queue as the prompts pass walks it.
struct walk {
	struct list *next;
	struct sequence *blocked; // the first that did not fit: only few of its class pass it
	int looks;
};

static struct sequence *peek(const struct scheduler *s, const struct walk *w)
{
	if (w->next == &s->waiting || !w->looks)
		return NULL;
	struct sequence *seq = LIST_ENTRY(w->next, struct sequence, link);
	const struct sequence *b = w->blocked;
	bool may_pass = !b || (seq->priority <= b->priority && scheduler__state(b)->n_passed < MAX_PASSED);
	return may_pass ? seq : NULL;
}

static void plan_prompts(struct scheduler *s)
{
	struct walk w = {s->waiting.next, NULL, s->opt.max_seqs + LOOK};
	int i = 0;
	for (;;) {
		while (i < s->n_order && is_decoding(s->order[i]))
			i++;
		struct sequence *running = i < s->n_order ? s->order[i] : NULL, *waiting = peek(s, &w);
		if (s->plan.n_tokens >= s->opt.max_batched_tokens || (!running && !waiting))
			return;
		if (running && (!waiting || !scheduler__before(scheduler__rank(waiting), rank_now(s, running)))) {
			plan_running_prompt(s, running);
			i++;
			continue;
		}
		w.next = w.next->next;
		w.looks--;
		enum verdict v = consider_waiting(s, waiting);
		if (v == STEP_FULL)
			w.looks = 0;
		else if (v == DOES_NOT_FIT && !w.blocked)
			w.blocked = waiting;
		else if (v == ADMITTED && w.blocked)
			scheduler__state(w.blocked)->n_passed++;
	}
}

const struct plan *scheduler_plan(struct scheduler *s, uint64_t now_ns)
{
	CHECK(!s->in_step, "the last plan was not committed");
	s->step++;
	s->now_ns = now_ns;
	s->plan = (struct plan){.items = s->items, .copies = s->copies};
	s->work = (struct step_work){0};
	make_way(s);
	order_running(s);
	secure(s);
	plan_decodes(s);
	plan_prompts(s);
	s->in_step = s->plan.n_items > 0;
	return &s->plan;
}
