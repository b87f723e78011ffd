// SPDX-License-Identifier: Apache-2.0
//
// How a job is shared. Items are cut into chunks; each thread's share is a range of chunk numbers packed with the job's
// number into one 64-bit word: [job:24][next:20][end:20]. Claiming a chunk is a compare-and-swap on that word, so a
// claim can only succeed while its job runs, and a thread that wakes up late finds nothing instead of something stale.
// The job's description is read after a claim: an unfinished chunk keeps the job alive. Nobody waits for threads, only
// for chunks.
#include "kernels/cpu/team.h"

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MAX_THREADS = 256,
	CHUNK_BITS = 20,
	MAX_CHUNKS = (1 << CHUNK_BITS) - 1,
	SPIN_NS = 60000, // outlasts the imbalance of a phase; a busy neighbour loses no more than this
	SPINS_A_LOOK = 64,
};

struct share {
	_Alignas(64) _Atomic uint64_t word;
};

struct worker {
	struct team *team;
	int index;
	pthread_t thread;
};

struct team {
	int n;
	_Alignas(64) _Atomic uint32_t job; // futex: the number of the newest job
	_Atomic int sleepers;
	_Atomic bool quit;
	_Alignas(64) _Atomic uint32_t done; // futex: chunks finished
	_Atomic bool caller_sleeps;
	_Alignas(64) team_fn *fn;
	void *ctx;
	size_t n_items, grain;
	uint32_t n_chunks;
	struct worker *workers;
	struct share *shares;
};

static void futex_wait(_Atomic uint32_t *p, uint32_t seen)
{
	syscall(SYS_futex, p, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *p, int n)
{
	syscall(SYS_futex, p, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

static uint64_t pack(uint32_t job, uint32_t next, uint32_t end)
{
	return (uint64_t)job << (2 * CHUNK_BITS) | (uint64_t)next << CHUNK_BITS | end;
}

// Claims one chunk of a share that belongs to `job`; false if there is none.
static bool claim(struct share *s, uint32_t job, uint32_t *chunk)
{
	uint64_t w = atomic_load_explicit(&s->word, memory_order_acquire);
	for (;;) {
		uint32_t next = (uint32_t)(w >> CHUNK_BITS) & MAX_CHUNKS, end = (uint32_t)w & MAX_CHUNKS;
		if ((uint32_t)(w >> (2 * CHUNK_BITS)) != (job & 0xFFFFFF) || next >= end)
			return false;
		if (atomic_compare_exchange_weak_explicit(&s->word, &w, w + (1u << CHUNK_BITS), memory_order_acq_rel,
												  memory_order_acquire)) {
			*chunk = next;
			return true;
		}
	}
}

static void run_chunk(const struct team *t, uint32_t chunk, int thread)
{
	size_t first = (size_t)chunk * t->grain, last = first + t->grain;
	t->fn(t->ctx, first, last < t->n_items ? last : t->n_items, thread);
}

// Own share first, then the others', nearest neighbour first. What a thread has finished is counted once, at the end:
// until then its chunks keep the job alive.
static void work(struct team *t, uint32_t job, int thread)
{
	uint32_t chunk, finished = 0;
	for (int i = 0; i < t->n; i++)
		for (struct share *s = &t->shares[(thread + i) % t->n]; claim(s, job, &chunk); finished++)
			run_chunk(t, chunk, thread);
	if (!finished)
		return;
	uint32_t n_chunks = t->n_chunks;
	// In the one order of all sequentially consistent operations: either the caller sees the last chunk done before it
	// sleeps, or this thread sees it asleep.
	if (atomic_fetch_add(&t->done, finished) + finished == n_chunks && atomic_load(&t->caller_sleeps))
		futex_wake(&t->done, 1);
}

static uint32_t wait_for_job(struct team *t, uint32_t seen)
{
	uint64_t from = clock_now_ns();
	for (int i = 0;; i++) {
		uint32_t job = atomic_load_explicit(&t->job, memory_order_acquire);
		if (job != seen)
			return job;
		cpu_relax();
		if (i % SPINS_A_LOOK == 0 && clock_now_ns() - from > SPIN_NS)
			break;
	}
	atomic_fetch_add(&t->sleepers, 1);
	while (atomic_load(&t->job) == seen)
		futex_wait(&t->job, seen);
	atomic_fetch_sub(&t->sleepers, 1);
	return atomic_load_explicit(&t->job, memory_order_acquire);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	uint32_t job = 0;
	for (;;) {
		job = wait_for_job(w->team, job);
		if (atomic_load(&w->team->quit))
			return NULL;
		work(w->team, job, w->index);
	}
}

static void wait_for_chunks(struct team *t, uint32_t n_chunks)
{
	uint64_t from = clock_now_ns();
	uint32_t done;
	for (int i = 0; (done = atomic_load_explicit(&t->done, memory_order_acquire)) != n_chunks; i++) {
		cpu_relax();
		if (i % SPINS_A_LOOK || clock_now_ns() - from <= SPIN_NS)
			continue;
		atomic_store(&t->caller_sleeps, true);
		while ((done = atomic_load(&t->done)) != n_chunks)
			futex_wait(&t->done, done);
		atomic_store(&t->caller_sleeps, false);
		return;
	}
}

struct team *team_create(int n_threads)
{
	CHECK(n_threads >= 1 && n_threads <= MAX_THREADS, "%d threads", n_threads);
	struct team *t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63);
	CHECK(t, "out of memory");
	*t = (struct team){.n = n_threads};
	t->shares = aligned_alloc(64, sizeof *t->shares * (size_t)n_threads);
	CHECK(t->shares, "out of memory");
	for (int i = 0; i < n_threads; i++)
		atomic_init(&t->shares[i].word, 0);
	t->workers = mem_zalloc((size_t)n_threads, sizeof *t->workers);
	for (int i = 1; i < n_threads; i++) {
		t->workers[i] = (struct worker){.team = t, .index = i};
		CHECK(!pthread_create(&t->workers[i].thread, NULL, worker_main, &t->workers[i]), "cannot start thread %d", i);
	}
	return t;
}

void team_destroy(struct team *t)
{
	if (!t)
		return;
	atomic_store(&t->quit, true);
	atomic_fetch_add(&t->job, 1);
	futex_wake(&t->job, MAX_THREADS);
	for (int i = 1; i < t->n; i++)
		pthread_join(t->workers[i].thread, NULL);
	free(t->workers);
	free(t->shares);
	free(t);
}

int team_size(const struct team *t)
{
	return t->n;
}

void team_run(struct team *t, size_t n_items, size_t grain, team_fn *fn, void *ctx)
{
	if (!n_items)
		return;
	CHECK(grain, "a grain of nothing");
	size_t n_chunks = (n_items + grain - 1) / grain;
	if (t->n == 1 || n_chunks == 1) {
		for (size_t first = 0; first < n_items; first += grain)
			fn(ctx, first, first + grain < n_items ? first + grain : n_items, 0);
		return;
	}
	CHECK(n_chunks <= MAX_CHUNKS, "%zu chunks", n_chunks);
	t->fn = fn;
	t->ctx = ctx;
	t->n_items = n_items;
	t->grain = grain;
	t->n_chunks = (uint32_t)n_chunks;
	atomic_store_explicit(&t->done, 0, memory_order_relaxed);
	uint32_t job = atomic_load_explicit(&t->job, memory_order_relaxed) + 1;
	for (int i = 0; i < t->n; i++) {
		uint32_t from = (uint32_t)(n_chunks * (size_t)i / (size_t)t->n),
				 to = (uint32_t)(n_chunks * (size_t)(i + 1) / (size_t)t->n);
		atomic_store_explicit(&t->shares[i].word, pack(job & 0xFFFFFF, from, to), memory_order_release);
	}
	atomic_store_explicit(&t->job, job, memory_order_seq_cst);
	if (atomic_load_explicit(&t->sleepers, memory_order_seq_cst))
		futex_wake(&t->job, MAX_THREADS);
	work(t, job, 0);
	wait_for_chunks(t, t->n_chunks);
}
