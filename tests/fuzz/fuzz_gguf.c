// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a GGUF file in memory: refused in one line, or every answer about it keeps the header's promises.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf_internal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/model/gguf_walk.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char err[512] = "";
	struct gguf *g;
	// A copy, since libFuzzer's block need not be aligned as a mapping is.
	void *copy = mem_alloc(size);
	memcpy(copy, data, size);
	if (gguf__open_memory("f.gguf", copy, size, &g, err, sizeof err) < 0)
		CHECK(!g && !strncmp(err, "f.gguf: ", 8) && err[8] && !strchr(err, '\n'), "%s", err);
	else
		gguf_walk(g);
	gguf_close(g);
	free(copy);
	return 0;
}
