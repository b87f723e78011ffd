// SPDX-License-Identifier: Apache-2.0
#include "server/token_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Continues a list in b.
static struct json_out continue_list(struct buf *b)
{
	return (struct json_out){b, b->len > 0};
}

static void write_token(struct json_out *o, const struct tokenizer *t, int32_t id)
{
	size_t n;
	const char *piece = tokenizer_piece(t, id, &n);
	json_out_string(o, piece, n);
}

static void write_bytes(struct json_out *o, const struct tokenizer *t, int32_t id)
{
	if (tokenizer_type(t, id) == TOKEN_CONTROL) {
		json_out_null(o);
		return;
	}
	size_t n;
	const char *piece = tokenizer_piece(t, id, &n);
	json_out_begin(o, '[');
	for (size_t i = 0; i < n; i++)
		json_out_int(o, (unsigned char)piece[i]);
	json_out_end(o, ']');
}

static void write_entry(struct json_out *o, const struct tokenizer *t, int32_t id, float logprob)
{
	json_out_key(o, "token");
	write_token(o, t, id);
	json_out_key(o, "logprob");
	json_out_float(o, logprob);
	json_out_key(o, "bytes");
	write_bytes(o, t, id);
}

void token_log_chat(struct token_log *log, const struct tokenizer *t, const struct engine_event *ev)
{
	struct json_out o = continue_list(&log->part[LOG_TOKENS]);
	json_out_begin(&o, '{');
	write_entry(&o, t, ev->token, ev->logprob);
	json_out_key(&o, "top_logprobs");
	json_out_begin(&o, '[');
	for (int i = 0; i < ev->n_top; i++) {
		json_out_begin(&o, '{');
		write_entry(&o, t, ev->top[i].id, ev->top[i].logprob);
		json_out_end(&o, '}');
	}
	json_out_end(&o, ']');
	json_out_end(&o, '}');
}

static bool same_piece(const struct tokenizer *t, int32_t a, int32_t b)
{
	size_t na, nb;
	const char *pa = tokenizer_piece(t, a, &na), *pb = tokenizer_piece(t, b, &nb);
	return na == nb && memcmp(pa, pb, na) == 0;
}

// Tokens are keys here: of two with the same text the first, which is the likelier, stays.
static void write_top_object(struct json_out *o, const struct tokenizer *t, const struct engine_event *ev)
{
	bool has_chosen = false;
	json_out_begin(o, '{');
	for (int i = 0; i < ev->n_top; i++) {
		bool seen = false;
		for (int k = 0; k < i && !seen; k++)
			seen = same_piece(t, ev->top[k].id, ev->top[i].id);
		has_chosen = has_chosen || same_piece(t, ev->top[i].id, ev->token);
		if (seen)
			continue;
		size_t n;
		const char *piece = tokenizer_piece(t, ev->top[i].id, &n);
		json_out_key_string(o, piece, n);
		json_out_float(o, ev->top[i].logprob);
	}
	if (!has_chosen) {
		size_t n;
		const char *piece = tokenizer_piece(t, ev->token, &n);
		json_out_key_string(o, piece, n);
		json_out_float(o, ev->logprob);
	}
	json_out_end(o, '}');
}

void token_log_completion(struct token_log *log, const struct tokenizer *t, const struct engine_event *ev,
						  size_t offset)
{
	struct json_out tokens = continue_list(&log->part[LOG_TOKENS]), values = continue_list(&log->part[LOG_VALUES]);
	struct json_out tops = continue_list(&log->part[LOG_TOPS]), offsets = continue_list(&log->part[LOG_OFFSETS]);
	write_token(&tokens, t, ev->token);
	json_out_float(&values, ev->logprob); // NaN, of a first token, is null
	if (isnan(ev->logprob))
		json_out_null(&tops);
	else
		write_top_object(&tops, t, ev);
	json_out_int(&offsets, (int64_t)offset);
}

static void write_ranked(struct json_out *o, const struct tokenizer *t, int32_t id, float logprob, int rank)
{
	char key[16];
	snprintf(key, sizeof key, "%d", (int)id);
	json_out_key(o, key);
	json_out_begin(o, '{');
	json_out_key(o, "logprob");
	json_out_float(o, logprob);
	json_out_key(o, "rank");
	if (rank)
		json_out_int(o, rank);
	else
		json_out_null(o);
	json_out_key(o, "decoded_token");
	write_token(o, t, id);
	json_out_end(o, '}');
}

void token_log_prompt(struct buf *out, const struct tokenizer *t, const struct engine_event *ev)
{
	struct json_out o = continue_list(out);
	if (isnan(ev->logprob)) {
		json_out_null(&o);
		return;
	}
	bool has_own = false;
	json_out_begin(&o, '{');
	for (int i = 0; i < ev->n_top; i++) {
		has_own = has_own || ev->top[i].id == ev->token;
		write_ranked(&o, t, ev->top[i].id, ev->top[i].logprob, i + 1);
	}
	if (!has_own)
		write_ranked(&o, t, ev->token, ev->logprob, 0);
	json_out_end(&o, '}');
}

static void write_list(struct json_out *o, const char *key, const struct token_log *head, const struct token_log *log,
					   int part)
{
	json_out_key(o, key);
	json_out_begin(o, '[');
	if (head)
		json_out_raw(o, head->part[part].data, head->part[part].len);
	json_out_raw(o, log->part[part].data, log->part[part].len);
	json_out_end(o, ']');
}

void token_log_write(struct json_out *o, enum dialect dialect, const struct token_log *head,
					 const struct token_log *log)
{
	json_out_begin(o, '{');
	if (dialect == DIALECT_CHAT) {
		write_list(o, "content", head, log, LOG_TOKENS);
		json_out_key(o, "refusal");
		json_out_null(o);
	} else {
		write_list(o, "tokens", head, log, LOG_TOKENS);
		write_list(o, "token_logprobs", head, log, LOG_VALUES);
		write_list(o, "top_logprobs", head, log, LOG_TOPS);
		write_list(o, "text_offset", head, log, LOG_OFFSETS);
	}
	json_out_end(o, '}');
}

void token_log_clear(struct token_log *log)
{
	for (int i = 0; i < LOG_PARTS; i++)
		buf_clear(&log->part[i]);
}

size_t token_log_chars(const char *text, size_t n)
{
	size_t chars = 0;
	for (size_t i = 0; i < n; i++)
		chars += ((unsigned char)text[i] & 0xC0) != 0x80;
	return chars;
}
