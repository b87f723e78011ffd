// SPDX-License-Identifier: Apache-2.0
#include "server/json_out.h"

#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_out_init(struct json_out *o, struct buf *buf)
{
	*o = (struct json_out){buf, false};
}

static void separate(struct json_out *o)
{
	if (o->comma)
		buf_putc(o->buf, ',');
	o->comma = true;
}

void json_out_begin(struct json_out *o, char bracket)
{
	separate(o);
	buf_putc(o->buf, bracket);
	o->comma = false;
}

void json_out_end(struct json_out *o, char bracket)
{
	buf_putc(o->buf, bracket);
	o->comma = true;
}

void json_out_key(struct json_out *o, const char *key)
{
	separate(o);
	buf_putc(o->buf, '"');
	buf_puts(o->buf, key);
	buf_append(o->buf, "\":", 2);
	o->comma = false;
}

// Bytes that may stand in a string as they are.
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

static void escape(struct buf *b, unsigned char c)
{
	static const char SHORT[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	for (const char *p = SHORT; *p; p += 2) {
		if ((unsigned char)p[0] == c) {
			buf_putc(b, '\\');
			buf_putc(b, p[1]);
			return;
		}
	}
	buf_printf(b, "\\u%04x", c);
}

static void write_string(struct buf *b, const char *s, size_t n)
{
	size_t done = 0, i = 0;
	uint32_t cp;
	buf_reserve(b, n + 2);
	buf_putc(b, '"');
	while (i < n) {
		if (is_plain((unsigned char)s[i])) {
			i++;
			continue;
		}
		int k = utf8_decode(s + i, n - i, &cp);
		if (k > 1) {
			i += (size_t)k;
			continue;
		}
		buf_append(b, s + done, i - done);
		if (k == 1)
			escape(b, (unsigned char)s[i]);
		else
			buf_append(b, "\xEF\xBF\xBD", 3);
		i = k == 0 ? n : i + (size_t)abs(k);
		done = i;
	}
	if (n > done)
		buf_append(b, s + done, n - done);
	buf_putc(b, '"');
}

void json_out_string(struct json_out *o, const char *s, size_t n)
{
	separate(o);
	write_string(o->buf, s, n);
}

void json_out_key_string(struct json_out *o, const char *s, size_t n)
{
	separate(o);
	write_string(o->buf, s, n);
	buf_putc(o->buf, ':');
	o->comma = false;
}

void json_out_int(struct json_out *o, int64_t v)
{
	separate(o);
	buf_printf(o->buf, "%lld", (long long)v);
}

void json_out_float(struct json_out *o, float v)
{
	separate(o);
	if (isnan(v)) {
		buf_puts(o->buf, "null");
		return;
	}
	if (isinf(v)) {
		buf_puts(o->buf, v < 0 ? "-9999.0" : "9999.0");
		return;
	}
	char text[32];
	for (int digits = 6; digits <= 9; digits++) { // 9 digits always suffice for a float
		snprintf(text, sizeof text, "%.*g", digits, (double)v);
		if (strtof(text, NULL) == v)
			break;
	}
	buf_puts(o->buf, text);
	if (!strpbrk(text, ".e")) // stays a float for readers that look at the spelling
		buf_puts(o->buf, ".0");
}

void json_out_bool(struct json_out *o, bool v)
{
	separate(o);
	buf_puts(o->buf, v ? "true" : "false");
}

void json_out_null(struct json_out *o)
{
	separate(o);
	buf_puts(o->buf, "null");
}

void json_out_raw(struct json_out *o, const char *s, size_t n)
{
	if (!n)
		return;
	separate(o);
	buf_append(o->buf, s, n);
}

void json_out_member_string(struct json_out *o, const char *key, const char *s, size_t n)
{
	json_out_key(o, key);
	json_out_string(o, s, n);
}

void json_out_member_str(struct json_out *o, const char *key, const char *s)
{
	json_out_member_string(o, key, s, strlen(s));
}

void json_out_member_int(struct json_out *o, const char *key, int64_t v)
{
	json_out_key(o, key);
	json_out_int(o, v);
}
