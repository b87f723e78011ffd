// SPDX-License-Identifier: Apache-2.0
#include "engine/base/utf8.h"

#include "engine/base/err.h"

// The allowed range of the second byte depends on the first (that is what excludes overlong forms, surrogates
// and values past U+10FFFF); the later ones are always 80..BF.
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
	*lo = 0x80;
	*hi = 0xBF;
	if (c >= 0xC2 && c <= 0xDF)
		return 2;
	if (c >= 0xE0 && c <= 0xEF) {
		if (c == 0xE0)
			*lo = 0xA0;
		if (c == 0xED)
			*hi = 0x9F;
		return 3;
	}
	if (c >= 0xF0 && c <= 0xF4) {
		if (c == 0xF0)
			*lo = 0x90;
		if (c == 0xF4)
			*hi = 0x8F;
		return 4;
	}
	return 0;
}

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
	if (!n)
		return 0;
	unsigned char c = (unsigned char)s[0], lo, hi;
	if (c < 0x80) {
		*cp = c;
		return 1;
	}
	int want = lead(c, &lo, &hi);
	if (!want)
		return -1;
	uint32_t v = c & (0x7F >> want);
	for (int i = 1; i < want; i++) {
		if ((size_t)i == n)
			return 0;
		c = (unsigned char)s[i];
		if (c < lo || c > hi)
			return -i;
		v = v << 6 | (c & 0x3F);
		lo = 0x80;
		hi = 0xBF;
	}
	*cp = v;
	return want;
}

int utf8_encode(uint32_t cp, char out[4])
{
	CHECK(cp < 0x110000 && (cp < 0xD800 || cp > 0xDFFF), "U+%X", cp);
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xC0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3F));
		return 2;
	}
	if (cp < 0x10000) {
		out[0] = (char)(0xE0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
		out[2] = (char)(0x80 | (cp & 0x3F));
		return 3;
	}
	out[0] = (char)(0xF0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
	out[3] = (char)(0x80 | (cp & 0x3F));
	return 4;
}

bool utf8_valid(const char *s, size_t n)
{
	uint32_t cp;
	for (size_t i = 0; i < n;) {
		int k = utf8_decode(s + i, n - i, &cp);
		if (k <= 0)
			return false;
		i += (size_t)k;
	}
	return true;
}

size_t utf8_whole(const char *s, size_t n)
{
	uint32_t cp;
	size_t from = n > 3 ? n - 3 : 0;
	for (size_t i = n; i-- > from;) {
		unsigned char c = (unsigned char)s[i];
		if (c < 0x80)
			break;
		if (c >= 0xC0)
			return utf8_decode(s + i, n - i, &cp) == 0 ? i : n;
	}
	return n;
}

void utf8_sanitize(struct buf *out, const char *s, size_t n)
{
	uint32_t cp;
	size_t done = 0;
	for (size_t i = 0; i < n;) {
		int k = utf8_decode(s + i, n - i, &cp);
		if (k > 0) {
			i += (size_t)k;
			continue;
		}
		buf_append(out, s + done, i - done);
		buf_append(out, "\xEF\xBF\xBD", 3);
		i = k < 0 ? i + (size_t)-k : n;
		done = i;
	}
	buf_append(out, s + done, n - done);
}
