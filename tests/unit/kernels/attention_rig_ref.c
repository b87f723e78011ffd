// SPDX-License-Identifier: Apache-2.0
#include "kernels/ref/ref.h"
#include "tests/unit/kernels/attention_rig.h"

void rig_ref_activations(struct backend *be, float **qkv, float **attn)
{
	*qkv = ref_of(be)->qkv;
	*attn = ref_of(be)->attn;
}
