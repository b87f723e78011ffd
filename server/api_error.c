// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

#include "engine/base/err.h"
#include "server/json_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int api_error_set(struct api_error *e, int status, const char *param, const char *fmt, ...)
{
	if (e->status)
		return ERR_INVALID;
	e->status = status;
	snprintf(e->param, sizeof e->param, "%s", param ? param : "");
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	return ERR_INVALID;
}

const char *api_error_type(int status)
{
	switch (status) {
	case 401:
		return "authentication_error";
	case 403:
		return "permission_error";
	case 429:
		return "rate_limit_error";
	}
	return status >= 500 ? "server_error" : "invalid_request_error";
}

void api_error_write(const struct api_error *e, struct json_out *o)
{
	json_out_begin(o, '{');
	json_out_member_string(o, "message", e->message, strlen(e->message));
	json_out_member_string(o, "type", api_error_type(e->status), strlen(api_error_type(e->status)));
	json_out_key(o, "param");
	if (e->param[0])
		json_out_string(o, e->param, strlen(e->param));
	else
		json_out_null(o);
	json_out_key(o, "code");
	if (e->code)
		json_out_string(o, e->code, strlen(e->code));
	else
		json_out_null(o);
	json_out_end(o, '}');
}
