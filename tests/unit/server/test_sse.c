// SPDX-License-Identifier: Apache-2.0
#include "server/sse.h"

#include "tests/unit/test.h"

#include <string.h>

static struct limits limits;
static const uint64_t SECOND = 1000000000u;

static void put(struct sse *s, size_t n, uint64_t now)
{
	size_t before = sse_pending(s);
	for (size_t i = 0; i < n; i++)
		buf_putc(&s->out, (char)('a' + i % 26));
	sse_wrote(s, before, now);
}

START_TEST(test_frame)
{
	struct buf b = {0};
	sse_begin(&b);
	buf_puts(&b, "{}");
	sse_end(&b);
	ck_assert_str_eq(b.data, "data: {}\n\n");
	buf_deinit(&b);
}
END_TEST

// Whatever sizes are written and taken, the bytes come out in order.
START_TEST(test_order)
{
	struct sse s;
	struct buf in = {0}, got = {0};
	char piece[700];
	sse_init(&s, 0);
	for (unsigned i = 0; i < 3000; i++) {
		size_t before = sse_pending(&s), n = i * 7919 % 500;
		for (size_t k = 0; k < n; k++) {
			buf_putc(&s.out, (char)(i + k));
			buf_putc(&in, (char)(i + k));
		}
		sse_wrote(&s, before, i);
		buf_append(&got, piece, sse_take(&s, piece, i * 104729 % sizeof piece, i));
	}
	while (sse_pending(&s))
		buf_append(&got, piece, sse_take(&s, piece, sizeof piece, 0));
	ck_assert_uint_eq(got.len, in.len);
	ck_assert_int_eq(memcmp(got.data, in.data, in.len), 0);
	buf_deinit(&in);
	buf_deinit(&got);
	sse_deinit(&s);
}
END_TEST

START_TEST(test_heartbeat)
{
	struct sse s;
	limits_default(&limits);
	sse_init(&s, 0);
	ck_assert(!sse_heartbeat(&s, &limits, 14 * SECOND));
	ck_assert(sse_heartbeat(&s, &limits, 15 * SECOND));
	ck_assert_str_eq(s.out.data, ": keep-alive\n\n");
	ck_assert(!sse_heartbeat(&s, &limits, 40 * SECOND)); // one that nobody took is enough
	sse_deinit(&s);
}
END_TEST

START_TEST(test_pressure)
{
	struct sse s;
	static char piece[300 << 10];
	limits_default(&limits);
	sse_init(&s, 0);
	put(&s, 256 << 10, 1);
	ck_assert_int_eq(sse_pressure(&s, &limits, 2), SSE_FLOWS);
	put(&s, 1, 2);
	ck_assert_int_eq(sse_pressure(&s, &limits, 2), SSE_PAUSE);
	s.paused = true;
	ck_assert_int_eq(sse_pressure(&s, &limits, 2), SSE_FLOWS);
	sse_take(&s, piece, 100 << 10, 3);
	ck_assert_int_eq(sse_pressure(&s, &limits, 3), SSE_FLOWS);
	sse_take(&s, piece, 100 << 10, 3);
	ck_assert_int_eq(sse_pressure(&s, &limits, 3), SSE_RESUME);
	s.paused = false;
	ck_assert_int_eq(sse_pressure(&s, &limits, 3 + 30 * SECOND), SSE_FLOWS);
	ck_assert_int_eq(sse_pressure(&s, &limits, 4 + 30 * SECOND), SSE_DROP); // took nothing for 30 s
	sse_take(&s, piece, sizeof piece, 5);
	ck_assert_int_eq(sse_pressure(&s, &limits, 100 * SECOND), SSE_FLOWS); // had nothing to take
	put(&s, (4 << 20) + 1, 6);
	ck_assert_int_eq(sse_pressure(&s, &limits, 6), SSE_DROP);
	sse_deinit(&s);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("sse");
	TCase *t = tcase_create("sse");
	tcase_add_test(t, test_frame);
	tcase_add_test(t, test_order);
	tcase_add_test(t, test_heartbeat);
	tcase_add_test(t, test_pressure);
	suite_add_tcase(s, t);
	return s;
}
