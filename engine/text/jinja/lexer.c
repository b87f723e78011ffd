// SPDX-License-Identifier: Apache-2.0
//
// Source to tokens, with trim_blocks (one newline after a block tag goes) and lstrip_blocks (blanks before a tag that
// begins a line go), and the marks - and + that strip more or less.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jinja__syntax(struct compiler *c, int line, int rc, const char *fmt, ...)
{
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	err_set(c->err, c->len, rc, "line %d: %s", line, what);
	c->rc = rc;
	longjmp(c->fail, 1);
}

void *jinja__alloc(struct compiler *c, size_t n)
{
	void *p = arena_zalloc(c->arena, n);
	if (!p)
		jinja__syntax(c, 0, ERR_LIMIT, "the template takes too much memory");
	return p;
}

struct lexer {
	struct compiler *c;
	const char *s, *end;
	int line;
	size_t cap;
};

static struct token *add(struct lexer *x, enum token_kind kind, const char *s, size_t n)
{
	struct compiler *c = x->c;
	if (c->n_tokens == x->cap) {
		x->cap = x->cap ? 2 * x->cap : 256;
		struct token *grown = jinja__alloc(c, x->cap * sizeof *grown);
		if (c->n_tokens)
			memcpy(grown, c->tokens, c->n_tokens * sizeof *grown);
		c->tokens = grown;
	}
	struct token *t = &c->tokens[c->n_tokens++];
	*t = (struct token){.kind = kind, .s = s, .n = n, .line = x->line};
	return t;
}

static void count_lines(struct lexer *x, const char *from, const char *to)
{
	for (; from < to; from++)
		x->line += *from == '\n';
}

static int escape(char e)
{
	switch (e) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'b':
		return '\b';
	case 'f':
		return '\f';
	case 'v':
		return '\v';
	case 'a':
		return '\a';
	case '0':
		return 0;
	case '\\':
	case '\'':
	case '"':
		return e;
	default:
		return -1;
	}
}

static void lex_string(struct lexer *x)
{
	char quote = *x->s++;
	const char *from = x->s, *close = from;
	while (close < x->end && *close != quote)
		close += *close == '\\' ? 2 : 1;
	if (close >= x->end)
		jinja__syntax(x->c, x->line, ERR_INVALID, "a string is not closed");
	char *out = jinja__alloc(x->c, (size_t)(close - from) + 1), *p = out;
	while (x->s < close) {
		if (*x->s != '\\') {
			*p++ = *x->s++;
			continue;
		}
		char e = x->s[1];
		int digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
		char hex[9] = {0};
		if (digits && close - x->s >= 2 + digits) {
			memcpy(hex, x->s + 2, (size_t)digits);
			uint32_t cp = (uint32_t)strtoul(hex, NULL, 16);
			p += utf8_encode(cp < 0x110000 && (cp < 0xD800 || cp > 0xDFFF) ? cp : 0xFFFD, p);
			x->s += 2 + digits;
		} else if (escape(e) >= 0) {
			*p++ = (char)escape(e);
			x->s += 2;
		} else { // Python keeps an unknown escape as it stands
			*p++ = *x->s++;
		}
	}
	x->s = close + 1;
	add(x, TOK_STRING, out, (size_t)(p - out));
	count_lines(x, from, x->s);
}

static void lex_number(struct lexer *x)
{
	const char *from = x->s;
	char text[64];
	bool is_float = false,
		 member = x->c->n_tokens && x->c->tokens[x->c->n_tokens - 1].kind == TOK_OP && from[-1] == '.';
	while (x->s < x->end && (isalnum((unsigned char)*x->s) || *x->s == '_' ||
							 (!member && *x->s == '.' && x->s + 1 < x->end && isdigit((unsigned char)x->s[1])) ||
							 ((*x->s == '+' || *x->s == '-') && (x->s[-1] == 'e' || x->s[-1] == 'E')))) {
		is_float |= *x->s == '.' || ((*x->s == 'e' || *x->s == 'E') &&
									 !(from[0] == '0' && x->s > from && (from[1] == 'x' || from[1] == 'X')));
		x->s++;
	}
	size_t n = 0;
	for (const char *p = from; p < x->s && n < sizeof text - 1; p++)
		if (*p != '_')
			text[n++] = *p;
	text[n] = 0;
	struct token *t = add(x, is_float ? TOK_FLOAT : TOK_INT, from, (size_t)(x->s - from));
	if (is_float)
		t->f = strtod(text, NULL);
	else
		t->i = text[0] == '0' && strchr("bBoO", text[1]) && text[1]
				   ? strtoll(text + 2, NULL, text[1] == 'b' || text[1] == 'B' ? 2 : 8)
				   : strtoll(text, NULL, strncasecmp(text, "0x", 2) ? 10 : 16);
}

static void lex_operator(struct lexer *x)
{
	static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
	for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
		if (x->end - x->s >= 2 && !memcmp(x->s, two[i], 2)) {
			add(x, TOK_OP, x->s, 2);
			x->s += 2;
			return;
		}
	if (!strchr("+-*/%~=<>()[]{},.:|", *x->s))
		jinja__syntax(x->c, x->line, ERR_INVALID, "unexpected character '%c'",
					  isprint((unsigned char)*x->s) ? *x->s : '?');
	add(x, TOK_OP, x->s++, 1);
}

// Inside {{ }} or {% %}, up to the closing mark; brackets may hold a "}}" of dict literals. Returns the mark's sign,
// '-', '+' or 0.
static char lex_inside(struct lexer *x, char close)
{
	int depth = 0;
	for (;;) {
		while (x->s < x->end && isspace((unsigned char)*x->s))
			x->line += *x->s++ == '\n';
		if (x->s >= x->end)
			jinja__syntax(x->c, x->line, ERR_INVALID, "a tag is not closed");
		const char *p = x->s;
		char sign = (*p == '-' || *p == '+') && x->end - p >= 3 && p[1] == close && p[2] == '}' ? *p : 0;
		if (!depth && (sign || (*p == close && x->end - p >= 2 && p[1] == '}'))) {
			x->s += sign ? 3 : 2;
			return sign;
		}
		if (*p == '"' || *p == '\'')
			lex_string(x);
		else if (isdigit((unsigned char)*p))
			lex_number(x);
		else if (isalpha((unsigned char)*p) || *p == '_') {
			while (x->s < x->end && (isalnum((unsigned char)*x->s) || *x->s == '_'))
				x->s++;
			add(x, TOK_NAME, p, (size_t)(x->s - p));
		} else {
			depth += *p == '{' || *p == '(' || *p == '[' ? 1 : *p == '}' || *p == ')' || *p == ']' ? -1 : 0;
			lex_operator(x);
		}
	}
}

static const char *next_tag(const char *s, const char *end)
{
	for (; s + 1 < end; s++)
		if (*s == '{' && (s[1] == '{' || s[1] == '%' || s[1] == '#'))
			return s;
	return NULL;
}

// Text before a tag, less what the tag strips from its left.
static void add_text(struct lexer *x, const char *from, const char *to, const char *tag, const char *begin)
{
	char sign = tag && tag + 2 < x->end ? tag[2] : 0;
	const char *p = to;
	if (sign == '-') {
		while (p > from && isspace((unsigned char)p[-1]))
			p--;
	} else if (tag && tag[1] != '{' && sign != '+') {
		while (p > from && (p[-1] == ' ' || p[-1] == '\t'))
			p--;
		if (p > from ? p[-1] != '\n' : p != begin && p[-1] != '\n')
			p = to; // the tag does not begin its line
	}
	if (p > from)
		add(x, TOK_TEXT, from, (size_t)(p - from));
	count_lines(x, from, to);
}

static const char *skip_comment(struct lexer *x, const char *tag, char *sign)
{
	const char *e = memmem(tag + 2, (size_t)(x->end - tag - 2), "#}", 2);
	if (!e)
		jinja__syntax(x->c, x->line, ERR_INVALID, "a comment is not closed");
	*sign = e > tag + 2 ? e[-1] : 0;
	count_lines(x, tag, e);
	return e + 2;
}

// {% raw %} … {% endraw %}: what lies between is text. Returns where the text begins, or NULL if this tag is no raw.
static bool is_word_tag(const struct lexer *x, const char *tag, const char *word, const char **after)
{
	const char *p = tag + 2;
	if (p < x->end && (*p == '-' || *p == '+'))
		p++;
	while (p < x->end && isspace((unsigned char)*p))
		p++;
	size_t n = strlen(word);
	if ((size_t)(x->end - p) < n || memcmp(p, word, n))
		return false;
	p += n;
	while (p < x->end && isspace((unsigned char)*p))
		p++;
	if (p < x->end && (*p == '-' || *p == '+'))
		p++;
	if (x->end - p < 2 || p[0] != '%' || p[1] != '}')
		return false;
	*after = p + 2;
	return true;
}

// What lies between raw and endraw: the marks strip as everywhere.
static void add_raw(struct lexer *x, const char *from, const char *to)
{
	if (from[-3] == '-')
		while (from < to && isspace((unsigned char)*from))
			x->line += *from++ == '\n';
	add_text(x, from, to, to, from);
}

void jinja__lex(struct compiler *c, const char *source, size_t n)
{
	struct lexer x = {.c = c, .s = source, .end = source + n, .line = 1};
	bool trim = false; // the tag before ended with a '-'
	while (x.s < x.end) {
		if (trim)
			while (x.s < x.end && isspace((unsigned char)*x.s))
				x.line += *x.s++ == '\n';
		trim = false;
		const char *from = x.s, *tag = next_tag(from, x.end), *after;
		add_text(&x, from, tag ? tag : x.end, tag, source);
		if (!tag)
			break;
		char kind = tag[1], sign = 0;
		if (kind == '%' && is_word_tag(&x, tag, "raw", &after)) {
			const char *e = after;
			while ((e = memmem(e, (size_t)(x.end - e), "{%", 2)) && !is_word_tag(&x, e, "endraw", &x.s))
				e += 2;
			if (!e)
				jinja__syntax(c, x.line, ERR_INVALID, "a raw block is not closed");
			add_raw(&x, after, e);
			trim = x.s[-3] == '-';
			if (x.s[-3] != '+' && !trim && x.s < x.end && *x.s == '\n') {
				x.s++;
				x.line++;
			}
			continue;
		}
		if (kind == '#') {
			x.s = skip_comment(&x, tag, &sign);
		} else {
			x.s = tag + 2;
			if (x.s < x.end && (*x.s == '-' || *x.s == '+'))
				x.s++;
			add(&x, kind == '%' ? TOK_BLOCK : TOK_PRINT, tag, 2);
			sign = lex_inside(&x, kind == '%' ? '%' : '}');
			add(&x, kind == '%' ? TOK_BLOCK_END : TOK_PRINT_END, x.s, 0);
		}
		trim = sign == '-';
		if (kind != '{' && sign != '+' && x.s < x.end && *x.s == '\n') {
			x.s++;
			x.line++;
		}
	}
	add(&x, TOK_EOF, x.end, 0);
}
