// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON piece by piece to the end of a struct buf, on one line and without spaces; commas come by themselves.
// Strings are made valid UTF-8 whatever comes in, so nothing that a model or a client produced can break a reply.
// The caller's storage; one thread.
#ifndef QUIRE_SERVER_JSON_OUT_H
#define QUIRE_SERVER_JSON_OUT_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_out {
	struct buf *buf;
	bool comma; // a value stands before this place
};

void json_out_init(struct json_out *o, struct buf *buf);
void json_out_begin(struct json_out *o, char bracket);	// '{' or '['
void json_out_end(struct json_out *o, char bracket);	// '}' or ']'
void json_out_key(struct json_out *o, const char *key); // a plain key that needs no escapes

void json_out_string(struct json_out *o, const char *s, size_t n);
void json_out_key_string(struct json_out *o, const char *s, size_t n); // a key that may need escapes
void json_out_int(struct json_out *o, int64_t v);
void json_out_float(struct json_out *o, float v); // shortest that reads back the same; -inf is -9999.0, NaN null
void json_out_bool(struct json_out *o, bool v);
void json_out_null(struct json_out *o);
void json_out_raw(struct json_out *o, const char *s, size_t n); // one complete value, or several with commas between

void json_out_member_string(struct json_out *o, const char *key, const char *s, size_t n);
void json_out_member_str(struct json_out *o, const char *key, const char *s);
void json_out_member_int(struct json_out *o, const char *key, int64_t v);

#endif
