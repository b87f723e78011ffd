// SPDX-License-Identifier: Apache-2.0
//
// Who may: API keys and origins.
#include "server/auth.h"
#include "server/cors.h"
#include "tests/unit/test.h"

START_TEST(test_keys)
{
	static const char *const KEYS[] = {"alpha", "beta-which-is-long"};
	struct auth a = {KEYS, 2, NULL};
	ck_assert(auth_check(&a, "Bearer alpha", NULL));
	ck_assert(auth_check(&a, "bearer   beta-which-is-long", NULL));
	ck_assert(auth_check(&a, NULL, "beta-which-is-long"));
	ck_assert(auth_check(&a, "Bearer no", "alpha"));
	static const char *const WRONG[] = {"",
										"alpha",
										"Bearer",
										"Bearer ",
										"Bearer alph",
										"Basic alpha",
										"Bearer alphaa",
										"Bearer alphaalpha",
										"Bearer Alpha",
										"Beareralpha"};
	for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
		ck_assert_msg(!auth_check(&a, WRONG[i], NULL), "%s", WRONG[i]);
	ck_assert(!auth_check(&a, NULL, NULL));
	ck_assert(!auth_check(&a, NULL, "beta-which-is-lonG"));
	ck_assert(!auth_check(&a, NULL, "Bearer alpha"));
}
END_TEST

START_TEST(test_admin_and_no_keys)
{
	struct auth open = {NULL, 0, NULL}, admin = {NULL, 0, "root"};
	ck_assert(!auth_needed(&open) && auth_check(&open, NULL, NULL) && auth_check(&open, "Bearer undefined", NULL));
	ck_assert(auth_needed(&admin) && auth_check(&admin, "Bearer root", NULL) && !auth_check(&admin, NULL, NULL));
	static const char *const EMPTY[] = {""};
	struct auth empty = {EMPTY, 1, NULL};
	ck_assert(!auth_check(&empty, "Bearer ", "")); // an empty key opens nothing
}
END_TEST

START_TEST(test_loopback_origins)
{
	static const char *const GOOD[] = {"http://localhost", "https://localhost:1", "http://127.0.0.1:65535",
									   "http://[::1]", "https://[::1]:8080"};
	static const char *const BAD[] = {"",
									  "null",
									  "localhost",
									  "http://localhost.evil.com",
									  "http://localhost:",
									  "http://localhost:a",
									  "http://localhost:123456",
									  "http://localhost/",
									  "http://a@localhost",
									  "ftp://localhost",
									  "http://127.0.0.1.x",
									  "http://127.0.0.11",
									  "http://::1",
									  "HTTP://localhost:80 "};
	for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++)
		ck_assert_msg(cors_is_loopback(GOOD[i]), "%s", GOOD[i]);
	for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
		ck_assert_msg(!cors_is_loopback(BAD[i]), "%s", BAD[i]);
}
END_TEST

START_TEST(test_listed_origins)
{
	static const char *const LIST[] = {"https://a.example"}, *const STAR[] = {"https://a.example", "*"};
	struct cors listed = {LIST, 1}, star = {STAR, 2};
	ck_assert_str_eq(cors_allow(&listed, "https://a.example"), "https://a.example");
	ck_assert_ptr_null(cors_allow(&listed, "https://a.example.org"));
	ck_assert_ptr_null(cors_allow(&listed, NULL));
	ck_assert_str_eq(cors_allow(&listed, "http://localhost:3"), "http://localhost:3");
	ck_assert_str_eq(cors_allow(&star, "https://b.example"), "*");
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("access");
	TCase *t = tcase_create("access");
	tcase_add_test(t, test_keys);
	tcase_add_test(t, test_admin_and_no_keys);
	tcase_add_test(t, test_loopback_origins);
	tcase_add_test(t, test_listed_origins);
	suite_add_tcase(s, t);
	return s;
}
