// SPDX-License-Identifier: Apache-2.0
#include "engine/base/log.h"

#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 2048 };

static enum log_level log_level = LOG_INFO;
static bool log_json;

void log_init(enum log_level level, bool json)
{
	log_level = level;
	log_json = json;
}

bool log_enabled(enum log_level level)
{
	return level <= log_level;
}

static void put_json_string(struct buf *b, const char *s)
{
	struct buf clean;
	buf_init(&clean);
	utf8_sanitize(&clean, s, __builtin_strlen(s));
	buf_putc(b, '"');
	for (size_t i = 0; i < clean.len; i++) {
		unsigned char c = (unsigned char)clean.data[i];
		if (c == '"' || c == '\\')
			buf_printf(b, "\\%c", c);
		else if (c < 0x20)
			buf_printf(b, "\\u%04x", c);
		else
			buf_putc(b, (char)c);
	}
	buf_putc(b, '"');
	buf_deinit(&clean);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	if (!log_enabled(level))
		return;
	char text[LINE], stamp[32];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	struct timespec now;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	struct buf line;
	buf_init(&line);
	if (log_json) {
		buf_printf(&line, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":", stamp, now.tv_nsec / 1000000, names[level]);
		put_json_string(&line, text);
		buf_puts(&line, "}\n");
	} else {
		// A control character in a message could forge a second line or drive a terminal.
		for (char *c = text; *c; c++)
			if ((unsigned char)*c < 0x20 || *c == 0x7F)
				*c = ' ';
		buf_printf(&line, "%s.%03ldZ %-5s %s\n", stamp, now.tv_nsec / 1000000, names[level], text);
	}
	ssize_t n = write(STDERR_FILENO, line.data, line.len); // there is nowhere to report a failure to
	(void)n;
	buf_deinit(&line);
}
