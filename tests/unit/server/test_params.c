// SPDX-License-Identifier: Apache-2.0
#include "server/params.h"

#include "engine/base/err.h"
#include "tests/unit/test.h"

#include <limits.h>
#include <string.h>

static struct limits limits;
static struct arena arena;
static struct params p;
static struct api_error e;

static int read_as(unsigned route, const char *text)
{
	struct params_rules rules = {route, 1000, &limits};
	json_t *body = json_loads(text, 0, NULL);
	ck_assert_msg(body != NULL, "%s", text);
	limits_default(&limits);
	arena_deinit(&arena);
	arena_init(&arena, 1 << 20);
	e = (struct api_error){0};
	int rc = params_read(&rules, body, &arena, &p, &e);
	json_decref(body); // what was read must not lie in it
	return rc;
}

static int chat(const char *text)
{
	return read_as(PARAMS_CHAT, text);
}

static int completion(const char *text)
{
	return read_as(PARAMS_COMPLETION, text);
}

START_TEST(test_defaults)
{
	ck_assert_int_eq(chat("{}"), 0);
	ck_assert(p.sampling.temperature == 1 && p.sampling.top_p == 1 && p.sampling.repetition_penalty == 1);
	ck_assert_int_eq(p.sampling.max_tokens, INT_MAX);
	ck_assert_int_eq(p.sampling.n_logprobs, SAMPLING_NO_LOGPROBS);
	ck_assert_int_eq(p.n, 1);
	ck_assert(!p.stream && !p.logprobs && p.use_cache && !p.add_special && !p.keep_special);
	ck_assert_int_eq(completion("{}"), 0);
	ck_assert_int_eq(p.sampling.max_tokens, 16);
	ck_assert(p.add_special);
}
END_TEST

START_TEST(test_seed)
{
	ck_assert_int_eq(chat("{\"seed\":-5}"), 0);
	ck_assert_uint_eq(p.sampling.seed, (uint64_t)-5);
	ck_assert_int_eq(chat("{\"seed\":42.0}"), 0);
	ck_assert_uint_eq(p.sampling.seed, 42);
	ck_assert_int_eq(chat("{}"), 0);
	uint64_t first = p.sampling.seed;
	ck_assert_int_eq(chat("{\"seed\":-1}"), 0);
	ck_assert_uint_ne(p.sampling.seed, first); // fresh bits each time
	ck_assert_uint_ne(p.sampling.seed, (uint64_t)-1);
	ck_assert_int_eq(chat("{\"seed\":null}"), 0);
}
END_TEST

START_TEST(test_numbers)
{
	ck_assert_int_eq(chat("{\"temperature\":0,\"top_p\":0.5,\"min_p\":0.1,\"top_k\":40,\"frequency_penalty\":-2,"
						  "\"presence_penalty\":2,\"repeat_penalty\":1.5,\"min_tokens\":3}"),
					 0);
	ck_assert(p.sampling.temperature == 0 && p.sampling.top_p == 0.5f && p.sampling.min_p == 0.1f);
	ck_assert(p.sampling.frequency_penalty == -2 && p.sampling.presence_penalty == 2);
	ck_assert(p.sampling.repetition_penalty == 1.5f);
	ck_assert_int_eq(p.sampling.top_k, 40);
	ck_assert_int_eq(p.sampling.min_tokens, 3);
	ck_assert_int_eq(chat("{\"top_k\":-1}"), 0);
	ck_assert_int_eq(p.sampling.top_k, 0);
	ck_assert_int_eq(chat("{\"top_k\":5e18}"), 0);
	ck_assert_int_eq(p.sampling.top_k, INT_MAX);
}
END_TEST

START_TEST(test_max_tokens)
{
	ck_assert_int_eq(chat("{\"n_predict\":3,\"max_tokens\":4,\"max_completion_tokens\":5}"), 0);
	ck_assert_int_eq(p.sampling.max_tokens, 5);
	ck_assert_int_eq(chat("{\"max_tokens\":9223372036854775807}"), 0);
	ck_assert_int_eq(p.sampling.max_tokens, INT_MAX);
	ck_assert_int_eq(completion("{\"n_predict\":-1}"), 0);
	ck_assert_int_eq(p.sampling.max_tokens, INT_MAX);
	ck_assert_int_eq(completion("{\"max_tokens\":0}"), 0);
	ck_assert_int_eq(p.sampling.max_tokens, 0);
	ck_assert_int_eq(chat("{\"max_tokens\":0}"), ERR_INVALID);
	ck_assert_str_eq(e.param, "max_tokens");
}
END_TEST

START_TEST(test_stops)
{
	ck_assert_int_eq(chat("{\"stop\":\"END\"}"), 0);
	ck_assert_uint_eq(p.n_stops, 1);
	ck_assert_str_eq(p.stops[0], "END");
	ck_assert_int_eq(chat("{\"stop\":[\"\",\"a\",\"\",\"bc\"]}"), 0);
	ck_assert_uint_eq(p.n_stops, 2);
	ck_assert_uint_eq(p.stop_lens[1], 2);
	ck_assert_int_eq(chat("{\"stop\":[],\"stop_token_ids\":[1,999]}"), 0);
	ck_assert_uint_eq(p.n_stops, 0);
	ck_assert_int_eq(p.sampling.stop_ids[1], 999);
	ck_assert_int_eq(chat("{\"stop_token_ids\":[1000]}"), ERR_INVALID);
}
END_TEST

START_TEST(test_bias)
{
	ck_assert_int_eq(chat("{\"logit_bias\":{\"999\":-100,\"0\":1.5}}"), 0);
	ck_assert_uint_eq(p.sampling.n_bias, 2);
	ck_assert_int_eq(chat("{\"logit_bias\":{}}"), 0);
	static const char *const BAD[] = {
		"{\"logit_bias\":{\"1000\":1}}", "{\"logit_bias\":{\"-1\":1}}",	  "{\"logit_bias\":{\"1e3\":1}}",
		"{\"logit_bias\":{\"0x1\":1}}",	 "{\"logit_bias\":{\"\":1}}",	  "{\"logit_bias\":{\"99999999999\":1}}",
		"{\"logit_bias\":{\"1\":101}}",	 "{\"logit_bias\":{\"1\":true}}",
	};
	for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
		ck_assert_int_eq(chat(BAD[i]), ERR_INVALID);
		ck_assert_str_eq(e.param, "logit_bias");
		ck_assert_int_eq(e.status, 400);
	}
}
END_TEST

START_TEST(test_logprobs)
{
	ck_assert_int_eq(chat("{\"logprobs\":true}"), 0);
	ck_assert(p.logprobs && p.sampling.n_logprobs == 0);
	ck_assert_int_eq(chat("{\"logprobs\":true,\"top_logprobs\":20}"), 0);
	ck_assert_int_eq(p.sampling.n_logprobs, 20);
	ck_assert_int_eq(chat("{\"logprobs\":false,\"top_logprobs\":0}"), 0);
	ck_assert_int_eq(p.sampling.n_logprobs, SAMPLING_NO_LOGPROBS);
	ck_assert_int_eq(chat("{\"top_logprobs\":1}"), ERR_INVALID);
	ck_assert_int_eq(completion("{\"logprobs\":0}"), 0);
	ck_assert(p.logprobs && p.sampling.n_logprobs == 0 && p.sampling.n_prompt_logprobs == SAMPLING_NO_LOGPROBS);
	ck_assert_int_eq(completion("{\"logprobs\":3,\"echo\":true,\"max_tokens\":0}"), 0);
	ck_assert_int_eq(p.sampling.n_prompt_logprobs, 3);
	ck_assert_int_eq(completion("{\"logprobs\":false}"), 0);
	ck_assert(!p.logprobs);
}
END_TEST

START_TEST(test_stream_options)
{
	ck_assert_int_eq(
		chat("{\"stream\":true,\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":false}}"), 0);
	ck_assert(p.include_usage);
	ck_assert_int_eq(chat("{\"stream_options\":{\"include_usage\":true}}"), 0);
	ck_assert(!p.include_usage);
	ck_assert_int_eq(chat("{\"stream\":true,\"stream_options\":{\"include_usage\":1}}"), ERR_INVALID);
	ck_assert_int_eq(completion("{\"stream\":true,\"prompt_logprobs\":1}"), ERR_INVALID);
}
END_TEST

START_TEST(test_flags)
{
	ck_assert_int_eq(
		completion("{\"skip_special_tokens\":false,\"include_stop_str_in_output\":true,\"ignore_eos\":true,"
				   "\"cache_prompt\":false,\"cache_salt\":\"s\",\"add_special_tokens\":false,\"priority\":-3}"),
		0);
	ck_assert(p.keep_special && p.include_stop && p.sampling.ignore_eos && !p.use_cache && !p.add_special);
	ck_assert_str_eq(p.cache_salt, "s");
	ck_assert_int_eq(p.priority, -3);
	ck_assert_int_eq(chat("{\"ignore_eos\":1}"), ERR_INVALID);
}
END_TEST

// A field that would change the text is named in the refusal; asked for nothing, it is fine.
START_TEST(test_refused)
{
	static const struct {
		const char *body, *param;
	} REFUSED[] = {
		{"{\"grammar\":\"root ::= x\"}", "grammar"},
		{"{\"guided_choice\":[\"a\"]}", "guided_choice"},
		{"{\"response_format\":{\"type\":\"json_object\"}}", "response_format"},
		{"{\"tools\":[{\"type\":\"function\"}]}", "tools"},
		{"{\"tool_choice\":\"required\"}", "tool_choice"},
		{"{\"function_call\":{\"name\":\"f\"}}", "function_call"},
		{"{\"modalities\":[\"audio\"]}", "modalities"},
		{"{\"lora\":[{\"id\":0}]}", "lora"},
		{"{\"echo\":true}", "echo"},
	};
	for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
		ck_assert_msg(chat(REFUSED[i].body) == ERR_INVALID, "%s", REFUSED[i].body);
		ck_assert_str_eq(e.param, REFUSED[i].param);
		ck_assert_ptr_nonnull(strstr(e.message, REFUSED[i].param));
	}
	ck_assert_int_eq(
		chat("{\"grammar\":\"\",\"tools\":[],\"functions\":null,\"echo\":false,\"response_format\":{\"type\":"
			 "\"text\"},\"tool_choice\":\"auto\",\"modalities\":[\"text\"],\"unknown\":{\"a\":1}}"),
		0);
	ck_assert_int_eq(chat("{\"tools\":[{\"type\":\"function\"}],\"tool_choice\":\"none\"}"), 0);
	ck_assert_int_eq(completion("{\"n\":2,\"best_of\":2}"), 0);
	ck_assert_int_eq(completion("{\"n\":1,\"best_of\":2}"), ERR_INVALID);
}
END_TEST

static void set_up(void)
{
	arena_init(&arena, 0);
}

static void tear_down(void)
{
	arena_deinit(&arena);
}

Suite *test_suite(void)
{
	Suite *s = suite_create("params");
	TCase *t = tcase_create("params");
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, test_defaults);
	tcase_add_test(t, test_seed);
	tcase_add_test(t, test_numbers);
	tcase_add_test(t, test_max_tokens);
	tcase_add_test(t, test_stops);
	tcase_add_test(t, test_bias);
	tcase_add_test(t, test_logprobs);
	tcase_add_test(t, test_stream_options);
	tcase_add_test(t, test_flags);
	tcase_add_test(t, test_refused);
	suite_add_tcase(s, t);
	return s;
}
