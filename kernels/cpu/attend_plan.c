// SPDX-License-Identifier: Apache-2.0
//
// How attention is cut into work items, and the memory for it. An item is a tile of query rows on one KV head; where a
// few tiles hold most of a step's work (a long context being decoded), each of them is split into spans of whole
// chunks. Chunks are merged in ascending order either way, so a cut never changes a bit.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/attend.h"

#include <stdlib.h>

enum {
	SPLITS_A_THREAD = 4,	  // a tile is split if it is more than this fraction of a thread's share of the step
	PARTS_A_THREAD = 4 << 20, // bytes for the chunks of split tiles; what does not fit is not split
	MAX_PARTS = 64 << 20,
	ITEMS_A_CLAIM = 16,	 // a thread claims at most this fraction of its items at a time
	INLINE_WORK = 4000,	 // rows × positions × Dh / 16 that one thread does before a second one has woken up
	MAX_CLAIMS = 500000, // the team's limit is a little higher
};

static size_t aligned(size_t bytes)
{
	return (bytes + KERNEL_ALIGN - 1) & ~(size_t)(KERNEL_ALIGN - 1);
}

static size_t parts_bytes(int n_threads)
{
	size_t bytes = n_threads > 1 ? (size_t)n_threads * PARTS_A_THREAD : 0;
	return bytes < MAX_PARTS ? bytes : MAX_PARTS;
}

static size_t counters_of(int n_threads)
{
	return (size_t)n_threads * SPLITS_A_THREAD * 2;
}

size_t cpu_attention_scratch_bytes(const struct cpu_backend *be, const struct reserve *r)
{
	int n = team_size(be->team);
	return (size_t)n * sizeof(struct attention_thread) + parts_bytes(n) +
		   ((size_t)r->max_seqs + 1) * (sizeof(struct attention_cut) + 2 * sizeof(size_t)) +
		   counters_of(n) * sizeof(_Atomic int) + sizeof(struct attention_scratch);
}

int cpu_attention_reserve(struct cpu_backend *be, const struct reserve *r)
{
	struct attention_scratch *s = mem_zalloc(1, sizeof *s);
	int n = team_size(be->team);
	be->attention_scratch = s;
	s->threads = aligned_alloc(KERNEL_ALIGN, (size_t)n * sizeof *s->threads);
	s->cuts = mem_zalloc((size_t)r->max_seqs + 1, sizeof *s->cuts);
	s->items = mem_zalloc((size_t)r->max_seqs + 1, sizeof *s->items);
	s->pieces = mem_zalloc((size_t)r->max_seqs + 1, sizeof *s->pieces);
	s->n_counters = counters_of(n);
	s->spans_done = mem_zalloc(s->n_counters, sizeof *s->spans_done);
	s->n_parts = parts_bytes(n) / sizeof(float);
	s->parts = aligned_alloc(KERNEL_ALIGN, aligned(s->n_parts * sizeof(float) + 1));
	return s->threads && s->parts ? 0 : ERR_NOMEM;
}

void cpu_attention_release(struct cpu_backend *be)
{
	struct attention_scratch *s = be->attention_scratch;
	if (!s)
		return;
	free(s->threads);
	free(s->cuts);
	free(s->items);
	free(s->pieces);
	free(s->spans_done);
	free(s->parts);
	free(s);
	be->attention_scratch = NULL;
}

int cpu_attention_find(const size_t *firsts, int n_seqs, size_t i)
{
	int low = 0, high = n_seqs;
	while (high - low > 1) {
		int middle = (low + high) / 2;
		if (firsts[middle] <= i)
			low = middle;
		else
			high = middle;
	}
	return low;
}

// Positions that the last tile of sequence s sees: no tile of it sees more.
static int positions_seen(const struct batch_view *b, const struct attention *a, int s, int tile_tokens)
{
	int window = a->window ? a->window + tile_tokens - 1 : b->kv_len[s];
	return b->kv_len[s] < window ? b->kv_len[s] : window;
}

// Rows × positions of a full tile of sequence s.
static double tile_work(const struct batch_view *b, const struct attention *a, const struct attention_plan *p, int s)
{
	int tokens = b->seq_start[s + 1] - b->seq_start[s];
	int rows = (tokens < p->tile_tokens ? tokens : p->tile_tokens) * p->group_heads;
	return (double)rows * positions_seen(b, a, s, p->tile_tokens);
}

static void choose_tiles(struct attention_plan *p, const struct attention *a)
{
	int heads = a->n_heads / a->n_kv_heads;
	p->n_groups = (heads + TILE_ROWS - 1) / TILE_ROWS;
	p->group_heads = (heads + p->n_groups - 1) / p->n_groups;
	p->n_groups = (heads + p->group_heads - 1) / p->group_heads;
	p->tile_tokens = TILE_ROWS / p->group_heads;
	p->part_stride = PART_OUT + (a->head_dim + 15) / 16 * 16;
}

// Splits the tiles of sequence s into spans if one of them is much of the step's work and there is room for their
// chunks.
static void split(struct attention_scratch *st, struct attention_cut *c, const struct batch_view *b,
				  const struct attention *a, int s, double spans, size_t *counters, size_t *parts)
{
	const struct attention_plan *p = &st->plan;
	int edges = a->window ? 2 : 1; // of chunks that a range of positions need not start or end at
	int n_chunks = (positions_seen(b, a, s, p->tile_tokens) + edges * (ATTENTION_CHUNK - 1)) / ATTENTION_CHUNK;
	size_t tiles = (size_t)a->n_kv_heads * (size_t)p->n_groups * (size_t)c->n_tiles;
	size_t floats = tiles * (size_t)n_chunks * TILE_ROWS * (size_t)p->part_stride;
	c->n_spans = 1;
	if (spans <= 1 || n_chunks < 2 || *counters + tiles > st->n_counters || *parts + floats > st->n_parts)
		return;
	c->n_spans = spans < n_chunks ? (int)spans + 1 : n_chunks;
	c->n_chunks = n_chunks;
	c->first_counter = *counters;
	c->first_part = *parts;
	*counters += tiles;
	*parts += floats;
}

void cpu_attention_plan(struct cpu_backend *be, const struct attention *a)
{
	struct attention_scratch *st = attention_scratch_of(be);
	struct attention_plan *p = &st->plan;
	const struct batch_view *b = be->batch;
	double threads = team_size(be->team), all = 0;
	size_t counters = 0, parts = 0;
	choose_tiles(p, a);
	size_t columns = (size_t)a->n_kv_heads * (size_t)p->n_groups;
	for (int s = 0; s < b->n_seqs; s++) {
		int tokens = b->seq_start[s + 1] - b->seq_start[s];
		st->cuts[s].n_tiles = (tokens + p->tile_tokens - 1) / p->tile_tokens;
		all += tile_work(b, a, p, s) * (double)columns * st->cuts[s].n_tiles;
	}
	size_t n_items = 0;
	for (int s = 0; s < b->n_seqs; s++) {
		struct attention_cut *c = &st->cuts[s];
		double share = tile_work(b, a, p, s) * threads * SPLITS_A_THREAD / all;
		split(st, c, b, a, s, threads > 1 ? share : 0, &counters, &parts);
		st->items[s] = n_items;
		n_items += columns * (size_t)c->n_tiles * (size_t)c->n_spans;
	}
	st->items[b->n_seqs] = n_items;
	for (size_t i = 0; i < counters; i++)
		atomic_store_explicit(&st->spans_done[i], 0, memory_order_relaxed);
	size_t fair = n_items / ((size_t)threads * ITEMS_A_CLAIM);
	p->grain = all * a->head_dim / 16 < INLINE_WORK ? n_items : fair ? fair : 1;
	if (n_items / p->grain >= MAX_CLAIMS)
		p->grain = n_items / MAX_CLAIMS + 1;
}
