// SPDX-License-Identifier: Apache-2.0
//
// Qwen 3 (dense): a norm on every query and key head, no biases, rotation over halves.
#include "engine/model/arch.h"

void arch_qwen3(struct meta *m, struct model_spec *s)
{
	arch_read_common(m, s);
	arch_rope_all(m, s, ROPE_HALVES);
	for (int i = 0; i < s->n_layers; i++)
		s->layers[i].qk_norm = true;
}
