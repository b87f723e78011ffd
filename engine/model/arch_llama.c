// SPDX-License-Identifier: Apache-2.0
//
// Llama 1 to 3 and what shares their layers (SmolLM, Mistral, TinyLlama …). GGUF stores Q and K permuted, so rotation is over pairs.
#include "engine/model/arch.h"

int arch_llama(const struct meta *m, struct model_spec *s)
{
	int rc = arch_read_common(m, s), rope = rc ? rc : arch_add_rope(m, s, ROPE_PAIRS, 0, true);
	for (int i = 0; rope >= 0 && i < s->n_layers; i++)
		s->layers[i].rope = rope;
	return rope < 0 ? rope : 0;
}
