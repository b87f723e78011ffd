// SPDX-License-Identifier: Apache-2.0
//
// The kernel team: the threads that run one operation together. The caller is thread 0 and works too. Items are split
// into one range a thread; a thread works off its own range in chunks of `grain`, then steals chunks from the others, so a
// thread that lost its core delays nobody. Waiting spins briefly, then sleeps on a futex.
// Which thread runs an item never changes the item's result.
#ifndef QUIRE_CPU_TEAM_H
#define QUIRE_CPU_TEAM_H

#include <stddef.h>

struct team;

struct team *team_create(int n_threads); // 1 … 256; creates n_threads - 1 threads
void team_destroy(struct team *t);
int team_size(const struct team *t);

// Calls fn for disjoint [first, last) covering 0 … n_items - 1, each at most grain long, and returns when all are done.
// thread is 0 … team_size - 1, for per-thread scratch. Not reentrant; one caller at a time.
typedef void team_fn(void *ctx, size_t first, size_t last, int thread);
void team_run(struct team *t, size_t n_items, size_t grain, team_fn *fn, void *ctx);

#endif
