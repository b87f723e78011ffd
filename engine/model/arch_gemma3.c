// SPDX-License-Identifier: Apache-2.0
//
// Gemma 3 (text): five layers with a sliding window to one with full attention, each kind with its own rotation; norms
// on query and key heads and after attention and MLP; embeddings scaled by the root of the width. GGUF holds 1 + w in
// the norms.
#include "engine/model/arch.h"

#include "engine/base/err.h"

#include <math.h>

enum { LAYERS_A_PERIOD = 6, LAYERS_OF_27B = 62, MAX_WINDOW = 1 << 24 };

// The period as a number, or one flag a layer: true where it has the window.
static void read_pattern(struct meta *m, const struct model_spec *s, bool *local)
{
	struct gguf_array flags;
	if (gguf_get_array(m->g, "gemma3.attention.sliding_window_pattern", &flags) <= 0) {
		int period = meta_int(m, "attention.sliding_window_pattern", 1, MAX_LAYERS, LAYERS_A_PERIOD);
		for (int i = 0; i < s->n_layers; i++)
			local[i] = (i + 1) % period != 0;
	} else if (flags.type != GGUF_BOOL || flags.n != (size_t)s->n_layers) {
		meta_fail(m, ERR_INVALID, "gemma3.attention.sliding_window_pattern must be a number or %d flags", s->n_layers);
	} else {
		for (int i = 0; i < s->n_layers; i++)
			local[i] = gguf_array_i64(&flags, (size_t)i) != 0;
	}
}

void arch_gemma3(struct meta *m, struct model_spec *s)
{
	bool local[MAX_LAYERS] = {false};
	arch_read_common(m, s);
	read_pattern(m, s, local);
	int window = meta_int(m, "attention.sliding_window", 1, MAX_WINDOW, 512);
	int full_rope = arch_add_rope(m, s, ROPE_HALVES, meta_float(m, "rope.freq_base", 1.001, 1e12, 1e6), true);
	int local_rope = arch_add_rope(m, s, ROPE_HALVES, meta_float(m, "rope.freq_base_swa", 1.001, 1e12, 1e4), false);
	s->embed_scale = sqrtf((float)s->d_model);
	s->logit_softcap = (float)meta_float(m, "final_logit_softcapping", 0, 1e6, 0);
	for (int i = 0; i < s->n_layers; i++) {
		struct layer_spec *l = &s->layers[i];
		l->window = local[i] ? window : 0;
		l->rope = local[i] ? local_rope : full_rope;
		l->qk_norm = true;
		l->post_norms = true;
		l->act = ACT_GELU_TANH;
		if (s->n_layers == LAYERS_OF_27B) // its query_pre_attn_scalar is 5376 / 32, and the file has no key for it
			l->attn_scale = 1 / sqrtf((float)s->d_model / (float)l->n_heads);
	}
}
