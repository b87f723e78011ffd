// SPDX-License-Identifier: Apache-2.0
//
// Work on one row, as vectors of LANES floats (lanes.h): each linear_*.c compiles it for its instruction set, and
// defines lanes_mul_add before. The order of operations does not depend on the machine's vector width, so every
// instruction set gives the same bits.
#ifndef QUIRE_CPU_LINEAR_ROWS_H
#define QUIRE_CPU_LINEAR_ROWS_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/linear_isa.h"

#include <math.h>

// The last n < LANES floats of a row, the rest zero.
LANES_INLINE void lanes_load_tail(const float *p, size_t n, lanes *v)
{
	*v = (lanes){0};
	memcpy(v, p, n * sizeof *p);
}

LANES_INLINE float lanes_sum(const lanes *v)
{
	float s[LANES];
	memcpy(s, v, sizeof s);
	for (int half = LANES / 2; half; half /= 2)
		for (int i = 0; i < half; i++)
			s[i] += s[i + half];
	return s[0];
}

// Halving: 16 lanes to 8 to 4.
LANES_INLINE void int_lanes_halve(const int_lanes *v, int_lanes4 *sum)
{
	int_lanes8 a[2];
	memcpy(a, v, sizeof a);
	a[0] += a[1];
	int_lanes4 b[2];
	memcpy(b, &a[0], sizeof b);
	*sum = b[0] + b[1];
}

// The sums of both.
LANES_INLINE void int_lanes_sums(const int_lanes v[2], int sums[2])
{
	int_lanes4 a, b, c;
	int_lanes_halve(&v[0], &a);
	int_lanes_halve(&v[1], &b);
	c = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
	c += __builtin_shufflevector(c, c, 1, 0, 3, 2);
	sums[0] = c[0];
	sums[1] = c[2];
}

LANES_INLINE int32_t int_lanes_max(const int_lanes *v)
{
	int_lanes8 a[2], more8;
	memcpy(a, v, sizeof a);
	more8 = a[0] > a[1];
	a[0] = (a[0] & more8) | (a[1] & ~more8);
	int_lanes4 b[2], more4;
	memcpy(b, &a[0], sizeof b);
	more4 = b[0] > b[1];
	b[0] = (b[0] & more4) | (b[1] & ~more4);
	b[1] = __builtin_shufflevector(b[0], b[0], 2, 3, 0, 1);
	more4 = b[0] > b[1];
	b[0] = (b[0] & more4) | (b[1] & ~more4);
	return b[0][0] > b[0][1] ? b[0][0] : b[0][1];
}

// e^x within 2 units in the last place for -87 … 88, and the value at the nearer end beyond; NaN stays NaN.
// 2^n · e^r with n = round(x / ln 2), |r| ≤ ln 2 / 2, and Taylor's polynomial, whose first missing term is 6e-9.
LANES_INLINE void lanes_exp(lanes *x)
{
	static const float taylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
	const float shift = 0x1.8p23f; // adding it leaves round(v) in the low bits
	lanes v = *x, n, r, c;
	int_lanes high = v > 88.0f, low = v < -87.0f;
	v = (lanes)(((int_lanes)v & ~(high | low)) | ((int_lanes)((lanes){0} + 88.0f) & high) |
				((int_lanes)((lanes){0} - 87.0f) & low));
	n = v * 0x1.715476p0f + shift;
	int_lanes power = ((int_lanes)n - 0x4B400000 + 127) << 23;
	n -= shift;
	r = v - n * 0x1.62ep-1f - n * 0x1.0bfbe8p-15f; // ln 2 in two parts: the first product is exact
	lanes e = (lanes){0} + 1.0f / 5040;
	for (size_t i = 0; i < sizeof taylor / sizeof taylor[0]; i++) {
		c = (lanes){0} + taylor[i];
		lanes_mul_add(&e, &r, &c);
	}
	*x = e * (lanes)power;
}

LANES_INLINE void scale_lanes(lanes *v, float mean, float scale, const lanes *w, const lanes *b)
{
	*v = (*v - mean) * scale * *w + *b;
}

static float squares_of(const float *x, size_t d, float mean)
{
	lanes sum = {0}, v;
	size_t i = 0;
	for (; i + LANES <= d; i += LANES) {
		lanes_load(x + i, &v);
		v -= mean;
		sum += v * v;
	}
	for (size_t j = 0; i + j < d; j++)
		sum[j] += (x[i + j] - mean) * (x[i + j] - mean);
	return lanes_sum(&sum);
}

static float mean_of(const float *x, size_t d)
{
	lanes sum = {0}, v;
	size_t i = 0;
	for (; i + LANES <= d; i += LANES) {
		lanes_load(x + i, &v);
		sum += v;
	}
	lanes_load_tail(x + i, d - i, &v);
	sum += v;
	return lanes_sum(&sum) / (float)d;
}

static void rows_norm(const struct norm *n, const float *x, size_t d, float *y)
{
	float mean = n->kind == NORM_LAYER ? mean_of(x, d) : 0;
	float scale = 1 / sqrtf(squares_of(x, d, mean) / (float)d + n->eps);
	lanes v, w, b = {0};
	size_t i = 0;
	for (; i + LANES <= d; i += LANES) {
		lanes_load(x + i, &v);
		lanes_load(n->w->v + i, &w);
		if (n->b)
			lanes_load(n->b->v + i, &b);
		scale_lanes(&v, mean, scale, &w, &b);
		lanes_store(y + i, &v);
	}
	if (i == d)
		return;
	lanes_load_tail(x + i, d - i, &v);
	lanes_load_tail(n->w->v + i, d - i, &w);
	if (n->b)
		lanes_load_tail(n->b->v + i, d - i, &b);
	scale_lanes(&v, mean, scale, &w, &b);
	memcpy(y + i, &v, (d - i) * sizeof *y);
}

// d = max |x| / 127, q = round(x / d) to nearest even. A block of nothing but tiny values (whose 127 / max
// overflows) becomes zero; a NaN makes d NaN, so it is not lost.
LANES_INLINE void quantise_block(const float *x, struct act_block *q)
{
	const float shift = 0x1.8p23f; // as in lanes_exp
	lanes v[2];
	int_lanes a[2];
	for (int h = 0; h < 2; h++) {
		lanes_load(x + LANES * h, &v[h]);
		a[h] = (int_lanes)v[h] & 0x7FFFFFFF; // absolute floats compare like their bits
	}
	int_lanes greater = a[0] > a[1];
	a[0] = (a[0] & greater) | (a[1] & ~greater);
	int32_t most = int_lanes_max(&a[0]);
	float max;
	memcpy(&max, &most, sizeof max);
	float inverse = max < 1e-30f ? 0 : 127 / max;
	int sums[2];
	for (int h = 0; h < 2; h++) {
		// The low byte, which is all there is unless a NaN came in.
		a[h] = (int_lanes)(v[h] * inverse + shift) << 24 >> 24;
		byte_lanes bytes = __builtin_convertvector(a[h], byte_lanes);
		memcpy(q->q + LANES * h, &bytes, sizeof bytes);
	}
	int_lanes_sums(a, sums);
	int sum = sums[0] + sums[1];
	q->d = max < 1e-30f ? 0 : max / 127;
	q->d_sum = q->d * (float)sum;
	q->zero8 = -8 * sum;
	q->zero16 = -16 * sum;
	q->zero128 = -128 * sum;
	q->zero32[0] = -32 * sums[0];
	q->zero32[1] = -32 * sums[1];
}

static void rows_quantise(const float *x, size_t n, struct act_block *q)
{
	for (size_t i = 0; i < n; i += BLOCK)
		quantise_block(x + i, q + i / BLOCK);
}

// y += a
static void rows_add(float *y, const float *a, size_t n)
{
	lanes u, v;
	size_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		lanes_load(y + i, &u);
		lanes_load(a + i, &v);
		u += v;
		lanes_store(y + i, &u);
	}
	for (; i < n; i++)
		y[i] += a[i];
}

// x / (1 + e^-t): SiLU with t = x, and GELU's tanh form with t = 2 √(2/π) (x + 0.044715 x³), since
// 0.5 (1 + tanh(t / 2)) = 1 / (1 + e^-t). The exact GELU takes the C library's erf.
LANES_INLINE void activate(enum activation act, lanes *x)
{
	if (act == ACT_GELU_ERF) {
		for (int i = 0; i < LANES; i++)
			(*x)[i] = 0.5f * (*x)[i] * (1 + erff((*x)[i] * 0.70710678118654752f));
		return;
	}
	lanes e = act == ACT_SILU ? -*x : (*x * *x * *x * 0.044715f + *x) * -1.5957691216057308f;
	lanes_exp(&e);
	*x /= e + 1.0f;
}

// cap · tanh(v / cap), with tanh(t) = 1 - 2 / (e^2t + 1).
LANES_INLINE void softcap(float cap, lanes *x)
{
	*x = *x / cap * 2.0f;
	lanes_exp(x);
	*x = (1.0f - 2.0f / (*x + 1.0f)) * cap;
}

// Columns at … of a tile, if there are that many; what is loaded past them is zero and what is stored is dropped.
LANES_INLINE void load_columns(const float *p, size_t at, size_t cols, lanes *v)
{
	if (at + LANES <= cols)
		lanes_load(p + at, v);
	else
		lanes_load_tail(p + at, at < cols ? cols - at : 0, v);
}

LANES_INLINE void store_columns(float *p, size_t at, size_t cols, const lanes *v)
{
	if (at + LANES <= cols)
		lanes_store(p + at, v);
	else if (at < cols)
		memcpy(p + at, v, (cols - at) * sizeof *p);
}

static void rows_store(const struct cpu_columns *s)
{
	lanes bias[GROUP / LANES] = {{0}}, v, y, residue;
	for (size_t h = 0; h < GROUP / LANES && s->bias; h++)
		load_columns(s->bias, h * LANES, s->cols, &bias[h]);
	for (size_t i = 0; i < s->n; i++)
		for (size_t h = 0; h < GROUP / LANES; h++) {
			const float *c = s->c + i * GROUP * (s->with_residues ? 2 : 1);
			float *to = s->y + i * s->stride;
			lanes_load(c + h * LANES, &v);
			if (s->with_residues) {
				lanes_load(c + GROUP + h * LANES, &residue);
				v += residue;
			}
			v += bias[h];
			if (s->softcap > 0)
				softcap(s->softcap, &v);
			if (s->residual) {
				load_columns(to, h * LANES, s->cols, &y);
				v += y;
			}
			store_columns(to, h * LANES, s->cols, &v);
		}
}

static void rows_hidden(const struct cpu_hidden *s)
{
	lanes bias[2][GROUP / LANES] = {{{0}}}, gate[GROUP / LANES], up;
	for (size_t h = 0; h < GROUP / LANES && s->bias; h++) {
		load_columns(s->bias, h * LANES, s->cols, &bias[0][h]);
		if (s->up)
			load_columns(s->up_bias, h * LANES, s->cols, &bias[1][h]);
	}
	for (size_t i = 0; i < s->n; i++) {
		for (size_t h = 0; h < GROUP / LANES; h++) {
			lanes_load(s->gate + i * GROUP + h * LANES, &gate[h]);
			gate[h] += bias[0][h];
			activate(s->act, &gate[h]);
			if (s->up) {
				lanes_load(s->up + i * GROUP + h * LANES, &up);
				gate[h] *= up + bias[1][h];
			}
			if (s->y)
				store_columns(s->y + i * s->y_stride, h * LANES, s->cols, &gate[h]);
		}
		if (s->q)
			quantise_block((const float *)gate, s->q + i * s->q_stride);
	}
}

#define ROWS_OPERATIONS                                                                                                \
	.norm = rows_norm, .quantise = rows_quantise, .add = rows_add, .store = rows_store, .hidden = rows_hidden

#endif
