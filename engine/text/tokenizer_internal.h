// SPDX-License-Identifier: Apache-2.0
//
// Inside the tokenizer: what a loader fills (tokenizer_gguf.c) and the two models read (bpe.c, spm.c).
#ifndef QUIRE_TEXT_TOKENIZER_INTERNAL_H
#define QUIRE_TEXT_TOKENIZER_INTERNAL_H

#include "engine/text/pretokenize.h"
#include "engine/text/tokenizer.h"

enum tokenizer_model { MODEL_BPE, MODEL_SPM };

struct span { // of tokenizer.pool
	size_t at;
	uint32_t n;
};

struct id_table { // open addressing by bytes; slot holds id + 1
	uint32_t *slot;
	size_t mask;
};

struct merge {
	uint64_t pair; // left id << 32 | right id
	int32_t rank, id; // id -1: an empty slot
};

struct trie_node { // of the specials' spellings; children are a list
	uint8_t byte;
	int32_t id; // -1: no token ends here
	uint32_t child, next;
};

struct tokenizer {
	enum tokenizer_model model;
	size_t n_vocab, max_piece;
	char *pool;            // spellings and pieces
	size_t pool_len, pool_cap;
	struct span *spelling; // as the vocabulary writes it
	struct span *piece;    // the bytes it stands for
	uint8_t *type;
	float *score;          // MODEL_SPM
	bool *eog;
	struct id_table by_spelling, by_piece; // by_piece: normal tokens only, MODEL_BPE
	int32_t byte_id[256];  // the token of a single byte, or -1
	struct merge *merges;
	size_t merge_mask;
	struct trie_node *trie;
	size_t n_trie, cap_trie;
	struct pretokenizer *pre;
	int32_t bos, eos, unk;
	bool add_bos, add_eos, add_space_prefix, nfc;
};

int32_t tokenizer__lookup(const struct tokenizer *t, const struct id_table *table, const struct span *spans, const char *s, size_t n);
const struct merge *tokenizer__merge(const struct tokenizer *t, int32_t left, int32_t right); // NULL: they do not merge

// Encode a stretch of plain text (no specials inside), appending ids.
void bpe_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out);
void spm_encode(const struct tokenizer *t, const char *text, size_t n, struct token_vec *out);

// A heap of merge candidates: the smallest key first, then the leftmost position.
struct candidate {
	int64_t key;
	int32_t left, right; // symbol numbers
	uint32_t len;        // of both together when it was made; it is stale if that changed
};
struct candidate_heap {
	struct candidate *v;
	size_t n, cap;
};
void candidate_push(struct candidate_heap *h, struct candidate c);
bool candidate_pop(struct candidate_heap *h, struct candidate *out);

#endif
