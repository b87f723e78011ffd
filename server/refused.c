// SPDX-License-Identifier: Apache-2.0
#include "server/refused.h"

#include "engine/base/err.h"
#include "server/params.h"

#include <string.h>

#define BOTH (PARAMS_CHAT | PARAMS_COMPLETION)

static const char NO_GRAMMAR[] = "structured output is not supported by this version";

static const struct refused {
	const char *name;
	unsigned routes;
	const char *advice;
} REFUSED[] = {
	{"json_schema", BOTH, NO_GRAMMAR},
	{"grammar", BOTH, NO_GRAMMAR},
	{"guided_json", BOTH, NO_GRAMMAR},
	{"guided_regex", BOTH, NO_GRAMMAR},
	{"guided_choice", BOTH, NO_GRAMMAR},
	{"guided_grammar", BOTH, NO_GRAMMAR},
	{"structured_outputs", BOTH, NO_GRAMMAR},
	{"functions", PARAMS_CHAT, "function calls are not supported by this version"},
	{"audio", PARAMS_CHAT, "this server answers in text"},
	{"web_search_options", PARAMS_CHAT, "this server has no web search"},
	{"echo", PARAMS_CHAT, "only /v1/completions echoes its prompt"},
	{"suffix", PARAMS_COMPLETION, "the model is not prompted for text between prefix and suffix"},
	{"logits_processors", BOTH, "'logit_bias' and the sampling fields work"},
	{"allowed_token_ids", BOTH, "'logit_bias' works"},
	{"bad_words", BOTH, "'logit_bias' works"},
	{"use_beam_search", BOTH, "sampling works"},
	{"truncate_prompt_tokens", BOTH, "shorten the prompt"},
	{"prompt_embeds", BOTH, "text and token ids work"},
	{"lora", BOTH, "no adapters are loaded"},
};

// A value by which nothing is asked for.
static bool is_empty(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_NULL:
	case JSON_FALSE:
		return true;
	case JSON_STRING:
		return json_string_length(v) == 0;
	case JSON_ARRAY:
		return json_array_size(v) == 0;
	case JSON_OBJECT:
		return json_object_size(v) == 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(v) == 0;
	case JSON_TRUE:
		break;
	}
	return false;
}

static const json_t *given(const json_t *body, const char *name)
{
	const json_t *v = json_object_get(body, name);
	return v && !is_empty(v) ? v : NULL;
}

static int check_response_format(const json_t *body, struct api_error *err)
{
	const json_t *v = given(body, "response_format");
	if (!v)
		return 0;
	const char *type = json_string_value(json_object_get(v, "type"));
	if (!json_is_object(v) || !type)
		return api_error_set(err, 400, "response_format", "'response_format' must be an object with a string 'type'");
	if (strcmp(type, "text") == 0)
		return 0;
	return api_error_set(err, 400, "response_format", "'response_format' works only with the type \"text\": %s",
						 NO_GRAMMAR);
}

// Tools that the model must not call need no support: the reply is plain text.
static int check_tools(const json_t *body, struct api_error *err)
{
	const json_t *choice = json_object_get(body, "tool_choice"), *tools = given(body, "tools");
	const char *word = json_string_value(choice);
	if (choice && !json_is_null(choice)) {
		bool known = word && (!strcmp(word, "none") || !strcmp(word, "auto"));
		if (!known)
			return api_error_set(err, 400, "tool_choice",
								 "'tool_choice' works only as \"none\" or \"auto\": tool calls "
								 "are not supported by this version");
	}
	if (tools && !(word && !strcmp(word, "none")))
		return api_error_set(err, 400, "tools",
							 "'tools' works only with 'tool_choice': \"none\": tool calls are not "
							 "supported by this version");
	return 0;
}

static int check_function_call(const json_t *body, struct api_error *err)
{
	const json_t *v = given(body, "function_call");
	const char *word = json_string_value(v);
	if (!v || (word && (!strcmp(word, "none") || !strcmp(word, "auto"))))
		return 0;
	return api_error_set(err, 400, "function_call", "'function_call' works only as \"none\" or \"auto\"");
}

static int check_modalities(const json_t *body, struct api_error *err)
{
	const json_t *v = given(body, "modalities");
	if (!v)
		return 0;
	for (size_t i = 0; i < json_array_size(v); i++) {
		const char *word = json_string_value(json_array_get(v, i));
		if (!word || strcmp(word, "text") != 0)
			return api_error_set(err, 400, "modalities", "'modalities' works only as [\"text\"]");
	}
	return json_is_array(v) ? 0 : api_error_set(err, 400, "modalities", "'modalities' works only as [\"text\"]");
}

int refused_check(unsigned route, const json_t *body, struct api_error *err)
{
	for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
		const struct refused *f = &REFUSED[i];
		if ((f->routes & route) && given(body, f->name))
			return api_error_set(err, 400, f->name, "'%s' is not supported: %s", f->name, f->advice);
	}
	if (check_response_format(body, err))
		return ERR_INVALID;
	if (route != PARAMS_CHAT)
		return 0;
	if (check_tools(body, err) || check_function_call(body, err) || check_modalities(body, err))
		return ERR_INVALID;
	return 0;
}
