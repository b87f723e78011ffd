// SPDX-License-Identifier: Apache-2.0
//
// Runs the loops on all threads, and reads memory.
#include "tests/bench/peak.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "kernels/cpu/team.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOPS = 20000, PIECES = 64, READ_BYTES = 512 << 20, REPEATS = 8 };

struct job {
	double (*loop)(int loops);
	const uint64_t *memory;
	double operations[256];
	uint64_t sum[256];
};

static void work(void *ctx, size_t first, size_t last, int thread)
{
	struct job *j = ctx;
	if (j->loop)
		for (size_t i = first; i < last; i++)
			j->operations[thread] += j->loop(LOOPS);
	else
		for (size_t i = first * READ_BYTES / PIECES / 8; i < last * READ_BYTES / PIECES / 8; i += 8)
			j->sum[thread] += j->memory[i];
}

static double seconds(struct team *t, struct job *j)
{
	double best = 1e300;
	for (int i = 0; i < REPEATS; i++) {
		memset(j->operations, 0, sizeof j->operations);
		uint64_t from = clock_now_ns();
		team_run(t, PIECES, 1, work, j);
		double s = (double)(clock_now_ns() - from) * 1e-9;
		best = s < best ? s : best;
	}
	return best;
}

static double giga(struct team *t, double (*loop)(int))
{
	struct job j = {.loop = loop};
	double s = seconds(t, &j), sum = 0;
	for (int i = 0; i < 256; i++)
		sum += j.operations[i];
	return sum / s * 1e-9;
}

struct peaks peaks_measure(const char *isa, int n_threads)
{
	struct peaks p = {.int8 = 0};
	struct team *t = team_create(n_threads ? n_threads : (int)sysconf(_SC_NPROCESSORS_ONLN));
	if (strstr(isa, "avx512")) {
		p.int8 = giga(t, peak_int8_avx512);
		p.f32 = giga(t, peak_f32_avx512);
	} else if (strstr(isa, "avx2")) {
		p.int8 = giga(t, peak_int8_avx2);
		p.f32 = giga(t, peak_f32_avx2);
	}
	struct job read = {.memory = mem_alloc(READ_BYTES)};
	memset((void *)(uintptr_t)read.memory, 1, READ_BYTES);
	p.read_gb = READ_BYTES / seconds(t, &read) * 1e-9;
	free((void *)(uintptr_t)read.memory);
	team_destroy(t);
	return p;
}
