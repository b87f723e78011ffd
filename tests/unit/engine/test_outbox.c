// SPDX-License-Identifier: Apache-2.0
//
// Events from one thread to another through a box that is far too small for them: none is lost, none is changed.
#include "engine/outbox.h"
#include "tests/unit/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EVENTS = 20000 };

static int wake_pipe[2];

static void wake(void *ctx)
{
	char c = 1;
	(void)ctx;
	ck_assert_int_eq(write(wake_pipe[1], &c, 1), 1);
}

static void *produce(void *arg)
{
	struct outbox *o = arg;
	for (int i = 0; i < EVENTS; i++) {
		char text[64];
		struct token_logprob top[3] = {{i, -1}, {i + 1, -2}, {i + 2, -3}};
		struct engine_event ev = {.id = (uint64_t)i, .kind = EVENT_TOKEN, .token = i, .n_top = i % 4, .top = top, .text = text};
		ev.n_text = (size_t)snprintf(text, sizeof text, "token %d", i) * (size_t)(i % 3 != 0);
		outbox_put(o, &ev);
		if (i % 7 == 0)
			outbox_flush(o);
	}
	outbox_flush(o);
	return NULL;
}

static void consume(void *ctx, const struct engine_event *ev)
{
	int *next = ctx, i = *next;
	char want[64];
	size_t n = (size_t)snprintf(want, sizeof want, "token %d", i) * (size_t)(i % 3 != 0);
	ck_assert_uint_eq(ev->id, (uint64_t)i);
	ck_assert_int_eq(ev->n_top, i % 4);
	for (int k = 0; k < ev->n_top; k++)
		ck_assert_int_eq(ev->top[k].id, i + k);
	ck_assert_uint_eq(ev->n_text, n);
	ck_assert(!memcmp(ev->text, want, n));
	++*next;
}

START_TEST(a_small_box_loses_nothing)
{
	pthread_t producer;
	int next = 0;
	char c;
	ck_assert_int_eq(pipe(wake_pipe), 0);
	struct outbox *o = outbox_create(4096, wake, NULL);
	ck_assert_int_eq(pthread_create(&producer, NULL, produce, o), 0);
	while (next < EVENTS) {
		ck_assert_int_eq(read(wake_pipe[0], &c, 1), 1);
		outbox_drain(o, consume, &next);
	}
	pthread_join(producer, NULL);
	outbox_destroy(o);
}
END_TEST

START_TEST(a_closed_box_never_blocks)
{
	struct engine_event ev = {.text = "x", .n_text = 1};
	ck_assert_int_eq(pipe(wake_pipe), 0);
	struct outbox *o = outbox_create(4096, wake, NULL);
	outbox_close(o);
	for (int i = 0; i < 1000; i++)
		outbox_put(o, &ev);
	outbox_destroy(o);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("outbox");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_small_box_loses_nothing);
	tcase_add_test(t, a_closed_box_never_blocks);
	suite_add_tcase(s, t);
	return s;
}
