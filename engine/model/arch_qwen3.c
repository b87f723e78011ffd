// SPDX-License-Identifier: Apache-2.0
//
// Qwen 3 (dense): norms on every query and key head, no biases, rotation over halves.
#include "engine/model/arch.h"

int arch_qwen3(const struct meta *m, struct model_spec *s)
{
	int rc = arch_read_common(m, s), rope = rc ? rc : arch_add_rope(m, s, ROPE_HALVES, 0, true);
	for (int i = 0; rope >= 0 && i < s->n_layers; i++)
		s->layers[i].rope = rope;
	return rope < 0 ? rope : 0;
}
