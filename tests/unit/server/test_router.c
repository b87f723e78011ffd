// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include "tests/unit/test.h"

#include <string.h>

static const char *normal(const char *url)
{
	static char out[64];
	router_normalise(url, out, sizeof out);
	return out;
}

START_TEST(test_normalise)
{
	ck_assert_str_eq(normal("/"), "/");
	ck_assert_str_eq(normal("//"), "/");
	ck_assert_str_eq(normal("/v1/models/"), "/v1/models");
	ck_assert_str_eq(normal("//v1///models//"), "/v1/models");
	ck_assert_str_eq(normal("http://host:80/health"), "/health");
	ck_assert_str_eq(normal("https://host"), "/");
	ck_assert_str_eq(normal("*"), "*");
	ck_assert_str_eq(normal("/http://x"), "/http:/x");
	char long_url[200];
	memset(long_url, 'a', sizeof long_url);
	long_url[sizeof long_url - 1] = 0;
	ck_assert_uint_eq(strlen(normal(long_url)), 63);
}
END_TEST

static const struct route *find(const char *path)
{
	const char *rest;
	return router_find(path, &rest);
}

START_TEST(test_find)
{
	ck_assert_ptr_nonnull(find("/v1/chat/completions"));
	ck_assert_ptr_eq(find("/chat/completions"), find("/v1/chat/completions"));
	ck_assert_ptr_eq(find("/models"), find("/v1/models"));
	ck_assert_ptr_null(find("/v1/health"));
	ck_assert_ptr_null(find("/v1/v1/models"));
	ck_assert_ptr_null(find("/v1"));
	ck_assert_ptr_null(find(""));
	ck_assert_ptr_null(find("/health/x"));
	ck_assert_ptr_null(find("/HEALTH"));
}
END_TEST

START_TEST(test_rest)
{
	const char *rest;
	ck_assert_ptr_nonnull(router_find("/v1/models/org/name", &rest));
	ck_assert_str_eq(rest, "org/name");
	ck_assert_ptr_nonnull(router_find("/models/x", &rest));
	ck_assert_str_eq(rest, "x");
}
END_TEST

START_TEST(test_methods)
{
	const struct route *get = find("/health"), *post = find("/tokenize");
	ck_assert(route_allows(get, "GET") && route_allows(get, "HEAD") && !route_allows(get, "POST"));
	ck_assert(route_allows(post, "POST") && !route_allows(post, "GET") && !route_allows(post, "HEAD"));
	ck_assert(!route_allows(post, "DELETE") && !route_allows(get, "get"));
	ck_assert_str_eq(route_methods(post), "POST, OPTIONS");
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("router");
	TCase *t = tcase_create("router");
	tcase_add_test(t, test_normalise);
	tcase_add_test(t, test_find);
	tcase_add_test(t, test_rest);
	tcase_add_test(t, test_methods);
	suite_add_tcase(s, t);
	return s;
}
