// SPDX-License-Identifier: Apache-2.0
//
// The messages of a chat request, checked and brought into the one form that templates understand: known roles, content
// a string or a list of text parts, arguments of calls as objects.
#include "server/chat.h"

#include "engine/base/err.h"
#include "server/json_in.h"

#include <stdio.h>
#include <string.h>

struct place { // where in the request we are, for messages to people
	char name[48];
	struct api_error *err;
};

static const struct role {
	const char *name, *as;
} ROLES[] = {
	{"system", "system"},		{"developer", "developer"}, {"user", "user"},
	{"assistant", "assistant"}, {"tool", "tool"},			{"function", "tool"},
};

static const char *known_role(const char *name)
{
	for (size_t i = 0; name && i < sizeof ROLES / sizeof ROLES[0]; i++)
		if (strcmp(ROLES[i].name, name) == 0)
			return ROLES[i].as;
	return NULL;
}

// A text part; an assistant's refusal counts as one. New reference.
static json_t *text_part(const json_t *part, struct place *at)
{
	const char *type = json_string_value(json_object_get(part, "type"));
	const json_t *text = json_object_get(part, "text");
	if (type && strcmp(type, "refusal") == 0)
		text = json_object_get(part, "refusal");
	else if (!type || strcmp(type, "text") != 0)
		text = NULL;
	if (json_is_string(text))
		return json_pack("{s:s, s:O}", "type", "text", "text", text);
	static const char *const KNOWN[] = {"image_url", "input_audio", "file", "video_url", "audio_url"};
	for (size_t i = 0; type && i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
		if (strcmp(type, KNOWN[i]) == 0) {
			api_error_set(at->err, 400, at->name, "%s has a part of type \"%s\": this model takes only \"text\"",
						  at->name, KNOWN[i]);
			return NULL;
		}
	}
	api_error_set(at->err, 400, at->name,
				  "every part of %s must be an object with \"type\": \"text\" and a string 'text'", at->name);
	return NULL;
}

static json_t *content_parts(const json_t *list, struct place *at)
{
	if (!json_array_size(list))
		return json_string("");
	json_t *parts = json_array();
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *part = text_part(json_array_get(list, i), at);
		if (!part || json_array_append_new(parts, part)) {
			json_decref(parts);
			return NULL;
		}
	}
	return parts;
}

// New reference. Thinking-only turns and calls have no content: "".
static json_t *message_content(const json_t *message, const char *role, struct place *at)
{
	const json_t *content = json_object_get(message, "content");
	bool may_lack = strcmp(role, "assistant") == 0 || strcmp(role, "tool") == 0;
	if (json_is_string(content))
		return json_incref((json_t *)content);
	if (json_is_array(content))
		return content_parts(content, at);
	if ((!content || json_is_null(content)) && may_lack)
		return json_string("");
	api_error_set(at->err, 400, at->name, "%s must be a string or an array of text parts", at->name);
	return NULL;
}

// Templates want the arguments of a call as an object; the API has them as a string.
static json_t *parse_arguments(const json_t *arguments, const struct limits *l)
{
	struct api_error ignored = {0};
	if (!json_is_string(arguments))
		return NULL;
	json_t *v = json_in_parse(json_string_value(arguments), json_string_length(arguments), l->json_depth,
							  l->json_values, &ignored);
	if (json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

// Replaces the arguments inside a copy of tool_calls. New reference.
static json_t *tool_calls(const json_t *calls, const struct limits *l, struct place *at)
{
	json_t *out = json_array();
	for (size_t i = 0; i < json_array_size(calls); i++) {
		json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
		if (!json_is_string(json_object_get(function, "name"))) {
			api_error_set(at->err, 400, at->name,
						  "every call of %s must be an object with a 'function' that has a 'name'", at->name);
			json_decref(out);
			return NULL;
		}
		json_t *call_copy = json_copy(call), *function_copy = json_copy(function);
		json_t *arguments = parse_arguments(json_object_get(function, "arguments"), l);
		if (arguments)
			json_object_set_new(function_copy, "arguments", arguments);
		json_object_set_new(call_copy, "function", function_copy);
		json_array_append_new(out, call_copy);
	}
	return out;
}

static json_t *normalise(const json_t *message, size_t i, const struct limits *l, bool developer_known,
						 struct api_error *err)
{
	struct place at = {.err = err};
	const char *role = known_role(json_string_value(json_object_get(message, "role")));
	snprintf(at.name, sizeof at.name, "messages[%zu].role", i);
	if (!role) {
		api_error_set(err, 400, at.name, "%s must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"",
					  at.name);
		return NULL;
	}
	if (!developer_known && strcmp(role, "developer") == 0)
		role = "system";
	snprintf(at.name, sizeof at.name, "messages[%zu].content", i);
	json_t *content = message_content(message, role, &at);
	if (!content)
		return NULL;
	json_t *copy = json_copy((json_t *)message);
	json_object_set_new(copy, "role", json_string(role));
	json_object_set_new(copy, "content", content);
	const json_t *calls = json_object_get(message, "tool_calls");
	if (calls && !json_is_null(calls)) {
		snprintf(at.name, sizeof at.name, "messages[%zu].tool_calls", i);
		json_t *list = json_is_array(calls) ? tool_calls(calls, l, &at) : NULL;
		if (!list) {
			api_error_set(err, 400, at.name, "%s must be an array of calls", at.name);
			json_decref(copy);
			return NULL;
		}
		if (json_array_size(list))
			json_object_set_new(copy, "tool_calls", list);
		else {
			json_object_del(copy, "tool_calls");
			json_decref(list);
		}
	}
	return copy;
}

json_t *chat_messages(const json_t *messages, const struct limits *l, bool developer_known, struct api_error *err)
{
	size_t n = json_array_size(messages);
	if (!n) {
		api_error_set(err, 400, "messages", "'messages' must be an array of at least one message");
		return NULL;
	}
	if (n > (size_t)l->max_messages) {
		api_error_set(err, 400, "messages", "'messages' has %zu messages; at most %d work", n, l->max_messages);
		return NULL;
	}
	json_t *out = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *m = normalise(json_array_get(messages, i), i, l, developer_known, err);
		if (!m) {
			json_decref(out);
			return NULL;
		}
		json_array_append_new(out, m);
	}
	return out;
}
