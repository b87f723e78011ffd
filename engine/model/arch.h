// SPDX-License-Identifier: Apache-2.0
//
// How a family's metadata becomes a spec: arch_*.c has one reader each, listed in spec.c. To add a family whose parts
// are known, write one such file and add one line there.
//
// Readers go straight through: the first failure is kept in the meta, and every later answer is still a number in range
// (no division by a missing key), so only the caller, model_read_spec, looks at it.
#ifndef QUIRE_MODEL_ARCH_H
#define QUIRE_MODEL_ARCH_H

#include "engine/model/gguf.h"
#include "engine/model/spec.h"

#include <limits.h>

struct meta { // metadata of one file under one architecture's prefix
	const struct gguf *g;
	const char *arch;
	int rc; // the first failure, else 0
	char *err;
	size_t len;
};

enum { META_REQUIRED = INT_MIN };

// "ARCH.key", or the fallback where it is absent (META_REQUIRED: that is a failure). A failure answers min.
int meta_int(struct meta *m, const char *key, int min, int max, int fallback);
// The same where a file may also give one number a layer; they must be equal.
int meta_layers_int(struct meta *m, const char *key, int min, int max, int fallback);
double meta_float(struct meta *m, const char *key, double min, double max, double fallback);
struct gguf_str meta_str(struct meta *m, const char *key, const char *fallback);
// A string of a file fit for a message: cut, and without control or other bytes beyond ASCII.
enum { META_SHOWN = 40 };
const char *meta_shown(struct gguf_str s, char out[META_SHOWN]);
void meta_fail(struct meta *m, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// What all decoder families share: sizes, heads, context, norm, and layers filled alike, without rotation.
void arch_read_common(struct meta *m, struct model_spec *s);

// Adds a rope table and returns its index. `scaled`: by the file's scaling keys and factor tensors (rope.c lists them).
int arch_add_rope(struct meta *m, struct model_spec *s, enum rope_kind kind, double base, bool scaled);
// The same with the base of the file, scaled, for all layers.
void arch_rope_all(struct meta *m, struct model_spec *s, enum rope_kind kind);

void arch_llama(struct meta *m, struct model_spec *s);
void arch_qwen2(struct meta *m, struct model_spec *s);
void arch_qwen3(struct meta *m, struct model_spec *s);
void arch_gemma3(struct meta *m, struct model_spec *s);

#endif
