// SPDX-License-Identifier: Apache-2.0
//
// The loops of attention over one tile, written once in terms of a vector of LANES floats. The file that includes this
// defines, before:
//   vec, LANES (a divisor of STRIP)
//   vec_set1 vec_load vec_store vec_load_f16 vec_store_f16 vec_add vec_sub vec_mul vec_div vec_max (the second operand
//   if one is NaN) vec_fma(a, b, c) = a b + c vec_round (to the nearest integer), vec_scale2(x, n) = x 2ⁿ for integers
//   -126 ≤ n ≤ 126 vec_abs, vec_copysign(magnitude, sign), vec_less_select(a, b, x, y) = a < b ? x : y vec_keep(x,
//   from, to, other): lanes from … to - 1 of x, other elsewhere; vec_sum, vec_largest: across lanes MAX_ROWS,
//   COLUMNS(rows), EACH_ROWS(X): the most rows of one compiled loop; how many vectors of a row it keeps in registers, a
//   multiple of STRIP / LANES that leaves enough independent sums for the latency of the multiply-add; X(1) …
//   X(MAX_ROWS)
// Loop counts over accumulators are constants after inlining: bounds known only at run time cost two thirds of the
// speed.
#ifndef QUIRE_CPU_ATTENTION_TILES_H
#define QUIRE_CPU_ATTENTION_TILES_H

#include <stdbool.h>
#include <string.h>

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { STRIP_VECTORS = STRIP / LANES, MAX_COLUMNS = STRIPS_IN_FLIGHT * STRIP_VECTORS };

INLINE vec load_element(const bool f32, const char *p)
{
	return f32 ? vec_load((const float *)(const void *)p) : vec_load_f16((const uint16_t *)(const void *)p);
}

// The first n < LANES elements, zeros after them.
INLINE vec load_some(const bool f32, const char *p, int n)
{
	_Alignas(64) char padded[4 * LANES] = {0};
	memcpy(padded, p, (size_t)n * (f32 ? 4 : 2));
	return load_element(f32, padded);
}

INLINE void prefetch(const char *p)
{
	__builtin_prefetch(p, 0, 3);
}

// --- scores

// acc[column][row] += q[row] k[column] for one dimension.
INLINE void score_step(const bool f32, const int rows, const int columns, const char *const *k, size_t offset,
					   const float *q, vec acc[MAX_COLUMNS][MAX_ROWS])
{
	UNROLL for (int c = 0; c < columns; c++)
	{
		vec x = load_element(f32, k[c / STRIP_VECTORS] + offset + (size_t)(c % STRIP_VECTORS * LANES * (f32 ? 4 : 2)));
		UNROLL for (int r = 0; r < rows; r++) acc[c][r] = vec_fma(vec_set1(q[r]), x, acc[c][r]);
	}
}

// The K that is needed two groups later and this group's V are fetched meanwhile, a line each per two dimensions.
INLINE void score_tile(const bool f32, const int rows, const struct attention_strips *kv, int first, int n,
					   const float *q, int dh, float *s)
{
	const int columns = COLUMNS(rows), strips = columns / STRIP_VECTORS;
	size_t stride = kv->k_stride, v_step = f32 ? 2 * STRIP * 4 : 2 * STRIP * 2;
	for (int at = first; at < first + n; at += strips) {
		vec acc[MAX_COLUMNS][MAX_ROWS];
		UNROLL for (int c = 0; c < columns; c++)
		{
			UNROLL for (int r = 0; r < rows; r++) acc[c][r] = vec_set1(0);
		}
		size_t offset = 0, v_offset = 0;
		int d = 0;
		for (; d + 2 <= dh; d += 2, offset += 2 * stride, v_offset += v_step) {
			UNROLL for (int u = 0; u < strips; u++)
			{
				prefetch(kv->k[at + 2 * strips + u] + offset);
				prefetch(kv->v[at + u] + v_offset);
			}
			score_step(f32, rows, columns, kv->k + at, offset, q + d * TILE_ROWS, acc);
			score_step(f32, rows, columns, kv->k + at, offset + stride, q + (d + 1) * TILE_ROWS, acc);
		}
		if (d < dh)
			score_step(f32, rows, columns, kv->k + at, offset, q + d * TILE_ROWS, acc);
		UNROLL for (int c = 0; c < columns; c++)
		{
			UNROLL for (int r = 0; r < rows; r++) vec_store(s + r * SCORE_STRIDE + at * STRIP + c * LANES, acc[c][r]);
		}
	}
}

// --- softmax

// Within 1.5 units in the last place for -87.3 ≤ x ≤ 0, exactly 1 at 0; e^-87.3 below; NaN stays NaN. 2ⁿ eʳ with |r| ≤
// ln 2 / 2; the polynomial is the one of degree 6 with the least relative error (2.6e-9) and p(0) = 1.
INLINE vec vec_exp(vec x)
{
	x = vec_max(vec_set1(-87.3f), x);
	vec n = vec_round(vec_mul(x, vec_set1(1.44269504f)));
	vec r = vec_fma(n, vec_set1(-0x1.62e4p-1f), x); // ln 2 in two parts, the first of which times n is exact
	r = vec_fma(n, vec_set1(-1.4286068e-6f), r);
	vec p = vec_fma(vec_set1(1.4061422e-3f), r, vec_set1(8.3790590e-3f));
	p = vec_fma(p, r, vec_set1(4.1664773e-2f));
	p = vec_fma(p, r, vec_set1(1.6666365e-1f));
	p = vec_fma(p, r, vec_set1(0.5f));
	p = vec_fma(p, r, vec_set1(1));
	p = vec_fma(p, r, vec_set1(1));
	return vec_scale2(p, n);
}

// Within 3 units in the last place: an odd polynomial (relative error 4.4e-9) up to 0.625, 1 - 2 / (e^2x + 1) beyond.
INLINE vec vec_tanh(vec x)
{
	vec a = vec_abs(x), u = vec_mul(x, x);
	vec p = vec_fma(vec_set1(-5.7049868e-3f), u, vec_set1(2.0639087e-2f));
	p = vec_fma(p, u, vec_set1(-5.3739715e-2f));
	p = vec_fma(p, u, vec_set1(1.3331442e-1f));
	p = vec_fma(p, u, vec_set1(-3.3333282e-1f));
	p = vec_fma(vec_mul(p, u), x, x);
	vec e = vec_exp(vec_mul(a, vec_set1(-2))); // (1 - e^-2a) / (1 + e^-2a): never overflows
	vec one = vec_set1(1), far = vec_div(vec_sub(one, e), vec_add(one, e));
	return vec_less_select(a, vec_set1(0.625f), p, vec_copysign(far, x));
}

// Vector i of a row as it counts: lanes outside from … to - 1 are `other`, which leaves a maximum or a sum as it was.
INLINE vec counted(vec x, int i, int from, int to, vec other)
{
	int lo = from - i * LANES, hi = to - i * LANES;
	return lo <= 0 && hi >= LANES ? x : vec_keep(x, lo < 0 ? 0 : lo, hi > LANES ? LANES : hi, other);
}

static void softmax(float *s, int from, int to, float cap, float *part)
{
	vec lowest = vec_set1(-INFINITY), largest = lowest, sum = vec_set1(0), zero = sum;
	int first = from / LANES, end = (to + LANES - 1) / LANES;
	for (int i = first; i < end; i++) {
		vec x = vec_load(s + i * LANES);
		if (cap > 0) {
			x = vec_mul(vec_set1(cap), vec_tanh(vec_div(x, vec_set1(cap))));
			vec_store(s + i * LANES, x);
		}
		largest = vec_max(largest, counted(x, i, from, to, lowest));
	}
	float max = vec_largest(largest);
	for (int i = first; i < end; i++) {
		vec x = vec_exp(vec_sub(vec_load(s + i * LANES), vec_set1(max)));
		vec_store(s + i * LANES, x);
		sum = vec_add(sum, counted(x, i, from, to, zero));
	}
	part[PART_MAX] = max;
	part[PART_SUM] = vec_sum(sum);
}

// --- weighted sum of V

// Dimensions d … of V in `columns` vectors; the last one is cut to `tail` elements if that is not 0.
INLINE void weigh_slice(const bool f32, const int rows, const int columns, int tail, const struct attention_strips *kv,
						int from, int to, const float *s, int dh, int d, float *parts, int stride)
{
	const size_t element = f32 ? 4 : 2;
	float *out = parts + PART_OUT + d;
	vec acc[MAX_COLUMNS][MAX_ROWS];
	UNROLL for (int c = 0; c < columns; c++)
	{
		UNROLL for (int r = 0; r < rows; r++) acc[c][r] = vec_load(out + r * stride + c * LANES);
	}
	for (int p = from; p < to;) {
		int end = p / STRIP * STRIP + STRIP;
		const char *v = kv->v[p / STRIP] + ((size_t)(p % STRIP) * (size_t)dh + (size_t)d) * element;
		for (end = end < to ? end : to; p < end; p++, v += (size_t)dh * element)
			UNROLL for (int c = 0; c < columns; c++)
			{
				vec x = tail ? load_some(f32, v, tail) : load_element(f32, v + (size_t)(c * LANES) * element);
				UNROLL for (int r = 0; r < rows; r++) acc[c][r] =
					vec_fma(vec_set1(s[r * SCORE_STRIDE + p]), x, acc[c][r]);
			}
	}
	UNROLL for (int c = 0; c < columns; c++)
	{
		UNROLL for (int r = 0; r < rows; r++) vec_store(out + r * stride + c * LANES, acc[c][r]);
	}
}

INLINE void weigh_tile(const bool f32, const int rows, const struct attention_strips *kv, int from, int to,
					   const float *s, int dh, float *parts, int stride)
{
	const int wide = COLUMNS(rows), half = wide > 1 ? wide / 2 : 1;
	int d = 0;
	for (; d + wide * LANES <= dh; d += wide * LANES)
		weigh_slice(f32, rows, wide, 0, kv, from, to, s, dh, d, parts, stride);
	for (; d + half * LANES <= dh; d += half * LANES)
		weigh_slice(f32, rows, half, 0, kv, from, to, s, dh, d, parts, stride);
	for (; d + LANES <= dh; d += LANES)
		weigh_slice(f32, rows, 1, 0, kv, from, to, s, dh, d, parts, stride);
	if (d < dh)
		weigh_slice(f32, rows, 1, dh - d, kv, from, to, s, dh, d, parts, stride);
}

// --- one compiled loop for every number of rows

typedef void scores_fn(const struct attention_strips *kv, int first, int n, const float *q, int dh, float *s);
typedef void weigh_fn(const struct attention_strips *kv, int from, int to, const float *s, int dh, float *parts,
					  int stride);

#define DEFINE_ROWS(rows, name, f32)                                                                                   \
	static void scores_##name##_##rows(const struct attention_strips *kv, int first, int n, const float *q, int dh,    \
									   float *s)                                                                       \
	{                                                                                                                  \
		score_tile(f32, rows, kv, first, n, q, dh, s);                                                                 \
	}                                                                                                                  \
	static void weigh_##name##_##rows(const struct attention_strips *kv, int from, int to, const float *s, int dh,     \
									  float *parts, int stride)                                                        \
	{                                                                                                                  \
		weigh_tile(f32, rows, kv, from, to, s, dh, parts, stride);                                                     \
	}
#define DEFINE_F16(rows) DEFINE_ROWS(rows, f16, false)
#define DEFINE_F32(rows) DEFINE_ROWS(rows, f32, true)
#define SCORES_F16(rows) scores_f16_##rows,
#define SCORES_F32(rows) scores_f32_##rows,
#define WEIGH_F16(rows) weigh_f16_##rows,
#define WEIGH_F32(rows) weigh_f32_##rows,

EACH_ROWS(DEFINE_F16)
EACH_ROWS(DEFINE_F32)
static scores_fn *const scores_by_rows[][MAX_ROWS] = {
	[KV_F16] = {EACH_ROWS(SCORES_F16)}, [KV_F32] = {EACH_ROWS(SCORES_F32)}};
static weigh_fn *const weigh_by_rows[][MAX_ROWS] = {
	[KV_F16] = {EACH_ROWS(WEIGH_F16)}, [KV_F32] = {EACH_ROWS(WEIGH_F32)}};

// How many of the rows left the next loop takes, so that all take about as many.
static int share_of(int rows)
{
	int loops = (rows + MAX_ROWS - 1) / MAX_ROWS;
	return (rows + loops - 1) / loops;
}

static void scores(const struct attention_strips *kv, int first, int n, const float *q, int rows, int dh, float *s)
{
	for (int take; rows > 0; rows -= take, q += take, s += take * SCORE_STRIDE) {
		take = share_of(rows);
		scores_by_rows[kv->type][take - 1](kv, first, n, q, dh, s);
	}
}

static void weigh(const struct attention_strips *kv, int from, int to, const float *s, int rows, int dh, float *parts,
				  int stride)
{
	for (int take; rows > 0; rows -= take, s += take * SCORE_STRIDE, parts += take * stride) {
		take = share_of(rows);
		weigh_by_rows[kv->type][take - 1](kv, from, to, s, dh, parts, stride);
	}
}

// --- rows as wholes

static void merge(float *part, const float *next, int dh)
{
	float a = part[PART_MAX], b = next[PART_MAX], max = a > b ? a : b;
	vec old = vec_exp(vec_set1(a - max)), new = vec_exp(vec_set1(b - max));
	float sums[LANES];
	vec_store(sums, vec_fma(new, vec_set1(next[PART_SUM]), vec_mul(old, vec_set1(part[PART_SUM]))));
	part[PART_MAX] = max;
	part[PART_SUM] = sums[0];
	for (int d = PART_OUT; d < PART_OUT + dh; d += LANES)
		vec_store(part + d, vec_fma(new, vec_load(next + d), vec_mul(old, vec_load(part + d))));
}

static void finish(const float *part, int dh, float *out)
{
	float scale = 1 / part[PART_SUM];
	for (int d = 0; d < dh; d++)
		out[d] = part[PART_OUT + d] * scale;
}

#endif
