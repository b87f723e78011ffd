// SPDX-License-Identifier: Apache-2.0
//
// Reads GGUF version 2 and 3 (little-endian) by mmap. Every size, count, offset and string is checked against the file
// before it is used; nothing is allocated by a number in the file beyond what the file's own bytes pay for.
// Split files (general name-00001-of-0000N.gguf, split.count) open through their first part; the parts' tensors
// appear as one list. Source: the GGUF specification in ggml's docs/gguf.md.
// Immutable after gguf_open; any thread may read. Views point into the mapping and live until gguf_close.
#ifndef QUIRE_MODEL_GGUF_H
#define QUIRE_MODEL_GGUF_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
};

struct gguf;

struct gguf_str { // bytes, not terminated
	const char *data;
	size_t len;
};

struct gguf_tensor {
	const char *name; // terminated copy: 1 to 256 bytes of UTF-8 without control characters
	enum dtype type;
	unsigned n_dims;  // 1 to 4
	uint64_t dim[4];  // dim[0] is the row length (contiguous); absent ones are 1
	const void *data; // inside the mapping, checked to hold `bytes`; at least 8-byte aligned; no two tensors overlap
	size_t bytes;
};

struct gguf_array {
	enum gguf_type type; // of its elements; arrays of arrays are refused at open
	size_t n;
	const void *priv;
};

// On failure *out is NULL and err names the file, the field and what would be right: ERR_IO (cannot be read),
// ERR_INVALID (malformed), ERR_UNSUPPORTED (a tensor type that this build cannot read: names it and the known ones).
int gguf_open(const char *path, struct gguf **out, char *err, size_t len);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);  // of the first part
size_t gguf_file_bytes(const struct gguf *g); // all parts together
size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name); // NULL if absent

// Metadata. Each returns 1 with *out set, 0 if the key is absent, ERR_INVALID if it is there with another type or
// (u64) a negative value. u64 takes any integer type, f64 any number.
int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out);
int gguf_get_f64(const struct gguf *g, const char *key, double *out);
int gguf_get_bool(const struct gguf *g, const char *key, bool *out);
int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out);
int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out);

// Elements; i < a->n and the array's type must be a string, an integer or bool, any number or bool respectively
// (CHECKed: look at a->type first). O(1). i64 gives INT64_MAX for a u64 past it.
struct gguf_str gguf_array_str(const struct gguf_array *a, size_t i);
int64_t gguf_array_i64(const struct gguf_array *a, size_t i);
double gguf_array_f64(const struct gguf_array *a, size_t i);

// Tells the kernel that the pages of a tensor are no longer needed (after its weights were repacked elsewhere).
void gguf_drop_pages(const struct gguf *g, const struct gguf_tensor *t);

#endif
