// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/model/runner.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runner {
	struct gguf *file;
	struct backend *be;
	struct model *model;
	struct runner_options o;
	int max_blocks;	  // of a sequence
	int32_t **tables; // [max_seqs][max_blocks]
	int *lens;		  // [max_seqs]
	int32_t *ids, *pos, *starts, *kv_lens, *out_rows;
	const int32_t **step_tables;
};

static int open_backend(const struct runner_options *o, struct backend **out, char *err, size_t len)
{
	if (!strcmp(o->backend, "ref")) {
		*out = ref_backend_create(o->n_threads);
		return 0;
	}
	if (strncmp(o->backend, "cpu", 3))
		return err_set(err, len, ERR_INVALID, "no back end is called %s", o->backend);
	return cpu_backend_create(o->n_threads, o->backend[3] == ':' ? o->backend + 4 : NULL, out, err, len);
}

static int make_cache(struct runner *r, char *err, size_t len)
{
	struct kv_shape *shape = mem_zalloc(1, sizeof *shape);
	struct reserve reserve;
	int n = r->max_blocks * r->o.max_seqs;
	model_kv_shape(model_spec(r->model), r->o.kv, r->o.block_tokens, shape);
	model_reserve_sizes(r->model, r->o.max_tokens, r->o.max_seqs, r->o.max_tokens, r->max_blocks, &reserve);
	int rc = r->be->op->reserve(r->be, &reserve, err, len);
	if (!rc)
		rc = r->be->op->kv_create(r->be, shape, (size_t)n, err, len);
	free(shape);
	return rc;
}

// Block i of sequence s: a fixed shuffle of all numbers.
static void make_tables(struct runner *r)
{
	int n = r->max_blocks * r->o.max_seqs, step = 1;
	for (int candidate = n / 2 + 1; candidate < n && step == 1; candidate++) {
		int a = candidate, b = n;
		while (b) {
			int rest = a % b;
			a = b;
			b = rest;
		}
		step = a == 1 ? candidate : 1;
	}
	r->tables = mem_zalloc((size_t)r->o.max_seqs, sizeof *r->tables);
	for (int s = 0; s < r->o.max_seqs; s++) {
		r->tables[s] = mem_zalloc((size_t)r->max_blocks, sizeof **r->tables);
		for (int i = 0; i < r->max_blocks; i++)
			r->tables[s][i] = (int32_t)((int64_t)(s * r->max_blocks + i) * step % n);
	}
}

static void make_batch(struct runner *r)
{
	size_t t = (size_t)r->o.max_tokens, s = (size_t)r->o.max_seqs;
	r->lens = mem_zalloc(s, sizeof *r->lens);
	r->ids = mem_zalloc(t, sizeof *r->ids);
	r->pos = mem_zalloc(t, sizeof *r->pos);
	r->out_rows = mem_zalloc(t, sizeof *r->out_rows);
	r->starts = mem_zalloc(s + 1, sizeof *r->starts);
	r->kv_lens = mem_zalloc(s, sizeof *r->kv_lens);
	r->step_tables = mem_zalloc(s, sizeof *r->step_tables);
}

struct runner *runner_open(const char *gguf, const struct runner_options *o, char *err, size_t len)
{
	struct runner *r = mem_zalloc(1, sizeof *r);
	r->o = *o;
	r->o.block_tokens = o->block_tokens ? o->block_tokens : 16;
	r->max_blocks = (o->max_len + r->o.block_tokens - 1) / r->o.block_tokens;
	make_tables(r);
	make_batch(r);
	int rc = gguf_open(gguf, &r->file, err, len);
	if (!rc)
		rc = open_backend(o, &r->be, err, len);
	if (!rc)
		rc = model_load(r->file, r->be, &r->model, err, len);
	if (!rc)
		rc = make_cache(r, err, len);
	if (!rc)
		return r;
	runner_close(r);
	return NULL;
}

void runner_close(struct runner *r)
{
	if (!r)
		return;
	model_destroy(r->model);
	if (r->be)
		r->be->op->destroy(r->be);
	gguf_close(r->file);
	for (int s = 0; s < r->o.max_seqs; s++)
		free(r->tables[s]);
	void *all[] = {r->tables, r->lens, r->ids, r->pos, r->out_rows, r->starts, r->kv_lens, r->step_tables, r};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		free(all[i]);
}

int runner_n_vocab(const struct runner *r)
{
	return model_spec(r->model)->n_vocab;
}

struct model *runner_model(struct runner *r)
{
	return r->model;
}

const char *runner_describe(const struct runner *r)
{
	return r->be->op->describe(r->be);
}

void runner_step(struct runner *r, const struct chunk *chunks, int n, bool all_rows, float *logits)
{
	int t = 0, n_out = 0;
	CHECK(n <= r->o.max_seqs, "%d chunks", n);
	for (int s = 0; s < n; s++) {
		const struct chunk *c = &chunks[s];
		CHECK(c->n > 0 && t + c->n <= r->o.max_tokens && r->lens[c->seq] + c->n <= r->o.max_len,
			  "chunk %d of %d tokens", s, c->n);
		r->starts[s] = t;
		r->step_tables[s] = r->tables[c->seq];
		for (int i = 0; i < c->n; i++, t++) {
			r->ids[t] = c->ids[i];
			r->pos[t] = r->lens[c->seq] + i;
			if (all_rows || i == c->n - 1)
				r->out_rows[n_out++] = t;
		}
		r->kv_lens[s] = r->lens[c->seq] += c->n;
	}
	r->starts[n] = t;
	struct batch_view b = {
		.n_tokens = t,
		.n_seqs = n,
		.ids = r->ids,
		.pos = r->pos,
		.seq_start = r->starts,
		.kv_len = r->kv_lens,
		.blocks = r->step_tables,
		.n_out = n_out,
		.out_rows = r->out_rows,
	};
	model_forward(r->model, &b, logits);
}

void runner_rewind(struct runner *r, int seq, int len)
{
	CHECK(len >= 0 && len <= r->lens[seq], "%d of %d", len, r->lens[seq]);
	r->lens[seq] = len;
}

void runner_feed(struct runner *r, int seq, const int32_t *ids, int n, float *logits)
{
	size_t v = (size_t)runner_n_vocab(r);
	for (int at = 0; at < n; at += r->o.max_tokens) {
		int more = n - at < r->o.max_tokens ? n - at : r->o.max_tokens;
		runner_step(r, &(struct chunk){seq, more, ids + at}, 1, true, logits + (size_t)at * v);
	}
}

void runner_poison(struct runner *r)
{
	struct kv_shape *shape = mem_zalloc(1, sizeof *shape);
	model_kv_shape(model_spec(r->model), r->o.kv, r->o.block_tokens, shape);
	size_t n = r->be->op->kv_block_bytes(r->be, shape);
	void *bytes = mem_alloc(n);
	memset(bytes, 0xFF, n);
	for (int32_t i = 0; i < r->max_blocks * r->o.max_seqs; i++)
		r->be->op->kv_write_block(r->be, i, bytes);
	memset(r->lens, 0, (size_t)r->o.max_seqs * sizeof *r->lens);
	free(bytes);
	free(shape);
}

void runner_fork(struct runner *r, int from, int to, int len)
{
	CHECK(len <= r->lens[from], "%d of %d", len, r->lens[from]);
	for (int at = 0, i = 0; at < len; at += r->o.block_tokens, i++) {
		int n = len - at < r->o.block_tokens ? len - at : r->o.block_tokens;
		r->be->op->kv_copy_tokens(r->be, r->tables[from][i], r->tables[to][i], n);
	}
	r->lens[to] = len;
}
