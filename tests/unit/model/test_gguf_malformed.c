// SPDX-License-Identifier: Apache-2.0
//
// Broken GGUF files, made from a valid one by the table of its fields. Whatever comes of a change, the reader must not
// crash, read outside of the bytes (every case is a block of its own on the heap, for AddressSanitizer), or ask for
// memory that the file does not pay for; what it refuses it must say in one line; what it accepts must keep the
// header's promises.
#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/model/gguf_internal.h"
#include "tests/unit/model/gguf_walk.h"
#include "tests/unit/model/gguf_write.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// Under AddressSanitizer a request for more than 64 MiB is an error, and freed blocks are not hoarded. Unused
// otherwise.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=64:quarantine_size_mb=8";
}

static char err[512];

// Opens n bytes from a block of exactly that size; returns the code, after checking what must hold in any case.
static int open_bytes(const char *bytes, size_t n)
{
	char *copy = mem_alloc(n);
	struct gguf *g;
	memcpy(copy, bytes, n);
	err[0] = 0;
	int rc = gguf__open_memory("m.gguf", copy, n, &g, err, sizeof err);
	if (rc) {
		ck_assert_msg(rc == ERR_INVALID || rc == ERR_UNSUPPORTED, "code %d: %s", rc, err);
		ck_assert_ptr_null(g);
		ck_assert_msg(!strncmp(err, "m.gguf: ", 8) && strlen(err) > 16, "%s", err);
		for (const char *s = err; *s; s++)
			ck_assert_msg(*s >= 0x20 && *s < 0x7F, "a byte %d in: %s", *s, err);
	} else {
		gguf_walk(g);
	}
	gguf_close(g);
	free(copy);
	return rc;
}

// A file with every kind of field; 24 bytes of data at its end belong to the last tensor.
static void write_valid(struct gguf_writer *w, struct buf *b)
{
	static const float values[32] = {1, 2, 3};
	gguf_write_init(w);
	buf_init(b);
	gguf_write_str(w, "general.architecture", "llama");
	gguf_write_alignment(w, 16);
	gguf_write_scalar(w, "u8", GGUF_U8, &(uint8_t){3});
	gguf_write_scalar(w, "f64", GGUF_F64, &(double){0.5});
	gguf_write_bool(w, "bool", true);
	gguf_write_array(w, "i16s", GGUF_I16, (int16_t[]){-1, 2, 3}, 3);
	gguf_write_array(w, "f32s", GGUF_F32, values, 4);
	gguf_write_strings(w, "strings", (const char *const[]){"one", "", "three"}, 3);
	gguf_write_tensor_f32(w, "a.weight", 2, (uint64_t[]){4, 2}, values);
	gguf_write_tensor(w, "b.weight", DTYPE_Q4_0, 2, (uint64_t[]){32, 2}, values, 36);
	gguf_write_tensor_f32(w, "c.weight", 4, (uint64_t[]){1, 2, 3, 1}, values);
	gguf_write_bytes(w, b);
}

static void free_valid(struct gguf_writer *w, struct buf *b)
{
	gguf_write_deinit(w);
	buf_deinit(b);
}

START_TEST(test_valid_one_is_accepted)
{
	struct gguf_writer w;
	struct buf b;
	write_valid(&w, &b);
	ck_assert_msg(open_bytes(b.data, b.len) == 0, "%s", err);
	ck_assert_uint_ge(w.n_fields, 49);
	for (size_t i = 0; i < w.n_fields; i++) // the table of fields is right: each holds a plausible value
		ck_assert_msg(b.data[w.fields[i].at + w.fields[i].width - 1] == 0, "%s at %zu", w.fields[i].what,
					  w.fields[i].at);
	free_valid(&w, &b);
}
END_TEST

START_TEST(test_truncated_at_every_byte)
{
	struct gguf_writer w;
	struct buf b;
	write_valid(&w, &b);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_msg(open_bytes(b.data, n) < 0, "%zu of %zu bytes are accepted", n, b.len);
	free_valid(&w, &b);
}
END_TEST

START_TEST(test_every_field_replaced)
{
	static const uint64_t values[] = {0,
									  1,
									  2,
									  3,
									  4,
									  5,
									  8,
									  12,
									  13,
									  30,
									  31,
									  33,
									  255,
									  1000000,
									  INT32_MAX,
									  1ULL << 31,
									  UINT32_MAX - 1,
									  UINT32_MAX,
									  1ULL << 32,
									  (1ULL << 42) + 1,
									  UINT64_MAX / 64,
									  1ULL << 60,
									  1ULL << 61,
									  1ULL << 62,
									  INT64_MAX - 31,
									  INT64_MAX - 1,
									  INT64_MAX,
									  1ULL << 63,
									  (1ULL << 63) + 1,
									  UINT64_MAX - 31,
									  UINT64_MAX - 7,
									  UINT64_MAX - 1,
									  UINT64_MAX};
	struct gguf_writer w;
	struct buf b;
	unsigned accepted = 0, n = 0;
	write_valid(&w, &b);
	for (size_t i = 0; i < w.n_fields; i++) {
		const struct gguf_field *f = &w.fields[i];
		uint64_t old = 0;
		memcpy(&old, b.data + f->at, f->width);
		for (size_t k = 0; k < sizeof values / sizeof values[0] + 4; k++) {
			const uint64_t near[4] = {old - 1, old + 1, old + 32, ~old};
			size_t n_values = sizeof values / sizeof values[0];
			uint64_t v = k < n_values ? values[k] : near[k - n_values];
			memcpy(b.data + f->at, &v, f->width);
			accepted += open_bytes(b.data, b.len) == 0;
			n++;
		}
		memcpy(b.data + f->at, &old, f->width);
	}
	ck_assert_msg(accepted < n / 8, "%u of %u", accepted,
				  n); // the old value, other scalars of one size, smaller shapes
	free_valid(&w, &b);
}
END_TEST

START_TEST(test_every_bit_flipped)
{
	struct gguf_writer w;
	struct buf b;
	write_valid(&w, &b);
	for (size_t i = 0; i < 8 * b.len; i++) {
		b.data[i / 8] ^= (char)(1 << i % 8);
		open_bytes(b.data, b.len);
		b.data[i / 8] ^= (char)(1 << i % 8);
	}
	free_valid(&w, &b);
}
END_TEST

// Bytes moved about, cut out and repeated, by a generator with a fixed seed.
START_TEST(test_spliced)
{
	struct gguf_writer w;
	struct buf b, c;
	uint64_t x = 88172645463325252ULL;
	write_valid(&w, &b);
	buf_init(&c);
	for (int i = 0; i < 10000; i++) {
		size_t cut[3];
		for (int k = 0; k < 3; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			const struct gguf_field *f = &w.fields[x % w.n_fields];
			cut[k] = x >> 40 & 1 ? f->at : x >> 41 & 1 ? f->at + f->width : (x >> 42) % b.len;
		}
		size_t to = cut[1] > cut[2] ? cut[1] : cut[2], from = cut[1] + cut[2] - to;
		buf_clear(&c);
		buf_append(&c, b.data, cut[0]);
		buf_append(&c, b.data + from, to - from);
		buf_append(&c, b.data + cut[0], b.len - cut[0]);
		open_bytes(c.data, c.len);
	}
	buf_deinit(&c);
	free_valid(&w, &b);
}
END_TEST

// --- files whose fault is known: the message must name it

static void expect(struct gguf_writer *w, const char *word)
{
	struct buf b;
	buf_init(&b);
	gguf_write_bytes(w, &b);
	int rc = open_bytes(b.data, b.len);
	ck_assert_msg(rc == ERR_INVALID && strstr(err, word), "code %d; \"%s\" is not in: %s", rc, word, err);
	buf_deinit(&b);
	gguf_write_deinit(w);
}

START_TEST(test_counts)
{
	static const uint64_t counts[] = {7, 1000000, INT64_MAX, UINT64_MAX / 64, UINT64_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		w.n_tensors = counts[i];
		expect(&w, "tensors");
		gguf_write_init(&w);
		w.n_keys = counts[i];
		expect(&w, "keys");
	}
}
END_TEST

START_TEST(test_dimensions)
{
	static const struct {
		uint32_t type;
		unsigned n;
		uint64_t dim[4];
		const char *word;
	} cases[] = {{0, 4, {INT64_MAX, 2, 1, 1}, "dimension 1 of 2 makes the size overflow"},
				 {0, 1, {UINT64_MAX, 1, 1, 1}, "overflow"},
				 {0, 1, {1ULL << 63, 1, 1, 1}, "overflow"},
				 {0, 1, {1ULL << 62, 1, 1, 1}, "its size in bytes overflows"},
				 {1, 1, {(1ULL << 62) + 1, 1, 1, 1}, "end of the file"},
				 {0, 4, {1ULL << 32, 1ULL << 32, 1, 1}, "overflow"},
				 {0, 4, {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}, "overflow"},
				 {8, 2, {(1ULL << 42) + 1, 1, 1, 1}, "no multiple of Q8_0's block of 32"},
				 {8, 2, {1ULL << 42, 1ULL << 20, 1, 1}, "end of the file"},
				 {12, 2, {128, 2, 1, 1}, "no multiple of Q4_K's block of 256"},
				 {0, 1, {0, 1, 1, 1}, "dimension 0 is zero"},
				 {8, 2, {32, 0, 1, 1}, "dimension 1 is zero"},
				 {0, 4, {1, 1, 1, 0}, "dimension 3 is zero"},
				 {0, 2, {0, UINT64_MAX, 1, 1}, "dimension 0 is zero"},
				 {0, 0, {1, 1, 1, 1}, "0 dimensions; 1 to 4"}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		gguf_write_tensor(&w, "the.weight", cases[i].type, cases[i].n, cases[i].dim, "12345678", 8);
		expect(&w, cases[i].word);
		ck_assert_msg(strstr(err, "tensor the.weight"), "%s", err);
	}
}
END_TEST

START_TEST(test_number_of_dimensions)
{
	static const uint32_t n_dims[] = {0, 5, 8, 1000000, INT32_MAX, UINT32_MAX};
	static const uint64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	for (size_t i = 0; i < sizeof n_dims / sizeof n_dims[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		gguf_write_tensor(&w, "t", DTYPE_F32, 8, ones, "1234", 4); // room for eight, so that only the number is wrong
		memcpy(w.infos.data + 8 + 1, &n_dims[i], 4);
		expect(&w, "dimensions; 1 to 4 are allowed");
	}
}
END_TEST

START_TEST(test_alignment)
{
	static const uint32_t numbers[] = {0, 1, 3, 4, 33, 1U << 21, 1U << 31, UINT32_MAX};
	struct gguf_writer w;
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		gguf_write_init(&w);
		gguf_write_u32(&w, "general.alignment", numbers[i]);
		expect(&w, "general.alignment must be");
	}
	for (int i = 0; i < 6; i++) {
		gguf_write_init(&w);
		if (i == 0)
			gguf_write_str(&w, "general.alignment", "32");
		else if (i == 1)
			gguf_write_f32(&w, "general.alignment", 32);
		else if (i == 2)
			gguf_write_bool(&w, "general.alignment", true);
		else if (i == 3)
			gguf_write_array(&w, "general.alignment", GGUF_U32, &(uint32_t){32}, 1);
		else if (i == 4)
			gguf_write_i32(&w, "general.alignment", -32);
		else
			gguf_write_u64(&w, "general.alignment", 1ULL << 63);
		expect(&w, "general.alignment must be");
	}
}
END_TEST

START_TEST(test_offsets)
{
	static const struct {
		uint64_t offset;
		const char *word;
	} cases[] = {{8, "offset 8 is no multiple of the alignment 32"},
				 {96, "end of the file"},
				 {1ULL << 40, "end of the file"},
				 {1ULL << 63, "end of the file"},
				 {UINT64_MAX - 31, "end of the file"},
				 {UINT64_MAX, "no multiple"},
				 {0, "tensors first and second overlap"},
				 {32, "overlap"}};
	static const float values[16] = {0};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		gguf_write_tensor_f32(&w, "first", 1, (uint64_t[]){16}, values);
		gguf_write_tensor_f32(&w, "second", 1, (uint64_t[]){8}, values); // at 64
		memcpy(w.infos.data + w.infos.len - 8, &cases[i].offset, 8);
		expect(&w, cases[i].word);
	}
}
END_TEST

START_TEST(test_names)
{
	char long_name[400];
	memset(long_name, 'n', sizeof long_name);
	long_name[sizeof long_name - 1] = 0;
	const struct {
		const char *name, *word;
	} cases[] = {{"", "1 to 256 are allowed"},
				 {long_name, "has 399 bytes"},
				 {"two\nlines", "control character 10"},
				 {"\x7F", "control character"},
				 {"\xC3(", "not UTF-8"}};
	struct gguf_writer w;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		gguf_write_init(&w);
		gguf_write_tensor_f32(&w, cases[i].name, 1, (uint64_t[]){1}, &(float){0});
		expect(&w, cases[i].word);
	}
	gguf_write_init(&w);
	gguf_write_tensor_f32(&w, "twice", 1, (uint64_t[]){1}, &(float){0});
	gguf_write_tensor_f32(&w, "twice", 1, (uint64_t[]){1}, &(float){0});
	expect(&w, "two tensors are called twice");
	gguf_write_init(&w);
	gguf_write_u32(&w, "a", 1);
	gguf_write_str(&w, "a", "");
	expect(&w, "the key a is there twice");
	gguf_write_init(&w);
	gguf_write_u32(&w, "", 1);
	expect(&w, "key 0 has a name of 0 bytes");
	gguf_write_init(&w);
	gguf_write_u32(&w, "line\nbreak", 1);
	gguf_write_u32(&w, "line\nbreak", 1);
	expect(&w, "the key line?break is there twice");
}
END_TEST

// The last key's value ends the file, so that its count can be changed where it stands.
START_TEST(test_strings_and_arrays)
{
	static const uint64_t counts[] = {2, 1ULL << 28, 1ULL << 31, 1ULL << 60, (1ULL << 61) + 1, INT64_MAX, UINT64_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		gguf_write_strings(&w, "tokenizer.ggml.tokens", NULL, 0);
		memcpy(w.keys.data + w.keys.len - 8, &counts[i], 8);
		expect(&w, "tokenizer.ggml.tokens claims");
		gguf_write_init(&w);
		gguf_write_array(&w, "scores", GGUF_F64, NULL, 0);
		memcpy(w.keys.data + w.keys.len - 8, &counts[i], 8);
		expect(&w, "scores claims");
		gguf_write_init(&w);
		gguf_write_str(&w, "text", "");
		memcpy(w.keys.data + w.keys.len - 8, &counts[i], 8);
		expect(&w, "text claims");
	}
}
END_TEST

START_TEST(test_types)
{
	static const uint32_t types[] = {13, 255, 1U << 31, UINT32_MAX};
	struct gguf_writer w;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		gguf_write_init(&w);
		gguf_write_bool(&w, "k", true);
		memcpy(w.keys.data + 8 + 1, &types[i], 4);
		expect(&w, "k has the unknown value type");
		gguf_write_init(&w);
		gguf_write_array(&w, "k", GGUF_U8, "12345678", 8);
		memcpy(w.keys.data + 8 + 1 + 4, &types[i], 4);
		expect(&w, "k is an array of type");
	}
	gguf_write_init(&w);
	gguf_write_array(&w, "nested", GGUF_U8, "123456789012345678901234", 24);
	memcpy(w.keys.data + 8 + 6 + 4, &(uint32_t){GGUF_ARRAY}, 4);
	expect(&w, "nested is an array of type 9");
}
END_TEST

// The worst that a file can ask for: nothing but the smallest keys and strings, 4 MiB of them.
START_TEST(test_memory_is_paid_for)
{
	struct rusage before, after;
	struct gguf_writer w;
	struct buf b;
	enum { N = 1 << 19 };
	static const char *strings[N];
	for (int i = 0; i < N; i++)
		strings[i] = "";
	gguf_write_init(&w);
	buf_init(&b);
	gguf_write_strings(&w, "k", strings, N);
	gguf_write_bytes(&w, &b);
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(open_bytes(b.data, b.len), 0);
	getrusage(RUSAGE_SELF, &after);
	// A copy of the bytes and twice as much for the table; sanitizers keep some freed blocks.
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 48 << 10);
	buf_deinit(&b);
	gguf_write_deinit(&w);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("gguf malformed");
	TCase *c = tcase_create("gguf malformed");
	tcase_set_timeout(c, 30); // sanitizers on a busy machine
	tcase_add_test(c, test_valid_one_is_accepted);
	tcase_add_test(c, test_truncated_at_every_byte);
	tcase_add_test(c, test_every_field_replaced);
	tcase_add_test(c, test_every_bit_flipped);
	tcase_add_test(c, test_spliced);
	tcase_add_test(c, test_counts);
	tcase_add_test(c, test_dimensions);
	tcase_add_test(c, test_number_of_dimensions);
	tcase_add_test(c, test_alignment);
	tcase_add_test(c, test_offsets);
	tcase_add_test(c, test_names);
	tcase_add_test(c, test_strings_and_arrays);
	tcase_add_test(c, test_types);
	tcase_add_test(c, test_memory_is_paid_for);
	suite_add_tcase(s, c);
	return s;
}
