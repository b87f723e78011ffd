// SPDX-License-Identifier: Apache-2.0
//
// Messages to prompt text by the model's own template, with what transformers does around it: null members dropped,
// reasoning_content copied, `tools` and `documents` null when absent, special tokens as variables, continue_final_message.
// A model without a template gets the known format of its marker tokens (ChatML, Gemma, Llama 2/3, Mistral), else ChatML.
// Immutable after create; any thread may render.
#ifndef QUIRE_TEXT_CHAT_TEMPLATE_H
#define QUIRE_TEXT_CHAT_TEMPLATE_H

#include "engine/text/jinja/jinja.h"

struct chat_template;
struct tokenizer;

struct chat_request { // all borrowed; NULL where absent
	const json_t *messages;  // array of objects, validated by the caller
	const json_t *tools;     // array
	const json_t *documents; // array
	const json_t *kwargs;    // object: extra template variables; wins over everything but messages
	bool add_generation_prompt;
	bool continue_final_message;
};

// source NULL: the fallback by marker tokens. *note (static string) says which one serves, for the start-up report.
// A template that cannot be compiled is ERR_INVALID with line and reason.
int chat_template_create(const char *source, size_t n, const struct tokenizer *tok, struct chat_template **out,
                         const char **note, char *err, size_t len);
void chat_template_destroy(struct chat_template *t);

// Renders into out (initialised by the caller). ERR_INVALID: the template's own message (raise_exception) or what is wrong
// with the request, fit for a 400. Lists of text parts are passed as lists where the template handles lists, else joined
// with a newline. now: seconds since 1970, for templates that write the date.
int chat_template_render(const struct chat_template *t, const struct chat_request *r, int64_t now,
                         struct jinja_output *out, char *err, size_t len);

// True if the template looks at this variable.
bool chat_template_uses(const struct chat_template *t, const char *name);

#endif
