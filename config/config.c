// SPDX-License-Identifier: Apache-2.0
//
// This file is the only one that looks at the environment.
#include "config/config.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { STRING, STRINGS, INTEGER, BYTES, DURATION, NUMBER, SWITCH };

struct option {
	const char *name;
	enum kind kind;
	size_t offset;
	const char *value; // default, as one would type it; NULL: none
	const char *what;  // the word after the option in --help
	const char *help;
	double min, max;   // of numbers; durations in seconds
};

#define AT(member) offsetof(struct config, member)
static const double NO_MAX = 9e15;

static const struct option options[] = {
    {"host", STRING, AT(host), "127.0.0.1", "ADDRESS", "address to listen on, or unix:/path", 0, 0},
    {"port", INTEGER, AT(port), "8000", "N", "port; 0 picks a free one", 0, 65535},
    {"served-model-name", STRINGS, AT(served_names), NULL, "NAME", "name that clients use; may repeat (default: the file's)", 0, 0},
    {"api-key", STRINGS, AT(api_keys), NULL, "KEY", "key that clients must send; may repeat", 0, 0},
    {"api-key-file", STRING, AT(api_key_file), NULL, "FILE", "file of keys, one a line", 0, 0},
    {"admin-key", STRING, AT(admin_key), NULL, "KEY", "key that opens everything", 0, 0},
    {"cors-origin", STRINGS, AT(cors_origins), NULL, "ORIGIN", "browser origin beside loopback ones; * for all; may repeat", 0, 0},
    {"open-metrics", SWITCH, AT(open_metrics), "false", NULL, "/metrics needs no key", 0, 0},
    {"tls-cert", STRING, AT(tls_cert), NULL, "FILE", "certificate chain (PEM), with --tls-key", 0, 0},
    {"tls-key", STRING, AT(tls_key), NULL, "FILE", "private key (PEM)", 0, 0},
    {"max-model-len", INTEGER, AT(max_model_len), "0", "TOKENS", "longest prompt + text; 0: the model's, cut to the cache", 0, 1 << 24},
    {"max-num-seqs", INTEGER, AT(max_seqs), "64", "N", "sequences computed at once", 1, 1024},
    {"max-num-batched-tokens", INTEGER, AT(max_batched_tokens), "0", "TOKENS", "most tokens of one step; 0: chosen", 0, 16384},
    {"kv-cache-memory", BYTES, AT(kv_cache_bytes), "0", "SIZE", "exact size of the KV cache, as 2GiB; 0: by utilization", 0, NO_MAX},
    {"kv-cache-tokens", INTEGER, AT(kv_cache_tokens), "0", "TOKENS", "the same, in tokens", 0, 1e12},
    {"gpu-memory-utilization", NUMBER, AT(memory_utilization), "0.5", "SHARE", "share of free memory for scratch and cache", 0.01, 1},
    {"block-size", INTEGER, AT(block_tokens), "16", "TOKENS", "tokens of a KV block: 16, 32, 64, 128 or 256", 16, 256},
    {"kv-cache-dtype", STRING, AT(kv_dtype), "auto", "TYPE", "auto (f16), f16 or f32", 0, 0},
    {"enable-prefix-caching", SWITCH, AT(prefix_caching), "true", NULL, "reuse computed prefixes; --no-… to measure without", 0, 0},
    {"threads", INTEGER, AT(threads), "0", "N", "compute threads; 0: the cores this process may use", 0, 256},
    {"backend", STRING, AT(backend), "auto", "NAME", "auto, cpu or ref (slow, exact)", 0, 0},
    {"isa", STRING, AT(isa), NULL, "NAME", "avx512-vnni, avx2 or scalar (default: the best here)", 0, 0},
    {"target-itl", DURATION, AT(target_itl_ns), "50ms", "TIME", "step time that prompts respect while others stream", 0.001, 60},
    {"queue-limit", INTEGER, AT(queue_limit), "1024", "N", "requests that may wait; more get 429", 1, 100000},
    {"queue-timeout", DURATION, AT(queue_timeout_ns), "60s", "TIME", "longest wait before the first step; 0: none", 0, 86400},
    {"request-timeout", DURATION, AT(request_timeout_ns), "0", "TIME", "longest life of a request; 0: none", 0, 86400},
    {"drain-timeout", DURATION, AT(drain_timeout_ns), "30s", "TIME", "time that running requests get at shutdown", 0, 86400},
    {"header-timeout", DURATION, AT(header_timeout_ns), "10s", "TIME", "a request's header must be in by then", 0.05, 3600},
    {"body-timeout", DURATION, AT(body_timeout_ns), "60s", "TIME", "its body after that", 0.05, 3600},
    {"idle-timeout", DURATION, AT(idle_timeout_ns), "60s", "TIME", "a silent connection is closed", 1, 86400},
    {"max-body", BYTES, AT(max_body_bytes), "32MiB", "SIZE", "largest request body; more get 413", 1024, 1 << 30},
    {"max-connections", INTEGER, AT(max_connections), "0", "N", "0: what the descriptor limit allows", 0, 1e6},
    {"chat-template", STRING, AT(chat_template), NULL, "FILE", "Jinja template in place of the model's", 0, 0},
    {"trust-request-chat-template", SWITCH, AT(trust_request_chat_template), "false", NULL, "accept chat_template in requests", 0, 0},
    {"log-level", STRING, AT(log_level), "info", "LEVEL", "error, warn, info or debug", 0, 0},
    {"log-format", STRING, AT(log_format), "text", "FORMAT", "text or json", 0, 0},
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const struct option *find(const char *name, size_t n)
{
	for (int i = 0; i < N_OPTIONS; i++)
		if (strlen(options[i].name) == n && !memcmp(options[i].name, name, n))
			return &options[i];
	return NULL;
}

static void *slot(struct config *c, const struct option *o)
{
	return (char *)c + o->offset;
}

static void add_string(struct strings *s, const char *v)
{
	s->v = mem_realloc(s->v, (s->n + 1) * sizeof *s->v);
	s->v[s->n++] = mem_strdup(v);
}

static void clear_strings(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct strings){0};
}

// A number with a unit: the factor of "MiB" or "ms"; 0 for an unknown one. No unit: bytes, or seconds.
static double factor(enum kind kind, const char *unit)
{
	static const struct {
		const char *name;
		double bytes, seconds;
	} units[] = {
	    {"", 1, 1},        {"B", 1, 0},         {"KiB", 1024, 0},     {"MiB", 1048576.0, 0}, {"GiB", 1073741824.0, 0}, {"K", 1024, 0},
	    {"M", 1048576.0, 0}, {"G", 1073741824.0, 0}, {"KB", 1e3, 0},    {"MB", 1e6, 0},        {"GB", 1e9, 0},           {"ms", 0, 1e-3},
	    {"s", 0, 1},       {"m", 0, 60},        {"min", 0, 60},       {"h", 0, 3600},
	};
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (!strcmp(units[i].name, unit))
			return kind == BYTES ? units[i].bytes : kind == DURATION ? units[i].seconds : *unit ? 0 : 1;
	return 0;
}

static int set_number(void *at, const struct option *o, const char *text, char *err, size_t len)
{
	static const char *const examples[] = {[INTEGER] = "a whole number", [BYTES] = "a size such as 512MiB", [DURATION] = "a time such as 50ms or 2s", [NUMBER] = "a number"};
	char *end;
	double v = strtod(text, &end), f;
	while (*end == ' ')
		end++;
	f = factor(o->kind, end);
	if (end == text || f == 0 || !isfinite(v) || (o->kind == INTEGER && v != floor(v)))
		return err_set(err, len, ERR_INVALID, "--%s %s is not %s", o->name, text, examples[o->kind]);
	v *= f;
	if (v < o->min || v > o->max)
		return err_set(err, len, ERR_INVALID, "--%s %s is outside of %.15g to %.15g", o->name, text, o->min, o->max);
	if (o->kind == NUMBER)
		*(double *)at = v;
	else
		*(int64_t *)at = (int64_t)(o->kind == DURATION ? v * 1e9 : v);
	return 0;
}

static int set_switch(bool *at, const struct option *o, const char *text, char *err, size_t len)
{
	bool yes = !strcmp(text, "true") || !strcmp(text, "1") || !strcmp(text, "yes");
	if (!yes && strcmp(text, "false") && strcmp(text, "0") && strcmp(text, "no"))
		return err_set(err, len, ERR_INVALID, "--%s %s is neither true nor false", o->name, text);
	*at = yes;
	return 0;
}

static int set(struct config *c, const struct option *o, const char *text, char *err, size_t len)
{
	void *at = slot(c, o);
	switch (o->kind) {
	case STRING:
		free(*(char **)at);
		*(char **)at = mem_strdup(text);
		return 0;
	case STRINGS:
		add_string(at, text);
		return 0;
	case SWITCH:
		return set_switch(at, o, text, err, len);
	default:
		return set_number(at, o, text, err, len);
	}
}

static int read_environment(struct config *c, char *err, size_t len)
{
	for (int i = 0; i < N_OPTIONS; i++) {
		char name[64];
		int n = snprintf(name, sizeof name, "QUIRE_%s", options[i].name);
		for (int k = 0; k < n; k++)
			name[k] = name[k] == '-' ? '_' : (char)toupper((unsigned char)name[k]);
		const char *v = getenv(name);
		int rc = v && *v ? set(c, &options[i], v, err, len) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static int set_json(struct config *c, const struct option *o, const json_t *v, char *err, size_t len)
{
	char text[64];
	if (json_is_string(v))
		return set(c, o, json_string_value(v), err, len);
	if (json_is_boolean(v))
		return set(c, o, json_is_true(v) ? "true" : "false", err, len);
	if (json_is_number(v)) {
		snprintf(text, sizeof text, "%.17g", json_number_value(v));
		return set(c, o, text, err, len);
	}
	if (json_is_array(v) && o->kind == STRINGS) {
		size_t i;
		json_t *item;
		json_array_foreach(v, i, item)
		{
			if (!json_is_string(item))
				return err_set(err, len, ERR_INVALID, "%s: a list of strings is wanted", o->name);
			add_string(slot(c, o), json_string_value(item));
		}
		return 0;
	}
	return err_set(err, len, ERR_INVALID, "%s: a string, a number, true or false is wanted", o->name);
}

static int read_file(struct config *c, const char *path, char *err, size_t len)
{
	json_error_t je;
	json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &je);
	if (!root)
		return err_set(err, len, ERR_INVALID, "--config %s: line %d: %s", path, je.line, je.text);
	int rc = json_is_object(root) ? 0 : err_set(err, len, ERR_INVALID, "--config %s: an object of options is wanted", path);
	const char *key;
	json_t *v;
	json_object_foreach(root, key, v)
	{
		const struct option *o = find(key, strlen(key));
		char why[256];
		if (rc)
			break;
		if (!strcmp(key, "model") && json_is_string(v)) {
			free(c->model);
			c->model = mem_strdup(json_string_value(v));
		} else if (!o) {
			rc = err_set(err, len, ERR_INVALID, "--config %s: no option is called %s; see quire serve --help", path, key);
		} else if (set_json(c, o, v, why, sizeof why)) {
			rc = err_set(err, len, ERR_INVALID, "--config %s: %s", path, why);
		}
	}
	json_decref(root);
	return rc;
}

// One argument, "--name value", "--name=value", a switch or "--no-switch"; *used says how many words it took.
static int read_argument(struct config *c, int argc, char *const *argv, int *used, char *err, size_t len)
{
	const char *name = argv[0] + 2, *eq = strchr(name, '=');
	size_t n = eq ? (size_t)(eq - name) : strlen(name);
	const struct option *o = find(name, n);
	*used = 1;
	if (!o && !strncmp(name, "no-", 3) && (o = find(name + 3, n - 3)) && o->kind == SWITCH && !eq)
		return set(c, o, "false", err, len);
	if (!o)
		return err_set(err, len, ERR_INVALID, "no option is called --%.*s; see quire serve --help", (int)n, name);
	if (eq)
		return set(c, o, eq + 1, err, len);
	if (o->kind == SWITCH)
		return set(c, o, "true", err, len);
	if (argc < 2)
		return err_set(err, len, ERR_INVALID, "--%s wants a value: %s", o->name, o->what);
	*used = 2;
	return set(c, o, argv[1], err, len);
}

static int read_command_line(struct config *c, int argc, char *const *argv, char *err, size_t len)
{
	for (int i = 0, used; i < argc; i += used) {
		used = 1;
		if (!strcmp(argv[i], "--config")) {
			used = 2; // read before
		} else if (!strncmp(argv[i], "--config=", 9)) {
		} else if (!strncmp(argv[i], "--", 2)) {
			int rc = read_argument(c, argc - i, argv + i, &used, err, len);
			if (rc)
				return rc;
		} else if (argv[i][0] == '-') {
			return err_set(err, len, ERR_INVALID, "%s is no option; see quire serve --help", argv[i]);
		} else {
			free(c->model);
			c->model = mem_strdup(argv[i]);
		}
	}
	return 0;
}

static const char *config_path(int argc, char *const *argv)
{
	const char *path = getenv("QUIRE_CONFIG");
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "--config=", 9))
			path = argv[i] + 9;
		else if (!strcmp(argv[i], "--config") && i + 1 < argc)
			path = argv[i + 1];
	}
	return path && *path ? path : NULL;
}

static int check_word(const char *option, const char *word, const char *const *known, char *err, size_t len)
{
	for (int i = 0; known[i]; i++)
		if (!strcmp(word, known[i]))
			return 0;
	int n = snprintf(err, len, "--%s %s is not known:", option, word);
	for (int i = 0; known[i] && n > 0 && (size_t)n < len; i++)
		n += snprintf(err + n, len - (size_t)n, "%s %s", i ? "," : "", known[i]);
	return ERR_INVALID;
}

static int check(const struct config *c, char *err, size_t len)
{
	static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
	static const char *const formats[] = {"text", "json", NULL};
	if (!c->model)
		return err_set(err, len, ERR_INVALID, "no model is named: quire serve MODEL.gguf");
	if ((c->block_tokens & (c->block_tokens - 1)) != 0)
		return err_set(err, len, ERR_INVALID, "--block-size %lld is not 16, 32, 64, 128 or 256", (long long)c->block_tokens);
	if (!c->tls_cert != !c->tls_key)
		return err_set(err, len, ERR_INVALID, "--tls-cert and --tls-key go together");
	int rc = check_word("log-level", c->log_level, levels, err, len);
	return rc ? rc : check_word("log-format", c->log_format, formats, err, len);
}

static int read_keys(struct config *c, char *err, size_t len)
{
	FILE *f = c->api_key_file ? fopen(c->api_key_file, "r") : NULL;
	char line[1024];
	if (!c->api_key_file)
		return 0;
	if (!f)
		return err_set(err, len, ERR_IO, "--api-key-file %s: %s", c->api_key_file, strerror(errno));
	size_t before = c->api_keys.n;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, " \t\r\n")] = 0;
		if (*line && *line != '#')
			add_string(&c->api_keys, line);
	}
	fclose(f);
	// An empty file must not open the server to everybody.
	if (c->api_keys.n == before)
		return err_set(err, len, ERR_INVALID, "--api-key-file %s holds no key", c->api_key_file);
	return 0;
}

int config_read(struct config *c, int argc, char *const *argv, char *err, size_t len)
{
	*c = (struct config){0};
	const char *path = config_path(argc, argv);
	int rc = 0;
	for (int i = 0; i < N_OPTIONS && !rc; i++)
		if (options[i].value)
			rc = set(c, &options[i], options[i].value, err, len);
	CHECK(!rc, "a default is out of its range");
	if (path)
		rc = read_file(c, path, err, len);
	if (!rc)
		rc = read_environment(c, err, len);
	if (!rc)
		rc = read_command_line(c, argc, argv, err, len);
	if (!rc)
		rc = check(c, err, len);
	if (!rc)
		rc = read_keys(c, err, len);
	if (rc)
		config_deinit(c);
	return rc;
}

void config_deinit(struct config *c)
{
	free(c->model);
	for (int i = 0; i < N_OPTIONS; i++) {
		if (options[i].kind == STRING)
			free(*(char **)slot(c, &options[i]));
		else if (options[i].kind == STRINGS)
			clear_strings(slot(c, &options[i]));
	}
	*c = (struct config){0};
}

void config_print_help(void)
{
	puts("usage: quire serve MODEL.gguf [options]\n\n"
	     "Every option may also be set by the environment (QUIRE_MAX_NUM_SEQS=32) or in a JSON file named by --config.\n");
	for (int i = 0; i < N_OPTIONS; i++) {
		const struct option *o = &options[i];
		char left[64];
		snprintf(left, sizeof left, "--%s%s%s", o->name, o->what ? " " : "", o->what ? o->what : "");
		printf("  %-34s %s", left, o->help);
		if (o->value && strcmp(o->value, "0") && strcmp(o->value, "false"))
			printf(" [%s]", o->value);
		putchar('\n');
	}
}
