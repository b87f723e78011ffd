// SPDX-License-Identifier: Apache-2.0
//
// Inside the GGUF reader: gguf_parse.c fills these structures from bytes, gguf_keys.c answers from them, gguf.c deals
// with files. Every limit stands here; whatever is allocated for a file is also paid for by bytes of that file, so the
// limits only matter for huge (or sparse) ones.
#ifndef QUIRE_MODEL_GGUF_INTERNAL_H
#define QUIRE_MODEL_GGUF_INTERNAL_H

#include "engine/model/gguf.h"

enum {
	GGUF_MAX_KEYS = 1 << 16, // real files have less than a hundred
	GGUF_MAX_KEY = 65535,	 // bytes of a key's name, as the specification says
	GGUF_MAX_STRINGS =
		1 << 24, // in all arrays of a file together: the largest vocabularies have 2^18, merges twice that
	GGUF_MAX_TENSORS = 1 << 20, // of one file
	GGUF_MAX_NAME = 256,		// bytes of a tensor's name (the specification says 64; some tools write more)
	GGUF_MAX_PARTS = 1024,
	GGUF_MIN_ALIGN = 8, // the specification's; it also makes every tensor fit for direct reads of floats
	GGUF_MAX_ALIGN = 1 << 20,
	GGUF_DEFAULT_ALIGN = 32,
};

struct gguf_key {
	struct gguf_str name;
	enum gguf_type type, item; // item: of an array
	size_t n;				   // elements of an array, bytes of a string, else 1
	const void *value;		   // in the file
	struct gguf_str *strings;  // of an array of strings: where each begins
};

// Open addressing; a slot holds index + 1. The seed is random, so that no file can be made to fall into one slot.
struct gguf_table {
	uint32_t *slot;
	size_t mask;
	uint64_t seed;
};

struct gguf_keys {
	struct gguf_key *item;
	size_t n;
	struct gguf_table table;
};

struct gguf_part {
	void *map; // NULL: the bytes are the caller's
	size_t size;
};

struct gguf {
	char *path; // of the first part
	struct gguf_part parts[GGUF_MAX_PARTS];
	unsigned n_parts;
	struct gguf_keys keys;		 // of the first part
	struct gguf_tensor *tensors; // of all parts
	size_t n_tensors;
	struct gguf_table tensor_table;
};

// Names by index, for the tables: ctx is what the table belongs to.
typedef struct gguf_str gguf_name_fn(const void *ctx, uint32_t i);
struct gguf_str gguf__key_name(const void *keys, uint32_t i);

void gguf__table_init(struct gguf_table *t, size_t n);
// Adds name (bytes) as item `index`; false if an item has that name.
bool gguf__table_add(struct gguf_table *t, struct gguf_str name, uint32_t index, gguf_name_fn *name_of,
					 const void *ctx);
// The index of the item with that name, or -1.
int64_t gguf__table_find(const struct gguf_table *t, const char *name, gguf_name_fn *name_of, const void *ctx);

size_t gguf__type_size(enum gguf_type t); // of a scalar; 0 for strings and arrays

void gguf__keys_deinit(struct gguf_keys *k);
int gguf__keys_u64(const struct gguf_keys *k, const char *key, uint64_t *out); // as gguf_get_u64

// Reads one file's bytes: fills *keys (zeroed before) and appends the tensors to g. Does no I/O. After a failure both
// hold what was read so far, to be freed as usual.
int gguf__parse(struct gguf *g, struct gguf_keys *keys, const char *name, const void *data, size_t size, char *err,
				size_t len);

// For tests and fuzzing: a file that lies in memory (aligned to 8 bytes), which must outlive *out. Further parts of a
// split file are not looked for.
int gguf__open_memory(const char *name, const void *data, size_t size, struct gguf **out, char *err, size_t len);

#endif
