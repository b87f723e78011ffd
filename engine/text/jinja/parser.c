// SPDX-License-Identifier: Apache-2.0
//
// Tokens to a tree, by recursive descent in Jinja2's order of precedence (unary minus binds tighter than **, as in
// Jinja2). Depth is bounded by the limit.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"

#include <string.h>

static struct node *parse_expr(struct compiler *c);
static struct node *parse_unary(struct compiler *c);
static struct node *parse_body(struct compiler *c, const char *const *ends);

static struct token *peek(struct compiler *c)
{
	return &c->tokens[c->at];
}

static struct token *take(struct compiler *c)
{
	struct token *t = &c->tokens[c->at];
	if (t->kind != TOK_EOF)
		c->at++;
	return t;
}

bool name_is(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(s, word, n);
}

static bool is(const struct token *t, enum token_kind kind, const char *word)
{
	return t->kind == kind && name_is(t->s, t->n, word);
}

static bool is_op(struct compiler *c, const char *op)
{
	return is(peek(c), TOK_OP, op);
}

static bool take_op(struct compiler *c, const char *op)
{
	if (!is_op(c, op))
		return false;
	c->at++;
	return true;
}

static bool take_word(struct compiler *c, const char *word)
{
	if (!is(peek(c), TOK_NAME, word))
		return false;
	c->at++;
	return true;
}

static _Noreturn void unexpected(struct compiler *c, const char *wanted)
{
	struct token *t = peek(c);
	if (t->kind == TOK_EOF)
		jinja__syntax(c, t->line, ERR_INVALID, "the template ends where %s was expected", wanted);
	jinja__syntax(c, t->line, ERR_INVALID, "expected %s, found '%.*s'", wanted, (int)(t->n < 40 ? t->n : 40), t->s);
}

static void want_op(struct compiler *c, const char *op)
{
	if (!take_op(c, op))
		unexpected(c, op);
}

static struct node *make(struct compiler *c, enum node_kind kind)
{
	struct node *n = jinja__alloc(c, sizeof *n);
	n->kind = kind;
	n->line = peek(c)->line;
	return n;
}

static void deeper(struct compiler *c)
{
	if (++c->depth > c->limits->max_depth)
		jinja__syntax(c, peek(c)->line, ERR_LIMIT, "nested deeper than %zu levels", c->limits->max_depth);
}

static struct node *binary(struct compiler *c, enum node_kind kind, enum op op, struct node *a, struct node *b)
{
	struct node *n = make(c, kind);
	n->op = op;
	n->a = a;
	n->b = b;
	return n;
}

static void set_name(struct compiler *c, struct node *n)
{
	struct token *t = take(c);
	if (t->kind != TOK_NAME) {
		c->at--;
		unexpected(c, "a name");
	}
	char *name = jinja__alloc(c, t->n + 1); // terminated, for messages
	memcpy(name, t->s, t->n);
	n->name = name;
	n->n_name = t->n;
}

// Elements up to `close`; *comma says whether there was one, which makes "(x,)" a tuple.
static struct node *parse_elements(struct compiler *c, const char *close, bool *comma)
{
	struct node *first = NULL, **at = &first;
	*comma = false;
	while (!take_op(c, close)) {
		*at = parse_expr(c);
		at = &(*at)->next;
		if (take_op(c, close))
			break;
		want_op(c, ",");
		*comma = true;
	}
	return first;
}

static struct node *parse_args(struct compiler *c)
{
	struct node *first = NULL, **at = &first;
	while (!take_op(c, ")")) {
		struct token *t = peek(c);
		if (t->kind == TOK_NAME && is(t + 1, TOK_OP, "=")) {
			struct node *n = make(c, N_CONST);
			set_name(c, n);
			take(c);
			n->value = parse_expr(c);
			*at = n;
		} else {
			struct node *n = make(c, N_CONST);
			n->value = parse_expr(c);
			*at = n;
		}
		at = &(*at)->next;
		if (take_op(c, ")"))
			break;
		want_op(c, ",");
	}
	return first;
}

static struct node *parse_dict(struct compiler *c)
{
	struct node *n = make(c, N_DICT), **at = &n->kids;
	while (!take_op(c, "}")) {
		struct node *e = make(c, N_CONST);
		e->a = parse_expr(c);
		want_op(c, ":");
		e->value = parse_expr(c);
		*at = e;
		at = &e->next;
		if (take_op(c, "}"))
			break;
		want_op(c, ",");
	}
	return n;
}

static struct node *parse_primary(struct compiler *c)
{
	struct token *t = peek(c);
	struct node *n;
	bool comma;
	if (t->kind == TOK_STRING) {
		n = make(c, N_CONST);
		n->tok = *take(c);
		while (peek(c)->kind == TOK_STRING) { // adjacent strings are one
			struct token *more = take(c);
			char *s = jinja__alloc(c, 2 * (n->tok.n + more->n) + 1); // the zeros behind are its taint
			memcpy(s, n->tok.s, n->tok.n);
			memcpy(s + n->tok.n, more->s, more->n);
			n->tok.s = s;
			n->tok.n += more->n;
		}
		return n;
	}
	if (t->kind == TOK_INT || t->kind == TOK_FLOAT) {
		n = make(c, N_CONST);
		n->tok = *take(c);
		return n;
	}
	if (t->kind == TOK_NAME) {
		n = make(c, N_NAME);
		set_name(c, n);
		c->varargs |= name_is(n->name, n->n_name, "varargs");
		c->kwargs |= name_is(n->name, n->n_name, "kwargs");
		return n;
	}
	if (take_op(c, "[")) {
		n = make(c, N_LIST);
		n->kids = parse_elements(c, "]", &comma);
		return n;
	}
	if (take_op(c, "{"))
		return parse_dict(c);
	if (take_op(c, "(")) {
		n = make(c, N_TUPLE);
		n->kids = parse_elements(c, ")", &comma);
		return comma || !n->kids ? n : n->kids;
	}
	unexpected(c, "an expression");
}

static struct node *parse_index(struct compiler *c, struct node *of)
{
	struct node *start = is_op(c, ":") ? NULL : parse_expr(c);
	if (!is_op(c, ":")) {
		want_op(c, "]");
		return binary(c, N_INDEX, OP_OR, of, start);
	}
	struct node *n = make(c, N_SLICE);
	take(c);
	n->a = of;
	n->b = start;
	if (!is_op(c, "]") && !is_op(c, ":"))
		n->c = parse_expr(c);
	if (take_op(c, ":") && !is_op(c, "]"))
		n->d = parse_expr(c);
	want_op(c, "]");
	return n;
}

static struct node *parse_filter(struct compiler *c, struct node *of)
{
	struct node *n = make(c, N_FILTER);
	n->a = of;
	set_name(c, n);
	if (take_op(c, "("))
		n->kids = parse_args(c);
	return n;
}

// "is [not] name [argument]"
static struct node *parse_test(struct compiler *c, struct node *of)
{
	struct node *n = make(c, N_TEST);
	n->a = of;
	n->flag = take_word(c, "not");
	set_name(c, n);
	struct token *t = peek(c);
	bool word = t->kind == TOK_NAME && !is(t, TOK_NAME, "and") && !is(t, TOK_NAME, "or") && !is(t, TOK_NAME, "else") &&
				!is(t, TOK_NAME, "if") && !is(t, TOK_NAME, "is") && !is(t, TOK_NAME, "not") && !is(t, TOK_NAME, "in");
	if (take_op(c, "(")) {
		n->kids = parse_args(c);
	} else if (word || t->kind == TOK_STRING || t->kind == TOK_INT || t->kind == TOK_FLOAT || is(t, TOK_OP, "[") ||
			   is(t, TOK_OP, "{")) {
		n->kids = make(c, N_CONST);
		n->kids->value = parse_primary(c);
	}
	return n;
}

static struct node *parse_postfix(struct compiler *c, struct node *n)
{
	for (;;) {
		if (take_op(c, ".")) {
			struct node *a = make(c, N_ATTR);
			a->a = n;
			if (peek(c)->kind == TOK_INT) { // x.0
				a->kind = N_INDEX;
				a->b = make(c, N_CONST);
				a->b->tok = *take(c);
			} else {
				set_name(c, a);
			}
			n = a;
		} else if (take_op(c, "[")) {
			n = parse_index(c, n);
		} else if (take_op(c, "(")) {
			struct node *k = make(c, N_CALL);
			k->a = n;
			k->kids = parse_args(c);
			n = k;
		} else {
			return n;
		}
	}
}

static struct node *not_a_test(struct compiler *c, struct node *n)
{
	if (n->kind == N_TEST)
		jinja__syntax(c, peek(c)->line, ERR_INVALID, "tests cannot be chained with is");
	return n;
}

static struct node *parse_filters(struct compiler *c, struct node *n)
{
	for (;;) {
		if (take_op(c, "|"))
			n = parse_filter(c, n);
		else if (take_word(c, "is"))
			n = parse_test(c, not_a_test(c, n));
		else if (is_op(c, "("))
			n = parse_postfix(c, n);
		else
			return n;
	}
}

static struct node *parse_pow(struct compiler *c)
{
	struct node *a = parse_unary(c);
	while (take_op(c, "**"))
		a = binary(c, N_BINARY, OP_POW, a, parse_unary(c));
	return a;
}

static struct node *parse_unary_plain(struct compiler *c)
{
	deeper(c);
	struct node *n;
	if (take_op(c, "-"))
		n = binary(c, N_UNARY, OP_NEG, parse_unary_plain(c), NULL);
	else if (take_op(c, "+"))
		n = binary(c, N_UNARY, OP_POS, parse_unary_plain(c), NULL);
	else
		n = parse_postfix(c, parse_primary(c));
	c->depth--;
	return n;
}

static struct node *parse_unary(struct compiler *c)
{
	return parse_filters(c, parse_unary_plain(c));
}

static struct node *parse_mul(struct compiler *c)
{
	struct node *a = parse_pow(c);
	for (;;) {
		enum op op;
		if (take_op(c, "*"))
			op = OP_MUL;
		else if (take_op(c, "//"))
			op = OP_FLOORDIV;
		else if (take_op(c, "/"))
			op = OP_DIV;
		else if (take_op(c, "%"))
			op = OP_MOD;
		else
			return a;
		a = binary(c, N_BINARY, op, a, parse_pow(c));
	}
}

static struct node *parse_concat(struct compiler *c)
{
	struct node *a = parse_mul(c);
	while (take_op(c, "~"))
		a = binary(c, N_BINARY, OP_CONCAT, a, parse_mul(c));
	return a;
}

static struct node *parse_add(struct compiler *c)
{
	struct node *a = parse_concat(c);
	for (;;) {
		if (take_op(c, "+"))
			a = binary(c, N_BINARY, OP_ADD, a, parse_concat(c));
		else if (take_op(c, "-"))
			a = binary(c, N_BINARY, OP_SUB, a, parse_concat(c));
		else
			return a;
	}
}

static bool comparison(struct compiler *c, enum op *op)
{
	static const struct {
		const char *s;
		enum op op;
	} ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE}, {">=", OP_GE}, {"<", OP_LT}, {">", OP_GT}};
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
		if (take_op(c, ops[i].s)) {
			*op = ops[i].op;
			return true;
		}
	*op = OP_IN;
	if (take_word(c, "in"))
		return true;
	if (!is(peek(c), TOK_NAME, "not") || !is(peek(c) + 1, TOK_NAME, "in"))
		return false;
	c->at += 2;
	*op = OP_NOT_IN;
	return true;
}

// a < b < c: a, and a list of (op, operand) that hold one after another.
static struct node *parse_compare(struct compiler *c)
{
	struct node *a = parse_add(c), *n = NULL, **at = NULL;
	enum op op;
	while (comparison(c, &op)) {
		if (!n) {
			n = make(c, N_COMPARE);
			n->a = a;
			at = &n->kids;
		}
		struct node *k = make(c, N_CONST);
		k->op = op;
		k->a = parse_add(c);
		*at = k;
		at = &k->next;
	}
	return n ? n : a;
}

static struct node *parse_not(struct compiler *c)
{
	if (!take_word(c, "not"))
		return parse_compare(c);
	deeper(c);
	struct node *n = binary(c, N_UNARY, OP_NOT, parse_not(c), NULL);
	c->depth--;
	return n;
}

static struct node *parse_and(struct compiler *c)
{
	struct node *a = parse_not(c);
	while (take_word(c, "and"))
		a = binary(c, N_BINARY, OP_AND, a, parse_not(c));
	return a;
}

static struct node *parse_or(struct compiler *c)
{
	struct node *a = parse_and(c);
	while (take_word(c, "or"))
		a = binary(c, N_BINARY, OP_OR, a, parse_and(c));
	return a;
}

static struct node *parse_expr(struct compiler *c)
{
	deeper(c);
	struct node *a = parse_or(c);
	while (take_word(c, "if")) {
		struct node *n = make(c, N_COND);
		n->b = a;
		n->a = parse_or(c);
		n->c = take_word(c, "else") ? parse_expr(c) : NULL;
		a = n;
	}
	c->depth--;
	return a;
}

// "a, b, c" without brackets is a tuple.
static struct node *parse_tuple(struct compiler *c)
{
	struct node *first = parse_expr(c);
	if (!is_op(c, ","))
		return first;
	struct node *n = make(c, N_TUPLE), **at = &first->next;
	n->kids = first;
	while (take_op(c, ",") && peek(c)->kind != TOK_BLOCK_END && peek(c)->kind != TOK_PRINT_END) {
		*at = parse_expr(c);
		at = &(*at)->next;
	}
	return n;
}

// --- statements

static void end_tag(struct compiler *c)
{
	if (take(c)->kind != TOK_BLOCK_END) {
		c->at--;
		unexpected(c, "the end of the tag");
	}
}

static void close_tag(struct compiler *c, const char *word)
{
	take(c); // the block mark; parse_body stopped at one of its ends
	if (!take_word(c, word))
		unexpected(c, word);
	end_tag(c);
}

static struct node *parse_if(struct compiler *c)
{
	static const char *const ends[] = {"elif", "else", "endif", NULL};
	struct node *n = make(c, N_IF);
	n->a = parse_tuple(c);
	end_tag(c);
	n->b = parse_body(c, ends);
	take(c);
	if (take_word(c, "elif")) {
		deeper(c);
		n->c = parse_if(c);
		c->depth--;
		return n;
	}
	if (take_word(c, "else")) {
		static const char *const last[] = {"endif", NULL};
		end_tag(c);
		n->c = parse_body(c, last);
		take(c);
	}
	if (!take_word(c, "endif"))
		unexpected(c, "endif");
	end_tag(c);
	return n;
}

static struct node *parse_targets(struct compiler *c)
{
	bool parens = take_op(c, "(");
	struct node *first = NULL, **at = &first;
	do {
		if (is_op(c, ")") || is(peek(c), TOK_NAME, "in"))
			break;
		*at = make(c, N_NAME);
		set_name(c, *at);
		at = &(*at)->next;
	} while (take_op(c, ","));
	if (parens)
		want_op(c, ")");
	return first;
}

static struct node *parse_for(struct compiler *c)
{
	static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
	struct node *n = make(c, N_FOR);
	n->kids = parse_targets(c);
	if (!n->kids)
		unexpected(c, "a name");
	if (!take_word(c, "in"))
		unexpected(c, "in");
	n->a = parse_or(c);
	if (is_op(c, ",")) {
		struct node *t = make(c, N_TUPLE), **at = &n->a->next;
		t->kids = n->a;
		while (take_op(c, ",")) {
			*at = parse_or(c);
			at = &(*at)->next;
		}
		n->a = t;
	}
	if (take_word(c, "if"))
		n->d = parse_expr(c);
	n->flag = take_word(c, "recursive");
	end_tag(c);
	n->b = parse_body(c, ends);
	take(c);
	if (take_word(c, "else")) {
		end_tag(c);
		n->c = parse_body(c, last);
		take(c);
	}
	if (!take_word(c, "endfor"))
		unexpected(c, "endfor");
	end_tag(c);
	return n;
}

static struct node *parse_set(struct compiler *c)
{
	static const char *const ends[] = {"endset", NULL};
	struct node *n = make(c, N_SET), *target = parse_targets(c);
	n->kids = target;
	if (take_op(c, ".")) { // ns.x: the attribute's name is kept in the set itself
		set_name(c, n);
	}
	if (take_op(c, "=")) {
		n->a = parse_tuple(c);
		end_tag(c);
		return n;
	}
	n->kind = N_SET_BLOCK;
	if (take_op(c, "|"))
		n->a = parse_filters(c, parse_filter(c, NULL));
	end_tag(c);
	n->b = parse_body(c, ends);
	close_tag(c, "endset");
	return n;
}

// The parameters of a macro or of a call block, up to the bracket that closes them.
static void parse_parameters(struct compiler *c, struct node *n)
{
	struct node **at = &n->kids;
	while (!take_op(c, ")")) {
		struct node *p = make(c, N_NAME);
		set_name(c, p);
		if (take_op(c, "="))
			p->value = parse_expr(c);
		*at = p;
		at = &p->next;
		if (take_op(c, ")"))
			break;
		want_op(c, ",");
	}
}

// The body, with a note of whether it takes what no parameter takes.
static void parse_macro_body(struct compiler *c, struct node *n, const char *const *ends)
{
	bool varargs = c->varargs, kwargs = c->kwargs;
	c->varargs = c->kwargs = false;
	n->b = parse_body(c, ends);
	n->flag = c->varargs;
	n->keywords = c->kwargs;
	c->varargs = varargs;
	c->kwargs = kwargs;
}

static struct node *parse_macro(struct compiler *c)
{
	static const char *const ends[] = {"endmacro", NULL};
	struct node *n = make(c, N_MACRO);
	set_name(c, n);
	want_op(c, "(");
	parse_parameters(c, n);
	end_tag(c);
	parse_macro_body(c, n, ends);
	close_tag(c, "endmacro");
	return n;
}
// {% call macro(…) %} body {% endcall %}: the body is what caller() gives.
static struct node *parse_call(struct compiler *c)
{
	static const char *const ends[] = {"endcall", NULL};
	struct node *n = make(c, N_CALL_BLOCK);
	n->name = "caller";
	n->n_name = 6;
	if (take_op(c, "("))
		parse_parameters(c, n);
	n->a = parse_expr(c);
	if (n->a->kind != N_CALL)
		unexpected(c, "a call");
	end_tag(c);
	parse_macro_body(c, n, ends);
	close_tag(c, "endcall");
	return n;
}

static struct node *parse_filter_block(struct compiler *c)
{
	static const char *const ends[] = {"endfilter", NULL};
	struct node *n = make(c, N_FILTER_BLOCK);
	n->a = parse_filters(c, parse_filter(c, NULL));
	end_tag(c);
	n->b = parse_body(c, ends);
	close_tag(c, "endfilter");
	return n;
}

static struct node *parse_scope(struct compiler *c, const char *word)
{
	const char *ends[] = {word, NULL};
	struct node *n = make(c, N_SCOPE);
	end_tag(c);
	n->b = parse_body(c, ends);
	close_tag(c, word);
	return n;
}

static struct node *parse_statement(struct compiler *c)
{
	struct node *n;
	if (take_word(c, "if"))
		return parse_if(c);
	if (take_word(c, "for"))
		return parse_for(c);
	if (take_word(c, "set"))
		return parse_set(c);
	if (take_word(c, "macro"))
		return parse_macro(c);
	if (take_word(c, "call"))
		return parse_call(c);
	if (take_word(c, "filter"))
		return parse_filter_block(c);
	if (take_word(c, "generation"))
		return parse_scope(c, "endgeneration");
	bool is_break = is(peek(c), TOK_NAME, "break");
	if (take_word(c, "break") || take_word(c, "continue")) {
		n = make(c, is_break ? N_BREAK : N_CONTINUE);
		end_tag(c);
		return n;
	}
	unexpected(c, "a known tag");
}

// Nodes up to a block tag that begins with one of `ends` (left unread), or to the end of the template where ends is
// NULL.
static struct node *parse_body(struct compiler *c, const char *const *ends)
{
	struct node *first = NULL, **at = &first;
	deeper(c);
	for (;;) {
		struct token *t = peek(c);
		if (t->kind == TOK_EOF) {
			if (ends)
				unexpected(c, ends[0]);
			break;
		}
		if (t->kind == TOK_TEXT) {
			*at = make(c, N_TEXT);
			(*at)->tok = *take(c);
		} else if (t->kind == TOK_PRINT) {
			*at = make(c, N_PRINT);
			take(c);
			(*at)->a = parse_tuple(c);
			if (take(c)->kind != TOK_PRINT_END) {
				c->at--;
				unexpected(c, "}}");
			}
		} else {
			bool stop = false;
			for (size_t i = 0; ends && ends[i]; i++)
				stop |= is(t + 1, TOK_NAME, ends[i]);
			if (stop)
				break;
			take(c);
			*at = parse_statement(c);
		}
		at = &(*at)->next;
	}
	c->depth--;
	return first;
}

struct node *jinja__parse(struct compiler *c)
{
	return parse_body(c, NULL);
}
