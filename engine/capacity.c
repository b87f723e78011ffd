// SPDX-License-Identifier: Apache-2.0
#include "engine/capacity.h"

#include "engine/base/err.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MIN_BLOCKS = 4, MAX_BLOCKS = INT_MAX / 64 };

const char *capacity_format(uint64_t bytes, char *out, size_t len)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)bytes;
	int u = 0;
	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(out, len, u == 0 || v >= 100 ? "%.0f %s" : v >= 10 ? "%.1f %s" : "%.2f %s", v, units[u]);
	return out;
}

static uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned long long v;
	if (!f)
		return UINT64_MAX;
	int got = fscanf(f, "%llu", &v); // "max" is no number: no limit
	fclose(f);
	return got == 1 ? v : UINT64_MAX;
}

static uint64_t mem_available(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	unsigned long long kib = 0;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return (uint64_t)kib * 1024;
}

uint64_t capacity_memory_free(void)
{
	uint64_t avail = mem_available();
	uint64_t limit = read_number("/sys/fs/cgroup/memory.max"), used = read_number("/sys/fs/cgroup/memory.current");
	if (limit != UINT64_MAX && used != UINT64_MAX && limit > used && limit - used < avail)
		return limit - used;
	return avail;
}

// Bytes for the pool when the operator names none: the share of memory that weights and scratch leave.
static uint64_t default_pool(const struct capacity_input *in)
{
	double share = (double)in->memory_free * in->utilization;
	double left = share - (double)in->weight_bytes - (double)in->scratch_bytes;
	return left > 0 ? (uint64_t)left : 0;
}

int capacity_plan(const struct capacity_input *in, struct capacity *out, char *err, size_t len)
{
	uint64_t b = (uint64_t)in->block_tokens, want;
	int ctx = in->max_model_len ? in->max_model_len : in->n_ctx_model;
	if (in->max_model_len > in->n_ctx_model)
		return err_set(err, len, ERR_INVALID, "--max-model-len %d is more than the model's own context; at most %d works",
		               in->max_model_len, in->n_ctx_model);
	if (in->kv_cache_tokens)
		want = (in->kv_cache_tokens + b - 1) / b;
	else if (in->kv_cache_bytes)
		want = in->kv_cache_bytes / in->block_bytes;
	else {
		// More than every sequence at full length could use would only be a promise that nobody can call in.
		uint64_t most = (uint64_t)in->max_seqs * (((uint64_t)ctx + b - 1) / b);
		want = default_pool(in) / in->block_bytes;
		want = want < most ? want : most;
	}
	if (want > MAX_BLOCKS)
		want = MAX_BLOCKS;
	char have[32], need[32];
	if (want < MIN_BLOCKS)
		return err_set(err, len, ERR_INVALID, "no room for a KV cache: %s free, weights and scratch take %s; --kv-cache-memory of at least %llu would be the smallest",
		               capacity_format(in->memory_free, have, sizeof have),
		               capacity_format(in->weight_bytes + in->scratch_bytes, need, sizeof need),
		               (unsigned long long)(in->block_bytes * MIN_BLOCKS));
	uint64_t pool = want * in->block_bytes;
	if (pool > in->memory_free)
		return err_set(err, len, ERR_INVALID, "the KV cache asks for %s of %s that are free; %s %llu fits",
		               capacity_format(pool, need, sizeof need), capacity_format(in->memory_free, have, sizeof have),
		               in->kv_cache_tokens ? "--kv-cache-tokens" : "--kv-cache-memory",
		               (unsigned long long)(in->kv_cache_tokens ? in->memory_free / in->block_bytes * b : in->memory_free));
	uint64_t holds = want * b;
	*out = (struct capacity){.n_blocks = (int)want, .max_model_len = ctx, .pool_bytes = pool};
	if ((uint64_t)ctx <= holds) {
		out->cut = ctx < in->n_ctx_model ? "--max-model-len" : NULL;
		return 0;
	}
	if (in->max_model_len)
		return err_set(err, len, ERR_INVALID,
		               "--max-model-len %d does not fit the KV cache of %llu tokens; --max-model-len %llu fits, or --kv-cache-tokens %d",
		               ctx, (unsigned long long)holds, (unsigned long long)holds, ctx);
	out->max_model_len = (int)holds;
	out->cut = "what the KV cache holds";
	return 0;
}
