// SPDX-License-Identifier: Apache-2.0
//
// str.format: {}, {0} and {name}, with !r, !s and a small format ("05d", ".2f", ">8"). Attributes and indexes in a
// field are refused: they are the way out of a sandbox.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 999 };

struct field {
	struct str name;
	char conversion; // 'r', 's' or 0
	struct str spec;
};

struct spec {
	char align, type; // 0 where absent
	bool zero;
	int width, precision; // precision < 0: absent
};

static struct field parse_field(struct render *r, struct str s)
{
	struct field f = {.name = s};
	const char *colon = memchr(s.s, ':', s.n);
	if (colon) {
		f.name.n = (size_t)(colon - s.s);
		f.spec = v_sub(s, f.name.n + 1, s.n - f.name.n - 1);
	}
	const char *mark = memchr(s.s, '!', f.name.n);
	if (mark) {
		f.conversion = mark + 1 < s.s + f.name.n ? mark[1] : 0;
		if ((f.conversion != 'r' && f.conversion != 's') || mark + 2 != s.s + f.name.n)
			jinja__error(r, ERR_INVALID, "format knows the conversions !r and !s");
		f.name.n = (size_t)(mark - s.s);
	}
	for (size_t i = 0; i < f.name.n; i++)
		if (!isalnum((unsigned char)f.name.s[i]) && f.name.s[i] != '_')
			jinja__error(r, ERR_INVALID, "format takes no attributes or indexes");
	return f;
}

static int digits(struct str s, size_t *at)
{
	int n = 0;
	while (*at < s.n && isdigit((unsigned char)s.s[*at]) && n <= MAX_WIDTH)
		n = 10 * n + s.s[(*at)++] - '0';
	return n;
}

static struct spec parse_spec(struct render *r, struct str s)
{
	struct spec f = {.precision = -1};
	size_t at = 0;
	if (at < s.n && strchr("<>^", s.s[at]))
		f.align = s.s[at++];
	if (at < s.n && s.s[at] == '0')
		f.zero = true;
	f.width = digits(s, &at);
	if (at < s.n && s.s[at] == '.') {
		at++;
		f.precision = digits(s, &at);
	}
	if (at < s.n && strchr("dxfegs", s.s[at]))
		f.type = s.s[at++];
	if (at < s.n || f.width > MAX_WIDTH || f.precision > MAX_WIDTH)
		jinja__error(r, ERR_INVALID, "format takes no specification like this one; 05d, .2f and >8 would do");
	return f;
}

static struct str print_number(struct render *r, struct spec f, struct value v)
{
	char out[2048]; // the longest float, and MAX_WIDTH decimals
	double x = v.type == V_FLOAT ? v.f : v.type == V_INT ? (double)v.i : v.b;
	int precision = f.precision < 0 ? 6 : f.precision;
	if (f.type == 'd')
		snprintf(out, sizeof out, "%" PRId64, v_int(r, v, "a value for d"));
	else if (f.type == 'x')
		snprintf(out, sizeof out, "%" PRIx64, (uint64_t)v_int(r, v, "a value for x"));
	else if (f.type == 'e')
		snprintf(out, sizeof out, "%.*e", precision, x);
	else if (f.type == 'g')
		snprintf(out, sizeof out, "%.*g", precision, x);
	else
		snprintf(out, sizeof out, "%.*f", precision, x);
	return v_text(r, out, strlen(out), false).s;
}

static void pad(struct render *r, struct text *t, size_t n, const char *with)
{
	for (size_t i = 0; i < n; i++)
		t_puts(r, t, with);
}

static void print_field(struct render *r, struct text *t, struct str spec, struct value v, bool number)
{
	struct spec f = parse_spec(r, spec);
	if (!f.type && number && f.precision >= 0)
		f.type = 'g';
	if (!number && f.type && f.type != 's')
		jinja__error(r, ERR_INVALID, "format's '%c' wants a number, not %s", f.type, v_type_name(v));
	struct str s = number && f.type && f.type != 's' ? print_number(r, f, v) : v_print(r, v);
	size_t n = v_length(r, (struct value){.type = V_STRING, .s = s});
	size_t more = (size_t)f.width > n ? (size_t)f.width - n : 0;
	char align = f.align ? f.align : number ? '>' : '<';
	size_t left = align == '<' ? 0 : align == '>' ? more : more / 2;
	if (f.zero && number && !f.align) {
		size_t sign = s.n && s.s[0] == '-';
		t_add(r, t, v_sub(s, 0, sign));
		pad(r, t, more, "0");
		t_add(r, t, v_sub(s, sign, s.n - sign));
		return;
	}
	pad(r, t, left, " ");
	t_add(r, t, s);
	pad(r, t, more - left, " ");
}

// The argument a field names; *next counts the unnamed ones, and is -1 once a number was used.
static struct value argument(struct render *r, struct str name, struct args *a, int64_t *next)
{
	size_t at = 0, i = 0;
	if (name.n && !isdigit((unsigned char)name.s[0])) {
		for (size_t k = 0; k < a->n_named; k++)
			if (a->named[k].k.s.n == name.n && !memcmp(a->named[k].k.s.s, name.s, name.n))
				return a->named[k].v;
		jinja__error(r, ERR_INVALID, "format has no argument '%.*s'", (int)(name.n < 60 ? name.n : 60), name.s);
	}
	if (name.n ? *next > 0 : *next < 0)
		jinja__error(r, ERR_INVALID, "format's fields are either all numbered or all without a number");
	if (name.n) {
		i = (size_t)digits(name, &at);
		*next = -1;
	} else {
		i = (size_t)(*next)++;
	}
	if (i >= a->n_pos)
		jinja__error(r, ERR_INVALID, "format has no argument %zu", i);
	return a->pos[i];
}

struct value jinja__str_format(struct render *r, struct str s, struct args *a)
{
	struct text t = {0};
	int64_t next = 0;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.s[i];
		jinja__step(r, 1);
		if (c != '{' && c != '}') {
			t_add(r, &t, v_sub(s, i, 1));
			continue;
		}
		if (i + 1 < s.n && s.s[i + 1] == c) {
			t_add(r, &t, v_sub(s, i++, 1));
			continue;
		}
		const char *end = c == '{' ? memchr(s.s + i, '}', s.n - i) : NULL;
		if (!end)
			jinja__error(r, ERR_INVALID, "format found a single '%c'", c);
		struct field f = parse_field(r, v_sub(s, i + 1, (size_t)(end - s.s) - i - 1));
		struct value v = argument(r, f.name, a, &next);
		bool number = !f.conversion && (v.type == V_INT || v.type == V_FLOAT);
		if (f.conversion == 'r')
			v = (struct value){.type = V_STRING, .s = v_repr(r, v)};
		else if (!number)
			v = (struct value){.type = V_STRING, .s = v_print(r, v)};
		print_field(r, &t, f.spec, v, number);
		i = (size_t)(end - s.s);
	}
	return (struct value){.type = V_STRING, .s = t_str(&t)};
}
