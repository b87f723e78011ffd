// SPDX-License-Identifier: Apache-2.0
//
// Events to replies in both dialects, against the JSON as a client gets it. Tokens are bytes (fake_text.c).
#include "server/reply.h"

#include "engine/base/mem.h"
#include "server/api.h"
#include "tests/unit/server/fake_engine.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {"m"};
static const struct api_context ctx = {.served_names = NAMES, .n_served_names = 1, .fingerprint = "fp_1"};
static struct job *job;
static struct buf out;

static void make(enum dialect dialect, int n_prompts, int n, bool stream)
{
	job = job_create(&ctx, dialect);
	job->params = (struct params){.n = n, .stream = stream};
	job_set_prompts(job, n_prompts);
	for (int i = 0; i < n_prompts; i++)
		for (int k = 0; k < 3; k++)
			token_vec_push(&job->prompts[i].tokens, "abc"[k]);
}

static void echo(const char *text)
{
	job->params.echo = true;
	job->prompts[0].echo = mem_strdup(text);
	job->prompts[0].n_echo = strlen(text);
}

static void begin(void)
{
	reply_begin(job, 1000);
	strcpy(job->id, "id");
	if (job->params.stream) { // the head again, with the id that we know
		struct buf head = {0};
		buf_printf(&head, "{\"id\":\"id\",\"object\":\"%s\"",
				   job->dialect == DIALECT_CHAT ? "chat.completion.chunk" : "text_completion");
		buf_deinit(&job->head);
		job->head = head;
	}
}

static void send_start(int prompt, int n_cached)
{
	reply_event(job, prompt, &(struct engine_event){.kind = EVENT_START, .n_prompt = 3, .n_cached = n_cached}, &out);
}

static void send_token(int prompt, int choice, int32_t id, const char *text)
{
	struct token_logprob top[] = {{id, -0.5f}, {'z', -1.5f}};
	struct engine_event ev = {.kind = EVENT_TOKEN,
							  .choice = choice,
							  .token = id,
							  .text = text,
							  .n_text = strlen(text),
							  .logprob = -0.5f,
							  .top = top,
							  .n_top = job->params.sampling.n_logprobs,
							  .hidden = id == FAKE_EOS};
	reply_event(job, prompt, &ev, &out);
}

static void send_done(int prompt, int choice, enum finish_reason reason, int n, const char *text)
{
	struct engine_event ev = {.kind = EVENT_DONE,
							  .choice = choice,
							  .reason = reason,
							  .n_completion = n,
							  .text = text,
							  .n_text = strlen(text),
							  .stop_index = -1};
	reply_event(job, prompt, &ev, &out);
}

static void tear_down(void)
{
	job_destroy(job);
	buf_deinit(&out);
}

#define USAGE(prompt, completion, total, cached)                                                                       \
	"\"usage\":{\"prompt_tokens\":" #prompt ",\"completion_tokens\":" #completion ",\"total_tokens\":" #total          \
	",\"prompt_tokens_details\":{\"cached_tokens\":" #cached ",\"audio_tokens\":0},\"completion_tokens_details\":{"    \
	"\"reasoning_tokens\":0,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}"

START_TEST(test_chat_whole)
{
	make(DIALECT_CHAT, 1, 1, false);
	begin();
	send_start(0, 2);
	send_token(0, 0, 'H', "H");
	send_token(0, 0, 'i', "");
	send_token(0, 0, FAKE_EOS, "");
	ck_assert(!job->ended);
	send_done(0, 0, FINISH_STOP, 3, "i\n");
	ck_assert(job->ended && !job->error.status);
	ck_assert_uint_eq(out.len, 0);
	reply_write(job, &out);
	ck_assert_str_eq(
		out.data,
		"{\"id\":\"id\",\"object\":\"chat.completion\",\"created\":1000,\"model\":\"m\",\"system_fingerprint\":"
		"\"fp_1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hi\\n\",\"refusal\":"
		"null,\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"stop\"}]," USAGE(3, 3, 6, 2) "}");
}
END_TEST

#define CHUNK "data: {\"id\":\"id\",\"object\":\"chat.completion.chunk\",\"choices\":["

START_TEST(test_chat_stream)
{
	make(DIALECT_CHAT, 1, 2, true);
	job->params.include_usage = true;
	begin();
	send_start(0, 0);
	ck_assert_uint_eq(out.len, 0); // nothing before the first token: errors still have a status
	send_token(0, 1, 'x', "x");	   // choice 1 speaks first, yet the roles open in order
	send_token(0, 0, 'H', "");
	send_done(0, 1, FINISH_LENGTH, 1, "");
	send_done(0, 0, FINISH_STOP_STRING, 1, "H");
	ck_assert(job->ended);
	ck_assert_str_eq(
		out.data,
		CHUNK "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":"
			  "null}],\"usage\":null}\n\n" CHUNK "{\"index\":1,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
												 "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n" CHUNK
			  "{\"index\":1,\"delta\":{\"content\":\"x\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"
			  "\n\n" CHUNK
			  "{\"index\":1,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":null}\n\n" CHUNK
			  "{\"index\":0,\"delta\":{\"content\":\"H\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"
			  "\n\n" CHUNK
			  "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n" CHUNK
			  "]," USAGE(3, 2, 5, 0) "}\n\n"
									 "data: [DONE]\n\n");
}
END_TEST

START_TEST(test_chat_logprobs)
{
	make(DIALECT_CHAT, 1, 1, false);
	job->params.logprobs = true;
	job->params.sampling.n_logprobs = 2;
	begin();
	send_token(0, 0, 0xC4, "");
	send_token(0, 0, 0x8F, "ď");
	send_token(0, 0, FAKE_EOS, "");
	send_done(0, 0, FINISH_STOP, 3, "");
	reply_write(job, &out);
	json_t *v = json_loads(out.data, 0, NULL);
	json_t *list =
		json_object_get(json_object_get(json_array_get(json_object_get(v, "choices"), 0), "logprobs"), "content");
	ck_assert_uint_eq(json_array_size(list), 3);
	char *first = json_dumps(json_array_get(list, 0), JSON_COMPACT),
		 *last = json_dumps(json_array_get(list, 2), JSON_COMPACT);
	ck_assert_str_eq(first,
					 "{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[196],\"top_logprobs\":[{\"token\":\"\uFFFD\","
					 "\"logprob\":-0.5,\"bytes\":[196]},{\"token\":\"z\",\"logprob\":-1.5,\"bytes\":[122]}]}");
	ck_assert_ptr_nonnull(strstr(last, "{\"token\":\"</s>\",\"logprob\":-0.5,\"bytes\":null,"));
	free(first);
	free(last);
	json_decref(v);
}
END_TEST

START_TEST(test_completion_echo_logprobs)
{
	make(DIALECT_COMPLETION, 1, 1, false);
	job->params.logprobs = true;
	job->params.sampling.n_logprobs = 1;
	echo("bc");
	job->prompts[0].tokens.ids[0] = FAKE_BOS;
	begin();
	send_start(0, 0);
	for (int i = 0; i < 3; i++) {
		struct token_logprob top = {'q', -2.0f};
		struct engine_event ev = {.kind = EVENT_PROMPT_TOKEN,
								  .position = i,
								  .token = job->prompts[0].tokens.ids[i],
								  .logprob = i ? -3.0f : NAN,
								  .top = &top,
								  .n_top = i ? 1 : 0};
		reply_event(job, 0, &ev, &out);
	}
	send_token(0, 0, 'H', "H");
	send_token(0, 0, 'i', "i");
	send_done(0, 0, FINISH_LENGTH, 2, "");
	reply_write(job, &out);
	ck_assert_str_eq(
		out.data,
		"{\"id\":\"id\",\"object\":\"text_completion\",\"created\":1000,\"model\":\"m\",\"system_fingerprint\":\"fp_"
		"1\","
		"\"choices\":[{\"index\":0,\"text\":\"bcHi\",\"logprobs\":{\"tokens\":[\"<s>\",\"b\",\"c\",\"H\",\"i\"],"
		"\"token_logprobs\":[null,-3.0,-3.0,-0.5,-0.5],\"top_logprobs\":[null,{\"q\":-2.0,\"b\":-3.0},{\"q\":-2.0,"
		"\"c\":"
		"-3.0},{\"H\":-0.5},{\"i\":-0.5}],\"text_offset\":[0,0,1,2,3]},\"finish_reason\":\"length\"}]," USAGE(3, 2, 5,
																											  0) "}");
}
END_TEST

#define TEXT_CHUNK "data: {\"id\":\"id\",\"object\":\"text_completion\",\"choices\":["

START_TEST(test_completion_stream_echo)
{
	make(DIALECT_COMPLETION, 1, 1, true);
	job->params.logprobs = true;
	job->params.sampling.n_logprobs = 0;
	echo("ab");
	begin();
	send_token(0, 0, 'H', "H");
	send_done(0, 0, FINISH_STOP, 1, "!");
	ck_assert_str_eq(
		out.data,
		TEXT_CHUNK "{\"index\":0,\"text\":\"ab\",\"logprobs\":{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],"
				   "\"text_offset\":[]},\"finish_reason\":null}]}\n\n" TEXT_CHUNK
				   "{\"index\":0,\"text\":\"H\",\"logprobs\":{\"tokens\":[\"H\"],\"token_logprobs\":[-0.5],"
				   "\"top_logprobs\":[{\"H\":-0.5}],\"text_offset\":[2]},\"finish_reason\":null}]}\n\n" TEXT_CHUNK
				   "{\"index\":0,\"text\":\"!\",\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n"
				   "data: [DONE]\n\n");
}
END_TEST

// Token by token, a character cut in two has one place.
START_TEST(test_offsets_are_characters)
{
	make(DIALECT_COMPLETION, 1, 1, false);
	job->params.logprobs = true;
	begin();
	static const int BYTES[] = {'a', 0xC4, 0x8F, 'b', 0xF0, 0x9F, 0x8C, 0xB6, 'c'};
	for (size_t i = 0; i < sizeof BYTES / sizeof BYTES[0]; i++)
		send_token(0, 0, BYTES[i], "");
	send_token(0, 0, FAKE_EOS, "");
	send_done(0, 0, FINISH_STOP, 10, "");
	reply_write(job, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "\"text_offset\":[0,1,1,2,3,3,3,3,4,5]"));
}
END_TEST

START_TEST(test_equal_texts_keep_the_likelier)
{
	struct token_logprob top[] = {{290, -0.1f}, {291, -0.7f}, {'b', -2.0f}}; // 290 and 291 are both " word"
	struct engine_event ev = {.kind = EVENT_TOKEN, .token = 291, .logprob = -0.7f, .top = top, .n_top = 3};
	make(DIALECT_COMPLETION, 1, 1, false);
	job->params.logprobs = true;
	begin();
	reply_event(job, 0, &ev, &out);
	send_done(0, 0, FINISH_STOP, 1, "");
	reply_write(job, &out);
	ck_assert_ptr_nonnull(strstr(out.data, "\"top_logprobs\":[{\" word\":-0.1,\"b\":-2.0}]"));
}
END_TEST

START_TEST(test_many_prompts)
{
	make(DIALECT_COMPLETION, 2, 2, false);
	begin();
	send_start(0, 1);
	send_start(1, 2);
	for (int p = 1; p >= 0; p--)
		for (int c = 1; c >= 0; c--) {
			char text[] = {(char)('0' + p * 2 + c), 0};
			send_token(p, c, text[0], text);
			send_done(p, c, FINISH_LENGTH, 1, "");
		}
	reply_write(job, &out);
	for (int i = 0; i < 4; i++) {
		char want[64];
		snprintf(want, sizeof want, "{\"index\":%d,\"text\":\"%d\",", i, i);
		ck_assert_ptr_nonnull(strstr(out.data, want));
	}
	ck_assert_ptr_nonnull(strstr(out.data, USAGE(6, 4, 10, 3)));
}
END_TEST

START_TEST(test_failure_before_the_first_chunk)
{
	make(DIALECT_CHAT, 1, 1, true);
	begin();
	send_done(0, 0, FINISH_QUEUE_TIMEOUT, 0, "");
	ck_assert(job->ended && !job->committed);
	ck_assert_int_eq(job->error.status, 503);
	ck_assert_int_gt(job->error.retry_after, 0);
	ck_assert_uint_eq(out.len, 0);
}
END_TEST

START_TEST(test_failure_in_the_stream)
{
	make(DIALECT_CHAT, 1, 1, true);
	begin();
	send_token(0, 0, 'a', "a");
	size_t before = out.len;
	send_done(0, 0, FINISH_ERROR, 1, "");
	ck_assert(job->ended);
	ck_assert_str_eq(out.data + before, "data: {\"error\":{\"message\":\"the engine failed on this request\",\"type\":"
										"\"server_error\",\"param\":null,\"code\":null}}\n\n");
	size_t after = out.len;
	send_token(0, 0, 'b', "b");
	ck_assert_uint_eq(out.len, after);
}
END_TEST

START_TEST(test_endings)
{
	static const struct {
		enum finish_reason reason;
		int status;
		const char *code;
	} CASES[] = {{FINISH_ERROR, 500, NULL}, {FINISH_DEADLINE, 504, "deadline_exceeded"}, {FINISH_CANCELLED, 503, NULL}};
	for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
		job_destroy(job);
		make(DIALECT_COMPLETION, 1, 1, false);
		begin();
		send_done(0, 0, CASES[i].reason, 0, "");
		ck_assert_int_eq(job->error.status, CASES[i].status);
		ck_assert(!CASES[i].code || !strcmp(job->error.code, CASES[i].code));
	}
	ck_assert_str_eq(api_error_type(429), "rate_limit_error");
	ck_assert_str_eq(api_error_type(401), "authentication_error");
}
END_TEST

START_TEST(test_token_ids)
{
	make(DIALECT_CHAT, 1, 1, true);
	job->params.return_token_ids = true;
	begin();
	send_token(0, 0, 'H', "");
	send_token(0, 0, FAKE_EOS, "");
	send_done(0, 0, FINISH_STOP, 2, "H");
	ck_assert_ptr_nonnull(strstr(out.data, "\"prompt_token_ids\":[97,98,99],\"choices\":"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"token_ids\":[72]"));
	ck_assert_ptr_nonnull(strstr(out.data, "\"token_ids\":[257]"));
	ck_assert_ptr_eq(strstr(strstr(out.data, "prompt_token_ids") + 1, "prompt_token_ids"), NULL);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("reply");
	TCase *t = tcase_create("reply");
	tcase_add_checked_fixture(t, NULL, tear_down);
	tcase_add_test(t, test_chat_whole);
	tcase_add_test(t, test_chat_stream);
	tcase_add_test(t, test_chat_logprobs);
	tcase_add_test(t, test_completion_echo_logprobs);
	tcase_add_test(t, test_completion_stream_echo);
	tcase_add_test(t, test_offsets_are_characters);
	tcase_add_test(t, test_equal_texts_keep_the_likelier);
	tcase_add_test(t, test_many_prompts);
	tcase_add_test(t, test_failure_before_the_first_chunk);
	tcase_add_test(t, test_failure_in_the_stream);
	tcase_add_test(t, test_endings);
	tcase_add_test(t, test_token_ids);
	suite_add_tcase(s, t);
	return s;
}
