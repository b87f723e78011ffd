// SPDX-License-Identifier: Apache-2.0
#include "server/report.h"

#include "engine/capacity.h"

#include <inttypes.h>

enum { SHORT_CHAT = 2048 }; // tokens of the conversation that the report counts in

static const char *size(uint64_t bytes, char out[32])
{
	return capacity_format(bytes, out, 32);
}

void report_print(FILE *f, const struct engine_info *in, const char *url, double ready_seconds)
{
	char a[32], b[32], c[32];
	int64_t tokens = (int64_t)in->n_blocks * in->block_tokens;
	fprintf(f, "quire " QUIRE_VERSION "\n");
	fprintf(f, "  model      %s (%s, %s), %d layers, vocabulary %d, chat by %s\n", in->model_name, in->arch, in->quantization,
	        in->n_layers, in->n_vocab, in->template_note);
	fprintf(f, "  weights    %s in memory, %s on disk\n", size(in->weight_bytes, a), size(in->file_bytes, b));
	fprintf(f, "  KV cache   %s a token = %d layers × %d heads × 2 × %d × %s\n", size(in->kv_bytes_per_token, a), in->n_layers,
	        in->n_kv_heads, in->head_dim, in->kv_dtype);
	fprintf(f, "             %s = %d blocks of %d tokens = %" PRId64 " tokens: %" PRId64 " conversations of %d tokens, or %" PRId64 " of %d\n",
	        size(in->kv_pool_bytes, a), in->n_blocks, in->block_tokens, tokens, tokens / in->max_model_len, in->max_model_len,
	        tokens / SHORT_CHAT, SHORT_CHAT);
	fprintf(f, "  memory     at most %s in all (scratch %s); %s are free now\n", size(in->rss_limit_bytes, a), size(in->scratch_bytes, b),
	        size(in->memory_free_bytes, c));
	fprintf(f, "  back end   %s\n", in->backend);
	fprintf(f, "  limits     %d tokens a sequence%s, %d sequences at once, %d tokens a step, %d waiting\n", in->max_model_len,
	        in->max_model_len < in->n_ctx_train ? " (the model could more)" : "", in->max_seqs, in->max_batched_tokens, in->queue_limit);
	fprintf(f, "  ready      in %.2f s at %s\n", ready_seconds, url);
	fflush(f);
}
