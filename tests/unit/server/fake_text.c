// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer and a chat template for tests of the server: bytes are tokens, a few control tokens follow them, and the
// rest of the vocabulary are words. The template is "<|im_start|>role\ncontent<|im_end|>\n".
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/server/fake_engine.h"

#include <stdlib.h>
#include <string.h>

static const char *const CONTROL[] = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
static char bytes[256];

void token_vec_push(struct token_vec *v, int32_t id)
{
	mem_grow(&v->ids, &v->cap, v->n + 1, sizeof *v->ids);
	v->ids[v->n++] = id;
}

void token_vec_deinit(struct token_vec *v)
{
	free(v->ids);
	*v = (struct token_vec){0};
}

static bool is_tainted(const uint8_t *taint, size_t n)
{
	for (size_t i = 0; taint && i < n; i++)
		if (taint[i])
			return true;
	return false;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, const uint8_t *taint, unsigned flags,
					 struct token_vec *out)
{
	if (flags & TOKENIZE_ADD_SPECIAL)
		token_vec_push(out, FAKE_BOS);
	for (size_t i = 0; i < n;) {
		size_t used = 0;
		for (size_t k = 0; k < 4 && (flags & TOKENIZE_PARSE_SPECIAL); k++) {
			size_t len = strlen(CONTROL[k]);
			if (len <= n - i && !memcmp(text + i, CONTROL[k], len) && !is_tainted(taint ? taint + i : NULL, len)) {
				token_vec_push(out, FAKE_BOS + (int32_t)k);
				used = len;
			}
		}
		if (!used)
			token_vec_push(out, (unsigned char)text[i]);
		i += used ? used : 1;
	}
	return 0;
}

size_t tokenizer_n_vocab(const struct tokenizer *t)
{
	return FAKE_VOCAB;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *n)
{
	CHECK(id >= 0 && id < FAKE_VOCAB, "%d", (int)id);
	if (id < 256) {
		bytes[id] = (char)id;
		*n = 1;
		return &bytes[id];
	}
	const char *s = id - 256 < 4 ? CONTROL[id - 256] : " word";
	*n = strlen(s);
	return s;
}

enum token_type tokenizer_type(const struct tokenizer *t, int32_t id)
{
	return id >= 256 && id - 256 < 4 ? TOKEN_CONTROL : TOKEN_NORMAL;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return FAKE_BOS;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return FAKE_EOS;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n, bool skip_special, struct buf *out)
{
	struct buf raw = {0};
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const char *piece = tokenizer_piece(t, ids[i], &len);
		if (!skip_special || tokenizer_type(t, ids[i]) != TOKEN_CONTROL)
			buf_append(&raw, piece, len);
	}
	utf8_sanitize(out, raw.data, raw.len);
	buf_deinit(&raw);
}

void jinja_output_init(struct jinja_output *o)
{
	*o = (struct jinja_output){0};
}

void jinja_output_deinit(struct jinja_output *o)
{
	buf_deinit(&o->text);
	buf_deinit(&o->taint);
}

static void put(struct jinja_output *o, const char *s, bool tainted)
{
	buf_puts(&o->text, s);
	for (size_t i = 0; i < strlen(s); i++)
		buf_putc(&o->taint, tainted);
}

int chat_template_create(const char *source, size_t n, const struct tokenizer *tok, struct chat_template **out,
						 const char **note, char *err, size_t len)
{
	if (source && memmem(source, n, "{% broken", 9))
		return err_set(err, len, ERR_INVALID, "line 1: an unknown tag");
	*out = mem_alloc(1);
	*note = "a template of tests";
	return 0;
}

void chat_template_destroy(struct chat_template *t)
{
	free(t);
}

bool chat_template_uses(const struct chat_template *t, const char *name)
{
	return false;
}

static void put_content(struct jinja_output *o, const json_t *content)
{
	if (json_is_string(content))
		put(o, json_string_value(content), true);
	for (size_t i = 0; i < json_array_size(content); i++) {
		if (i)
			put(o, "\n", false);
		put(o, json_string_value(json_object_get(json_array_get(content, i), "text")), true);
	}
}

int chat_template_render(const struct chat_template *t, const struct chat_request *r, int64_t now,
						 struct jinja_output *out, char *err, size_t len)
{
	size_t n = json_array_size(r->messages);
	for (size_t i = 0; i < n; i++) {
		const json_t *m = json_array_get(r->messages, i), *content = json_object_get(m, "content");
		if (json_is_string(content) && !strcmp(json_string_value(content), "RAISE"))
			return err_set(err, len, ERR_INVALID,
						   "Conversation roles must alternate user/assistant/user/assistant/...");
		put(out, "<|im_start|>", false);
		put(out, json_string_value(json_object_get(m, "role")), true);
		put(out, "\n", false);
		put_content(out, content);
		if (!r->continue_final_message || i + 1 < n)
			put(out, "<|im_end|>\n", false);
	}
	if (r->add_generation_prompt)
		put(out, "<|im_start|>assistant\n", false);
	return 0;
}
