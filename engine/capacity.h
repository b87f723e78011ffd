// SPDX-License-Identifier: Apache-2.0
//
// The memory plan: how many KV blocks there will be, and the longest context that they hold. Pure arithmetic on sizes, so
// that `quire plan` answers without loading anything. Any thread.
#ifndef QUIRE_ENGINE_CAPACITY_H
#define QUIRE_ENGINE_CAPACITY_H

#include <stddef.h>
#include <stdint.h>

struct capacity_input {
	uint64_t memory_free;      // what the system would give now
	uint64_t weight_bytes, scratch_bytes;
	uint64_t block_bytes;      // of one KV block, all layers
	int block_tokens;
	int n_ctx_model;           // what the model states
	int max_model_len;         // asked for; 0: what fits
	int max_seqs;
	uint64_t kv_cache_bytes, kv_cache_tokens; // asked for; 0: by utilization
	double utilization;        // share of memory_free for weights, scratch and cache
};

struct capacity {
	int n_blocks;
	int max_model_len;
	uint64_t pool_bytes;
	const char *cut; // why max_model_len is below what the model states; NULL if it is not
};

// ERR_INVALID names the option and the value that fits.
int capacity_plan(const struct capacity_input *in, struct capacity *out, char *err, size_t len);

// Memory that a new allocation could have: MemAvailable, or what is left under the cgroup's limit, whichever is less.
uint64_t capacity_memory_free(void);

// "1.5 GiB": three significant digits, into a caller's buffer; returns it.
const char *capacity_format(uint64_t bytes, char *out, size_t len);

#endif
