// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/model/gguf_walk.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"
#include "engine/model/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t walk_array(const struct gguf_array *a)
{
	uint64_t sum = a->n;
	for (size_t i = 0; i < a->n; i++) {
		if (a->type == GGUF_STRING) {
			struct gguf_str s = gguf_array_str(a, i);
			sum += hash_bytes(0, s.data, s.len);
			continue;
		}
		if (a->type != GGUF_F32 && a->type != GGUF_F64)
			sum += (uint64_t)gguf_array_i64(a, i);
		sum += gguf_array_f64(a, i) > 0;
	}
	return sum;
}

static uint64_t walk_key(const struct gguf *g, struct gguf_str name)
{
	uint64_t sum = 0, u = 0;
	double d = 0;
	bool b = false;
	struct gguf_str s = {0};
	struct gguf_array a = {0};
	char *key = mem_strndup(name.data, name.len);
	int found = 0;
	found += gguf_get_u64(g, key, &u) == 1;
	found += gguf_get_f64(g, key, &d) == 1;
	found += gguf_get_bool(g, key, &b) == 1;
	if (gguf_get_str(g, key, &s) == 1)
		sum += hash_bytes(0, s.data, s.len) + (uint64_t)found++;
	if (gguf_get_array(g, key, &a) == 1)
		sum += walk_array(&a) + (uint64_t)found++;
	CHECK(found || strlen(key) < name.len, "%s is found as no type", key); // a name with a NUL cannot be asked for
	free(key);
	return sum + u + (d > 0) + b;
}

static uint64_t walk_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
	size_t bytes = 0;
	CHECK(dtype_row_bytes(t->type, t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3], &bytes) && bytes == t->bytes, "%s",
		  t->name);
	CHECK(t->n_dims >= 1 && t->n_dims <= 4 && t->bytes > 0 && (uintptr_t)t->data % 8 == 0, "%s", t->name);
	for (unsigned i = 0; i < 4; i++)
		CHECK(t->dim[i] >= 1 && (i < t->n_dims || t->dim[i] == 1), "%s", t->name);
	CHECK(gguf_find_tensor(g, t->name) == t, "%s", t->name);
	const uint8_t *p = t->data;
	return (uint64_t)p[0] + p[t->bytes - 1];
}

uint64_t gguf_walk(const struct gguf *g)
{
	uint64_t sum = 0, all = 0;
	for (size_t i = 0; i < g->keys.n; i++)
		sum += walk_key(g, g->keys.item[i].name);
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		sum += walk_tensor(g, t);
		all += t->bytes;
	}
	CHECK(all <= gguf_file_bytes(g), "tensors of %zu bytes in a file of %zu", (size_t)all, gguf_file_bytes(g));
	return sum;
}
