// SPDX-License-Identifier: Apache-2.0
//
// The main of every unit test program: a test file defines test_suite(). Check forks a process for each test, with a
// time-out, so a crash or a hang is one failed test (CK_FORK=no for a debugger).
#include "tests/unit/test.h"

#include <stdlib.h>

int main(void)
{
	SRunner *r = srunner_create(test_suite());
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
