// SPDX-License-Identifier: Apache-2.0
//
// The MLP with its norms. Activations are the exact functions: no tables, no polynomials.
#include "kernels/ref/ref.h"

#include <math.h>

static float activate(enum activation act, float v)
{
	switch (act) {
	case ACT_SILU:
		return v / (1 + expf(-v));
	case ACT_GELU_TANH:
		return 0.5f * v * (1 + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
	default:
		return 0.5f * v * (1 + erff(v * 0.70710678118654752f));
	}
}

void ref_mlp(struct backend *b, const struct mlp *m)
{
	struct ref_backend *be = ref_of(b);
	size_t f = (size_t)m->d_ff, width = m->in->n;
	ref_norm_all(be, &m->norm, be->norm);
	ref_linear(be, be->norm, be->batch->n_tokens, m->in, m->in_bias, be->hidden);
	for (int t = 0; t < be->batch->n_tokens; t++)
		for (size_t i = 0; i < f; i++) {
			const float *h = be->hidden + (size_t)t * width;
			be->norm[(size_t)t * f + i] = m->gated ? activate(m->act, h[i]) * h[f + i] : activate(m->act, h[i]);
		}
	ref_linear(be, be->norm, be->batch->n_tokens, m->down, m->down_bias, be->out);
	ref_add_residual(be, &m->post_norm, be->out);
}
