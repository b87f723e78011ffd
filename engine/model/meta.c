// SPDX-License-Identifier: Apache-2.0
//
// Metadata with its range checks.
#include "engine/model/arch.h"

#include "engine/base/err.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEY = 160 };

static const char *full_key(const struct meta *m, const char *key, char out[KEY])
{
	snprintf(out, KEY, "%s.%s", m->arch, key);
	return out;
}

void meta_fail(struct meta *m, int code, const char *fmt, ...)
{
	if (m->rc)
		return;
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	m->rc = err_set(m->err, m->len, code, "%s: %s", gguf_path(m->g), text);
}

const char *meta_shown(struct gguf_str s, char out[META_SHOWN])
{
	size_t n = s.len < META_SHOWN ? s.len : META_SHOWN - 1;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)(s.data[i] >= ' ' && s.data[i] <= '~' ? s.data[i] : '?');
	out[n] = 0;
	return out;
}

static void missing(struct meta *m, const char *key)
{
	meta_fail(m, ERR_INVALID, "the key %s.%s is missing", m->arch, key);
}

int meta_int(struct meta *m, const char *key, int min, int max, int fallback)
{
	char name[KEY];
	uint64_t v;
	int rc = gguf_get_u64(m->g, full_key(m, key, name), &v);
	if (rc == 0 && fallback != META_REQUIRED)
		return fallback;
	if (rc == 0)
		missing(m, key);
	else if (rc < 0)
		meta_fail(m, ERR_INVALID, "%s must be a whole number from %d to %d", name, min, max);
	else if (v > (uint64_t)max || (int)v < min)
		meta_fail(m, ERR_INVALID, "%s is %llu, it must be from %d to %d", name, (unsigned long long)v, min, max);
	else
		return (int)v;
	return min;
}

int meta_layers_int(struct meta *m, const char *key, int min, int max, int fallback)
{
	char name[KEY];
	struct gguf_array a;
	if (gguf_get_array(m->g, full_key(m, key, name), &a) <= 0)
		return meta_int(m, key, min, max, fallback);
	bool integers = a.type <= GGUF_I32 || a.type == GGUF_U64 || a.type == GGUF_I64;
	int64_t first = integers && a.n ? gguf_array_i64(&a, 0) : -1;
	if (first < min || first > max) {
		meta_fail(m, ERR_INVALID, "%s must hold numbers from %d to %d", name, min, max);
		return min;
	}
	for (size_t i = 1; i < a.n; i++)
		if (gguf_array_i64(&a, i) != first)
			meta_fail(m, ERR_UNSUPPORTED, "%s differs between layers, which this build does not support", name);
	return (int)first;
}

double meta_float(struct meta *m, const char *key, double min, double max, double fallback)
{
	char name[KEY];
	double v;
	int rc = gguf_get_f64(m->g, full_key(m, key, name), &v);
	if (rc == 0)
		return fallback;
	if (rc > 0 && v >= min && v <= max) // false for a NaN
		return v;
	meta_fail(m, ERR_INVALID, "%s must be a number from %g to %g", name, min, max);
	return min;
}

struct gguf_str meta_str(struct meta *m, const char *key, const char *fallback)
{
	char name[KEY];
	struct gguf_str s = {fallback, strlen(fallback)}, found;
	int rc = gguf_get_str(m->g, full_key(m, key, name), &found);
	if (rc < 0)
		meta_fail(m, ERR_INVALID, "%s must be a string", name);
	return rc > 0 ? found : s;
}
