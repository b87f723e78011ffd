// SPDX-License-Identifier: Apache-2.0
//
// Writes GGUF files for tests: whole valid ones (tiny models), and broken ones by changing the bytes of a valid one at
// the places that `fields` names. Only tests link this; quire itself writes no GGUF.
//
//	struct gguf_writer w;
//	gguf_write_init(&w);
//	gguf_write_str(&w, "general.architecture", "llama");
//	gguf_write_tensor_f32(&w, "token_embd.weight", 2, (uint64_t[]){64, 512}, values);
//	gguf_write_file(&w, path); // or gguf_write_bytes(&w, &buf)
//	gguf_write_deinit(&w);
#ifndef QUIRE_TESTS_MODEL_GGUF_WRITE_H
#define QUIRE_TESTS_MODEL_GGUF_WRITE_H

#include "engine/base/buf.h"
#include "engine/model/gguf.h"

// An integer of the file's format (a count, a length, a type, a dimension, an offset; no payload).
struct gguf_field {
	const char *what;
	size_t at;		// byte in the whole file once gguf_write_bytes has run
	unsigned width; // 4 or 8 bytes
	int section;	// writer's own: where `at` counts from until then
};

struct gguf_writer {
	uint32_t version;	// 3; may be changed before gguf_write_bytes
	uint32_t alignment; // 32, written as general.alignment only by who changes it: gguf_write_alignment
	struct buf keys, infos, data;
	uint64_t n_keys, n_tensors;
	struct gguf_field *fields;
	size_t n_fields, cap_fields;
};

void gguf_write_init(struct gguf_writer *w);
void gguf_write_deinit(struct gguf_writer *w);

// Metadata: a scalar of any type from its bytes, and the usual ones by value.
void gguf_write_scalar(struct gguf_writer *w, const char *key, enum gguf_type type, const void *value);
void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_write_i32(struct gguf_writer *w, const char *key, int32_t value);
void gguf_write_u64(struct gguf_writer *w, const char *key, uint64_t value);
void gguf_write_f32(struct gguf_writer *w, const char *key, float value);
void gguf_write_bool(struct gguf_writer *w, const char *key, bool value);
void gguf_write_str(struct gguf_writer *w, const char *key, const char *value);
void gguf_write_str_n(struct gguf_writer *w, const char *key, const char *value, size_t len); // may hold NULs
// n scalars that lie side by side as the type says; n strings.
void gguf_write_array(struct gguf_writer *w, const char *key, enum gguf_type item, const void *values, size_t n);
void gguf_write_strings(struct gguf_writer *w, const char *key, const char *const *values, size_t n);
// Aligns the tensors written from here on, and says so in general.alignment. Before the first tensor.
void gguf_write_alignment(struct gguf_writer *w, uint32_t alignment);

// A tensor from its bytes in the file's own layout; type may be any number, n_dims up to 4, dim[0] the row length.
void gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, unsigned n_dims, const uint64_t *dim,
					   const void *data, size_t bytes);
void gguf_write_tensor_f32(struct gguf_writer *w, const char *name, unsigned n_dims, const uint64_t *dim,
						   const float *values);

// Appends the whole file to `out`, which must be empty, and settles fields[].at. Once a writer.
void gguf_write_bytes(struct gguf_writer *w, struct buf *out);
void gguf_write_file(struct gguf_writer *w, const char *path); // aborts where that fails

#endif
