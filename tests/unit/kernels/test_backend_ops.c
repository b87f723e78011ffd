// SPDX-License-Identifier: Apache-2.0
//
// Every operation of a step × back end × kind of model, against the reference back end; and promise 2 of the back ends:
// a row's bits depend on nothing but the row, whatever the batch, the number of threads or, for block types, the
// instruction set.
#include "engine/base/mem.h"
#include "tests/unit/kernels/ops_rig.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const backends[] = {"scalar", "avx2", "avx512-vnni"};
enum { N_BACKENDS = 3 };

// Plain C is slow, and has no tiles to get wrong; emulated instruction sets are slow too.
#ifdef QUIRE_SIMDE
enum { EMULATED = 1 };
#else
enum { EMULATED = 0 };
#endif

static bool is_slow(int backend)
{
	return EMULATED || backend == 0;
}

// --- the operations: what is run, and where its result is

struct result {
	const float *v;
	size_t rows, width;
};

static struct result rows_of(const struct ops_rig *r, const float *v, int width)
{
	return (struct result){v, (size_t)r->view.n_tokens, (size_t)width};
}

static struct result run_embed(struct ops_rig *r)
{
	r->be->op->embed(r->be, r->embed, 3);
	return rows_of(r, r->x, r->o.d_model);
}

static struct result run_norm_qkv(struct ops_rig *r)
{
	r->be->op->norm_qkv(r->be, &r->norm, r->qkv_w, r->qkv_b);
	return rows_of(r, r->qkv, (r->o.n_heads + 2 * r->o.n_kv_heads) * r->o.head_dim);
}

static struct result run_attention(struct ops_rig *r)
{
	r->be->op->rope_append(r->be, &r->a);
	r->be->op->attend(r->be, &r->a);
	return rows_of(r, r->attn, r->o.n_heads * r->o.head_dim);
}

static struct result run_attn_out(struct ops_rig *r)
{
	r->be->op->attn_out(r->be, r->out_w, r->out_b, &r->post, &r->a);
	return rows_of(r, r->x, r->o.d_model);
}

static struct result run_mlp(struct ops_rig *r)
{
	r->be->op->mlp(r->be, &r->mlp);
	return rows_of(r, r->x, r->o.d_model);
}

static struct result run_logits(struct ops_rig *r)
{
	r->be->op->logits(r->be, &r->norm, r->head, r->o.softcap, r->logits);
	return (struct result){r->logits, (size_t)r->view.n_out, (size_t)r->o.n_vocab};
}

// How far a row may be from the reference, as a share of the result's root mean square: with float weights, and with
// block types, whose activations are rounded to 8 bits.
static const struct op {
	const char *name;
	struct result (*run)(struct ops_rig *r);
	double tolerance, tolerance_blocks;
} ops[] = {
	{"embed", run_embed, 0, 0},
	{"norm_qkv", run_norm_qkv, 2e-5, 0.08},
	{"attention", run_attention, 2e-3, 2e-3},
	{"attn_out", run_attn_out, 2e-5, 0.08},
	{"mlp", run_mlp, 2e-5, 0.2},
	{"logits", run_logits, 2e-5, 2e-3},
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

// --- kinds of models

#define SIZES .threads = 2, .d_model = 256, .d_ff = 512, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_vocab = 333
#define SAME(t) .type = t, .v_type = t, .down_type = t

static const struct ops_options models[] = {
	{SIZES, SAME(DTYPE_Q4_0), .gated = true},
	{SIZES, SAME(DTYPE_Q4_1), .gated = true, .post_norms = true, .act = ACT_GELU_TANH, .softcap = 30},
	{SIZES, SAME(DTYPE_Q5_0), .gated = true, .biases = true},
	{SIZES, SAME(DTYPE_Q5_1), .biases = true, .act = ACT_GELU_ERF, .layer_norm = true},
	{SIZES, SAME(DTYPE_Q8_0), .gated = true, .fused_mlp = true, .biases = true},
	{SIZES, SAME(DTYPE_Q4_K), .gated = true},
	{SIZES, SAME(DTYPE_Q5_K), .gated = true, .layer_norm = true},
	{SIZES, SAME(DTYPE_Q6_K), .gated = true, .post_norms = true},
	{SIZES, SAME(DTYPE_F16), .gated = true, .biases = true},
	{SIZES, SAME(DTYPE_BF16), .gated = true, .post_norms = true, .softcap = 30},
	{SIZES, SAME(DTYPE_F32), .act = ACT_GELU_TANH},
	// types mixed in one product, as quantisers do; the second needs its inputs both ways
	{SIZES, .type = DTYPE_Q4_K, .v_type = DTYPE_Q6_K, .down_type = DTYPE_Q6_K, .gated = true},
	{SIZES, .type = DTYPE_Q8_0, .v_type = DTYPE_F16, .down_type = DTYPE_F16, .gated = true},
	// sizes that are no multiple of anything: rows of 172 hidden values, odd heads, one fused part
	{.threads = 2,
	 .type = DTYPE_Q8_0,
	 .v_type = DTYPE_Q8_0,
	 .down_type = DTYPE_F16,
	 .d_model = 64,
	 .d_ff = 172,
	 .n_heads = 8,
	 .n_kv_heads = 4,
	 .head_dim = 8,
	 .n_vocab = 512,
	 .gated = true,
	 .fused_mlp = true,
	 .biases = true},
	{.threads = 2,
	 SAME(DTYPE_F32),
	 .d_model = 50,
	 .d_ff = 77,
	 .n_heads = 5,
	 .n_kv_heads = 1,
	 .head_dim = 10,
	 .n_vocab = 41,
	 .gated = true,
	 .fused_mlp = true,
	 .biases = true},
	{.threads = 1,
	 SAME(DTYPE_Q4_0),
	 .d_model = 32,
	 .d_ff = 64,
	 .n_heads = 1,
	 .n_kv_heads = 1,
	 .head_dim = 32,
	 .n_vocab = 1,
	 .gated = true},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static bool has_blocks(const struct ops_options *o)
{
	return dtype_info(o->type)->block > 1;
}

static void compare(const struct op *op, const struct ops_options *o, const struct result *got,
					const struct result *wanted)
{
	double tolerance = has_blocks(o) ? op->tolerance_blocks : op->tolerance;
	ck_assert_uint_eq(got->rows, wanted->rows);
	size_t n = got->rows * got->width;
	double square = 0;
	for (size_t i = 0; i < n; i++)
		square += (double)wanted->v[i] * (double)wanted->v[i] / (double)n;
	for (size_t i = 0; i < n; i++) {
		double a = (double)got->v[i], b = (double)wanted->v[i];
		if (!(fabs(a - b) <= tolerance * (sqrt(square) + 1e-3))) // each ck_assert writes a message, even if all is well
			ck_abort_msg("%s on %s, %s: row %zu, column %zu: %g, not %g", op->name, o->backend, dtype_name(o->type),
						 i / got->width, i % got->width, a, b);
	}
}

// Every operation for several sizes of steps against the reference.
START_TEST(operations_agree_with_the_reference)
{
	static const int steps[] = {1, 2, 7, 33, OPS_MAX_TOKENS};
	enum { N_STEPS = sizeof steps / sizeof steps[0] };
	struct ops_options o = models[_i];
	struct ops_rig ref, cpu;
	o.backend = "ref";
	ck_assert(ops_open(&ref, &o));
	for (int b = 0; b < N_BACKENDS; b++) {
		o.backend = backends[b];
		if (!ops_open(&cpu, &o))
			continue;
		for (int i = 0; i < N_OPS; i++)
			for (int s = 0; s < (is_slow(b) ? 3 : N_STEPS); s++) {
				ops_begin(&ref, steps[s], (uint32_t)i);
				ops_begin(&cpu, steps[s], (uint32_t)i);
				struct result wanted = ops[i].run(&ref), got = ops[i].run(&cpu);
				compare(&ops[i], &o, &got, &wanted);
			}
		ops_close(&cpu);
	}
	ops_close(&ref);
}
END_TEST

// --- the same bits

static float *copy_of(const struct result *r)
{
	float *v = mem_alloc(r->rows * r->width * sizeof *v + 1);
	memcpy(v, r->v, r->rows * r->width * sizeof *v);
	return v;
}

enum { MOST = 70 };

// Results of MOST tokens by one back end are `wanted`; any smaller step on `r` must give their beginning.
static void assert_same_bits(struct ops_rig *r, const struct op *op, const float *wanted, int step)
{
	for (int n = 1; n <= MOST; n += step) {
		ops_begin(r, n, 5);
		struct result got = op->run(r);
		ck_assert_msg(!memcmp(got.v, wanted, got.rows * got.width * sizeof *wanted),
					  "%s on %s, %s, %d threads: other bits for a step of %d tokens", op->name, r->o.backend,
					  dtype_name(r->o.type), r->o.threads, n);
	}
}

START_TEST(bits_depend_on_the_row_alone)
{
	struct ops_options o = models[_i];
	float *wanted[N_OPS] = {NULL};
	for (int b = N_BACKENDS - 1; b >= 0; b--)
		for (int threads = 1; threads <= (is_slow(b) ? 1 : 3); threads++) {
			struct ops_rig r;
			o.backend = backends[b];
			o.threads = threads;
			if (!ops_open(&r, &o))
				continue;
			for (int i = 0; i < N_OPS; i++) {
				if (!strcmp(ops[i].name, "attention")) // has its own test, and only one instruction set's bits
					continue;
				ops_begin(&r, MOST, 5);
				struct result all = ops[i].run(&r);
				if (!wanted[i])
					wanted[i] = copy_of(&all);
				assert_same_bits(&r, &ops[i], wanted[i], is_slow(b) ? MOST / 2 : threads == 1 ? 1 : 3);
			}
			ops_close(&r);
		}
	for (int i = 0; i < N_OPS; i++)
		free(wanted[i]);
}
END_TEST

// --- loading

static struct backend *cpu(void)
{
	struct backend *be;
	char err[200] = "";
	ck_assert_msg(!cpu_backend_create(1, NULL, &be, err, sizeof err), "%s", err);
	return be;
}

START_TEST(what_cannot_be_is_refused)
{
	struct backend *be;
	struct matrix *m;
	bool borrows;
	char err[200] = "";
	ck_assert_int_lt(cpu_backend_create(1, "mmx", &be, err, sizeof err), 0);
	ck_assert_ptr_nonnull(strstr(err, "avx2"));
	ck_assert_int_lt(cpu_backend_create(-1, NULL, &be, err, sizeof err), 0);
	ck_assert_int_lt(cpu_backend_create(100000, NULL, &be, err, sizeof err), 0);
	be = cpu();
	uint8_t row[512] = {0};
	struct matrix_part odd = {DTYPE_Q4_K, 1, row}, unknown = {(enum dtype)10, 1, row},
					   huge = {DTYPE_F32, UINT64_MAX / 8, row};
	ck_assert_int_lt(be->op->matrix_load(be, &odd, 1, 288, &m, &borrows, err, sizeof err), 0);
	ck_assert_ptr_nonnull(strstr(err, "Q4_K"));
	ck_assert_int_lt(be->op->matrix_load(be, &unknown, 1, 256, &m, &borrows, err, sizeof err), 0);
	ck_assert_ptr_nonnull(strstr(err, "Q2_K"));
	ck_assert_int_lt(be->op->matrix_load(be, &huge, 1, 256, &m, &borrows, err, sizeof err), 0);
	be->op->destroy(be);
}
END_TEST

// Matrices share mappings; freeing them in any order gives everything back.
START_TEST(matrices_come_and_go)
{
	struct backend *be = cpu();
	struct matrix *m[6];
	char err[200] = "";
	bool borrows;
	size_t rows = 70000;
	float *w = mem_zalloc(rows * 64, sizeof *w);
	struct matrix_part part = {DTYPE_F32, rows, w};
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 6; i++) {
			ck_assert(!be->op->matrix_load(be, &part, 1, 64, &m[i], &borrows, err, sizeof err));
			ck_assert_uint_ge(be->op->matrix_bytes(m[i]), rows * 64 * sizeof *w);
		}
		for (int i = 0; i < 6; i++)
			be->op->matrix_free(be, m[(i * 5 + round) % 6]);
	}
	be->op->matrix_free(be, NULL);
	be->op->destroy(be);
	free(w);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("backend operations");
	TCase *c = tcase_create("operations");
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, operations_agree_with_the_reference, 0, N_MODELS);
	tcase_add_loop_test(c, bits_depend_on_the_row_alone, 0, N_MODELS);
	tcase_add_test(c, what_cannot_be_is_refused);
	tcase_add_test(c, matrices_come_and_go);
	suite_add_tcase(s, c);
	return s;
}
