// SPDX-License-Identifier: Apache-2.0
//
// Work on one head of one token, as plain loops that the compiler turns into vectors of whatever instruction set the
// including file is compiled for. Products and sums are rounded one by one, so every instruction set gives the same
// bits.
#ifndef QUIRE_CPU_ATTENTION_HEADS_H
#define QUIRE_CPU_ATTENTION_HEADS_H

#include <math.h>

// The sum of squares has 16 partial sums, each over every 16th element.
static void norm(float *head, const float *w, int dh, float eps)
{
	float sums[16] = {0};
	int d = 0;
	for (; d + 16 <= dh; d += 16)
		for (int i = 0; i < 16; i++)
			sums[i] += head[d + i] * head[d + i];
	for (int i = 0; d + i < dh; i++)
		sums[i] += head[d + i] * head[d + i];
	for (int half = 8; half; half /= 2)
		for (int i = 0; i < half; i++)
			sums[i] += sums[i + half];
	float scale = 1 / sqrtf(sums[0] / (float)dh + eps);
	for (int i = 0; i < dh; i++)
		head[i] = head[i] * scale * w[i];
}

static void rotate_halves(float *restrict low, float *restrict high, const float *restrict c, const float *restrict s,
						  int n)
{
	for (int i = 0; i < n; i++) {
		float x = low[i], y = high[i];
		low[i] = x * c[i] - y * s[i];
		high[i] = x * s[i] + y * c[i];
	}
}

static void rotate_pairs(float *restrict head, const float *restrict c, const float *restrict s, int n)
{
	for (int i = 0; i < n; i++) {
		float x = head[2 * i], y = head[2 * i + 1];
		head[2 * i] = x * c[i] - y * s[i];
		head[2 * i + 1] = x * s[i] + y * c[i];
	}
}

static void rotate(float *head, enum rope_kind kind, int n_dims, const float *cosines)
{
	int half = n_dims / 2;
	if (kind == ROPE_HALVES)
		rotate_halves(head, head + half, cosines, cosines + half, half);
	else if (kind == ROPE_PAIRS)
		rotate_pairs(head, cosines, cosines + half, half);
}

static void to_f16(const float *x, int n, uint16_t *out)
{
	int i = 0;
	for (; i + LANES <= n; i += LANES)
		vec_store_f16(out + i, vec_load(x + i));
	for (; i < n; i++)
		out[i] = f32_to_f16(x[i]);
}

#define ATTENTION_OPERATIONS                                                                                           \
	.scores = scores, .softmax = softmax, .weigh = weigh, .merge = merge, .finish = finish, .norm = norm,              \
	.rotate = rotate, .to_f16 = to_f16

#endif
