// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a model file: refused in one line, or a spec whose numbers keep their ranges and whose weights load and
// run.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf_internal.h"
#include "engine/model/model.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_spec(const struct model_spec *s)
{
	CHECK(s->n_layers >= 1 && s->n_layers <= MAX_LAYERS && s->d_model >= 1 && s->n_vocab >= 1 && s->n_ctx >= 1);
	for (int i = 0; i < s->n_layers; i++) {
		const struct layer_spec *l = &s->layers[i];
		CHECK(l->n_kv_heads >= 1 && l->n_heads % l->n_kv_heads == 0 && l->head_dim % 2 == 0 &&
			  l->head_dim <= MAX_HEAD_DIM);
		CHECK(l->rope >= -1 && l->rope < s->n_ropes && l->window >= 0 && l->d_ff >= 1);
	}
	for (int i = 0; i < s->n_ropes; i++)
		for (int k = 0; k < s->ropes[i].n_dims / 2; k++)
			CHECK(isfinite(s->ropes[i].inv_freq[k]), "rope %d, pair %d", i, k);
}

// One token through the whole model.
static void run(struct model *m, struct backend *be)
{
	struct kv_shape *shape = mem_zalloc(1, sizeof *shape);
	struct reserve r;
	int32_t zero = 0, one = 1, starts[] = {0, 1};
	const int32_t *table = &zero;
	char err[256];
	struct batch_view b = {.n_tokens = 1,
						   .n_seqs = 1,
						   .ids = &zero,
						   .pos = &zero,
						   .seq_start = starts,
						   .kv_len = &one,
						   .blocks = &table,
						   .n_out = 1,
						   .out_rows = &zero};
	float *logits = mem_zalloc((size_t)model_spec(m)->n_vocab, sizeof *logits);
	model_kv_shape(model_spec(m), KV_F16, 16, shape);
	model_reserve_sizes(m, 1, 1, 1, 1, &r);
	if (!be->op->reserve(be, &r, err, sizeof err) && !be->op->kv_create(be, shape, 1, err, sizeof err))
		model_forward(m, &b, logits);
	free(logits);
	free(shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char err[512] = "";
	struct gguf *g;
	struct model_spec s;
	void *copy = mem_alloc(size);
	memcpy(copy, data, size);
	if (!gguf__open_memory("f.gguf", copy, size, &g, err, sizeof err)) {
		if (model_read_spec(g, &s, err, sizeof err)) {
			CHECK(!strncmp(err, "f.gguf: ", 8) && err[8] && !strchr(err, '\n') && !s.layers, "%s", err);
		} else {
			struct backend *be = ref_backend_create(1);
			struct model *m;
			check_spec(&s);
			model_spec_deinit(&s);
			if (!model_load(g, be, &m, err, sizeof err))
				run(m, be);
			model_destroy(m);
			be->op->destroy(be);
		}
		gguf_close(g);
	}
	free(copy);
	return 0;
}
