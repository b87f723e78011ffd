// SPDX-License-Identifier: Apache-2.0
//
// Products with weights: what is multiplied with what, how the work is cut, and what happens to a result while it is
// still in the cache.
//
// An item of work is a unit of columns (a row group of the weight, or GROUP hidden values of an MLP) for a block of
// tokens. A thread computes it into a small buffer of its own, tile by tile, and then finishes it: stores it, adds it
// to the residual stream, or applies the activation and quantises it as the next product's input.
#include "kernels/cpu/linear.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/matrix.h"

#include <stdlib.h>
#include <string.h>

enum {
	TOKEN_BLOCK = 96,		 // tokens of an item at most
	BLOCK_BYTES = 384 << 10, // of their inputs: these stay in the second-level cache while the weights pass by
	FLOAT_INPUTS = 256,		 // a pass over float weights: this much of a group stays in the first-level cache
	PREFETCH_TOKENS = 32,	 // more tokens than this hide the next group's loads anyway
	CHUNKS_A_THREAD = 8,	 // so that a delayed thread's work can be taken over …
	MAX_GRAIN = 32,			 // … while one chunk still is a long linear stream
};

struct linear_scratch {
	void *memory;
	struct act_block *in, *hidden;		  // [T][act_stride(K)]
	float *in_float, *hidden_float, *out; // [T][K], [T][F], [T][D]
	float *tiles;						  // [threads][2][TOKEN_BLOCK][GROUP]
	float *rows;						  // [threads][max K], for row work
	size_t row_floats;
};

// Where a result goes. Only what applies is set.
struct finish {
	float *y;	   // [T][N], stored
	bool residual; // y += instead
	float softcap;
	bool with_residues; // rows of the product come in pairs that are added
	const float *bias;	// [N]
	// MLP: hidden values, from the product's columns u (gate) and F + u, as inputs of the next product.
	bool gated;
	enum activation act;
	size_t d_ff;
	struct act_block *hidden; // [T][act_stride(F)], or NULL
	float *hidden_float;	  // [T][F], or NULL
};

struct product {
	const struct cpu_linear_isa *isa;
	const struct linear_scratch *scratch;
	const struct matrix *w;
	const struct act_block *q; // [T][act_stride(K)]
	const float *x;			   // [T][K]
	size_t n_tokens, token_block, n_units;
	struct finish to;
};

static float *tile_of(const struct product *p, int thread, int which)
{
	return p->scratch->tiles + ((size_t)thread * 2 + (size_t)which) * TOKEN_BLOCK * GROUP;
}

// n tokens in equal tiles of at most `most`: 8 are 4 + 4, not 6 + 2. Returns the next tile's size.
static size_t next_tile(size_t n, size_t most)
{
	size_t tiles = (n + most - 1) / most;
	return n / tiles;
}

// Group g for n tokens from token t on, into c[n][GROUP]. While it multiplies, the lines of the next group are fetched,
// an equal share in each tile: else memory idles during all tiles but the first.
static void multiply_int(const struct product *p, const struct section *s, size_t g, size_t t, size_t n, float *c)
{
	size_t blocks = p->w->k / BLOCK, stride = act_stride(p->w->k), most = (size_t)p->isa->int_tile,
		   tiles = (n + most - 1) / most;
	const uint8_t *w = s->w + g * s->group_bytes, *ahead = w + s->group_bytes;
	bool fetch = n <= PREFETCH_TOKENS && g + 1 < s->n_groups;
	size_t lines = fetch ? (s->group_bytes / 64 + tiles * blocks - 1) / (tiles * blocks) : 0;
	while (n) {
		size_t now = next_tile(n, most);
		struct cpu_tile tile = {.w = w,
								.n = blocks,
								.q = p->q + t * stride,
								.stride = stride,
								.n_tokens = (int)now,
								.c = c,
								.ahead = ahead,
								.lines = (int)lines};
		p->isa->multiply[s->layout](&tile);
		ahead += lines * blocks * 64;
		c += now * GROUP;
		t += now;
		n -= now;
	}
}

static void multiply_float(const struct product *p, const struct section *s, size_t g, size_t t, size_t n, float *c)
{
	size_t k = p->w->k, most = (size_t)p->isa->float_tile, input = s->group_bytes / k;
	const uint8_t *w = s->w + g * s->group_bytes;
	bool fetch = n <= most && g + 1 < s->n_groups;
	memset(c, 0, n * GROUP * sizeof *c);
	for (size_t from = 0; from < k; from += FLOAT_INPUTS)
		for (size_t at = 0, now; at < n; at += now) {
			now = next_tile(n - at, most);
			struct cpu_tile tile = {.w = w + from * input,
									.n = k - from < FLOAT_INPUTS ? k - from : FLOAT_INPUTS,
									.x = p->x + (t + at) * k + from,
									.stride = k,
									.n_tokens = (int)now,
									.c = c + at * GROUP,
									.ahead = w + s->group_bytes + from * input,
									.lines = fetch ? (int)(input / 64) : 0};
			p->isa->multiply[s->layout](&tile);
		}
}

static void multiply_group(const struct product *p, size_t group, size_t t, size_t n, float *c)
{
	const struct section *s = matrix_section(p->w, group);
	if (s->layout < N_INT_LAYOUTS)
		multiply_int(p, s, group - s->first_group, t, n, c);
	else
		multiply_float(p, s, group - s->first_group, t, n, c);
}

// Columns from … from + cols - 1 into c[n][GROUP]. They are one group, unless a stacked weight has an odd number of
// rows.
static void multiply_columns(const struct product *p, size_t from, size_t cols, size_t t, size_t n, float *c)
{
	for (size_t at = 0; at < cols;) {
		const struct section *s = matrix_section_of_row(p->w, from + at);
		size_t row = from + at - s->first_row, skip = row % GROUP, have = GROUP - skip;
		have = have < s->rows - row ? have : s->rows - row;
		have = have < cols - at ? have : cols - at;
		if (!skip && have == cols) {
			multiply_group(p, s->first_group + row / GROUP, t, n, c);
			return;
		}
		_Alignas(64) float part[TOKEN_BLOCK * GROUP];
		multiply_group(p, s->first_group + row / GROUP, t, n, part);
		for (size_t i = 0; i < n; i++)
			memcpy(c + i * GROUP + at, part + i * GROUP + skip, have * sizeof *c);
		at += have;
	}
}

static void finish_columns(const struct product *p, size_t group, size_t t, size_t n, const float *c)
{
	const struct section *s = matrix_section(p->w, group);
	size_t row = (group - s->first_group) * GROUP, col = s->first_row + row;
	struct cpu_columns f = {.c = c,
							.with_residues = p->to.with_residues,
							.n = p->to.with_residues ? n / 2 : n,
							.cols = s->rows - row < GROUP ? s->rows - row : GROUP,
							.bias = p->to.bias ? p->to.bias + col : NULL,
							.softcap = p->to.softcap,
							.residual = p->to.residual,
							.y = p->to.y + (p->to.with_residues ? t / 2 : t) * p->w->n + col,
							.stride = p->w->n};
	p->isa->store(&f);
}

static void finish_hidden(const struct product *p, size_t col, size_t cols, size_t t, size_t n, const float *gate,
						  const float *up)
{
	const struct finish *to = &p->to;
	struct cpu_hidden f = {.gate = gate,
						   .up = to->gated ? up : NULL,
						   .n = n,
						   .cols = cols,
						   .bias = to->bias ? to->bias + col : NULL,
						   .up_bias = to->bias ? to->bias + to->d_ff + col : NULL,
						   .act = to->act,
						   .q = to->hidden ? to->hidden + t * act_stride(to->d_ff) + col / BLOCK : NULL,
						   .q_stride = act_stride(to->d_ff),
						   .y = to->hidden_float ? to->hidden_float + t * to->d_ff + col : NULL,
						   .y_stride = to->d_ff};
	p->isa->hidden(&f);
}

static void product_items(void *ctx, size_t first, size_t last, int thread)
{
	const struct product *p = ctx;
	float *c = tile_of(p, thread, 0), *up = tile_of(p, thread, 1);
	for (size_t item = first; item < last; item++) {
		size_t unit = item % p->n_units, t = item / p->n_units * p->token_block;
		size_t n = p->n_tokens - t < p->token_block ? p->n_tokens - t : p->token_block;
		if (!p->to.d_ff) {
			multiply_group(p, unit, t, n, c);
			finish_columns(p, unit, t, n, c);
			continue;
		}
		size_t col = unit * GROUP, cols = p->to.d_ff - col < GROUP ? p->to.d_ff - col : GROUP;
		multiply_columns(p, col, cols, t, n, c);
		if (p->to.gated)
			multiply_columns(p, p->to.d_ff + col, cols, t, n, up);
		finish_hidden(p, col, cols, t, n, c, up);
	}
}

// Tokens of an item: equal blocks, whose inputs fit the cache and are whole tiles where that is possible.
static size_t token_block(const struct product *p)
{
	size_t row = p->w->takes_int ? act_stride(p->w->k) * sizeof(struct act_block) : p->w->k * sizeof(float);
	size_t most = BLOCK_BYTES / row, tile = (size_t)p->isa->int_tile;
	most = most > TOKEN_BLOCK ? TOKEN_BLOCK : most < 4 * tile ? 4 * tile : most;
	size_t blocks = (p->n_tokens + most - 1) / most, size = (p->n_tokens + blocks - 1) / blocks;
	size_t whole = (size + tile - 1) / tile * tile;
	return whole <= TOKEN_BLOCK ? whole : size;
}

static void product_run(struct cpu_backend *be, struct product *p)
{
	p->isa = be->isa->linear;
	p->scratch = be->linear_scratch;
	p->token_block = token_block(p);
	p->n_units = p->to.d_ff ? (p->to.d_ff + GROUP - 1) / GROUP : p->w->n_groups;
	size_t items = p->n_units * ((p->n_tokens + p->token_block - 1) / p->token_block);
	size_t grain = items / (size_t)(team_size(be->team) * CHUNKS_A_THREAD);
	team_run(be->team, items, grain < 1 ? 1 : grain > MAX_GRAIN ? MAX_GRAIN : grain, product_items, p);
}

// Where a matrix finds its inputs once linear_prepare has made them.
static struct product product_of(const struct cpu_backend *be, const struct matrix *w, size_t n_tokens)
{
	const struct linear_scratch *s = be->linear_scratch;
	return (struct product){.w = w, .q = s->in, .x = s->in_float, .n_tokens = n_tokens};
}

static void prepare(struct cpu_backend *be, const struct norm *n, const float *x, const int32_t *rows, size_t n_rows,
					const struct matrix *w, bool with_residues)
{
	const struct linear_scratch *s = be->linear_scratch;
	struct row_work r = {.isa = be->isa->linear,
						 .norm = n,
						 .x = x,
						 .rows = rows,
						 .d = w->k,
						 .q = w->takes_int ? s->in : NULL,
						 .with_residues = with_residues,
						 .y = w->takes_float ? s->in_float : NULL,
						 .scratch = s->rows,
						 .scratch_floats = s->row_floats};
	rows_run(be, &r, n_rows);
}

// x += post(product), where post needs whole rows and so comes in a pass of its own.
static void add_product(struct cpu_backend *be, struct product *p, const struct norm *post)
{
	bool normed = post && post->kind != NORM_NONE;
	const struct linear_scratch *s = be->linear_scratch;
	p->to.y = normed ? s->out : be->x;
	p->to.residual = !normed;
	product_run(be, p);
	if (!normed)
		return;
	struct row_work r = {.isa = be->isa->linear,
						 .norm = post,
						 .x = s->out,
						 .d = p->w->n,
						 .residual = be->x,
						 .scratch = s->rows,
						 .scratch_floats = s->row_floats};
	rows_run(be, &r, p->n_tokens);
}

void cpu_norm_qkv(struct backend *b, const struct norm *n, const struct matrix *w, const struct vector *bias)
{
	struct cpu_backend *be = cpu_of(b);
	size_t t = (size_t)be->batch->n_tokens;
	prepare(be, n, be->x, NULL, t, w, false);
	struct product p = product_of(be, w, t);
	p.to = (struct finish){.y = be->qkv, .bias = bias ? bias->v : NULL};
	product_run(be, &p);
}

void cpu_attn_out(struct backend *b, const struct matrix *w, const struct vector *bias, const struct norm *post,
				  const struct attention *a)
{
	struct cpu_backend *be = cpu_of(b);
	size_t t = (size_t)be->batch->n_tokens;
	CHECK(w->k == (size_t)a->n_heads * (size_t)a->head_dim, "%zu inputs", w->k);
	prepare(be, NULL, be->attn, NULL, t, w, false);
	struct product p = product_of(be, w, t);
	p.to = (struct finish){.bias = bias ? bias->v : NULL};
	add_product(be, &p, post);
}

void cpu_mlp(struct backend *b, const struct mlp *m)
{
	struct cpu_backend *be = cpu_of(b);
	const struct linear_scratch *s = be->linear_scratch;
	size_t t = (size_t)be->batch->n_tokens;
	CHECK(m->in->n == (size_t)m->d_ff * (m->gated ? 2 : 1) && m->down->k == (size_t)m->d_ff, "%zu rows", m->in->n);
	prepare(be, &m->norm, be->x, NULL, t, m->in, false);
	struct product in = product_of(be, m->in, t);
	in.to = (struct finish){.bias = m->in_bias ? m->in_bias->v : NULL,
							.gated = m->gated,
							.act = m->act,
							.d_ff = (size_t)m->d_ff,
							.hidden = m->down->takes_int ? s->hidden : NULL,
							.hidden_float = m->down->takes_float ? s->hidden_float : NULL};
	product_run(be, &in);
	struct product down = {.w = m->down, .q = s->hidden, .x = s->hidden_float, .n_tokens = t};
	down.to = (struct finish){.bias = m->down_bias ? m->down_bias->v : NULL};
	add_product(be, &down, &m->post_norm);
}

// Errors of this product are errors of logits, with no layer after it to even them out: rounding its inputs to 8 bits
// alone would cost more than that of a layer's. So a row is multiplied together with what rounding it left, as two
// rows; a decode step, which waits for the weights, hardly notices.
void cpu_logits(struct backend *b, const struct norm *n, const struct matrix *head, float softcap, float *logits)
{
	struct cpu_backend *be = cpu_of(b);
	size_t t = (size_t)be->batch->n_out;
	bool with_residues = !head->takes_float;
	prepare(be, n, be->x, be->batch->out_rows, t, head, with_residues);
	struct product p = product_of(be, head, with_residues ? 2 * t : t);
	p.to = (struct finish){.y = logits, .softcap = softcap, .with_residues = with_residues};
	product_run(be, &p);
}

// --- scratch

static size_t widest(const struct reserve *r)
{
	int k = r->d_model > r->max_qkv ? r->d_model : r->max_qkv;
	return (size_t)(k > r->d_ff ? k : r->d_ff);
}

// Lays the buffers out from `base` on, which may be NULL to learn the size.
static size_t lay_out(const struct cpu_backend *be, const struct reserve *r, struct linear_scratch *s, char *base)
{
	size_t t = (size_t)(r->max_tokens > 2 * r->max_out ? r->max_tokens : 2 * r->max_out),
		   threads = (size_t)team_size(be->team);
	size_t k = widest(r), at = 0;
	s->row_floats = (k + 15) & ~(size_t)15;
	struct {
		void *slot;
		size_t bytes;
	} parts[] = {
		{&s->in, t * act_stride(k) * sizeof *s->in},
		{&s->hidden, t * act_stride((size_t)r->d_ff) * sizeof *s->hidden},
		{&s->in_float, t * k * sizeof(float)},
		{&s->hidden_float, t * (size_t)r->d_ff * sizeof(float)},
		{&s->out, t * (size_t)r->d_model * sizeof(float)},
		{&s->tiles, threads * 2 * TOKEN_BLOCK * GROUP * sizeof(float)},
		{&s->rows, threads * s->row_floats * sizeof(float)},
	};
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		if (base)
			*(void **)parts[i].slot = base + at;
		at += (parts[i].bytes + KERNEL_ALIGN - 1) & ~(size_t)(KERNEL_ALIGN - 1);
	}
	return at;
}

size_t cpu_linear_scratch_bytes(const struct cpu_backend *be, const struct reserve *r)
{
	struct linear_scratch s;
	return lay_out(be, r, &s, NULL);
}

int cpu_linear_reserve(struct cpu_backend *be, const struct reserve *r)
{
	struct linear_scratch *s = mem_zalloc(1, sizeof *s);
	s->memory = aligned_alloc(KERNEL_ALIGN, lay_out(be, r, s, NULL));
	if (!s->memory) {
		free(s);
		return ERR_NOMEM;
	}
	lay_out(be, r, s, s->memory);
	be->linear_scratch = s;
	return 0;
}

void cpu_linear_release(struct cpu_backend *be)
{
	if (be->linear_scratch)
		free(be->linear_scratch->memory);
	free(be->linear_scratch);
	be->linear_scratch = NULL;
}
