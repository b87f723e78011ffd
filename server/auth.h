// SPDX-License-Identifier: Apache-2.0
//
// API keys. All configured keys are compared in a time that tells neither which one matched nor how much of one. Any
// thread.
#ifndef QUIRE_SERVER_AUTH_H
#define QUIRE_SERVER_AUTH_H

#include <stdbool.h>
#include <stddef.h>

struct auth {
	const char *const *keys; // borrowed
	size_t n;
	const char *admin_key; // NULL: none
};

bool auth_needed(const struct auth *a);

// authorization: the header's value ("Bearer KEY"); x_api_key: that header's; NULL where absent. One right key
// suffices.
bool auth_check(const struct auth *a, const char *authorization, const char *x_api_key);

#endif
