// SPDX-License-Identifier: Apache-2.0
//
// Qwen 2 and 2.5: as Llama, with biases on Q, K and V (found as tensors), rotation over halves.
#include "engine/model/arch.h"

void arch_qwen2(struct meta *m, struct model_spec *s)
{
	arch_read_common(m, s);
	arch_rope_all(m, s, ROPE_HALVES);
}
