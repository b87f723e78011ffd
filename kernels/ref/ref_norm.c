// SPDX-License-Identifier: Apache-2.0
//
// RMS and layer norms of rows, and the residual stream that they stand around.
#include "kernels/ref/ref.h"

#include <math.h>

void ref_norm_row(const struct norm *n, const float *x, size_t d, float *y)
{
	double mean = 0, sq = 0;
	if (n->kind == NORM_LAYER) {
		for (size_t i = 0; i < d; i++)
			mean += (double)x[i];
		mean /= (double)d;
	}
	for (size_t i = 0; i < d; i++)
		sq += ((double)x[i] - mean) * ((double)x[i] - mean);
	float scale = (float)(1 / sqrt(sq / (double)d + (double)n->eps));
	for (size_t i = 0; i < d; i++)
		y[i] = ((x[i] - (float)mean) * scale) * n->w->v[i] + (n->b ? n->b->v[i] : 0);
}

void ref_norm_all(struct ref_backend *be, const struct norm *n, float *y)
{
	size_t d = (size_t)be->size.d_model;
	for (int t = 0; t < be->batch->n_tokens; t++)
		ref_norm_row(n, be->x + (size_t)t * d, d, y + (size_t)t * d);
}

void ref_add_residual(struct ref_backend *be, const struct norm *post, float *y)
{
	size_t d = (size_t)be->size.d_model;
	for (int t = 0; t < be->batch->n_tokens; t++) {
		float *x = be->x + (size_t)t * d, *row = y + (size_t)t * d;
		if (post && post->kind != NORM_NONE)
			ref_norm_row(post, row, d, row);
		for (size_t i = 0; i < d; i++)
			x[i] += row[i];
	}
}
