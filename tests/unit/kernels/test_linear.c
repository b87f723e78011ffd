// SPDX-License-Identifier: Apache-2.0
//
// The linear kernels of every instruction set: packing loses nothing, all tiles of all instruction sets give the bits
// of the plain C definition, and the definition gives the products that the golden data says.
#include "engine/model/gguf.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/matrix.h"
#include "tests/unit/kernels/weights_rig.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_K = 1536, TOKENS = MAX_TILE };

static const struct cpu_isa *isa_here(int i)
{
	static const char *const names[] = {"scalar", "avx2", "avx512-vnni"};
	const struct cpu_isa *isa;
	return cpu_isa_choose(names[i], &isa, NULL, 0) ? NULL : isa;
}

enum { N_ISAS = 3 };

static void *aligned(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	ck_assert_ptr_nonnull(p);
	memset(p, 0xFF, bytes); // floats are NaN, so that nothing passes unwritten
	return p;
}

static uint8_t *pack(enum cpu_layout l, const uint8_t *rows, size_t n_rows, size_t k)
{
	size_t row_bytes;
	ck_assert(dtype_row_bytes(layout_infos[l].type, k, &row_bytes));
	uint8_t *w = aligned(layout_group_bytes(l, k));
	pack_group(l, rows, row_bytes, n_rows, k, w);
	return w;
}

START_TEST(packing_loses_nothing)
{
	enum cpu_layout l = (enum cpu_layout)_i;
	enum dtype type = layout_infos[l].type;
	size_t k = 768, n_rows = 19, row_bytes;
	ck_assert(dtype_row_bytes(type, k, &row_bytes));
	uint8_t *rows = rig_weights(type, n_rows, k, 0.1f, 3);
	uint8_t *w = pack(l, rows, n_rows, k);
	float got[768], wanted[768];
	for (size_t r = 0; r < n_rows; r++) {
		dtype_decode(type, rows + r * row_bytes, k, wanted);
		pack_read_row(l, w, r, k, got);
		ck_assert_msg(!memcmp(got, wanted, sizeof got), "%s row %zu", dtype_name(type), r);
	}
	free(rows);
	free(w);
}
END_TEST

struct inputs {
	size_t k;
	float *x;			 // [TOKENS][k]
	struct act_block *q; // [TOKENS][act_stride(k)]
};

static struct inputs make_inputs(size_t k, uint32_t seed)
{
	struct inputs in = {k, aligned(TOKENS * k * sizeof(float)),
						aligned(TOKENS * act_stride(k) * sizeof(struct act_block))};
	rig_fill(in.x, TOKENS * k, seed);
	for (size_t t = 0; t < TOKENS && k % BLOCK == 0; t++)
		cpu_linear_scalar.quantise(in.x + t * k, k, in.q + t * act_stride(k));
	return in;
}

static void free_inputs(struct inputs *in)
{
	free(in->x);
	free(in->q);
}

static void multiply(const struct cpu_linear_isa *isa, enum cpu_layout l, const uint8_t *w, const struct inputs *in,
					 int n, float *c)
{
	bool ints = l < N_INT_LAYOUTS;
	struct cpu_tile t = {.w = w,
						 .n = ints ? in->k / BLOCK : in->k,
						 .q = in->q,
						 .x = in->x,
						 .stride = ints ? act_stride(in->k) : in->k,
						 .n_tokens = n,
						 .c = c,
						 .ahead = w,
						 .lines = n % 2};
	if (!ints)
		memset(c, 0, (size_t)n * GROUP * sizeof *c);
	isa->multiply[l](&t);
}

static void assert_same_tiles(enum cpu_layout l, const uint8_t *w, const struct inputs *in)
{
	float *wanted = aligned(TOKENS * GROUP * sizeof(float)), *got = aligned(TOKENS * GROUP * sizeof(float));
	for (int i = 1; i < N_ISAS; i++) {
		if (!isa_here(i))
			continue;
		const struct cpu_linear_isa *isa = isa_here(i)->linear;
		int most = l < N_INT_LAYOUTS ? isa->int_tile : isa->float_tile;
		for (int n = 1; n <= most; n++) {
			multiply(&cpu_linear_scalar, l, w, in, n, wanted);
			multiply(isa, l, w, in, n, got);
			ck_assert_msg(!memcmp(got, wanted, (size_t)n * GROUP * sizeof *got), "%s on %s, %zu inputs, %d tokens",
						  dtype_name(layout_infos[l].type), isa_here(i)->name, in->k, n);
		}
	}
	free(wanted);
	free(got);
}

START_TEST(tiles_have_the_bits_of_plain_c)
{
	enum cpu_layout l = (enum cpu_layout)_i;
	enum dtype type = layout_infos[l].type;
	static const size_t ks[] = {1, 2, 31, 32, 172, 256, 288, 768, MAX_K};
	for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
		if (ks[i] % dtype_info(type)->block)
			continue;
		struct inputs in = make_inputs(ks[i], 17 + (uint32_t)i);
		uint8_t *rows = rig_weights(type, GROUP, ks[i], 0.05f, 5), *w = pack(l, rows, GROUP, ks[i]);
		assert_same_tiles(l, w, &in);
		free(rows);
		free(w);
		free_inputs(&in);
	}
}
END_TEST

// Every code at its largest (or smallest) with activations of ±127: no sum may overflow on the way.
START_TEST(extreme_codes_do_not_overflow)
{
	enum cpu_layout l = (enum cpu_layout)(_i / 4);
	size_t k = 512;
	struct inputs in = make_inputs(k, 1);
	for (size_t i = 0; i < TOKENS * k; i++)
		in.x[i] = _i & 1 ? -1 : 1;
	for (size_t t = 0; t < TOKENS; t++)
		cpu_linear_scalar.quantise(in.x + t * k, k, in.q + t * act_stride(k));
	uint8_t *rows = rig_weights(layout_infos[l].type, GROUP, k, 0.05f, 5), *w = pack(l, rows, GROUP, k), *block = w;
	const struct layout_info *info = &layout_infos[l];
	for (size_t b = 0; b < k / BLOCK; b++, block += info->block) {
		if (info->header && b % (SUPER / BLOCK) == 0)
			block += info->header;
		// what the packed form can hold: codes of 5 and 6 bits stay below their limit
		int top = info->code_bits == 4 ? 0xFF : l == LAYOUT_Q6_K ? 63 : l == LAYOUT_Q8_0 ? 255 : 31;
		memset(block, _i & 2 ? top : 0, info->code_bits == 4 ? NIBBLES : BYTES);
	}
	assert_same_tiles(l, w, &in);
	free(rows);
	free(w);
	free_inputs(&in);
}
END_TEST

// --- against golden data: y = W · x in float64

static void check_tensor(const struct gguf_tensor *t, json_t *golden, const struct inputs *in)
{
	int l = 0;
	while (layout_infos[l].type != t->type)
		l++;
	uint8_t *w = pack((enum cpu_layout)l, t->data, 4, in->k);
	float *c = aligned(GROUP * sizeof(float));
	for (int i = 0; i < N_ISAS; i++) {
		if (!isa_here(i))
			continue;
		multiply(isa_here(i)->linear, (enum cpu_layout)l, w, in, 1, c);
		for (size_t r = 0; r < 4; r++) {
			double y = json_number_value(json_array_get(json_object_get(golden, "y"), r));
			double limit = json_number_value(json_array_get(json_object_get(golden, "abs_sum"), r));
			limit *= l < N_INT_LAYOUTS ? 0.004 : 1e-6;
			ck_assert_msg(fabs((double)c[r] - y) <= limit, "%s row %zu on %s: %g, not %g ± %g", t->name, r,
						  isa_here(i)->name, (double)c[r], y, limit);
		}
		for (size_t r = 4; r < GROUP; r++)
			ck_assert_msg(c[r] == 0, "%s: padding row %zu is %g", t->name, r, (double)c[r]);
	}
	free(c);
	free(w);
}

START_TEST(products_are_golden)
{
	struct gguf *g;
	char err[300] = "";
	json_error_t e;
	json_t *index = json_load_file("tests/golden/quant/index.json", 0, &e), *golden;
	size_t i, found = 0;
	struct inputs in = make_inputs(512, 1);
	FILE *f = fopen("tests/golden/quant/x.f32", "rb");
	ck_assert(index && f);
	ck_assert_uint_eq(fread(in.x, sizeof(float), in.k, f), in.k);
	fclose(f);
	cpu_linear_scalar.quantise(in.x, in.k, in.q);
	ck_assert_msg(!gguf_open("tests/golden/quant/types.gguf", &g, err, sizeof err), "%s", err);
	json_array_foreach(json_object_get(index, "tensors"), i, golden)
	{
		const char *name = json_string_value(json_object_get(golden, "tensor"));
		for (size_t k = 0; k < gguf_n_tensors(g); k++)
			if (!strcasecmp(gguf_tensor_at(g, k)->name, name) && ++found)
				check_tensor(gguf_tensor_at(g, k), golden, &in);
	}
	ck_assert_uint_eq(found, gguf_n_tensors(g));
	gguf_close(g);
	json_decref(index);
	free_inputs(&in);
}
END_TEST

// --- work on rows

enum { ROW = 1000 };

static const struct vector *make_vector(uint32_t seed)
{
	struct vector *v = aligned(sizeof *v + (ROW + 16) * sizeof(float));
	v->n = ROW;
	rig_fill(v->v, ROW, seed);
	return v;
}

START_TEST(norms_agree)
{
	const struct vector *w = make_vector(1), *b = make_vector(2);
	float x[ROW], got[ROW], wanted[ROW];
	rig_fill(x, ROW, 3);
	for (int kind = NORM_RMS; kind <= NORM_LAYER; kind++)
		for (size_t d = 1; d <= ROW; d += d < 70 ? 1 : 93) {
			struct norm n = {(enum norm_kind)kind, 1e-6f, w, kind == NORM_LAYER ? b : NULL};
			double mean = 0, sq = 0;
			for (size_t i = 0; i < d && kind == NORM_LAYER; i++)
				mean += (double)x[i] / (double)d;
			for (size_t i = 0; i < d; i++)
				sq += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)d;
			cpu_linear_scalar.norm(&n, x, d, wanted);
			for (size_t i = 0; i < d; i++) {
				double y = ((double)x[i] - mean) / sqrt(sq + 1e-6) * (double)w->v[i] + (n.b ? (double)b->v[i] : 0);
				// One value alone is its own mean: then only the noise of the mean is left.
				ck_assert_double_le(fabs((double)wanted[i] - y), d < 2 ? 1e-3 : 2e-5 * (1 + fabs(y)));
			}
			for (int i = 1; i < N_ISAS; i++) {
				if (!isa_here(i))
					continue;
				memcpy(got, x, sizeof got); // in place
				isa_here(i)->linear->norm(&n, got, d, got);
				ck_assert_msg(!memcmp(got, wanted, d * sizeof *got), "%s, %zu values", isa_here(i)->name, d);
			}
		}
	free((void *)(uintptr_t)w);
	free((void *)(uintptr_t)b);
}
END_TEST

START_TEST(quantising_rounds_to_nearest)
{
	float x[4 * BLOCK];
	struct act_block q[4], other[4];
	rig_fill(x, 4 * BLOCK, 9);
	memset(x + BLOCK, 0, BLOCK * sizeof *x);
	for (int i = 0; i < BLOCK; i++)
		x[3 * BLOCK + i] = 1e-36f * (float)i; // 127 / max overflows
	memset(q, 0xFF, sizeof q);
	cpu_linear_scalar.quantise(x, 4 * BLOCK, q);
	for (int b = 0; b < 4; b++) {
		int sum = 0, first = 0;
		float max = 0;
		for (int i = 0; i < BLOCK; i++) {
			max = fmaxf(max, fabsf(x[b * BLOCK + i]));
			sum += q[b].q[i];
			first += i < BLOCK / 2 ? q[b].q[i] : 0;
			double error = fabs((double)q[b].d * q[b].q[i] - (double)x[b * BLOCK + i]);
			ck_assert_double_le(error, (double)q[b].d * 0.5001 + 1e-34);
		}
		ck_assert(q[b].d == (b == 1 || b == 3 ? 0 : max / 127));
		ck_assert(q[b].d_sum == q[b].d * (float)sum);
		ck_assert_int_eq(q[b].zero8, -8 * sum);
		ck_assert_int_eq(q[b].zero16, -16 * sum);
		ck_assert_int_eq(q[b].zero128, -128 * sum);
		ck_assert_int_eq(q[b].zero32[0], -32 * first);
		ck_assert_int_eq(q[b].zero32[1], -32 * (sum - first));
	}
	for (int i = 1; i < N_ISAS; i++) {
		memset(other, 0xFF, sizeof other);
		if (isa_here(i))
			isa_here(i)->linear->quantise(x, 4 * BLOCK, other);
		ck_assert_msg(!isa_here(i) || !memcmp(other, q, sizeof q), "%s", isa_here(i)->name);
	}
}
END_TEST

START_TEST(a_nan_is_not_lost)
{
	float x[BLOCK];
	struct act_block q;
	for (int i = 0; i < N_ISAS; i++) {
		if (!isa_here(i))
			continue;
		rig_fill(x, BLOCK, 1);
		x[7] = NAN;
		isa_here(i)->linear->quantise(x, BLOCK, &q);
		ck_assert(isnan(q.d));
		x[7] = INFINITY;
		isa_here(i)->linear->quantise(x, BLOCK, &q);
		ck_assert(!isfinite(q.d));
	}
}
END_TEST

static double activation(enum activation act, double x)
{
	double t = 0.7978845608028654 * (x + 0.044715 * x * x * x);
	return act == ACT_SILU		  ? x / (1 + exp(-x))
		   : act == ACT_GELU_TANH ? 0.5 * x * (1 + tanh(t))
								  : 0.5 * x * (1 + erf(x / sqrt(2)));
}

// Over the whole range where they bend: within 3e-7 of the value or of zero.
START_TEST(activations_are_exact)
{
	float *gate = aligned(GROUP * sizeof(float)), y[GROUP], wanted[GROUP];
	for (int act = ACT_SILU; act <= ACT_GELU_ERF; act++)
		for (int from = -30000; from < 30000; from += GROUP) {
			for (int i = 0; i < GROUP; i++)
				gate[i] = (float)(from + i) * (abs(from) > 20000 ? 0.01f : 0.0005f);
			for (int i = 0; i < N_ISAS; i++) {
				if (!isa_here(i))
					continue;
				struct cpu_hidden h = {.gate = gate, .n = 1, .cols = GROUP, .act = (enum activation)act, .y = y};
				isa_here(i)->linear->hidden(&h);
				for (int k = 0; k < GROUP && !i; k++) {
					double v = activation((enum activation)act, (double)gate[k]);
					if (!(fabs((double)y[k] - v) <= 3e-7 * (1 + fabs(v)))) // each ck_assert writes a message
						ck_abort_msg("activation %d of %g: %g, not %g", act, (double)gate[k], (double)y[k], v);
				}
				if (!i)
					memcpy(wanted, y, sizeof y);
				ck_assert_msg(!memcmp(wanted, y, sizeof y), "activation %d on %s", act, isa_here(i)->name);
			}
		}
	free(gate);
}
END_TEST

// Results of every width: nothing is written past the columns that are meant, and all instruction sets agree.
START_TEST(tiles_are_stored_as_meant)
{
	float *c = aligned(3 * GROUP * sizeof(float)), bias[GROUP];
	rig_fill(c, 3 * GROUP, 4);
	rig_fill(bias, GROUP, 5);
	size_t cols = (size_t)_i;
	for (int mode = 0; mode < 8; mode++)
		for (int i = 0; i < N_ISAS; i++) {
			float y[3 * 40], old[3 * 40];
			if (!isa_here(i))
				continue;
			rig_fill(y, 3 * 40, 6);
			memcpy(old, y, sizeof y);
			struct cpu_columns s = {.c = c,
									.n = 3,
									.cols = cols,
									.bias = mode & 1 ? bias : NULL,
									.softcap = mode & 4 ? 2 : 0,
									.residual = mode & 2,
									.y = y,
									.stride = 40};
			isa_here(i)->linear->store(&s);
			for (size_t k = 0; k < 3 * 40; k++) {
				size_t t = k / 40, col = k % 40;
				if (col >= cols) {
					ck_assert_msg(y[k] == old[k], "column %zu of %zu was written", col, cols);
					continue;
				}
				float v = c[t * GROUP + col] + (mode & 1 ? bias[col] : 0);
				double capped = mode & 4 ? 2 * tanh((double)v / 2) : (double)v;
				double wanted = capped + (mode & 2 ? (double)old[k] : 0);
				ck_assert_msg(fabs((double)y[k] - wanted) <= 2e-6 * (1 + fabs(wanted)), "%g, not %g", (double)y[k],
							  wanted);
				if (!(mode & 4))
					ck_assert(y[k] == (mode & 2 ? v + old[k] : v));
			}
		}
	free(c);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("linear");
	TCase *c = tcase_create("linear");
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, packing_loses_nothing, 0, N_LAYOUTS);
	tcase_add_loop_test(c, tiles_have_the_bits_of_plain_c, 0, N_LAYOUTS);
	tcase_add_loop_test(c, extreme_codes_do_not_overflow, 0, N_INT_LAYOUTS * 4);
	tcase_add_test(c, products_are_golden);
	tcase_add_test(c, norms_agree);
	tcase_add_test(c, quantising_rounds_to_nearest);
	tcase_add_test(c, a_nan_is_not_lost);
	tcase_add_test(c, activations_are_exact);
	tcase_add_loop_test(c, tiles_are_stored_as_meant, 1, GROUP + 1);
	suite_add_tcase(s, c);
	return s;
}
