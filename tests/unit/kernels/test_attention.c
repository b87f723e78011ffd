// SPDX-License-Identifier: Apache-2.0
//
// Attention on every instruction set this machine has: near the reference back end, and bit for bit the same however a
// step is cut, batched, threaded or placed in memory.
#include "tests/unit/kernels/attention_rig.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"avx512-vnni", "avx2", "scalar"};
enum { N_ISAS = sizeof isas / sizeof isas[0], HALF_NAN = 0x7E00, HALF_INF = 0x7C00 };

static const struct rig_options plain = {
	.threads = 2,
	.kv = KV_F16,
	.block_tokens = 16,
	.n_heads = 9,
	.n_kv_heads = 3,
	.head_dim = 64,
	.rope = ROPE_HALVES,
	.rope_dims = 64,
	.n_seqs = 1,
	.max_len = 400,
	.max_tokens = 400,
	.sharpness = 8,
	.garbage = HALF_NAN,
};

static double largest_difference(const struct rig *a, const struct rig *b, int s, int from, int to)
{
	double worst = 0;
	for (int p = from; p < to; p++)
		for (int i = 0; i < rig_width(a); i++) {
			double d = fabs((double)rig_row(a, s, p)[i] - (double)rig_row(b, s, p)[i]);
			worst = d <= worst ? worst : d; // NaN counts as worst
		}
	return worst;
}

static void assert_same_rows(const struct rig *a, const struct rig *b, int s, int from, int to, const char *what)
{
	for (int p = from; p < to; p++)
		if (memcmp(rig_row(a, s, p), rig_row(b, s, p), (size_t)rig_width(a) * sizeof(float)))
			ck_abort_msg("%s %s: sequence %d, position %d of %d … %d has other bits", a->o.isa, what, s, p, from, to);
}

// Positions from … len - 1 of one sequence, computed in steps of `chunk`, against the reference back end.
static void compare_with_ref(struct rig_options o, int len, int chunk, int from, double tolerance)
{
	struct rig ref, cpu;
	o.max_len = len;
	o.max_tokens = len < 300 ? len : 300;
	struct rig_options reference = o;
	reference.isa = "ref";
	ck_assert(rig_open(&ref, &reference));
	rig_prefill(&ref, 0, len, chunk, from);
	for (int i = 0; i < N_ISAS; i++) {
		o.isa = isas[i];
		if (!rig_open(&cpu, &o))
			continue;
		rig_prefill(&cpu, 0, len, chunk, from);
		double worst = largest_difference(&ref, &cpu, 0, from, len);
		ck_assert_msg(worst <= tolerance,
					  "%s: heads %d/%d of %d, window %d, cap %g, positions %d … %d by %d: %g away from the reference",
					  isas[i], o.n_heads, o.n_kv_heads, o.head_dim, o.window, (double)o.softcap, from, len, chunk,
					  worst);
		rig_close(&cpu);
	}
	rig_close(&ref);
}

// A value is at most 1; float32 scores of about 8 are 5e-7 away, and so is their exponential, relatively.
static const double NEAR = 4e-6;

START_TEST(every_group_size)
{
	struct rig_options o = plain;
	o.n_kv_heads = _i % 2 ? 1 : 2;
	o.n_heads = (_i + 1) * o.n_kv_heads;
	compare_with_ref(o, 60, 21, 0, NEAR);
	compare_with_ref(o, 290, 1, 280, NEAR);
}
END_TEST

START_TEST(every_head_size)
{
	static const int sizes[] = {1, 2, 7, 8, 16, 20, 24, 32, 40, 48, 64, 72, 80, 96, 112, 128, 160, 192, 256};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct rig_options o = plain;
		o.head_dim = sizes[i];
		o.rope_dims = sizes[i] / 2 * 2;
		o.kv = _i % 2 ? KV_F32 : KV_F16;
		o.n_heads = _i < 2 ? 3 : 8;
		o.n_kv_heads = _i < 2 ? 3 : 1;
		compare_with_ref(o, 40, 33, 0, NEAR);
	}
}
END_TEST

START_TEST(windows)
{
	static const int sizes[] = {1, 2, 5, 16, 17, 100, 255, 256, 257, 300};
	struct rig_options o = plain;
	o.n_heads = _i % 2 ? 4 : 1;
	o.n_kv_heads = 1;
	o.head_dim = 16;
	o.rope_dims = 16;
	o.window = sizes[_i];
	compare_with_ref(o, 620, 37, 0, NEAR);
	compare_with_ref(o, 1100, 1, 1090, NEAR);
}
END_TEST

START_TEST(soft_caps)
{
	static const float caps[] = {0.5f, 4, 30, 50};
	struct rig_options o = plain;
	o.softcap = caps[_i];
	o.window = _i % 2 ? 0 : 40;
	o.sharpness = _i == 2 ? 1000 : 8; // far beyond the cap too; there a score's rounding is as large as the cap allows
	compare_with_ref(o, 300, 64, 250, _i == 2 ? 2e-5 : NEAR);
}
END_TEST

START_TEST(long_contexts)
{
	static const int lens[] = {255, 256, 257, 511, 513, 1024, 2049, 3000};
	struct rig_options o = plain;
	compare_with_ref(o, lens[_i], 5, lens[_i] - 5, NEAR);
	o.kv = KV_F32;
	o.block_tokens = 64;
	o.n_heads = 3;
	o.head_dim = 128;
	compare_with_ref(o, lens[_i], 1, lens[_i] - 2, NEAR);
}
END_TEST

START_TEST(every_step_size)
{
	struct rig_options o = plain;
	o.n_heads = 3;
	o.n_kv_heads = 1;
	o.head_dim = 16;
	o.rope_dims = 16;
	for (int n = 1; n <= 300; n += n < 40 ? 1 : 23)
		compare_with_ref(o, n, n, 0, NEAR);
}
END_TEST

// Two published models' shapes, and more heads a KV head than a tile has rows.
START_TEST(known_shapes)
{
	struct rig_options gemma = plain, llama = plain, many = plain;
	gemma.n_heads = 4;
	gemma.n_kv_heads = 1;
	gemma.head_dim = gemma.rope_dims = 256;
	gemma.window = 512;
	compare_with_ref(gemma, 700, 50, 600, NEAR);
	llama.n_heads = 32;
	llama.n_kv_heads = 8;
	compare_with_ref(llama, 100, 50, 50, NEAR);
	many.n_heads = _i + 16;
	many.n_kv_heads = 1;
	compare_with_ref(many, 40, 3, 30, NEAR);
}
END_TEST

// --- the same bits

static void same_when_chunked(struct rig_options o, int len, const char *what)
{
	static const int chunks[] = {1, 7, 16, 64};
	struct rig whole, cut;
	o.max_len = o.max_tokens = len;
	o.threads = 1;
	if (!rig_open(&whole, &o))
		return;
	rig_prefill(&whole, 0, len, len, 0);
	for (int t = 1; t <= 3; t++)
		for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
			o.threads = t;
			o.shuffle = t + (int)i;
			ck_assert(rig_open(&cut, &o));
			rig_prefill(&cut, 0, len, chunks[i], 0);
			assert_same_rows(&whole, &cut, 0, 0, len, what);
			rig_close(&cut);
		}
	rig_close(&whole);
}

START_TEST(chunked_prompts)
{
	struct rig_options o = plain;
	o.isa = isas[_i];
	same_when_chunked(o, 300, "9/3 heads of 64");
	o.norms = true;
	o.softcap = 20;
	o.window = 50;
	same_when_chunked(o, 150, "9/3 heads of 64, norms, cap, window 50");
	o = plain;
	o.isa = isas[_i];
	o.n_heads = 4;
	o.n_kv_heads = 1;
	o.head_dim = 24;
	o.rope_dims = 24;
	o.block_tokens = 32;
	o.kv = KV_F32;
	o.window = 270;
	same_when_chunked(o, 600, "4/1 heads of 24 in float32, window 270");
	for (int g = 1; g <= 8; g++) {
		o.n_heads = g;
		o.head_dim = o.rope_dims = g % 2 ? 16 : 80;
		o.kv = KV_F16;
		o.window = g % 3 ? 0 : 7;
		same_when_chunked(o, 70, "every group size");
	}
}
END_TEST

// Long contexts split into spans of chunks when few sequences decode, and not when many do.
START_TEST(split_contexts)
{
	struct rig_options o = plain;
	struct rig one, many;
	o.isa = isas[_i];
	o.max_len = 1700;
	o.n_seqs = 4;
	o.threads = 1;
	if (!rig_open(&one, &o))
		return;
	for (int s = 0; s < 4; s++)
		rig_prefill(&one, s, 1700 - s * 450, 3, 1690 - s * 450);
	for (int t = 2; t <= 3; t++)
		for (int alone = 0; alone < 2; alone++) {
			o.threads = t;
			ck_assert(rig_open(&many, &o));
			for (int s = 0; s < 4; s++)
				rig_prefill(&many, s, 1690 - s * 450, 1, 1690 - s * 450);
			for (int step = 0; step < 10; step++)
				for (int s = 0; s < 4; s++) {
					rig_add(&many, s, 1);
					if (alone || s == 3)
						rig_run(&many, true);
				}
			for (int s = 0; s < 4; s++)
				assert_same_rows(&one, &many, s, 1690 - s * 450, 1700 - s * 450, alone ? "alone" : "together");
			rig_close(&many);
		}
	rig_close(&one);
}
END_TEST

// Prompts and decodes of several sequences in one step, some of which come and go.
START_TEST(batch_mates)
{
	struct rig_options o = plain;
	struct rig alone, mixed;
	o.isa = isas[_i];
	o.n_seqs = RIG_SEQS;
	o.threads = 2;
	if (!rig_open(&alone, &o))
		return;
	for (int s = 0; s < RIG_SEQS; s++)
		rig_prefill(&alone, s, 300, 300, 0);
	o.shuffle = 3;
	ck_assert(rig_open(&mixed, &o));
	for (int step = 0; mixed.len[0] < 300; step++) {
		for (int s = 0; s < RIG_SEQS; s++) {
			int want = (step + s) % 3 ? 1 + (s * 7 + step * 5) % 45 : s % 2, left = 300 - mixed.len[s];
			if (want && left && (s != 4 || step > 3))
				rig_add(&mixed, s, want < left ? want : left);
		}
		if (mixed.n_step)
			rig_run(&mixed, true);
	}
	for (int s = 0; s < RIG_SEQS; s++)
		assert_same_rows(&alone, &mixed, s, 0, mixed.len[s], "mixed");
	rig_close(&mixed);
	rig_close(&alone);
}
END_TEST

// What a recycled block held, and what lies past the end or above the diagonal, must not matter: not even NaN and
// infinities.
START_TEST(old_bits)
{
	static const uint16_t old[] = {HALF_NAN, HALF_INF, 0xFC00, 0xFFFF, 0x0001};
	struct rig_options o = plain;
	struct rig clean, dirty;
	o.isa = isas[_i];
	o.garbage = 0;
	o.window = 20;
	o.kv = _i % 2 ? KV_F32 : KV_F16;
	if (!rig_open(&clean, &o))
		return;
	rig_prefill(&clean, 0, 70, 70, 0);
	for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) {
		o.garbage = old[i];
		ck_assert(rig_open(&dirty, &o));
		rig_prefill(&dirty, 0, 70, 9, 0);
		assert_same_rows(&clean, &dirty, 0, 0, 70, "old bits");
		rig_close(&dirty);
	}
	rig_close(&clean);
}
END_TEST

// A later token whose key and value overflow to infinity must not reach an earlier row of the same tile, nor a row
// whose window has left it behind.
START_TEST(infinite_neighbours)
{
	enum { BAD = 37, LEN = 60, WINDOW = 10 };
	struct rig_options o = plain;
	struct rig good, bad;
	o.isa = isas[_i];
	o.n_heads = 1;
	o.n_kv_heads = 1;
	o.window = WINDOW;
	if (!rig_open(&good, &o))
		return;
	ck_assert(rig_open(&bad, &o));
	rig_prefill(&good, 0, LEN, LEN, 0);
	int32_t block = bad.tables[0][BAD / 16];
	struct kv_shape shape = {.type = KV_F16, .block_tokens = 16, .n_layers = 1, .n_kv_heads = {1}, .head_dim = {64}};
	uint16_t *bytes = malloc(bad.be->op->kv_block_bytes(bad.be, &shape));
	rig_prefill(&bad, 0, LEN, LEN, LEN);
	bad.be->op->kv_read_block(bad.be, block, bytes);
	for (int d = 0; d < 64; d++)
		bytes[d * 16 + BAD % 16] = bytes[64 * 16 + BAD % 16 * 64 + d] = d % 2 ? HALF_INF : 0xFC00;
	bad.be->op->kv_write_block(bad.be, block, bytes);
	bad.be->op->attend(bad.be, &bad.a); // of the step that appended everything
	for (int p = 0; p < LEN; p++) {
		bool sees = p >= BAD && p < BAD + WINDOW;
		bool same = !memcmp(rig_row(&good, 0, p), bad.attn + (size_t)p * 64, 64 * sizeof(float));
		ck_assert_msg(same != sees, "%s: position %d %s", o.isa, p, sees ? "does not see it" : "sees it");
	}
	free(bytes);
	rig_close(&bad);
	rig_close(&good);
}
END_TEST

// One visible position: the output is its V, exactly.
START_TEST(single_position)
{
	struct rig_options o = plain;
	struct rig r;
	o.isa = isas[_i];
	o.kv = KV_F32;
	o.window = 1;
	if (!rig_open(&r, &o))
		return;
	rig_prefill(&r, 0, 40, 40, 0);
	for (int p = 0; p < 40; p++)
		for (int h = 0; h < 9; h++)
			for (int d = 0; d < 64; d++)
				if (rig_row(&r, 0, p)[h * 64 + d] != rig_value(0, p, (9 + 3 + h / 3) * 64 + d))
					ck_abort_msg("%s: position %d, head %d, dimension %d", o.isa, p, h, d);
	rig_close(&r);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("attention");
	TCase *near = tcase_create("near the reference"), *same = tcase_create("the same bits");
	tcase_set_timeout(near, 60);
	tcase_add_loop_test(near, every_group_size, 0, 9);
	tcase_add_loop_test(near, every_head_size, 0, 4);
	tcase_add_loop_test(near, windows, 0, 10);
	tcase_add_loop_test(near, soft_caps, 0, 4);
	tcase_add_loop_test(near, long_contexts, 0, 8);
	tcase_add_test(near, every_step_size);
	tcase_add_loop_test(near, known_shapes, 0, 2);
	suite_add_tcase(s, near);
	tcase_set_timeout(same, 60);
	tcase_add_loop_test(same, chunked_prompts, 0, N_ISAS);
	tcase_add_loop_test(same, split_contexts, 0, N_ISAS);
	tcase_add_loop_test(same, batch_mates, 0, N_ISAS);
	tcase_add_loop_test(same, old_bits, 0, N_ISAS);
	tcase_add_loop_test(same, infinite_neighbours, 0, N_ISAS);
	tcase_add_loop_test(same, single_position, 0, N_ISAS);
	suite_add_tcase(s, same);
	return s;
}
