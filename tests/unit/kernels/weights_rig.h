// SPDX-License-Identifier: Apache-2.0
//
// Weights and activations for tests of kernels: random, but with every code and sane scales.
#ifndef QUIRE_TESTS_WEIGHTS_RIG_H
#define QUIRE_TESTS_WEIGHTS_RIG_H

#include "kernels/dtype.h"

#include <stddef.h>
#include <stdint.h>

extern const enum dtype rig_types[];
enum { RIG_TYPES = 11 };

uint32_t rig_random(uint32_t *state);
// -1 … 1, a few much larger ones as models have them.
void rig_fill(float *x, size_t n, uint32_t seed);
// n_rows rows of k values of a type as a file holds them; to be freed. scale: of a typical weight.
uint8_t *rig_weights(enum dtype type, size_t n_rows, size_t k, float scale, uint32_t seed);

#endif
