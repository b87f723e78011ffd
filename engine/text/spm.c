// SPDX-License-Identifier: Apache-2.0
//
// SentencePiece's BPE: the pair whose piece has the best score merges first.
#include "engine/text/tokenizer_internal.h"

#include <string.h>

// Floats as integers in the same order, turned round: the best score has the smallest key.
static int32_t key_of(float score)
{
	int32_t bits;
	memcpy(&bits, &score, sizeof bits);
	return bits >= 0 ? -bits : bits - INT32_MIN;
}

bool spm_pair(const struct tokenizer *t, const char *word, const struct symbol *left, const struct symbol *right,
			  int32_t *id, int32_t *key)
{
	size_t len = (size_t)left->len + right->len;
	if (len > t->max_key)
		return false;
	*id = tokenizer__lookup(t, &t->by_key, t->key, word + left->at, len);
	if (*id < 0)
		return false;
	*key = key_of(t->score[*id]);
	return true;
}
