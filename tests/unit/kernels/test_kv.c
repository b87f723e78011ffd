// SPDX-License-Identifier: Apache-2.0
//
// KV blocks of the CPU back end: what is refused, where a value lies, and that copying some tokens touches nothing
// else.
#include "engine/base/err.h"
#include "kernels/backend.h"
#include "tests/unit/kernels/attention_rig.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// Three layers that differ in everything, one head size no multiple of 8.
static struct kv_shape three_layers(enum kv_dtype type, int block_tokens)
{
	return (struct kv_shape){
		.type = type, .block_tokens = block_tokens, .n_layers = 3, .n_kv_heads = {1, 3, 2}, .head_dim = {64, 12, 7}};
}

static struct backend *open_cache(const struct kv_shape *shape, size_t n_blocks)
{
	struct backend *be;
	char err[200] = "";
	ck_assert_msg(!cpu_backend_create(1, NULL, &be, err, sizeof err), "%s", err);
	ck_assert_msg(!be->op->kv_create(be, shape, n_blocks, err, sizeof err), "%s", err);
	return be;
}

static size_t element(const struct kv_shape *s)
{
	return s->type == KV_F16 ? 2 : 4;
}

// Byte i of a block that is called `name`.
static unsigned char byte_of(int name, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + (size_t)name * 101);
}

static void fill(struct backend *be, const struct kv_shape *shape, int block, int name)
{
	size_t n = be->op->kv_block_bytes(be, shape);
	unsigned char *bytes = malloc(n);
	for (size_t i = 0; i < n; i++)
		bytes[i] = byte_of(name, i);
	be->op->kv_write_block(be, block, bytes);
	free(bytes);
}

// Which token each byte of a block belongs to, by the layout of shapes.h; block_tokens for padding.
static int *token_of_bytes(const struct kv_shape *s, size_t n)
{
	int *tokens = malloc(n * sizeof *tokens), b = s->block_tokens;
	size_t at = 0, e = element(s);
	for (int l = 0; l < s->n_layers; l++)
		for (int h = 0; h < s->n_kv_heads[l]; h++) {
			for (int d = 0; d < s->head_dim[l]; d++) // K [Dh][B]
				for (int t = 0; t < b; t++)
					for (size_t i = 0; i < e; i++)
						tokens[at++] = t;
			for (int t = 0; t < b; t++) // V [B][Dh]
				for (size_t i = 0; i < e * (size_t)s->head_dim[l]; i++)
					tokens[at++] = t;
		}
	ck_assert(at <= n);
	while (at < n)
		tokens[at++] = b;
	return tokens;
}

START_TEST(block_bytes)
{
	struct kv_shape s = three_layers(_i ? KV_F32 : KV_F16, 16);
	struct backend *be = open_cache(&s, 1);
	size_t values = 2 * 16 * (64 + 3 * 12 + 2 * 7);
	ck_assert_uint_eq(be->op->kv_block_bytes(be, &s), (values * element(&s) + 63) / 64 * 64);
	be->op->destroy(be);
}
END_TEST

START_TEST(whole_blocks)
{
	struct kv_shape s = three_layers(KV_F16, 32);
	struct backend *be = open_cache(&s, 3);
	size_t n = be->op->kv_block_bytes(be, &s);
	unsigned char *bytes = malloc(n);
	for (int b = 0; b < 3; b++)
		fill(be, &s, b, b);
	for (int b = 0; b < 3; b++) {
		be->op->kv_read_block(be, b, bytes);
		for (size_t i = 0; i < n; i++)
			if (bytes[i] != byte_of(b, i))
				ck_abort_msg("block %d, byte %zu", b, i);
	}
	free(bytes);
	be->op->destroy(be);
}
END_TEST

// n tokens for every n: theirs are the source's, all others the destination's own, and the neighbours are untouched.
START_TEST(copied_tokens)
{
	static const int sizes[] = {16, 32, 64};
	struct kv_shape s = three_layers(_i % 2 ? KV_F32 : KV_F16, sizes[_i / 2]);
	struct backend *be = open_cache(&s, 4);
	size_t n = be->op->kv_block_bytes(be, &s);
	int *tokens = token_of_bytes(&s, n);
	unsigned char *bytes = malloc(n);
	for (int copied = 0; copied <= s.block_tokens; copied++) {
		for (int b = 0; b < 4; b++)
			fill(be, &s, b, b);
		be->op->kv_copy_tokens(be, 2, 1, copied);
		for (int b = 0; b < 4; b++) {
			be->op->kv_read_block(be, b, bytes);
			for (size_t i = 0; i < n; i++) {
				int from = b == 1 && tokens[i] < copied ? 2 : b;
				if (bytes[i] != byte_of(from, i))
					ck_abort_msg("%d tokens: block %d, byte %zu", copied, b, i);
			}
		}
	}
	free(bytes);
	free(tokens);
	be->op->destroy(be);
}
END_TEST

// A copied head of a block is as good as the original: the sequence goes on in the copy with the same bits.
START_TEST(fork_in_a_block)
{
	struct rig_options o = {.threads = 1,
							.block_tokens = 16,
							.n_heads = 4,
							.n_kv_heads = 2,
							.head_dim = 32,
							.rope = ROPE_HALVES,
							.rope_dims = 32,
							.n_seqs = 2,
							.max_len = 60,
							.max_tokens = 60,
							.garbage = 0x7E00};
	struct rig whole, forked;
	ck_assert(rig_open(&whole, &o) && rig_open(&forked, &o));
	rig_prefill(&whole, 0, 60, 60, 0);
	rig_prefill(&forked, 0, 37, 37, 0);
	forked.be->op->kv_copy_tokens(forked.be, forked.tables[0][2], forked.tables[1][2], 37 - 32);
	forked.tables[0][2] = forked.tables[1][2];
	rig_prefill(&forked, 0, 60, 5, 0);
	for (int p = 0; p < 60; p++)
		ck_assert(!memcmp(rig_row(&whole, 0, p), rig_row(&forked, 0, p), (size_t)rig_width(&whole) * sizeof(float)));
	rig_close(&whole);
	rig_close(&forked);
}
END_TEST

START_TEST(refusals)
{
	static const int sizes[] = {0, -16, 1, 8, 15, 24, 48, 512};
	struct backend *be;
	char err[200];
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct kv_shape s = three_layers(KV_F16, sizes[i]);
		ck_assert(!cpu_backend_create(1, NULL, &be, err, sizeof err));
		ck_assert_int_eq(be->op->kv_create(be, &s, 1, err, sizeof err), ERR_UNSUPPORTED);
		ck_assert_ptr_nonnull(strstr(err, "choose 16, 32, 64, 128 or 256"));
		be->op->destroy(be);
	}
	static const size_t counts[] = {SIZE_MAX, SIZE_MAX / 16384}; // more than a size, more than an address space
	for (size_t i = 0; i < 2; i++) {
		struct kv_shape s = three_layers(KV_F16, 16);
		ck_assert(!cpu_backend_create(1, NULL, &be, err, sizeof err));
		ck_assert_int_eq(be->op->kv_create(be, &s, counts[i], err, sizeof err), ERR_NOMEM);
		ck_assert_ptr_nonnull(strstr(err, "KV"));
		ck_assert(!be->op->kv_create(be, &s, 1, err, sizeof err)); // the back end is as it was
		be->op->destroy(be);
	}
}
END_TEST

// Address space for a terabyte is had at once; only what is written becomes memory.
START_TEST(pages_on_first_use)
{
	struct kv_shape s = three_layers(KV_F16, 16);
	struct rusage before, after;
	getrusage(RUSAGE_SELF, &before);
	struct backend *be = open_cache(&s, ((size_t)1 << 40) / 8192);
	for (int b = 0; b < 1000; b++)
		fill(be, &s, b * 100000, b);
	getrusage(RUSAGE_SELF, &after);
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 64 << 10); // KiB; written: 7 MB, 12 in whole pages
	be->op->destroy(be);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("kv");
	TCase *c = tcase_create("blocks");
	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, block_bytes, 0, 2);
	tcase_add_test(c, whole_blocks);
	tcase_add_loop_test(c, copied_tokens, 0, 6);
	tcase_add_test(c, fork_in_a_block);
	tcase_add_test(c, refusals);
	tcase_add_test(c, pages_on_first_use);
	suite_add_tcase(s, c);
	return s;
}
