// SPDX-License-Identifier: Apache-2.0
//
// A fuzz target is one file, tests/fuzz/fuzz_NAME.c, which defines the function below; its seeds lie in
// tests/fuzz/seeds/NAME/. `make fuzz` runs each under libFuzzer, `make fuzz-replay` runs each over its seeds alone,
// with any compiler. An input that once broke something joins the seeds.
#ifndef QUIRE_TESTS_FUZZ_H
#define QUIRE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// Feeds the bytes to the code under test and aborts where a promise is broken. Always returns 0.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
