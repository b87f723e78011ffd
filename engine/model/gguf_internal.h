// SPDX-License-Identifier: Apache-2.0
//
// Inside the GGUF reader: gguf_parse.c fills these from bytes, gguf.c answers from them. The limits stand here.
#ifndef QUIRE_MODEL_GGUF_INTERNAL_H
#define QUIRE_MODEL_GGUF_INTERNAL_H

#include "engine/model/gguf.h"

enum {
	GGUF_MAX_KEYS = 65536,
	GGUF_MAX_TENSORS = 1 << 20,
	GGUF_MAX_KEY = 65535,     // bytes of a key, as the specification says
	GGUF_MAX_NAME = 256,      // bytes of a tensor's name (the specification says 64; some tools write more)
	GGUF_MAX_PARTS = 1024,
	GGUF_MAX_ALIGN = 1 << 20,
};

struct gguf_key {
	struct gguf_str name;
	enum gguf_type type, item; // item: of an array
	size_t n;                  // elements of an array, bytes of a string, else 1
	const void *value;         // in the file
	struct gguf_str *strings;  // of an array of strings
};

struct gguf_table { // open addressing; slot holds index + 1
	uint32_t *slot;
	size_t mask;
};

struct gguf_part {
	void *map;
	size_t size;
};

struct gguf {
	char *path;
	struct gguf_part parts[GGUF_MAX_PARTS];
	unsigned n_parts;
	struct gguf_key *keys; // of the first part
	size_t n_keys;
	struct gguf_tensor *tensors; // of all parts
	size_t n_tensors;
	struct gguf_table key_table, tensor_table;
};

typedef struct gguf_str gguf_name_fn(const void *ctx, uint32_t i);
struct gguf_str gguf__key_name(const void *ctx, uint32_t i);
struct gguf_str gguf__tensor_name(const void *ctx, uint32_t i);
bool gguf__table_add(struct gguf_table *t, const char *name, size_t len, uint32_t index, gguf_name_fn *name_of, const void *ctx);

size_t gguf__type_size(enum gguf_type t); // of a scalar; 0 for strings and arrays

// Reads one file's bytes and appends its tensors; keys are kept of the first part only. Does no I/O.
int gguf__parse(struct gguf *g, const char *name, const void *data, size_t size, bool first, char *err, size_t len);

// For tests and fuzzing: a file that lies in memory, which must outlive *out. Split parts are not followed.
int gguf__open_memory(const char *name, const void *data, size_t size, struct gguf **out, char *err, size_t len);

#endif
