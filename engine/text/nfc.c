// SPDX-License-Identifier: Apache-2.0
//
// Normal form C with utf8proc's tables. Its own driver sorts combining marks by insertion, which is quadratic in a run
// of them; here a run is sorted by counting (there are 256 classes), so a megabyte of marks costs as much as one of
// letters.
#include "engine/text/tokenizer_internal.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

// Nothing below U+0300 ever composes with what stands before it, or decomposes for good.
bool nfc_quick_check(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((uint8_t)s[i] >= 0xCC)
			return false;
	return true;
}

static unsigned class_of(int32_t cp)
{
	return (unsigned)utf8proc_get_property(cp)->combining_class & 0xFF;
}

// Stable order by combining class of a run in which none is 0.
static void sort_run(int32_t *run, size_t n, int32_t *spare)
{
	size_t at[256] = {0}, sum = 0;
	for (size_t i = 0; i < n; i++)
		at[class_of(run[i])]++;
	for (int c = 0; c < 256; c++) {
		size_t count = at[c];
		at[c] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		spare[at[class_of(run[i])]++] = run[i];
	memcpy(run, spare, n * sizeof *run);
}

static void sort_marks(int32_t *cps, size_t n)
{
	int32_t *spare = NULL;
	size_t cap = 0;
	for (size_t i = 0; i < n;) {
		size_t end = i;
		while (end < n && class_of(cps[end]))
			end++;
		if (end - i > 1) {
			mem_grow(&spare, &cap, end - i, sizeof *spare);
			sort_run(cps + i, end - i, spare);
		}
		i = end + 1;
	}
	free(spare);
}

void nfc_append(struct buf *out, const char *s, size_t n)
{
	enum { MOST = 32 }; // of characters in one canonical decomposition: 4 so far
	int32_t *cps = NULL;
	size_t k = 0, cap = 0;
	for (size_t i = 0; i < n;) {
		uint32_t cp;
		int len = utf8_decode(s + i, n - i, &cp), last = 0;
		CHECK(len > 0, "bad UTF-8 at %zu", i);
		mem_grow(&cps, &cap, k + MOST, sizeof *cps);
		utf8proc_ssize_t more =
			utf8proc_decompose_char((utf8proc_int32_t)cp, cps + k, MOST, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last);
		CHECK(more > 0 && more <= MOST, "U+%X", cp);
		k += (size_t)more;
		i += (size_t)len;
	}
	sort_marks(cps, k);
	utf8proc_ssize_t composed = utf8proc_normalize_utf32(cps, (utf8proc_ssize_t)k, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
	for (utf8proc_ssize_t i = 0; i < composed; i++) {
		char c[4];
		int len = utf8_encode((uint32_t)cps[i], c);
		buf_append(out, c, (size_t)len);
	}
	free(cps);
}
