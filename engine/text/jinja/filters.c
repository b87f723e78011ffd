// SPDX-License-Identifier: Apache-2.0
//
// What may follow `|`. A filter that changes letters keeps each byte's taint; letters outside ASCII are cased by
// utf8proc.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const struct value nothing = {.type = V_NONE};
typedef struct value filter_fn(struct render *r, struct value v, struct args *a);

static struct value text_value(struct str s)
{
	return (struct value){.type = V_STRING, .s = s};
}

static struct value integer(int64_t i)
{
	return (struct value){.type = V_INT, .i = i};
}

enum casing { UPPER, LOWER, TITLE, CAPITALIZE };

static struct value change_case(struct render *r, struct value v, enum casing how)
{
	struct str s = v_print(r, v);
	struct text t = {0};
	bool first = true;
	for (size_t i = 0; i < s.n;) {
		uint32_t cp;
		char out[4], taint[4];
		int k = utf8_decode(s.s + i, s.n - i, &cp);
		if (k <= 0) {
			t_add(r, &t, v_sub(s, i, 1));
			i++;
			continue;
		}
		bool letter = utf8proc_category((utf8proc_int32_t)cp) <= UTF8PROC_CATEGORY_LO &&
					  utf8proc_category((utf8proc_int32_t)cp) > 0;
		bool up = how == UPPER || ((how == TITLE || how == CAPITALIZE) && first);
		cp = (uint32_t)(up ? utf8proc_toupper((utf8proc_int32_t)cp) : utf8proc_tolower((utf8proc_int32_t)cp));
		int m = utf8_encode(cp, out);
		memset(taint, s.taint[i], 4);
		t_add(r, &t, (struct str){out, taint, (size_t)m});
		first = how == TITLE ? !letter : false;
		i += (size_t)k;
	}
	return text_value(t_str(&t));
}

static struct value f_upper(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return change_case(r, v, UPPER);
}
static struct value f_lower(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return change_case(r, v, LOWER);
}
static struct value f_title(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return change_case(r, v, TITLE);
}
static struct value f_capitalize(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return change_case(r, v, CAPITALIZE);
}

static struct value f_trim(struct render *r, struct value v, struct args *a)
{
	struct method m = {text_value(v_print(r, v)), "strip", 5};
	return jinja__method(r, &m, a);
}

static struct value f_length(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return integer((int64_t)v_length(r, v));
}

static struct value f_default(struct render *r, struct value v, struct args *a)
{
	bool falsy = v_truth(args_get(a, 1, "boolean", nothing));
	(void)r;
	return v.type == V_UNDEFINED || (falsy && !v_truth(v)) ? args_get(a, 0, "default_value", v_str("", 0)) : v;
}

static struct value attribute(struct render *r, struct value v, struct value path)
{
	if (path.type != V_STRING)
		return jinja__index(r, v, path);
	for (struct str s = path.s; s.n;) {
		const char *dot = memchr(s.s, '.', s.n);
		size_t n = dot ? (size_t)(dot - s.s) : s.n;
		v = jinja__index(r, v, text_value(v_sub(s, 0, n)));
		s = dot ? v_sub(s, n + 1, s.n - n - 1) : v_sub(s, n, 0);
	}
	return v;
}

static struct value f_join(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v), sep = args_get(a, 0, "d", v_str("", 0)),
				 attr = args_get(a, 1, "attribute", nothing);
	struct text t = {0};
	for (size_t i = 0; i < items.l->n; i++) {
		if (i)
			t_add(r, &t, v_print(r, sep));
		t_add(r, &t, v_print(r, attr.type == V_NONE ? items.l->v[i] : attribute(r, items.l->v[i], attr)));
	}
	return text_value(t_str(&t));
}

static struct value f_first(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v);
	(void)a;
	return items.l->n ? items.l->v[0] : (struct value){.type = V_UNDEFINED, .name = "first of nothing"};
}

static struct value f_last(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v);
	(void)a;
	return items.l->n ? items.l->v[items.l->n - 1] : (struct value){.type = V_UNDEFINED, .name = "last of nothing"};
}

static struct value copy_list(struct render *r, struct value v)
{
	struct value items = v_items(r, v), out = v_list(r, V_LIST);
	for (size_t i = 0; i < items.l->n; i++)
		v_push(r, out.l, items.l->v[i]);
	return out;
}

static struct value f_list(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return copy_list(r, v);
}

static struct value f_reverse(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v), out = v_list(r, V_LIST);
	struct text t = {0};
	(void)a;
	for (size_t i = items.l->n; i-- > 0;) {
		v_push(r, out.l, items.l->v[i]);
		if (v.type == V_STRING)
			t_add(r, &t, items.l->v[i].s);
	}
	return v.type == V_STRING ? text_value(t_str(&t)) : out;
}

static struct value f_string(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return text_value(v_print(r, v));
}

static struct value f_int(struct render *r, struct value v, struct args *a)
{
	struct value otherwise = args_get(a, 0, "default", integer(0));
	char s[64];
	if (v.type == V_INT || v.type == V_BOOL)
		return integer(v.type == V_INT ? v.i : v.b);
	double f = v.type == V_FLOAT ? v.f : NAN;
	if (v.type == V_STRING && v.s.n < sizeof s) {
		char *end;
		memcpy(s, v.s.s, v.s.n);
		s[v.s.n] = 0;
		f = strtod(s, &end);
		while (isspace((unsigned char)*end))
			end++;
		if (end == s || *end)
			f = NAN;
	}
	(void)r;
	return f > -9e18 && f < 9e18 ? integer((int64_t)f) : otherwise;
}

static struct value f_float(struct render *r, struct value v, struct args *a)
{
	struct value otherwise = args_get(a, 0, "default", (struct value){.type = V_FLOAT});
	char s[64], *end = s;
	(void)r;
	if (v.type == V_INT || v.type == V_BOOL)
		return (struct value){.type = V_FLOAT, .f = v.type == V_INT ? (double)v.i : v.b};
	if (v.type == V_FLOAT)
		return v;
	if (v.type != V_STRING || v.s.n >= sizeof s)
		return otherwise;
	memcpy(s, v.s.s, v.s.n);
	s[v.s.n] = 0;
	double f = strtod(s, &end);
	return end == s || *end ? otherwise : (struct value){.type = V_FLOAT, .f = f};
}

static struct value f_abs(struct render *r, struct value v, struct args *a)
{
	(void)a;
	if (v.type == V_FLOAT)
		return (struct value){.type = V_FLOAT, .f = fabs(v.f)};
	int64_t i = v_int(r, v, "abs");
	if (i == INT64_MIN)
		jinja__error(r, ERR_INVALID, "a whole number is out of range");
	return integer(i < 0 ? -i : i);
}

static struct value f_round(struct render *r, struct value v, struct args *a)
{
	int64_t digits = v_int(r, args_get(a, 0, "precision", integer(0)), "round's precision");
	double f = f_float(r, v, &(struct args){0}).f, p = pow(10, (double)digits);
	struct value how = args_get(a, 1, "method", nothing);
	if (v.type == V_INT && digits >= 0)
		return v;
	bool up = how.type == V_STRING && name_is(how.s.s, how.s.n, "ceil"),
		 down = how.type == V_STRING && name_is(how.s.s, how.s.n, "floor");
	return (struct value){.type = V_FLOAT, .f = (up ? ceil(f * p) : down ? floor(f * p) : nearbyint(f * p)) / p};
}

static int indent_of(struct render *r, struct value v)
{
	int64_t n = v_int(r, v, "indent");
	if (n > 64)
		jinja__error(r, ERR_LIMIT, "tojson indents by at most 64");
	return n < 0 ? 0 : (int)n;
}

static struct value f_tojson(struct render *r, struct value v, struct args *a)
{
	struct value ascii = args_get(a, 0, "ensure_ascii", nothing), indent = args_get(a, 1, "indent", nothing);
	struct value sort = args_get(a, 3, "sort_keys", nothing);
	struct value separators = args_get(a, 2, "separators", nothing);
	struct json_form form = {
		.indent = indent.type == V_NONE ? -1 : indent_of(r, indent),
		.ascii = v_truth(ascii),
		.sort = v_truth(sort),
		.item = v_str(indent.type == V_NONE ? ", " : ",", indent.type == V_NONE ? 2 : 1).s,
		.key = v_str(": ", 2).s,
	};
	if (separators.type != V_NONE) {
		struct value pair = v_items(r, separators);
		if (pair.l->n != 2)
			jinja__error(r, ERR_INVALID, "tojson's separators must be two strings");
		form.item = v_print(r, pair.l->v[0]);
		form.key = v_print(r, pair.l->v[1]);
	}
	return text_value(v_json(r, v, &form));
}

static struct value f_items(struct render *r, struct value v, struct args *a)
{
	struct value out = v_list(r, V_LIST);
	(void)a;
	if (v.type == V_UNDEFINED)
		return out;
	if (v.type != V_DICT)
		jinja__error(r, ERR_INVALID, "Can only get item pairs from a mapping.");
	for (size_t i = 0; i < v.d->n; i++) {
		struct value pair = v_list(r, V_TUPLE);
		v_push(r, pair.l, v.d->e[i].k);
		v_push(r, pair.l, v.d->e[i].v);
		v_push(r, out.l, pair);
	}
	return out;
}

// Replacing the empty string: `to` before every character, and at the end.
static struct value spread(struct render *r, struct str s, struct str to, int64_t left)
{
	struct text t = {0};
	uint32_t cp;
	for (size_t i = 0; i <= s.n; left--) {
		if (left == 0) {
			t_add(r, &t, v_sub(s, i, s.n - i));
			break;
		}
		t_add(r, &t, to);
		jinja__step(r, 1);
		if (i == s.n)
			break;
		int k = utf8_decode(s.s + i, s.n - i, &cp);
		size_t n = k <= 0 ? 1 : (size_t)k;
		t_add(r, &t, v_sub(s, i, n));
		i += n;
	}
	return text_value(t_str(&t));
}

static struct value f_replace(struct render *r, struct value v, struct args *a)
{
	struct str s = v_print(r, v), from = v_print(r, args_get(a, 0, "old", nothing)),
			   to = v_print(r, args_get(a, 1, "new", nothing));
	struct value most = args_get(a, 2, "count", nothing);
	int64_t left = most.type == V_INT ? most.i : -1;
	struct text t = {0};
	if (!from.n)
		return spread(r, s, to, left);
	for (const char *p; left != 0 && (p = memmem(s.s, s.n, from.s, from.n)); left--) {
		size_t at = (size_t)(p - s.s);
		t_add(r, &t, v_sub(s, 0, at));
		t_add(r, &t, to);
		s = v_sub(s, at + from.n, s.n - at - from.n);
		jinja__step(r, 1);
	}
	t_add(r, &t, s);
	return text_value(t_str(&t));
}

static struct value f_safe(struct render *r, struct value v, struct args *a)
{
	(void)r;
	(void)a;
	return v;
}

static struct value f_format(struct render *r, struct value v, struct args *a)
{
	struct str s = v_print(r, v);
	struct text t = {0};
	size_t k = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.s[i] != '%' || i + 1 == s.n) {
			t_add(r, &t, v_sub(s, i, 1));
			continue;
		}
		char spec[16] = "%", out[64];
		size_t n = 1;
		while (++i < s.n && n < 10 && strchr("-+ 0123456789.", s.s[i]))
			spec[n++] = s.s[i];
		char c = i < s.n ? s.s[i] : 's';
		if (n > 6)
			jinja__error(r, ERR_LIMIT, "a format's width has at most four digits");
		if (c == '%') {
			t_puts(r, &t, "%");
			continue;
		}
		if (k >= a->n_pos)
			jinja__error(r, ERR_INVALID, "not enough arguments for format string");
		struct value x = a->pos[k++];
		if (c == 's')
			t_add(r, &t, v_print(r, x));
		else if (c == 'd' || c == 'x') {
			snprintf(spec + n, sizeof spec - n, "ll%c", c);
			snprintf(out, sizeof out, spec, (long long)f_int(r, x, &(struct args){0}).i);
			t_puts(r, &t, out);
		} else {
			spec[n] = c == 'e' || c == 'g' ? c : 'f';
			snprintf(out, sizeof out, spec, f_float(r, x, &(struct args){0}).f);
			t_puts(r, &t, out);
		}
	}
	return text_value(t_str(&t));
}

static struct args rest(struct args *a, size_t from)
{
	return (struct args){.pos = a->pos + (from < a->n_pos ? from : a->n_pos),
						 .n_pos = a->n_pos > from ? a->n_pos - from : 0};
}

// select, reject: by a test of the item; selectattr, rejectattr: by a test of one of its attributes.
static struct value choose(struct render *r, struct value v, struct args *a, bool by_attr, bool keep)
{
	struct value items = v_items(r, v), out = v_list(r, V_LIST), test = args_get(a, by_attr, NULL, nothing);
	struct args more = rest(a, by_attr ? 2 : 1);
	for (size_t i = 0; i < items.l->n; i++) {
		struct value x = by_attr ? attribute(r, items.l->v[i], args_get(a, 0, NULL, nothing)) : items.l->v[i];
		bool yes = test.type == V_STRING ? jinja__test(r, test.s.s, test.s.n, x, &more) : v_truth(x);
		if (yes == keep)
			v_push(r, out.l, items.l->v[i]);
	}
	return out;
}

static struct value f_select(struct render *r, struct value v, struct args *a)
{
	return choose(r, v, a, false, true);
}
static struct value f_reject(struct render *r, struct value v, struct args *a)
{
	return choose(r, v, a, false, false);
}
static struct value f_selectattr(struct render *r, struct value v, struct args *a)
{
	return choose(r, v, a, true, true);
}
static struct value f_rejectattr(struct render *r, struct value v, struct args *a)
{
	return choose(r, v, a, true, false);
}

static struct value f_map(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v), out = v_list(r, V_LIST), attr = args_get(a, SIZE_MAX, "attribute", nothing);
	struct value otherwise = args_get(a, SIZE_MAX, "default", (struct value){.type = V_UNDEFINED, .name = "attribute"});
	struct args more = rest(a, 1);
	for (size_t i = 0; i < items.l->n; i++) {
		if (attr.type != V_NONE) {
			struct value x = attribute(r, items.l->v[i], attr);
			v_push(r, out.l, x.type == V_UNDEFINED ? otherwise : x);
			continue;
		}
		struct value name = args_get(a, 0, NULL, nothing);
		if (name.type != V_STRING)
			jinja__error(r, ERR_INVALID, "map requires a filter argument");
		v_push(r, out.l, jinja__filter(r, name.s.s, name.s.n, items.l->v[i], &more));
	}
	return out;
}

// A merge of sorted halves: qsort has no place for the render that an error must reach.
static void sort_values(struct render *r, struct value *v, struct value *key, struct value *tmp, struct value *tmp_key,
						size_t n, bool down)
{
	if (n < 2)
		return;
	size_t h = n / 2, i = 0, j = h, k = 0;
	sort_values(r, v, key, tmp, tmp_key, h, down);
	sort_values(r, v + h, key + h, tmp, tmp_key, n - h, down);
	while (i < h || j < n) {
		bool left = j == n || (i < h && (down ? v_order(r, key[i], key[j]) >= 0 : v_order(r, key[i], key[j]) <= 0));
		tmp[k] = left ? v[i] : v[j];
		tmp_key[k++] = left ? key[i++] : key[j++];
	}
	memcpy(v, tmp, n * sizeof *v);
	memcpy(key, tmp_key, n * sizeof *key);
}

static struct value sort_by(struct render *r, struct value v, struct value attr, bool down, bool exact)
{
	struct value out = copy_list(r, v);
	size_t n = out.l->n;
	struct value *key = jinja__get(r, (n + 1) * sizeof *key), *tmp = jinja__get(r, (2 * n + 1) * sizeof *tmp);
	for (size_t i = 0; i < n; i++) {
		key[i] = attr.type == V_NONE ? out.l->v[i] : attribute(r, out.l->v[i], attr);
		if (!exact && key[i].type == V_STRING)
			key[i] = change_case(r, key[i], LOWER);
	}
	sort_values(r, out.l->v, key, tmp, tmp + n, n, down);
	return out;
}

static struct value f_sort(struct render *r, struct value v, struct args *a)
{
	return sort_by(r, v, args_get(a, 2, "attribute", nothing), v_truth(args_get(a, 0, "reverse", nothing)),
				   v_truth(args_get(a, 1, "case_sensitive", nothing)));
}

static struct value f_dictsort(struct render *r, struct value v, struct args *a)
{
	struct value by = args_get(a, 1, "by", nothing),
				 index = integer(by.type == V_STRING && name_is(by.s.s, by.s.n, "value"));
	return sort_by(r, f_items(r, v, a), index, v_truth(args_get(a, 2, "reverse", nothing)),
				   v_truth(args_get(a, 0, "case_sensitive", nothing)));
}

static struct value f_unique(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v), out = v_list(r, V_LIST), seen = v_list(r, V_LIST);
	struct value attr = args_get(a, 1, "attribute", nothing);
	bool exact = v_truth(args_get(a, 0, "case_sensitive", nothing));
	for (size_t i = 0; i < items.l->n; i++) {
		struct value key = attr.type == V_NONE ? items.l->v[i] : attribute(r, items.l->v[i], attr);
		if (!exact && key.type == V_STRING)
			key = change_case(r, key, LOWER);
		if (v_in(r, key, seen))
			continue;
		v_push(r, seen.l, key);
		v_push(r, out.l, items.l->v[i]);
	}
	return out;
}

static struct value f_sum(struct render *r, struct value v, struct args *a)
{
	struct value items = v_items(r, v), attr = args_get(a, 0, "attribute", nothing),
				 start = args_get(a, 1, "start", integer(0));
	double sum = f_float(r, start, &(struct args){0}).f;
	bool whole = start.type == V_INT;
	if (start.type != V_INT && start.type != V_FLOAT)
		jinja__error(r, ERR_INVALID, "sum starts with a number");
	for (size_t i = 0; i < items.l->n; i++) {
		struct value x = attr.type == V_NONE ? items.l->v[i] : attribute(r, items.l->v[i], attr);
		whole &= x.type == V_INT;
		sum += f_float(r, x, &(struct args){0}).f;
	}
	return whole && fabs(sum) < 9e15 ? integer((int64_t)sum) : (struct value){.type = V_FLOAT, .f = sum};
}

static struct value extreme(struct render *r, struct value v, int sign)
{
	struct value items = v_items(r, v), best = {.type = V_UNDEFINED, .name = "extreme of nothing"};
	for (size_t i = 0; i < items.l->n; i++)
		if (!i || v_order(r, items.l->v[i], best) * sign > 0)
			best = items.l->v[i];
	return best;
}

static struct value f_max(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return extreme(r, v, 1);
}
static struct value f_min(struct render *r, struct value v, struct args *a)
{
	(void)a;
	return extreme(r, v, -1);
}

static struct value f_indent(struct render *r, struct value v, struct args *a)
{
	struct str s = v_print(r, v);
	struct text t = {0};
	int64_t width = v_int(r, args_get(a, 0, "width", integer(4)), "indent's width");
	bool first = v_truth(args_get(a, 1, "first", nothing)), blank = v_truth(args_get(a, 2, "blank", nothing));
	for (bool start = first; s.n;) {
		const char *p = memchr(s.s, '\n', s.n);
		size_t n = p ? (size_t)(p - s.s) + 1 : s.n;
		for (int64_t i = 0; start && i < width && i < 1000 && (blank || s.s[0] != '\n'); i++)
			t_puts(r, &t, " ");
		t_add(r, &t, v_sub(s, 0, n));
		s = v_sub(s, n, s.n - n);
		start = true;
	}
	return text_value(t_str(&t));
}

static const struct {
	const char *name;
	filter_fn *fn;
} filters[] = {
	{"upper", f_upper},
	{"lower", f_lower},
	{"title", f_title},
	{"capitalize", f_capitalize},
	{"trim", f_trim},
	{"length", f_length},
	{"count", f_length},
	{"default", f_default},
	{"d", f_default},
	{"join", f_join},
	{"first", f_first},
	{"last", f_last},
	{"list", f_list},
	{"reverse", f_reverse},
	{"string", f_string},
	{"int", f_int},
	{"float", f_float},
	{"abs", f_abs},
	{"round", f_round},
	{"tojson", f_tojson},
	{"items", f_items},
	{"replace", f_replace},
	{"safe", f_safe},
	{"e", f_safe},
	{"escape", f_safe},
	{"format", f_format},
	{"select", f_select},
	{"reject", f_reject},
	{"selectattr", f_selectattr},
	{"rejectattr", f_rejectattr},
	{"map", f_map},
	{"sort", f_sort},
	{"dictsort", f_dictsort},
	{"unique", f_unique},
	{"sum", f_sum},
	{"max", f_max},
	{"min", f_min},
	{"indent", f_indent},
};

struct value jinja__filter(struct render *r, const char *name, size_t n, struct value v, struct args *a)
{
	for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++)
		if (name_is(name, n, filters[i].name))
			return filters[i].fn(r, v, a);
	jinja__error(r, ERR_INVALID, "No filter named '%.*s'.", (int)(n < 60 ? n : 60), name);
}
