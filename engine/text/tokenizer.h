// SPDX-License-Identifier: Apache-2.0
//
// Text to token ids. Two models: byte-level BPE (GGUF "gpt2": a regular-expression splitter, the GPT-2 byte alphabet,
// merges by rank) and SentencePiece BPE (GGUF "llama": best score first, byte fallback).
// A tokenizer is immutable once created: any thread may encode with it.
#ifndef QUIRE_TEXT_TOKENIZER_H
#define QUIRE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct tokenizer;

enum token_type { // numbers of GGUF's tokenizer.ggml.token_type
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,      // of the file; a tokenizer gives it the type of a control token
	TOKEN_CONTROL = 3,      // matched in text only when specials are parsed; no text of its own
	TOKEN_USER_DEFINED = 4, // always matched in text; has text
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

enum { // flags of tokenizer_encode
	TOKENIZE_ADD_SPECIAL = 1,   // put the BOS (and EOS) around that the model wants
	TOKENIZE_PARSE_SPECIAL = 2, // control tokens spelled in the text become that token, where taint allows
};

struct token_vec { // growable; init with {0}, free with token_vec_deinit
	int32_t *ids;
	size_t n, cap;
};
void token_vec_push(struct token_vec *v, int32_t id);
void token_vec_deinit(struct token_vec *v);

// Builds from GGUF metadata (tokenizer.ggml.*). ERR_UNSUPPORTED names an unknown model or pre-tokenizer and lists the
// known ones; ERR_INVALID a malformed vocabulary. The tokenizer copies what it needs: the file may be closed.
int tokenizer_from_gguf(const struct gguf *g, struct tokenizer **out, char *err, size_t len);
void tokenizer_destroy(struct tokenizer *t);

// Appends the ids of text[0..n) to *out. taint is NULL or n bytes, nonzero where the byte came from a request: a control
// token is only recognised in bytes that are all untainted, so what a user types is never a control token. Splitting
// and merging do not look at taint: text is tokenised as if it were plain. Time is O(n log n) for any input.
// Invalid UTF-8 is encoded byte by byte where the model can, else dropped. ERR_LIMIT if n exceeds 256 MiB.
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, const uint8_t *taint, unsigned flags,
                     struct token_vec *out);

size_t tokenizer_n_vocab(const struct tokenizer *t);
size_t tokenizer_max_piece(const struct tokenizer *t); // longest piece in bytes

// The bytes a token stands for ("▁" decoded to a space, byte tokens to their byte; a control token: its spelling).
// The view lives as long as the tokenizer. id must be inside the vocabulary.
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n);
enum token_type tokenizer_type(const struct tokenizer *t, int32_t id);
// The token with exactly this spelling in the vocabulary, or -1.
int32_t tokenizer_find(const struct tokenizer *t, const char *spelling, size_t n);

// Ids of the special roles, -1 where the model has none.
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_adds_bos(const struct tokenizer *t);
bool tokenizer_strips_left(const struct tokenizer *t); // one leading space of the whole decoded text is dropped
// True for every id that ends a generation: eos, eot, eom ids of the metadata and the end-of-turn tokens by which
// chat models are known (<|im_end|>, <|eot_id|>, <|eom_id|>, <end_of_turn>, <|endoftext|>, <|end|>) if CONTROL.
bool tokenizer_is_eog(const struct tokenizer *t, int32_t id);

// Appends the text of ids[0..n) to a struct buf: invalid bytes become U+FFFD, control tokens are left out if skip_special.
struct buf;
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out);

#endif
