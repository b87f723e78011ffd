// SPDX-License-Identifier: Apache-2.0
//
// Files: mapping them, finding the further parts of a split one, and the list of tensors. The bytes are read by
// gguf_parse.c; metadata is answered by gguf_keys.c.
#include "engine/model/gguf_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_file(struct gguf *g, const char *path, char *err, size_t len)
{
	// O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st)) {
		int rc = err_set(err, len, ERR_IO, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}
	int rc = 0;
	void *map = NULL;
	if (!S_ISREG(st.st_mode))
		rc = err_set(err, len, ERR_IO, "%s: not a regular file; a .gguf file is wanted", path);
	else if (st.st_size == 0)
		rc = err_set(err, len, ERR_INVALID, "%s: not a GGUF file: it is empty", path);
	else if ((map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
		rc = err_set(err, len, ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
	close(fd);
	if (!rc)
		g->parts[g->n_parts++] = (struct gguf_part){map, (size_t)st.st_size};
	return rc;
}

// The path of part i (from 0) of n, given that of any part, "…-0000I-of-0000N.gguf". False if `any` does not end so.
static bool part_path(const char *any, unsigned i, unsigned n, char out[PATH_MAX])
{
	static const char pattern[] = "-#####-of-#####.gguf";
	size_t tail = sizeof pattern - 1, stem = strlen(any);
	if (stem < tail)
		return false;
	stem -= tail;
	for (size_t k = 0; k < tail; k++) {
		char ch = any[stem + k];
		if (pattern[k] == '#' ? ch < '0' || ch > '9' : ch != pattern[k])
			return false;
	}
	return snprintf(out, PATH_MAX, "%.*s-%05u-of-%05u.gguf", (int)stem, any, i + 1, n) < PATH_MAX;
}

// What a file says about the split that it belongs to; an unsplit one is part 0 of 1.
static int read_split(const struct gguf_keys *keys, const char *path, unsigned *no, unsigned *count, char *err,
					  size_t len)
{
	uint64_t n = 1, i = 0;
	if (gguf__keys_u64(keys, "split.count", &n) < 0 || n > GGUF_MAX_PARTS)
		return err_set(err, len, ERR_INVALID, "%s: split.count must be a whole number up to %d", path, GGUF_MAX_PARTS);
	*count = n ? (unsigned)n : 1;
	if (gguf__keys_u64(keys, "split.no", &i) < 0 || i >= *count)
		return err_set(err, len, ERR_INVALID, "%s: split.no must be a whole number below split.count, which is %u",
					   path, *count);
	*no = (unsigned)i;
	return 0;
}

static int open_part(struct gguf *g, unsigned i, unsigned n, char *err, size_t len)
{
	char path[PATH_MAX];
	unsigned no, count;
	struct gguf_keys keys = {0};
	if (!part_path(g->path, i, n, path))
		return err_set(err, len, ERR_INVALID, "%s: split.count is %u, so the file must be called …-00001-of-%05u.gguf",
					   g->path, n, n);
	int rc = map_file(g, path, err, len);
	if (!rc) {
		const struct gguf_part *p = &g->parts[i];
		rc = gguf__parse(g, &keys, path, p->map, p->size, err, len);
	}
	if (!rc)
		rc = read_split(&keys, path, &no, &count, err, len);
	if (!rc && (no != i || count != n))
		rc = err_set(err, len, ERR_INVALID, "%s: split.no is %u and split.count %u; part %u of %s must have %u and %u",
					 path, no, count, i + 1, g->path, i, n);
	gguf__keys_deinit(&keys);
	return rc;
}

static int open_parts(struct gguf *g, char *err, size_t len)
{
	char first[PATH_MAX];
	unsigned no, n;
	uint64_t total;
	int rc = read_split(&g->keys, g->path, &no, &n, err, len);
	if (!rc && no)
		rc = err_set(err, len, ERR_INVALID, "%s: part %u of %u of a split model; open the first part, %s", g->path,
					 no + 1, n, part_path(g->path, 0, n, first) ? first : "whose split.no is 0");
	for (unsigned i = 1; i < n && !rc; i++)
		rc = open_part(g, i, n, err, len);
	if (rc || n == 1)
		return rc;
	int has = gguf_get_u64(g, "split.tensors.count", &total);
	if (has < 0 || (has && total != g->n_tensors))
		return err_set(err, len, ERR_INVALID, "%s: split.tensors.count is not what its %u parts hold, %zu tensors",
					   g->path, n, g->n_tensors);
	return 0;
}

static struct gguf_str tensor_name(const void *tensors, uint32_t i)
{
	const char *s = ((const struct gguf_tensor *)tensors)[i].name;
	return (struct gguf_str){s, strlen(s)};
}

static int index_tensors(struct gguf *g, char *err, size_t len)
{
	gguf__table_init(&g->tensor_table, g->n_tensors);
	for (size_t i = 0; i < g->n_tensors; i++)
		if (!gguf__table_add(&g->tensor_table, tensor_name(g->tensors, (uint32_t)i), (uint32_t)i, tensor_name,
							 g->tensors))
			return err_set(err, len, ERR_INVALID, "%s: two tensors are called %s", g->path, g->tensors[i].name);
	return 0;
}

static int finish(struct gguf *g, int rc, struct gguf **out, char *err, size_t len)
{
	if (!rc)
		rc = index_tensors(g, err, len);
	if (rc) {
		gguf_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

int gguf__open_memory(const char *name, const void *data, size_t size, struct gguf **out, char *err, size_t len)
{
	struct gguf *g = mem_zalloc(1, sizeof *g);
	*out = NULL;
	g->path = mem_strdup(name);
	g->parts[g->n_parts++] = (struct gguf_part){NULL, size};
	return finish(g, gguf__parse(g, &g->keys, name, data, size, err, len), out, err, len);
}

int gguf_open(const char *path, struct gguf **out, char *err, size_t len)
{
	struct gguf *g = mem_zalloc(1, sizeof *g);
	*out = NULL;
	g->path = mem_strdup(path);
	int rc = map_file(g, path, err, len);
	if (!rc)
		rc = gguf__parse(g, &g->keys, path, g->parts[0].map, g->parts[0].size, err, len);
	if (!rc)
		rc = open_parts(g, err, len);
	return finish(g, rc, out, err, len);
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_tensors; i++)
		free((char *)g->tensors[i].name);
	free(g->tensors);
	free(g->tensor_table.slot);
	gguf__keys_deinit(&g->keys);
	for (unsigned i = 0; i < g->n_parts; i++)
		if (g->parts[i].map)
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
	int64_t i = gguf__table_find(&g->tensor_table, name, tensor_name, g->tensors);
	return i < 0 ? NULL : &g->tensors[i];
}

void gguf_drop_pages(const struct gguf *g, const struct gguf_tensor *t)
{
	if (!g->parts[0].map)
		return; // the caller's memory, which the kernel could not read back
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)t->data & ~(page - 1);
	uintptr_t to = ((uintptr_t)t->data + t->bytes) & ~(page - 1);
	// Advice only: a neighbour that shares a page reads it from the file again.
	if (to > from)
		(void)madvise((void *)from, to - from, MADV_DONTNEED); // NOLINT: addresses of a mapping
}
