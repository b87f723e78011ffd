// SPDX-License-Identifier: Apache-2.0
//
// Asks an open GGUF file everything that can be asked: the judge of files that a generator or a fuzzer made.
#ifndef QUIRE_TESTS_MODEL_GGUF_WALK_H
#define QUIRE_TESTS_MODEL_GGUF_WALK_H

#include "engine/model/gguf.h"

// Reads every key as every type, every element, every tensor's bytes at both ends, and aborts where an answer breaks
// the header's promises. Returns a sum over all, so that nothing is optimised away.
uint64_t gguf_walk(const struct gguf *g);

#endif
