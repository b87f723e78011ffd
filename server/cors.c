// SPDX-License-Identifier: Apache-2.0
#include "server/cors.h"

#include <string.h>

static const char *after(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

static bool is_port_or_end(const char *s)
{
	if (!*s)
		return true;
	size_t digits = strspn(s + 1, "0123456789");
	return *s == ':' && digits >= 1 && digits <= 5 && !s[1 + digits];
}

bool cors_is_loopback(const char *origin)
{
	static const char *const HOSTS[] = {"localhost", "127.0.0.1", "[::1]"};
	const char *host = after(origin, "http://");
	if (!host)
		host = after(origin, "https://");
	for (size_t i = 0; host && i < sizeof HOSTS / sizeof HOSTS[0]; i++) {
		const char *rest = after(host, HOSTS[i]);
		if (rest && is_port_or_end(rest))
			return true;
	}
	return false;
}

const char *cors_allow(const struct cors *c, const char *origin)
{
	if (!origin)
		return NULL;
	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->origins[i], "*") == 0)
			return "*";
		if (strcmp(c->origins[i], origin) == 0)
			return origin;
	}
	return cors_is_loopback(origin) ? origin : NULL;
}
