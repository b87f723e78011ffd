// SPDX-License-Identifier: Apache-2.0
//
// Llama 1 to 3 and what shares their layers (SmolLM, TinyLlama, Mistral with its window …). GGUF stores the rows of Q
// and K so that the rotation is over neighbours.
#include "engine/model/arch.h"

enum { MAX_WINDOW = 1 << 24 };

void arch_llama(struct meta *m, struct model_spec *s)
{
	arch_read_common(m, s);
	arch_rope_all(m, s, ROPE_PAIRS);
	int window = meta_int(m, "attention.sliding_window", 0, MAX_WINDOW, 0);
	for (int i = 0; i < s->n_layers; i++)
		s->layers[i].window = window;
}
