// SPDX-License-Identifier: Apache-2.0
//
// How fast attention is, on real head sizes and groups.
//
//     bench_attention [THREADS [ISA]]
//
// A line is a number of query heads a KV head (G), a head size and a context. Decodes are GFLOP/s (4 Dh a query head
// and position) and GB/s of keys and values: of one sequence, which stays in a cache, and of many whose 512 MB in
// scattered blocks come from memory. Prompts are GFLOP/s of the last 64 and 512 tokens of the context, counting only
// what the mask lets through.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"
#include "tests/bench/peak.h"

#include <stdio.h>
#include <stdlib.h>

enum { B = 16, KH = 2, MAX_TOKENS = 512, MAX_SEQS = 512, MAX_CONTEXT = 4096, POOL = 512 << 20, TRIES = 5 };

struct bench {
	struct backend *be;
	struct attention a;
	struct rope rope;
	float inv_freq[MAX_HEAD_DIM / 2];
	int context;
	size_t n_blocks, block_bytes;
	int32_t *tables, ids[MAX_TOKENS], pos[MAX_TOKENS], starts[MAX_SEQS + 1], lens[MAX_SEQS];
	const int32_t *seq_tables[MAX_SEQS];
	struct batch_view batch;
};

// Halves of 0.5 … 1 everywhere, so that no score is out of the ordinary.
static void fill_blocks(struct bench *b)
{
	uint16_t *block = mem_alloc(b->block_bytes);
	for (size_t i = 0; i < b->block_bytes / 2; i++)
		block[i] = (uint16_t)(0x3800 + i * 37 % 1024);
	for (size_t i = 0; i < b->n_blocks; i++)
		b->be->op->kv_write_block(b->be, (int32_t)i, block);
	free(block);
}

static void open_bench(struct bench *b, int threads, const char *isa, int group, int head_dim, int context)
{
	char err[200] = "";
	struct kv_shape shape = {
		.type = KV_F16, .block_tokens = B, .n_layers = 1, .n_kv_heads = {KH}, .head_dim = {head_dim}};
	*b = (struct bench){.context = context};
	CHECK(!cpu_backend_create(threads, isa, &b->be, err, sizeof err), "%s", err);
	b->rope = (struct rope){.kind = ROPE_HALVES, .n_dims = head_dim, .inv_freq = b->inv_freq, .magnitude = 1};
	b->a = (struct attention){
		.n_heads = KH * group, .n_kv_heads = KH, .head_dim = head_dim, .scale = 0.01f, .rope = &b->rope};
	struct reserve size = {.max_tokens = MAX_TOKENS,
						   .max_seqs = MAX_SEQS,
						   .max_out = 1,
						   .d_model = 64,
						   .d_ff = 64,
						   .n_vocab = 64,
						   .max_qkv = KH * (group + 2) * head_dim,
						   .n_ropes = 1,
						   .max_blocks = MAX_CONTEXT / B,
						   .ropes = &b->rope};
	CHECK(!b->be->op->reserve(b->be, &size, err, sizeof err), "%s", err);
	b->block_bytes = b->be->op->kv_block_bytes(b->be, &shape);
	b->n_blocks = POOL / b->block_bytes;
	CHECK(!b->be->op->kv_create(b->be, &shape, b->n_blocks, err, sizeof err), "%s", err);
	fill_blocks(b);
	float *qkv = cpu_of(b->be)->qkv;
	for (size_t i = 0; i < (size_t)size.max_qkv * MAX_TOKENS; i++)
		qkv[i] = (float)(i * 37 % 64) * 0.03f - 1;
	b->tables = mem_zalloc(b->n_blocks, sizeof *b->tables);
	for (size_t i = 0; i < b->n_blocks; i++) // 7919 is a prime and no number of blocks is a multiple of it
		b->tables[i] = (int32_t)(i * 7919 % b->n_blocks);
}

static void close_bench(struct bench *b)
{
	free(b->tables);
	b->be->op->destroy(b->be);
}

// The last `tokens` of the context of each of n_seqs sequences.
static void set_batch(struct bench *b, int n_seqs, int tokens)
{
	for (int s = 0; s < n_seqs; s++) {
		for (int t = 0; t < tokens; t++)
			b->pos[s * tokens + t] = b->context - tokens + t;
		b->starts[s + 1] = (s + 1) * tokens;
		b->lens[s] = b->context;
		b->seq_tables[s] = b->tables + s * (b->context / B);
	}
	b->batch = (struct batch_view){.n_tokens = n_seqs * tokens,
								   .n_seqs = n_seqs,
								   .ids = b->ids,
								   .pos = b->pos,
								   .seq_start = b->starts,
								   .kv_len = b->lens,
								   .blocks = b->seq_tables};
	b->be->op->begin(b->be, &b->batch);
}

static double operations(const struct bench *b)
{
	double seen = 0;
	for (int t = 0; t < b->batch.n_tokens; t++)
		seen += b->pos[t] + 1;
	return seen * 4 * b->a.head_dim * b->a.n_heads;
}

// Seconds of one call, the best of some tries of about 50 ms.
static double best_time(struct bench *b)
{
	double best = 1e300;
	int reps = (int)(5e9 / operations(b)) + 1;
	for (int i = 0; i < TRIES; i++) {
		uint64_t from = clock_now_ns();
		for (int r = 0; r < reps; r++)
			b->be->op->attend(b->be, &b->a);
		double t = (double)(clock_now_ns() - from) * 1e-9 / reps;
		best = t < best ? t : best;
	}
	return best;
}

static void print_decode(struct bench *b, int n_seqs)
{
	set_batch(b, n_seqs, 1);
	double t = best_time(b), bytes = (double)n_seqs * b->context / B * (double)b->block_bytes;
	printf(" %7.1f %6.1f |", operations(b) / t * 1e-9, bytes / t * 1e-9);
}

static void print_prompt(struct bench *b, int tokens)
{
	set_batch(b, 1, tokens);
	printf(" %7.1f", operations(b) / best_time(b) * 1e-9);
}

int main(int argc, char **argv)
{
	static const int groups[] = {1, 3, 4, 8}, sizes[] = {64, 128, 256}, contexts[] = {512, 4096};
	static struct bench b;
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	open_bench(&b, threads, argc > 2 ? argv[2] : NULL, 1, 64, 512);
	struct peaks peaks = peaks_measure(b.be->op->describe(b.be), team_size(cpu_of(b.be)->team));
	printf("%s; peak %.0f GFLOP/s, memory %.1f GB/s\n", b.be->op->describe(b.be), peaks.f32, peaks.read_gb);
	close_bench(&b);
	puts(" G  Dh  context | decode, cache: GFLOP/s GB/s | memory: GFLOP/s GB/s | last 64, last 512: GFLOP/s");
	for (int i = 0; i < 4 * 3 * 2; i++) {
		open_bench(&b, threads, argc > 2 ? argv[2] : NULL, groups[i % 4], sizes[i / 8], contexts[i / 4 % 2]);
		printf("%2d %3d %8d |", groups[i % 4], b.a.head_dim, b.context);
		print_decode(&b, 1);
		size_t seqs = b.n_blocks / (size_t)(b.context / B);
		print_decode(&b, seqs < MAX_SEQS ? (int)seqs : MAX_SEQS);
		print_prompt(&b, 64);
		print_prompt(&b, 512);
		putchar('\n');
		fflush(stdout);
		close_bench(&b);
	}
	return 0;
}
