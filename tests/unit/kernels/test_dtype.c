// SPDX-License-Identifier: Apache-2.0
//
// Storage types against values that two independent decoders agreed on (tests/golden/quant), and half precision against
// its definition, at every value and around every midpoint.
#include "engine/model/gguf.h"
#include "kernels/dtype.h"
#include "tests/unit/test.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, COLS = 512 };

static void read_floats(const char *path, float *out, size_t n)
{
	FILE *f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "%s", path);
	ck_assert_uint_eq(fread(out, sizeof *out, n, f), n);
	fclose(f);
}

START_TEST(test_decode_golden)
{
	static float want[ROWS * COLS], got[ROWS * COLS];
	struct gguf *g;
	char err[512] = "";
	ck_assert_msg(gguf_open("tests/golden/quant/types.gguf", &g, err, sizeof err) == 0, "%s", err);
	ck_assert_uint_eq(gguf_n_tensors(g), 22); // eleven types, random bytes and real values
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		char path[256], name[64] = "";
		for (size_t k = 0; t->name[k] && k < sizeof name - 1; k++)
			name[k] = (char)tolower((unsigned char)t->name[k]);
		snprintf(path, sizeof path, "tests/golden/quant/%s.f32", name);
		read_floats(path, want, ROWS * COLS);
		ck_assert_uint_eq(t->dim[0], COLS);
		ck_assert_uint_eq(t->dim[1], ROWS);
		dtype_decode(t->type, t->data, ROWS * COLS, got);
		for (int k = 0; k < ROWS * COLS; k++)
			ck_assert_msg(!memcmp(&want[k], &got[k], sizeof got[k]), "%s value %d: %a is wanted, not %a", t->name, k,
						  (double)want[k], (double)got[k]);
	}
	gguf_close(g);
}
END_TEST

// By the standard's formula: (-1)^s · 2^(e-15) · (1 + f/1024), subnormals 2^-14 · f/1024.
static double half_value(uint16_t h)
{
	int exp = h >> 10 & 31, frac = h & 1023;
	double v = exp ? ldexp(1024 + frac, exp - 25) : ldexp(frac, -24);
	return h & 0x8000 ? -v : v;
}

START_TEST(test_half_to_float)
{
	for (uint32_t h = 0; h < 65536; h++) {
		float f = f16_to_f32((uint16_t)h);
		if ((h & 0x7C00) != 0x7C00) {
			ck_assert_msg((double)f == half_value((uint16_t)h), "%04x: %a", h, (double)f);
			ck_assert_int_eq(!!signbit(f), h >> 15);
		} else if (h & 0x3FF) {
			ck_assert_msg(isnan(f), "%04x: %a", h, (double)f);
			ck_assert_msg(isnan(f16_to_f32(f32_to_f16(f))), "%04x", h);
			continue;
		} else {
			ck_assert_msg(isinf(f) && !!signbit(f) == h >> 15, "%04x", h);
		}
		ck_assert_msg(f32_to_f16(f) == h, "%04x comes back as %04x", h, f32_to_f16(f));
	}
}
END_TEST

static void check_round(float f, uint32_t want)
{
	ck_assert_msg(f32_to_f16(f) == want, "%a becomes %04x, %04x is wanted", (double)f, f32_to_f16(f), want);
	ck_assert_msg(f32_to_f16(-f) == (want | 0x8000), "%a becomes %04x, %04x is wanted", -(double)f, f32_to_f16(-f),
				  want | 0x8000);
}

START_TEST(test_float_to_half_rounds_to_even)
{
	for (uint32_t h = 0; h < 0x7BFF; h++) {
		float mid = (float)((half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2); // exact
		check_round(nextafterf(mid, 0), h);
		check_round(mid, h & 1 ? h + 1 : h);
		check_round(nextafterf(mid, INFINITY), h + 1);
	}
	check_round(nextafterf(65520, 0), 0x7BFF); // 65504, the largest
	check_round(65520, 0x7C00);
	check_round(3e38F, 0x7C00);
	check_round(INFINITY, 0x7C00);
	check_round(1e-45F, 0);
	ck_assert(isnan(f16_to_f32(f32_to_f16(NAN))));
}
END_TEST

START_TEST(test_bf16)
{
	ck_assert_float_eq(bf16_to_f32(0x3F80), 1.0F);
	ck_assert_float_eq(bf16_to_f32(0xC2F7), -123.5F);
	ck_assert(isinf(bf16_to_f32(0x7F80)) && isnan(bf16_to_f32(0x7FC0)));
	ck_assert_msg(bf16_to_f32(0x0001) == 0x1p-133F, "a subnormal is kept");
}
END_TEST

START_TEST(test_names_and_sizes)
{
	static const struct {
		uint32_t type;
		const char *name;
		unsigned block, bytes; // 0: known by name only
	} all[] = {{0, "F32", 1, 4},	   {1, "F16", 1, 2},		 {2, "Q4_0", 32, 18},	 {3, "Q4_1", 32, 20},
			   {6, "Q5_0", 32, 22},	   {7, "Q5_1", 32, 24},		 {8, "Q8_0", 32, 34},	 {9, "Q8_1", 0, 0},
			   {10, "Q2_K", 0, 0},	   {11, "Q3_K", 0, 0},		 {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},
			   {14, "Q6_K", 256, 210}, {17, "IQ2_XS", 0, 0},	 {28, "F64", 0, 0},		 {30, "BF16", 1, 2},
			   {34, "TQ1_0", 0, 0},	   {36, "IQ4_NL_4_4", 0, 0}, {39, "MXFP4", 0, 0},	 {40, "NVFP4", 0, 0}};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const struct dtype_info *info = dtype_info(all[i].type);
		size_t bytes = 0;
		ck_assert_str_eq(dtype_name(all[i].type), all[i].name);
		ck_assert_int_eq(info != NULL, all[i].block > 0);
		ck_assert_int_eq(dtype_row_bytes(all[i].type, 512, &bytes), all[i].block > 0);
		if (!info)
			continue;
		ck_assert_uint_eq(info->block, all[i].block);
		ck_assert_uint_eq(info->bytes, all[i].bytes);
		ck_assert_uint_eq(bytes, 512 / all[i].block * all[i].bytes);
		ck_assert_int_eq(dtype_row_bytes(all[i].type, info->block + 1, &bytes), info->block == 1);
		ck_assert(!dtype_row_bytes(all[i].type, UINT64_MAX / 256 * 256, &bytes) || all[i].block > all[i].bytes);
	}
	for (uint32_t type = 0; type < 43; type++)
		ck_assert_msg(dtype_name(type) != NULL, "type %u has no name", type);
	ck_assert_ptr_null(dtype_name(43));
	ck_assert_ptr_null(dtype_name(UINT32_MAX));
	ck_assert_ptr_null(dtype_info(UINT32_MAX));
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("dtype");
	TCase *c = tcase_create("dtype");
	tcase_add_test(c, test_decode_golden);
	tcase_add_test(c, test_half_to_float);
	tcase_add_test(c, test_float_to_half_rounds_to_even);
	tcase_add_test(c, test_bf16);
	tcase_add_test(c, test_names_and_sizes);
	suite_add_tcase(s, c);
	return s;
}
