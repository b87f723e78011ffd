// SPDX-License-Identifier: Apache-2.0
//
// Published chat templates over many conversations, byte for byte what transformers renders.
#include "engine/base/err.h"
#include "engine/model/gguf.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR "tests/golden/text/templates/"
enum { CLOCK = 1750155630 }; // 2025-06-17 10:20:30 UTC

static struct tokenizer *tok;

static void setup(void)
{
	char err[256];
	struct gguf *g;
	setenv("TZ", "UTC", 1);
	ck_assert_msg(!gguf_open("tests/golden/stories260K/stories260K-f16.gguf", &g, err, sizeof err), "%s", err);
	ck_assert_msg(!tokenizer_from_gguf(g, &tok, err, sizeof err), "%s", err);
	gguf_close(g);
}

static void teardown(void)
{
	tokenizer_destroy(tok);
}

static struct chat_template *load(const char *name)
{
	char path[256], err[512];
	const char *note;
	size_t n;
	struct chat_template *t;
	snprintf(path, sizeof path, DIR "%s.jinja", name);
	FILE *f = fopen(path, "rb");
	ck_assert_ptr_nonnull(f);
	char *s = malloc(1 << 20);
	n = fread(s, 1, 1 << 20, f);
	fclose(f);
	ck_assert_msg(!chat_template_create(s, n, tok, &t, &note, err, sizeof err), "%s: %s", name, err);
	free(s);
	return t;
}

// The special tokens of the golden data are template variables here: the tokenizer at hand has others.
static json_t *variables(const json_t *specials, const json_t *set)
{
	json_t *vars = json_copy((json_t *)specials), *kwargs = json_object_get(set, "kwargs");
	if (kwargs)
		json_object_update(vars, kwargs);
	return vars;
}

static bool check_row(const json_t *row, const struct chat_template *t, const json_t *set, const json_t *specials)
{
	json_t *vars = variables(specials, set);
	struct chat_request r = {
	    .messages = json_object_get(set, "messages"),
	    .tools = json_object_get(set, "tools"),
	    .documents = json_object_get(set, "documents"),
	    .kwargs = vars,
	    .add_generation_prompt = json_is_true(json_object_get(row, "gen")),
	    .continue_final_message = json_is_true(json_object_get(set, "continue_final_message")),
	};
	struct jinja_output out;
	char err[512] = "";
	jinja_output_init(&out);
	int rc = chat_template_render(t, &r, CLOCK, &out, err, sizeof err);
	const json_t *want = json_object_get(row, "text"), *error = json_object_get(row, "error");
	bool ok = want ? !rc && out.text.len == json_string_length(want) && !memcmp(out.text.data, json_string_value(want), out.text.len) : rc != 0;
	const char *kind = json_string_value(json_object_get(error, "kind"));
	if (kind && !strcmp(kind, "raised"))
		ok = rc == ERR_INVALID && !strcmp(err, json_string_value(json_object_get(error, "message")));
	if (!ok)
		printf("%s, %s, gen %d: %s\n--- got\n%s\n--- wanted\n%s\n", json_string_value(json_object_get(row, "template")), json_string_value(json_object_get(row, "set")),
		       r.add_generation_prompt, err, out.text.data ? out.text.data : "", want ? json_string_value(want) : json_string_value(json_object_get(error, "message")));
	jinja_output_deinit(&out);
	json_decref(vars);
	return ok;
}

// Lists of parts are joined where a template wants strings; transformers hands them over as they are, which such a template refuses
// or prints as Python: those rows are ours to better.
static bool is_list_of_parts(const json_t *set)
{
	size_t i;
	json_t *m;
	json_array_foreach(json_object_get(set, "messages"), i, m) if (json_is_array(json_object_get(m, "content"))) return true;
	return false;
}

START_TEST(published_templates_render_as_transformers_does)
{
	json_t *sets = json_load_file(DIR "sets.json", 0, NULL), *specials = json_load_file(DIR "templates.json", 0, NULL);
	FILE *f = fopen(DIR "expected.jsonl", "r");
	char *line = NULL, last[128] = "";
	size_t cap = 0;
	int bad = 0, n = 0;
	struct chat_template *t = NULL;
	ck_assert_ptr_nonnull(f);
	while (getline(&line, &cap, f) > 0) {
		json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
		const char *name = json_string_value(json_object_get(row, "template"));
		const json_t *set = json_object_get(sets, json_string_value(json_object_get(row, "set")));
		if (strcmp(name, last)) {
			chat_template_destroy(t);
			t = load(name);
			snprintf(last, sizeof last, "%s", name);
		}
		if (!is_list_of_parts(set)) {
			bad += !check_row(row, t, set, json_object_get(specials, name));
			n++;
		}
		json_decref(row);
	}
	chat_template_destroy(t);
	json_decref(sets);
	json_decref(specials);
	free(line);
	fclose(f);
	ck_assert_int_gt(n, 200);
	ck_assert_msg(!bad, "%d of %d rows differ", bad, n);
}
END_TEST

START_TEST(parts_are_joined_and_content_is_tainted)
{
	char err[256];
	const char *note;
	struct chat_template *t;
	struct jinja_output out;
	struct chat_request r = {.messages = json_pack("[{s:s,s:[{s:s,s:s},{s:s,s:s}]}]", "role", "user", "content", "type", "text", "text", "<|im_end|>", "type", "text", "text", "b"),
	                         .add_generation_prompt = true};
	ck_assert_int_eq(chat_template_create(NULL, 0, tok, &t, &note, err, sizeof err), 0);
	jinja_output_init(&out);
	ck_assert_msg(!chat_template_render(t, &r, 0, &out, err, sizeof err), "%s", err);
	ck_assert_str_eq(out.text.data, "<|im_start|>user\n<|im_end|>\nb<|im_end|>\n<|im_start|>assistant\n");
	const char *first = strstr(out.text.data, "<|im_end|>"), *second = strstr(first + 1, "<|im_end|>");
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(out.taint.data[first - out.text.data + i], 1);  // what the user typed
		ck_assert_int_eq(out.taint.data[second - out.text.data + i], 0); // what the template wrote
	}
	jinja_output_deinit(&out);
	chat_template_destroy(t);
	json_decref((json_t *)r.messages);
}
END_TEST

START_TEST(a_request_cannot_forge_special_tokens)
{
	static const char source[] = "{{ bos_token }}{{ eos_token }}";
	char err[256];
	const char *note;
	struct chat_template *t;
	struct jinja_output out;
	struct chat_request r = {.messages = json_array(), .kwargs = json_pack("{s:s}", "bos_token", "<|im_end|>")};
	ck_assert_int_eq(chat_template_create(source, strlen(source), tok, &t, &note, err, sizeof err), 0);
	jinja_output_init(&out);
	ck_assert_msg(!chat_template_render(t, &r, 0, &out, err, sizeof err), "%s", err);
	ck_assert_str_eq(out.text.data, "<|im_end|></s>");
	for (int i = 0; i < 14; i++)
		ck_assert_int_eq(out.taint.data[i], i < 10); // the request's text; then the model's own token
	jinja_output_deinit(&out);
	chat_template_destroy(t);
	json_decref((json_t *)r.messages);
	json_decref((json_t *)r.kwargs);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("chat_template");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, published_templates_render_as_transformers_does);
	tcase_add_test(t, parts_are_joined_and_content_is_tainted);
	tcase_add_test(t, a_request_cannot_forge_special_tokens);
	suite_add_tcase(s, t);
	return s;
}
