// SPDX-License-Identifier: Apache-2.0
//
// Token ids to text, one at a time, with stop strings. After each token all generated text is searched for stop
// strings; the earliest start wins, then the longest; the text is cut there. What is held back is an unfinished character and
// the longest tail that is a proper prefix of some stop string, nothing more. The concatenation of what push and finish
// emit is the text, byte for byte, however it was streamed.
// A stop string that is exactly a control token's spelling matches that token.
// Allocates only in create; push and finish do not (they run inside the engine's step). One thread at a time.
#ifndef QUIRE_TEXT_DETOKENIZER_H
#define QUIRE_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;
struct detokenizer;

struct detokenizer_options {
	const char *const *stops; // borrowed during create; empty strings are ignored
	const size_t *stop_lens;
	size_t n_stops;
	bool include_stop;      // keep the stop string in the text
	bool keep_special;      // write control tokens as their spelling instead of leaving them out
	bool continues;         // text follows a prompt: never strip a leading space
};

struct detokenizer *detokenizer_create(const struct tokenizer *t, const struct detokenizer_options *o);
void detokenizer_destroy(struct detokenizer *d);

// The most bytes that one push, or finish, can write.
size_t detokenizer_max_output(const struct detokenizer *d);

// Takes one token. Writes the text that became certain to out (room for max_output bytes) and its length to *n.
// Returns -1, or the index of the stop string that ended the text: push nothing more then, finish writes nothing.
int detokenizer_push(struct detokenizer *d, int32_t id, char *out, size_t *n);

// Flushes what is held back; an unfinished character becomes U+FFFD. Returns the bytes written.
size_t detokenizer_finish(struct detokenizer *d, char *out);

// Bytes held back at the moment.
size_t detokenizer_held(const struct detokenizer *d);

#endif
