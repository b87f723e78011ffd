// SPDX-License-Identifier: Apache-2.0
#include "server/chat.h"

#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

static struct api_error e;

// The messages as the template sees them, as text; NULL with e filled.
static char *normal(const char *text, bool developer_known)
{
	struct limits l;
	limits_default(&l);
	l.max_messages = 3;
	e = (struct api_error){0};
	json_t *in = json_loads(text, JSON_DECODE_ANY, NULL), *before = json_deep_copy(in);
	json_t *out = chat_messages(in, &l, developer_known, &e);
	char *s = out ? json_dumps(out, JSON_COMPACT) : NULL;
	ck_assert(json_equal(in, before)); // the request itself is not changed
	json_decref(before);
	json_decref(in);
	json_decref(out);
	return s;
}

static void becomes(const char *in, const char *out)
{
	char *s = normal(in, false);
	ck_assert_msg(s != NULL, "%s: %s", in, e.message);
	ck_assert_str_eq(s, out);
	free(s);
}

START_TEST(test_roles)
{
	becomes("[{\"role\":\"developer\",\"content\":\"a\"}]", "[{\"role\":\"system\",\"content\":\"a\"}]");
	becomes("[{\"role\":\"function\",\"name\":\"f\",\"content\":\"a\"}]",
			"[{\"role\":\"tool\",\"name\":\"f\",\"content\":\"a\"}]");
	char *s = normal("[{\"role\":\"developer\",\"content\":\"a\"}]", true);
	ck_assert_str_eq(s, "[{\"role\":\"developer\",\"content\":\"a\"}]");
	free(s);
}
END_TEST

START_TEST(test_content)
{
	becomes("[{\"role\":\"assistant\",\"content\":null}]", "[{\"role\":\"assistant\",\"content\":\"\"}]");
	becomes("[{\"role\":\"tool\",\"content\":[]}]", "[{\"role\":\"tool\",\"content\":\"\"}]");
	becomes("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\",\"cache_control\":{}}]}]",
			"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]");
	becomes("[{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}]",
			"[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"no\"}]}]");
}
END_TEST

START_TEST(test_calls)
{
	becomes("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{"
			"\\\"a\\\":1}\"}}]}]",
			"[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":"
			"1}}}],\"content\":"
			"\"\"}]");
	becomes("[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{"
			"bad\"}}]}]",
			"[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{"
			"bad\"}}]}]");
	becomes("[{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[]}]",
			"[{\"role\":\"assistant\",\"content\":\"x\"}]");
}
END_TEST

START_TEST(test_refused)
{
	static const struct {
		const char *in, *param;
	} CASES[] = {
		{"[]", "messages"},
		{"\"a\"", "messages"},
		{"[1]", "messages[0].role"},
		{"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"x\",\"content\":\"a\"}]", "messages[1].role"},
		{"[{\"role\":\"user\"}]", "messages[0].content"},
		{"[{\"role\":\"user\",\"content\":{}}]", "messages[0].content"},
		{"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "messages[0].content"},
		{"[{\"role\":\"assistant\",\"tool_calls\":[{}]}]", "messages[0].tool_calls"},
		{"[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\",\"content\":"
		 "\"\"},"
		 "{\"role\":\"user\",\"content\":\"\"}]",
		 "messages"},
	};
	for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
		ck_assert_ptr_null(normal(CASES[i].in, false));
		ck_assert_int_eq(e.status, 400);
		ck_assert_str_eq(e.param, CASES[i].param);
	}
	ck_assert_ptr_null(normal("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", false));
	ck_assert_ptr_nonnull(strstr(e.message, "image_url"));
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("chat_messages");
	TCase *t = tcase_create("chat_messages");
	tcase_add_test(t, test_roles);
	tcase_add_test(t, test_content);
	tcase_add_test(t, test_calls);
	tcase_add_test(t, test_refused);
	suite_add_tcase(s, t);
	return s;
}
