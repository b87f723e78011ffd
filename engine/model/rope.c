// SPDX-License-Identifier: Apache-2.0
//
// Rotary frequencies as GGUF files state them. Keys: rope.dimension_count, rope.scaling.type (none, linear, yarn,
// longrope), .factor, .attn_factor, .original_context_length, .yarn_beta_fast, .yarn_beta_slow; rope.scale_linear of
// old files. Tensors: rope_freqs.weight (Llama 3: divisors, worked out by who converted the file),
// rope_factors_long/short.weight.
#include "engine/model/arch.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <math.h>
#include <string.h>

enum { MAX_ORIGINAL = 1 << 24 };

enum scaling { SCALE_NONE, SCALE_LINEAR, SCALE_YARN, SCALE_LONG };

static enum scaling scaling_type(struct meta *m, double factor)
{
	static const char *const names[] = {"none", "linear", "yarn", "longrope"};
	char shown[META_SHOWN];
	// A file that names a factor but no type means linear: the type is the younger key.
	struct gguf_str type = meta_str(m, "rope.scaling.type", factor > 0 ? "linear" : "none");
	for (int i = 0; i < 4; i++)
		if (type.len == strlen(names[i]) && !memcmp(type.data, names[i], type.len))
			return (enum scaling)i;
	meta_fail(m, ERR_UNSUPPORTED, "the rotary scaling %s is not known: none, linear, yarn and longrope are",
			  meta_shown(type, shown));
	return SCALE_NONE;
}

// The (fractional) pair that turns `turns` times within the original context.
static double pair_of(const struct rope_spec *r, double original, double turns)
{
	return r->n_dims * log(original / (turns * 2 * M_PI)) / (2 * log(r->base));
}

// YaRN (Peng et al., arXiv 2309.00071): slow pairs are interpolated, fast ones kept, with a ramp between.
static void yarn(struct meta *m, struct rope_spec *r, double factor, double original)
{
	double fast = meta_float(m, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32);
	double slow = meta_float(m, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1);
	double low = floor(pair_of(r, original, fast)), high = ceil(pair_of(r, original, slow));
	low = low < 0 ? 0 : low;
	high = high > r->n_dims - 1 ? r->n_dims - 1 : high;
	double width = high - low < 0.001 ? 0.001 : high - low;
	for (int i = 0; i < r->n_dims / 2; i++) {
		double ramp = fmin(fmax((i - low) / width, 0), 1);
		r->inv_freq[i] = (float)((double)r->inv_freq[i] * (1 - ramp) + (double)r->inv_freq[i] / factor * ramp);
	}
	r->magnitude *= (float)(factor > 1 ? 1 + 0.1 * log(factor) : 1);
}

static void divide_by_tensor(struct meta *m, struct rope_spec *r, const char *name, bool required)
{
	const struct gguf_tensor *t = gguf_find_tensor(m->g, name);
	uint64_t n = (uint64_t)r->n_dims / 2;
	if (!t && required)
		meta_fail(m, ERR_INVALID, "the tensor %s is missing", name);
	if (!t)
		return;
	if (t->type != DTYPE_F32 || t->dim[0] != n || t->dim[1] != 1 || t->dim[2] != 1 || t->dim[3] != 1) {
		meta_fail(m, ERR_INVALID, "the tensor %s must hold %d values of F32", name, (int)n);
		return;
	}
	for (int i = 0; i < (int)n; i++) {
		float f;
		memcpy(&f, (const char *)t->data + (size_t)i * sizeof f, sizeof f);
		if (!(f > 1e-6f && f < 1e9f)) {
			meta_fail(m, ERR_INVALID, "%s[%d] is %g, it must be positive", name, i, (double)f);
			return;
		}
		r->inv_freq[i] /= f;
	}
}

// Corrections of YaRN that this build leaves out, with the value at which they do nothing.
static void refuse_variants(struct meta *m)
{
	static const struct {
		const char *key;
		double neutral;
	} variants[] = {
		{"rope.scaling.yarn_log_multiplier", 0},
		{"rope.scaling.yarn_ext_factor", 1},
		{"rope.scaling.yarn_attn_factor", 1},
	};
	for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
		double v = meta_float(m, variants[i].key, -1e6, 1e6, variants[i].neutral);
		if (v != variants[i].neutral)
			meta_fail(m, ERR_UNSUPPORTED, "%s.%s is %g, only %g is supported", m->arch, variants[i].key, v,
					  variants[i].neutral);
	}
}

static void scale(struct meta *m, const struct model_spec *s, struct rope_spec *r)
{
	double factor = meta_float(m, "rope.scaling.factor", 0, 1e6, meta_float(m, "rope.scale_linear", 0, 1e6, 0));
	enum scaling type = scaling_type(m, factor);
	int original = meta_int(m, "rope.scaling.original_context_length", 1, MAX_ORIGINAL, s->n_ctx);
	refuse_variants(m);
	if ((type == SCALE_LINEAR || type == SCALE_YARN) && factor > 0 && factor < 1e-3)
		meta_fail(m, ERR_INVALID, "%s.rope.scaling.factor is %g, it must be 0 or at least 0.001", m->arch, factor);
	if (m->rc)
		return;
	if (type == SCALE_YARN || type == SCALE_LONG)
		r->magnitude = (float)meta_float(m, "rope.scaling.attn_factor", 1e-3, 1e3, 1);
	if (type == SCALE_LINEAR && factor > 0)
		for (int i = 0; i < r->n_dims / 2; i++)
			r->inv_freq[i] /= (float)factor;
	if (type == SCALE_YARN && factor > 0)
		yarn(m, r, factor, original);
	// One table for the model's life: keys in the cache must not depend on how long their text became later.
	if (type == SCALE_LONG)
		divide_by_tensor(m, r, s->n_ctx > original ? "rope_factors_long.weight" : "rope_factors_short.weight", true);
	divide_by_tensor(m, r, "rope_freqs.weight", false);
}

int arch_add_rope(struct meta *m, struct model_spec *s, enum rope_kind kind, double base, bool scaled)
{
	CHECK(s->n_ropes < SPEC_MAX_ROPES, "%d ropes", s->n_ropes);
	int head_dim = s->layers[0].head_dim, n = meta_int(m, "rope.dimension_count", 2, head_dim, head_dim);
	struct rope_spec *r = &s->ropes[s->n_ropes];
	if (n % 2)
		meta_fail(m, ERR_INVALID, "%s.rope.dimension_count is %d, it must be even", m->arch, n);
	*r = (struct rope_spec){.kind = kind, .n_dims = n & ~1, .base = base, .magnitude = 1};
	r->inv_freq = mem_zalloc((size_t)n / 2, sizeof *r->inv_freq);
	for (int i = 0; i < n / 2; i++)
		// Rounded where PyTorch rounds: models were trained with these very numbers.
		r->inv_freq[i] = 1 / (float)pow(base, (double)((float)(2 * i) / (float)r->n_dims));
	if (scaled)
		scale(m, s, r);
	return s->n_ropes++;
}

void arch_rope_all(struct meta *m, struct model_spec *s, enum rope_kind kind)
{
	int rope = arch_add_rope(m, s, kind, meta_float(m, "rope.freq_base", 1.001, 1e12, 10000), true);
	for (int i = 0; i < s->n_layers; i++)
		s->layers[i].rope = rope;
}
