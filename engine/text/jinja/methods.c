// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings, lists and dicts, and the global functions.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

static const struct value nothing = {.type = V_NONE};

static struct value text_value(struct str s)
{
	return (struct value){.type = V_STRING, .s = s};
}

bool jinja__has_method(struct value v, const char *name, size_t n)
{
	static const char *const strings[] = {
		"strip", "lstrip",	   "rstrip", "split", "splitlines", "startswith", "endswith", "replace", "upper",  "lower",
		"title", "capitalize", "join",	 "find",  "count",		"isdigit",	  "isalpha",  "isspace", "format", NULL};
	static const char *const lists[] = {"append", "pop", "index", "count", "extend", "insert", NULL};
	static const char *const dicts[] = {"get", "items", "keys", "values", "update", "pop", NULL};
	const char *const *list = v.type == V_STRING ? strings : v.type == V_LIST ? lists : v.type == V_DICT ? dicts : NULL;
	for (; list && *list; list++)
		if (name_is(name, n, *list))
			return true;
	return false;
}

static bool is_space_at(const struct str *s, size_t i)
{
	return isspace((unsigned char)s->s[i]) != 0;
}

// Python's idea of white space beyond ASCII's: U+001C to U+001F, NEL and the separators.
static bool is_space(uint32_t cp)
{
	return (cp >= 9 && cp <= 13) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
		   (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
		   cp == 0x3000;
}

// Whether the character s[from..from + n) is one to strip.
static bool is_stripped(struct str s, size_t from, size_t n, struct value chars)
{
	uint32_t cp;
	if (chars.type == V_STRING)
		return memmem(chars.s.s, chars.s.n, s.s + from, n) != NULL;
	return utf8_decode(s.s + from, n, &cp) > 0 && is_space(cp);
}

static struct str strip(struct str s, struct value chars, bool left, bool right)
{
	uint32_t cp;
	while (left && s.n) {
		int k = utf8_decode(s.s, s.n, &cp);
		size_t n = k > 0 ? (size_t)k : 1;
		if (!is_stripped(s, 0, n, chars))
			break;
		s = v_sub(s, n, s.n - n);
	}
	while (right && s.n) {
		size_t n = 1;
		while (n < 4 && n < s.n && ((unsigned char)s.s[s.n - n] & 0xC0) == 0x80)
			n++;
		if (!is_stripped(s, s.n - n, n, chars))
			break;
		s.n -= n;
	}
	return s;
}

static struct value split(struct render *r, struct str s, struct args *a)
{
	struct value out = v_list(r, V_LIST), sep = args_get(a, 0, "sep", nothing),
				 max = args_get(a, 1, "maxsplit", nothing);
	int64_t left = max.type == V_NONE ? -1 : v_int(r, max, "maxsplit");
	if (sep.type == V_STRING && !sep.s.n)
		jinja__error(r, ERR_INVALID, "empty separator");
	for (;;) {
		if (sep.type != V_STRING)
			s = strip(s, nothing, true, false);
		if (sep.type != V_STRING && !s.n)
			return out;
		size_t at = 0, len = sep.type == V_STRING ? sep.s.n : 1;
		const char *p = NULL;
		if (left != 0 && sep.type == V_STRING)
			p = memmem(s.s, s.n, sep.s.s, sep.s.n);
		else if (left != 0)
			for (size_t i = 0; i < s.n && !p; i++)
				if (is_space_at(&s, i))
					p = s.s + i;
		jinja__step(r, 1);
		if (!p) {
			v_push(r, out.l, text_value(sep.type == V_STRING ? s : strip(s, nothing, false, left == 0 ? false : true)));
			return out;
		}
		at = (size_t)(p - s.s);
		v_push(r, out.l, text_value(v_sub(s, 0, at)));
		s = v_sub(s, at + len, s.n - at - len);
		left--;
	}
}

static struct value split_lines(struct render *r, struct str s)
{
	struct value out = v_list(r, V_LIST);
	while (s.n) {
		const char *p = memchr(s.s, '\n', s.n);
		size_t at = p ? (size_t)(p - s.s) : s.n;
		v_push(r, out.l, text_value(v_sub(s, 0, at && s.s[at - 1] == '\r' ? at - 1 : at)));
		at += p != NULL;
		s = v_sub(s, at, s.n - at);
	}
	return out;
}

static bool affix(struct render *r, struct str s, struct value what, bool start)
{
	if (what.type == V_TUPLE) {
		for (size_t i = 0; i < what.l->n; i++)
			if (affix(r, s, what.l->v[i], start))
				return true;
		return false;
	}
	if (what.type != V_STRING)
		jinja__error(r, ERR_INVALID, "startswith and endswith want a string or a tuple of strings");
	return what.s.n <= s.n && !memcmp(start ? s.s : s.s + s.n - what.s.n, what.s.s, what.s.n);
}

static struct value string_method(struct render *r, struct method *m, struct args *a)
{
	struct str s = m->self.s;
	struct value first = args_get(a, 0, NULL, nothing), yes = {.type = V_BOOL};
	const char *name = m->name;
	size_t n = m->n_name;
	if (name_is(name, n, "strip"))
		return text_value(strip(s, first, true, true));
	if (name_is(name, n, "lstrip"))
		return text_value(strip(s, first, true, false));
	if (name_is(name, n, "rstrip"))
		return text_value(strip(s, first, false, true));
	if (name_is(name, n, "split"))
		return split(r, s, a);
	if (name_is(name, n, "format"))
		return jinja__str_format(r, s, a);
	if (name_is(name, n, "splitlines"))
		return split_lines(r, s);
	if (name_is(name, n, "startswith") || name_is(name, n, "endswith")) {
		yes.b = affix(r, s, first, name[0] == 's');
		return yes;
	}
	if (name_is(name, n, "find") || name_is(name, n, "count")) {
		int64_t at = -1, count = 0;
		if (first.type != V_STRING)
			jinja__error(r, ERR_INVALID, "find and count want a string");
		for (const char *p = s.s; first.s.n && (p = memmem(p, s.n - (size_t)(p - s.s), first.s.s, first.s.n));
			 p += first.s.n, count++)
			if (at < 0)
				at = (int64_t)v_length(r, text_value(v_sub(s, 0, (size_t)(p - s.s))));
		return (struct value){.type = V_INT, .i = name[0] == 'f' ? at : count};
	}
	if (name_is(name, n, "join")) {
		struct value items = v_items(r, first);
		for (size_t i = 0; i < items.l->n; i++)
			if (items.l->v[i].type != V_STRING)
				jinja__error(r, ERR_INVALID, "join wants strings, item %zu is %s", i, v_type_name(items.l->v[i]));
		struct value sep = m->self;
		struct args join = {.pos = &sep, .n_pos = 1};
		return jinja__filter(r, "join", 4, first, &join);
	}
	if (name_is(name, n, "isdigit") || name_is(name, n, "isalpha") || name_is(name, n, "isspace")) {
		yes.b = s.n > 0;
		for (size_t i = 0; i < s.n; i++)
			yes.b = yes.b && (name[2] == 'd'   ? isdigit((unsigned char)s.s[i])
							  : name[2] == 'a' ? isalpha((unsigned char)s.s[i])
											   : isspace((unsigned char)s.s[i]));
		return yes;
	}
	return jinja__filter(r, name, n, m->self, a); // replace, upper, lower, title, capitalize
}

static struct value list_method(struct render *r, struct method *m, struct args *a)
{
	struct list_value *l = m->self.l;
	struct value first = args_get(a, 0, NULL, nothing);
	if (name_is(m->name, m->n_name, "append")) {
		v_push(r, l, first);
		return nothing;
	}
	if (name_is(m->name, m->n_name, "extend")) {
		struct value more = v_items(r, first);
		for (size_t i = 0, n = more.l->n; i < n; i++)
			v_push(r, l, more.l->v[i]);
		return nothing;
	}
	if (name_is(m->name, m->n_name, "insert")) {
		int64_t at = v_int(r, first, "insert's index");
		v_push(r, l, nothing);
		size_t k = at < 0 ? 0 : (size_t)at < l->n - 1 ? (size_t)at : l->n - 1;
		memmove(l->v + k + 1, l->v + k, (l->n - 1 - k) * sizeof *l->v);
		l->v[k] = args_get(a, 1, NULL, nothing);
		return nothing;
	}
	if (name_is(m->name, m->n_name, "pop")) {
		int64_t at = first.type == V_NONE ? (int64_t)l->n - 1 : v_int(r, first, "pop's index");
		at = at < 0 ? at + (int64_t)l->n : at;
		if (at < 0 || (size_t)at >= l->n)
			jinja__error(r, ERR_INVALID, "pop index out of range");
		struct value out = l->v[at];
		memmove(l->v + at, l->v + at + 1, (l->n - (size_t)at - 1) * sizeof *l->v);
		l->n--;
		return out;
	}
	int64_t count = 0;
	for (size_t i = 0; i < l->n; i++)
		if (v_equal(r, l->v[i], first)) {
			if (m->name[0] == 'i')
				return (struct value){.type = V_INT, .i = (int64_t)i};
			count++;
		}
	if (m->name[0] == 'i')
		jinja__error(r, ERR_INVALID, "the value is not in the list");
	return (struct value){.type = V_INT, .i = count};
}

static struct value dict_method(struct render *r, struct method *m, struct args *a)
{
	struct dict_value *d = m->self.d;
	struct value first = args_get(a, 0, "key", nothing), *found, out;
	if (name_is(m->name, m->n_name, "get"))
		return (found = v_find(r, d, first)) ? *found : args_get(a, 1, "default", nothing);
	if (name_is(m->name, m->n_name, "items"))
		return jinja__filter(r, "items", 5, m->self, a);
	if (name_is(m->name, m->n_name, "update")) {
		for (size_t i = 0; first.type == V_DICT && i < first.d->n; i++)
			v_put(r, d, first.d->e[i].k, first.d->e[i].v);
		for (size_t i = 0; i < a->n_named; i++)
			v_put(r, d, a->named[i].k, a->named[i].v);
		return nothing;
	}
	if (name_is(m->name, m->n_name, "pop")) {
		for (size_t i = 0; i < d->n; i++)
			if (v_equal(r, d->e[i].k, first)) {
				out = d->e[i].v;
				memmove(d->e + i, d->e + i + 1, (d->n - i - 1) * sizeof *d->e);
				d->n--;
				return out;
			}
		return args_get(a, 1, "default", nothing);
	}
	out = v_list(r, V_LIST);
	for (size_t i = 0; i < d->n; i++)
		v_push(r, out.l, m->name[0] == 'k' ? d->e[i].k : d->e[i].v);
	return out;
}

struct value jinja__method(struct render *r, struct method *m, struct args *a)
{
	if (m->self.type == V_STRING)
		return string_method(r, m, a);
	return m->self.type == V_LIST ? list_method(r, m, a) : dict_method(r, m, a);
}

// --- global functions

bool jinja__is_builtin(const char *name, size_t n, const char **kept)
{
	static const char *const names[] = {"range",		"namespace", "dict", "raise_exception",
										"strftime_now", "joiner",	 NULL};
	for (size_t i = 0; names[i]; i++)
		if (name_is(name, n, names[i])) {
			*kept = names[i];
			return true;
		}
	return false;
}

static struct value range(struct render *r, struct args *a)
{
	enum { MOST = 100000 };
	struct value out = v_list(r, V_LIST), zero = {.type = V_INT}, one = {.type = V_INT, .i = 1};
	int64_t from = a->n_pos > 1 ? v_int(r, a->pos[0], "range") : 0,
			to = v_int(r, args_get(a, a->n_pos > 1, NULL, zero), "range");
	int64_t step = v_int(r, args_get(a, 2, NULL, one), "range's step");
	if (!step)
		jinja__error(r, ERR_INVALID, "range's step must not be zero");
	for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
		if (out.l->n == MOST)
			jinja__error(r, ERR_LIMIT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MOST);
		v_push(r, out.l, (struct value){.type = V_INT, .i = i});
		if (__builtin_add_overflow(i, step, &(int64_t){0}))
			break;
	}
	return out;
}

static struct value strftime_now(struct render *r, struct args *a)
{
	struct value format = args_get(a, 0, "format", nothing);
	char f[128], out[512];
	struct tm tm;
	time_t now = (time_t)r->now;
	if (format.type != V_STRING || format.s.n >= sizeof f)
		jinja__error(r, ERR_INVALID, "strftime_now wants a short format");
	memcpy(f, format.s.s, format.s.n);
	f[format.s.n] = 0;
	localtime_r(&now, &tm);
	size_t n =
		strftime(out, sizeof out, f, &tm); // NOLINT: the format is the template's by design; the output is bounded
	return v_text(r, out, n, false);
}

struct value jinja__builtin(struct render *r, const char *name, struct args *a)
{
	if (!strcmp(name, "range"))
		return range(r, a);
	if (!strcmp(name, "strftime_now"))
		return strftime_now(r, a);
	if (!strcmp(name, "raise_exception")) {
		struct value message = args_get(a, 0, "message", (struct value){.type = V_UNDEFINED});
		if (message.type == V_UNDEFINED && !a->n_pos && !a->n_named)
			jinja__error(r, ERR_INVALID, "raise_exception wants a message");
		jinja__raise(r, v_print(r, message));
	}
	struct value out = v_dict(r), from = args_get(a, 0, NULL, nothing);
	for (size_t i = 0; from.type == V_DICT && i < from.d->n; i++)
		v_put(r, out.d, from.d->e[i].k, from.d->e[i].v);
	for (size_t i = 0; i < a->n_named; i++)
		v_put(r, out.d, a->named[i].k, a->named[i].v);
	if (!strcmp(name, "namespace"))
		out.type = V_NAMESPACE;
	return out;
}
