// SPDX-License-Identifier: Apache-2.0
//
// What GGUF calls the tensors. Source: the list of standardised names in ggml's docs/gguf.md.
#include "engine/model/weights.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[WEIGHT_ROLES] = {
	[WEIGHT_EMBED] = "token_embd.weight",
	[WEIGHT_HEAD] = "output.weight",
	[WEIGHT_FINAL_NORM] = "output_norm.weight",
	[WEIGHT_ATTN_NORM] = "attn_norm.weight",
	[WEIGHT_Q] = "attn_q.weight",
	[WEIGHT_K] = "attn_k.weight",
	[WEIGHT_V] = "attn_v.weight",
	[WEIGHT_Q_BIAS] = "attn_q.bias",
	[WEIGHT_K_BIAS] = "attn_k.bias",
	[WEIGHT_V_BIAS] = "attn_v.bias",
	[WEIGHT_Q_NORM] = "attn_q_norm.weight",
	[WEIGHT_K_NORM] = "attn_k_norm.weight",
	[WEIGHT_OUT] = "attn_output.weight",
	[WEIGHT_OUT_BIAS] = "attn_output.bias",
	[WEIGHT_POST_ATTN_NORM] = "post_attention_norm.weight",
	[WEIGHT_MLP_NORM] = "ffn_norm.weight",
	[WEIGHT_GATE] = "ffn_gate.weight",
	[WEIGHT_UP] = "ffn_up.weight",
	[WEIGHT_GATE_BIAS] = "ffn_gate.bias",
	[WEIGHT_UP_BIAS] = "ffn_up.bias",
	[WEIGHT_DOWN] = "ffn_down.weight",
	[WEIGHT_DOWN_BIAS] = "ffn_down.bias",
	[WEIGHT_POST_MLP_NORM] = "post_ffw_norm.weight",
};

static void name(enum weight_role role, int layer, char out[WEIGHT_NAME])
{
	if (role < WEIGHT_ATTN_NORM)
		snprintf(out, WEIGHT_NAME, "%s", names[role]);
	else
		snprintf(out, WEIGHT_NAME, "blk.%d.%s", layer, names[role]);
}

static bool find(const struct weight_source *src, enum weight_role role, int layer, struct gguf_tensor *out)
{
	char full[WEIGHT_NAME];
	name(role, layer, full);
	const struct gguf_tensor *t = gguf_find_tensor(src->file, full);
	if (t)
		*out = *t;
	return t != NULL;
}

static bool has_part(const struct model_spec *s, const char *full)
{
	const char *rest = full;
	char *end;
	long layer = -1;
	uint64_t k, rows;
	if (!strncmp(full, "rope_f", 6)) // rope_freqs, rope_factors_*: read with the spec
		return true;
	if (!strncmp(full, "blk.", 4) && isdigit((unsigned char)full[4])) {
		layer = strtol(full + 4, &end, 10);
		if (*end != '.' || layer < 0 || layer >= s->n_layers)
			return false;
		rest = end + 1;
	}
	for (int role = layer < 0 ? WEIGHT_EMBED : WEIGHT_ATTN_NORM; role < (layer < 0 ? WEIGHT_ATTN_NORM : WEIGHT_ROLES);
		 role++)
		if (!strcmp(rest, names[role]))
			return weight_shape(s, (enum weight_role)role, (int)layer, &k, &rows);
	return false;
}

static const char *stray(const struct weight_source *src, const struct model_spec *s)
{
	for (size_t i = 0; i < gguf_n_tensors(src->file); i++)
		if (!has_part(s, gguf_tensor_at(src->file, i)->name))
			return gguf_tensor_at(src->file, i)->name;
	return NULL;
}

static void release(const struct weight_source *src, const struct gguf_tensor *t)
{
	gguf_drop_pages(src->file, t);
}

struct weight_source gguf_weights(const struct gguf *g)
{
	return (struct weight_source){g, gguf_path(g), name, find, stray, release};
}
