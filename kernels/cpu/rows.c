// SPDX-License-Identifier: Apache-2.0
//
// Work on whole rows: norm and quantise in one visit while the row is in the first-level cache, norm and add,
// embedding.
#include "kernels/cpu/linear.h"
#include "kernels/cpu/matrix.h"

#include <string.h>

enum { ALONE_FLOATS = 4096 }; // a few microseconds of row work: less than it costs to share it

static void quantise_row(const struct row_work *w, const float *x, size_t i, float *own)
{
	struct act_block *q = w->q + (w->with_residues ? 2 * i : i) * act_stride(w->d);
	w->isa->quantise(x, w->d, q);
	if (!w->with_residues)
		return;
	for (size_t k = 0; k < w->d; k++)
		own[k] = x[k] - (float)q[k / BLOCK].q[k % BLOCK] * q[k / BLOCK].d;
	w->isa->quantise(own, w->d, q + act_stride(w->d));
}

static void work_on_rows(void *ctx, size_t first, size_t last, int thread)
{
	const struct row_work *w = ctx;
	float *own = w->scratch + (size_t)thread * w->scratch_floats;
	bool normed = w->norm && w->norm->kind != NORM_NONE;
	for (size_t i = first; i < last; i++) {
		const float *x = w->x + (w->rows ? (size_t)w->rows[i] : i) * w->d;
		float *y = w->y ? w->y + i * w->d : own;
		if (normed) {
			w->isa->norm(w->norm, x, w->d, y);
			x = y;
		} else if (w->y) {
			memcpy(y, x, w->d * sizeof *y);
		}
		if (w->q)
			quantise_row(w, x, i, own);
		if (w->residual)
			w->isa->add(w->residual + i * w->d, x, w->d);
	}
}

void rows_run(struct cpu_backend *be, const struct row_work *w, size_t n)
{
	size_t grain = 1 + ALONE_FLOATS / 2 / w->d;
	struct row_work copy = *w;
	if (n * w->d <= ALONE_FLOATS)
		work_on_rows(&copy, 0, n, 0);
	else
		team_run(be->team, n, grain, work_on_rows, &copy);
}

struct embedding {
	const struct cpu_backend *be;
	const struct matrix *table;
	float scale;
};

static void embed_rows(void *ctx, size_t first, size_t last, int thread)
{
	const struct embedding *e = ctx;
	(void)thread;
	for (size_t t = first; t < last; t++) {
		float *x = e->be->x + t * e->table->k;
		matrix_read_row(e->table, (size_t)e->be->batch->ids[t], x);
		for (size_t i = 0; i < e->table->k; i++)
			x[i] *= e->scale;
	}
}

void cpu_embed(struct backend *b, const struct matrix *table, float scale)
{
	struct cpu_backend *be = cpu_of(b);
	struct embedding e = {be, table, scale};
	team_run(be->team, (size_t)be->batch->n_tokens, 2, embed_rows, &e);
}
