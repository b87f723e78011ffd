// SPDX-License-Identifier: Apache-2.0
//
// How fast products with weights are, on real shapes: norm, quantise, multiply and store, as a step does them.
//
//     bench_kernels [THREADS [ISA [TYPE]]]
//
// A line is a type and a shape; a column a number of tokens: GOP/s (a multiply-add is two operations) and the share of
// this machine's peak for such products; for one token also GB/s of packed weights, which come from memory: the weights
// of consecutive calls are different copies, 256 MB in all.
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "kernels/backend.h"
#include "tests/bench/peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, COPIES_BYTES = 256 << 20, MAX_COPIES = 256 };

static const int batches[] = {1, 2, 4, 8, 16, 32, 64, 512};
enum { N_BATCHES = sizeof batches / sizeof batches[0] };

static const struct shape {
	int n, k;
} shapes[] = {{960, 576}, {576, 1536}, {3072, 576}, {2048, 2048}, {8192, 2048}};

static const enum dtype types[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q4_K,
								   DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_F16,  DTYPE_BF16, DTYPE_F32};

// Any bytes are weights; only scales must be numbers, and 0x21 repeated is a small one in every format.
static uint8_t *make_weights(size_t bytes)
{
	uint8_t *w = mem_alloc(bytes);
	memset(w, 0x21, bytes);
	return w;
}

static double time_one(struct backend *be, const struct norm *n, struct matrix *const *copies, int n_copies, int reps)
{
	uint64_t from = clock_now_ns();
	for (int i = 0; i < reps; i++)
		be->op->norm_qkv(be, n, copies[i % n_copies], NULL);
	return (double)(clock_now_ns() - from) / reps;
}

static double best_time(struct backend *be, const struct norm *n, struct matrix *const *copies, int n_copies,
						double operations)
{
	int reps = (int)(2e8 / operations) + 1;
	double best = 1e300;
	for (int i = 0; i < 6; i++) {
		double t = time_one(be, n, copies, n_copies, reps);
		best = t < best ? t : best;
	}
	return best;
}

static void bench_shape(struct backend *be, enum dtype type, const struct shape *s, double peak)
{
	size_t row_bytes;
	char err[200];
	if (!dtype_row_bytes(type, (uint64_t)s->k, &row_bytes))
		return;
	uint8_t *w = make_weights(row_bytes * (size_t)s->n);
	struct matrix_part part = {type, (uint64_t)s->n, w};
	struct matrix *copies[MAX_COPIES];
	size_t bytes = 0;
	int n_copies = 0;
	while (n_copies < MAX_COPIES && bytes < COPIES_BYTES) {
		bool borrows;
		if (be->op->matrix_load(be, &part, 1, (uint64_t)s->k, &copies[n_copies], &borrows, err, sizeof err))
			break;
		bytes += be->op->matrix_bytes(copies[n_copies++]);
	}
	float *ones = mem_alloc((size_t)s->k * sizeof *ones);
	for (int i = 0; i < s->k; i++)
		ones[i] = 1;
	struct vector *norm_w;
	be->op->vector_load(be, ones, (size_t)s->k, &norm_w);
	struct norm norm = {NORM_RMS, 1e-6f, norm_w, NULL};
	printf("%-5s %5d x %-5d", dtype_name(type), s->n, s->k);
	for (int i = 0; i < N_BATCHES; i++) {
		int32_t ids[MAX_TOKENS] = {0}, start[2] = {0, batches[i]}, len[1] = {batches[i]};
		const int32_t *blocks[1] = {ids};
		struct batch_view view = {.n_tokens = batches[i],
								  .n_seqs = 1,
								  .ids = ids,
								  .pos = ids,
								  .seq_start = start,
								  .kv_len = len,
								  .blocks = blocks};
		double operations = 2.0 * s->n * s->k * batches[i];
		be->op->begin(be, &view);
		double t = best_time(be, &norm, copies, n_copies, operations);
		if (batches[i] == 1)
			printf(" 1: %.1f GB/s", (double)(bytes / (size_t)n_copies) / t);
		printf(" %d: %.0f (%.0f%%)", batches[i], operations / t, 100 * operations / t / peak);
		fflush(stdout);
	}
	printf("\n");
	for (int i = 0; i < n_copies; i++)
		be->op->matrix_free(be, copies[i]);
	be->op->vector_free(be, norm_w);
	free(ones);
	free(w);
}

int main(int argc, char **argv)
{
	char err[200];
	struct backend *be;
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	if (cpu_backend_create(threads, argc > 2 ? argv[2] : NULL, &be, err, sizeof err)) {
		fprintf(stderr, "%s\n", err);
		return EXIT_FAILURE;
	}
	struct reserve size = {.max_tokens = MAX_TOKENS,
						   .max_seqs = 1,
						   .d_model = 2048,
						   .d_ff = 2048,
						   .max_qkv = 8192,
						   .n_vocab = 1,
						   .max_blocks = 64};
	if (be->op->reserve(be, &size, err, sizeof err)) {
		fprintf(stderr, "%s\n", err);
		return EXIT_FAILURE;
	}
	struct peaks peaks = peaks_measure(be->op->describe(be), threads);
	printf("%s: peak %.0f GOP/s int8, %.0f GFLOP/s float32, reading %.1f GB/s\n", be->op->describe(be), peaks.int8,
		   peaks.f32, peaks.read_gb);
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		for (size_t j = 0; j < sizeof shapes / sizeof shapes[0]; j++)
			if (argc <= 3 || !strcmp(argv[3], dtype_name(types[i])))
				bench_shape(be, types[i], &shapes[j], dtype_info(types[i])->block == 1 ? peaks.f32 : peaks.int8);
	be->op->destroy(be);
	return EXIT_SUCCESS;
}
