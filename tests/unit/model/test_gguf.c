// SPDX-License-Identifier: Apache-2.0
//
// Valid GGUF files, and files that cannot be opened for reasons outside of their bytes. Broken bytes:
// test_gguf_malformed.
#include "engine/base/err.h"
#include "engine/model/gguf_internal.h"
#include "tests/unit/model/gguf_walk.h"
#include "tests/unit/model/gguf_write.h"
#include "tests/unit/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char err[1024], dir[] = "/tmp/quire-gguf-XXXXXX";

static void make_dir(void)
{
	strcpy(dir + sizeof dir - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
	static char path[4][256];
	static int next;
	next = (next + 1) % 4;
	snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
	return path[next];
}

static struct gguf *open_ok(const char *path)
{
	struct gguf *g = NULL;
	ck_assert_msg(gguf_open(path, &g, err, sizeof err) == 0, "%s", err);
	gguf_walk(g);
	return g;
}

// The file is refused with that code, and the message, one line, has every one of the words (up to NULL).
static void refused(const char *path, int code, const char *const *words)
{
	struct gguf *g = (struct gguf *)&g;
	err[0] = 0;
	int rc = gguf_open(path, &g, err, sizeof err);
	ck_assert_msg(rc == code, "%s: code %d, not %d: %s", path, rc, code, err);
	ck_assert_ptr_null(g);
	ck_assert_msg(!strncmp(err, dir, strlen(dir)) && !strchr(err, '\n'), "%s", err);
	for (; *words; words++)
		ck_assert_msg(strstr(err, *words) != NULL, "\"%s\" is not in: %s", *words, err);
}

#define REFUSED(path, code, ...) refused(path, code, (const char *const[]){__VA_ARGS__, NULL})

static void write_keys(struct gguf_writer *w)
{
	gguf_write_str(w, "general.architecture", "llama");
	gguf_write_scalar(w, "u8", GGUF_U8, &(uint8_t){255});
	gguf_write_scalar(w, "i8", GGUF_I8, &(int8_t){-128});
	gguf_write_scalar(w, "u16", GGUF_U16, &(uint16_t){65535});
	gguf_write_scalar(w, "i16", GGUF_I16, &(int16_t){-2});
	gguf_write_u32(w, "u32", 4000000000U);
	gguf_write_i32(w, "i32", -7);
	gguf_write_i32(w, "i32.positive", 7);
	gguf_write_f32(w, "f32", 1.5F);
	gguf_write_bool(w, "yes", true);
	gguf_write_bool(w, "no", false);
	gguf_write_u64(w, "u64", UINT64_MAX);
	gguf_write_scalar(w, "i64", GGUF_I64, &(int64_t){INT64_MIN});
	gguf_write_scalar(w, "f64", GGUF_F64, &(double){-0.1});
	gguf_write_str(w, "empty", "");
	gguf_write_str_n(w, "nul", "a\0b", 3);
	gguf_write_array(w, "array.i16", GGUF_I16, (int16_t[]){-1, 2, INT16_MIN}, 3);
	gguf_write_array(w, "array.u64", GGUF_U64, (uint64_t[]){5, UINT64_MAX}, 2);
	gguf_write_array(w, "array.f32", GGUF_F32, (float[]){0.25F, -8}, 2);
	gguf_write_array(w, "array.bool", GGUF_BOOL, (uint8_t[]){1, 0, 1}, 3);
	gguf_write_array(w, "array.none", GGUF_U32, NULL, 0);
	gguf_write_strings(w, "array.text", (const char *const[]){"<s>", "", "\xE2\x96\x81the"}, 3);
}

START_TEST(test_scalars)
{
	struct gguf_writer w;
	gguf_write_init(&w);
	write_keys(&w);
	gguf_write_file(&w, path_of("m.gguf"));
	gguf_write_deinit(&w);
	struct gguf *g = open_ok(path_of("m.gguf"));
	static const struct {
		const char *key;
		int as_u64, as_f64; // what the call returns
		uint64_t u64;
		double f64;
	} numbers[] = {{"u8", 1, 1, 255, 255},
				   {"i8", ERR_INVALID, 1, 0, -128},
				   {"u16", 1, 1, 65535, 65535},
				   {"i16", ERR_INVALID, 1, 0, -2},
				   {"u32", 1, 1, 4000000000U, 4e9},
				   {"i32", ERR_INVALID, 1, 0, -7},
				   {"i32.positive", 1, 1, 7, 7},
				   {"f32", ERR_INVALID, 1, 0, 1.5},
				   {"f64", ERR_INVALID, 1, 0, -0.1},
				   {"u64", 1, 1, UINT64_MAX, 0x1p64},
				   {"i64", ERR_INVALID, 1, 0, -0x1p63},
				   {"yes", ERR_INVALID, ERR_INVALID, 0, 0},
				   {"empty", ERR_INVALID, ERR_INVALID, 0, 0},
				   {"array.i16", ERR_INVALID, ERR_INVALID, 0, 0},
				   {"absent", 0, 0, 0, 0}};
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		uint64_t u = 0;
		double d = 0;
		ck_assert_msg(gguf_get_u64(g, numbers[i].key, &u) == numbers[i].as_u64, "%s", numbers[i].key);
		ck_assert_msg(gguf_get_f64(g, numbers[i].key, &d) == numbers[i].as_f64, "%s", numbers[i].key);
		ck_assert_msg(u == numbers[i].u64 && d == numbers[i].f64, "%s", numbers[i].key);
	}
	bool yes = false, no = true;
	ck_assert_int_eq(gguf_get_bool(g, "yes", &yes), 1);
	ck_assert_int_eq(gguf_get_bool(g, "no", &no), 1);
	ck_assert(yes && !no);
	ck_assert_int_eq(gguf_get_bool(g, "u8", &yes), ERR_INVALID);
	ck_assert_int_eq(gguf_get_bool(g, "absent", &yes), 0);
	gguf_close(g);
}
END_TEST

static void check_str(struct gguf_str s, const char *want, size_t len)
{
	ck_assert_uint_eq(s.len, len);
	ck_assert_mem_eq(s.data, want, len);
}

START_TEST(test_strings_and_arrays)
{
	struct gguf_writer w;
	gguf_write_init(&w);
	write_keys(&w);
	gguf_write_file(&w, path_of("m.gguf"));
	gguf_write_deinit(&w);
	struct gguf *g = open_ok(path_of("m.gguf"));
	struct gguf_str s;
	struct gguf_array a;
	ck_assert_int_eq(gguf_get_str(g, "general.architecture", &s), 1);
	check_str(s, "llama", 5);
	ck_assert_int_eq(gguf_get_str(g, "empty", &s), 1);
	check_str(s, "", 0);
	ck_assert_int_eq(gguf_get_str(g, "nul", &s), 1);
	check_str(s, "a\0b", 3);
	ck_assert_int_eq(gguf_get_str(g, "u8", &s), ERR_INVALID);
	ck_assert_int_eq(gguf_get_str(g, "absent", &s), 0);
	ck_assert_int_eq(gguf_get_array(g, "u8", &a), ERR_INVALID);
	ck_assert_int_eq(gguf_get_array(g, "absent", &a), 0);

	ck_assert_int_eq(gguf_get_array(g, "array.i16", &a), 1);
	ck_assert(a.type == GGUF_I16 && a.n == 3);
	ck_assert(gguf_array_i64(&a, 0) == -1 && gguf_array_i64(&a, 1) == 2 && gguf_array_f64(&a, 2) == INT16_MIN);
	ck_assert_int_eq(gguf_get_array(g, "array.u64", &a), 1);
	ck_assert(gguf_array_i64(&a, 0) == 5 && gguf_array_i64(&a, 1) == INT64_MAX && gguf_array_f64(&a, 1) == 0x1p64);
	ck_assert_int_eq(gguf_get_array(g, "array.f32", &a), 1);
	ck_assert(gguf_array_f64(&a, 0) == 0.25 && gguf_array_f64(&a, 1) == -8);
	ck_assert_int_eq(gguf_get_array(g, "array.bool", &a), 1);
	ck_assert(gguf_array_i64(&a, 0) == 1 && gguf_array_i64(&a, 1) == 0 && a.n == 3);
	ck_assert_int_eq(gguf_get_array(g, "array.none", &a), 1);
	ck_assert_uint_eq(a.n, 0);
	ck_assert_int_eq(gguf_get_array(g, "array.text", &a), 1);
	ck_assert(a.type == GGUF_STRING && a.n == 3);
	check_str(gguf_array_str(&a, 0), "<s>", 3);
	check_str(gguf_array_str(&a, 1), "", 0);
	check_str(gguf_array_str(&a, 2), "\xE2\x96\x81the", 6);
	gguf_close(g);
}
END_TEST

static const float values[64] = {1, 2, 3, 4, -5};

static void write_tensors(struct gguf_writer *w)
{
	static const uint8_t blocks[2 * 3 * 34] = {7};
	gguf_write_tensor_f32(w, "norm.weight", 1, (uint64_t[]){5}, values);
	gguf_write_tensor(w, "q.weight", DTYPE_Q8_0, 2, (uint64_t[]){64, 3}, blocks, sizeof blocks);
	gguf_write_tensor_f32(w, "four", 4, (uint64_t[]){2, 1, 3, 2}, values);
}

START_TEST(test_tensors)
{
	static const uint32_t alignments[] = {0, 8, 32, 4096, 1 << 20}; // 0: not stated
	for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		w.version = i == 1 ? 2 : 3;
		if (alignments[i])
			gguf_write_alignment(&w, alignments[i]);
		write_tensors(&w);
		gguf_write_file(&w, path_of("m.gguf"));
		gguf_write_deinit(&w);
		struct gguf *g = open_ok(path_of("m.gguf"));
		ck_assert_uint_eq(gguf_n_tensors(g), 3);
		ck_assert_str_eq(gguf_path(g), path_of("m.gguf"));
		const struct gguf_tensor *t = gguf_find_tensor(g, "norm.weight");
		ck_assert_ptr_eq(t, gguf_tensor_at(g, 0));
		ck_assert(t->type == DTYPE_F32 && t->n_dims == 1 && t->dim[0] == 5 && t->dim[3] == 1 && t->bytes == 20);
		ck_assert_mem_eq(t->data, values, 20);
		t = gguf_find_tensor(g, "q.weight");
		ck_assert(t->type == DTYPE_Q8_0 && t->n_dims == 2 && t->dim[0] == 64 && t->dim[1] == 3 && t->bytes == 204);
		ck_assert_int_eq(*(const uint8_t *)t->data, 7);
		t = gguf_find_tensor(g, "four");
		ck_assert(t->n_dims == 4 && t->dim[1] == 1 && t->dim[2] == 3 && t->dim[3] == 2 && t->bytes == 48);
		gguf_drop_pages(g, t);
		ck_assert_mem_eq(t->data, values, 48);
		ck_assert_ptr_null(gguf_find_tensor(g, "norm"));
		ck_assert_ptr_null(gguf_find_tensor(g, ""));
		gguf_close(g);
	}
	gguf_close(NULL);
}
END_TEST

START_TEST(test_many_tensors)
{
	enum { MANY = 50000 };
	struct gguf_writer w;
	char name[32];
	gguf_write_init(&w);
	gguf_write_alignment(&w, 8);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "blk.%d.weight", i);
		gguf_write_tensor_f32(&w, name, 1, (uint64_t[]){1}, &(float){(float)i});
	}
	gguf_write_file(&w, path_of("m.gguf"));
	gguf_write_deinit(&w);
	struct gguf *g = open_ok(path_of("m.gguf"));
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "blk.%d.weight", i);
		ck_assert(*(const float *)gguf_find_tensor(g, name)->data == (float)i);
	}
	gguf_close(g);
}
END_TEST

START_TEST(test_junk_after_the_data)
{
	struct gguf_writer w;
	gguf_write_init(&w);
	write_keys(&w);
	gguf_write_file(&w, path_of("m.gguf")); // without tensors: a vocabulary alone
	gguf_write_deinit(&w);
	FILE *f = fopen(path_of("m.gguf"), "ab");
	fputs("junk", f);
	fclose(f);
	gguf_close(open_ok(path_of("m.gguf")));
}
END_TEST

START_TEST(test_memory_is_not_dropped)
{
	struct gguf_writer w;
	struct buf b;
	struct gguf *g;
	static float page[4096];
	page[2048] = 3;
	gguf_write_init(&w);
	buf_init(&b);
	gguf_write_tensor_f32(&w, "t", 1, (uint64_t[]){4096}, page);
	gguf_write_bytes(&w, &b);
	ck_assert_int_eq(gguf__open_memory("memory", b.data, b.len, &g, err, sizeof err), 0);
	ck_assert_uint_eq(gguf_file_bytes(g), b.len);
	gguf_drop_pages(g, gguf_tensor_at(g, 0));
	ck_assert_mem_eq(gguf_tensor_at(g, 0)->data, page, sizeof page);
	gguf_close(g);
	buf_deinit(&b);
	gguf_write_deinit(&w);
}
END_TEST

static void write_text(const char *path, const char *text, size_t n)
{
	FILE *f = fopen(path, "wb");
	ck_assert_uint_eq(fwrite(text, 1, n, f), n);
	fclose(f);
}

START_TEST(test_not_a_file)
{
	REFUSED(path_of("absent.gguf"), ERR_IO, "absent.gguf", "No such file");
	REFUSED(dir, ERR_IO, "not a regular file");
	ck_assert_int_eq(mkfifo(path_of("pipe"), 0600), 0);
	REFUSED(path_of("pipe"), ERR_IO, "pipe", "not a regular file");
	write_text(path_of("m.gguf"), "", 0);
	REFUSED(path_of("m.gguf"), ERR_INVALID, "empty");
}
END_TEST

START_TEST(test_another_kind_of_file)
{
	static const struct {
		const char *bytes;
		size_t n;
		int code;
		const char *word;
	} files[] = {{"GGU", 3, ERR_INVALID, "not a GGUF file"},
				 {"version https://git-lfs.github.com/spec/v1\n", 43, ERR_INVALID, "not a GGUF file"},
				 {"GGUF", 4, ERR_INVALID, "ends inside the version, at byte 4"},
				 {"GGUF\1\0\0\0", 8, ERR_UNSUPPORTED, "GGUF version 1; this build reads versions 2 and 3"},
				 {"GGUF\4\0\0\0", 8, ERR_UNSUPPORTED, "GGUF version 4"},
				 {"GGUF\0\0\0\0", 8, ERR_UNSUPPORTED, "GGUF version 0"},
				 {"GGUF\0\0\0\3", 8, ERR_UNSUPPORTED, "big-endian"},
				 {"GGUF\0\0\0\2", 8, ERR_UNSUPPORTED, "big-endian"},
				 {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16, ERR_INVALID, "number of keys"}};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		write_text(path_of("m.gguf"), files[i].bytes, files[i].n);
		REFUSED(path_of("m.gguf"), files[i].code, files[i].word, "m.gguf: ");
	}
}
END_TEST

START_TEST(test_unreadable_type)
{
	static const struct {
		uint32_t type;
		int code;
		const char *word;
	} types[] = {{17, ERR_UNSUPPORTED, "IQ2_XS, which this build cannot read; it reads F32 "},
				 {39, ERR_UNSUPPORTED, "MXFP4"},
				 {34, ERR_UNSUPPORTED, "TQ1_0"},
				 {999, ERR_INVALID, "unknown type number 999"}};
	static const uint8_t bytes[1024] = {0};
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		gguf_write_tensor(&w, "blk.0.odd", types[i].type, 2, (uint64_t[]){256, 1}, bytes, sizeof bytes);
		gguf_write_file(&w, path_of("m.gguf"));
		gguf_write_deinit(&w);
		REFUSED(path_of("m.gguf"), types[i].code, types[i].word, "blk.0.odd");
	}
}
END_TEST

// --- split files

struct part {
	const char *name;	  // of the file
	int no, count, total; // -1: the key is absent
	uint32_t alignment;	  // 0: not stated
	const char *tensor;	  // one, of two values: no, no + 1
};

static void write_parts(const struct part *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct gguf_writer w;
		gguf_write_init(&w);
		if (i == 0)
			gguf_write_str(&w, "general.architecture", "llama");
		if (p[i].no >= 0)
			gguf_write_scalar(&w, "split.no", GGUF_U16, &(uint16_t){(uint16_t)p[i].no});
		if (p[i].count >= 0)
			gguf_write_scalar(&w, "split.count", GGUF_U16, &(uint16_t){(uint16_t)p[i].count});
		if (p[i].total >= 0)
			gguf_write_i32(&w, "split.tensors.count", p[i].total);
		if (p[i].alignment)
			gguf_write_alignment(&w, p[i].alignment);
		float pair[2] = {(float)p[i].no, (float)p[i].no + 1};
		if (p[i].tensor)
			gguf_write_tensor_f32(&w, p[i].tensor, 1, (uint64_t[]){2}, pair);
		gguf_write_file(&w, path_of(p[i].name));
		gguf_write_deinit(&w);
	}
}

#define PART1 "m-00001-of-00003.gguf"
#define PART2 "m-00002-of-00003.gguf"
#define PART3 "m-00003-of-00003.gguf"

static const struct part good_parts[3] = {
	{PART1, 0, 3, 3, 4096, "a"}, {PART2, 1, 3, 3, 0, "b"}, {PART3, 2, 3, 3, 64, "c"}};

START_TEST(test_split)
{
	write_parts(good_parts, 3);
	struct gguf *g = open_ok(path_of(PART1));
	ck_assert_uint_eq(gguf_n_tensors(g), 3);
	size_t bytes = 0;
	for (int i = 0; i < 3; i++) {
		struct stat st;
		const float *v = gguf_find_tensor(g, good_parts[i].tensor)->data;
		ck_assert(v[0] == (float)i && v[1] == (float)i + 1);
		stat(path_of(good_parts[i].name), &st);
		bytes += (size_t)st.st_size;
	}
	ck_assert_uint_eq(gguf_file_bytes(g), bytes);
	struct gguf_str s;
	ck_assert_int_eq(gguf_get_str(g, "general.architecture", &s), 1);
	gguf_close(g);
}
END_TEST

START_TEST(test_split_without_tensors_in_the_first)
{
	struct part p[3];
	memcpy(p, good_parts, sizeof p);
	p[0].tensor = NULL;
	for (int i = 0; i < 3; i++)
		p[i].total = i ? 2 : -1; // the count may be left out
	write_parts(p, 3);
	struct gguf *g = open_ok(path_of(PART1));
	ck_assert_uint_eq(gguf_n_tensors(g), 2);
	gguf_close(g);
}
END_TEST

START_TEST(test_split_opened_at_another_part)
{
	write_parts(good_parts, 3);
	REFUSED(path_of(PART2), ERR_INVALID, "part 2 of 3", "open the first part", path_of(PART1));
	ck_assert_int_eq(rename(path_of(PART3), path_of("z.gguf")), 0);
	REFUSED(path_of("z.gguf"), ERR_INVALID, "part 3 of 3", "split.no is 0");
}
END_TEST

START_TEST(test_split_with_a_part_missing)
{
	write_parts(good_parts, 3);
	unlink(path_of(PART3));
	REFUSED(path_of(PART1), ERR_IO, path_of(PART3), "No such file");
	ck_assert_int_eq(rename(path_of(PART1), path_of("first.gguf")), 0);
	REFUSED(path_of("first.gguf"), ERR_INVALID, "-00001-of-00003.gguf");
}
END_TEST

START_TEST(test_split_that_contradicts_itself)
{
	static const struct {
		int part;
		struct part instead;
		const char *file, *word;
	} cases[] = {{1, {PART2, 2, 3, 3, 0, "b"}, PART2, "split.no is 2"},
				 {1, {PART2, 1, 4, 3, 0, "b"}, PART2, "split.count 4"},
				 {1, {PART2, -1, -1, -1, 0, "b"}, PART2, "split.no is 0 and split.count 1"},
				 {2, {PART3, 3, 3, 3, 0, "c"}, PART3, "split.no must be"},
				 {2, {PART3, 2, 3, 3, 3, "c"}, PART3, "general.alignment"},
				 {2, {PART3, 2, 3, 3, 0, "a"}, PART1, "two tensors are called a"},
				 {0, {PART1, 0, 3, 7, 0, "a"}, PART1, "split.tensors.count"},
				 {0, {PART1, 0, 9999, 3, 0, "a"}, PART1, "split.count must be"},
				 {0, {PART1, 0, 2, 3, 0, "a"}, "m-00002-of-00002.gguf", "No such file"}};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct part p[3];
		memcpy(p, good_parts, sizeof p);
		p[cases[i].part] = cases[i].instead;
		write_parts(p, 3);
		REFUSED(path_of(PART1), i == 8 ? ERR_IO : ERR_INVALID, path_of(cases[i].file), cases[i].word);
	}
}
END_TEST

START_TEST(test_path_limits)
{
	static char path[2 * PATH_MAX];
	memset(path, 'a', sizeof path - 1);
	memcpy(path, dir, strlen(dir));
	REFUSED(path, ERR_IO, "");
	ck_assert_uint_eq(strlen(err), sizeof err - 1); // cut, and terminated
	struct gguf *g;
	ck_assert_int_eq(gguf_open(path_of("absent"), &g, NULL, 0), ERR_IO);
}
END_TEST

Suite *test_suite(void)
{
	Suite *s = suite_create("gguf");
	TCase *c = tcase_create("gguf");
	tcase_add_unchecked_fixture(c, make_dir, remove_dir);
	tcase_add_test(c, test_scalars);
	tcase_add_test(c, test_strings_and_arrays);
	tcase_add_test(c, test_tensors);
	tcase_add_test(c, test_many_tensors);
	tcase_add_test(c, test_junk_after_the_data);
	tcase_add_test(c, test_memory_is_not_dropped);
	tcase_add_test(c, test_not_a_file);
	tcase_add_test(c, test_another_kind_of_file);
	tcase_add_test(c, test_unreadable_type);
	tcase_add_test(c, test_split);
	tcase_add_test(c, test_split_without_tensors_in_the_first);
	tcase_add_test(c, test_split_opened_at_another_part);
	tcase_add_test(c, test_split_with_a_part_missing);
	tcase_add_test(c, test_split_that_contradicts_itself);
	tcase_add_test(c, test_path_limits);
	suite_add_tcase(s, c);
	return s;
}
