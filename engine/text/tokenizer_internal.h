// SPDX-License-Identifier: Apache-2.0
//
// Inside the tokenizer: what a loader fills (tokenizer_gguf.c, with the help of tokenizer_build.c) and what encoding
// reads. A stretch of text without specials goes through normalising (tokenizer.c, nfc.c), cutting into words (words.c,
// pretokenize.c) and merging inside a word (merge.c), where the best pair is named by bpe.c or spm.c.
#ifndef QUIRE_TEXT_TOKENIZER_INTERNAL_H
#define QUIRE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/base/buf.h"
#include "engine/text/pretokenize.h"
#include "engine/text/tokenizer.h"

enum tokenizer_model {
	MODEL_BPE, // pairs merge by the rank of a list of merges
	MODEL_SPM, // pairs merge by the score of the piece they make
};

struct span { // of tokenizer.pool
	size_t at;
	uint32_t n;
};

struct id_table { // open addressing by bytes; a slot holds id + 1
	uint32_t *slot;
	size_t mask;
};

struct merge {
	uint64_t pair; // left id << 32 | right id
	int32_t rank;
	int32_t id; // of both together; -1: an empty slot
};

struct trie_edge { // of the specials' spellings; node 0 is the root
	uint64_t from; // node << 8 | byte
	uint32_t to;   // 0: an empty slot
};

struct tokenizer {
	// The vocabulary, by id.
	size_t n_vocab, max_piece;
	char *pool; // spellings and pieces
	size_t pool_len, pool_cap;
	struct span *spelling; // as the file writes it
	struct span *piece;	   // the bytes it stands for
	uint8_t *type;
	float *score;
	bool *eog;
	struct id_table by_spelling;
	int32_t bos, eos, unk;
	bool add_bos, add_eos;

	// Specials: control and user-defined tokens. The unknown token is a control token here.
	struct trie_edge *trie;
	size_t trie_mask;
	int32_t *trie_id; // of the token that ends at a node, or -1
	uint32_t n_trie;
	bool first[256]; // some special begins with this byte

	// How text becomes the symbols that are merged.
	bool nfc;
	bool escape_spaces;	   // " " becomes "▁"
	bool add_space_prefix; // and one stands before each stretch
	bool characters;	   // symbols start as characters, unknown ones become byte tokens; else they start as bytes
	bool words_at_spaces;  // a word begins at each run of "▁": no piece has one after another character
	bool ignore_merges, whole_newlines;
	struct pretokenizer *pre; // NULL: see words_at_spaces

	// How they merge. Only normal tokens take part, so what a user types never merges into a control token.
	enum tokenizer_model model;
	struct id_table by_key; // normal tokens by what a word is looked up by:
	const struct span *key; // the spelling if `characters`, else the piece
	size_t max_key;
	int32_t byte_id[256]; // the token of a single byte, or -1
	struct merge *merges;
	size_t merge_mask;
};

int32_t tokenizer__lookup(const struct tokenizer *t, const struct id_table *table, const struct span *spans,
						  const char *s, size_t n);

// Building, in this order; every id must be set. Spellings are at most MAX_SPELLING bytes.
enum { MAX_SPELLING = 4096, MAX_SPECIAL = 512 };
void tokenizer__set_size(struct tokenizer *t, size_t n_vocab);
void tokenizer__set_token(struct tokenizer *t, size_t id, const char *spelling, size_t n, enum token_type type,
						  float score);
// After model and characters are set: pieces, tables, the trie. ERR_INVALID: a special is longer than MAX_SPECIAL.
int tokenizer__index(struct tokenizer *t);
// Room for n merges; then each in turn, best first. A merge of what the vocabulary lacks is left out: it can never
// happen.
void tokenizer__set_merges(struct tokenizer *t, size_t n);
void tokenizer__add_merge(struct tokenizer *t, size_t rank, const char *left, size_t n_left, const char *right,
						  size_t n_right);
void tokenizer__add_eog(struct tokenizer *t, int32_t id);

// Normal form C of valid UTF-8, appended to out; linear in n but for sorting runs of combining marks.
bool nfc_quick_check(const char *s, size_t n); // true: it is surely in that form already
void nfc_append(struct buf *out, const char *s, size_t n);

// Encodes normalised text, appending ids.
void words_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out);

// Symbols of one word, merged until no pair can be. Symbol 0 is always the first that is left; `next` leads to the
// others.
struct symbol {
	uint32_t at, len; // of the word; len 0: merged away
	int32_t id;		  // -1: no token of its own
	int32_t prev, next;
};
struct candidate { // a symbol that may merge with the next: the smallest key first, then the leftmost
	int32_t key;
	int32_t left, id; // the symbol; the token of both
	uint32_t len;	  // of both when it was proposed; it is stale if that changed
};
struct merger {
	const struct tokenizer *t;
	const char *word;
	struct symbol *sym;
	struct candidate *heap;
	size_t n, cap, n_heap, cap_heap;
};
void merger_start(struct merger *m, const char *word);
void merger_add(struct merger *m, size_t at, size_t len, int32_t id);
void merger_run(struct merger *m);
void merger_deinit(struct merger *m);

// What the pair makes and how early (smallest key first); false: nothing.
bool bpe_pair(const struct tokenizer *t, const struct symbol *left, const struct symbol *right, int32_t *id,
			  int32_t *key);
bool spm_pair(const struct tokenizer *t, const char *word, const struct symbol *left, const struct symbol *right,
			  int32_t *id, int32_t *key);

#endif
