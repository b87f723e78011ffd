// SPDX-License-Identifier: Apache-2.0
//
// A cursor over the bytes of one file. Every read checks what is left first; every count is checked against the
// smallest size that so many items could have in the file, before anything is allocated for them.
#include "engine/model/gguf_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEY_MIN_BYTES = 8 + 1 + 4 + 1,			  // length, a name of one letter, type, a value of one byte
	TENSOR_MIN_BYTES = 8 + 1 + 4 + 8 + 4 + 8, // length, name, dimensions and one of them, type, offset
	STRING_MIN_BYTES = 8,
	SHOWN = 80, // bytes of a name from the file that a message shows, with the terminator
};

struct cursor {
	const char *name; // of the file, for messages
	const uint8_t *p, *end, *base;
	size_t n_strings; // in arrays so far
	char *err;
	size_t len;
};

static int __attribute__((format(printf, 3, 4))) fail(const struct cursor *c, int code, const char *fmt, ...)
{
	char text[384];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(c->err, c->len, code, "%s: %s", c->name, text);
}

static int truncated(const struct cursor *c, const char *what)
{
	return fail(c, ERR_INVALID, "the file ends inside %s, at byte %zu", what, (size_t)(c->end - c->base));
}

static size_t left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

// Copies n bytes, which lie unaligned; false if so many are not left.
static bool take(struct cursor *c, void *out, size_t n)
{
	if (left(c) < n)
		return false;
	memcpy(out, c->p, n);
	c->p += n;
	return true;
}

// A copy of a name that is fit for a message: terminated, cut, one line of plain letters.
static void printable(struct gguf_str s, char out[SHOWN])
{
	size_t n = s.len < SHOWN - 1 ? s.len : SHOWN - 1;
	for (size_t i = 0; i < n; i++) {
		unsigned char ch = (unsigned char)s.data[i];
		out[i] = ch < 0x20 || ch > 0x7E ? '?' : s.data[i];
	}
	out[n] = 0;
}

static int take_string(struct cursor *c, struct gguf_str *out, const char *what)
{
	uint64_t n;
	if (!take(c, &n, sizeof n))
		return truncated(c, what);
	if (n > left(c))
		return fail(c, ERR_INVALID, "%s claims %" PRIu64 " bytes, %zu are left in the file", what, n, left(c));
	*out = (struct gguf_str){(const char *)c->p, (size_t)n};
	c->p += n;
	return 0;
}

static int take_strings(struct cursor *c, struct gguf_key *k, const char *key)
{
	if (k->n > GGUF_MAX_STRINGS - c->n_strings)
		return fail(c, ERR_INVALID, "%s: the file's arrays hold more than %d strings", key, GGUF_MAX_STRINGS);
	c->n_strings += k->n;
	k->strings = mem_zalloc(k->n, sizeof *k->strings); // twice what each costs in the file
	for (size_t i = 0; i < k->n; i++) {
		int rc = take_string(c, &k->strings[i], key);
		if (rc)
			return rc;
	}
	return 0;
}

static int take_array(struct cursor *c, struct gguf_key *k, const char *key)
{
	uint32_t item;
	uint64_t n;
	if (!take(c, &item, sizeof item) || !take(c, &n, sizeof n))
		return truncated(c, key);
	if (item > GGUF_F64 || item == GGUF_ARRAY)
		return fail(c, ERR_INVALID, "%s is an array of type %" PRIu32 "; numbers, bools and strings are allowed", key,
					item);
	size_t each = item == GGUF_STRING ? STRING_MIN_BYTES : gguf__type_size((enum gguf_type)item);
	if (n > left(c) / each)
		return fail(c, ERR_INVALID, "%s claims %" PRIu64 " elements, %zu bytes are left in the file", key, n, left(c));
	k->item = (enum gguf_type)item;
	k->n = (size_t)n;
	k->value = c->p;
	if (item == GGUF_STRING)
		return take_strings(c, k, key);
	c->p += k->n * each;
	return 0;
}

static int take_value(struct cursor *c, struct gguf_key *k, const char *key)
{
	uint32_t type;
	if (!take(c, &type, sizeof type))
		return truncated(c, key);
	if (type > GGUF_F64)
		return fail(c, ERR_INVALID, "%s has the unknown value type %" PRIu32, key, type);
	k->type = (enum gguf_type)type;
	if (type == GGUF_ARRAY)
		return take_array(c, k, key);
	if (type == GGUF_STRING) {
		struct gguf_str s = {0};
		int rc = take_string(c, &s, key);
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

static int take_keys(struct cursor *c, struct gguf_keys *keys, size_t n)
{
	keys->item = mem_zalloc(n, sizeof *keys->item);
	gguf__table_init(&keys->table, n);
	for (size_t i = 0; i < n; i++) {
		struct gguf_key *k = &keys->item[i];
		char key[SHOWN];
		int rc = take_string(c, &k->name, "a key's name");
		if (rc)
			return rc;
		printable(k->name, key);
		if (!k->name.len || k->name.len > GGUF_MAX_KEY)
			return fail(c, ERR_INVALID, "key %zu has a name of %zu bytes; 1 to %d are allowed", i, k->name.len,
						GGUF_MAX_KEY);
		keys->n = i + 1; // from here on the value's strings are freed with the rest
		rc = take_value(c, k, key);
		if (rc)
			return rc;
		if (!gguf__table_add(&keys->table, k->name, (uint32_t)i, gguf__key_name, keys))
			return fail(c, ERR_INVALID, "the key %s is there twice", key);
	}
	return 0;
}

// A name ends up in messages and in look-ups by terminated strings, so it is held to one line of text.
static int take_tensor_name(struct cursor *c, struct gguf_tensor *t)
{
	struct gguf_str s;
	int rc = take_string(c, &s, "a tensor's name");
	if (rc)
		return rc;
	if (!s.len || s.len > GGUF_MAX_NAME)
		return fail(c, ERR_INVALID, "a tensor's name has %zu bytes; 1 to %d are allowed", s.len, GGUF_MAX_NAME);
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.data[i] < 0x20 || s.data[i] == 0x7F)
			return fail(c, ERR_INVALID, "a tensor's name has the control character %d", s.data[i]);
	if (!utf8_valid(s.data, s.len))
		return fail(c, ERR_INVALID, "a tensor's name is not UTF-8");
	t->name = mem_strndup(s.data, s.len);
	return 0;
}

static int take_dims(struct cursor *c, struct gguf_tensor *t, uint64_t *n_values)
{
	uint32_t n;
	if (!take(c, &n, sizeof n))
		return truncated(c, t->name);
	if (n < 1 || n > 4)
		return fail(c, ERR_INVALID, "tensor %s has %" PRIu32 " dimensions; 1 to 4 are allowed", t->name, n);
	t->n_dims = n;
	*n_values = 1;
	for (unsigned i = 0; i < 4; i++)
		t->dim[i] = 1;
	for (unsigned i = 0; i < n; i++) {
		if (!take(c, &t->dim[i], sizeof t->dim[i]))
			return truncated(c, t->name);
		if (!t->dim[i])
			return fail(c, ERR_INVALID, "tensor %s: dimension %u is zero", t->name, i);
		// Half the range, so that whoever counts in signed numbers is safe too.
		if (__builtin_mul_overflow(*n_values, t->dim[i], n_values) || *n_values > INT64_MAX)
			return fail(c, ERR_INVALID, "tensor %s: dimension %u of %" PRIu64 " makes the size overflow", t->name, i,
						t->dim[i]);
	}
	return 0;
}

static int set_type(struct cursor *c, struct gguf_tensor *t, uint32_t type, uint64_t n_values)
{
	const char *name = dtype_name(type);
	const struct dtype_info *info = dtype_info(type);
	if (!name)
		return fail(c, ERR_INVALID, "tensor %s has the unknown type number %" PRIu32, t->name, type);
	if (!info)
		return fail(
			c, ERR_UNSUPPORTED,
			"tensor %s is of type %s, which this build cannot read; it reads F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 "
			"Q4_K Q5_K Q6_K",
			t->name, name);
	t->type = (enum dtype)type;
	if (t->dim[0] % info->block)
		return fail(c, ERR_INVALID, "tensor %s: rows of %" PRIu64 " values are no multiple of %s's block of %u",
					t->name, t->dim[0], name, info->block);
	if (!dtype_row_bytes(type, n_values, &t->bytes))
		return fail(c, ERR_INVALID, "tensor %s: its size in bytes overflows", t->name);
	return 0;
}

static int take_tensor(struct cursor *c, struct gguf_tensor *t, uint64_t *offset)
{
	uint64_t n_values = 0;
	uint32_t type;
	int rc = take_tensor_name(c, t);
	if (!rc)
		rc = take_dims(c, t, &n_values);
	if (rc)
		return rc;
	if (!take(c, &type, sizeof type) || !take(c, offset, sizeof *offset))
		return truncated(c, t->name);
	return set_type(c, t, type, n_values);
}

static int take_alignment(const struct cursor *c, const struct gguf_keys *keys, uint64_t *align)
{
	*align = GGUF_DEFAULT_ALIGN;
	if (gguf__keys_u64(keys, "general.alignment", align) < 0 || *align < GGUF_MIN_ALIGN || *align > GGUF_MAX_ALIGN ||
		(*align & (*align - 1)))
		return fail(c, ERR_INVALID, "general.alignment must be a whole number, a power of two from %d to %d",
					GGUF_MIN_ALIGN, GGUF_MAX_ALIGN);
	return 0;
}

// Gives a tensor its place, `offset` bytes after `start`, where the data section begins.
static int place(const struct cursor *c, struct gguf_tensor *t, uint64_t offset, size_t start, uint64_t align)
{
	size_t size = (size_t)(c->end - c->base), from, to;
	if (offset % align)
		return fail(c, ERR_INVALID, "tensor %s: offset %" PRIu64 " is no multiple of the alignment %" PRIu64, t->name,
					offset, align);
	if (!mem_add(start, offset, &from) || !mem_add(from, t->bytes, &to) || to > size)
		return fail(c, ERR_INVALID,
					"tensor %s: its %zu bytes at offset %" PRIu64
					" of the data, which begins at byte %zu, pass the end of the "
					"file at byte %zu; is the download complete?",
					t->name, t->bytes, offset, start, size);
	t->data = c->base + from;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a, *y = *(const struct gguf_tensor *const *)b;
	return (x->data > y->data) - (x->data < y->data);
}

// Shared bytes would let a small file ask for any amount of memory once its tensors are repacked.
static int check_overlap(const struct cursor *c, const struct gguf_tensor *t, size_t n)
{
	const struct gguf_tensor **order = mem_alloc(n * sizeof *order);
	int rc = 0;
	for (size_t i = 0; i < n; i++)
		order[i] = &t[i];
	qsort(order, n, sizeof *order, by_address);
	for (size_t i = 1; i < n && !rc; i++)
		if ((const char *)order[i - 1]->data + order[i - 1]->bytes > (const char *)order[i]->data)
			rc = fail(c, ERR_INVALID, "tensors %s and %s overlap", order[i - 1]->name, order[i]->name);
	free(order);
	return rc;
}

static int take_tensors(struct cursor *c, struct gguf *g, size_t n, uint64_t align)
{
	uint64_t *offsets = mem_zalloc(n, sizeof *offsets);
	size_t old = g->n_tensors;
	int rc = 0;
	g->tensors = mem_realloc(g->tensors, (old + n) * sizeof *g->tensors);
	struct gguf_tensor *t = g->tensors + old;
	for (size_t i = 0; i < n && !rc; i++) {
		t[i] = (struct gguf_tensor){0};
		g->n_tensors++; // from here on its name is freed with the rest
		rc = take_tensor(c, &t[i], &offsets[i]);
	}
	size_t start = ((size_t)(c->p - c->base) + align - 1) & ~(size_t)(align - 1); // cannot overflow: inside a file
	for (size_t i = 0; i < n && !rc; i++)
		rc = place(c, &t[i], offsets[i], start, align);
	free(offsets);
	return rc ? rc : check_overlap(c, t, n);
}

// Magic and version are judged alone, so that a file of another kind is named as such however short it is.
static int take_header(struct cursor *c, uint64_t *n_keys, uint64_t *n_tensors)
{
	char magic[4] = "";
	uint32_t version;
	if (!take(c, magic, sizeof magic) || memcmp(magic, "GGUF", sizeof magic))
		return fail(c, ERR_INVALID, "not a GGUF file: it does not begin with the letters GGUF");
	if (!take(c, &version, sizeof version))
		return truncated(c, "the version");
	if (version && !(version & 0xFFFF))
		return fail(c, ERR_UNSUPPORTED, "a big-endian GGUF file; this build reads little-endian ones");
	if (version != 2 && version != 3)
		return fail(c, ERR_UNSUPPORTED, "GGUF version %" PRIu32 "; this build reads versions 2 and 3", version);
	if (!take(c, n_tensors, sizeof *n_tensors))
		return truncated(c, "the number of tensors");
	if (!take(c, n_keys, sizeof *n_keys))
		return truncated(c, "the number of keys");
	if (*n_keys > GGUF_MAX_KEYS || *n_keys > left(c) / KEY_MIN_BYTES)
		return fail(c, ERR_INVALID,
					"the header claims %" PRIu64 " keys; %zu bytes are left in the file, and %d keys the limit",
					*n_keys, left(c), GGUF_MAX_KEYS);
	if (*n_tensors > GGUF_MAX_TENSORS || *n_tensors > left(c) / TENSOR_MIN_BYTES)
		return fail(c, ERR_INVALID,
					"the header claims %" PRIu64 " tensors; %zu bytes are left in the file, and %d tensors the limit",
					*n_tensors, left(c), GGUF_MAX_TENSORS);
	return 0;
}

int gguf__parse(struct gguf *g, struct gguf_keys *keys, const char *name, const void *data, size_t size, char *err,
				size_t len)
{
	struct cursor c = {
		.name = name, .p = data, .base = data, .end = (const uint8_t *)data + size, .err = err, .len = len};
	uint64_t n_keys = 0, n_tensors = 0, align = 0;
	int rc = take_header(&c, &n_keys, &n_tensors);
	if (!rc)
		rc = take_keys(&c, keys, (size_t)n_keys);
	if (!rc)
		rc = take_alignment(&c, keys, &align);
	return rc ? rc : take_tensors(&c, g, (size_t)n_tensors, align);
}
