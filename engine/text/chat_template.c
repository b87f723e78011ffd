// SPDX-License-Identifier: Apache-2.0
//
// The steps are those of transformers' apply_chat_template, so that a model sees the very prompt it was trained on.
#include "engine/text/chat_template.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/text/chat_template_known.h"
#include "engine/text/tokenizer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chat_template {
	struct jinja_template *jinja;
	json_t *specials;	  // bos_token, eos_token, …
	bool takes_lists;	  // content may be a list of parts
	bool knows_developer; // the source names the role
};

static const char *const trusted[] = {"bos_token", "eos_token", "unk_token", "pad_token", NULL};
static const char tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

static void add_special(json_t *vars, const char *name, const struct tokenizer *tok, int32_t id)
{
	size_t n;
	if (id < 0)
		return;
	const char *s = tokenizer_piece(tok, id, &n);
	json_object_set_new(vars, name, json_stringn(s, n));
}

static bool contains(const struct buf *b, const char *s)
{
	return b->len && memmem(b->data, b->len, s, strlen(s));
}

// The special tokens that the model itself gave: a request that names one in its kwargs gives mere text, which must stay tainted.
static int run(const struct chat_template *t, json_t *vars, int64_t now, struct jinja_output *out, char *err,
			   size_t len)
{
	const char *own[sizeof trusted / sizeof trusted[0]];
	size_t n = 0;
	bool raised;
	for (size_t i = 0; trusted[i]; i++) {
		const json_t *model = json_object_get(t->specials, trusted[i]);
		if (model && json_object_get(vars, trusted[i]) == model)
			own[n++] = trusted[i];
	}
	own[n] = NULL;
	return jinja_render(t->jinja, vars, own, now, out, &raised, err, len);
}

// A template that treats content as a string either fails on a list or prints Python's notation of it.
static bool takes_lists(const struct chat_template *t)
{
	char err[256];
	struct jinja_output out;
	json_t *vars = json_copy(t->specials);
	jinja_output_init(&out);
	json_object_set_new(
		vars, "messages",
		json_pack("[{s:s,s:[{s:s,s:s}]}]", "role", "user", "content", "type", "text", "text", "QUIRE_PROBE"));
	json_object_set_new(vars, "add_generation_prompt", json_true());
	int rc = run(t, vars, 0, &out, err, sizeof err);
	bool yes =
		!rc && contains(&out.text, "QUIRE_PROBE") && !contains(&out.text, "'type'") && !contains(&out.text, "\"type\"");
	jinja_output_deinit(&out);
	json_decref(vars);
	return yes;
}

int chat_template_create(const char *source, size_t n, const struct tokenizer *tok, struct chat_template **out,
						 const char **note, char *err, size_t len)
{
	struct chat_template *t = mem_zalloc(1, sizeof *t);
	*out = NULL;
	*note = "the model's own template";
	if (!source) {
		const struct known_template *k = known_templates;
		while (k->marker && tokenizer_find(tok, k->marker, strlen(k->marker)) < 0)
			k++;
		source = k->source;
		n = strlen(source);
		*note = k->note;
	}
	int rc = jinja_compile(source, n, NULL, &t->jinja, err, len);
	if (rc) {
		free(t);
		return rc == ERR_LIMIT ? rc : ERR_INVALID;
	}
	t->specials = json_object();
	add_special(t->specials, "bos_token", tok, tokenizer_bos(tok));
	add_special(t->specials, "eos_token", tok, tokenizer_eos(tok));
	t->takes_lists = takes_lists(t);
	t->knows_developer = jinja_mentions(t->jinja, "developer");
	*out = t;
	return 0;
}

void chat_template_destroy(struct chat_template *t)
{
	if (!t)
		return;
	jinja_destroy(t->jinja);
	json_decref(t->specials);
	free(t);
}

bool chat_template_uses(const struct chat_template *t, const char *name)
{
	return jinja_mentions(t->jinja, name);
}

// The text of text parts, with newlines between.
static json_t *join_parts(const json_t *parts)
{
	struct buf b;
	size_t i;
	json_t *part;
	buf_init(&b);
	json_array_foreach(parts, i, part)
	{
		const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
		if (!json_is_string(text))
			continue;
		if (b.len)
			buf_putc(&b, '\n');
		buf_append(&b, json_string_value(text), json_string_length(text));
	}
	json_t *out = json_stringn(b.data ? b.data : "", b.len);
	buf_deinit(&b);
	return out;
}

// One message as the template shall see it: null members dropped, reasoning under both names, content in the form it
// takes.
static json_t *normalize(const struct chat_template *t, const json_t *message)
{
	static const char *const reasoning[] = {"reasoning_content", "thinking", "reasoning"};
	json_t *out = json_object(), *v;
	const char *key;
	json_object_foreach((json_t *)message, key, v) if (!json_is_null(v)) json_object_set(out, key, v);
	for (int i = 0; i < 3; i++) {
		if (!(v = json_object_get(out, reasoning[i])))
			continue;
		json_object_set(out, "reasoning_content", v);
		if (!json_object_get(out, "thinking"))
			json_object_set(out, "thinking", v);
		break;
	}
	v = json_object_get(out, "content");
	if (json_is_array(v) && !t->takes_lists)
		json_object_set_new(out, "content", join_parts(v));
	const char *role = json_string_value(json_object_get(out, "role"));
	if (role && !strcmp(role, "developer") && !t->knows_developer)
		json_object_set_new(out, "role", json_string("system"));
	return out;
}

static json_t *with_tag(const json_t *text)
{
	struct buf b;
	buf_init(&b);
	buf_append(&b, json_string_value(text), json_string_length(text));
	buf_puts(&b, tag);
	json_t *out = json_stringn(b.data, b.len);
	buf_deinit(&b);
	return out;
}

// Appends the tag to the final message's text; false if it has none.
static bool tag_final(json_t *messages)
{
	json_t *last = json_array_get(messages, json_array_size(messages) - 1), *content = json_object_get(last, "content");
	if (json_is_array(content)) {
		json_t *copy = json_deep_copy(content);
		json_object_set_new(last, "content", copy);
		for (size_t i = json_array_size(copy); i-- > 0;) {
			json_t *part = json_array_get(copy, i), *text = json_object_get(part, "text");
			if (!json_is_string(text))
				continue;
			json_object_set_new(part, "text", with_tag(text));
			return true;
		}
		return false;
	}
	if (!json_is_string(content))
		return false;
	json_object_set_new(last, "content", with_tag(content));
	return true;
}

static void cut(struct jinja_output *out, size_t n)
{
	out->text.len = out->taint.len = n;
	out->text.data[n] = 0;
}

// Cuts the prompt at the last tag. A template may have trimmed the tag's space, and the text's end with it.
static int cut_at_tag(struct jinja_output *out, char *err, size_t len)
{
	size_t n = strlen(tag) - 1, at = SIZE_MAX;
	for (size_t i = out->text.len >= n ? out->text.len - n + 1 : 0; i-- > 0;)
		if (!memcmp(out->text.data + i, tag, n)) {
			at = i;
			break;
		}
	if (at == SIZE_MAX)
		return err_set(err, len, ERR_INVALID,
					   "continue_final_message: the template does not show the final message as it is");
	bool trimmed = at + n >= out->text.len || out->text.data[at + n] != ' ';
	while (trimmed && at > 0 && isspace((unsigned char)out->text.data[at - 1]))
		at--;
	cut(out, at);
	return 0;
}

int chat_template_render(const struct chat_template *t, const struct chat_request *r, int64_t now,
						 struct jinja_output *out, char *err, size_t len)
{
	json_t *vars = json_copy(t->specials), *messages = json_array(), *m, *v;
	const char *key;
	size_t i;
	json_array_foreach(r->messages, i, m) json_array_append_new(messages, normalize(t, m));
	json_object_set(vars, "tools", r->tools && json_array_size(r->tools) ? (json_t *)r->tools : json_null());
	json_object_set(vars, "documents", r->documents ? (json_t *)r->documents : json_null());
	json_object_set_new(vars, "add_generation_prompt", json_boolean(r->add_generation_prompt));
	json_object_foreach((json_t *)r->kwargs, key, v) json_object_set(vars, key, v);
	int rc = 0;
	if (r->continue_final_message && !tag_final(messages))
		rc = err_set(err, len, ERR_INVALID, "continue_final_message: the final message has no text to continue");
	json_object_set_new(vars, "messages", messages);
	if (!rc)
		rc = run(t, vars, now, out, err, len);
	if (!rc && r->continue_final_message)
		rc = cut_at_tag(out, err, len);
	json_decref(vars);
	return rc;
}
