// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pretokenize.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERNS = 5, MATCH_LIMIT = 1000000 };

struct pretokenizer {
	int n;
	bool ignore_merges;
	pcre2_code *code[MAX_PATTERNS];
};

static const struct pretokenizer_name *find(const char *name, size_t n)
{
	for (const struct pretokenizer_name *p = pretokenizer_names; p->name; p++)
		if (strlen(p->name) == n && !memcmp(p->name, name, n))
			return p;
	return NULL;
}

static int unknown(const char *name, size_t n, char *err, size_t len)
{
	int at = snprintf(err, len, "the pre-tokenizer %.*s is not known; known:", (int)(n < 64 ? n : 64), name);
	for (const struct pretokenizer_name *p = pretokenizer_names; p->name && at > 0 && (size_t)at < len; p++)
		at += snprintf(err + at, len - (size_t)at, " %s", p->name);
	return ERR_UNSUPPORTED;
}

int pretokenizer_create(const char *name, size_t n, struct pretokenizer **out, char *err, size_t len)
{
	const struct pretokenizer_name *known = find(name, n);
	if (!known)
		return unknown(name, n, err, len);
	struct pretokenizer *p = mem_zalloc(1, sizeof *p);
	p->ignore_merges = known->ignore_merges;
	for (; known->patterns[p->n]; p->n++) {
		int code;
		PCRE2_SIZE at;
		CHECK(p->n < MAX_PATTERNS, "%s", known->name);
		p->code[p->n] = pcre2_compile((PCRE2_SPTR)known->patterns[p->n], PCRE2_ZERO_TERMINATED,
		                              PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &at, NULL);
		if (!p->code[p->n]) {
			err_set(err, len, ERR_INTERNAL, "pattern %d of the pre-tokenizer %s does not compile at %zu", p->n, known->name, at);
			pretokenizer_destroy(p);
			return ERR_INTERNAL;
		}
		// Without JIT (a hardened system) matching is slower and right all the same.
		(void)pcre2_jit_compile(p->code[p->n], PCRE2_JIT_COMPLETE);
	}
	*out = p;
	return 0;
}

void pretokenizer_destroy(struct pretokenizer *p)
{
	for (int i = 0; p && i < p->n; i++)
		pcre2_code_free(p->code[i]);
	free(p);
}

bool pretokenizer_ignores_merges(const struct pretokenizer *p)
{
	return p->ignore_merges;
}

struct split {
	const struct pretokenizer *p;
	pcre2_match_data *data[MAX_PATTERNS];
	pcre2_match_context *limits;
	void (*fn)(void *ctx, const char *s, size_t n);
	void *ctx;
};

// Pattern `level` on one piece; what it leaves goes to the next. Depth is the number of patterns.
static void split_piece(struct split *s, int level, const char *text, size_t n)
{
	if (level == s->p->n) {
		s->fn(s->ctx, text, n);
		return;
	}
	size_t at = 0, done = 0;
	while (at < n) {
		int rc = pcre2_match(s->p->code[level], (PCRE2_SPTR)text, n, at, PCRE2_NOTEMPTY, s->data[level], s->limits);
		if (rc < 0) // no match, or the limit of a hostile text: the rest is one piece
			break;
		PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->data[level]);
		if (v[0] > done)
			split_piece(s, level + 1, text + done, v[0] - done);
		split_piece(s, level + 1, text + v[0], v[1] - v[0]);
		at = done = v[1];
	}
	if (done < n)
		split_piece(s, level + 1, text + done, n - done);
}

void pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n, void (*fn)(void *ctx, const char *s, size_t n),
                        void *ctx)
{
	struct split s = {.p = p, .fn = fn, .ctx = ctx, .limits = pcre2_match_context_create(NULL)};
	CHECK(s.limits, "out of memory");
	pcre2_set_match_limit(s.limits, MATCH_LIMIT);
	for (int i = 0; i < p->n; i++) {
		s.data[i] = pcre2_match_data_create(1, NULL);
		CHECK(s.data[i], "out of memory");
	}
	split_piece(&s, 0, text, n);
	for (int i = 0; i < p->n; i++)
		pcre2_match_data_free(s.data[i]);
	pcre2_match_context_free(s.limits);
}
