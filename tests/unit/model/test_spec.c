// SPDX-License-Identifier: Apache-2.0
//
// What a file's metadata becomes, and every way in which it may be refused: each case is a valid small file with one
// thing changed, and the message must name that thing.
#include "tests/unit/model/gguf_write.h"
#include "tests/unit/test.h"

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf_internal.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 32, F = 48, H = 2, KH = 1, DH = 16, V = 40, LAYERS = 2 };

enum kind { DROP = 1, U32, I32, F32, STR };

struct edit { // of a key of the valid file: replaced, left out, or added
	const char *key;
	enum kind kind;
	double number;
	const char *text;
};

struct shape { // of a tensor that is left out (0), added, or given another shape
	const char *name;
	uint64_t k, rows;
};

static const struct edit base[] = {
	{"general.architecture", STR, 0, "llama"},
	{"general.name", STR, 0, "Small"},
	{"llama.block_count", U32, LAYERS, NULL},
	{"llama.context_length", U32, 4096, NULL},
	{"llama.embedding_length", U32, D, NULL},
	{"llama.feed_forward_length", U32, F, NULL},
	{"llama.attention.head_count", U32, H, NULL},
	{"llama.attention.head_count_kv", U32, KH, NULL},
	{"llama.attention.layer_norm_rms_epsilon", F32, 1e-6, NULL},
};

static const struct shape tensors[] = {
	{"token_embd.weight", D, V},
	{"output_norm.weight", D, 1},
	{"blk.%d.attn_norm.weight", D, 1},
	{"blk.%d.attn_q.weight", D, H *DH},
	{"blk.%d.attn_k.weight", D, KH *DH},
	{"blk.%d.attn_v.weight", D, KH *DH},
	{"blk.%d.attn_output.weight", H *DH, D},
	{"blk.%d.ffn_norm.weight", D, 1},
	{"blk.%d.ffn_gate.weight", D, F},
	{"blk.%d.ffn_up.weight", D, F},
	{"blk.%d.ffn_down.weight", F, D},
};

static void write_key(struct gguf_writer *w, const struct edit *e)
{
	switch (e->kind) {
	case U32:
		gguf_write_u32(w, e->key, (uint32_t)e->number);
		break;
	case I32:
		gguf_write_i32(w, e->key, (int32_t)e->number);
		break;
	case F32:
		gguf_write_f32(w, e->key, (float)e->number);
		break;
	case STR:
		gguf_write_str(w, e->key, e->text);
		break;
	default:
		break;
	}
}

static void write_tensor(struct gguf_writer *w, const char *name, uint64_t k, uint64_t rows,
						 const struct shape *changed)
{
	if (changed && !strcmp(changed->name, name)) {
		k = changed->k;
		rows = changed->rows;
	}
	if (!k)
		return;
	float *values = mem_zalloc((size_t)(k * rows), sizeof *values);
	for (uint64_t i = 0; i < k * rows; i++)
		values[i] = (float)((i * 37 + k) % 17) * 0.05f;
	gguf_write_tensor_f32(w, name, rows > 1 ? 2 : 1, (uint64_t[]){k, rows}, values);
	free(values);
}

static void write_tensors(struct gguf_writer *w, const struct shape *changed)
{
	bool known = false;
	for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
		for (int layer = 0; layer < (strchr(tensors[i].name, '%') ? LAYERS : 1); layer++) {
			struct buf name;
			buf_init(&name);
			const char *dot = strstr(tensors[i].name, "%d");
			if (dot)
				buf_printf(&name, "blk.%d%s", layer, dot + 2);
			else
				buf_puts(&name, tensors[i].name);
			known |= changed && !strcmp(changed->name, name.data);
			write_tensor(w, name.data, tensors[i].k, tensors[i].rows, changed);
			buf_deinit(&name);
		}
	if (changed && !known)
		write_tensor(w, changed->name, changed->k, changed->rows, NULL);
}

struct file {
	struct gguf_writer w;
	struct buf bytes;
	struct gguf *g;
};

static void make_file(struct file *f, const struct edit *edits, size_t n, const struct shape *changed)
{
	char err[256] = "";
	gguf_write_init(&f->w);
	buf_init(&f->bytes);
	for (size_t i = 0; i < sizeof base / sizeof base[0]; i++) {
		bool replaced = false;
		for (size_t k = 0; k < n; k++)
			replaced |= !strcmp(edits[k].key, base[i].key);
		if (!replaced)
			write_key(&f->w, &base[i]);
	}
	for (size_t k = 0; k < n; k++)
		write_key(&f->w, &edits[k]);
	write_tensors(&f->w, changed);
	gguf_write_bytes(&f->w, &f->bytes);
	ck_assert_msg(gguf__open_memory("dir/file.gguf", f->bytes.data, f->bytes.len, &f->g, err, sizeof err) == 0, "%s",
				  err);
}

static void drop_file(struct file *f)
{
	gguf_close(f->g);
	buf_deinit(&f->bytes);
	gguf_write_deinit(&f->w);
}

static int read_with(const struct edit *edits, size_t n, const struct shape *changed, struct model_spec *s, char *err,
					 size_t len)
{
	struct file f;
	make_file(&f, edits, n, changed);
	int rc = model_read_spec(f.g, s, err, len);
	drop_file(&f);
	return rc;
}

static const struct {
	struct edit edit;
	int rc;
	const char *says;
} refused[] = {
	{{"general.architecture", DROP, 0, NULL}, ERR_INVALID, "general.architecture"},
	{{"general.architecture", U32, 3, NULL}, ERR_INVALID, "general.architecture"},
	{{"general.architecture", STR, 0, "zebra"},
	 ERR_UNSUPPORTED,
	 "zebra is not known; this build knows llama, qwen2, qwen3, gemma3"},
	{{"general.architecture", STR, 0, "ze\nb\xff"}, ERR_UNSUPPORTED, "ze?b? is not known"},
	{{"general.architecture", STR, 0, "qwen2"}, ERR_INVALID, "qwen2.block_count is missing"},
	{{"llama.block_count", DROP, 0, NULL}, ERR_INVALID, "llama.block_count is missing"},
	{{"llama.block_count", U32, 0, NULL}, ERR_INVALID, "llama.block_count is 0, it must be from 1 to 512"},
	{{"llama.block_count", U32, 513, NULL}, ERR_INVALID, "llama.block_count"},
	{{"llama.block_count", U32, 4294967295.0, NULL}, ERR_INVALID, "llama.block_count"},
	{{"llama.block_count", I32, -1, NULL}, ERR_INVALID, "llama.block_count"},
	{{"llama.block_count", STR, 0, "2"}, ERR_INVALID, "llama.block_count must be a whole number"},
	{{"llama.block_count", U32, 3, NULL}, ERR_INVALID, "blk.2.attn_norm.weight is missing"},
	{{"llama.block_count", U32, 1, NULL}, ERR_UNSUPPORTED, "blk.1."},
	{{"llama.context_length", DROP, 0, NULL}, ERR_INVALID, "llama.context_length is missing"},
	{{"llama.context_length", U32, 0, NULL}, ERR_INVALID, "llama.context_length"},
	{{"llama.embedding_length", DROP, 0, NULL}, ERR_INVALID, "llama.embedding_length is missing"},
	{{"llama.embedding_length", U32, 0, NULL}, ERR_INVALID, "llama.embedding_length"},
	{{"llama.embedding_length", U32, 64, NULL}, ERR_INVALID, "token_embd.weight is 32 × 40"},
	{{"llama.feed_forward_length", DROP, 0, NULL}, ERR_INVALID, "llama.feed_forward_length is missing"},
	{{"llama.feed_forward_length", U32, 0, NULL}, ERR_INVALID, "llama.feed_forward_length"},
	{{"llama.attention.head_count", DROP, 0, NULL}, ERR_INVALID, "llama.attention.head_count is missing"},
	{{"llama.attention.head_count", U32, 0, NULL}, ERR_INVALID, "llama.attention.head_count"},
	{{"llama.attention.head_count", U32, 3, NULL}, ERR_INVALID, "llama.attention.key_length"},
	{{"llama.attention.head_count", U32, 64, NULL}, ERR_INVALID, "llama.attention.key_length"},
	{{"llama.attention.head_count_kv", U32, 0, NULL}, ERR_INVALID, "llama.attention.head_count_kv"},
	{{"llama.attention.head_count_kv", U32, 3, NULL}, ERR_INVALID, "multiple of head_count_kv, 3"},
	{{"llama.attention.key_length", U32, 7, NULL}, ERR_UNSUPPORTED, "head size is 7"},
	{{"llama.attention.key_length", U32, 0, NULL}, ERR_INVALID, "llama.attention.key_length"},
	{{"llama.attention.key_length", U32, 258, NULL}, ERR_UNSUPPORTED, "at most 256"},
	{{"llama.attention.value_length", U32, 8, NULL}, ERR_UNSUPPORTED, "llama.attention.value_length is 8"},
	{{"llama.attention.layer_norm_rms_epsilon", F32, NAN, NULL}, ERR_INVALID, "layer_norm_rms_epsilon"},
	{{"llama.attention.layer_norm_rms_epsilon", F32, -1, NULL}, ERR_INVALID, "layer_norm_rms_epsilon"},
	{{"llama.attention.sliding_window", I32, -5, NULL}, ERR_INVALID, "llama.attention.sliding_window"},
	{{"llama.expert_count", U32, 8, NULL}, ERR_UNSUPPORTED, "llama.expert_count"},
	{{"llama.residual_scale", F32, 0.25, NULL}, ERR_UNSUPPORTED, "llama.residual_scale"},
	{{"llama.rope.dimension_count", U32, 18, NULL}, ERR_INVALID, "llama.rope.dimension_count"},
	{{"llama.rope.dimension_count", U32, 7, NULL}, ERR_INVALID, "must be even"},
	{{"llama.rope.freq_base", F32, 0, NULL}, ERR_INVALID, "llama.rope.freq_base"},
	{{"llama.rope.freq_base", F32, 1, NULL}, ERR_INVALID, "llama.rope.freq_base"},
	{{"llama.rope.scaling.type", STR, 0, "dynamic"}, ERR_UNSUPPORTED, "dynamic is not known: none, linear, yarn"},
	{{"llama.rope.scaling.type", U32, 1, NULL}, ERR_INVALID, "llama.rope.scaling.type must be a string"},
	{{"llama.rope.scaling.type", STR, 0, "longrope"}, ERR_INVALID, "rope_factors_short.weight is missing"},
	{{"llama.rope.scaling.factor", F32, -2, NULL}, ERR_INVALID, "llama.rope.scaling.factor"},
	{{"llama.rope.scaling.factor", F32, 1e-5, NULL}, ERR_INVALID, "llama.rope.scaling.factor"},
	{{"llama.rope.scaling.yarn_attn_factor", F32, 0.5, NULL}, ERR_UNSUPPORTED, "yarn_attn_factor is 0.5"},
	{{"llama.rope.scaling.original_context_length", U32, 0, NULL}, ERR_INVALID, "original_context_length"},
};

START_TEST(refuses_keys)
{
	struct model_spec s;
	char err[256] = "";
	int rc = read_with(&refused[_i].edit, 1, NULL, &s, err, sizeof err);
	ck_assert_msg(rc == refused[_i].rc, "%s: %s, %s", refused[_i].edit.key, err_name(rc), err);
	ck_assert_msg(strstr(err, refused[_i].says) && strstr(err, "file.gguf"), "%s: %s", refused[_i].says, err);
}
END_TEST

static const struct {
	struct shape tensor;
	int rc;
	const char *says;
} refused_tensors[] = {
	{{"token_embd.weight", 0, 0}, ERR_INVALID, "token_embd.weight is missing"},
	{{"output_norm.weight", 0, 0}, ERR_INVALID, "output_norm.weight is missing"},
	{{"blk.1.ffn_up.weight", 0, 0}, ERR_INVALID, "blk.1.ffn_up.weight is missing"},
	{{"blk.1.ffn_up.weight", D, F + 1},
	 ERR_INVALID,
	 "blk.1.ffn_up.weight is 32 × 49 × 1, the model's sizes want 32 × 48"},
	{{"blk.0.attn_norm.weight", D - 1, 1}, ERR_INVALID, "blk.0.attn_norm.weight is 31"},
	{{"blk.0.attn_q.bias", H *DH, 1}, ERR_INVALID, "blk.0.attn_k.bias is missing"},
	{{"blk.1.attn_q.bias", H *DH, 1}, ERR_UNSUPPORTED, "blk.1.attn_q.bias is not part of a llama model"},
	{{"output.weight", D, V - 1}, ERR_INVALID, "output.weight is 32 × 39"},
	{{"blk.0.attn_sub_norm.weight", D, 1}, ERR_UNSUPPORTED, "blk.0.attn_sub_norm.weight"},
	{{"blk.0.attn_q_norm.weight", DH, 1}, ERR_UNSUPPORTED, "blk.0.attn_q_norm.weight"},
	{{"blk.00.token_embd.weight", D, 1}, ERR_UNSUPPORTED, "blk.00.token_embd.weight"},
	{{"mystery", D, 1}, ERR_UNSUPPORTED, "mystery"},
	{{"rope_freqs.weight", DH / 2 - 1, 1}, ERR_INVALID, "rope_freqs.weight must hold 8 values"},
	{{"rope_freqs.weight", DH / 2, 1}, ERR_INVALID, "it must be positive"}, // the filler holds a zero
};

START_TEST(refuses_tensors)
{
	struct model_spec s;
	char err[256] = "";
	int rc = read_with(NULL, 0, &refused_tensors[_i].tensor, &s, err, sizeof err);
	ck_assert_msg(rc == refused_tensors[_i].rc, "%s: %s, %s", refused_tensors[_i].says, err_name(rc), err);
	ck_assert_msg(strstr(err, refused_tensors[_i].says) != NULL, "%s: %s", refused_tensors[_i].says, err);
}
END_TEST

START_TEST(reads_llama)
{
	struct model_spec s;
	char err[256] = "";
	ck_assert_msg(read_with(NULL, 0, NULL, &s, err, sizeof err) == 0, "%s", err);
	ck_assert_str_eq(s.arch, "llama");
	ck_assert_str_eq(s.name, "Small");
	ck_assert(s.n_layers == LAYERS && s.d_model == D && s.n_vocab == V && s.n_ctx == 4096 && s.tied && s.n_ropes == 1);
	const struct layer_spec *l = &s.layers[1];
	ck_assert(l->n_heads == H && l->n_kv_heads == KH && l->head_dim == DH && l->d_ff == F && l->gated &&
			  l->act == ACT_SILU);
	ck_assert(!l->window && !l->qk_norm && !l->qkv_bias && !l->out_bias && !l->mlp_bias && !l->post_norms &&
			  l->rope == 0);
	ck_assert_float_eq(l->attn_scale, 0.25f);
	ck_assert(s.ropes[0].kind == ROPE_PAIRS && s.ropes[0].n_dims == DH);
	for (int i = 0; i < DH / 2; i++)
		ck_assert_float_eq_tol(s.ropes[0].inv_freq[i] / (float)pow(10000, -2.0 * i / DH), 1, 1e-6f);
	model_spec_deinit(&s);
}
END_TEST

START_TEST(names)
{
	struct model_spec s;
	char err[256] = "";
	struct edit none = {"general.name", DROP, 0, NULL}, bad = {"general.name", STR, 0, "a\xff"};
	ck_assert_int_eq(read_with(&none, 1, NULL, &s, err, sizeof err), 0);
	ck_assert_str_eq(s.name, "file");
	model_spec_deinit(&s);
	ck_assert_int_eq(read_with(&bad, 1, NULL, &s, err, sizeof err), 0);
	ck_assert_str_eq(s.name, "a\xEF\xBF\xBD");
	model_spec_deinit(&s);
}
END_TEST

// Numbers of Hugging Face's rope_type "yarn", from the paper's formulas in double: head size 16, base 10000.
static const double yarn_default[] = {1.0,	   0.31622776601683794,	  0.1,	   0.02569350598886808,
									  0.00625, 0.0013834964763236657, 0.00025, 7.905694150420948e-05};
static const double yarn_betas[] = {1.0,	0.31622776601683794,   0.1,		0.03162277660168379,
									0.0075, 0.0015811388300841897, 0.00025, 7.905694150420948e-05};

static void expect_rope(const struct edit *edits, size_t n, const double *inv_freq, double magnitude)
{
	struct model_spec s;
	char err[256] = "";
	ck_assert_msg(read_with(edits, n, NULL, &s, err, sizeof err) == 0, "%s", err);
	for (int i = 0; i < DH / 2; i++)
		ck_assert_msg(fabs((double)s.ropes[0].inv_freq[i] / inv_freq[i] - 1) < 1e-6, "pair %d: %g, not %g", i,
					  (double)s.ropes[0].inv_freq[i], inv_freq[i]);
	ck_assert_double_eq_tol((double)s.ropes[0].magnitude, magnitude, 1e-6);
	model_spec_deinit(&s);
}

START_TEST(rope_scaling)
{
	const struct edit yarn[] = {
		{"llama.rope.scaling.type", STR, 0, "yarn"},
		{"llama.rope.scaling.factor", F32, 4, NULL},
		{"llama.rope.scaling.original_context_length", U32, 4096, NULL},
		{"llama.rope.scaling.yarn_beta_fast", F32, 8, NULL},
		{"llama.rope.scaling.yarn_beta_slow", F32, 2, NULL},
		{"llama.rope.scaling.attn_factor", F32, 0.5, NULL},
	};
	expect_rope(yarn, 3, yarn_default, 1.138629436111989);
	expect_rope(yarn, 5, yarn_betas, 1.138629436111989);
	expect_rope(yarn, 6, yarn_betas, 0.5 * 1.138629436111989);

	double plain[DH / 2], quarter[DH / 2];
	for (int i = 0; i < DH / 2; i++)
		quarter[i] = (plain[i] = pow(10000, -2.0 * i / DH)) / 4;
	const struct edit linear[] = {{"llama.rope.scaling.factor", F32, 4, NULL},
								  {"llama.rope.scaling.type", STR, 0, "linear"}};
	const struct edit old = {"llama.rope.scale_linear", F32, 4, NULL};
	const struct edit none[] = {linear[0], {"llama.rope.scaling.type", STR, 0, "none"}};
	expect_rope(linear, 2, quarter, 1);
	expect_rope(linear, 1, quarter, 1);
	expect_rope(&old, 1, quarter, 1);
	expect_rope(none, 2, plain, 1);
}
END_TEST

// Long factors where the model's context is longer than the original, short ones where it is not.
START_TEST(longrope)
{
	for (int is_long = 0; is_long < 2; is_long++) {
		struct edit edits[] = {
			{"llama.rope.scaling.type", STR, 0, "longrope"},
			{"llama.rope.scaling.original_context_length", U32, is_long ? 1024 : 4096, NULL},
			{"llama.rope.scaling.attn_factor", F32, 1.25, NULL},
		};
		struct file f;
		float factors[DH / 2];
		char err[256] = "";
		struct model_spec s;
		gguf_write_init(&f.w);
		buf_init(&f.bytes);
		for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
			write_key(&f.w, &base[i]);
		for (size_t i = 0; i < 3; i++)
			write_key(&f.w, &edits[i]);
		for (int i = 0; i < DH / 2; i++)
			factors[i] = 1 + (float)i;
		gguf_write_tensor_f32(&f.w, "rope_factors_short.weight", 1, (uint64_t[]){DH / 2}, factors);
		for (int i = 0; i < DH / 2; i++)
			factors[i] *= 10;
		gguf_write_tensor_f32(&f.w, "rope_factors_long.weight", 1, (uint64_t[]){DH / 2}, factors);
		write_tensors(&f.w, NULL);
		gguf_write_bytes(&f.w, &f.bytes);
		ck_assert_int_eq(gguf__open_memory("file.gguf", f.bytes.data, f.bytes.len, &f.g, err, sizeof err), 0);
		ck_assert_msg(model_read_spec(f.g, &s, err, sizeof err) == 0, "%s", err);
		for (int i = 0; i < DH / 2; i++) {
			double want = pow(10000, -2.0 * i / DH) / ((1 + i) * (is_long ? 10 : 1));
			ck_assert_double_eq_tol((double)s.ropes[0].inv_freq[i] / want, 1, 1e-6);
		}
		ck_assert_float_eq(s.ropes[0].magnitude, 1.25f);
		model_spec_deinit(&s);
		drop_file(&f);
	}
}
END_TEST

static void read_file(const char *path, struct gguf **g, struct model_spec *s)
{
	char err[256] = "";
	ck_assert_msg(gguf_open(path, g, err, sizeof err) == 0, "%s", err);
	ck_assert_msg(model_read_spec(*g, s, err, sizeof err) == 0, "%s", err);
}

START_TEST(reads_gemma3)
{
	struct gguf *g;
	struct model_spec s;
	read_file("tests/golden/tiny/gemma3_text.gguf", &g, &s);
	ck_assert(s.n_layers == 7 && s.n_ropes == 2 && s.tied);
	ck_assert_float_eq(s.embed_scale, 8);
	for (int i = 0; i < s.n_layers; i++) {
		const struct layer_spec *l = &s.layers[i];
		bool full = i == 5;
		ck_assert(l->qk_norm && l->post_norms && l->act == ACT_GELU_TANH && l->window == (full ? 0 : 32));
		ck_assert_double_eq(s.ropes[l->rope].base, full ? 1e6 : 1e4);
	}
	model_spec_deinit(&s);
	gguf_close(g);
}
END_TEST

START_TEST(reads_families)
{
	struct gguf *g;
	struct model_spec s;
	read_file("tests/golden/tiny/qwen2.gguf", &g, &s);
	ck_assert(s.layers[0].qkv_bias && !s.layers[0].out_bias && !s.layers[0].qk_norm && s.ropes[0].kind == ROPE_HALVES);
	model_spec_deinit(&s);
	gguf_close(g);
	read_file("tests/golden/tiny/qwen3.gguf", &g, &s);
	ck_assert(!s.layers[0].qkv_bias && s.layers[0].qk_norm && s.layers[0].head_dim == 24 &&
			  s.ropes[0].kind == ROPE_HALVES);
	model_spec_deinit(&s);
	gguf_close(g);
	read_file("tests/golden/tiny/mistral.gguf", &g, &s);
	ck_assert(s.layers[1].window == 32 && !s.tied);
	model_spec_deinit(&s);
	gguf_close(g);
	read_file("tests/golden/tiny/llama_tied.gguf", &g, &s);
	ck_assert(s.layers[1].qkv_bias && s.layers[1].out_bias && s.layers[1].mlp_bias && s.tied);
	model_spec_deinit(&s);
	gguf_close(g);
}
END_TEST

// A back end that runs out of memory at the n-th matrix: everything loaded before is freed (the sanitizer looks).
static int matrices_left;
static const struct backend_ops *real;

static int load_until_full(struct backend *be, const struct matrix_part *parts, int n_parts, uint64_t k,
						   struct matrix **out, bool *borrows, char *err, size_t len)
{
	if (!matrices_left--)
		return err_set(err, len, ERR_NOMEM, "no room for %d parts", n_parts);
	return real->matrix_load(be, parts, n_parts, k, out, borrows, err, len);
}

START_TEST(load_fails_midway)
{
	struct file f;
	struct model *m;
	char err[256] = "";
	struct backend *be = ref_backend_create(1);
	real = be->op;
	struct backend_ops ops = *real;
	ops.matrix_load = load_until_full;
	be->op = &ops;
	make_file(&f, NULL, 0, NULL);
	const int all = 1 + 4 * LAYERS;
	for (int n = 0; n < all; n++) {
		matrices_left = n;
		ck_assert_int_eq(model_load(f.g, be, &m, err, sizeof err), ERR_NOMEM);
		ck_assert_ptr_null(m);
		ck_assert_ptr_nonnull(strstr(err, "no room for"));
	}
	matrices_left = all;
	ck_assert_int_eq(model_load(f.g, be, &m, err, sizeof err), 0);
	size_t layer = (size_t)(D * (H + 2 * KH) * DH + H * DH * D + 3 * D * F + 2 * D);
	ck_assert_uint_eq(model_weight_bytes(m), sizeof(float) * (V * D + D + LAYERS * layer));
	ck_assert(!model_borrows_file(m));
	model_destroy(m);
	model_destroy(NULL);
	drop_file(&f);
	be->op = real;
	be->op->destroy(be);
}
END_TEST

START_TEST(reserve_and_kv_sizes)
{
	struct file f;
	struct model *m;
	char err[256] = "";
	struct reserve r;
	struct kv_shape *kv = mem_zalloc(1, sizeof *kv);
	struct backend *be = ref_backend_create(1);
	make_file(&f, NULL, 0, NULL);
	ck_assert_int_eq(model_load(f.g, be, &m, err, sizeof err), 0);
	model_reserve_sizes(m, 100, 7, 9, 11, &r);
	ck_assert(r.max_tokens == 100 && r.max_seqs == 7 && r.max_out == 9 && r.max_blocks == 11 && r.d_model == D &&
			  r.d_ff == F);
	ck_assert(r.n_vocab == V && r.max_qkv == (H + 2 * KH) * DH && r.n_ropes == 1 && r.ropes[0].n_dims == DH);
	model_kv_shape(model_spec(m), KV_F16, 16, kv);
	ck_assert(kv->n_layers == LAYERS && kv->n_kv_heads[1] == KH && kv->head_dim[1] == DH && kv->block_tokens == 16);
	ck_assert_uint_eq(be->op->kv_block_bytes(be, kv), 2 * 2 * 16 * LAYERS * KH * DH);
	model_destroy(m);
	free(kv);
	drop_file(&f);
	be->op->destroy(be);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("spec");
	TCase *t = tcase_create("spec");
	tcase_add_loop_test(t, refuses_keys, 0, sizeof refused / sizeof refused[0]);
	tcase_add_loop_test(t, refuses_tensors, 0, sizeof refused_tensors / sizeof refused_tensors[0]);
	tcase_add_test(t, reads_llama);
	tcase_add_test(t, names);
	tcase_add_test(t, rope_scaling);
	tcase_add_test(t, longrope);
	tcase_add_test(t, reads_gemma3);
	tcase_add_test(t, reads_families);
	tcase_add_test(t, load_fails_midway);
	tcase_add_test(t, reserve_and_kv_sizes);
	suite_add_tcase(s, t);
	return s;
}
