// SPDX-License-Identifier: Apache-2.0
#include "server/params.h"

#include "engine/base/err.h"
#include "server/refused.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/random.h>

enum field_type {
	FIELD_FLOAT,
	FIELD_INT,	 // a whole number; past the range it is an error
	FIELD_CLAMP, // a whole number; past max it becomes max: clients send huge values where they mean "as much as there
				 // is"
	FIELD_BOOL,
	FIELD_NOT_BOOL, // stored negated
	FIELD_SPECIAL,	// read by a function
};

struct reader {
	const struct params_rules *rules;
	struct arena *arena;
	struct params *p;
	struct api_error *err;
};

typedef int field_fn(struct reader *r, const char *name, const json_t *v);

struct field {
	const char *name;
	unsigned routes;
	enum field_type type;
	size_t offset; // in struct params
	double min, max;
	field_fn *read;
};

static int read_number(struct reader *r, const char *name, const json_t *v, double *out)
{
	if (!json_is_number(v))
		return api_error_set(r->err, 400, name, "'%s' must be a number", name);
	*out = json_number_value(v);
	return 0;
}

static int read_whole(struct reader *r, const char *name, const json_t *v, double *out)
{
	if (!json_is_number(v) || json_number_value(v) != floor(json_number_value(v)))
		return api_error_set(r->err, 400, name, "'%s' must be a whole number", name);
	*out = json_number_value(v);
	return 0;
}

static int read_int(struct reader *r, const char *name, const json_t *v, int min, int max, int *out)
{
	double d = 0;
	if (read_whole(r, name, v, &d))
		return ERR_INVALID;
	if (d < min || d > max)
		return api_error_set(r->err, 400, name, "'%s' must be a whole number from %d to %d", name, min, max);
	*out = (int)d;
	return 0;
}

static void *alloc(struct reader *r, size_t n)
{
	void *p = arena_alloc(r->arena, n);
	if (!p)
		api_error_set(r->err, 400, NULL, "the request's parameters are too large together");
	return p;
}

// --- fields with rules of their own

static int read_seed(struct reader *r, const char *name, const json_t *v)
{
	double d = 0;
	if (read_whole(r, name, v, &d))
		return ERR_INVALID;
	if (!json_is_integer(v) && fabs(d) > 9007199254740992.0)
		return api_error_set(r->err, 400, name, "'%s' must be a whole number of 64 bits", name);
	int64_t seed = json_is_integer(v) ? json_integer_value(v) : (int64_t)d;
	if (seed != -1) // by habit of several clients, "draw one"
		r->p->sampling.seed = (uint64_t)seed;
	return 0;
}

static int read_top_k(struct reader *r, const char *name, const json_t *v)
{
	double d = 0;
	if (read_whole(r, name, v, &d))
		return ERR_INVALID;
	if (d < -1)
		return api_error_set(r->err, 400, name, "'%s' must be 0 or -1 (off) or at least 1", name);
	r->p->sampling.top_k = d <= 0 ? 0 : d > INT_MAX ? INT_MAX : (int)d;
	return 0;
}

static int read_penalty(struct reader *r, const char *name, const json_t *v)
{
	double d = 0;
	if (read_number(r, name, v, &d))
		return ERR_INVALID;
	if (!(d > 0 && d <= 10))
		return api_error_set(r->err, 400, name, "'%s' must be a number above 0, at most 10; 1 is off", name);
	r->p->sampling.repetition_penalty = (float)d;
	return 0;
}

static int read_max_tokens(struct reader *r, const char *name, const json_t *v)
{
	double d = 0;
	int min = r->rules->route == PARAMS_COMPLETION ? 0 : 1;
	if (read_whole(r, name, v, &d))
		return ERR_INVALID;
	if (d < min)
		return api_error_set(r->err, 400, name, "'%s' must be at least %d", name, min);
	r->p->sampling.max_tokens = d > INT_MAX ? INT_MAX : (int)d;
	return 0;
}

static int read_n_predict(struct reader *r, const char *name, const json_t *v)
{
	if (json_is_number(v) && json_number_value(v) < 0) { // there, no limit
		r->p->sampling.max_tokens = INT_MAX;
		return 0;
	}
	return read_max_tokens(r, name, v);
}

static int read_n(struct reader *r, const char *name, const json_t *v)
{
	return read_int(r, name, v, 1, r->rules->limits->max_n, &r->p->n);
}

static int add_stop(struct reader *r, const char *name, const json_t *v)
{
	if (!json_is_string(v))
		return api_error_set(r->err, 400, name, "'%s' must be a string or an array of strings", name);
	size_t n = json_string_length(v);
	if (!n)
		return 0;
	if (n > r->rules->limits->max_stop_bytes)
		return api_error_set(r->err, 400, name, "a string of '%s' has %zu bytes; at most %zu work", name, n,
							 r->rules->limits->max_stop_bytes);
	char *copy = arena_strndup(r->arena, json_string_value(v), n);
	if (!copy)
		return api_error_set(r->err, 400, name, "'%s' is too large", name);
	r->p->stops[r->p->n_stops] = copy;
	r->p->stop_lens[r->p->n_stops++] = n;
	return 0;
}

static int read_stop(struct reader *r, const char *name, const json_t *v)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;
	if (n > (size_t)r->rules->limits->max_stops)
		return api_error_set(r->err, 400, name, "'%s' has %zu strings; at most %d work", name, n,
							 r->rules->limits->max_stops);
	r->p->stops = alloc(r, n * sizeof *r->p->stops);
	r->p->stop_lens = alloc(r, n * sizeof *r->p->stop_lens);
	if (!r->p->stops || !r->p->stop_lens)
		return ERR_INVALID;
	r->p->n_stops = 0;
	if (!json_is_array(v))
		return add_stop(r, name, v);
	for (size_t i = 0; i < n; i++)
		if (add_stop(r, name, json_array_get(v, i)))
			return ERR_INVALID;
	return 0;
}

static int read_stop_ids(struct reader *r, const char *name, const json_t *v)
{
	if (!json_is_array(v))
		return api_error_set(r->err, 400, name, "'%s' must be an array of token ids", name);
	size_t n = json_array_size(v);
	if (n > (size_t)r->rules->limits->max_stop_ids)
		return api_error_set(r->err, 400, name, "'%s' has %zu ids; at most %d work", name, n,
							 r->rules->limits->max_stop_ids);
	int32_t *ids = alloc(r, n * sizeof *ids);
	if (!ids)
		return ERR_INVALID;
	for (size_t i = 0; i < n; i++)
		if (read_int(r, name, json_array_get(v, i), 0, r->rules->n_vocab - 1, &ids[i]))
			return ERR_INVALID;
	r->p->sampling.stop_ids = ids;
	r->p->sampling.n_stop_ids = n;
	return 0;
}

// A key of logit_bias: decimal digits only, inside the vocabulary; else -1.
static int32_t bias_id(const char *key, int n_vocab)
{
	int64_t id = 0;
	size_t n = strlen(key);
	if (!n || n > 10 || strspn(key, "0123456789") != n)
		return -1;
	for (size_t i = 0; i < n; i++)
		id = id * 10 + (key[i] - '0');
	return id < n_vocab ? (int32_t)id : -1;
}

static int read_bias(struct reader *r, const char *name, const json_t *v)
{
	if (!json_is_object(v))
		return api_error_set(r->err, 400, name, "'%s' must be an object of token id to bias", name);
	struct logit_bias *bias = alloc(r, json_object_size(v) * sizeof *bias);
	if (!bias)
		return ERR_INVALID;
	size_t n = 0;
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)v, key, value)
	{
		int32_t id = bias_id(key, r->rules->n_vocab);
		if (id < 0)
			return api_error_set(r->err, 400, name, "a key of '%s' is not a token id from 0 to %d", name,
								 r->rules->n_vocab - 1);
		double d = json_number_value(value);
		if (!json_is_number(value) || !(d >= -100 && d <= 100))
			return api_error_set(r->err, 400, name, "the bias of token %d in '%s' must be a number from -100 to 100",
								 (int)id, name);
		bias[n++] = (struct logit_bias){id, (float)d};
	}
	r->p->sampling.bias = bias;
	r->p->sampling.n_bias = n;
	return 0;
}

static int read_top_logprobs(struct reader *r, const char *name, const json_t *v)
{
	return read_int(r, name, v, 0, r->rules->limits->max_logprobs, &r->p->sampling.n_logprobs);
}

static int read_logprobs_count(struct reader *r, const char *name, const json_t *v)
{
	if (json_is_false(v)) // the chat field's way to say none
		return 0;
	r->p->logprobs = true;
	return read_int(r, name, v, 0, r->rules->limits->max_logprobs, &r->p->sampling.n_logprobs);
}

static int read_prompt_logprobs(struct reader *r, const char *name, const json_t *v)
{
	r->p->prompt_logprobs = true;
	return read_int(r, name, v, 0, r->rules->limits->max_logprobs, &r->p->sampling.n_prompt_logprobs);
}

static int read_stream_options(struct reader *r, const char *name, const json_t *v)
{
	if (!json_is_object(v))
		return api_error_set(r->err, 400, name, "'%s' must be an object", name);
	const json_t *usage = json_object_get(v, "include_usage");
	if (usage && !json_is_null(usage) && !json_is_boolean(usage))
		return api_error_set(r->err, 400, "stream_options.include_usage",
							 "'stream_options.include_usage' must be true or false");
	r->p->include_usage = json_is_true(usage);
	return 0;
}

static int read_cache_salt(struct reader *r, const char *name, const json_t *v)
{
	if (!json_is_string(v) || !json_string_length(v) || json_string_length(v) > 1024)
		return api_error_set(r->err, 400, name, "'%s' must be a string of 1 to 1024 bytes", name);
	r->p->cache_salt = arena_strndup(r->arena, json_string_value(v), json_string_length(v));
	return r->p->cache_salt ? 0 : api_error_set(r->err, 400, name, "'%s' is too large", name);
}

// --- the table. Of aliases the later line wins: the standard name stands last.

#define BOTH (PARAMS_CHAT | PARAMS_COMPLETION)
#define AT(member) offsetof(struct params, member)

static const struct field FIELDS[] = {
	{"n_predict", BOTH, FIELD_SPECIAL, 0, 0, 0, read_n_predict},
	{"max_tokens", BOTH, FIELD_SPECIAL, 0, 0, 0, read_max_tokens},
	{"max_completion_tokens", BOTH, FIELD_SPECIAL, 0, 0, 0, read_max_tokens},
	{"min_tokens", BOTH, FIELD_CLAMP, AT(sampling.min_tokens), 0, INT_MAX, NULL},
	{"temperature", BOTH, FIELD_FLOAT, AT(sampling.temperature), 0, 2, NULL},
	{"top_p", BOTH, FIELD_FLOAT, AT(sampling.top_p), 0, 1, NULL},
	{"min_p", BOTH, FIELD_FLOAT, AT(sampling.min_p), 0, 1, NULL},
	{"top_k", BOTH, FIELD_SPECIAL, 0, 0, 0, read_top_k},
	{"repeat_penalty", BOTH, FIELD_SPECIAL, 0, 0, 0, read_penalty},
	{"repetition_penalty", BOTH, FIELD_SPECIAL, 0, 0, 0, read_penalty},
	{"frequency_penalty", BOTH, FIELD_FLOAT, AT(sampling.frequency_penalty), -2, 2, NULL},
	{"presence_penalty", BOTH, FIELD_FLOAT, AT(sampling.presence_penalty), -2, 2, NULL},
	{"seed", BOTH, FIELD_SPECIAL, 0, 0, 0, read_seed},
	{"logit_bias", BOTH, FIELD_SPECIAL, 0, 0, 0, read_bias},
	{"n", BOTH, FIELD_SPECIAL, 0, 0, 0, read_n},
	{"best_of", PARAMS_COMPLETION, FIELD_CLAMP, AT(best_of), 0, INT_MAX, NULL},
	{"stop", BOTH, FIELD_SPECIAL, 0, 0, 0, read_stop},
	{"stop_token_ids", BOTH, FIELD_SPECIAL, 0, 0, 0, read_stop_ids},
	{"include_stop_str_in_output", BOTH, FIELD_BOOL, AT(include_stop), 0, 0, NULL},
	{"ignore_eos", BOTH, FIELD_BOOL, AT(sampling.ignore_eos), 0, 0, NULL},
	{"skip_special_tokens", BOTH, FIELD_NOT_BOOL, AT(keep_special), 0, 0, NULL},
	{"add_bos_token", PARAMS_COMPLETION, FIELD_BOOL, AT(add_special), 0, 0, NULL},
	{"add_special_tokens", BOTH, FIELD_BOOL, AT(add_special), 0, 0, NULL},
	{"stream", BOTH, FIELD_BOOL, AT(stream), 0, 0, NULL},
	{"stream_options", BOTH, FIELD_SPECIAL, 0, 0, 0, read_stream_options},
	{"echo", PARAMS_COMPLETION, FIELD_BOOL, AT(echo), 0, 0, NULL},
	{"logprobs", PARAMS_CHAT, FIELD_BOOL, AT(logprobs), 0, 0, NULL},
	{"top_logprobs", PARAMS_CHAT, FIELD_SPECIAL, 0, 0, 0, read_top_logprobs},
	{"logprobs", PARAMS_COMPLETION, FIELD_SPECIAL, 0, 0, 0, read_logprobs_count},
	{"prompt_logprobs", BOTH, FIELD_SPECIAL, 0, 0, 0, read_prompt_logprobs},
	{"return_token_ids", BOTH, FIELD_BOOL, AT(return_token_ids), 0, 0, NULL},
	{"cache_prompt", BOTH, FIELD_BOOL, AT(use_cache), 0, 0, NULL},
	{"cache_salt", BOTH, FIELD_SPECIAL, 0, 0, 0, read_cache_salt},
	{"priority", BOTH, FIELD_INT, AT(priority), -1000000, 1000000, NULL},
};

static int read_field(struct reader *r, const struct field *f, const json_t *v)
{
	char *at = (char *)r->p + f->offset;
	double d = 0;
	switch (f->type) {
	case FIELD_FLOAT:
		if (read_number(r, f->name, v, &d))
			return ERR_INVALID;
		if (!(d >= f->min && d <= f->max))
			return api_error_set(r->err, 400, f->name, "'%s' must be a number from %g to %g", f->name, f->min, f->max);
		*(float *)(void *)at = (float)d;
		return 0;
	case FIELD_INT:
		return read_int(r, f->name, v, (int)f->min, (int)f->max, (int *)(void *)at);
	case FIELD_CLAMP:
		if (read_whole(r, f->name, v, &d))
			return ERR_INVALID;
		if (d < f->min)
			return api_error_set(r->err, 400, f->name, "'%s' must be at least %g", f->name, f->min);
		*(int *)(void *)at = d > f->max ? (int)f->max : (int)d;
		return 0;
	case FIELD_BOOL:
	case FIELD_NOT_BOOL:
		if (!json_is_boolean(v))
			return api_error_set(r->err, 400, f->name, "'%s' must be true or false", f->name);
		*(bool *)at = json_is_true(v) == (f->type == FIELD_BOOL);
		return 0;
	case FIELD_SPECIAL:
		return f->read(r, f->name, v);
	}
	return 0;
}

// Rules between fields.
static int check_together(struct reader *r)
{
	struct params *p = r->p;
	struct sampling *s = &p->sampling;
	if (r->rules->route == PARAMS_CHAT) {
		if (s->n_logprobs > 0 && !p->logprobs)
			return api_error_set(r->err, 400, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
		s->n_logprobs = !p->logprobs ? SAMPLING_NO_LOGPROBS : s->n_logprobs < 0 ? 0 : s->n_logprobs;
	}
	if (p->best_of > 1 && p->best_of != p->n)
		return api_error_set(r->err, 400, "best_of", "'best_of' above 'n' is not supported; leave it out");
	if (p->prompt_logprobs && p->stream)
		return api_error_set(r->err, 400, "prompt_logprobs", "'prompt_logprobs' works only without 'stream'");
	if (p->echo && p->logprobs && s->n_prompt_logprobs < s->n_logprobs)
		s->n_prompt_logprobs = s->n_logprobs;
	p->include_usage = p->include_usage && p->stream;
	return 0;
}

static uint64_t fresh_seed(void)
{
	uint64_t seed = 0;
	ssize_t n = getrandom(&seed, sizeof seed, 0);
	CHECK(n == sizeof seed, "getrandom gave %zd", n);
	return seed;
}

int params_read(const struct params_rules *rules, const json_t *body, struct arena *arena, struct params *out,
				struct api_error *err)
{
	struct reader r = {rules, arena, out, err};
	*out = (struct params){.n = 1, .use_cache = true, .add_special = rules->route == PARAMS_COMPLETION};
	sampling_defaults(&out->sampling);
	out->sampling.seed = fresh_seed();
	out->sampling.n_logprobs = out->sampling.n_prompt_logprobs = SAMPLING_NO_LOGPROBS;
	out->sampling.max_tokens = rules->route == PARAMS_COMPLETION ? 16 : INT_MAX;
	if (refused_check(rules->route, body, err))
		return ERR_INVALID;
	for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
		const struct field *f = &FIELDS[i];
		const json_t *v = json_object_get(body, f->name);
		if (!(f->routes & rules->route) || !v || json_is_null(v))
			continue;
		if (read_field(&r, f, v))
			return ERR_INVALID;
	}
	return check_together(&r);
}

int params_read_bool(const json_t *body, const char *name, bool *out, struct api_error *err)
{
	const json_t *v = json_object_get(body, name);
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_boolean(v))
		return api_error_set(err, 400, name, "'%s' must be true or false", name);
	*out = json_is_true(v);
	return 0;
}
