// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pretokenize.h"

#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The patterns of the table backtrack at most once over a match, so that the limits only bound what no test has thought
// of.
enum { MAX_STEPS = 8, MATCH_LIMIT = 100000000, HEAP_LIMIT_KIB = 64 << 10 };

struct step {
	enum pretokenizer_cut cut;
	bool jit;
	pcre2_code *code;
};

struct pretokenizer {
	int n;
	struct step step[MAX_STEPS];
	pcre2_match_context *limits;
};

const struct pretokenizer_name *pretokenizer_find(const char *name, size_t n)
{
	for (const struct pretokenizer_name *p = pretokenizer_names; p->name; p++)
		if (strlen(p->name) == n && !memcmp(p->name, name, n))
			return p;
	return NULL;
}

int pretokenizer_unknown(const char *where, const char *name, size_t n, char *err, size_t len)
{
	struct buf known;
	buf_init(&known);
	for (const struct pretokenizer_name *p = pretokenizer_names; p->name; p++)
		if (*p->name)
			buf_printf(&known, " %s", p->name);
	err_set(err, len, ERR_UNSUPPORTED, "%s: the pre-tokenizer \"%.*s\" is not known; known:%s", where,
			(int)(n < 64 ? n : 64), name, known.data);
	buf_deinit(&known);
	return ERR_UNSUPPORTED;
}

static int compile(struct step *s, const char *pattern)
{
	int code;
	PCRE2_SIZE at;
	s->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
							&code, &at, NULL);
	if (!s->code)
		return (int)at;
	// Without JIT (a hardened system) matching is slower and right all the same.
	s->jit = !pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
	return -1;
}

int pretokenizer_create(const struct pretokenizer_step *steps, struct pretokenizer **out, char *err, size_t len)
{
	struct pretokenizer *p = mem_zalloc(1, sizeof *p);
	*out = NULL;
	p->limits = pcre2_match_context_create(NULL);
	CHECK(p->limits, "out of memory");
	pcre2_set_match_limit(p->limits, MATCH_LIMIT);
	pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KIB);
	for (; steps[p->n].pattern; p->n++) {
		int at = p->n < MAX_STEPS ? compile(&p->step[p->n], steps[p->n].pattern) : 0;
		if (at >= 0) {
			int n = p->n;
			pretokenizer_destroy(p);
			return err_set(err, len, ERR_INVALID,
						   "pattern %d of the pre-tokenizer does not compile at byte %d; at most %d that do are taken",
						   n + 1, at, MAX_STEPS);
		}
		p->step[p->n].cut = steps[p->n].cut;
	}
	*out = p;
	return 0;
}

void pretokenizer_destroy(struct pretokenizer *p)
{
	if (!p)
		return;
	for (int i = 0; i < p->n; i++)
		pcre2_code_free(p->step[i].code);
	pcre2_match_context_free(p->limits);
	free(p);
}

struct split {
	const struct pretokenizer *p;
	pcre2_match_data *data[MAX_STEPS];
	void (*fn)(void *ctx, const char *s, size_t n);
	void *ctx;
};

static void split_piece(struct split *s, int level, const char *text, size_t n);

// Hands text[from..to) on unless it is empty; returns `to`, up to where all is done now.
static size_t hand_on(struct split *s, int level, const char *text, size_t from, size_t to)
{
	if (to > from)
		split_piece(s, level + 1, text + from, to - from);
	return to;
}

// Cuts in front of each three characters of text[from..to), counted from the right. What is before a cut is handed on.
static size_t cut_threes(struct split *s, int level, const char *text, size_t done, size_t from, size_t to)
{
	size_t left = 0;
	for (size_t i = from; i < to; i++)
		left += (text[i] & 0xC0) != 0x80;
	for (size_t i = from; i < to; i++) {
		if ((text[i] & 0xC0) == 0x80)
			continue;
		if (left % 3 == 0)
			done = hand_on(s, level, text, done, i);
		left--;
	}
	return done;
}

// Step `level` on one piece; what it leaves goes to the next. The depth is the number of steps.
static void split_piece(struct split *s, int level, const char *text, size_t n)
{
	if (level == s->p->n || n == 1) { // one character cannot be cut
		s->fn(s->ctx, text, n);
		return;
	}
	const struct step *step = &s->p->step[level];
	PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->data[level]);
	size_t at = 0, done = 0;
	while (at < n) {
		int rc = step->jit ? pcre2_jit_match(step->code, (PCRE2_SPTR)text, n, at, PCRE2_NOTEMPTY, s->data[level],
											 s->p->limits)
						   : pcre2_match(step->code, (PCRE2_SPTR)text, n, at, PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK,
										 s->data[level], s->p->limits);
		if (rc < 0) // no match, or a limit: the rest is one piece
			break;
		if (step->cut != CUT_BEFORE_THREES)
			done = hand_on(s, level, text, done, v[0]);
		if (step->cut != CUT_AROUND)
			done = cut_threes(s, level, text, done, v[0], v[1]);
		if (step->cut != CUT_BEFORE_THREES)
			done = hand_on(s, level, text, done, v[1]);
		at = v[1];
	}
	hand_on(s, level, text, done, n);
}

void pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n,
						void (*fn)(void *ctx, const char *s, size_t n), void *ctx)
{
	struct split s = {.p = p, .fn = fn, .ctx = ctx};
	for (int i = 0; i < p->n; i++) {
		s.data[i] = pcre2_match_data_create(1, NULL);
		CHECK(s.data[i], "out of memory");
	}
	if (n)
		split_piece(&s, 0, text, n);
	for (int i = 0; i < p->n; i++)
		pcre2_match_data_free(s.data[i]);
}
