// SPDX-License-Identifier: Apache-2.0
//
// Norms of query and key heads, rotation, and appending keys and values to the cache. Angles are computed once a step
// and rope table. Work is cut at multiples of 32 or 16 positions, so that two threads never write the same columns of
// K.
#include "engine/base/err.h"
#include "kernels/cpu/attend.h"

#include <math.h>
#include <string.h>

enum { ROWS_A_CLAIM = 16, PIECE = 32 };

// --- the step's cosines and sines

static size_t table_width(const struct reserve *r)
{
	size_t width = 0;
	for (int i = 0; i < r->n_ropes; i++)
		if ((size_t)r->ropes[i].n_dims > width)
			width = (size_t)r->ropes[i].n_dims;
	return width;
}

// Cosines, then sines, of row t's position in one rope table.
static float *rope_row(const struct cpu_backend *be, int rope, int t)
{
	size_t row = (size_t)rope * (size_t)be->size.max_tokens + (size_t)t;
	return be->rope + row * table_width(&be->size);
}

static void fill_angles(void *ctx, size_t first, size_t last, int thread)
{
	const struct cpu_backend *be = ctx;
	(void)thread;
	for (int i = 0; i < be->size.n_ropes; i++) {
		const struct rope *r = &be->size.ropes[i];
		int half = r->kind == ROPE_NONE ? 0 : r->n_dims / 2;
		for (size_t t = first; t < last; t++) {
			float *c = rope_row(be, r->index, (int)t), pos = (float)be->batch->pos[t];
			for (int d = 0; d < half; d++) {
				float angle = pos * r->inv_freq[d];
				c[d] = cosf(angle) * r->magnitude;
				c[half + d] = sinf(angle) * r->magnitude;
			}
		}
	}
}

// --- pieces: which rows of a sequence one item appends

static int piece_tokens(const struct cpu_backend *be)
{
	return be->kv.shape.block_tokens < PIECE ? STRIP : PIECE;
}

static void cut_pieces(struct cpu_backend *be)
{
	const struct batch_view *b = be->batch;
	size_t *pieces = attention_scratch_of(be)->pieces, n = 0;
	int size = piece_tokens(be);
	for (int s = 0; s < b->n_seqs; s++) {
		pieces[s] = n;
		if (b->seq_start[s] < b->seq_start[s + 1])
			n += (size_t)(b->pos[b->seq_start[s + 1] - 1] / size - b->pos[b->seq_start[s]] / size + 1);
	}
	pieces[b->n_seqs] = n;
}

void cpu_rope_begin(struct cpu_backend *be)
{
	CHECK(be->batch->n_seqs <= be->size.max_seqs, "%d sequences, at most %d", be->batch->n_seqs, be->size.max_seqs);
	team_run(be->team, (size_t)be->batch->n_tokens, ROWS_A_CLAIM, fill_angles, be);
	cut_pieces(be);
}

// --- append

struct append {
	struct cpu_backend *be;
	const struct attention *a;
};

static void prepare_heads(const struct append *c, float *head, int n, const struct vector *w, int t)
{
	const struct cpu_attention_isa *isa = c->be->isa->attention;
	const struct rope *r = c->a->rope;
	int dh = c->a->head_dim;
	const float *angles = r && r->kind != ROPE_NONE ? rope_row(c->be, r->index, t) : NULL;
	for (int h = 0; h < n; h++, head += dh) {
		if (w)
			isa->norm(head, w->v, dh, c->a->qk_norm_eps);
		if (angles)
			isa->rotate(head, r->kind, r->n_dims, angles);
	}
}

// One token's K and V of one KV head: a column of K [Dh][B], a row of V [B][Dh]; block and slot are where.
static void store(const struct append *c, char *head, int slot, const float *k, const float *v)
{
	const struct cpu_attention_isa *isa = c->be->isa->attention;
	size_t dh = (size_t)c->a->head_dim, tokens = (size_t)c->be->kv.shape.block_tokens, at = (size_t)slot;
	if (c->be->kv.shape.type == KV_F16) {
		uint16_t column[MAX_HEAD_DIM], *to = (uint16_t *)(void *)head;
		isa->to_f16(k, (int)dh, column);
		for (size_t d = 0; d < dh; d++)
			to[d * tokens + at] = column[d];
		isa->to_f16(v, (int)dh, to + dh * tokens + at * dh);
	} else {
		float *to = (float *)(void *)head;
		for (size_t d = 0; d < dh; d++)
			to[d * tokens + at] = k[d];
		memcpy(to + dh * tokens + at * dh, v, dh * sizeof *v);
	}
}

static void append_row(const struct append *c, const int32_t *blocks, int t)
{
	const struct attention *a = c->a;
	const struct cpu_kv *kv = &c->be->kv;
	int dh = a->head_dim, pos = c->be->batch->pos[t], tokens = kv->shape.block_tokens;
	float *q = c->be->qkv + (size_t)t * (size_t)((a->n_heads + 2 * a->n_kv_heads) * dh), *k = q + a->n_heads * dh;
	char *block = kv->base + (size_t)blocks[pos / tokens] * kv->block_bytes;
	prepare_heads(c, q, a->n_heads, a->q_norm, t);
	prepare_heads(c, k, a->n_kv_heads, a->k_norm, t);
	for (int h = 0; h < a->n_kv_heads; h++)
		store(c, block + cpu_kv_head_offset(kv, a->layer, h), pos % tokens, k + h * dh, k + (a->n_kv_heads + h) * dh);
}

// Piece i of sequence s: its rows whose positions lie in one aligned range.
static void append_piece(const struct append *c, int s, size_t i)
{
	const struct batch_view *b = c->be->batch;
	int size = piece_tokens(c->be), first = b->seq_start[s], pos = b->pos[first];
	int from = (pos / size + (int)i) * size - pos, to = from + size, n = b->seq_start[s + 1] - first;
	for (int t = from < 0 ? 0 : from; t < (to < n ? to : n); t++)
		append_row(c, b->blocks[s], first + t);
}

static void append_pieces(void *ctx, size_t first, size_t last, int thread)
{
	const struct append *c = ctx;
	const size_t *pieces = attention_scratch_of(c->be)->pieces;
	int s = cpu_attention_find(pieces, c->be->batch->n_seqs, first);
	(void)thread;
	for (size_t i = first; i < last; i++) {
		while (i >= pieces[s + 1])
			s++;
		append_piece(c, s, i - pieces[s]);
	}
}

void cpu_rope_append(struct backend *b, const struct attention *a)
{
	struct append c = {cpu_of(b), a};
	team_run(c.be->team, attention_scratch_of(c.be)->pieces[c.be->batch->n_seqs], 1, append_pieces, &c);
}
