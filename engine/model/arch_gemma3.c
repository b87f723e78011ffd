// SPDX-License-Identifier: Apache-2.0
//
// Gemma 3 (text): five layers with a sliding window to one with full attention, each kind with its own rotation; norms on
// query and key heads and after attention and MLP; embeddings scaled by the root of the width. GGUF holds 1 + w in the norms.
#include "engine/model/arch.h"

#include <math.h>

enum { LAYERS_A_PERIOD = 6 };

int arch_gemma3(const struct meta *m, struct model_spec *s)
{
	int window = 512, period = LAYERS_A_PERIOD, full, local;
	double base = 10000;
	int rc = arch_read_common(m, s);
	if (!rc)
		rc = meta_int(m, "attention.sliding_window", META_OPTIONAL, 1, 1 << 24, &window);
	if (!rc)
		rc = meta_int(m, "attention.sliding_window_pattern", META_OPTIONAL, 1, MAX_LAYERS, &period);
	if (!rc)
		rc = meta_float(m, "rope.freq_base_swa", META_OPTIONAL, 1, 1e12, &base);
	if (rc)
		return rc;
	if ((full = arch_add_rope(m, s, ROPE_HALVES, 0, true)) < 0)
		return full;
	if ((local = arch_add_rope(m, s, ROPE_HALVES, base, false)) < 0)
		return local;
	s->embed_scale = sqrtf((float)s->d_model);
	for (int i = 0; i < s->n_layers; i++) {
		struct layer_spec *l = &s->layers[i];
		bool is_full = (i + 1) % period == 0;
		l->window = is_full ? 0 : window;
		l->rope = is_full ? full : local;
		l->post_norms = true;
		l->act = ACT_GELU_TANH;
	}
	return 0;
}
