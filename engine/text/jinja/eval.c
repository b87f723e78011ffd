// SPDX-License-Identifier: Apache-2.0
//
// Walks the tree. Errors and limits leave by longjmp to jinja_render, which owns the arena that everything lives in.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct jinja_limits jinja_default_limits = {1 << 20, 20000000, 128, 64 << 20, 256 << 20};

void jinja__error(struct render *r, int rc, const char *fmt, ...)
{
	char what[384];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	err_set(r->err, r->len, rc, "line %d: %s", r->at ? r->at->line : 0, what);
	r->rc = rc;
	longjmp(r->fail, 1);
}

void jinja__raise(struct render *r, struct str message)
{
	r->raised = true;
	r->rc = err_set(r->err, r->len, ERR_INVALID, "%.*s", (int)message.n, message.s);
	longjmp(r->fail, 1);
}

void jinja__step(struct render *r, size_t n)
{
	r->steps += n;
	if (r->steps > r->t->limits.max_steps)
		jinja__error(r, ERR_LIMIT, "the template takes more than %zu steps", r->t->limits.max_steps);
}

void *jinja__get(struct render *r, size_t n)
{
	void *p = arena_alloc(&r->arena, n);
	if (!p)
		jinja__error(r, ERR_LIMIT, "the template takes more than %zu bytes of memory", r->t->limits.max_memory);
	jinja__step(r, 1 + n / 256);
	return p;
}

void jinja__enter(struct render *r)
{
	if (++r->depth > r->t->limits.max_depth)
		jinja__error(r, ERR_LIMIT, "nested deeper than %zu levels", r->t->limits.max_depth);
}

void jinja__leave(struct render *r)
{
	r->depth--;
}

// --- variables

static struct value key_of(const char *s, size_t n)
{
	static const char no_taint[1];
	return (struct value){.type = V_STRING, .s = {s, no_taint, n}}; // only compared, never printed
}

static struct value lookup(struct render *r, const char *name, size_t n)
{
	struct value key = key_of(name, n), *v;
	const char *kept;
	for (struct scope *s = r->scope; s; s = s->up)
		if ((v = v_find(r, &s->vars, key)))
			return *v;
	if (jinja__is_builtin(name, n, &kept))
		return (struct value){.type = V_BUILTIN, .name = kept};
	return (struct value){.type = V_UNDEFINED, .name = name};
}

static void assign(struct render *r, struct scope *s, const struct node *name, struct value v)
{
	v_put(r, &s->vars, v_text(r, name->name, name->n_name, false), v);
}

static void bind_targets(struct render *r, struct scope *s, const struct node *targets, struct value v)
{
	if (!targets->next) {
		assign(r, s, targets, v);
		return;
	}
	struct value items = v_items(r, v);
	size_t i = 0;
	for (const struct node *t = targets; t; t = t->next, i++) {
		if (i >= items.l->n)
			jinja__error(r, ERR_INVALID, "not enough values to unpack (got %zu)", items.l->n);
		assign(r, s, t, items.l->v[i]);
	}
	if (i < items.l->n)
		jinja__error(r, ERR_INVALID, "too many values to unpack (expected %zu)", i);
}

// --- output

static void write_out(struct render *r, struct str s)
{
	if (r->out->text.len + s.n > r->t->limits.max_output)
		jinja__error(r, ERR_LIMIT, "the output is longer than %zu bytes", r->t->limits.max_output);
	jinja__step(r, s.n / 64);
	buf_append(&r->out->text, s.s, s.n);
	buf_append(&r->out->taint, s.taint, s.n);
}

// Runs a body with its output caught as a string.
static struct value capture(struct render *r, const struct node *body)
{
	size_t from = r->out->text.len;
	jinja__exec(r, body);
	size_t n = r->out->text.len - from;
	char *p = jinja__get(r, 2 * n + 1);
	if (n) {
		memcpy(p, r->out->text.data + from, n);
		memcpy(p + n, r->out->taint.data + from, n);
	}
	r->out->text.len = r->out->taint.len = from;
	return (struct value){.type = V_STRING, .s = {p, p + n, n}};
}

// --- operators

static struct value integer(int64_t i)
{
	return (struct value){.type = V_INT, .i = i};
}

static struct value boolean(bool b)
{
	return (struct value){.type = V_BOOL, .b = b};
}

static double number(struct render *r, struct value v, enum op op)
{
	if (v.type == V_FLOAT)
		return v.f;
	if (v.type == V_INT || v.type == V_BOOL)
		return v.type == V_INT ? (double)v.i : v.b;
	jinja__error(r, ERR_INVALID,
				 v.type == V_UNDEFINED ? "'%s' is undefined" : "unsupported operand of type '%s' (operator %d)",
				 v.type == V_UNDEFINED ? v.name : v_type_name(v), (int)op);
}

static struct value repeat(struct render *r, struct value v, int64_t n)
{
	struct text t = {0};
	struct value out = v;
	if (v.type == V_STRING) {
		for (int64_t i = 0; i < n; i++)
			t_add(r, &t, v.s), jinja__step(r, 1);
		out.s = t_str(&t);
		return out;
	}
	out = v_list(r, v.type);
	for (int64_t i = 0; i < n; i++)
		for (size_t k = 0; k < v.l->n; k++)
			v_push(r, out.l, v.l->v[k]);
	return out;
}

static struct value float_op(struct render *r, enum op op, double x, double y)
{
	double f = 0;
	if (y == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
		jinja__error(r, ERR_INVALID, "division by zero");
	switch (op) {
	case OP_ADD:
		f = x + y;
		break;
	case OP_SUB:
		f = x - y;
		break;
	case OP_MUL:
		f = x * y;
		break;
	case OP_DIV:
		f = x / y;
		break;
	case OP_FLOORDIV:
		f = floor(x / y);
		break;
	case OP_MOD:
		f = x - floor(x / y) * y;
		break;
	default:
		f = pow(x, y);
		break;
	}
	return (struct value){.type = V_FLOAT, .f = f};
}

static struct value int_op(struct render *r, enum op op, int64_t x, int64_t y)
{
	int64_t z = 0;
	bool over = false;
	switch (op) {
	case OP_ADD:
		over = __builtin_add_overflow(x, y, &z);
		break;
	case OP_SUB:
		over = __builtin_sub_overflow(x, y, &z);
		break;
	case OP_MUL:
		over = __builtin_mul_overflow(x, y, &z);
		break;
	case OP_POW:
		if (y < 0)
			return float_op(r, op, (double)x, (double)y);
		for (z = 1; y > 0 && !over; y--) {
			over = __builtin_mul_overflow(z, x, &z);
			jinja__step(r, 1);
		}
		break;
	default:
		if (y == 0)
			jinja__error(r, ERR_INVALID, "division by zero");
		if (y == -1) { // the one quotient that overflows is x = INT64_MIN
			over = op == OP_FLOORDIV && __builtin_sub_overflow(0, x, &z);
			break;
		}
		z = op == OP_FLOORDIV ? x / y : x % y;
		if (x % y && (x < 0) != (y < 0)) // floor, as in Python
			z += op == OP_FLOORDIV ? -1 : y;
	}
	if (over)
		jinja__error(r, ERR_INVALID, "a whole number is out of range");
	return integer(z);
}

static bool whole(struct value v)
{
	return v.type == V_INT || v.type == V_BOOL;
}

static struct value arithmetic(struct render *r, enum op op, struct value a, struct value b)
{
	if (op == OP_CONCAT)
		return v_cat(r, v_print(r, a), v_print(r, b));
	if (op == OP_ADD && a.type == V_STRING && b.type == V_STRING)
		return v_cat(r, a.s, b.s);
	if (op == OP_ADD && a.type == b.type && (a.type == V_LIST || a.type == V_TUPLE)) {
		struct value out = repeat(r, a, 1);
		for (size_t i = 0; i < b.l->n; i++)
			v_push(r, out.l, b.l->v[i]);
		return out;
	}
	if (op == OP_MUL && whole(b) && (a.type == V_STRING || a.type == V_LIST || a.type == V_TUPLE))
		return repeat(r, a, v_int(r, b, "the factor"));
	if (op == OP_MUL && whole(a) && (b.type == V_STRING || b.type == V_LIST || b.type == V_TUPLE))
		return repeat(r, b, v_int(r, a, "the factor"));
	if (op == OP_MOD && a.type == V_STRING) {
		struct args args = {.pos = &b, .n_pos = 1};
		if (b.type == V_TUPLE)
			args = (struct args){.pos = b.l->v, .n_pos = b.l->n};
		return jinja__filter(r, "format", 6, a, &args);
	}
	double x = number(r, a, op), y = number(r, b, op);
	if (whole(a) && whole(b) && op != OP_DIV)
		return int_op(r, op, v_int(r, a, "a"), v_int(r, b, "b"));
	return float_op(r, op, x, y);
}

static bool compare(struct render *r, enum op op, struct value a, struct value b)
{
	switch (op) {
	case OP_EQ:
		return v_equal(r, a, b);
	case OP_NE:
		return !v_equal(r, a, b);
	case OP_IN:
		return v_in(r, a, b);
	case OP_NOT_IN:
		return !v_in(r, a, b);
	case OP_LT:
		return v_order(r, a, b) < 0;
	case OP_LE:
		return v_order(r, a, b) <= 0;
	case OP_GT:
		return v_order(r, a, b) > 0;
	default:
		return v_order(r, a, b) >= 0;
	}
}

// --- parts of values

static struct value macro_attr(struct render *r, const struct node *m, const char *name, size_t n);

struct value jinja__attr(struct render *r, struct value v, const char *name, size_t n)
{
	struct value *found;
	if (v.type == V_UNDEFINED)
		jinja__error(r, ERR_INVALID, "'%.60s' is undefined", v.name);
	if (v.type == V_NAMESPACE || v.type == V_LOOP)
		return (found = v_find(r, v.d, key_of(name, n))) ? *found : (struct value){.type = V_UNDEFINED, .name = name};
	if (v.type == V_MACRO)
		return macro_attr(r, v.macro->n, name, n);
	if (jinja__has_method(v, name, n)) {
		struct method *m = jinja__get(r, sizeof *m);
		*m = (struct method){v, name, n};
		return (struct value){.type = V_METHOD, .m = m};
	}
	if (v.type == V_DICT && (found = v_find(r, v.d, key_of(name, n))))
		return *found;
	return (struct value){.type = V_UNDEFINED, .name = name};
}

// The i-th character, from the end where i is negative.
static struct value character(struct render *r, struct str s, int64_t i)
{
	int64_t len = (int64_t)v_length(r, (struct value){.type = V_STRING, .s = s});
	size_t at = 0, n = 1;
	jinja__step(r, s.n / 16);
	i = i < 0 ? i + len : i;
	if (i < 0 || i >= len)
		return (struct value){.type = V_UNDEFINED, .name = "element"};
	for (i++; at < s.n; at++) // to the first byte of character i
		if (((unsigned char)s.s[at] & 0xC0) != 0x80 && --i == 0)
			break;
	while (at + n < s.n && ((unsigned char)s.s[at + n] & 0xC0) == 0x80)
		n++;
	return (struct value){.type = V_STRING, .s = v_sub(s, at, n)};
}

struct value jinja__index(struct render *r, struct value v, struct value key)
{
	struct value *found, items;
	if (v.type == V_UNDEFINED)
		jinja__error(r, ERR_INVALID, "'%.60s' is undefined", v.name);
	if (v.type == V_DICT || v.type == V_NAMESPACE || v.type == V_LOOP)
		if ((found = v_find(r, v.d, key)))
			return *found;
	if (key.type == V_STRING && v.type != V_LIST && v.type != V_TUPLE && v.type != V_STRING) {
		struct value part = jinja__attr(r, v, key.s.s, key.s.n);
		if (part.type == V_UNDEFINED)
			part.name = "element"; // a key of the render is no terminated string
		return part;
	}
	if (v.type == V_STRING && whole(key))
		return character(r, v.s, v_int(r, key, "an index"));
	if ((v.type == V_LIST || v.type == V_TUPLE) && whole(key)) {
		items = v_items(r, v);
		int64_t i = v_int(r, key, "an index");
		i = i < 0 ? i + (int64_t)items.l->n : i;
		if (i >= 0 && (size_t)i < items.l->n)
			return items.l->v[i];
	}
	return (struct value){.type = V_UNDEFINED, .name = "element"};
}

static int64_t bound(struct render *r, const struct node *n, int64_t otherwise, int64_t len, int64_t low, int64_t high)
{
	if (!n)
		return otherwise;
	struct value v = jinja__eval(r, n);
	if (v.type == V_NONE)
		return otherwise;
	int64_t i = v_int(r, v, "a slice's bound");
	i = i < 0 ? i + len : i;
	return i < low ? low : i > high ? high : i;
}

static struct value slice(struct render *r, const struct node *n)
{
	struct value v = jinja__eval(r, n->a), items = v_items(r, v), out = v_list(r, v.type == V_TUPLE ? V_TUPLE : V_LIST);
	int64_t len = (int64_t)items.l->n, step = 1;
	if (v.type == V_UNDEFINED)
		jinja__error(r, ERR_INVALID, "'%.60s' is undefined", v.name);
	if (n->d) {
		struct value s = jinja__eval(r, n->d);
		step = s.type == V_NONE ? 1 : v_int(r, s, "a slice's step");
	}
	if (!step)
		jinja__error(r, ERR_INVALID, "a slice's step cannot be zero");
	int64_t from = bound(r, n->b, step > 0 ? 0 : len - 1, len, step > 0 ? 0 : -1, step > 0 ? len : len - 1);
	int64_t to = bound(r, n->c, step > 0 ? len : -1, len, step > 0 ? 0 : -1, step > 0 ? len : len - 1);
	struct text t = {0};
	step = step > len + 1 ? len + 1 : step < -len - 1 ? -len - 1 : step;
	for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
		jinja__step(r, 1);
		if (v.type == V_STRING)
			t_add(r, &t, items.l->v[i].s);
		else
			v_push(r, out.l, items.l->v[i]);
	}
	return v.type == V_STRING ? (struct value){.type = V_STRING, .s = t_str(&t)} : out;
}

// --- calls

static struct args eval_args(struct render *r, const struct node *list)
{
	struct args a = {0};
	size_t n = 0;
	for (const struct node *k = list; k; k = k->next)
		n++;
	a.pos = jinja__get(r, n * sizeof *a.pos + 1);
	a.named = jinja__get(r, n * sizeof *a.named + 1);
	for (const struct node *k = list; k; k = k->next) {
		struct value v = jinja__eval(r, k->value);
		if (k->name)
			a.named[a.n_named++] = (struct entry){v_text(r, k->name, k->n_name, false), v};
		else
			a.pos[a.n_pos++] = v;
	}
	return a;
}

struct value args_get(struct args *a, size_t i, const char *name, struct value otherwise)
{
	if (i < a->n_pos)
		return a->pos[i];
	for (size_t k = 0; name && k < a->n_named; k++)
		if (name_is(a->named[k].k.s.s, a->named[k].k.s.n, name))
			return a->named[k].v;
	return otherwise;
}

static struct value closure(struct render *r, const struct node *n)
{
	struct closure *c = jinja__get(r, sizeof *c);
	*c = (struct closure){n, r->scope};
	return (struct value){.type = V_MACRO, .macro = c};
}

static bool is_parameter(const struct node *m, struct str key)
{
	for (const struct node *p = m->kids; p; p = p->next)
		if (p->n_name == key.n && !memcmp(p->name, key.s, key.n))
			return true;
	return false;
}

// What no parameter takes: varargs and kwargs where the macro names them, else an error.
static void bind_rest(struct render *r, struct scope *s, const struct node *m, const struct args *a, size_t n_params)
{
	struct value more = v_list(r, V_TUPLE), named = v_dict(r);
	for (size_t i = n_params; i < a->n_pos; i++)
		v_push(r, more.l, a->pos[i]);
	for (size_t i = 0; i < a->n_named; i++)
		if (!is_parameter(m, a->named[i].k.s))
			v_put(r, named.d, a->named[i].k, a->named[i].v);
	if (more.l->n && !m->flag)
		jinja__error(r, ERR_INVALID, "macro '%.60s' takes not more than %zu argument(s)", m->name, n_params);
	if (named.d->n && !m->keywords)
		jinja__error(r, ERR_INVALID, "macro '%.60s' takes no keyword argument '%.*s'", m->name,
					 (int)(named.d->e[0].k.s.n < 60 ? named.d->e[0].k.s.n : 60), named.d->e[0].k.s.s);
	v_put(r, &s->vars, v_str("varargs", 7), more);
	v_put(r, &s->vars, v_str("kwargs", 6), named);
}

static struct value call_macro(struct render *r, const struct closure *f, struct args *a, const struct value *caller)
{
	const struct node *m = f->n;
	struct scope *outer = r->scope, *s = jinja__get(r, sizeof *s);
	*s = (struct scope){.up = f->scope}; // a macro sees what was around it, not its caller's variables
	size_t i = 0;
	jinja__enter(r);
	r->scope = s;
	for (const struct node *p = m->kids; p; p = p->next, i++) {
		struct value v = args_get(a, i, p->name, (struct value){.type = V_UNDEFINED, .name = p->name});
		if (v.type == V_UNDEFINED && p->value)
			v = jinja__eval(r, p->value);
		assign(r, s, p, v);
	}
	bind_rest(r, s, m, a, i);
	if (caller)
		v_put(r, &s->vars, v_str("caller", 6), *caller);
	struct value out = capture(r, m->b);
	r->flow = FLOW_NEXT;
	r->scope = outer;
	jinja__leave(r);
	return out;
}

// What a template may ask of a macro: its name and the names of its parameters.
static struct value macro_attr(struct render *r, const struct node *m, const char *name, size_t n)
{
	if (name_is(name, n, "name"))
		return v_text(r, m->name, m->n_name, false);
	if (!name_is(name, n, "arguments"))
		return (struct value){.type = V_UNDEFINED, .name = "attribute of a macro"};
	struct value out = v_list(r, V_TUPLE);
	for (const struct node *p = m->kids; p; p = p->next)
		v_push(r, out.l, v_text(r, p->name, p->n_name, false));
	return out;
}

static struct value call(struct render *r, struct value f, struct args *a)
{
	if (f.type == V_MACRO)
		return call_macro(r, f.macro, a, NULL);
	if (f.type == V_METHOD)
		return jinja__method(r, f.m, a);
	if (f.type == V_BUILTIN)
		return jinja__builtin(r, f.name, a);
	jinja__error(r, ERR_INVALID, f.type == V_UNDEFINED ? "'%.60s' is undefined" : "'%.60s' object is not callable",
				 f.type == V_UNDEFINED ? f.name : v_type_name(f));
}

// --- expressions

static struct value constant(const struct token *t)
{
	if (t->kind == TOK_INT)
		return integer(t->i);
	if (t->kind == TOK_FLOAT)
		return (struct value){.type = V_FLOAT, .f = t->f};
	// The zeros behind a literal were laid down by jinja_compile.
	return (struct value){.type = V_STRING, .s = {t->s, t->s + t->n, t->n}};
}

static struct value eval_name(struct render *r, const struct node *n)
{
	if (name_is(n->name, n->n_name, "true") || name_is(n->name, n->n_name, "True"))
		return boolean(true);
	if (name_is(n->name, n->n_name, "false") || name_is(n->name, n->n_name, "False"))
		return boolean(false);
	if (name_is(n->name, n->n_name, "none") || name_is(n->name, n->n_name, "None"))
		return (struct value){.type = V_NONE};
	return lookup(r, n->name, n->n_name);
}

static struct value eval_group(struct render *r, const struct node *n)
{
	struct value out = n->kind == N_DICT ? v_dict(r) : v_list(r, n->kind == N_LIST ? V_LIST : V_TUPLE);
	for (const struct node *k = n->kids; k; k = k->next) {
		if (n->kind == N_DICT) {
			struct value key = jinja__eval(r, k->a);
			v_put(r, out.d, key, jinja__eval(r, k->value));
		} else {
			v_push(r, out.l, jinja__eval(r, k));
		}
	}
	return out;
}

static struct value eval_compare(struct render *r, const struct node *n)
{
	struct value a = jinja__eval(r, n->a);
	for (const struct node *k = n->kids; k; k = k->next) {
		struct value b = jinja__eval(r, k->a);
		if (!compare(r, k->op, a, b))
			return boolean(false);
		a = b;
	}
	return boolean(true);
}

static struct value eval_binary(struct render *r, const struct node *n)
{
	struct value a = jinja__eval(r, n->a);
	if (n->op == OP_OR)
		return v_truth(a) ? a : jinja__eval(r, n->b);
	if (n->op == OP_AND)
		return v_truth(a) ? jinja__eval(r, n->b) : a;
	return arithmetic(r, n->op, a, jinja__eval(r, n->b));
}

static struct value eval_unary(struct render *r, const struct node *n)
{
	struct value a = jinja__eval(r, n->a);
	if (n->op == OP_NOT)
		return boolean(!v_truth(a));
	if (a.type == V_FLOAT)
		return (struct value){.type = V_FLOAT, .f = n->op == OP_NEG ? -a.f : a.f};
	return arithmetic(r, n->op == OP_NEG ? OP_SUB : OP_ADD, integer(0), a);
}

static struct value eval_node(struct render *r, const struct node *n)
{
	struct args args;
	struct value v;
	switch (n->kind) {
	case N_CONST:
		return constant(&n->tok);
	case N_NAME:
		return eval_name(r, n);
	case N_LIST:
	case N_TUPLE:
	case N_DICT:
		return eval_group(r, n);
	case N_UNARY:
		return eval_unary(r, n);
	case N_BINARY:
		return eval_binary(r, n);
	case N_COMPARE:
		return eval_compare(r, n);
	case N_COND:
		if (v_truth(jinja__eval(r, n->a)))
			return jinja__eval(r, n->b);
		return n->c ? jinja__eval(r, n->c) : (struct value){.type = V_UNDEFINED, .name = "the missing else"};
	case N_ATTR:
		return jinja__attr(r, jinja__eval(r, n->a), n->name, n->n_name);
	case N_INDEX:
		v = jinja__eval(r, n->a);
		return jinja__index(r, v, jinja__eval(r, n->b));
	case N_SLICE:
		return slice(r, n);
	case N_CALL:
		v = jinja__eval(r, n->a);
		args = eval_args(r, n->kids);
		return call(r, v, &args);
	case N_FILTER:
		v = jinja__eval(r, n->a);
		args = eval_args(r, n->kids);
		return jinja__filter(r, n->name, n->n_name, v, &args);
	case N_TEST:
		v = jinja__eval(r, n->a);
		args = eval_args(r, n->kids);
		return boolean(jinja__test(r, n->name, n->n_name, v, &args) != n->flag);
	default:
		jinja__error(r, ERR_INTERNAL, "node %d is no expression", (int)n->kind);
	}
}

struct value jinja__eval(struct render *r, const struct node *n)
{
	jinja__step(r, 1);
	jinja__enter(r);
	r->at = n;
	struct value v = eval_node(r, n);
	jinja__leave(r);
	return v;
}

// --- statements

static void put(struct render *r, struct dict_value *d, const char *key, struct value v)
{
	v_put(r, d, v_str(key, strlen(key)), v);
}

static void set_loop(struct render *r, struct dict_value *d, struct value items, size_t i)
{
	size_t n = items.l->n;
	struct value none = {.type = V_UNDEFINED, .name = "neighbour"};
	put(r, d, "index", integer((int64_t)i + 1));
	put(r, d, "index0", integer((int64_t)i));
	put(r, d, "revindex", integer((int64_t)(n - i)));
	put(r, d, "revindex0", integer((int64_t)(n - i - 1)));
	put(r, d, "first", boolean(i == 0));
	put(r, d, "last", boolean(i + 1 == n));
	put(r, d, "length", integer((int64_t)n));
	put(r, d, "previtem", i ? items.l->v[i - 1] : none);
	put(r, d, "nextitem", i + 1 < n ? items.l->v[i + 1] : none);
}

static struct value for_items(struct render *r, const struct node *n)
{
	struct value all = v_items(r, jinja__eval(r, n->a));
	if (!n->d)
		return all;
	struct value out = v_list(r, V_LIST);
	struct scope *outer = r->scope, s = {.up = outer}; // no statement runs in it, so nothing keeps it
	r->scope = &s;
	for (size_t i = 0; i < all.l->n; i++) {
		bind_targets(r, &s, n->kids, all.l->v[i]);
		if (v_truth(jinja__eval(r, n->d)))
			v_push(r, out.l, all.l->v[i]);
	}
	r->scope = outer;
	return out;
}

static void exec_for(struct render *r, const struct node *n)
{
	struct value items = for_items(r, n), loop = v_dict(r);
	struct scope *outer = r->scope;
	loop.type = V_LOOP;
	if (!items.l->n) {
		jinja__exec(r, n->c);
		return;
	}
	for (size_t i = 0; i < items.l->n; i++) {
		struct scope *s = jinja__get(r, sizeof *s); // what one round sets is gone in the next; a macro may keep it
		*s = (struct scope){.up = outer};
		r->scope = s;
		set_loop(r, loop.d, items, i);
		put(r, &s->vars, "loop", loop);
		bind_targets(r, s, n->kids, items.l->v[i]);
		jinja__exec(r, n->b);
		if (r->flow == FLOW_BREAK)
			break;
		r->flow = FLOW_NEXT;
	}
	r->flow = FLOW_NEXT;
	r->scope = outer;
}

static void exec_set(struct render *r, const struct node *n, struct value v)
{
	if (!n->name) {
		bind_targets(r, r->scope, n->kids, v);
		return;
	}
	struct value ns = lookup(r, n->kids->name, n->kids->n_name);
	if (ns.type != V_NAMESPACE)
		jinja__error(r, ERR_INVALID, "cannot assign attribute on non-namespace object");
	v_put(r, ns.d, v_text(r, n->name, n->n_name, false), v);
}

// The innermost filter of the chain has no operand: it is given the body.
static struct value filter_chain(struct render *r, const struct node *f, struct value body)
{
	if (!f)
		return body;
	struct value v = filter_chain(r, f->a, body);
	struct args args = eval_args(r, f->kids);
	return jinja__filter(r, f->name, f->n_name, v, &args);
}

static void exec_call_block(struct render *r, const struct node *n)
{
	struct value f = jinja__eval(r, n->a->a), caller = closure(r, n);
	struct args args = eval_args(r, n->a->kids);
	if (f.type != V_MACRO)
		jinja__error(r, ERR_INVALID, "a call block wants a macro");
	write_out(r, call_macro(r, f.macro, &args, &caller).s);
}

static void exec_node(struct render *r, const struct node *n)
{
	struct value v;
	switch (n->kind) {
	case N_TEXT:
		write_out(r, constant(&n->tok).s);
		return;
	case N_PRINT:
		v = jinja__eval(r, n->a);
		write_out(r, v_print(r, v));
		return;
	case N_IF:
		jinja__exec(r, v_truth(jinja__eval(r, n->a)) ? n->b : n->c);
		return;
	case N_FOR:
		exec_for(r, n);
		return;
	case N_SET:
		exec_set(r, n, jinja__eval(r, n->a));
		return;
	case N_SET_BLOCK:
		exec_set(r, n, filter_chain(r, n->a, capture(r, n->b)));
		return;
	case N_MACRO:
		assign(r, r->scope, n, closure(r, n));
		return;
	case N_BREAK:
		r->flow = FLOW_BREAK;
		return;
	case N_CONTINUE:
		r->flow = FLOW_CONTINUE;
		return;
	case N_SCOPE:
		jinja__exec(r, n->b);
		return;
	case N_FILTER_BLOCK:
		write_out(r, v_print(r, filter_chain(r, n->a, capture(r, n->b))));
		return;
	case N_CALL_BLOCK:
		exec_call_block(r, n);
		return;
	default:
		(void)jinja__eval(r, n);
	}
}

void jinja__exec(struct render *r, const struct node *list)
{
	jinja__enter(r);
	for (const struct node *n = list; n && r->flow == FLOW_NEXT; n = n->next) {
		r->at = n;
		jinja__step(r, 1);
		exec_node(r, n);
	}
	jinja__leave(r);
}
