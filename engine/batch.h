// SPDX-License-Identifier: Apache-2.0
//
// A plan as the flat arrays that a back end reads. Sized once; building allocates nothing. Engine thread only.
#ifndef QUIRE_ENGINE_BATCH_H
#define QUIRE_ENGINE_BATCH_H

#include "engine/scheduler.h"
#include "kernels/backend.h"

struct batch;

struct batch *batch_create(int max_tokens, int max_seqs, int max_out);
void batch_destroy(struct batch *b);

// Fills the arrays from a plan. Item i is sequence i of the view; its n_out logit rows are consecutive in out_rows.
const struct batch_view *batch_build(struct batch *b, const struct plan *p);

#endif
