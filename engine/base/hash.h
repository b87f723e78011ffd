// SPDX-License-Identifier: Apache-2.0
//
// Hashing of short keys in memory (XXH3). Hashes only find candidates: equality is always checked on the keys.
#ifndef QUIRE_BASE_HASH_H
#define QUIRE_BASE_HASH_H

#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

static inline uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
	return XXH3_64bits_withSeed(p, n, seed);
}

#endif
