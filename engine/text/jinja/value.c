// SPDX-License-Identifier: Apache-2.0
//
// Values: building, comparing, printing (as Python's str and repr do) and JSON (as Python's json.dumps does).
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char zeros[64];

struct value v_str(const char *s, size_t n)
{
	// Only for short literals of this program: their taint is the shared zeros.
	CHECK(n <= sizeof zeros, "%zu", n);
	return (struct value){.type = V_STRING, .s = {s, zeros, n}};
}

struct value v_text(struct render *r, const char *s, size_t n, bool tainted)
{
	char *p = jinja__get(r, 2 * n + 1);
	memcpy(p, s, n);
	memset(p + n, tainted, n);
	return (struct value){.type = V_STRING, .s = {p, p + n, n}};
}

struct value v_cat(struct render *r, struct str a, struct str b)
{
	size_t n = a.n + b.n;
	char *p = jinja__get(r, 2 * n + 1);
	memcpy(p, a.s, a.n);
	memcpy(p + a.n, b.s, b.n);
	memcpy(p + n, a.taint, a.n);
	memcpy(p + n + a.n, b.taint, b.n);
	jinja__step(r, n / 64);
	return (struct value){.type = V_STRING, .s = {p, p + n, n}};
}

struct str v_sub(struct str s, size_t from, size_t n)
{
	return (struct str){s.s + from, s.taint + from, n};
}

struct value v_list(struct render *r, enum vtype type)
{
	struct value v = {.type = type, .l = jinja__get(r, sizeof *v.l)};
	*v.l = (struct list_value){0};
	return v;
}

static void *grow(struct render *r, void *old, size_t n, size_t *cap, size_t size)
{
	if (n < *cap)
		return old;
	*cap = *cap ? 2 * *cap : 8;
	void *p = jinja__get(r, *cap * size);
	if (n)
		memcpy(p, old, n * size);
	return p;
}

void v_push(struct render *r, struct list_value *l, struct value v)
{
	l->v = grow(r, l->v, l->n, &l->cap, sizeof *l->v);
	l->v[l->n++] = v;
}

struct value v_dict(struct render *r)
{
	struct value v = {.type = V_DICT, .d = jinja__get(r, sizeof *v.d)};
	*v.d = (struct dict_value){0};
	return v;
}

static bool number(struct value v, double *out)
{
	*out = v.type == V_FLOAT ? v.f : v.type == V_INT ? (double)v.i : v.type == V_BOOL ? v.b : 0;
	return v.type == V_FLOAT || v.type == V_INT || v.type == V_BOOL;
}

static bool key_equal(struct value a, struct value b)
{
	if (a.type == V_STRING && b.type == V_STRING)
		return a.s.n == b.s.n && !memcmp(a.s.s, b.s.s, a.s.n);
	double x, y;
	if (number(a, &x) && number(b, &y)) // 1, 1.0 and true are one key
		return a.type == V_INT && b.type == V_INT ? a.i == b.i : x == y;
	return a.type == b.type && (a.type == V_NONE || (a.type != V_STRING && a.l == b.l));
}

struct value *v_find(struct render *r, const struct dict_value *d, struct value key)
{
	jinja__step(r, d->n / 16);
	for (size_t i = 0; i < d->n; i++)
		if (key_equal(d->e[i].k, key))
			return &d->e[i].v;
	return NULL;
}

void v_put(struct render *r, struct dict_value *d, struct value key, struct value v)
{
	struct value *old = v_find(r, d, key);
	jinja__step(r, 1);
	if (old) {
		*old = v;
		return;
	}
	d->e = grow(r, d->e, d->n, &d->cap, sizeof *d->e);
	d->e[d->n++] = (struct entry){key, v};
}

bool v_truth(struct value v)
{
	switch (v.type) {
	case V_UNDEFINED:
	case V_NONE:
		return false;
	case V_BOOL:
		return v.b;
	case V_INT:
		return v.i != 0;
	case V_FLOAT:
		return v.f != 0;
	case V_STRING:
		return v.s.n > 0;
	case V_LIST:
	case V_TUPLE:
		return v.l->n > 0;
	case V_DICT:
		return v.d->n > 0;
	default:
		return true;
	}
}

bool v_equal(struct render *r, struct value a, struct value b)
{
	double x, y;
	bool same = true;
	jinja__step(r, 1);
	if (number(a, &x) && number(b, &y))
		return x == y;
	if (a.type != b.type)
		return false;
	if (a.type == V_STRING)
		return a.s.n == b.s.n && !memcmp(a.s.s, b.s.s, a.s.n);
	if (a.type != V_LIST && a.type != V_TUPLE && a.type != V_DICT)
		return a.type == V_NONE || a.type == V_UNDEFINED || a.l == b.l;
	jinja__enter(r);
	if (a.type == V_DICT) {
		same = a.d->n == b.d->n;
		for (size_t i = 0; same && i < a.d->n; i++) {
			struct value *other = v_find(r, b.d, a.d->e[i].k);
			same = other && v_equal(r, a.d->e[i].v, *other);
		}
	} else {
		same = a.l->n == b.l->n;
		for (size_t i = 0; same && i < a.l->n; i++)
			same = v_equal(r, a.l->v[i], b.l->v[i]);
	}
	jinja__leave(r);
	return same;
}

int v_order(struct render *r, struct value a, struct value b)
{
	double x, y;
	jinja__step(r, 1);
	if (number(a, &x) && number(b, &y))
		return (x > y) - (x < y);
	if (a.type == V_STRING && b.type == V_STRING) {
		int d = memcmp(a.s.s, b.s.s, a.s.n < b.s.n ? a.s.n : b.s.n);
		return d ? (d > 0) - (d < 0) : (a.s.n > b.s.n) - (a.s.n < b.s.n);
	}
	if ((a.type == V_LIST || a.type == V_TUPLE) && a.type == b.type) {
		int d = 0;
		jinja__enter(r);
		for (size_t i = 0; !d && i < a.l->n && i < b.l->n; i++)
			if (!v_equal(r, a.l->v[i], b.l->v[i]))
				d = v_order(r, a.l->v[i], b.l->v[i]);
		jinja__leave(r);
		return d ? d : (a.l->n > b.l->n) - (a.l->n < b.l->n);
	}
	jinja__error(r, ERR_INVALID, "'%s' and '%s' cannot be compared", v_type_name(a), v_type_name(b));
}

bool v_in(struct render *r, struct value item, struct value box)
{
	if (box.type == V_STRING) {
		if (item.type != V_STRING)
			jinja__error(r, ERR_INVALID, "'in <string>' wants a string, not %s", v_type_name(item));
		jinja__step(r, box.s.n / 64 + 1);
		return !item.s.n || memmem(box.s.s, box.s.n, item.s.s, item.s.n);
	}
	if (box.type == V_DICT || box.type == V_NAMESPACE)
		return v_find(r, box.d, item) != NULL;
	if (box.type == V_UNDEFINED)
		return false;
	if (box.type != V_LIST && box.type != V_TUPLE)
		jinja__error(r, ERR_INVALID, "'%s' holds nothing that one could look for", v_type_name(box));
	for (size_t i = 0; i < box.l->n; i++)
		if (v_equal(r, item, box.l->v[i]))
			return true;
	return false;
}

const char *v_type_name(struct value v)
{
	static const char *const names[] = {"undefined", "none", "bool",	  "int",   "float",	   "str",	 "list",
										"tuple",	 "dict", "namespace", "macro", "function", "method", "loop"};
	return names[v.type];
}

int64_t v_int(struct render *r, struct value v, const char *what)
{
	if (v.type == V_INT)
		return v.i;
	if (v.type == V_BOOL)
		return v.b;
	jinja__error(r, ERR_INVALID, "%s must be a whole number, not %s", what, v_type_name(v));
}

// --- growing text

void t_add(struct render *r, struct text *t, struct str s)
{
	if (t->n + s.n > t->cap) {
		size_t cap = t->cap ? t->cap : 64;
		while (cap < t->n + s.n)
			cap *= 2;
		char *p = jinja__get(r, 2 * cap);
		if (t->n) {
			memcpy(p, t->s, t->n);
			memcpy(p + cap, t->taint, t->n);
		}
		t->s = p;
		t->taint = p + cap;
		t->cap = cap;
	}
	if (s.n) {
		memcpy(t->s + t->n, s.s, s.n);
		memcpy(t->taint + t->n, s.taint, s.n);
	}
	t->n += s.n;
	jinja__step(r, s.n / 64);
}

static void t_bytes(struct render *r, struct text *t, const char *s, size_t n, bool tainted)
{
	static const char ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
								  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
								  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	for (size_t k; n; s += k, n -= k) {
		k = n < sizeof ones ? n : sizeof ones;
		t_add(r, t, (struct str){s, tainted ? ones : zeros, k});
	}
}

void t_puts(struct render *r, struct text *t, const char *s)
{
	t_bytes(r, t, s, strlen(s), false);
}

struct str t_str(const struct text *t)
{
	return t->n ? (struct str){t->s, t->taint, t->n} : (struct str){"", zeros, 0};
}

// --- printing

// The shortest digits that read back as the same float, in Python's form: 1.0, 1e+16, 1e-05.
static void print_float(struct render *r, struct text *t, double f)
{
	char s[40];
	if (!isfinite(f)) {
		t_puts(r, t, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
		return;
	}
	int digits = 1;
	do
		snprintf(s, sizeof s, "%.*e", digits - 1, f);
	while (strtod(s, NULL) != f && ++digits <= 17);
	int exp = atoi(strchr(s, 'e') + 1);
	if (exp < -4 || exp >= 16)
		snprintf(s, sizeof s, "%.*e", digits - 1, f);
	else {
		int after = digits - 1 - exp;
		snprintf(s, sizeof s, "%.*f", after > 1 ? after : 1, f);
	}
	t_puts(r, t, s);
}

static void print_quoted(struct render *r, struct text *t, struct str s)
{
	char quote = memchr(s.s, '\'', s.n) && !memchr(s.s, '"', s.n) ? '"' : '\'', esc[8];
	t_bytes(r, t, &quote, 1, false);
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.s[i];
		if (c == '\\' || c == (unsigned char)quote)
			snprintf(esc, sizeof esc, "\\%c", c);
		else if (c == '\n' || c == '\r' || c == '\t')
			snprintf(esc, sizeof esc, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
		else if (c < 0x20 || c == 0x7F)
			snprintf(esc, sizeof esc, "\\x%02x", c);
		else {
			t_add(r, t, v_sub(s, i, 1));
			continue;
		}
		t_bytes(r, t, esc, strlen(esc), s.taint[i]);
	}
	t_bytes(r, t, &quote, 1, false);
}

static void print(struct render *r, struct text *t, struct value v, bool quoted)
{
	char s[32];
	jinja__step(r, 1);
	switch (v.type) {
	case V_UNDEFINED:
		return;
	case V_NONE:
		t_puts(r, t, "None");
		return;
	case V_BOOL:
		t_puts(r, t, v.b ? "True" : "False");
		return;
	case V_INT:
		snprintf(s, sizeof s, "%" PRId64, v.i);
		t_puts(r, t, s);
		return;
	case V_FLOAT:
		print_float(r, t, v.f);
		return;
	case V_STRING:
		if (quoted)
			print_quoted(r, t, v.s);
		else
			t_add(r, t, v.s);
		return;
	case V_LIST:
	case V_TUPLE:
	case V_DICT:
		break;
	default:
		t_puts(r, t, "<");
		t_puts(r, t, v_type_name(v));
		t_puts(r, t, ">");
		return;
	}
	jinja__enter(r);
	t_puts(r, t, v.type == V_LIST ? "[" : v.type == V_TUPLE ? "(" : "{");
	size_t n = v.type == V_DICT ? v.d->n : v.l->n;
	for (size_t i = 0; i < n; i++) {
		if (i)
			t_puts(r, t, ", ");
		if (v.type == V_DICT) {
			print(r, t, v.d->e[i].k, true);
			t_puts(r, t, ": ");
		}
		print(r, t, v.type == V_DICT ? v.d->e[i].v : v.l->v[i], true);
	}
	t_puts(r, t, v.type == V_LIST ? "]" : v.type == V_TUPLE ? (n == 1 ? ",)" : ")") : "}");
	jinja__leave(r);
}

struct str v_print(struct render *r, struct value v)
{
	struct text t = {0};
	if (v.type == V_STRING)
		return v.s;
	print(r, &t, v, false);
	return t_str(&t);
}

struct str v_repr(struct render *r, struct value v)
{
	struct text t = {0};
	print(r, &t, v, true);
	return t_str(&t);
}

// --- JSON

static void put_json_string(struct render *r, struct text *t, struct str s, bool ascii)
{
	char esc[16];
	t_puts(r, t, "\"");
	for (size_t i = 0; i < s.n;) {
		uint32_t cp = (unsigned char)s.s[i];
		int k = utf8_decode(s.s + i, s.n - i, &cp);
		k = k <= 0 ? 1 : k;
		const char *plain = cp == '"'	 ? "\\\""
							: cp == '\\' ? "\\\\"
							: cp == '\n' ? "\\n"
							: cp == '\r' ? "\\r"
							: cp == '\t' ? "\\t"
							: cp == '\b' ? "\\b"
							: cp == '\f' ? "\\f"
										 : NULL;
		if (plain)
			t_bytes(r, t, plain, 2, s.taint[i]);
		else if (cp < 0x20 || (ascii && cp >= 0x7F && cp < 0x10000)) {
			snprintf(esc, sizeof esc, "\\u%04x", cp);
			t_bytes(r, t, esc, strlen(esc), s.taint[i]);
		} else if (ascii && cp >= 0x10000) {
			snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
					 0xDC00 + ((cp - 0x10000) & 0x3FF));
			t_bytes(r, t, esc, strlen(esc), s.taint[i]);
		} else
			t_add(r, t, v_sub(s, i, (size_t)k));
		i += (size_t)k;
	}
	t_puts(r, t, "\"");
}

static void newline(struct render *r, struct text *t, const struct json_form *f, int level)
{
	if (f->indent < 0)
		return;
	t_puts(r, t, "\n");
	for (int i = 0; i < level * f->indent; i++)
		t_puts(r, t, " ");
}

static int by_key(const void *a, const void *b)
{
	struct str x = ((const struct entry *)a)->k.s, y = ((const struct entry *)b)->k.s; // strings, as json saw to
	int d = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);
	return d ? d : (x.n > y.n) - (x.n < y.n);
}

static void put_json_key(struct render *r, struct text *t, struct value k, bool ascii)
{
	if (k.type == V_NONE)
		t_puts(r, t, "\"null\"");
	else if (k.type == V_BOOL)
		t_puts(r, t, k.b ? "\"true\"" : "\"false\"");
	else
		put_json_string(r, t, v_print(r, k), ascii);
}

static void json(struct render *r, struct text *t, struct value v, const struct json_form *f, int level)
{
	jinja__step(r, 1);
	if (v.type == V_STRING) {
		put_json_string(r, t, v.s, f->ascii);
		return;
	}
	if (v.type == V_NONE || v.type == V_BOOL) {
		t_puts(r, t, v.type == V_NONE ? "null" : v.b ? "true" : "false");
		return;
	}
	if (v.type == V_INT || v.type == V_FLOAT) {
		print(r, t, v, false);
		return;
	}
	if (v.type != V_LIST && v.type != V_TUPLE && v.type != V_DICT)
		jinja__error(r, ERR_INVALID, "Object of type %s is not JSON serializable", v_type_name(v));
	bool dict = v.type == V_DICT;
	size_t n = dict ? v.d->n : v.l->n;
	struct entry *e = dict ? v.d->e : NULL;
	if (dict && f->sort && n) {
		e = jinja__get(r, n * sizeof *e);
		memcpy(e, v.d->e, n * sizeof *e);
		for (size_t i = 0; i < n; i++)
			if (e[i].k.type != V_STRING)
				jinja__error(r, ERR_INVALID, "tojson sorts only keys that are strings");
		qsort(e, n, sizeof *e, by_key);
	}
	jinja__enter(r);
	t_puts(r, t, dict ? "{" : "[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			t_add(r, t, f->item);
		newline(r, t, f, level + 1);
		if (dict) {
			put_json_key(r, t, e[i].k, f->ascii);
			t_add(r, t, f->key);
		}
		json(r, t, dict ? e[i].v : v.l->v[i], f, level + 1);
	}
	if (n)
		newline(r, t, f, level);
	t_puts(r, t, dict ? "}" : "]");
	jinja__leave(r);
}

struct str v_json(struct render *r, struct value v, const struct json_form *form)
{
	struct text t = {0};
	json(r, &t, v, form, 0);
	return t_str(&t);
}

size_t v_length(struct render *r, struct value v)
{
	switch (v.type) {
	case V_STRING: {
		size_t n = 0;
		for (size_t i = 0; i < v.s.n; i++)
			n += ((unsigned char)v.s.s[i] & 0xC0) != 0x80;
		return n;
	}
	case V_LIST:
	case V_TUPLE:
		return v.l->n;
	case V_DICT:
		return v.d->n;
	case V_UNDEFINED:
		return 0;
	default:
		jinja__error(r, ERR_INVALID, "object of type '%s' has no len()", v_type_name(v));
	}
}

struct value v_items(struct render *r, struct value v)
{
	if (v.type == V_LIST || v.type == V_TUPLE)
		return v;
	struct value out = v_list(r, V_LIST);
	if (v.type == V_DICT)
		for (size_t i = 0; i < v.d->n; i++)
			v_push(r, out.l, v.d->e[i].k);
	else if (v.type == V_STRING)
		for (size_t i = 0; i < v.s.n;) {
			uint32_t cp;
			int k = utf8_decode(v.s.s + i, v.s.n - i, &cp);
			k = k <= 0 ? 1 : k;
			v_push(r, out.l, (struct value){.type = V_STRING, .s = v_sub(v.s, i, (size_t)k)});
			jinja__step(r, 1);
			i += (size_t)k;
		}
	else if (v.type != V_UNDEFINED)
		jinja__error(r, ERR_INVALID, "'%s' object is not iterable", v_type_name(v));
	return out;
}

struct value v_from_json(struct render *r, const json_t *j, bool tainted)
{
	const char *key;
	json_t *item;
	size_t i;
	struct value out = {.type = V_NONE};
	jinja__step(r, 1);
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		jinja__enter(r);
		out = v_dict(r);
		json_object_foreach((json_t *)j, key, item)
			v_put(r, out.d, v_text(r, key, strlen(key), tainted), v_from_json(r, item, tainted));
		jinja__leave(r);
		return out;
	case JSON_ARRAY:
		jinja__enter(r);
		out = v_list(r, V_LIST);
		json_array_foreach(j, i, item) v_push(r, out.l, v_from_json(r, item, tainted));
		jinja__leave(r);
		return out;
	case JSON_STRING:
		return v_text(r, json_string_value(j), json_string_length(j), tainted);
	case JSON_INTEGER:
		return (struct value){.type = V_INT, .i = json_integer_value(j)};
	case JSON_REAL:
		return (struct value){.type = V_FLOAT, .f = json_real_value(j)};
	case JSON_TRUE:
	case JSON_FALSE:
		return (struct value){.type = V_BOOL, .b = json_is_true(j)};
	default:
		return out;
	}
}
