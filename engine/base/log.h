// SPDX-License-Identifier: Apache-2.0
//
// One line per event to stderr, as text or as JSON. The level is set once at start. Any thread; a line is one write.
#ifndef QUIRE_BASE_LOG_H
#define QUIRE_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_init(enum log_level level, bool json);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                                 \
	do {                                                                                                               \
		if (log_enabled(LOG_DEBUG))                                                                                    \
			log_write(LOG_DEBUG, __VA_ARGS__);                                                                         \
	} while (0)

#endif
