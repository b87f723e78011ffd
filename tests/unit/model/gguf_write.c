// SPDX-License-Identifier: Apache-2.0
//
// The file's three sections grow side by side and are joined at the end, when the counts are known.
#include "tests/unit/model/gguf_write.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER, KEYS, INFOS };

void gguf_write_init(struct gguf_writer *w)
{
	*w = (struct gguf_writer){.version = 3, .alignment = 32};
	buf_init(&w->keys);
	buf_init(&w->infos);
	buf_init(&w->data);
}

void gguf_write_deinit(struct gguf_writer *w)
{
	buf_deinit(&w->keys);
	buf_deinit(&w->infos);
	buf_deinit(&w->data);
	free(w->fields);
}

static void put_field(struct gguf_writer *w, int section, const char *what, struct buf *to, uint64_t value,
					  unsigned width)
{
	mem_grow(&w->fields, &w->cap_fields, w->n_fields + 1, sizeof *w->fields);
	w->fields[w->n_fields++] = (struct gguf_field){what, to->len, width, section};
	buf_append(to, &value, width); // little-endian, as this machine
}

static void put_text(struct gguf_writer *w, int section, const char *what, struct buf *to, const char *s, size_t n)
{
	put_field(w, section, what, to, n, 8);
	buf_append(to, s, n);
}

static void put_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
	w->n_keys++;
	put_text(w, KEYS, "length of a key's name", &w->keys, key, strlen(key));
	put_field(w, KEYS, "type of a value", &w->keys, type, 4);
}

static size_t scalar_size(enum gguf_type type)
{
	switch (type) {
	case GGUF_U8:
	case GGUF_I8:
	case GGUF_BOOL:
		return 1;
	case GGUF_U16:
	case GGUF_I16:
		return 2;
	case GGUF_U32:
	case GGUF_I32:
	case GGUF_F32:
		return 4;
	default:
		CHECK(type == GGUF_U64 || type == GGUF_I64 || type == GGUF_F64, "type %d is no scalar", (int)type);
		return 8;
	}
}

void gguf_write_scalar(struct gguf_writer *w, const char *key, enum gguf_type type, const void *value)
{
	put_key(w, key, type);
	buf_append(&w->keys, value, scalar_size(type));
}

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
	gguf_write_scalar(w, key, GGUF_U32, &value);
}

void gguf_write_i32(struct gguf_writer *w, const char *key, int32_t value)
{
	gguf_write_scalar(w, key, GGUF_I32, &value);
}

void gguf_write_u64(struct gguf_writer *w, const char *key, uint64_t value)
{
	gguf_write_scalar(w, key, GGUF_U64, &value);
}

void gguf_write_f32(struct gguf_writer *w, const char *key, float value)
{
	gguf_write_scalar(w, key, GGUF_F32, &value);
}

void gguf_write_bool(struct gguf_writer *w, const char *key, bool value)
{
	gguf_write_scalar(w, key, GGUF_BOOL, &(uint8_t){value});
}

void gguf_write_str_n(struct gguf_writer *w, const char *key, const char *value, size_t len)
{
	put_key(w, key, GGUF_STRING);
	put_text(w, KEYS, "length of a string", &w->keys, value, len);
}

void gguf_write_str(struct gguf_writer *w, const char *key, const char *value)
{
	gguf_write_str_n(w, key, value, strlen(value));
}

static void put_array(struct gguf_writer *w, const char *key, enum gguf_type item, size_t n)
{
	put_key(w, key, GGUF_ARRAY);
	put_field(w, KEYS, "type of an array's elements", &w->keys, item, 4);
	put_field(w, KEYS, "number of an array's elements", &w->keys, n, 8);
}

void gguf_write_array(struct gguf_writer *w, const char *key, enum gguf_type item, const void *values, size_t n)
{
	put_array(w, key, item, n);
	buf_append(&w->keys, values, n * scalar_size(item));
}

void gguf_write_strings(struct gguf_writer *w, const char *key, const char *const *values, size_t n)
{
	put_array(w, key, GGUF_STRING, n);
	for (size_t i = 0; i < n; i++)
		put_text(w, KEYS, "length of an array's string", &w->keys, values[i], strlen(values[i]));
}

void gguf_write_alignment(struct gguf_writer *w, uint32_t alignment)
{
	CHECK(!w->n_tensors && alignment, "%u", alignment);
	w->alignment = alignment;
	gguf_write_u32(w, "general.alignment", alignment);
}

static void pad(struct buf *b, size_t alignment)
{
	while (b->len % alignment)
		buf_putc(b, 0);
}

void gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, unsigned n_dims, const uint64_t *dim,
					   const void *data, size_t bytes)
{
	w->n_tensors++;
	pad(&w->data, w->alignment);
	put_text(w, INFOS, "length of a tensor's name", &w->infos, name, strlen(name));
	put_field(w, INFOS, "number of dimensions", &w->infos, n_dims, 4);
	for (unsigned i = 0; i < n_dims; i++)
		put_field(w, INFOS, "dimension", &w->infos, dim[i], 8);
	put_field(w, INFOS, "type of a tensor", &w->infos, type, 4);
	put_field(w, INFOS, "offset of a tensor", &w->infos, w->data.len, 8);
	buf_append(&w->data, data, bytes);
}

void gguf_write_tensor_f32(struct gguf_writer *w, const char *name, unsigned n_dims, const uint64_t *dim,
						   const float *values)
{
	size_t n = 1;
	for (unsigned i = 0; i < n_dims; i++)
		n *= (size_t)dim[i];
	gguf_write_tensor(w, name, DTYPE_F32, n_dims, dim, values, n * sizeof *values);
}

void gguf_write_bytes(struct gguf_writer *w, struct buf *out)
{
	CHECK(out->len == 0, "%zu", out->len);
	buf_puts(out, "GGUF");
	put_field(w, HEADER, "version", out, w->version, 4);
	put_field(w, HEADER, "number of tensors", out, w->n_tensors, 8);
	put_field(w, HEADER, "number of keys", out, w->n_keys, 8);
	for (size_t i = 0; i < w->n_fields; i++) {
		struct gguf_field *f = &w->fields[i];
		f->at += f->section == HEADER ? 0 : out->len + (f->section == INFOS ? w->keys.len : 0);
		f->section = HEADER;
	}
	buf_append(out, w->keys.data, w->keys.len);
	buf_append(out, w->infos.data, w->infos.len);
	if (w->data.len) {
		pad(out, w->alignment);
		buf_append(out, w->data.data, w->data.len);
	}
}

void gguf_write_file(struct gguf_writer *w, const char *path)
{
	struct buf b;
	buf_init(&b);
	gguf_write_bytes(w, &b);
	FILE *f = fopen(path, "wb");
	CHECK(f, "%s", path);
	size_t n = fwrite(b.data, 1, b.len, f);
	CHECK(fclose(f) == 0 && n == b.len, "%s", path);
	buf_deinit(&b);
}
