// SPDX-License-Identifier: Apache-2.0
//
// A device for tests of the scheduler: the "keys and values" of a position are a hash of all tokens up to it, kept in
// the slot that the block table names. Executing a plan checks what a real device could not: that every position it
// reads holds what the sequence's own tokens make, and that no slot is written twice in a step. The next token is a
// function of what was read, so an answer that depends on the state of the cache is seen.
#ifndef QUIRE_TESTS_FAKE_DEVICE_H
#define QUIRE_TESTS_FAKE_DEVICE_H

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

struct fake_device {
	int n_blocks, block_tokens, vocabulary;
	uint64_t *slots;   // [n_blocks][B]
	uint64_t *written; // [n_blocks][B] the step that wrote it
	uint64_t step;
	uint64_t n_computed, n_copied; // positions
};

static inline uint64_t fake_mix(uint64_t chain, int32_t id)
{
	uint64_t x = (chain ^ (uint64_t)(uint32_t)id) + 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline void fake_device_init(struct fake_device *d, int n_blocks, int block_tokens, int vocabulary)
{
	size_t n = (size_t)n_blocks * (size_t)block_tokens;
	*d = (struct fake_device){.n_blocks = n_blocks, .block_tokens = block_tokens, .vocabulary = vocabulary};
	d->slots = mem_zalloc(n, sizeof *d->slots);
	d->written = mem_zalloc(n, sizeof *d->written);
}

static inline void fake_device_deinit(struct fake_device *d)
{
	free(d->slots);
	free(d->written);
}

static inline size_t fake_slot(const struct fake_device *d, const struct sequence *seq, int position)
{
	int B = d->block_tokens;
	CHECK(position / B < seq->n_blocks, "position %d, %d blocks", position, seq->n_blocks);
	return (size_t)seq->blocks[position / B] * (size_t)B + (size_t)(position % B);
}

// What the namespace and the first n tokens make. Different namespaces never make the same.
static inline uint64_t fake_chain(const struct sequence *seq, int n)
{
	uint64_t chain = 1;
	for (size_t i = 0; i < seq->ns_len; i++)
		chain = fake_mix(chain, ((const unsigned char *)seq->ns)[i]);
	for (int i = 0; i < n; i++)
		chain = fake_mix(chain, seq->tokens[i]);
	return chain;
}

static inline void fake_check_positions(const struct fake_device *d, const struct sequence *seq, int n)
{
	uint64_t chain = fake_chain(seq, 0);
	for (int i = 0; i < n; i++) {
		chain = fake_mix(chain, seq->tokens[i]);
		CHECK(d->slots[fake_slot(d, seq, i)] == chain, "position %d of %d holds something else (block %d)", i, n,
			  seq->blocks[i / d->block_tokens]);
	}
}

static inline void fake_device_run(struct fake_device *d, const struct plan *p)
{
	size_t B = (size_t)d->block_tokens;
	d->step++;
	for (int i = 0; i < p->n_copies; i++) {
		const struct plan_copy *c = &p->copies[i];
		CHECK(c->n >= 1 && c->n < (int)B && c->src != c->dst, "copy of %d from %d to %d", c->n, c->src, c->dst);
		memmove(&d->slots[(size_t)c->dst * B], &d->slots[(size_t)c->src * B], (size_t)c->n * sizeof *d->slots);
		d->n_copied += (uint64_t)c->n;
	}
	for (int i = 0; i < p->n_items; i++) {
		const struct plan_item *it = &p->items[i];
		fake_check_positions(d, it->seq, it->start);
		uint64_t chain = fake_chain(it->seq, it->start);
		for (int k = it->start; k < it->start + it->n; k++) {
			size_t at = fake_slot(d, it->seq, k);
			chain = fake_mix(chain, it->seq->tokens[k]);
			CHECK(d->written[at] != d->step, "two sequences write block %zu in one step", at / B);
			d->written[at] = d->step;
			d->slots[at] = chain;
		}
		d->n_computed += (uint64_t)it->n;
	}
	// Nobody wrote over what another reads.
	for (int i = 0; i < p->n_items; i++)
		fake_check_positions(d, p->items[i].seq, p->items[i].start + p->items[i].n);
}

// Before commit: commit may move a finished block to its twin.
static inline int32_t fake_sample(const struct fake_device *d, const struct plan_item *it)
{
	uint64_t h = d->slots[fake_slot(d, it->seq, it->start + it->n - 1)];
	return (int32_t)(h % (uint64_t)d->vocabulary);
}

#endif
