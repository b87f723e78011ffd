// SPDX-License-Identifier: Apache-2.0
#include "server/auth.h"

#include <string.h>
#include <strings.h>

bool auth_needed(const struct auth *a)
{
	return a->n > 0 || a->admin_key;
}

// The work depends on what was presented, never on the key but for its length's residue.
static bool equal(const char *key, const char *given)
{
	size_t n_key = strlen(key), n = strlen(given);
	size_t diff = n ^ n_key;
	for (size_t i = 0; i < n && n_key; i++)
		diff |= (size_t)(unsigned char)(given[i] ^ key[i % n_key]);
	return diff == 0 && n_key;
}

static bool matches(const struct auth *a, const char *given)
{
	bool found = a->admin_key && equal(a->admin_key, given);
	for (size_t i = 0; i < a->n; i++)
		found |= equal(a->keys[i], given);
	return found;
}

static const char *bearer(const char *authorization)
{
	if (!authorization || strncasecmp(authorization, "bearer", 6) != 0 || authorization[6] != ' ')
		return NULL;
	return authorization + 6 + strspn(authorization + 6, " ");
}

bool auth_check(const struct auth *a, const char *authorization, const char *x_api_key)
{
	if (!auth_needed(a))
		return true;
	const char *token = bearer(authorization);
	bool by_token = token && matches(a, token), by_key = x_api_key && matches(a, x_api_key);
	return by_token || by_key;
}
