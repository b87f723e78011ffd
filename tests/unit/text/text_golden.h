// SPDX-License-Identifier: Apache-2.0
//
// What the tests of engine/text share: golden files of JSON lines, vocabularies, and how long a thing may take.
#ifndef QUIRE_TESTS_TEXT_GOLDEN_H
#define QUIRE_TESTS_TEXT_GOLDEN_H

#include <jansson.h>

struct tokenizer;

// Seconds of computing that a megabyte may cost; sanitizers multiply time, so they are not judged by it.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define TIME_LIMIT 600
#else
#define TIME_LIMIT 1
#endif

// Time that this thread has computed, whatever else the machine does.
double cpu_seconds(void);

// All lines of tests/golden/text/NAME as one array.
json_t *golden_lines(const char *name);

// A whole file, terminated; free it.
char *golden_file(const char *path);

// The tokenizer of a GGUF file; one whose name ends in .xz is unpacked first.
struct tokenizer *golden_tokenizer(const char *path);

#endif
