// SPDX-License-Identifier: Apache-2.0
//
// Qwen 2 and 2.5: as Llama, with biases on Q, K and V, rotation over halves.
#include "engine/model/arch.h"

int arch_qwen2(const struct meta *m, struct model_spec *s)
{
	int rc = arch_read_common(m, s), rope = rc ? rc : arch_add_rope(m, s, ROPE_HALVES, 0, true);
	for (int i = 0; rope >= 0 && i < s->n_layers; i++)
		s->layers[i].rope = rope;
	return rope < 0 ? rope : 0;
}
