// SPDX-License-Identifier: Apache-2.0
//
// Cuts text into the words that BPE merges inside. Patterns are compiled once (PCRE2, JIT, Unicode properties) and shared by
// all threads; each call has its own match data.
#ifndef QUIRE_TEXT_PRETOKENIZE_H
#define QUIRE_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>

struct pretokenizer;

struct pretokenizer_name {
	const char *name;
	const char *const *patterns; // NULL-terminated
	bool ignore_merges;          // a whole word that the vocabulary has is taken without merging
};
extern const struct pretokenizer_name pretokenizer_names[]; // ended by a NULL name

// ERR_UNSUPPORTED lists the known names.
int pretokenizer_create(const char *name, size_t n, struct pretokenizer **out, char *err, size_t len);
void pretokenizer_destroy(struct pretokenizer *p);
bool pretokenizer_ignores_merges(const struct pretokenizer *p);

// Calls fn for each piece of text in order; the pieces join to the text.
void pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n, void (*fn)(void *ctx, const char *s, size_t n),
                        void *ctx);

#endif
