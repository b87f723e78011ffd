// SPDX-License-Identifier: Apache-2.0
//
// What every unit test includes. The working folder is the repository root: golden data is tests/golden/….
#ifndef QUIRE_TESTS_TEST_H
#define QUIRE_TESTS_TEST_H

#include <check.h>

Suite *test_suite(void);

#endif
