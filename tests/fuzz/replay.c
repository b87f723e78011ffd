// SPDX-License-Identifier: Apache-2.0
//
// The main of a fuzz target where there is no libFuzzer: runs it over the files and folders it is given. Every input is
// a block of its own on the heap, so that AddressSanitizer sees a read past its end.
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(size ? size : 1);
	int ok = f && data && fread(data, 1, size, f) == size;
	if (ok)
		LLVMFuzzerTestOneInput(data, size);
	else
		fprintf(stderr, "%s cannot be read\n", path);
	free(data);
	if (f)
		fclose(f);
	return ok ? 1 : -1;
}

// Returns the number of files run, or -1.
static int replay(const char *path)
{
	struct stat st;
	if (stat(path, &st)) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort), sum = n < 0 ? -1 : 0;
	for (int i = 0; i < n; i++) {
		char inner[4096];
		snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.' && sum >= 0) {
			int more = replay(inner);
			sum = more < 0 ? -1 : sum + more;
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return sum;
}

int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);
		if (n < 0)
			return EXIT_FAILURE;
		sum += n;
	}
	printf("%s: %d inputs\n", argv[0], sum);
	return sum ? EXIT_SUCCESS : EXIT_FAILURE; // a target without seeds is a mistake
}
