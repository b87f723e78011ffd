// SPDX-License-Identifier: Apache-2.0
//
// Cuts text into the words that BPE merges inside. A pre-tokenizer is a list of steps applied in turn, each to every
// piece that the one before left. Patterns are compiled once (PCRE2, JIT, Unicode properties) and shared by all
// threads.
#ifndef QUIRE_TEXT_PRETOKENIZE_H
#define QUIRE_TEXT_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>

struct pretokenizer;

enum pretokenizer_cut { // what a step does where its pattern matches
	CUT_AROUND,			// the match is a piece, so are the gaps between matches
	CUT_THREES,			// the same, and a match falls into threes of characters, counted from its right end
	CUT_BEFORE_THREES,	// only cuts in front of each whole three, counted from the right end of a match
};

struct pretokenizer_step {
	enum pretokenizer_cut cut;
	const char *pattern; // PCRE2; NULL ends a list of steps
};

enum {						 // what a name of a pre-tokenizer says beside its steps
	PRE_IGNORE_MERGES = 1,	 // a whole word that the vocabulary has is taken without merging
	PRE_ADD_BOS = 2,		 // unless the metadata says otherwise
	PRE_CHARACTERS = 4,		 // no byte alphabet: words are merged from characters, with byte tokens for unknown ones
	PRE_ESCAPE_SPACES = 8,	 // with PRE_CHARACTERS: spaces become "▁" first
	PRE_NFC = 16,			 // the text is brought into normal form C first
	PRE_WHOLE_NEWLINES = 32, // a run of newlines is looked up whole before it is merged
};

struct pretokenizer_name {
	const char *name;
	const struct pretokenizer_step *steps;
	unsigned flags;
};
extern const struct pretokenizer_name pretokenizer_names[]; // ended by a NULL name

// The entry of this name in the table, or NULL.
const struct pretokenizer_name *pretokenizer_find(const char *name, size_t n);
// ERR_UNSUPPORTED with a line about the file `where`: the name is not known, all these are.
int pretokenizer_unknown(const char *where, const char *name, size_t n, char *err, size_t len);

// ERR_INVALID if a pattern does not compile. Keeps nothing of `steps`.
int pretokenizer_create(const struct pretokenizer_step *steps, struct pretokenizer **out, char *err, size_t len);
void pretokenizer_destroy(struct pretokenizer *p);

// Calls fn for each piece of text[0..n), valid UTF-8, in order; the pieces join to the text and none is empty. Any
// thread.
void pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n,
						void (*fn)(void *ctx, const char *s, size_t n), void *ctx);

#endif
