// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as the body of a POST: the first byte picks the route. Refused with a 400 or 404 that can be written, or a
// job whose numbers are in their ranges, or an answer that is JSON.
#include "engine/base/err.h"
#include "engine/engine.h"
#include "engine/text/chat_template.h"
#include "server/api.h"
#include "server/job.h"
#include "server/json_in.h"
#include "server/json_out.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/fake_engine.h"

#include <string.h>

static const api_prepare_fn ROUTES[] = {api_prepare_chat, api_prepare_completion, api_prepare_tokenize,
										api_prepare_detokenize, api_prepare_template};

static void check_json(const char *text, size_t n)
{
	json_t *v = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
	CHECK(v, "%.*s", (int)n, text);
	json_decref(v);
}

static void check_error(const struct api_error *e)
{
	struct buf b = {0};
	struct json_out o;
	CHECK(e->status == 400 || e->status == 404, "%d", e->status);
	CHECK(e->message[0], "%s", e->param);
	json_out_init(&o, &b);
	api_error_write(e, &o);
	check_json(b.data, b.len);
	buf_deinit(&b);
}

static void check_job(const struct job *j)
{
	const struct sampling *s = &j->params.sampling;
	CHECK(j->params.n >= 1 && j->params.n <= 128 && j->n_prompts >= 1, "%d × %d", j->n_prompts, j->params.n);
	CHECK(s->temperature >= 0 && s->temperature <= 2 && s->top_p >= 0 && s->top_p <= 1 && s->min_p >= 0 &&
			  s->min_p <= 1,
		  "%g %g %g", s->temperature, s->top_p, s->min_p);
	CHECK(s->max_tokens >= 0 && s->min_tokens >= 0 && s->top_k >= 0 && s->repetition_penalty > 0, "%d", s->max_tokens);
	CHECK(s->n_logprobs >= -1 && s->n_logprobs <= SAMPLING_MAX_LOGPROBS, "%d", s->n_logprobs);
	for (size_t i = 0; i < s->n_bias; i++)
		CHECK(s->bias[i].id >= 0 && s->bias[i].id < FAKE_VOCAB, "%d", (int)s->bias[i].id);
	for (int i = 0; i < j->n_prompts; i++)
		for (size_t k = 0; k < j->prompts[i].tokens.n; k++)
			CHECK(j->prompts[i].tokens.ids[k] >= 0 && j->prompts[i].tokens.ids[k] < FAKE_VOCAB, "prompt %d", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const NAMES[] = {"m"};
	static struct chat_template *template;
	struct engine_info info = {.model_name = "m", .n_vocab = FAKE_VOCAB, .max_model_len = 4096};
	struct limits limits;
	const char *note;
	char why[64];
	limits_default(&limits);
	if (!template && chat_template_create(NULL, 0, NULL, &template, &note, why, sizeof why))
		return 0;
	struct api_context ctx = {.info = &info,
							  .chat_template = template,
							  .limits = &limits,
							  .served_names = NAMES,
							  .n_served_names = 1,
							  .trust_request_chat_template = size && data[0] & 8};
	struct outcome out = {0};
	if (!size)
		return 0;
	json_t *body = json_in_parse((const char *)data + 1, size - 1, limits.json_depth, limits.json_values, &out.error);
	if (json_is_object(body))
		ROUTES[data[0] % 5](&ctx, body, &out);
	if (out.error.status)
		check_error(&out.error);
	else if (out.job)
		check_job(out.job);
	else if (out.body.len)
		check_json(out.body.data, out.body.len);
	CHECK(!out.error.status || !out.job, "both");
	job_destroy(out.job);
	buf_deinit(&out.body);
	json_decref(body);
	return 0;
}
