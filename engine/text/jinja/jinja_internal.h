// SPDX-License-Identifier: Apache-2.0
//
// Inside the template engine: tokens (lexer.c) become a tree (parser.c), which eval.c walks; values and their operations
// are value.c, what templates call is filters.c, tests.c and methods.c. A tree lives in its template's arena and never changes; everything
// of a render lives in the render's arena.
#ifndef QUIRE_TEXT_JINJA_INTERNAL_H
#define QUIRE_TEXT_JINJA_INTERNAL_H

#include "engine/base/arena.h"
#include "engine/text/jinja/jinja.h"

#include <setjmp.h>

// --- tokens

enum token_kind { TOK_TEXT, TOK_BLOCK, TOK_BLOCK_END, TOK_PRINT, TOK_PRINT_END, TOK_NAME, TOK_STRING, TOK_INT, TOK_FLOAT, TOK_OP, TOK_EOF };

struct token {
	enum token_kind kind;
	const char *s; // of strings and text: already decoded, in the template's arena
	size_t n;
	int line;
	int64_t i;
	double f;
};

struct compiler { // of one compilation
	struct arena *arena;
	const struct jinja_limits *limits;
	struct token *tokens;
	size_t n_tokens, at;
	size_t depth;
	bool varargs, kwargs; // named in the macro being parsed
	char *err;
	size_t len;
	jmp_buf fail;
	int rc;
};
_Noreturn void jinja__syntax(struct compiler *c, int line, int rc, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void *jinja__alloc(struct compiler *c, size_t n); // zeroed
void jinja__lex(struct compiler *c, const char *source, size_t n);

// --- the tree

enum node_kind {
	N_TEXT, N_PRINT, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_MACRO, N_BREAK, N_CONTINUE, N_SCOPE, N_CALL_BLOCK, N_FILTER_BLOCK,
	N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_UNARY, N_BINARY, N_COMPARE, N_COND, N_ATTR, N_INDEX, N_SLICE, N_CALL, N_FILTER, N_TEST,
};

enum op { OP_OR, OP_AND, OP_NOT, OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW, OP_CONCAT, OP_NEG, OP_POS, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOT_IN };

struct node {
	enum node_kind kind;
	int line;
	enum op op;            // N_UNARY, N_BINARY, N_COMPARE (a chain: see next)
	bool flag;             // N_TEST: negated; N_FOR: recursive; N_MACRO: takes varargs
	bool keywords;         // N_MACRO: takes kwargs
	const char *name;      // N_NAME, N_ATTR, N_FILTER, N_TEST, N_MACRO, N_SET
	size_t n_name;
	struct node *a, *b, *c; // operands; N_IF: condition, then, else; N_FOR: iterable, body, else
	struct node *d;         // N_FOR: filter; N_SLICE: step
	struct node *kids;      // list of children, linked by next: bodies, elements, arguments, targets
	struct node *next;
	struct node *value;     // of a keyword argument (name is its key), of a dict entry (a is its key)
	struct token tok;       // N_CONST, N_TEXT
};
struct node *jinja__parse(struct compiler *c);

struct jinja_template {
	struct arena arena;
	struct jinja_limits limits;
	char *source;
	size_t n;
	struct node *root;
};

// --- values

enum vtype { V_UNDEFINED, V_NONE, V_BOOL, V_INT, V_FLOAT, V_STRING, V_LIST, V_TUPLE, V_DICT, V_NAMESPACE, V_MACRO, V_BUILTIN, V_METHOD, V_LOOP };

struct str {
	const char *s, *taint; // n bytes each
	size_t n;
};
struct value;
struct list_value {
	struct value *v;
	size_t n, cap;
};
struct entry;
struct dict_value {
	struct entry *e; // in order
	size_t n, cap;
};
struct value {
	enum vtype type;
	union {
		bool b;
		int64_t i;
		double f;
		struct str s;
		struct list_value *l;
		struct dict_value *d;
		struct closure *macro;
		struct method *m;
		const char *name; // V_UNDEFINED: what was asked for; V_BUILTIN
	};
};
struct entry {
	struct value k, v;
};
struct closure { // a macro, or the body of a call block, with the variables around it
	const struct node *n;
	struct scope *scope;
};
struct method {
	struct value self;
	const char *name;
	size_t n_name;
};

struct args {
	struct value *pos;
	size_t n_pos;
	struct entry *named;
	size_t n_named;
};

struct scope {
	struct dict_value vars;
	struct scope *up; // assignments stop here, look-ups go on
};

struct render {
	const struct jinja_template *t;
	struct arena arena;
	size_t steps, depth;
	int64_t now;
	struct jinja_output *out;
	struct scope *scope;
	enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;
	const struct node *at; // for the line of a message
	bool raised;
	char *err;
	size_t len;
	int rc;
	jmp_buf fail;
};

_Noreturn void jinja__error(struct render *r, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void jinja__raise(struct render *r, struct str message); // raise_exception: the message as it is
void *jinja__get(struct render *r, size_t n); // of the render's memory; ends the render at the limit
void jinja__step(struct render *r, size_t n);
void jinja__enter(struct render *r); // one level deeper; jinja__leave on every way out
void jinja__leave(struct render *r);

// value.c
struct value v_str(const char *s, size_t n); // untainted, not copied
struct value v_text(struct render *r, const char *s, size_t n, bool tainted); // copied
struct value v_cat(struct render *r, struct str a, struct str b);
struct str v_sub(struct str s, size_t from, size_t n);
struct value v_list(struct render *r, enum vtype type);
void v_push(struct render *r, struct list_value *l, struct value v);
struct value v_dict(struct render *r);
struct value *v_find(struct render *r, const struct dict_value *d, struct value key);
void v_put(struct render *r, struct dict_value *d, struct value key, struct value v);
bool v_truth(struct value v);
bool v_equal(struct render *r, struct value a, struct value b);
int v_order(struct render *r, struct value a, struct value b);
bool v_in(struct render *r, struct value item, struct value box);
struct str v_print(struct render *r, struct value v); // as {{ }} prints it
struct json_form {
	int indent; // < 0: on one line
	bool ascii, sort;
	struct str item, key; // separators
};
struct str v_json(struct render *r, struct value v, const struct json_form *form);
size_t v_length(struct render *r, struct value v);
struct value v_items(struct render *r, struct value v); // what a for loop walks
struct value v_from_json(struct render *r, const json_t *j, bool tainted);
const char *v_type_name(struct value v);
int64_t v_int(struct render *r, struct value v, const char *what);

// A growing string of a render.
struct text {
	char *s, *taint;
	size_t n, cap;
};
void t_add(struct render *r, struct text *t, struct str s);
void t_puts(struct render *r, struct text *t, const char *s);
struct str t_str(const struct text *t);

// filters.c, tests.c, methods.c, eval.c
struct value jinja__filter(struct render *r, const char *name, size_t n, struct value v, struct args *a);
bool jinja__test(struct render *r, const char *name, size_t n, struct value v, struct args *a);
struct value jinja__method(struct render *r, struct method *m, struct args *a);
struct value jinja__str_format(struct render *r, struct str s, struct args *a); // format.c
struct str v_repr(struct render *r, struct value v); // as Python's repr prints it
bool jinja__has_method(struct value v, const char *name, size_t n);
struct value jinja__builtin(struct render *r, const char *name, struct args *a);
bool jinja__is_builtin(const char *name, size_t n, const char **kept);
struct value jinja__attr(struct render *r, struct value v, const char *name, size_t n);
struct value jinja__index(struct render *r, struct value v, struct value key);
struct value jinja__eval(struct render *r, const struct node *n);
void jinja__exec(struct render *r, const struct node *list);
struct value args_get(struct args *a, size_t i, const char *name, struct value otherwise);
bool name_is(const char *s, size_t n, const char *word);

#endif
