// SPDX-License-Identifier: Apache-2.0
//
// Norm, rotation and append on every instruction set here: queries and cache against a double-precision loop, and byte
// for byte against the reference back end where no norm, whose sum rounds differently, comes first.
#include "kernels/dtype.h"
#include "tests/unit/kernels/attention_rig.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"ref", "avx512-vnni", "avx2", "scalar"};
enum { N_ISAS = sizeof isas / sizeof isas[0], LEN = 75 };

static const struct rig_options plain = {
	.threads = 2,
	.kv = KV_F32,
	.block_tokens = 16,
	.n_heads = 6,
	.n_kv_heads = 3,
	.head_dim = 64,
	.rope = ROPE_HALVES,
	.rope_dims = 64,
	.n_seqs = 1,
	.max_len = LEN,
	.max_tokens = LEN,
};

// --- what it should be

// Head h of the input row at pos: queries, then keys, then values, normed and rotated where that is due.
static void expect_head(const struct rig *r, int pos, int h, double *out)
{
	const struct rig_options *o = &r->o;
	int dh = o->head_dim, half = o->rope_dims / 2;
	double sum = 0, mag = r->rope.magnitude;
	for (int d = 0; d < dh; d++) {
		out[d] = rig_value(0, pos, h * dh + d);
		sum += out[d] * out[d];
	}
	if (h >= o->n_heads + o->n_kv_heads)
		return;
	for (int d = 0; o->norms && d < dh; d++)
		out[d] = out[d] / sqrt(sum / dh + 1e-6) * (1 + (double)rig_value(100, 0, d) / 2);
	for (int i = 0; o->rope != ROPE_NONE && i < half; i++) {
		int a = o->rope == ROPE_PAIRS ? 2 * i : i, b = o->rope == ROPE_PAIRS ? 2 * i + 1 : i + half;
		double angle = (double)((float)pos * r->inv_freq[i]), x = out[a], y = out[b];
		out[a] = (x * cos(angle) - y * sin(angle)) * mag;
		out[b] = (x * sin(angle) + y * cos(angle)) * mag;
	}
}

// Element d of token slot t of a block as read: K or V of a KV head.
static double cached(const struct rig *r, const void *block, int head, bool value, int d, int t)
{
	int dh = r->o.head_dim, b = r->o.block_tokens, at = (2 * head + value) * dh * b + (value ? t * dh + d : d * b + t);
	return (double)(r->o.kv == KV_F16 ? f16_to_f32(((const uint16_t *)block)[at]) : ((const float *)block)[at]);
}

static void check_row(const struct rig *r, const void *block, int pos, double tolerance)
{
	const struct rig_options *o = &r->o;
	int dh = o->head_dim, width = (o->n_heads + 2 * o->n_kv_heads) * dh;
	double want[MAX_HEAD_DIM];
	for (int h = 0; h < o->n_heads + 2 * o->n_kv_heads; h++) {
		int kv = h - o->n_heads;
		bool value = kv >= o->n_kv_heads;
		expect_head(r, pos, h, want);
		for (int d = 0; d < dh; d++) {
			double got = kv < 0 ? (double)r->qkv[(size_t)pos * (size_t)width + (size_t)(h * dh + d)]
								: cached(r, block, kv % o->n_kv_heads, value, d, pos % o->block_tokens);
			double half = kv >= 0 && o->kv == KV_F16 ? fabs(want[d]) * 0x1p-11 + 0x1p-25 : 0;
			if (!(fabs(got - want[d]) <= tolerance + half)) // an assertion that holds costs a system call
				ck_abort_msg("%s: position %d, head %d, dimension %d: %g, not %g", o->isa, pos, h, d, got, want[d]);
		}
	}
}

// All positions in one step, on every instruction set.
static void check(struct rig_options o)
{
	struct kv_shape shape = {.type = o.kv,
							 .block_tokens = o.block_tokens,
							 .n_layers = 1,
							 .n_kv_heads = {o.n_kv_heads},
							 .head_dim = {o.head_dim}};
	unsigned char *blocks[N_ISAS] = {0};
	int n_blocks = (LEN + o.block_tokens - 1) / o.block_tokens;
	for (int i = 0; i < N_ISAS; i++) {
		struct rig r;
		o.isa = isas[i];
		if (!rig_open(&r, &o))
			continue;
		size_t bytes = r.be->op->kv_block_bytes(r.be, &shape);
		blocks[i] = malloc(bytes * (size_t)n_blocks);
		rig_prefill(&r, 0, LEN, LEN, LEN);
		for (int b = 0; b < n_blocks; b++)
			r.be->op->kv_read_block(r.be, r.tables[0][b], blocks[i] + bytes * (size_t)b);
		for (int p = 0; p < LEN; p++)
			check_row(&r, blocks[i] + bytes * (size_t)(p / o.block_tokens), p, 1e-6 * (o.norms ? 3 : 1));
		if (!o.norms)
			ck_assert_msg(!memcmp(blocks[0], blocks[i], bytes * (size_t)n_blocks), "%s: the cache has other bytes",
						  isas[i]);
		rig_close(&r);
	}
	for (int i = 0; i < N_ISAS; i++)
		free(blocks[i]);
}

START_TEST(kinds)
{
	struct rig_options o = plain;
	o.rope = _i % 3 == 0 ? ROPE_NONE : _i % 3 == 1 ? ROPE_HALVES : ROPE_PAIRS;
	o.norms = _i / 3 % 2;
	o.kv = _i / 6 ? KV_F16 : KV_F32;
	check(o);
}
END_TEST

START_TEST(sizes)
{
	static const struct {
		int dh, rotated;
	} shapes[] = {{64, 32}, {128, 128}, {256, 256}, {96, 96}, {80, 20}, {24, 24},
				  {16, 16}, {8, 8},		{7, 6},		{2, 2},	  {20, 0}};
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		struct rig_options o = plain;
		o.head_dim = shapes[i].dh;
		o.rope_dims = shapes[i].rotated;
		o.rope = _i % 2 ? ROPE_PAIRS : ROPE_HALVES;
		o.norms = _i / 2;
		check(o);
	}
}
END_TEST

START_TEST(magnitude_and_blocks)
{
	static const int tokens[] = {16, 32, 64, 128, 256};
	struct rig_options o = plain;
	o.magnitude = 1.2079442f;
	o.block_tokens = tokens[_i];
	o.kv = _i % 2 ? KV_F16 : KV_F32;
	check(o);
}
END_TEST

// The same bytes in the cache however a prompt is cut, with norms, on any number of threads.
START_TEST(same_bytes)
{
	static const int chunks[] = {1, 5, 16, 33};
	for (size_t i = 1; i < N_ISAS; i++)
		for (size_t j = 0; j < sizeof chunks / sizeof chunks[0]; j++) {
			struct rig_options o = plain;
			struct rig a, b;
			o.isa = isas[i];
			o.norms = true;
			o.block_tokens = _i ? 64 : 16;
			o.threads = 1;
			if (!rig_open(&a, &o))
				continue;
			o.threads = 3;
			ck_assert(rig_open(&b, &o));
			struct kv_shape shape = {
				.type = o.kv, .block_tokens = o.block_tokens, .n_layers = 1, .n_kv_heads = {3}, .head_dim = {64}};
			size_t bytes = a.be->op->kv_block_bytes(a.be, &shape);
			unsigned char *one = malloc(bytes), *other = malloc(bytes);
			rig_prefill(&a, 0, LEN, LEN, LEN);
			rig_prefill(&b, 0, LEN, chunks[j], 0);
			for (int block = 0; block * o.block_tokens < LEN; block++) {
				a.be->op->kv_read_block(a.be, block, one);
				b.be->op->kv_read_block(b.be, block, other);
				ck_assert_msg(!memcmp(one, other, bytes), "%s in steps of %d: block %d", isas[i], chunks[j], block);
			}
			free(one);
			free(other);
			rig_close(&a);
			rig_close(&b);
		}
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("rope");
	TCase *c = tcase_create("append");
	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, kinds, 0, 12);
	tcase_add_loop_test(c, sizes, 0, 4);
	tcase_add_loop_test(c, magnitude_and_blocks, 0, 5);
	tcase_add_loop_test(c, same_bytes, 0, 2);
	suite_add_tcase(s, c);
	return s;
}
