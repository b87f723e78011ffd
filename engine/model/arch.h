// SPDX-License-Identifier: Apache-2.0
//
// How a family's metadata becomes a spec: arch_*.c has one reader each, listed in spec.c. To add a family whose parts are
// known, write one such file and add one line there.
#ifndef QUIRE_MODEL_ARCH_H
#define QUIRE_MODEL_ARCH_H

#include "engine/model/gguf.h"
#include "engine/model/spec.h"

struct meta { // metadata of one file under one architecture's prefix
	const struct gguf *g;
	const char *arch;
	char *err;
	size_t len;
};

// Reads "ARCH.key". Absent: *out stays as it is (the default) unless it is required. Out of [min, max]: ERR_INVALID.
enum { META_OPTIONAL, META_REQUIRED };
int meta_int(const struct meta *m, const char *key, int required, int64_t min, int64_t max, int *out);
int meta_float(const struct meta *m, const char *key, int required, double min, double max, double *out);
bool meta_has_tensor(const struct meta *m, const char *name);

// What all decoder families share: sizes, heads, context, norm, and layers filled alike. Rotation is left to the family.
int arch_read_common(const struct meta *m, struct model_spec *s);
// Adds a rope table by the file's base and scaling keys (none, linear, yarn, and the factors in rope_freqs.weight);
// its index, or a negative error. base 0: the file's freq_base; scaled false: plain.
int arch_add_rope(const struct meta *m, struct model_spec *s, enum rope_kind kind, double base, bool scaled);

int arch_llama(const struct meta *m, struct model_spec *s);
int arch_qwen2(const struct meta *m, struct model_spec *s);
int arch_qwen3(const struct meta *m, struct model_spec *s);
int arch_gemma3(const struct meta *m, struct model_spec *s);

#endif
