// SPDX-License-Identifier: Apache-2.0
#include "server/json_in.h"

#include <stdbool.h>

// One pass over the bytes, outside of strings. Whether they are JSON at all is the parser's question.
static int check_shape(const char *data, size_t n, int max_depth, size_t max_values, struct api_error *err)
{
	bool in_string = false;
	int depth = 0;
	size_t values = 0;
	for (size_t i = 0; i < n; i++) {
		char c = data[i];
		if (in_string) {
			i += c == '\\';
			in_string = c != '"';
			continue;
		}
		in_string = c == '"';
		if (c == '[' || c == '{') {
			values++;
			if (++depth > max_depth)
				return api_error_set(err, 400, NULL, "the JSON is nested deeper than %d levels", max_depth);
		} else if (c == ']' || c == '}') {
			depth--;
		} else if (c == ',') {
			values++;
		}
	}
	if (values > max_values)
		return api_error_set(err, 400, NULL, "the JSON has more than %zu values", max_values);
	return 0;
}

static const char *reason(enum json_error_code code)
{
	switch (code) {
	case json_error_invalid_utf8:
		return "invalid UTF-8";
	case json_error_premature_end_of_input:
		return "it ends too early";
	case json_error_end_of_input_expected:
		return "something follows its end";
	case json_error_null_character:
	case json_error_null_byte_in_key:
		return "a NUL character";
	case json_error_numeric_overflow:
		return "a number that is too large";
	default:
		return "a syntax error";
	}
}

json_t *json_in_parse(const char *data, size_t n, int max_depth, size_t max_values, struct api_error *err)
{
	json_error_t why;
	if (check_shape(data, n, max_depth, max_values, err))
		return NULL;
	json_t *root = json_loadb(data, n, 0, &why);
	if (!root)
		api_error_set(err, 400, NULL, "the body is not valid JSON: %s at line %d, column %d",
					  reason(json_error_code(&why)), why.line, why.column);
	return root;
}
