// SPDX-License-Identifier: Apache-2.0
//
// The engine's doors: compile, render, and the question what a template mentions.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_A_SOURCE_BYTE = 2048 }; // of a tree; bounds what a small hostile source can become

void jinja_output_init(struct jinja_output *o)
{
	buf_init(&o->text);
	buf_init(&o->taint);
}

void jinja_output_deinit(struct jinja_output *o)
{
	buf_deinit(&o->text);
	buf_deinit(&o->taint);
}

// CR LF and CR become LF; exactly one newline at the end is dropped.
static void normalize(struct jinja_template *t, const char *source, size_t n)
{
	t->source = mem_alloc(n + 1);
	for (size_t i = 0; i < n; i++) {
		if (source[i] == '\r') {
			t->source[t->n++] = '\n';
			i += i + 1 < n && source[i + 1] == '\n';
		} else {
			t->source[t->n++] = source[i];
		}
	}
	if (t->n && t->source[t->n - 1] == '\n')
		t->n--;
	t->source[t->n] = 0;
}

// Every literal gets zeros behind it: its taint.
static void lay_down_taint(struct compiler *c)
{
	for (size_t i = 0; i < c->n_tokens; i++) {
		struct token *t = &c->tokens[i];
		if (t->kind != TOK_TEXT && t->kind != TOK_STRING)
			continue;
		char *p = jinja__alloc(c, 2 * t->n + 1);
		memcpy(p, t->s, t->n);
		t->s = p;
	}
}

int jinja_compile(const char *source, size_t n, const struct jinja_limits *limits, struct jinja_template **out,
				  char *err, size_t len)
{
	struct jinja_template *t = mem_zalloc(1, sizeof *t);
	struct compiler c = {.arena = &t->arena, .err = err, .len = len};
	*out = NULL;
	t->limits = limits ? *limits : jinja_default_limits;
	c.limits = &t->limits;
	if (n > t->limits.max_source) {
		free(t);
		return err_set(err, len, ERR_LIMIT, "the template has %zu bytes, at most %zu are allowed", n,
					   limits ? limits->max_source : jinja_default_limits.max_source);
	}
	arena_init(&t->arena, (n + 64) * MEMORY_A_SOURCE_BYTE);
	normalize(t, source, n);
	if (setjmp(c.fail)) {
		int rc = c.rc;
		jinja_destroy(t);
		return rc;
	}
	jinja__lex(&c, t->source, t->n);
	lay_down_taint(&c);
	t->root = jinja__parse(&c);
	*out = t;
	return 0;
}

void jinja_destroy(struct jinja_template *t)
{
	if (!t)
		return;
	arena_deinit(&t->arena);
	free(t->source);
	free(t);
}

static bool is_trusted(const char *const *trusted, const char *key)
{
	for (; trusted && *trusted; trusted++)
		if (!strcmp(*trusted, key))
			return true;
	return false;
}

static void fill_variables(struct render *r, const json_t *vars, const char *const *trusted)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)vars, key, v)
		v_put(r, &r->scope->vars, v_text(r, key, strlen(key), false), v_from_json(r, v, !is_trusted(trusted, key)));
}

int jinja_render(const struct jinja_template *t, const json_t *vars, const char *const *trusted, int64_t now,
				 struct jinja_output *out, bool *raised, char *err, size_t len)
{
	struct render *r = mem_zalloc(1, sizeof *r);
	struct scope global = {0};
	r->t = t;
	r->now = now;
	r->out = out;
	r->err = err;
	r->len = len;
	r->scope = &global;
	arena_init(&r->arena, t->limits.max_memory);
	if (!setjmp(r->fail)) {
		fill_variables(r, vars, trusted);
		jinja__exec(r, t->root);
	}
	int rc = r->rc;
	if (raised)
		*raised = r->raised;
	arena_deinit(&r->arena);
	free(r);
	return rc;
}

static bool in_name(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool jinja_mentions(const struct jinja_template *t, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = t->source, *end = t->source + t->n; (p = memmem(p, (size_t)(end - p), name, n)); p += n)
		if ((p == t->source || !in_name(p[-1])) && (p + n == end || !in_name(p[n])))
			return true;
	return false;
}
