// SPDX-License-Identifier: Apache-2.0
//
// What may follow `is`.
#include "engine/text/jinja/jinja_internal.h"

#include "engine/base/err.h"

#include <ctype.h>
#include <string.h>

static bool is_number(struct value v)
{
	return v.type == V_INT || v.type == V_FLOAT || v.type == V_BOOL;
}

static bool cased(struct value v, bool upper)
{
	bool seen = false;
	for (size_t i = 0; v.type == V_STRING && i < v.s.n; i++) {
		unsigned char c = (unsigned char)v.s.s[i];
		if (upper ? islower(c) : isupper(c))
			return false;
		seen |= isalpha(c) != 0;
	}
	return seen;
}

bool jinja__test(struct render *r, const char *name, size_t n, struct value v, struct args *a)
{
	struct value none = {.type = V_NONE}, arg = args_get(a, 0, NULL, none);
	static const struct {
		const char *name;
		int what; // a relation to the argument
	} relations[] = {{"eq", 0},		  {"equalto", 0}, {"==", 0}, {"ne", 1}, {"!=", 1},	   {"lt", 2},
					 {"lessthan", 2}, {"<", 2},		  {"le", 3}, {"<=", 3}, {"gt", 4},	   {"greaterthan", 4},
					 {">", 4},		  {"ge", 5},	  {">=", 5}, {"in", 6}, {"sameas", 7}, {"divisibleby", 8}};
	if (name_is(name, n, "defined"))
		return v.type != V_UNDEFINED;
	if (name_is(name, n, "undefined"))
		return v.type == V_UNDEFINED;
	if (name_is(name, n, "none"))
		return v.type == V_NONE;
	if (name_is(name, n, "string"))
		return v.type == V_STRING;
	if (name_is(name, n, "mapping"))
		return v.type == V_DICT;
	if (name_is(name, n, "sequence"))
		return v.type == V_LIST || v.type == V_TUPLE || v.type == V_STRING || v.type == V_DICT || v.type == V_UNDEFINED;
	if (name_is(name, n, "iterable"))
		return v.type == V_LIST || v.type == V_TUPLE || v.type == V_STRING || v.type == V_DICT || v.type == V_UNDEFINED;
	if (name_is(name, n, "boolean"))
		return v.type == V_BOOL;
	if (name_is(name, n, "true"))
		return v.type == V_BOOL && v.b;
	if (name_is(name, n, "false"))
		return v.type == V_BOOL && !v.b;
	if (name_is(name, n, "integer"))
		return v.type == V_INT;
	if (name_is(name, n, "float"))
		return v.type == V_FLOAT;
	if (name_is(name, n, "number"))
		return is_number(v);
	if (name_is(name, n, "callable"))
		return v.type == V_MACRO || v.type == V_BUILTIN || v.type == V_METHOD;
	if (name_is(name, n, "odd") || name_is(name, n, "even"))
		return (v_int(r, v, "an operand of odd and even") & 1) == (name[0] == 'o');
	if (name_is(name, n, "upper") || name_is(name, n, "lower"))
		return cased(v, name[0] == 'u');
	for (size_t i = 0; i < sizeof relations / sizeof relations[0]; i++) {
		if (!name_is(name, n, relations[i].name))
			continue;
		switch (relations[i].what) {
		case 0:
			return v_equal(r, v, arg);
		case 1:
			return !v_equal(r, v, arg);
		case 2:
			return v_order(r, v, arg) < 0;
		case 3:
			return v_order(r, v, arg) <= 0;
		case 4:
			return v_order(r, v, arg) > 0;
		case 5:
			return v_order(r, v, arg) >= 0;
		case 6:
			return v_in(r, v, arg);
		case 7:
			return v.type == arg.type && v_equal(r, v, arg);
		default:
			if (!v_int(r, arg, "a divisor"))
				jinja__error(r, ERR_INVALID, "division by zero");
			return v_int(r, v, "a dividend") % v_int(r, arg, "a divisor") == 0;
		}
	}
	jinja__error(r, ERR_INVALID, "No test named '%.*s'.", (int)(n < 60 ? n : 60), name);
}
