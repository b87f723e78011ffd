// SPDX-License-Identifier: Apache-2.0
//
// A cursor over the bytes of one file. Every read checks what is left first; every count is checked against the smallest
// size that so many items could have, before anything is allocated for them.
#include "engine/model/gguf_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct cursor {
	const char *name;        // of the file, for messages
	const uint8_t *p, *end, *base;
	char *err;
	size_t len;
};

#define FAIL(c, code, ...) err_set((c)->err, (c)->len, code, __VA_ARGS__)

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

static bool take(struct cursor *c, void *out, size_t n)
{
	if (left(c) < n)
		return false;
	memcpy(out, c->p, n);
	c->p += n;
	return true;
}

static int truncated(const struct cursor *c, const char *what)
{
	return FAIL(c, ERR_INVALID, "%s: the file ends inside %s, at byte %zu", c->name, what, (size_t)(c->end - c->base));
}

static int take_string(struct cursor *c, struct gguf_str *out, uint64_t max, const char *what)
{
	uint64_t n;
	if (!take(c, &n, sizeof n))
		return truncated(c, what);
	if (n > left(c))
		return FAIL(c, ERR_INVALID, "%s: %s claims %llu bytes, %zu are left in the file", c->name, what, (unsigned long long)n, left(c));
	if (n > max)
		return FAIL(c, ERR_LIMIT, "%s: %s has %llu bytes, at most %llu are allowed", c->name, what, (unsigned long long)n,
		            (unsigned long long)max);
	*out = (struct gguf_str){(const char *)c->p, (size_t)n};
	c->p += n;
	return 0;
}

size_t gguf__type_size(enum gguf_type t)
{
	static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
	return size[t];
}

static int take_array(struct cursor *c, struct gguf_key *k, const char *key)
{
	uint32_t item;
	uint64_t n;
	if (!take(c, &item, sizeof item) || !take(c, &n, sizeof n))
		return truncated(c, key);
	if (item > GGUF_F64 || item == GGUF_ARRAY)
		return FAIL(c, ERR_INVALID, "%s: %s is an array of type %u; scalars and strings are allowed", c->name, key, item);
	size_t each = item == GGUF_STRING ? 8 : gguf__type_size((enum gguf_type)item);
	if (n > left(c) / each)
		return FAIL(c, ERR_INVALID, "%s: %s claims %llu elements, %zu bytes are left in the file", c->name, key,
		            (unsigned long long)n, left(c));
	k->item = (enum gguf_type)item;
	k->n = (size_t)n;
	k->value = c->p;
	if (item != GGUF_STRING) {
		c->p += n * each;
		return 0;
	}
	k->strings = mem_zalloc((size_t)n, sizeof *k->strings); // twice the eight bytes that each costs in the file
	for (size_t i = 0; i < n; i++) {
		int rc = take_string(c, &k->strings[i], UINT64_MAX, key);
		if (rc)
			return rc;
	}
	return 0;
}

static int take_value(struct cursor *c, struct gguf_key *k, const char *key)
{
	uint32_t type;
	if (!take(c, &type, sizeof type))
		return truncated(c, key);
	if (type > GGUF_F64)
		return FAIL(c, ERR_INVALID, "%s: %s has the unknown value type %u", c->name, key, type);
	k->type = (enum gguf_type)type;
	if (type == GGUF_ARRAY)
		return take_array(c, k, key);
	if (type == GGUF_STRING) {
		struct gguf_str s;
		int rc = take_string(c, &s, UINT64_MAX, key);
		k->value = s.data;
		k->n = s.len;
		return rc;
	}
	size_t size = gguf__type_size(k->type);
	if (left(c) < size)
		return truncated(c, key);
	k->value = c->p;
	k->n = 1;
	c->p += size;
	return 0;
}

// A copy that is fit for a message: terminated, cut, without control characters.
static void printable(struct gguf_str s, char out[80])
{
	size_t n = s.len < 76 ? s.len : 76;
	for (size_t i = 0; i < n; i++)
		out[i] = s.data[i] < 0x20 || s.data[i] == 0x7F ? '?' : s.data[i];
	out[utf8_whole(out, n)] = 0;
}

static int take_keys(struct cursor *c, struct gguf *g, size_t n)
{
	g->keys = mem_zalloc(n, sizeof *g->keys);
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	g->key_table.mask = size - 1;
	g->key_table.slot = mem_zalloc(size, sizeof *g->key_table.slot);
	for (size_t i = 0; i < n; i++) {
		struct gguf_key *k = &g->keys[i];
		char key[80];
		int rc = take_string(c, &k->name, GGUF_MAX_KEY, "a key");
		if (rc)
			return rc;
		printable(k->name, key);
		if (!k->name.len)
			return FAIL(c, ERR_INVALID, "%s: key %zu is empty", c->name, i);
		g->n_keys = i + 1; // from here on gguf_close frees what take_value allocates
		rc = take_value(c, k, key);
		if (rc)
			return rc;
		if (!gguf__table_add(&g->key_table, k->name.data, k->name.len, (uint32_t)i, gguf__key_name, g))
			return FAIL(c, ERR_INVALID, "%s: the key %s stands there twice", c->name, key);
	}
	return 0;
}

// The keys of a later part say nothing that the first part does not: they are checked and passed over.
static int skip_keys(struct cursor *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct gguf_key k = {0};
		int rc = take_string(c, &k.name, GGUF_MAX_KEY, "a key");
		if (!rc)
			rc = take_value(c, &k, "a key of a later part");
		free(k.strings);
		if (rc)
			return rc;
	}
	return 0;
}

static int take_dims(struct cursor *c, struct gguf_tensor *t, uint64_t *elements)
{
	uint32_t n;
	if (!take(c, &n, sizeof n))
		return truncated(c, t->name);
	if (n < 1 || n > 4)
		return FAIL(c, ERR_INVALID, "%s: tensor %s has %u dimensions, 1 to 4 are allowed", c->name, t->name, n);
	t->n_dims = n;
	*elements = 1;
	for (unsigned i = 0; i < 4; i++)
		t->dim[i] = 1;
	for (unsigned i = 0; i < n; i++) {
		if (!take(c, &t->dim[i], sizeof t->dim[i]))
			return truncated(c, t->name);
		if (t->dim[i] < 1 || t->dim[i] > INT64_MAX || __builtin_mul_overflow(*elements, t->dim[i], elements) ||
		    *elements > INT64_MAX)
			return FAIL(c, ERR_INVALID, "%s: tensor %s: dimension %u of %llu is zero or makes the size overflow", c->name, t->name,
			            i, (unsigned long long)t->dim[i]);
	}
	return 0;
}

static int check_type(struct cursor *c, struct gguf_tensor *t, uint32_t type)
{
	const char *name = dtype_name(type);
	if (!dtype_info(type)) {
		if (!name)
			return FAIL(c, ERR_INVALID, "%s: tensor %s has the unknown type number %u", c->name, t->name, type);
		return FAIL(c, ERR_UNSUPPORTED,
		            "%s: tensor %s is %s, which this build cannot read; known: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K",
		            c->name, t->name, name);
	}
	t->type = (enum dtype)type;
	if (t->dim[0] % dtype_info(type)->block)
		return FAIL(c, ERR_INVALID, "%s: tensor %s: rows of %llu values are no multiple of %s's block of %u", c->name, t->name,
		            (unsigned long long)t->dim[0], name, dtype_info(type)->block);
	return 0;
}

// One tensor's description. Its offset is kept in `data` until the data section's start is known.
static int take_tensor(struct cursor *c, struct gguf_tensor *t, uint64_t *offset)
{
	struct gguf_str name;
	uint64_t elements = 0;
	uint32_t type;
	int rc = take_string(c, &name, GGUF_MAX_NAME, "a tensor's name");
	if (rc)
		return rc;
	if (!name.len || memchr(name.data, 0, name.len))
		return FAIL(c, ERR_INVALID, "%s: a tensor's name is empty or has a NUL", c->name);
	t->name = mem_strndup(name.data, name.len);
	rc = take_dims(c, t, &elements);
	if (rc)
		return rc;
	if (!take(c, &type, sizeof type) || !take(c, offset, sizeof *offset))
		return truncated(c, t->name);
	rc = check_type(c, t, type);
	if (!rc && !dtype_row_bytes(type, elements, &t->bytes))
		rc = FAIL(c, ERR_INVALID, "%s: tensor %s: its size overflows", c->name, t->name);
	return rc;
}

static int place(struct cursor *c, struct gguf_tensor *t, uint64_t offset, size_t start, uint64_t align)
{
	size_t size = (size_t)(c->end - c->base), from, to;
	if (offset % align)
		return FAIL(c, ERR_INVALID, "%s: tensor %s: offset %llu is no multiple of the alignment %llu", c->name, t->name,
		            (unsigned long long)offset, (unsigned long long)align);
	if (!mem_add(start, offset, &from) || !mem_add(from, t->bytes, &to) || to > size)
		return FAIL(c, ERR_INVALID, "%s: tensor %s needs bytes up to %llu past offset %llu, the file has %zu: it is truncated", c->name,
		            t->name, (unsigned long long)t->bytes, (unsigned long long)offset, size);
	t->data = c->base + from;
	return 0;
}

static int alignment(struct cursor *c, const struct gguf *g, uint64_t *align)
{
	*align = 32;
	if (gguf_get_u64(g, "general.alignment", align) < 0 || *align < 1 || *align > GGUF_MAX_ALIGN || (*align & (*align - 1)))
		return FAIL(c, ERR_INVALID, "%s: general.alignment must be a power of two up to %d", c->name, GGUF_MAX_ALIGN);
	return 0;
}

static int take_tensors(struct cursor *c, struct gguf *g, size_t n)
{
	uint64_t align, *offsets = mem_zalloc(n, sizeof *offsets);
	size_t old = g->n_tensors, start = 0;
	int rc = alignment(c, g, &align);
	g->tensors = mem_realloc(g->tensors, (old + n) * sizeof *g->tensors);
	for (size_t i = 0; i < n && !rc; i++) {
		g->tensors[old + i] = (struct gguf_tensor){0};
		rc = take_tensor(c, &g->tensors[old + i], &offsets[i]);
		g->n_tensors = old + i + 1;
	}
	if (!rc) {
		size_t here = (size_t)(c->p - c->base);
		start = (here + align - 1) & ~(size_t)(align - 1); // here is inside a file: cannot overflow
	}
	for (size_t i = 0; i < n && !rc; i++)
		rc = place(c, &g->tensors[old + i], offsets[i], start, align);
	free(offsets);
	return rc;
}

int gguf__parse(struct gguf *g, const char *name, const void *data, size_t size, bool first, char *err, size_t len)
{
	struct cursor c = {name, data, (const uint8_t *)data + size, data, err, len};
	uint32_t version;
	uint64_t n_tensors, n_keys;
	char magic[4];
	if (!take(&c, magic, 4) || memcmp(magic, "GGUF", 4))
		return err_set(err, len, ERR_INVALID, "%s: not a GGUF file (it does not begin with the letters GGUF)", name);
	if (!take(&c, &version, sizeof version) || !take(&c, &n_tensors, sizeof n_tensors) || !take(&c, &n_keys, sizeof n_keys))
		return truncated(&c, "the header");
	if (version == 0x02000000 || version == 0x03000000)
		return err_set(err, len, ERR_UNSUPPORTED, "%s: a big-endian GGUF file; little-endian ones can be read", name);
	if (version != 2 && version != 3)
		return err_set(err, len, ERR_UNSUPPORTED, "%s: GGUF version %u; 2 and 3 can be read", name, version);
	// The least that a key (8 + 1 + 4 + 1 bytes) and a tensor (8 + 1 + 4 + 8 + 4 + 8) can take bounds both counts.
	if (n_keys > GGUF_MAX_KEYS || n_keys > left(&c) / 14)
		return err_set(err, len, ERR_INVALID, "%s: the header claims %llu keys, more than the file can hold", name, (unsigned long long)n_keys);
	if (n_tensors > GGUF_MAX_TENSORS || n_tensors > left(&c) / 33)
		return err_set(err, len, ERR_INVALID, "%s: the header claims %llu tensors, more than the file can hold", name, (unsigned long long)n_tensors);
	int rc = first ? take_keys(&c, g, (size_t)n_keys) : skip_keys(&c, (size_t)n_keys);
	return rc ? rc : take_tensors(&c, g, (size_t)n_tensors);
}
