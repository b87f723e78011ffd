// SPDX-License-Identifier: Apache-2.0
//
// Files and look-ups: mapping, split parts, the tables of keys and tensors. The bytes are read by gguf_parse.c.
#include "engine/model/gguf_internal.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void table_init(struct gguf_table *t, size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	t->mask = size - 1;
	t->slot = mem_zalloc(size, sizeof *t->slot);
}

bool gguf__table_add(struct gguf_table *t, const char *name, size_t len, uint32_t index, gguf_name_fn *name_of, const void *ctx)
{
	for (size_t i = hash_bytes(0, name, len) & t->mask;; i = (i + 1) & t->mask) {
		if (!t->slot[i]) {
			t->slot[i] = index + 1;
			return true;
		}
		struct gguf_str other = name_of(ctx, t->slot[i] - 1);
		if (other.len == len && !memcmp(other.data, name, len))
			return false;
	}
}

static int64_t table_find(const struct gguf_table *t, const char *name, size_t len, gguf_name_fn *name_of, const void *ctx)
{
	if (!t->slot)
		return -1;
	for (size_t i = hash_bytes(0, name, len) & t->mask; t->slot[i]; i = (i + 1) & t->mask) {
		struct gguf_str other = name_of(ctx, t->slot[i] - 1);
		if (other.len == len && !memcmp(other.data, name, len))
			return t->slot[i] - 1;
	}
	return -1;
}

struct gguf_str gguf__key_name(const void *ctx, uint32_t i)
{
	return ((const struct gguf *)ctx)->keys[i].name;
}

struct gguf_str gguf__tensor_name(const void *ctx, uint32_t i)
{
	const char *s = ((const struct gguf *)ctx)->tensors[i].name;
	return (struct gguf_str){s, strlen(s)};
}

static int map_file(struct gguf_part *p, const char *path, char *err, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return err_set(err, len, ERR_IO, "%s: %s", path, strerror(errno));
	int rc = fstat(fd, &st) ? err_set(err, len, ERR_IO, "%s: %s", path, strerror(errno)) : 0;
	if (!rc && !S_ISREG(st.st_mode))
		rc = err_set(err, len, ERR_IO, "%s: not a regular file; a .gguf file is wanted", path);
	if (!rc && st.st_size < 24)
		rc = err_set(err, len, ERR_INVALID, "%s: %lld bytes are too few for a GGUF header", path, (long long)st.st_size);
	void *map = rc ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (!rc && map == MAP_FAILED)
		rc = err_set(err, len, ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
	close(fd);
	if (rc)
		return rc;
	p->map = map;
	p->size = (size_t)st.st_size;
	return 0;
}

// The path of part i of n, from the first part's path "…-00001-of-0000N.gguf"; false if the path has no such ending.
static bool part_path(const char *first, unsigned i, unsigned n, char *out, size_t len)
{
	size_t stem = strlen(first), tail = strlen("-00001-of-00001.gguf");
	if (stem < tail)
		return false;
	stem -= tail;
	char want[32];
	snprintf(want, sizeof want, "-00001-of-%05u.gguf", n);
	if (strcmp(first + stem, want))
		return false;
	return snprintf(out, len, "%.*s-%05u-of-%05u.gguf", (int)stem, first, i + 1, n) < (int)len;
}

static int open_parts(struct gguf *g, char *err, size_t len)
{
	uint64_t n = 1, no = 0;
	char path[4096];
	if (gguf_get_u64(g, "split.count", &n) < 0 || gguf_get_u64(g, "split.no", &no) < 0 || n > GGUF_MAX_PARTS)
		return err_set(err, len, ERR_INVALID, "%s: split.count and split.no must be numbers, at most %d parts", g->path, GGUF_MAX_PARTS);
	if (n <= 1)
		return 0;
	if (no != 0)
		return err_set(err, len, ERR_INVALID, "%s: part %llu of a split model; open the first part, …-00001-of-%05llu.gguf",
		               g->path, (unsigned long long)no + 1, (unsigned long long)n);
	for (unsigned i = 1; i < n; i++) {
		if (!part_path(g->path, i, (unsigned)n, path, sizeof path))
			return err_set(err, len, ERR_INVALID, "%s: a split model's first part must be named …-00001-of-%05llu.gguf", g->path,
			               (unsigned long long)n);
		struct gguf_part *p = &g->parts[g->n_parts];
		int rc = map_file(p, path, err, len);
		if (rc)
			return rc;
		g->n_parts++;
		rc = gguf__parse(g, path, p->map, p->size, false, err, len);
		if (rc)
			return rc;
	}
	uint64_t total;
	if (gguf_get_u64(g, "split.tensors.count", &total) > 0 && total != g->n_tensors)
		return err_set(err, len, ERR_INVALID, "%s: split.tensors.count says %llu tensors, the parts hold %zu", g->path,
		               (unsigned long long)total, g->n_tensors);
	return 0;
}

static int index_tensors(struct gguf *g, char *err, size_t len)
{
	table_init(&g->tensor_table, g->n_tensors);
	for (size_t i = 0; i < g->n_tensors; i++) {
		const char *name = g->tensors[i].name;
		if (!gguf__table_add(&g->tensor_table, name, strlen(name), (uint32_t)i, gguf__tensor_name, g))
			return err_set(err, len, ERR_INVALID, "%s: two tensors are called %s", g->path, name);
	}
	return 0;
}

int gguf__open_memory(const char *name, const void *data, size_t size, struct gguf **out, char *err, size_t len)
{
	struct gguf *g = mem_zalloc(1, sizeof *g);
	*out = NULL;
	g->path = mem_strdup(name);
	int rc = gguf__parse(g, name, data, size, true, err, len);
	if (!rc)
		rc = index_tensors(g, err, len);
	if (rc) {
		gguf_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

int gguf_open(const char *path, struct gguf **out, char *err, size_t len)
{
	struct gguf *g = mem_zalloc(1, sizeof *g);
	*out = NULL;
	g->path = mem_strdup(path);
	int rc = map_file(&g->parts[0], path, err, len);
	if (!rc) {
		g->n_parts = 1;
		rc = gguf__parse(g, path, g->parts[0].map, g->parts[0].size, true, err, len);
	}
	if (!rc)
		rc = open_parts(g, err, len);
	if (!rc)
		rc = index_tensors(g, err, len);
	if (rc) {
		gguf_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_tensors; i++)
		free((char *)g->tensors[i].name);
	for (size_t i = 0; i < g->n_keys; i++)
		free(g->keys[i].strings);
	free(g->tensors);
	free(g->keys);
	free(g->key_table.slot);
	free(g->tensor_table.slot);
	for (unsigned i = 0; i < g->n_parts; i++)
		munmap(g->parts[i].map, g->parts[i].size);
	free(g->path);
	free(g);
}

const char *gguf_path(const struct gguf *g)
{
	return g->path;
}

size_t gguf_file_bytes(const struct gguf *g)
{
	size_t n = 0;
	for (unsigned i = 0; i < g->n_parts; i++)
		n += g->parts[i].size;
	return n;
}

size_t gguf_n_tensors(const struct gguf *g)
{
	return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
	CHECK(i < g->n_tensors, "%zu of %zu", i, g->n_tensors);
	return &g->tensors[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
	int64_t i = table_find(&g->tensor_table, name, strlen(name), gguf__tensor_name, g);
	return i < 0 ? NULL : &g->tensors[i];
}

static const struct gguf_key *find_key(const struct gguf *g, const char *key)
{
	int64_t i = table_find(&g->key_table, key, strlen(key), gguf__key_name, g);
	return i < 0 ? NULL : &g->keys[i];
}

static bool is_integer(enum gguf_type t)
{
	return t != GGUF_F32 && t != GGUF_F64 && t != GGUF_STRING && t != GGUF_ARRAY && t != GGUF_BOOL;
}

static int64_t read_integer(enum gguf_type type, const void *p)
{
	union {
		uint8_t u8;
		int8_t i8;
		uint16_t u16;
		int16_t i16;
		uint32_t u32;
		int32_t i32;
		int64_t i64;
	} v;
	memset(&v, 0, sizeof v);
	memcpy(&v, p, gguf__type_size(type));
	switch (type) {
	case GGUF_U8: case GGUF_BOOL: return v.u8;
	case GGUF_I8: return v.i8;
	case GGUF_U16: return v.u16;
	case GGUF_I16: return v.i16;
	case GGUF_U32: return v.u32;
	case GGUF_I32: return v.i32;
	default: return v.i64;
	}
}

static double read_number(enum gguf_type type, const void *p)
{
	float f;
	double d;
	if (type == GGUF_F32) {
		memcpy(&f, p, sizeof f);
		return (double)f;
	}
	if (type == GGUF_F64) {
		memcpy(&d, p, sizeof d);
		return d;
	}
	return (double)read_integer(type, p);
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out)
{
	const struct gguf_key *k = find_key(g, key);
	if (!k)
		return 0;
	if (!is_integer(k->type))
		return ERR_INVALID;
	int64_t v = read_integer(k->type, k->value);
	if (v < 0) // also a u64 past 2^63: no size that this program knows is so large
		return ERR_INVALID;
	*out = (uint64_t)v;
	return 1;
}

int gguf_get_f64(const struct gguf *g, const char *key, double *out)
{
	const struct gguf_key *k = find_key(g, key);
	if (!k)
		return 0;
	if (!is_integer(k->type) && k->type != GGUF_F32 && k->type != GGUF_F64)
		return ERR_INVALID;
	*out = read_number(k->type, k->value);
	return 1;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_key *k = find_key(g, key);
	if (!k)
		return 0;
	if (k->type != GGUF_BOOL)
		return ERR_INVALID;
	*out = *(const uint8_t *)k->value != 0;
	return 1;
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out)
{
	const struct gguf_key *k = find_key(g, key);
	if (!k)
		return 0;
	if (k->type != GGUF_STRING)
		return ERR_INVALID;
	*out = (struct gguf_str){k->value, k->n};
	return 1;
}

int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out)
{
	const struct gguf_key *k = find_key(g, key);
	if (!k)
		return 0;
	if (k->type != GGUF_ARRAY)
		return ERR_INVALID;
	*out = (struct gguf_array){k->item, k->n, k->item == GGUF_STRING ? (const void *)k->strings : k->value};
	return 1;
}

struct gguf_str gguf_array_str(const struct gguf_array *a, size_t i)
{
	CHECK(a->type == GGUF_STRING && i < a->n, "type %d, %zu of %zu", (int)a->type, i, a->n);
	return ((const struct gguf_str *)a->priv)[i];
}

int64_t gguf_array_i64(const struct gguf_array *a, size_t i)
{
	CHECK((is_integer(a->type) || a->type == GGUF_BOOL) && i < a->n, "type %d, %zu of %zu", (int)a->type, i, a->n);
	return read_integer(a->type, (const char *)a->priv + i * gguf__type_size(a->type));
}

double gguf_array_f64(const struct gguf_array *a, size_t i)
{
	CHECK(a->type != GGUF_STRING && i < a->n, "type %d, %zu of %zu", (int)a->type, i, a->n);
	return read_number(a->type, (const char *)a->priv + i * gguf__type_size(a->type));
}

void gguf_drop_pages(const struct gguf *g, const struct gguf_tensor *t)
{
	(void)g;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)t->data & ~(page - 1);
	uintptr_t to = ((uintptr_t)t->data + t->bytes) & ~(page - 1);
	// Advice only: a neighbour that shares a page reads it from the file again.
	if (to > from)
		(void)madvise((void *)from, to - from, MADV_DONTNEED); // NOLINT: addresses of a mapping
}
