// SPDX-License-Identifier: Apache-2.0
//
// The thread team: every item exactly once whatever the numbers, taking over from a stuck thread, and rest when there
// is nothing to do.
#include "engine/base/clock.h"
#include "kernels/cpu/team.h"
#include "tests/unit/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ITEMS = 5000, MAX_THREADS = 8 };

struct count {
	_Atomic int seen[MAX_ITEMS];
	size_t n_items, grain;
	int n_threads;
	_Atomic int wrong;
};

static void count_items(void *ctx, size_t first, size_t last, int thread)
{
	struct count *c = ctx;
	if (thread < 0 || thread >= c->n_threads || first >= last || last > c->n_items || last - first > c->grain)
		atomic_fetch_add(&c->wrong, 1);
	for (size_t i = first; i < last; i++)
		atomic_fetch_add(&c->seen[i], 1);
}

static void check_counts(struct team *t, size_t n_items, size_t grain)
{
	static struct count c;
	memset(&c, 0, sizeof c);
	c.n_items = n_items;
	c.grain = grain;
	c.n_threads = team_size(t);
	team_run(t, n_items, grain, count_items, &c);
	ck_assert_int_eq(c.wrong, 0);
	for (size_t i = 0; i < MAX_ITEMS; i++)
		ck_assert_msg(c.seen[i] == (i < n_items), "item %zu of %zu, grain %zu: %d times", i, n_items, grain, c.seen[i]);
}

START_TEST(every_item_once)
{
	static const size_t items[] = {0, 1, 2, 3, 7, 8, 9, 64, 1000, MAX_ITEMS}, grains[] = {1, 2, 3, 16, 999, 100000};
	struct team *t = team_create(_i);
	ck_assert_int_eq(team_size(t), _i);
	for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
		for (size_t j = 0; j < sizeof grains / sizeof grains[0]; j++)
			check_counts(t, items[i], grains[j]);
	team_destroy(t);
}
END_TEST

static void add_one(void *ctx, size_t first, size_t last, int thread)
{
	(void)thread;
	atomic_fetch_add((_Atomic size_t *)ctx, last - first);
}

// Jobs that follow each other faster than threads wake up: late threads must find nothing old.
START_TEST(many_short_jobs)
{
	struct team *t = team_create(_i);
	for (size_t n = 0; n < 3000; n++) {
		_Atomic size_t sum = 0;
		team_run(t, n % 37, 1 + n % 5, add_one, &sum);
		ck_assert_uint_eq(sum, n % 37);
		if (n % 500 == 0)
			usleep(2000); // long enough for every thread to fall asleep
	}
	team_destroy(t);
}
END_TEST

struct stuck {
	_Atomic size_t done;
	size_t n;
};

// Whoever runs item 0 waits for all others.
static void wait_in_first(void *ctx, size_t first, size_t last, int thread)
{
	struct stuck *s = ctx;
	uint64_t end = clock_now_ns() + 3000000000u;
	(void)last;
	(void)thread;
	while (first == 0 && atomic_load(&s->done) < s->n - 1 && clock_now_ns() < end)
		usleep(100);
	atomic_fetch_add(&s->done, 1);
}

START_TEST(others_take_over)
{
	struct team *t = team_create(_i);
	struct stuck s = {.n = 100};
	uint64_t from = clock_now_ns();
	team_run(t, s.n, 1, wait_in_first, &s);
	ck_assert_uint_eq(s.done, s.n);
	ck_assert_msg(clock_now_ns() - from < 2000000000u, "nobody took over the waiting thread's items");
	team_destroy(t);
}
END_TEST

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

START_TEST(idle_threads_sleep)
{
	struct team *t = team_create(4);
	_Atomic size_t sum = 0;
	team_run(t, 100, 1, add_one, &sum);
	usleep(20000);
	double from = cpu_seconds();
	usleep(200000);
	ck_assert_double_lt(cpu_seconds() - from, 0.01);
	team_run(t, 100, 1, add_one, &sum);
	ck_assert_uint_eq(sum, 200);
	team_destroy(t);
}
END_TEST

START_TEST(destroy_without_work)
{
	team_destroy(NULL);
	for (int i = 0; i < 20; i++)
		team_destroy(team_create(1 + i % MAX_THREADS));
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("team");
	TCase *c = tcase_create("team");
	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, every_item_once, 1, MAX_THREADS + 1);
	tcase_add_loop_test(c, many_short_jobs, 1, MAX_THREADS + 1);
	tcase_add_loop_test(c, others_take_over, 2, MAX_THREADS + 1);
	tcase_add_test(c, idle_threads_sleep);
	tcase_add_test(c, destroy_without_work);
	suite_add_tcase(s, c);
	return s;
}
