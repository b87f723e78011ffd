// SPDX-License-Identifier: Apache-2.0
//
// An error on its way to a client: the status and the four members of the API's error object. Plain data, any thread.
#ifndef QUIRE_SERVER_API_ERROR_H
#define QUIRE_SERVER_API_ERROR_H

#include <stdbool.h>

struct json_out;

struct api_error {
	int status;		   // 0: no error
	const char *code;  // static, or NULL for null
	char param[64];	   // the field at fault, or "" for null
	char message[480]; // for a person; any bytes, made valid UTF-8 when written
	int retry_after;   // seconds for Retry-After; 0: none
	bool no_retry;	   // x-should-retry: false
};

// Fills e (the first error wins: a set one is kept) and returns ERR_INVALID. param may be NULL.
int api_error_set(struct api_error *e, int status, const char *param, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

// The "type" member that goes with the status.
const char *api_error_type(int status);

// Writes {"message":…,"type":…,"param":…,"code":…} as the next value.
void api_error_write(const struct api_error *e, struct json_out *o);

#endif
