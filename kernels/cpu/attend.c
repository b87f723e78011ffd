// SPDX-License-Identifier: Apache-2.0
//
// Grouped-query attention over the paged cache. A tile is some consecutive tokens of a sequence times the query heads
// of one KV head; its rows share every load of K and V. A row sees positions from … to - 1 of a chunk (its window's
// start, the chunk's edges, its own position). Scores are computed for whole strips, since each is a sum of its own;
// maximum, sum and V count a row's own positions only: what lies outside may be another sequence's old bits, and zero
// times NaN is NaN.
//
// The bits of a row: chunks of ATTENTION_CHUNK absolute positions, each by itself, merged in ascending order. Nothing
// in that depends on the tile, the span or the thread.
#include "kernels/cpu/attend.h"
#include "engine/base/err.h"

#include <float.h>

struct job {
	struct cpu_backend *be;
	const struct attention *a;
};

struct tile {
	const struct job *job;
	struct attention_thread *mem;
	const int32_t *blocks;
	int kv_head, first_head, heads; // of the query heads, first_head … first_head + heads - 1
	int first_row, tokens;			// of the step
	int pos;						// of the first token
};

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

// --- what a token sees of the chunk that starts at c0: positions seen_from … seen_to - 1 of it, none if not in
// ascending order

static int seen_from(const struct tile *t, int token, int c0)
{
	int window = t->job->a->window, first = window ? t->pos + token - window + 1 : 0;
	return first > c0 ? first - c0 : 0;
}

static int seen_to(const struct tile *t, int token, int c0)
{
	return min_int(t->pos + token + 1 - c0, ATTENTION_CHUNK);
}

// The tokens of the tile, from … to - 1, that see some position in first … last - 1.
static void tokens_seeing(const struct tile *t, int first, int last, int *from, int *to)
{
	int window = t->job->a->window;
	*from = max_int(0, first - t->pos);
	*to = window ? min_int(t->tokens, last + window - 1 - t->pos) : t->tokens;
}

// --- loads

static void load_queries(const struct tile *t)
{
	const struct attention *a = t->job->a;
	int dh = a->head_dim, stride = (a->n_heads + 2 * a->n_kv_heads) * dh;
	const float *row = t->job->be->qkv + (size_t)t->first_row * (size_t)stride + (size_t)t->first_head * (size_t)dh;
	for (int i = 0, r = 0; i < t->tokens; i++, row += stride)
		for (int h = 0; h < t->heads; h++, r++)
			for (int d = 0; d < dh; d++)
				t->mem->q[d * TILE_ROWS + r] = row[h * dh + d] * a->scale;
}

// Where strips first_strip … of chunk c are. Behind the last position that the tile sees the last strip is repeated: no
// block may exist there.
static void find_strips(const struct tile *t, int chunk, int first_strip, struct attention_strips *out)
{
	const struct attention *a = t->job->a;
	const struct cpu_kv *kv = &t->job->be->kv;
	size_t dh = (size_t)a->head_dim, tokens = (size_t)kv->shape.block_tokens,
		   offset = cpu_kv_head_offset(kv, a->layer, t->kv_head);
	size_t element = kv->shape.type == KV_F16 ? sizeof(uint16_t) : sizeof(float);
	int last = (t->pos + t->tokens - 1) / STRIP, shift = __builtin_ctz((unsigned)tokens / STRIP),
		mask = (1 << shift) - 1;
	out->type = kv->shape.type;
	out->k_stride = tokens * element;
	for (int i = first_strip; i < CHUNK_STRIPS + STRIPS_AHEAD; i++) {
		int strip = chunk * CHUNK_STRIPS + i;
		if (strip > last) {
			out->k[i] = out->k[i - 1];
			out->v[i] = out->v[i - 1];
			continue;
		}
		const char *k = kv->base + (size_t)t->blocks[strip >> shift] * kv->block_bytes + offset;
		size_t slot = (size_t)(strip & mask) * STRIP;
		out->k[i] = k + slot * element;
		out->v[i] = k + (tokens + slot) * dh * element;
	}
}

// --- one chunk

// V for positions first … last - 1 that not all of the tile's tokens see, one at a time for those that do.
static void weigh_edge(const struct tile *t, int c0, int first, int last, float *parts, int stride)
{
	const struct cpu_attention_isa *isa = t->job->be->isa->attention;
	for (int p = first; p < last; p++) {
		int from, to;
		tokens_seeing(t, c0 + p, c0 + p + 1, &from, &to);
		if (from < to)
			isa->weigh(&t->mem->kv, p, p + 1, t->mem->scores + from * t->heads * SCORE_STRIDE, (to - from) * t->heads,
					   t->job->a->head_dim, parts + from * t->heads * stride, stride);
	}
}

// Parts of the tokens that see something of the chunk, *from … *to - 1; others are left alone.
static void compute_chunk(const struct tile *t, int chunk, float *parts, int stride, int *from, int *to)
{
	const struct attention *a = t->job->a;
	const struct cpu_attention_isa *isa = t->job->be->isa->attention;
	int c0 = chunk * ATTENTION_CHUNK, dh = a->head_dim;
	tokens_seeing(t, c0, c0 + ATTENTION_CHUNK, from, to);
	int first = seen_from(t, *from, c0), last = seen_to(t, *to - 1, c0), row = *from * t->heads,
		rows = (*to - *from) * t->heads;
	float *s = t->mem->scores, *mine = parts + row * stride;
	find_strips(t, chunk, first / STRIP, &t->mem->kv);
	isa->scores(&t->mem->kv, first / STRIP, (last - 1) / STRIP - first / STRIP + 1, t->mem->q + row, rows, dh,
				s + row * SCORE_STRIDE);
	for (int i = *from; i < *to; i++)
		for (int h = 0; h < t->heads; h++, row++) {
			isa->softmax(s + row * SCORE_STRIDE, seen_from(t, i, c0), seen_to(t, i, c0), a->softcap,
						 parts + row * stride);
			for (int d = PART_OUT; d < stride; d++)
				parts[row * stride + d] = 0;
		}
	int all_from = min_int(seen_from(t, *to - 1, c0), last), all_to = max_int(seen_to(t, *from, c0), all_from);
	weigh_edge(t, c0, first, all_from, parts, stride);
	isa->weigh(&t->mem->kv, all_from, all_to, s + *from * t->heads * SCORE_STRIDE, rows, dh, mine, stride);
	weigh_edge(t, c0, all_to, last, parts, stride);
}

static void merge_chunk(const struct tile *t, const float *parts, int stride, int from, int to)
{
	for (int row = from * t->heads; row < to * t->heads; row++)
		t->job->be->isa->attention->merge(t->mem->whole + row * stride, parts + row * stride, t->job->a->head_dim);
}

// --- one tile

static void start_merging(const struct tile *t, int stride)
{
	for (int row = 0; row < t->tokens * t->heads; row++) {
		float *whole = t->mem->whole + row * stride;
		for (int i = 0; i < stride; i++)
			whole[i] = 0;
		whole[PART_MAX] = -FLT_MAX;
	}
}

static void finish_rows(const struct tile *t, int stride)
{
	const struct attention *a = t->job->a;
	size_t dh = (size_t)a->head_dim, width = (size_t)a->n_heads * dh;
	for (int i = 0, row = 0; i < t->tokens; i++)
		for (int h = 0; h < t->heads; h++, row++)
			t->job->be->isa->attention->finish(t->mem->whole + row * stride, a->head_dim,
											   t->job->be->attn + (size_t)(t->first_row + i) * width +
												   (size_t)(t->first_head + h) * dh);
}

// The chunks that some token of the tile sees: first_chunk … last_chunk.
static int first_chunk(const struct tile *t)
{
	return seen_from(t, 0, 0) / ATTENTION_CHUNK;
}

static int last_chunk(const struct tile *t)
{
	return (t->pos + t->tokens - 1) / ATTENTION_CHUNK;
}

static void attend_tile(const struct tile *t)
{
	int stride = attention_scratch_of(t->job->be)->plan.part_stride, from, to;
	load_queries(t);
	start_merging(t, stride);
	for (int c = first_chunk(t); c <= last_chunk(t); c++) {
		compute_chunk(t, c, t->mem->parts, stride, &from, &to);
		merge_chunk(t, t->mem->parts, stride, from, to);
	}
	finish_rows(t, stride);
}

// One of n_spans ranges of a tile's chunks; parts has room for all of them. Whoever finishes the tile's last span
// merges.
static void attend_span(const struct tile *t, int span, int n_spans, float *parts, _Atomic int *done)
{
	int stride = attention_scratch_of(t->job->be)->plan.part_stride, from, to;
	int c0 = first_chunk(t), n = last_chunk(t) - c0 + 1, part = TILE_ROWS * stride;
	load_queries(t);
	for (int i = n * span / n_spans; i < n * (span + 1) / n_spans; i++)
		compute_chunk(t, c0 + i, parts + (size_t)i * (size_t)part, stride, &from, &to);
	if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 < n_spans)
		return;
	start_merging(t, stride);
	for (int i = 0; i < n; i++) {
		tokens_seeing(t, (c0 + i) * ATTENTION_CHUNK, (c0 + i + 1) * ATTENTION_CHUNK, &from, &to);
		merge_chunk(t, parts + (size_t)i * (size_t)part, stride, from, to);
	}
	finish_rows(t, stride);
}

static void attend_item(const struct job *job, int s, size_t item, struct attention_thread *mem)
{
	const struct attention *a = job->a;
	const struct batch_view *b = job->be->batch;
	struct attention_scratch *st = attention_scratch_of(job->be);
	const struct attention_plan *p = &st->plan;
	const struct attention_cut *c = &st->cuts[s];
	size_t unit = item / (size_t)c->n_spans; // (KV head, group, tile)
	int span = (int)(item % (size_t)c->n_spans), tile = (int)(unit % (size_t)c->n_tiles);
	int column = (int)(unit / (size_t)c->n_tiles), group = column % p->n_groups, kv_head = column / p->n_groups;
	int heads = a->n_heads / a->n_kv_heads, skipped = group * p->group_heads;
	struct tile t = {
		.job = job,
		.mem = mem,
		.blocks = b->blocks[s],
		.kv_head = kv_head,
		.first_head = kv_head * heads + skipped,
		.heads = min_int(p->group_heads, heads - skipped),
		.first_row = b->seq_start[s] + tile * p->tile_tokens,
		.tokens = min_int(p->tile_tokens, b->seq_start[s + 1] - b->seq_start[s] - tile * p->tile_tokens),
	};
	t.pos = b->pos[t.first_row];
	if (c->n_spans == 1)
		attend_tile(&t);
	else
		attend_span(&t, span, c->n_spans,
					st->parts + c->first_part + unit * (size_t)c->n_chunks * TILE_ROWS * (size_t)p->part_stride,
					&st->spans_done[c->first_counter + unit]);
}

static void attend_items(void *ctx, size_t first, size_t last, int thread)
{
	const struct job *job = ctx;
	struct attention_scratch *st = attention_scratch_of(job->be);
	int s = cpu_attention_find(st->items, job->be->batch->n_seqs, first);
	for (size_t i = first; i < last; i++) {
		while (i >= st->items[s + 1])
			s++;
		attend_item(job, s, i - st->items[s], &st->threads[thread]);
	}
}

void cpu_attend(struct backend *b, const struct attention *a)
{
	struct job job = {cpu_of(b), a};
	struct attention_scratch *st = attention_scratch_of(job.be);
	CHECK(a->head_dim <= MAX_HEAD_DIM && a->n_heads % a->n_kv_heads == 0, "%d heads, %d KV heads of %d", a->n_heads,
		  a->n_kv_heads, a->head_dim);
	if (!job.be->batch->n_tokens)
		return;
	cpu_attention_plan(job.be, a);
	team_run(job.be->team, st->items[job.be->batch->n_seqs], st->plan.grain, attend_items, &job);
}
