// SPDX-License-Identifier: Apache-2.0
//
// What attention asks of an instruction set: arithmetic on one tile of query rows against strips of the KV cache. Which
// rows, positions and chunks those are is attend.c's business; the loops are attention_tiles.h and attention_heads.h,
// compiled once for every instruction set.
//
// A strip is 16 consecutive positions of one KV head of one layer: part of a block, since B is a multiple of 16. A tile
// is up to 16 query rows (token × head) that share that KV head. Every number of a row comes from the same operations
// in the same order however many rows the tile has; nothing is summed across rows or, in scores, across positions.
#ifndef QUIRE_CPU_ATTENTION_ISA_H
#define QUIRE_CPU_ATTENTION_ISA_H

#include "kernels/backend.h"

#include <stdint.h>

enum {
	STRIP = 16,
	CHUNK_STRIPS = ATTENTION_CHUNK / STRIP,
	STRIPS_IN_FLIGHT = 4, // at most: strips whose scores are computed together
	STRIPS_AHEAD =
		3 * STRIPS_IN_FLIGHT, // entries behind a chunk's own: read for prefetching and to fill up the last group
	TILE_ROWS = 16,
	SCORE_STRIDE =
		ATTENTION_CHUNK + STRIPS_IN_FLIGHT * STRIP + 16, // floats; off the powers of two that share cache sets
};

// The strips of one chunk of positions, strip i at [i], and some behind it.
struct attention_strips {
	enum kv_dtype type;
	size_t k_stride; // bytes from one dimension of K to the next
	const char *k[CHUNK_STRIPS + STRIPS_AHEAD];
	const char *v[CHUNK_STRIPS + STRIPS_AHEAD]; // rows of Dh values
};

// What is known of one query row after some positions: floats [PART_HEAD + Dh rounded up to 16].
enum { PART_MAX = 0, PART_SUM = 1, PART_OUT = 16 /* Σ exp(s - max) v starts here */ };

struct cpu_attention_isa {
	// s[row * SCORE_STRIDE + position] = Σ q[d * TILE_ROWS + row] k[d][position], for all positions of strips first …
	// first + n - 1; positions of up to STRIPS_IN_FLIGHT - 1 strips behind them get arbitrary values.
	void (*scores)(const struct attention_strips *kv, int first, int n, const float *q, int rows, int dh, float *s);
	// Of one row's scores from … to - 1: caps them (cap > 0), replaces them by exp(s - max), and returns max and sum in
	// part. Scores outside are not looked at.
	void (*softmax)(float *s, int from, int to, float cap, float *part);
	// parts[row * stride + PART_OUT + d] += Σ s[row * SCORE_STRIDE + p] v[p][d] over p = from … to - 1, ascending.
	void (*weigh)(const struct attention_strips *kv, int from, int to, const float *s, int rows, int dh, float *parts,
				  int stride);
	// part becomes what is known after its positions and those of next, which come later.
	void (*merge)(float *part, const float *next, int dh);
	// out[dh] = the attention output.
	void (*finish)(const float *part, int dh, float *out);

	// head[dh] = RMS norm of it, times w.
	void (*norm)(float *head, const float *w, int dh, float eps);
	// Rotates the first n_dims; cosines[n_dims / 2], then sines[n_dims / 2].
	void (*rotate)(float *head, enum rope_kind kind, int n_dims, const float *cosines);
	void (*to_f16)(const float *x, int n, uint16_t *out);
};

extern const struct cpu_attention_isa cpu_attention_avx512, cpu_attention_avx2, cpu_attention_scalar;

#endif
