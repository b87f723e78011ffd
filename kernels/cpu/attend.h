// SPDX-License-Identifier: Apache-2.0
//
// Inside attention on the CPU: what attend.c, attend_plan.c and rope.c keep between them, all sized at reserve.
#ifndef QUIRE_CPU_ATTEND_H
#define QUIRE_CPU_ATTEND_H

#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/cpu.h"

#include <stdatomic.h>

enum { PART_STRIDE = PART_OUT + MAX_HEAD_DIM }; // floats between the rows of a tile's parts, at most

// One thread's tile.
struct attention_thread {
	_Alignas(KERNEL_ALIGN) float q[MAX_HEAD_DIM * TILE_ROWS]; // [Dh][TILE_ROWS], scaled
	float scores[TILE_ROWS * SCORE_STRIDE];
	float parts[TILE_ROWS * PART_STRIDE]; // of one chunk
	float whole[TILE_ROWS * PART_STRIDE]; // of the chunks so far
	struct attention_strips kv;
};

// How one sequence's work is cut. Its items are ordered by KV head, group of heads, tile, span.
struct attention_cut {
	int n_tiles;  // of tile_tokens rows each, the last one with the rest
	int n_spans;  // 1, or into how many ranges of chunks a tile is split for several threads
	int n_chunks; // of split tiles: room in parts
	size_t first_counter, first_part;
};

struct attention_plan {
	int n_groups;	 // groups of query heads of one KV head
	int group_heads; // in each, the last one with the rest
	int tile_tokens; // tokens a tile: group_heads times this is at most TILE_ROWS
	int part_stride;
	size_t grain; // items a claim
};

struct attention_scratch {
	struct attention_thread *threads; // [team size]
	struct attention_cut *cuts;		  // [max_seqs]
	size_t *items, *pieces;			  // [max_seqs + 1] where each sequence's items and pieces of rope_append start
	struct attention_plan plan;
	float *parts;			 // chunks of split tiles, [chunk][row][part_stride] each
	size_t n_parts;			 // floats
	_Atomic int *spans_done; // [n_counters] of split tiles: the thread that finishes the last span merges
	size_t n_counters;
};

static inline struct attention_scratch *attention_scratch_of(const struct cpu_backend *be)
{
	return be->attention_scratch;
}

// Bytes from a block's start to what KV head h of a layer has there.
static inline size_t cpu_kv_head_offset(const struct cpu_kv *kv, int layer, int h)
{
	size_t element = kv->shape.type == KV_F16 ? sizeof(uint16_t) : sizeof(float);
	return kv->layer_offset[layer] +
		   (size_t)h * 2 * (size_t)kv->shape.head_dim[layer] * (size_t)kv->shape.block_tokens * element;
}

// Cuts this step's attention of one layer into items; any cut gives the same bits.
void cpu_attention_plan(struct cpu_backend *be, const struct attention *a);

// The sequence that number i belongs to: firsts[s] <= i < firsts[s + 1]; firsts[0] is 0, firsts[n_seqs] more than i.
int cpu_attention_find(const size_t *firsts, int n_seqs, size_t i);

#endif
