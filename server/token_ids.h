// SPDX-License-Identifier: Apache-2.0
//
// Arrays of token ids in requests. Any thread.
#ifndef QUIRE_SERVER_TOKEN_IDS_H
#define QUIRE_SERVER_TOKEN_IDS_H

#include "engine/text/tokenizer.h"
#include "server/api_error.h"

#include <jansson.h>

// Appends the ids of the array v. An id outside the vocabulary, or no whole number, is a 400 that names `field`.
int token_ids_read(const json_t *v, const char *field, int n_vocab, struct token_vec *out, struct api_error *err);

#endif
