// SPDX-License-Identifier: Apache-2.0
//
// From metadata to a spec: what the families share, and the list of families.
#include "engine/model/arch.h"
#include "engine/model/model.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 1 << 20, MAX_CONTEXT = 1 << 24, MAX_VOCAB = 1 << 24 };

static const struct {
	const char *name;
	int (*read)(const struct meta *m, struct model_spec *s);
} archs[] = {
    {"llama", arch_llama},
    {"qwen2", arch_qwen2},
    {"qwen3", arch_qwen3},
    {"gemma3", arch_gemma3},
};

const char *model_known_archs(void)
{
	return "llama, qwen2, qwen3, gemma3";
}

static void key_of(const struct meta *m, const char *key, char out[160])
{
	snprintf(out, 160, "%s.%s", m->arch, key);
}

int meta_int(const struct meta *m, const char *key, int required, int64_t min, int64_t max, int *out)
{
	char name[160];
	uint64_t v;
	key_of(m, key, name);
	int rc = gguf_get_u64(m->g, name, &v);
	if (rc == 0)
		return required ? err_set(m->err, m->len, ERR_INVALID, "%s: the key %s is missing", gguf_path(m->g), name) : 0;
	if (rc < 0 || v > INT64_MAX || (int64_t)v < min || (int64_t)v > max)
		return err_set(m->err, m->len, ERR_INVALID, "%s: %s must be a number from %" PRId64 " to %" PRId64, gguf_path(m->g), name,
		               min, max);
	*out = (int)v;
	return 0;
}

int meta_float(const struct meta *m, const char *key, int required, double min, double max, double *out)
{
	char name[160];
	double v;
	key_of(m, key, name);
	int rc = gguf_get_f64(m->g, name, &v);
	if (rc == 0)
		return required ? err_set(m->err, m->len, ERR_INVALID, "%s: the key %s is missing", gguf_path(m->g), name) : 0;
	if (rc < 0 || !(v >= min && v <= max))
		return err_set(m->err, m->len, ERR_INVALID, "%s: %s must be a number from %g to %g", gguf_path(m->g), name, min, max);
	*out = v;
	return 0;
}

bool meta_has_tensor(const struct meta *m, const char *name)
{
	return gguf_find_tensor(m->g, name) != NULL;
}

// Some files give one number a layer where others give one for all; only equal ones are understood here.
static int heads(const struct meta *m, const char *key, int required, int *out)
{
	char name[160];
	struct gguf_array a;
	key_of(m, key, name);
	if (gguf_get_array(m->g, name, &a) <= 0 || !a.n || a.type == GGUF_STRING)
		return meta_int(m, key, required, 1, 1024, out);
	int64_t first = gguf_array_i64(&a, 0);
	for (size_t i = 1; i < a.n; i++)
		if (gguf_array_i64(&a, i) != first)
			return err_set(m->err, m->len, ERR_UNSUPPORTED, "%s: %s differs between layers", gguf_path(m->g), name);
	if (first < 1 || first > 1024)
		return err_set(m->err, m->len, ERR_INVALID, "%s: %s must be from 1 to 1024", gguf_path(m->g), name);
	*out = (int)first;
	return 0;
}

static int vocabulary(const struct meta *m, struct model_spec *s)
{
	const struct gguf_tensor *t = gguf_find_tensor(m->g, "token_embd.weight");
	if (!t)
		return err_set(m->err, m->len, ERR_INVALID, "%s: the tensor token_embd.weight is missing", gguf_path(m->g));
	if (t->n_dims != 2 || t->dim[1] > MAX_VOCAB)
		return err_set(m->err, m->len, ERR_INVALID, "%s: token_embd.weight must have two dimensions, the second up to %d", gguf_path(m->g), MAX_VOCAB);
	s->n_vocab = (int)t->dim[1];
	s->tied = !meta_has_tensor(m, "output.weight");
	return 0;
}

int arch_read_common(const struct meta *m, struct model_spec *s)
{
	struct layer_spec l = {.gated = true, .act = ACT_SILU, .rope = -1};
	double eps = 1e-5;
	int rc = meta_int(m, "block_count", META_REQUIRED, 1, MAX_LAYERS, &s->n_layers);
	if (!rc)
		rc = meta_int(m, "embedding_length", META_REQUIRED, 1, MAX_WIDTH, &s->d_model);
	if (!rc)
		rc = meta_int(m, "context_length", META_REQUIRED, 1, MAX_CONTEXT, &s->n_ctx);
	if (!rc)
		rc = meta_int(m, "feed_forward_length", META_REQUIRED, 1, MAX_WIDTH, &l.d_ff);
	if (!rc)
		rc = heads(m, "attention.head_count", META_REQUIRED, &l.n_heads);
	l.n_kv_heads = l.n_heads;
	if (!rc)
		rc = heads(m, "attention.head_count_kv", META_OPTIONAL, &l.n_kv_heads);
	if (!rc)
		rc = meta_float(m, "attention.layer_norm_rms_epsilon", META_OPTIONAL, 0, 1, &eps);
	if (!rc)
		rc = vocabulary(m, s);
	if (rc)
		return rc;
	l.head_dim = s->d_model / l.n_heads;
	rc = meta_int(m, "attention.key_length", META_OPTIONAL, 1, MAX_HEAD_DIM, &l.head_dim);
	int value_dim = l.head_dim;
	if (!rc)
		rc = meta_int(m, "attention.value_length", META_OPTIONAL, 1, MAX_HEAD_DIM, &value_dim);
	if (rc)
		return rc;
	if (l.n_heads % l.n_kv_heads || l.head_dim < 2 || l.head_dim > MAX_HEAD_DIM || l.head_dim % 2 || value_dim != l.head_dim)
		return err_set(m->err, m->len, ERR_UNSUPPORTED,
		               "%s: %d heads, %d key/value heads and a head size of %d (values %d): the first must be a multiple of the second, the sizes equal, even and at most %d",
		               gguf_path(m->g), l.n_heads, l.n_kv_heads, l.head_dim, value_dim, MAX_HEAD_DIM);
	l.attn_scale = 1 / sqrtf((float)l.head_dim);
	l.qkv_bias = meta_has_tensor(m, "blk.0.attn_q.bias");
	l.out_bias = meta_has_tensor(m, "blk.0.attn_output.bias");
	l.mlp_bias = meta_has_tensor(m, "blk.0.ffn_down.bias");
	l.qk_norm = meta_has_tensor(m, "blk.0.attn_q_norm.weight");
	s->norm = NORM_RMS;
	s->norm_eps = (float)eps;
	s->embed_scale = 1;
	s->layers = mem_zalloc((size_t)s->n_layers, sizeof *s->layers);
	for (int i = 0; i < s->n_layers; i++)
		s->layers[i] = l;
	return 0;
}

// YaRN (Peng et al., arXiv 2309.00071): low frequencies are interpolated, high ones kept, with a ramp between.
static void yarn(float *inv_freq, int n_dims, double base, double factor, double fast, double slow, double original)
{
	double two_pi = 6.283185307179586, low = floor(n_dims * log(original / (fast * two_pi)) / (2 * log(base)));
	double high = ceil(n_dims * log(original / (slow * two_pi)) / (2 * log(base)));
	low = low < 0 ? 0 : low;
	high = high > n_dims - 1 ? n_dims - 1 : high;
	if (high <= low)
		high = low + 0.001; // the ramp must have a width
	for (int i = 0; i < n_dims / 2; i++) {
		double ramp = ((double)i - low) / (high - low), keep;
		ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
		keep = 1 - ramp;
		inv_freq[i] = (float)((double)inv_freq[i] * keep + (double)inv_freq[i] / factor * (1 - keep));
	}
}

static int apply_factors(const struct meta *m, struct rope_spec *r)
{
	const struct gguf_tensor *t = gguf_find_tensor(m->g, "rope_freqs.weight");
	if (!t)
		return 0;
	if (t->type != DTYPE_F32 || t->dim[0] != (uint64_t)r->n_dims / 2 || t->n_dims != 1)
		return err_set(m->err, m->len, ERR_INVALID, "%s: rope_freqs.weight must hold %d float32 values", gguf_path(m->g), r->n_dims / 2);
	for (int i = 0; i < r->n_dims / 2; i++) {
		float f;
		memcpy(&f, (const char *)t->data + (size_t)i * sizeof f, sizeof f);
		if (!(f > 0))
			return err_set(m->err, m->len, ERR_INVALID, "%s: rope_freqs.weight[%d] must be positive", gguf_path(m->g), i);
		r->inv_freq[i] /= f;
	}
	return 0;
}

static int scale_rope(const struct meta *m, const struct model_spec *s, struct rope_spec *r)
{
	char key[160];
	struct gguf_str type = {"none", 4};
	double factor = 0, fast = 32, slow = 1, attn = 0;
	int original = s->n_ctx;
	key_of(m, "rope.scaling.type", key);
	int rc = gguf_get_str(m->g, key, &type) < 0 ? err_set(m->err, m->len, ERR_INVALID, "%s: %s must be a string", gguf_path(m->g), key) : 0;
	if (!rc)
		rc = meta_float(m, "rope.scaling.factor", META_OPTIONAL, 1e-3, 1e6, &factor);
	if (!rc && !factor)
		rc = meta_float(m, "rope.scale_linear", META_OPTIONAL, 1e-3, 1e6, &factor);
	if (!rc)
		rc = meta_int(m, "rope.scaling.original_context_length", META_OPTIONAL, 1, MAX_CONTEXT, &original);
	if (!rc)
		rc = meta_float(m, "rope.scaling.attn_factor", META_OPTIONAL, 1e-3, 1e3, &attn);
	if (!rc)
		rc = meta_float(m, "rope.scaling.yarn_beta_fast", META_OPTIONAL, 1e-3, 1e6, &fast);
	if (!rc)
		rc = meta_float(m, "rope.scaling.yarn_beta_slow", META_OPTIONAL, 1e-3, 1e6, &slow);
	if (rc)
		return rc;
	bool is_yarn = type.len == 4 && !memcmp(type.data, "yarn", 4), is_none = type.len == 4 && !memcmp(type.data, "none", 4);
	bool is_linear = type.len == 6 && !memcmp(type.data, "linear", 6);
	if (!is_yarn && !is_none && !is_linear)
		return err_set(m->err, m->len, ERR_UNSUPPORTED, "%s: rope scaling type %.*s is not known; none, linear and yarn are",
		               gguf_path(m->g), (int)(type.len < 32 ? type.len : 32), type.data);
	if (is_yarn && factor > 0) {
		yarn(r->inv_freq, r->n_dims, r->base, factor, fast, slow, original);
		r->magnitude = (float)(attn > 0 ? attn : 1) * (float)(factor > 1 ? 0.1 * log(factor) + 1 : 1);
	} else if (factor > 0) { // linear, also where an old file names the factor only
		for (int i = 0; i < r->n_dims / 2; i++)
			r->inv_freq[i] /= (float)factor;
	}
	return apply_factors(m, r);
}

int arch_add_rope(const struct meta *m, struct model_spec *s, enum rope_kind kind, double base, bool scaled)
{
	CHECK(s->n_ropes < SPEC_MAX_ROPES, "%d ropes", s->n_ropes);
	struct rope_spec *r = &s->ropes[s->n_ropes];
	*r = (struct rope_spec){.kind = kind, .n_dims = s->layers[0].head_dim, .base = base ? base : 10000, .magnitude = 1};
	int rc = meta_int(m, "rope.dimension_count", META_OPTIONAL, 2, s->layers[0].head_dim, &r->n_dims);
	if (!rc && !base)
		rc = meta_float(m, "rope.freq_base", META_OPTIONAL, 1, 1e12, &r->base);
	if (rc)
		return rc;
	r->n_dims &= ~1;
	r->inv_freq = mem_zalloc((size_t)r->n_dims / 2, sizeof *r->inv_freq);
	for (int i = 0; i < r->n_dims / 2; i++)
		r->inv_freq[i] = (float)(1 / pow(r->base, 2.0 * i / r->n_dims));
	int index = s->n_ropes++;
	rc = scaled ? scale_rope(m, s, r) : 0;
	return rc ? rc : index;
}

// The name as published, else the path.
static void take_name(const struct gguf *g, struct model_spec *s)
{
	struct gguf_str name;
	if (gguf_get_str(g, "general.name", &name) > 0 && name.len)
		snprintf(s->name, sizeof s->name, "%.*s", (int)(name.len < SPEC_NAME ? name.len : SPEC_NAME - 1), name.data);
	else
		snprintf(s->name, sizeof s->name, "%s", gguf_path(g));
}

int model_read_spec(const struct gguf *g, struct model_spec *out, char *err, size_t len)
{
	struct gguf_str arch;
	*out = (struct model_spec){0};
	if (gguf_get_str(g, "general.architecture", &arch) <= 0)
		return err_set(err, len, ERR_INVALID, "%s: the key general.architecture is missing", gguf_path(g));
	for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
		if (strlen(archs[i].name) != arch.len || memcmp(archs[i].name, arch.data, arch.len))
			continue;
		struct meta m = {g, archs[i].name, err, len};
		snprintf(out->arch, sizeof out->arch, "%s", archs[i].name);
		take_name(g, out);
		int rc = archs[i].read(&m, out);
		if (rc)
			model_spec_deinit(out);
		return rc;
	}
	return err_set(err, len, ERR_UNSUPPORTED, "%s: the architecture %.*s is not known; this build knows %s", gguf_path(g),
	               (int)(arch.len < 64 ? arch.len : 64), arch.data, model_known_archs());
}

void model_spec_deinit(struct model_spec *s)
{
	for (int i = 0; i < s->n_ropes; i++)
		free(s->ropes[i].inv_freq);
	free(s->layers);
	*s = (struct model_spec){0};
}
