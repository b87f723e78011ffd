// SPDX-License-Identifier: Apache-2.0
//
// Jinja2 as chat templates use it, sandboxed: no I/O, no attribute access but the listed methods, hard limits on steps,
// depth, output and memory. Environment as in Hugging Face transformers: trim_blocks, lstrip_blocks, loop controls,
// {% generation %} transparent, raise_exception, strftime_now, namespace, dict, range, tojson without HTML escaping.
// Strings remember which of their bytes came from the variables (taint), through concatenation, slicing and filters, so that
// the tokenizer never takes a user's text for a control token.
// A compiled template is immutable: any thread may render it.
#ifndef QUIRE_TEXT_JINJA_H
#define QUIRE_TEXT_JINJA_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jinja_template;

struct jinja_limits {
	size_t max_source;  // bytes of template source
	size_t max_steps;   // nodes evaluated and characters of string work, in units of about 10 ns
	size_t max_depth;   // nesting of expressions, calls and blocks
	size_t max_output;  // bytes
	size_t max_memory;  // bytes of values alive during a render
};
extern const struct jinja_limits jinja_default_limits; // 1 MiB, 20 M steps, 128, 64 MiB, 256 MiB

struct jinja_output {
	struct buf text;
	struct buf taint; // as long as text: 1 where the byte came from the variables, 0 where the template wrote it
};
void jinja_output_init(struct jinja_output *o);
void jinja_output_deinit(struct jinja_output *o);

// err says line and reason. NULL limits: the defaults.
int jinja_compile(const char *source, size_t n, const struct jinja_limits *limits, struct jinja_template **out, char *err,
                  size_t len);
void jinja_destroy(struct jinja_template *t);

// Renders with the members of the object vars as variables; a string member's text is tainted unless its key is in `trusted`
// (NULL-terminated list, such as bos_token). now is the time that strftime_now sees, in seconds since 1970, local time.
// ERR_INVALID: the template raised an error; *raised (if not NULL) is true when it was its own raise_exception, and err then
// holds exactly its message. ERR_LIMIT: a limit was hit, err says which.
int jinja_render(const struct jinja_template *t, const json_t *vars, const char *const *trusted, int64_t now,
                 struct jinja_output *out, bool *raised, char *err, size_t len);

// True if the source names this variable or member anywhere (whether "tools" is used, say).
bool jinja_mentions(const struct jinja_template *t, const char *name);

#endif
