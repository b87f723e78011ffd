// SPDX-License-Identifier: Apache-2.0
#include "server/random_id.h"

#include "engine/base/err.h"

#include <string.h>
#include <sys/random.h>

void random_id(char *out, size_t len, const char *prefix)
{
	static const char HEX[] = "0123456789abcdef";
	unsigned char bits[RANDOM_ID_DIGITS / 2];
	size_t at = strlen(prefix);
	CHECK(len > at + RANDOM_ID_DIGITS, "%zu", len);
	ssize_t n = getrandom(bits, sizeof bits, 0);
	CHECK(n == (ssize_t)sizeof bits, "getrandom gave %zd", n);
	memcpy(out, prefix, at);
	for (size_t i = 0; i < sizeof bits; i++) {
		out[at++] = HEX[bits[i] >> 4];
		out[at++] = HEX[bits[i] & 15];
	}
	out[at] = 0;
}
