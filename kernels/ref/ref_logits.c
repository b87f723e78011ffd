// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a step: ids to rows, rows to logits.
#include "kernels/ref/ref.h"

#include <math.h>

void ref_embed(struct backend *b, const struct matrix *table, float scale)
{
	struct ref_backend *be = ref_of(b);
	for (int t = 0; t < be->batch->n_tokens; t++)
		for (size_t i = 0; i < table->k; i++)
			be->x[(size_t)t * table->k + i] = table->w[(size_t)be->batch->ids[t] * table->k + i] * scale;
}

void ref_logits(struct backend *b, const struct norm *n, const struct matrix *head, float softcap, float *logits)
{
	struct ref_backend *be = ref_of(b);
	size_t d = (size_t)be->size.d_model;
	for (int i = 0; i < be->batch->n_out; i++)
		ref_norm_row(n, be->x + (size_t)be->batch->out_rows[i] * d, d, be->norm + (size_t)i * d);
	ref_linear(be, be->norm, be->batch->n_out, head, NULL, logits);
	for (size_t i = 0; softcap > 0 && i < (size_t)be->batch->n_out * head->n; i++)
		logits[i] = softcap * tanhf(logits[i] / softcap);
}
