// SPDX-License-Identifier: Apache-2.0
#include "engine/batch.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct batch {
	int max_tokens, max_seqs, max_out;
	int32_t *ids, *pos, *seq_start, *kv_len, *out_rows;
	const int32_t **blocks;
	struct batch_view view;
};

struct batch *batch_create(int max_tokens, int max_seqs, int max_out)
{
	struct batch *b = mem_zalloc(1, sizeof *b);
	b->max_tokens = max_tokens;
	b->max_seqs = max_seqs;
	b->max_out = max_out;
	b->ids = mem_zalloc((size_t)max_tokens, sizeof *b->ids);
	b->pos = mem_zalloc((size_t)max_tokens, sizeof *b->pos);
	b->seq_start = mem_zalloc((size_t)max_seqs + 1, sizeof *b->seq_start);
	b->kv_len = mem_zalloc((size_t)max_seqs, sizeof *b->kv_len);
	b->out_rows = mem_zalloc((size_t)max_out, sizeof *b->out_rows);
	b->blocks = mem_zalloc((size_t)max_seqs, sizeof(const int32_t *));
	return b;
}

void batch_destroy(struct batch *b)
{
	if (!b)
		return;
	free(b->blocks);
	free(b->out_rows);
	free(b->kv_len);
	free(b->seq_start);
	free(b->pos);
	free(b->ids);
	free(b);
}

const struct batch_view *batch_build(struct batch *b, const struct plan *p)
{
	CHECK(p->n_tokens <= b->max_tokens && p->n_items <= b->max_seqs && p->n_out <= b->max_out,
		  "%d tokens, %d items, %d rows", p->n_tokens, p->n_items, p->n_out);
	int row = 0, n_out = 0;
	for (int s = 0; s < p->n_items; s++) {
		const struct plan_item *it = &p->items[s];
		memcpy(b->ids + row, it->seq->tokens + it->start, (size_t)it->n * sizeof *b->ids);
		for (int i = 0; i < it->n; i++)
			b->pos[row + i] = it->start + i;
		b->seq_start[s] = row;
		b->kv_len[s] = it->start + it->n;
		b->blocks[s] = it->seq->blocks;
		row += it->n;
		for (int i = it->n_out; i > 0; i--)
			b->out_rows[n_out++] = row - i;
	}
	b->seq_start[p->n_items] = row;
	b->view = (struct batch_view){
		.n_tokens = row,
		.n_seqs = p->n_items,
		.ids = b->ids,
		.pos = b->pos,
		.seq_start = b->seq_start,
		.kv_len = b->kv_len,
		.blocks = b->blocks,
		.n_out = n_out,
		.out_rows = b->out_rows,
	};
	return &b->view;
}
