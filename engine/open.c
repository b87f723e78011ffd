// SPDX-License-Identifier: Apache-2.0
//
// Opening a model: file, tokenizer, template, weights; then the memory plan and everything that is sized by it. After this
// nothing of the engine grows.
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/capacity.h"
#include "engine/engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEFAULT_STEP_TOKENS = 512, // enough rows to amortise the weights; a step that decodes is cut by time anyway
	PROCESS_BYTES = 40 << 20,  // code, tables, HTTP connections: what the process takes beside weights, scratch and cache
	MAX_TEMPLATE = 1 << 20,
};

static int open_backend(struct engine *e, char *err, size_t len)
{
	const char *want = e->opt.backend;
	if (!strcmp(want, "ref")) {
		e->be = ref_backend_create(e->opt.n_threads);
		return 0;
	}
	if (!strcmp(want, "auto") || !strcmp(want, "cpu"))
		return cpu_backend_create(e->opt.n_threads, e->opt.isa, &e->be, err, len);
	return err_set(err, len, ERR_INVALID, "--backend %s is not known: auto, cpu and ref are", want);
}

static char *read_file(const char *path, size_t *n, char *err, size_t len)
{
	FILE *f = fopen(path, "rb");
	if (!f) {
		err_set(err, len, ERR_IO, "--chat-template %s: cannot be read", path);
		return NULL;
	}
	char *text = mem_alloc(MAX_TEMPLATE);
	*n = fread(text, 1, MAX_TEMPLATE, f);
	fclose(f);
	if (*n < MAX_TEMPLATE)
		return text;
	free(text);
	err_set(err, len, ERR_LIMIT, "--chat-template %s: longer than %d bytes", path, MAX_TEMPLATE);
	return NULL;
}

// A template that the operator names must work; the model's own may fail: then completions work and chat says why.
static int open_template(struct engine *e, char *err, size_t len)
{
	struct gguf_str own = {0};
	const char *note = NULL;
	if (e->opt.chat_template_path) {
		size_t n;
		char why[384], *text = read_file(e->opt.chat_template_path, &n, err, len);
		if (!text)
			return ERR_IO;
		int rc = chat_template_create(text, n, e->tok, &e->chat, &note, why, sizeof why);
		free(text);
		if (rc)
			return err_set(err, len, rc, "--chat-template %s: %s", e->opt.chat_template_path, why);
		snprintf(e->template_note, sizeof e->template_note, "%s", e->opt.chat_template_path);
	} else {
		char why[384];
		int has = gguf_get_str(e->file, "tokenizer.chat_template", &own);
		if (chat_template_create(has > 0 ? own.data : NULL, own.len, e->tok, &e->chat, &note, why, sizeof why)) {
			e->chat = NULL;
			snprintf(e->template_note, sizeof e->template_note, "the model's chat template cannot be used: %s", why);
		} else {
			snprintf(e->template_note, sizeof e->template_note, "%s", note);
		}
	}
	e->info.has_chat = e->chat != NULL;
	e->info.template_note = e->template_note;
	return 0;
}

static void find_ends(struct engine *e)
{
	int n_vocab = (int)tokenizer_n_vocab(e->tok), n = 0;
	for (int32_t id = 0; id < n_vocab; id++)
		n += tokenizer_is_eog(e->tok, id);
	e->ends = mem_zalloc((size_t)n, sizeof *e->ends);
	for (int32_t id = 0; id < n_vocab; id++)
		if (tokenizer_is_eog(e->tok, id))
			e->ends[e->n_ends++] = id;
}

// The type that most bytes of the weights have.
static void name_quantization(struct engine *e)
{
	size_t bytes[DTYPE_BF16 + 1] = {0};
	int best = 0;
	for (size_t i = 0, n = gguf_n_tensors(e->file); i < n; i++) {
		const struct gguf_tensor *t = gguf_tensor_at(e->file, i);
		bytes[t->type] += t->bytes;
		if (bytes[t->type] > bytes[best])
			best = (int)t->type;
	}
	snprintf(e->quantization, sizeof e->quantization, "%s", dtype_name((uint32_t)best));
}

static int kv_dtype(const struct engine *e, enum kv_dtype *out, char *err, size_t len)
{
	const char *t = e->opt.kv_dtype;
	*out = !strcmp(t, "f32") ? KV_F32 : KV_F16;
	if (!strcmp(t, "auto") || !strcmp(t, "f16") || !strcmp(t, "f32"))
		return 0;
	return err_set(err, len, ERR_INVALID, "--kv-cache-dtype %s is not known: auto, f16 and f32 are", t);
}

static int step_tokens(const struct engine *e)
{
	int n = e->opt.max_batched_tokens ? e->opt.max_batched_tokens : DEFAULT_STEP_TOKENS;
	return n < e->opt.max_seqs + 16 ? e->opt.max_seqs + 16 : n;
}

// Scratch, cache and scheduler, by the memory plan.
static int size_everything(struct engine *e, char *err, size_t len)
{
	const struct model_spec *spec = model_spec(e->model);
	struct engine_info *in = &e->info;
	enum kv_dtype type;
	int rc = kv_dtype(e, &type, err, len);
	if (rc)
		return rc;
	struct kv_shape *shape = mem_zalloc(1, sizeof *shape);
	model_kv_shape(spec, type, e->opt.block_tokens, shape);
	size_t block_bytes = e->be->op->kv_block_bytes(e->be, shape);
	struct reserve reserve;
	int max_out = e->opt.max_seqs;
	in->max_batched_tokens = step_tokens(e);
	model_reserve_sizes(e->model, in->max_batched_tokens, e->opt.max_seqs, max_out, spec->n_ctx / e->opt.block_tokens + 1,
	                    &reserve);
	in->scratch_bytes = e->be->op->scratch_bytes(e->be, &reserve) + (size_t)max_out * (size_t)spec->n_vocab * sizeof(float);
	in->weight_bytes = model_weight_bytes(e->model);
	in->memory_free_bytes = capacity_memory_free();
	struct capacity_input ask = {
	    .memory_free = in->memory_free_bytes,
	    .weight_bytes = 0, // they are loaded: the free memory does not count them any more
	    .scratch_bytes = in->scratch_bytes,
	    .block_bytes = block_bytes,
	    .block_tokens = e->opt.block_tokens,
	    .n_ctx_model = spec->n_ctx,
	    .max_model_len = e->opt.max_model_len,
	    .max_seqs = e->opt.max_seqs,
	    .kv_cache_bytes = e->opt.kv_cache_bytes,
	    .kv_cache_tokens = e->opt.kv_cache_tokens,
	    .utilization = e->opt.memory_utilization,
	};
	struct capacity plan;
	rc = capacity_plan(&ask, &plan, err, len);
	if (!rc)
		rc = e->be->op->reserve(e->be, &reserve, err, len);
	if (!rc)
		rc = e->be->op->kv_create(e->be, shape, (size_t)plan.n_blocks, err, len);
	free(shape);
	if (rc)
		return rc;
	in->n_blocks = plan.n_blocks;
	in->max_model_len = plan.max_model_len;
	in->kv_pool_bytes = plan.pool_bytes;
	in->kv_bytes_per_token = block_bytes / (size_t)e->opt.block_tokens;
	in->rss_limit_bytes = in->weight_bytes + in->scratch_bytes + in->kv_pool_bytes + PROCESS_BYTES;
	struct scheduler_options so = {
	    .n_blocks = plan.n_blocks,
	    .block_tokens = e->opt.block_tokens,
	    .max_seqs = e->opt.max_seqs,
	    .max_batched_tokens = in->max_batched_tokens,
	    .max_model_len = plan.max_model_len,
	    .max_out = max_out,
	    .queue_limit = e->opt.queue_limit + e->opt.max_seqs, // submit bounds the queue; preempted ones come back to it
	    .queue_tokens = INT64_MAX,
	    .target_itl_ns = e->opt.target_itl_ns,
	    .prefix_caching = e->opt.prefix_caching,
	};
	rc = scheduler_create(&so, &e->sched, err, len);
	if (rc)
		return rc;
	e->batch = batch_create(in->max_batched_tokens, e->opt.max_seqs, max_out);
	e->sampler = sampler_create(spec->n_vocab);
	e->logits = mem_alloc((size_t)max_out * (size_t)spec->n_vocab * sizeof *e->logits);
	e->chosen = mem_zalloc((size_t)e->opt.max_seqs, sizeof *e->chosen);
	return 0;
}

static void describe(struct engine *e, uint64_t from)
{
	const struct model_spec *spec = model_spec(e->model);
	struct engine_info *in = &e->info;
	snprintf(e->model_name, sizeof e->model_name, "%s", spec->name);
	snprintf(e->describe, sizeof e->describe, "%s", e->be->op->describe(e->be));
	name_quantization(e);
	in->model_name = e->model_name;
	in->quantization = e->quantization;
	in->backend = e->describe;
	in->arch = spec->arch;
	in->n_vocab = spec->n_vocab;
	in->n_layers = spec->n_layers;
	in->n_ctx_train = spec->n_ctx;
	in->n_kv_heads = spec->layers[0].n_kv_heads;
	in->head_dim = spec->layers[0].head_dim;
	in->kv_dtype = !strcmp(e->opt.kv_dtype, "f32") ? "f32" : "f16";
	in->max_seqs = e->opt.max_seqs;
	in->block_tokens = e->opt.block_tokens;
	in->queue_limit = e->opt.queue_limit;
	in->file_bytes = gguf_file_bytes(e->file);
	in->load_seconds = (double)(clock_now_ns() - from) * 1e-9;
}

int engine__load(struct engine *e, char *err, size_t len)
{
	uint64_t from = clock_now_ns();
	int rc = gguf_open(e->opt.model_path, &e->file, err, len);
	if (!rc)
		rc = open_backend(e, err, len);
	if (!rc)
		rc = model_load(e->file, e->be, &e->model, err, len);
	if (!rc)
		rc = tokenizer_from_gguf(e->file, &e->tok, err, len);
	if (!rc && (int)tokenizer_n_vocab(e->tok) != model_spec(e->model)->n_vocab)
		rc = err_set(err, len, ERR_INVALID, "%s: the tokenizer has %zu tokens and the embedding %d rows; they must be as many", e->opt.model_path,
		             tokenizer_n_vocab(e->tok), model_spec(e->model)->n_vocab);
	if (!rc)
		rc = open_template(e, err, len);
	if (!rc)
		rc = size_everything(e, err, len);
	if (rc) {
		engine__unload(e);
		return rc;
	}
	find_ends(e);
	describe(e, from);
	return 0;
}

void engine__unload(struct engine *e)
{
	scheduler_destroy(e->sched);
	batch_destroy(e->batch);
	sampler_destroy(e->sampler);
	free(e->logits);
	free(e->chosen);
	free(e->text);
	free(e->ends);
	chat_template_destroy(e->chat);
	tokenizer_destroy(e->tok);
	model_destroy(e->model);
	if (e->be)
		e->be->op->destroy(e->be);
	gguf_close(e->file);
}
