// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON that came from outside: depth and number of values are limited before anything is built, so that neither
// the stack nor the memory depends on the sender. Of equal keys the last wins. Any thread.
#ifndef QUIRE_SERVER_JSON_IN_H
#define QUIRE_SERVER_JSON_IN_H

#include "server/api_error.h"

#include <jansson.h>
#include <stddef.h>

// A new reference, or NULL with err a 400 that says where; its text holds none of the input's bytes.
json_t *json_in_parse(const char *data, size_t n, int max_depth, size_t max_values, struct api_error *err);

#endif
