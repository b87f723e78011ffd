// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include "tests/unit/test.h"

#include <limits.h>
#include <string.h>

static struct metrics m;

static void balanced(void)
{
	uint64_t finished = 0;
	for (int i = 0; i < FINISH_CLASSES; i++)
		finished += m.finished[i];
	ck_assert_uint_eq(m.started, finished + m.running + m.waiting);
}

static bool send(struct request_meter *r, struct engine_event ev, uint64_t now)
{
	bool last = metrics_event(&m, r, &ev, now);
	balanced();
	return last;
}

static struct request_meter start(int n, int max_tokens)
{
	struct request_meter r;
	struct sampling s = {.max_tokens = max_tokens};
	metrics_start(&m, &r, &s, n, 0);
	balanced();
	return r;
}

START_TEST(test_one_request)
{
	metrics_init(&m, 2048, 0);
	struct request_meter r = start(2, 5);
	ck_assert_uint_eq(m.waiting, 1);
	ck_assert(!send(&r, (struct engine_event){.kind = EVENT_START, .n_prompt = 10, .n_cached = 4}, 5));
	ck_assert_uint_eq(m.running, 1);
	for (int i = 0; i < 3; i++)
		for (int c = 0; c < 2; c++)
			send(&r, (struct engine_event){.kind = EVENT_TOKEN, .choice = c, .time_ns = 30000000u * (uint64_t)(i + 1)},
				 9000000);
	struct engine_event done = {.kind = EVENT_DONE, .reason = FINISH_STOP, .n_completion = 3, .decode_ns = 200000000};
	ck_assert(!send(&r, done, 100));
	done.choice = 1;
	done.reason = FINISH_LENGTH;
	ck_assert(send(&r, done, 1000000000));
	ck_assert_uint_eq(m.finished[FINISHED_LENGTH], 1);
	ck_assert_uint_eq(m.generated_tokens, 6);
	ck_assert_uint_eq(m.prompt_tokens, 10);
	ck_assert_uint_eq(m.cached_tokens, 4);
	ck_assert_uint_eq(m.ttft.count[2], 1); // 9 ms: up to 10 ms
	ck_assert_uint_eq(m.itl.count[2], 4);  // 30 ms: up to 50 ms
	ck_assert_uint_eq(m.tpot.count[4], 1); // 100 ms
	ck_assert_uint_eq(m.e2e.count[3], 1);  // exactly 1 s belongs to the bucket le="1"
	ck_assert(m.computed_len.sum == 6 && m.generated_len.sum == 6 && m.longest_len.sum == 3);
	ck_assert(m.params_max_tokens.sum == 5 && m.params_n.sum == 2);
}
END_TEST

START_TEST(test_aborts)
{
	metrics_init(&m, 2048, 0);
	struct request_meter queued = start(1, INT_MAX), running = start(1, INT_MAX), failed = start(1, INT_MAX);
	ck_assert(send(&queued, (struct engine_event){.kind = EVENT_DONE, .reason = FINISH_CANCELLED}, 1));
	send(&running, (struct engine_event){.kind = EVENT_START, .n_prompt = 3}, 1);
	ck_assert(send(&running, (struct engine_event){.kind = EVENT_DONE, .reason = FINISH_DEADLINE}, 1));
	ck_assert(send(&failed, (struct engine_event){.kind = EVENT_DONE, .reason = FINISH_ERROR}, 1));
	ck_assert_uint_eq(m.finished[FINISHED_ABORT], 2);
	ck_assert_uint_eq(m.finished[FINISHED_ERROR], 1);
	ck_assert(m.e2e.sum == 0 && m.params_max_tokens.sum == 0);
	struct request_meter left = start(1, 1);
	metrics_drop(&m, &left);
	balanced();
}
END_TEST

START_TEST(test_exposition)
{
	struct engine_info info = {.block_tokens = 16, .n_blocks = 100, .kv_dtype = "f16"};
	struct engine_stats stats = {.sched = {.blocks_total = 100, .blocks_used = 25, .preemptions = 7}};
	struct buf b = {0};
	metrics_init(&m, 100, 1234);
	metrics_write(&m, &info, &stats, "a\"b\\c", &b);
	ck_assert_ptr_nonnull(strstr(b.data, "vllm:kv_cache_usage_perc{model_name=\"a\\\"b\\\\c\",engine=\"0\"} 0.25\n"));
	ck_assert_ptr_nonnull(strstr(b.data, "vllm:num_preemptions_total{model_name=\"a\\\"b\\\\c\",engine=\"0\"} 7\n"));
	ck_assert_ptr_nonnull(strstr(b.data, "finished_reason=\"abort\"} 0\n"));
	ck_assert_ptr_nonnull(strstr(b.data, "block_size=\"16\",num_gpu_blocks=\"100\""));
	ck_assert_ptr_nonnull(
		strstr(b.data, "vllm:request_prompt_tokens_bucket{model_name=\"a\\\"b\\\\c\",engine=\"0\",le=\"100\"} 0\n"));
	ck_assert_ptr_null(strstr(b.data, "le=\"200\"")); // token buckets end at the context
	ck_assert_ptr_nonnull(strstr(b.data, "process_start_time_seconds 1234\n"));
	buf_deinit(&b);
}
END_TEST

START_TEST(test_largest_context)
{
	metrics_init(&m, INT_MAX, 0);
	ck_assert_int_le(m.prompt_len.n_bounds, HISTOGRAM_BUCKETS);
	histogram_add(&m.prompt_len, 1e12);
	ck_assert_uint_eq(m.prompt_len.count[m.prompt_len.n_bounds], 1);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("metrics");
	TCase *t = tcase_create("metrics");
	tcase_add_test(t, test_one_request);
	tcase_add_test(t, test_aborts);
	tcase_add_test(t, test_exposition);
	tcase_add_test(t, test_largest_context);
	suite_add_tcase(s, t);
	return s;
}
