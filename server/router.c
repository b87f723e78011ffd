// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include "server/api_get.h"

#include <string.h>

static const struct route ROUTES[] = {
	{"/v1/chat/completions", ROUTE_V1 | ROUTE_GENERATES, NULL, api_prepare_chat},
	{"/v1/completions", ROUTE_V1 | ROUTE_GENERATES, NULL, api_prepare_completion},
	{"/v1/models", ROUTE_V1, api_get_models, NULL},
	{"/v1/models/", ROUTE_V1 | ROUTE_REST, api_get_model, NULL},
	{"/tokenize", 0, NULL, api_prepare_tokenize},
	{"/detokenize", 0, NULL, api_prepare_detokenize},
	{"/apply-template", 0, NULL, api_prepare_template},
	{"/health", ROUTE_OPEN, api_get_health, NULL},
	{"/ready", ROUTE_OPEN, api_get_ready, NULL},
	{"/metrics", ROUTE_METRICS, api_get_metrics, NULL},
	{"/", ROUTE_OPEN, api_get_root, NULL},
};

static const char *skip_authority(const char *url)
{
	const char *at = strstr(url, "://");
	if (strncmp(url, "http", 4) != 0 || !at)
		return url;
	at += strcspn(at + 3, "/") + 3;
	return *at ? at : "/";
}

void router_normalise(const char *url, char *out, size_t len)
{
	size_t n = 0;
	for (const char *p = skip_authority(url); *p && n + 1 < len; p++)
		if (*p != '/' || !n || out[n - 1] != '/')
			out[n++] = *p;
	if (n > 1 && out[n - 1] == '/')
		n--;
	out[n] = 0;
}

static bool matches(const struct route *r, const char *route_path, const char *path, const char **rest)
{
	size_t n = strlen(route_path);
	*rest = path + n;
	if (r->flags & ROUTE_REST)
		return strncmp(path, route_path, n) == 0 && path[n];
	return strcmp(path, route_path) == 0;
}

const struct route *router_find(const char *path, const char **rest)
{
	for (size_t i = 0; i < sizeof ROUTES / sizeof ROUTES[0]; i++) {
		const struct route *r = &ROUTES[i];
		if (matches(r, r->path, path, rest))
			return r;
		if ((r->flags & ROUTE_V1) && matches(r, r->path + strlen("/v1"), path, rest))
			return r;
	}
	return NULL;
}

bool route_allows(const struct route *r, const char *method)
{
	if (strcmp(method, "POST") == 0)
		return r->prepare != NULL;
	return r->get && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
}

const char *route_methods(const struct route *r)
{
	return r->get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}
