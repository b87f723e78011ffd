// SPDX-License-Identifier: Apache-2.0
//
// From metadata to a spec: what the families share, and the list of families.
#include "engine/model/arch.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Wider than anything published, and small enough that products of two fit 64 bits and sums of a row fit an int.
enum { MAX_WIDTH = 1 << 20, MAX_CONTEXT = 1 << 24, MAX_VOCAB = 1 << 24, MAX_HEADS = 1024 };

static const struct {
	const char *name;
	void (*read)(struct meta *m, struct model_spec *s);
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

static void read_vocabulary(struct meta *m, struct model_spec *s)
{
	const struct gguf_tensor *t = gguf_find_tensor(m->g, "token_embd.weight");
	s->n_vocab = 1;
	s->tied = gguf_find_tensor(m->g, "output.weight") == NULL;
	if (!t)
		meta_fail(m, ERR_INVALID, "the tensor token_embd.weight is missing");
	else if (t->dim[1] < 1 || t->dim[1] > MAX_VOCAB)
		meta_fail(m, ERR_INVALID, "token_embd.weight must have 1 to %d rows", MAX_VOCAB);
	else
		s->n_vocab = (int)t->dim[1];
}

// Parts that some files of these families have, and that would be left out without a word.
static void refuse_extras(struct meta *m)
{
	static const char *const scales[] = {"embedding_scale", "residual_scale", "logit_scale"};
	if (meta_int(m, "expert_count", 0, 1 << 20, 0) > 0)
		meta_fail(m, ERR_UNSUPPORTED, "%s.expert_count: models with experts are not supported", m->arch);
	for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
		double v = meta_float(m, scales[i], -1e30, 1e30, 1);
		if (v != 0 && v != 1)
			meta_fail(m, ERR_UNSUPPORTED, "%s.%s is %g, only 1 is supported", m->arch, scales[i], v);
	}
}

static void read_heads(struct meta *m, const struct model_spec *s, struct layer_spec *l)
{
	l->n_heads = meta_layers_int(m, "attention.head_count", 1, MAX_HEADS, META_REQUIRED);
	l->n_kv_heads = meta_layers_int(m, "attention.head_count_kv", 1, MAX_HEADS, l->n_heads);
	if (l->n_heads % l->n_kv_heads)
		meta_fail(m, ERR_INVALID, "%s.attention.head_count is %d, it must be a multiple of head_count_kv, %d", m->arch,
				  l->n_heads, l->n_kv_heads);
	bool divides = s->d_model % l->n_heads == 0 && s->d_model >= l->n_heads;
	l->head_dim = meta_int(m, "attention.key_length", 1, 1 << 16, divides ? s->d_model / l->n_heads : META_REQUIRED);
	if (l->head_dim < 2 || l->head_dim > MAX_HEAD_DIM || l->head_dim % 2) {
		meta_fail(m, ERR_UNSUPPORTED, "the head size is %d, it must be even and at most %d", l->head_dim, MAX_HEAD_DIM);
		l->head_dim = 2;
	}
	int value_dim = meta_int(m, "attention.value_length", 1, 1 << 16, l->head_dim);
	if (value_dim != l->head_dim)
		meta_fail(m, ERR_UNSUPPORTED, "%s.attention.value_length is %d, it must equal key_length, %d", m->arch,
				  value_dim, l->head_dim);
	l->attn_scale = (float)meta_float(m, "attention.scale", 0, 1e3, 0);
	if (l->attn_scale == 0)
		l->attn_scale = 1 / sqrtf((float)l->head_dim);
}

void arch_read_common(struct meta *m, struct model_spec *s)
{
	struct layer_spec l = {.kind = LAYER_ATTENTION, .gated = true, .act = ACT_SILU, .rope = -1};
	s->n_layers = meta_int(m, "block_count", 1, MAX_LAYERS, META_REQUIRED);
	s->d_model = meta_int(m, "embedding_length", 1, MAX_WIDTH, META_REQUIRED);
	s->n_ctx = meta_int(m, "context_length", 1, MAX_CONTEXT, META_REQUIRED);
	s->norm = NORM_RMS;
	s->norm_eps = (float)meta_float(m, "attention.layer_norm_rms_epsilon", 0, 1, 1e-5);
	s->embed_scale = 1;
	read_vocabulary(m, s);
	read_heads(m, s, &l);
	refuse_extras(m);
	l.d_ff = meta_layers_int(m, "feed_forward_length", 1, MAX_WIDTH, META_REQUIRED);
	l.qkv_bias = gguf_find_tensor(m->g, "blk.0.attn_q.bias") != NULL;
	l.out_bias = gguf_find_tensor(m->g, "blk.0.attn_output.bias") != NULL;
	l.mlp_bias = gguf_find_tensor(m->g, "blk.0.ffn_down.bias") != NULL;
	s->layers = mem_zalloc((size_t)s->n_layers, sizeof *s->layers);
	for (int i = 0; i < s->n_layers; i++)
		s->layers[i] = l;
}

// The name as published, else the file's without its folder and ending; whole characters only, it goes into JSON.
static void take_name(const struct gguf *g, struct model_spec *s)
{
	struct gguf_str name;
	struct buf clean;
	const char *slash = strrchr(gguf_path(g), '/'), *file = slash ? slash + 1 : gguf_path(g), *dot = strrchr(file, '.');
	if (gguf_get_str(g, "general.name", &name) <= 0 || !name.len)
		name = (struct gguf_str){file, dot && dot > file ? (size_t)(dot - file) : strlen(file)};
	buf_init(&clean);
	utf8_sanitize(&clean, name.data, name.len < SPEC_NAME ? name.len : SPEC_NAME);
	size_t n = clean.len < SPEC_NAME ? clean.len : utf8_whole(clean.data, SPEC_NAME - 1);
	snprintf(s->name, sizeof s->name, "%.*s", (int)n, clean.data);
	buf_deinit(&clean);
}

int model_read_spec(const struct gguf *g, struct model_spec *out, char *err, size_t len)
{
	struct gguf_str arch;
	char shown[META_SHOWN];
	*out = (struct model_spec){0};
	if (gguf_get_str(g, "general.architecture", &arch) <= 0)
		return err_set(err, len, ERR_INVALID, "%s: the key general.architecture is missing", gguf_path(g));
	for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
		if (strlen(archs[i].name) != arch.len || memcmp(archs[i].name, arch.data, arch.len))
			continue;
		struct meta m = {.g = g, .arch = archs[i].name, .err = err, .len = len};
		struct weight_source src = gguf_weights(g);
		snprintf(out->arch, sizeof out->arch, "%s", archs[i].name);
		take_name(g, out);
		archs[i].read(&m, out);
		int rc = m.rc ? m.rc : weights_check(&src, out, err, len);
		if (rc)
			model_spec_deinit(out);
		return rc;
	}
	return err_set(err, len, ERR_UNSUPPORTED, "%s: the architecture %s is not known; this build knows %s", gguf_path(g),
				   meta_shown(arch, shown), model_known_archs());
}

void model_spec_deinit(struct model_spec *s)
{
	for (int i = 0; i < s->n_ropes; i++)
		free(s->ropes[i].inv_freq);
	free(s->layers);
	*s = (struct model_spec){0};
}
