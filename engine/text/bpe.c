// SPDX-License-Identifier: Apache-2.0
//
// BPE by a list of merges: the pair that stands first in the list merges first.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <string.h>

static struct merge *slot_of(const struct tokenizer *t, uint64_t pair)
{
	size_t i = hash_bytes(1, &pair, sizeof pair) & t->merge_mask;
	while (t->merges[i].id >= 0 && t->merges[i].pair != pair)
		i = (i + 1) & t->merge_mask;
	return &t->merges[i];
}

static uint64_t pair_of(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

bool bpe_pair(const struct tokenizer *t, const struct symbol *left, const struct symbol *right, int32_t *id,
			  int32_t *key)
{
	if (left->id < 0 || right->id < 0)
		return false;
	const struct merge *m = slot_of(t, pair_of(left->id, right->id));
	*id = m->id;
	*key = m->rank;
	return m->id >= 0;
}

void tokenizer__set_merges(struct tokenizer *t, size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	t->merge_mask = size - 1;
	t->merges = mem_zalloc(size, sizeof *t->merges);
	for (size_t i = 0; i < size; i++)
		t->merges[i].id = -1;
}

void tokenizer__add_merge(struct tokenizer *t, size_t rank, const char *left, size_t n_left, const char *right,
						  size_t n_right)
{
	char both[2 * MAX_SPELLING];
	if (n_left > MAX_SPELLING || n_right > MAX_SPELLING)
		return;
	memcpy(both, left, n_left);
	memcpy(both + n_left, right, n_right);
	int32_t l = tokenizer_find(t, left, n_left), r = tokenizer_find(t, right, n_right),
			id = tokenizer_find(t, both, n_left + n_right);
	if (l < 0 || r < 0 || id < 0 || t->type[id] == TOKEN_CONTROL)
		return;
	struct merge *m = slot_of(t, pair_of(l, r));
	if (m->id < 0)
		*m = (struct merge){pair_of(l, r), (int32_t)rank, id};
}
