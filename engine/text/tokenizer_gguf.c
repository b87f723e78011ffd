// SPDX-License-Identifier: Apache-2.0
//
// Fills a tokenizer from GGUF metadata (tokenizer.ggml.*).
#include "engine/text/tokenizer_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf.h"

#include <string.h>

enum { MAX_VOCAB = 1 << 24 };

struct loader {
	const struct gguf *g;
	struct tokenizer *t;
	char *err;
	size_t len;
	struct gguf_str model;
	const struct pretokenizer_name *pre; // MODEL_BPE
};

static int fail(struct loader *l, const char *what)
{
	return err_set(l->err, l->len, ERR_INVALID, "%s: %s", gguf_path(l->g), what);
}

static bool is(struct gguf_str s, const char *word)
{
	return s.len == strlen(word) && !memcmp(s.data, word, s.len);
}

static int read_model(struct loader *l)
{
	struct tokenizer *t = l->t;
	struct gguf_str pre = {"default", 7};
	if (gguf_get_str(l->g, "tokenizer.ggml.model", &l->model) <= 0)
		return fail(l, "tokenizer.ggml.model is missing or no string");
	if (is(l->model, "llama")) {
		t->model = MODEL_SPM;
		t->characters = t->escape_spaces = true;
		return 0;
	}
	if (!is(l->model, "gpt2") && !is(l->model, "gemma4"))
		return err_set(l->err, l->len, ERR_UNSUPPORTED,
					   "%s: the tokenizer model \"%.*s\" is not known; gpt2, llama and gemma4 are", gguf_path(l->g),
					   (int)(l->model.len < 32 ? l->model.len : 32), l->model.data);
	if (gguf_get_str(l->g, "tokenizer.ggml.pre", &pre) < 0)
		return fail(l, "tokenizer.ggml.pre must be a string");
	if (is(l->model, "gemma4"))
		pre = l->model;
	l->pre = pretokenizer_find(pre.data, pre.len);
	if (!l->pre)
		return pretokenizer_unknown(gguf_path(l->g), pre.data, pre.len, l->err, l->len);
	t->model = MODEL_BPE;
	t->nfc = l->pre->flags & PRE_NFC;
	t->characters = l->pre->flags & PRE_CHARACTERS;
	t->escape_spaces = l->pre->flags & PRE_ESCAPE_SPACES;
	t->ignore_merges = l->pre->flags & PRE_IGNORE_MERGES;
	t->whole_newlines = l->pre->flags & PRE_WHOLE_NEWLINES;
	return pretokenizer_create(l->pre->steps, &t->pre, l->err, l->len);
}

static bool is_whole(enum gguf_type type)
{
	return type != GGUF_STRING && type != GGUF_F32 && type != GGUF_F64 && type != GGUF_BOOL && type != GGUF_ARRAY;
}

static int read_vocabulary(struct loader *l)
{
	struct tokenizer *t = l->t;
	struct gguf_array tokens, types = {0}, scores = {0};
	if (gguf_get_array(l->g, "tokenizer.ggml.tokens", &tokens) <= 0 || tokens.type != GGUF_STRING || !tokens.n ||
		tokens.n > MAX_VOCAB)
		return fail(l, "tokenizer.ggml.tokens must be a list of 1 to 16777216 strings");
	int has_types = gguf_get_array(l->g, "tokenizer.ggml.token_type", &types);
	int has_scores = gguf_get_array(l->g, "tokenizer.ggml.scores", &scores);
	if (has_types < 0 || (has_types && (types.n != tokens.n || !is_whole(types.type))))
		return fail(l, "tokenizer.ggml.token_type must have one whole number for each token");
	if (has_scores < 0 ||
		(has_scores && (scores.n != tokens.n || (scores.type != GGUF_F32 && scores.type != GGUF_F64))))
		return fail(l, "tokenizer.ggml.scores must have one float for each token");
	if (t->model == MODEL_SPM && !has_scores)
		return fail(l, "tokenizer.ggml.scores is missing; a llama tokenizer needs it");
	tokenizer__set_size(t, tokens.n);
	for (size_t i = 0; i < tokens.n; i++) {
		struct gguf_str s = gguf_array_str(&tokens, i);
		int64_t type = has_types ? gguf_array_i64(&types, i) : TOKEN_NORMAL;
		if (s.len > MAX_SPELLING)
			return fail(l, "a token of tokenizer.ggml.tokens is longer than 4096 bytes");
		if (type == TOKEN_UNKNOWN) // is matched and left out of text as control tokens are
			type = TOKEN_CONTROL;
		if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
			type = TOKEN_NORMAL;
		tokenizer__set_token(t, i, s.data, s.len, (enum token_type)type,
							 has_scores ? (float)gguf_array_f64(&scores, i) : 0);
	}
	if (tokenizer__index(t))
		return fail(l, "a control or user-defined token of tokenizer.ggml.tokens is longer than 512 bytes");
	return 0;
}

// A merge is two pieces with a space between; the first may begin with one.
static int read_merges(struct loader *l)
{
	struct gguf_array a;
	if (gguf_get_array(l->g, "tokenizer.ggml.merges", &a) <= 0 || a.type != GGUF_STRING || a.n > MAX_VOCAB)
		return fail(l, "tokenizer.ggml.merges must be a list of at most 16777216 strings");
	tokenizer__set_merges(l->t, a.n);
	for (size_t i = 0; i < a.n; i++) {
		struct gguf_str s = gguf_array_str(&a, i);
		const char *space = s.len > 1 ? memchr(s.data + 1, ' ', s.len - 1) : NULL;
		if (!space)
			return fail(l, "an entry of tokenizer.ggml.merges is not two pieces with a space between");
		size_t left = (size_t)(space - s.data);
		tokenizer__add_merge(l->t, i, s.data, left, space + 1, s.len - left - 1);
	}
	return 0;
}

static int role(struct loader *l, const char *key, int32_t *out)
{
	uint64_t v;
	int rc = gguf_get_u64(l->g, key, &v);
	*out = -1;
	if (rc == 0 || (rc > 0 && v == UINT32_MAX))
		return 0;
	if (rc < 0 || v >= l->t->n_vocab)
		return err_set(l->err, l->len, ERR_INVALID, "%s: %s must be an id inside the vocabulary of %zu",
					   gguf_path(l->g), key, l->t->n_vocab);
	*out = (int32_t)v;
	return 0;
}

static int32_t control(const struct tokenizer *t, const char *spelling)
{
	int32_t id = tokenizer_find(t, spelling, strlen(spelling));
	return id >= 0 && t->type[id] == TOKEN_CONTROL ? id : -1;
}

static int read_ends(struct loader *l)
{
	static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
									   "tokenizer.ggml.eom_token_id"};
	static const char *const known[] = {"<|im_end|>",	 "<|eot_id|>",		"<|eom_id|>", "<end_of_turn>",
										"<|endoftext|>", "<|end_of_text|>", "<turn|>",	  "<end_of_utterance>",
										"<|return|>",	 "<|call|>",		"<|calls|>",  "<|flush|>"};
	struct tokenizer *t = l->t;
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		int32_t id;
		int rc = role(l, keys[i], &id);
		if (rc)
			return rc;
		tokenizer__add_eog(t, id);
	}
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		tokenizer__add_eog(t, control(t, known[i]));
	// Where calls have an end of their own, <|end|> only ends one message of several.
	if (control(t, "<|call|>") < 0 && control(t, "<|calls|>") < 0)
		tokenizer__add_eog(t, control(t, "<|end|>"));
	return 0;
}

static int read_roles(struct loader *l)
{
	struct tokenizer *t = l->t;
	int rc = role(l, "tokenizer.ggml.bos_token_id", &t->bos);
	if (!rc)
		rc = role(l, "tokenizer.ggml.eos_token_id", &t->eos);
	if (!rc)
		rc = role(l, "tokenizer.ggml.unknown_token_id", &t->unk);
	if (rc)
		return rc;
	t->add_space_prefix = t->model == MODEL_SPM;
	t->add_bos = t->model == MODEL_SPM || l->pre->flags & PRE_ADD_BOS;
	if (gguf_get_bool(l->g, "tokenizer.ggml.add_bos_token", &t->add_bos) < 0 ||
		gguf_get_bool(l->g, "tokenizer.ggml.add_eos_token", &t->add_eos) < 0 ||
		gguf_get_bool(l->g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix) < 0)
		return fail(l, "tokenizer.ggml.add_bos_token, add_eos_token and add_space_prefix must be true or false");
	t->add_space_prefix = t->add_space_prefix && t->model == MODEL_SPM;
	return read_ends(l);
}

int tokenizer_from_gguf(const struct gguf *g, struct tokenizer **out, char *err, size_t len)
{
	struct loader l = {.g = g, .t = mem_zalloc(1, sizeof *l.t), .err = err, .len = len};
	*out = NULL;
	int rc = read_model(&l);
	if (!rc)
		rc = read_vocabulary(&l);
	if (!rc && l.t->model == MODEL_BPE)
		rc = read_merges(&l);
	if (!rc)
		rc = read_roles(&l);
	if (rc)
		tokenizer_destroy(l.t);
	else
		*out = l.t;
	return rc;
}
