// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/text/text_golden.h"

#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

json_t *golden_lines(const char *name)
{
	char path[256], *line = NULL;
	size_t cap = 0;
	json_t *all = json_array();
	snprintf(path, sizeof path, "tests/golden/text/%s", name);
	FILE *f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s cannot be read", path);
	while (getline(&line, &cap, f) > 0) {
		json_t *one = json_loads(line, JSON_ALLOW_NUL, NULL);
		ck_assert_msg(one != NULL, "%s: line %zu is not JSON", path, json_array_size(all) + 1);
		json_array_append_new(all, one);
	}
	free(line);
	fclose(f);
	return all;
}

char *golden_file(const char *path)
{
	char *s = NULL;
	size_t cap = 0;
	FILE *f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s cannot be read", path);
	ck_assert_int_ge(getdelim(&s, &cap, 0, f), 0);
	fclose(f);
	return s;
}

struct tokenizer *golden_tokenizer(const char *path)
{
	char unpacked[] = "/tmp/quire-vocab-XXXXXX", command[512], err[4096];
	struct gguf *g;
	struct tokenizer *t;
	bool packed = strlen(path) > 3 && !strcmp(path + strlen(path) - 3, ".xz");
	if (packed) {
		close(mkstemp(unpacked));
		snprintf(command, sizeof command, "xz -dc %s > %s", path, unpacked);
		ck_assert_int_eq(system(command), 0);
	}
	ck_assert_msg(!gguf_open(packed ? unpacked : path, &g, err, sizeof err), "%s", err);
	ck_assert_msg(!tokenizer_from_gguf(g, &t, err, sizeof err), "%s", err);
	gguf_close(g);
	if (packed)
		unlink(unpacked);
	return t;
}
