// SPDX-License-Identifier: Apache-2.0
//
// The table of names, and what metadata says. Values lie unaligned in the file, so they are copied out.
#include "engine/model/gguf_internal.h"

#include "engine/base/err.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void gguf__table_init(struct gguf_table *t, size_t n)
{
	size_t size = 16;
	while (size < 2 * n)
		size *= 2;
	t->mask = size - 1;
	t->slot = mem_zalloc(size, sizeof *t->slot);
	if (getrandom(&t->seed, sizeof t->seed, GRND_NONBLOCK) != sizeof t->seed)
		t->seed = (uintptr_t)t->slot; // early in a boot: the address is random enough
}

// The slot that holds the name, or the free one where it would go.
static size_t find_slot(const struct gguf_table *t, struct gguf_str name, gguf_name_fn *name_of, const void *ctx)
{
	size_t i = hash_bytes(t->seed, name.data, name.len) & t->mask;
	for (; t->slot[i]; i = (i + 1) & t->mask) {
		struct gguf_str other = name_of(ctx, t->slot[i] - 1);
		if (other.len == name.len && !memcmp(other.data, name.data, name.len))
			break;
	}
	return i;
}

bool gguf__table_add(struct gguf_table *t, struct gguf_str name, uint32_t index, gguf_name_fn *name_of, const void *ctx)
{
	size_t i = find_slot(t, name, name_of, ctx);
	if (t->slot[i])
		return false;
	t->slot[i] = index + 1;
	return true;
}

int64_t gguf__table_find(const struct gguf_table *t, const char *name, gguf_name_fn *name_of, const void *ctx)
{
	if (!t->slot)
		return -1;
	return (int64_t)t->slot[find_slot(t, (struct gguf_str){name, strlen(name)}, name_of, ctx)] - 1;
}

struct gguf_str gguf__key_name(const void *keys, uint32_t i)
{
	return ((const struct gguf_keys *)keys)->item[i].name;
}

void gguf__keys_deinit(struct gguf_keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->item[i].strings);
	free(k->item);
	free(k->table.slot);
	*k = (struct gguf_keys){0};
}

static const struct gguf_key *find_key(const struct gguf_keys *k, const char *key)
{
	int64_t i = gguf__table_find(&k->table, key, gguf__key_name, k);
	return i < 0 ? NULL : &k->item[i];
}

size_t gguf__type_size(enum gguf_type t)
{
	static const uint8_t size[] = {[GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,	[GGUF_I16] = 2,	   [GGUF_U32] = 4,
								   [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STRING] = 0, [GGUF_ARRAY] = 0,
								   [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
	return size[t];
}

static bool is_integer(enum gguf_type t)
{
	return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

static bool is_number(enum gguf_type t)
{
	return is_integer(t) || t == GGUF_F32 || t == GGUF_F64;
}

// The bits of an integer or a bool, sign-extended if the type has a sign.
static uint64_t read_bits(enum gguf_type type, const void *p)
{
	uint64_t v = 0;
	size_t size = gguf__type_size(type);
	memcpy(&v, p, size); // little-endian, as the file
	bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32;
	if (is_signed && v >> (8 * size - 1))
		v |= UINT64_MAX << (8 * size);
	return v;
}

static double read_number(enum gguf_type type, const void *p)
{
	if (type == GGUF_F32) {
		float f;
		memcpy(&f, p, sizeof f);
		return (double)f;
	}
	if (type == GGUF_F64) {
		double d;
		memcpy(&d, p, sizeof d);
		return d;
	}
	uint64_t v = read_bits(type, p);
	return type == GGUF_U64 ? (double)v : (double)(int64_t)v;
}

int gguf__keys_u64(const struct gguf_keys *keys, const char *key, uint64_t *out)
{
	const struct gguf_key *k = find_key(keys, key);
	if (!k)
		return 0;
	if (!is_integer(k->type))
		return ERR_INVALID;
	uint64_t v = read_bits(k->type, k->value);
	if (k->type != GGUF_U64 && v > INT64_MAX)
		return ERR_INVALID;
	*out = v;
	return 1;
}

int gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out)
{
	return gguf__keys_u64(&g->keys, key, out);
}

int gguf_get_f64(const struct gguf *g, const char *key, double *out)
{
	const struct gguf_key *k = find_key(&g->keys, key);
	if (!k)
		return 0;
	if (!is_number(k->type))
		return ERR_INVALID;
	*out = read_number(k->type, k->value);
	return 1;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
	const struct gguf_key *k = find_key(&g->keys, key);
	if (!k)
		return 0;
	if (k->type != GGUF_BOOL)
		return ERR_INVALID;
	*out = *(const uint8_t *)k->value != 0;
	return 1;
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out)
{
	const struct gguf_key *k = find_key(&g->keys, key);
	if (!k)
		return 0;
	if (k->type != GGUF_STRING)
		return ERR_INVALID;
	*out = (struct gguf_str){k->value, k->n};
	return 1;
}

int gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out)
{
	const struct gguf_key *k = find_key(&g->keys, key);
	if (!k)
		return 0;
	if (k->type != GGUF_ARRAY)
		return ERR_INVALID;
	*out = (struct gguf_array){k->item, k->n, k->item == GGUF_STRING ? (const void *)k->strings : k->value};
	return 1;
}

struct gguf_str gguf_array_str(const struct gguf_array *a, size_t i)
{
	CHECK(a->type == GGUF_STRING && i < a->n, "type %d, %zu of %zu", (int)a->type, i, a->n);
	return ((const struct gguf_str *)a->priv)[i];
}

static const void *element(const struct gguf_array *a, size_t i)
{
	CHECK(i < a->n, "%zu of %zu", i, a->n);
	return (const char *)a->priv + i * gguf__type_size(a->type);
}

int64_t gguf_array_i64(const struct gguf_array *a, size_t i)
{
	CHECK(is_integer(a->type) || a->type == GGUF_BOOL, "type %d", (int)a->type);
	uint64_t v = read_bits(a->type, element(a, i));
	return a->type == GGUF_U64 && v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

double gguf_array_f64(const struct gguf_array *a, size_t i)
{
	CHECK(is_number(a->type) || a->type == GGUF_BOOL, "type %d", (int)a->type);
	return read_number(a->type, element(a, i));
}
