// SPDX-License-Identifier: Apache-2.0
#include "server/reply.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "server/api.h"
#include "server/json_out.h"
#include "server/random_id.h"
#include "server/sse.h"
#include "server/token_log.h"

#include <string.h>

static const struct tokenizer *tokenizer_of(const struct job *j)
{
	return j->ctx->tokenizer;
}

static const char *finish_word(enum finish_reason r)
{
	return r == FINISH_LENGTH ? "length" : "stop";
}

// The members before "choices", without the closing brace.
static void write_head(const struct job *j, struct json_out *o, const char *object)
{
	json_out_begin(o, '{');
	json_out_member_str(o, "id", j->id);
	json_out_member_str(o, "object", object);
	json_out_member_int(o, "created", j->created);
	json_out_member_str(o, "model", j->ctx->served_names[0]);
	json_out_member_str(o, "system_fingerprint", j->ctx->fingerprint);
}

void reply_begin(struct job *j, int64_t created)
{
	j->created = created;
	random_id(j->id, sizeof j->id, j->dialect == DIALECT_CHAT ? "chatcmpl-" : "cmpl-");
	j->n_choices = j->n_prompts * j->params.n;
	j->choices = mem_zalloc((size_t)j->n_choices, sizeof *j->choices);
	for (int i = 0; i < j->n_choices; i++) {
		const struct prompt *p = &j->prompts[i / j->params.n];
		j->choices[i].n_chars = token_log_chars(p->echo, p->n_echo);
	}
	if (j->params.stream) {
		struct json_out o;
		json_out_init(&o, &j->head);
		write_head(j, &o, j->dialect == DIALECT_CHAT ? "chat.completion.chunk" : "text_completion");
	}
}

// --- parts shared by both forms

static void write_usage(const struct job *j, struct json_out *o)
{
	int64_t n_prompt = 0, n_cached = 0, n_completion = 0;
	for (int i = 0; i < j->n_prompts; i++) {
		n_prompt += (int64_t)j->prompts[i].tokens.n;
		n_cached += j->prompts[i].n_cached;
	}
	for (int i = 0; i < j->n_choices; i++)
		n_completion += j->choices[i].n_completion;
	json_out_key(o, "usage");
	json_out_begin(o, '{');
	json_out_member_int(o, "prompt_tokens", n_prompt);
	json_out_member_int(o, "completion_tokens", n_completion);
	json_out_member_int(o, "total_tokens", n_prompt + n_completion);
	json_out_key(o, "prompt_tokens_details");
	json_out_begin(o, '{');
	json_out_member_int(o, "cached_tokens", n_cached);
	json_out_member_int(o, "audio_tokens", 0);
	json_out_end(o, '}');
	json_out_key(o, "completion_tokens_details");
	json_out_begin(o, '{');
	json_out_member_int(o, "reasoning_tokens", 0);
	json_out_member_int(o, "audio_tokens", 0);
	json_out_member_int(o, "accepted_prediction_tokens", 0);
	json_out_member_int(o, "rejected_prediction_tokens", 0);
	json_out_end(o, '}');
	json_out_end(o, '}');
}

static void write_logprobs(const struct job *j, struct json_out *o, const struct token_log *head,
						   const struct token_log *log)
{
	json_out_key(o, "logprobs");
	if (j->params.logprobs && log)
		token_log_write(o, j->dialect, head, log);
	else
		json_out_null(o);
}

static void write_ids(struct json_out *o, const char *key, const char *list, size_t n)
{
	json_out_key(o, key);
	json_out_begin(o, '[');
	json_out_raw(o, list, n);
	json_out_end(o, ']');
}

static void write_prompt_ids(struct json_out *o, const struct prompt *p)
{
	json_out_key(o, "prompt_token_ids");
	json_out_begin(o, '[');
	for (size_t i = 0; i < p->tokens.n; i++)
		json_out_int(o, p->tokens.ids[i]);
	json_out_end(o, ']');
}

static void write_prompt_log(const struct job *j, struct json_out *o, const struct prompt *p)
{
	if (j->params.prompt_logprobs)
		write_ids(o, "prompt_logprobs", p->full_log.data, p->full_log.len);
}

// --- chunks of a stream

static struct json_out chunk_begin(struct job *j, struct buf *out)
{
	sse_begin(out);
	buf_append(out, j->head.data, j->head.len);
	struct json_out o = {out, true};
	if (!j->begun && j->dialect == DIALECT_CHAT && j->params.return_token_ids)
		write_prompt_ids(&o, &j->prompts[0]);
	j->begun = j->committed = true;
	json_out_key(&o, "choices");
	json_out_begin(&o, '[');
	return o;
}

static void chunk_end(struct job *j, struct json_out *o)
{
	json_out_end(o, ']');
	if (j->params.include_usage) {
		json_out_key(o, "usage");
		json_out_null(o);
	}
	json_out_end(o, '}');
	sse_end(o->buf);
}

struct piece { // what one chunk says about a choice
	const char *role;
	const char *text; // NULL: an empty delta
	size_t n_text;
	const struct token_log *log, *log_head;
	const struct buf *ids;
	const char *finish;
};

static void chunk_text(struct job *j, struct json_out *o, const struct piece *p)
{
	if (j->dialect == DIALECT_COMPLETION) {
		json_out_member_string(o, "text", p->text, p->n_text);
		return;
	}
	json_out_key(o, "delta");
	json_out_begin(o, '{');
	if (p->role)
		json_out_member_str(o, "role", p->role);
	if (p->text)
		json_out_member_string(o, "content", p->text, p->n_text);
	json_out_end(o, '}');
}

static void write_chunk(struct job *j, int index, const struct piece *p, struct buf *out)
{
	struct choice *c = &j->choices[index];
	struct json_out o = chunk_begin(j, out);
	json_out_begin(&o, '{');
	json_out_member_int(&o, "index", index);
	chunk_text(j, &o, p);
	write_logprobs(j, &o, p->log_head, p->log);
	if (j->params.return_token_ids && j->dialect == DIALECT_COMPLETION && !c->begun)
		write_prompt_ids(&o, &j->prompts[index / j->params.n]);
	if (p->ids && p->ids->len)
		write_ids(&o, "token_ids", p->ids->data, p->ids->len);
	json_out_key(&o, "finish_reason");
	if (p->finish)
		json_out_string(&o, p->finish, strlen(p->finish));
	else
		json_out_null(&o);
	json_out_end(&o, '}');
	chunk_end(j, &o);
	c->begun = true;
}

// Chat: the roles of all choices at once, so that their indexes first appear in ascending order.
static void open_stream(struct job *j, struct buf *out)
{
	if (j->begun || j->dialect != DIALECT_CHAT)
		return;
	for (int i = 0; i < j->n_choices; i++)
		write_chunk(j, i, &(struct piece){.role = "assistant", .text = "", .n_text = 0}, out);
}

static void open_choice(struct job *j, int index, struct buf *out)
{
	struct prompt *p = &j->prompts[index / j->params.n];
	open_stream(j, out);
	if (!p->echo || j->choices[index].begun)
		return;
	write_chunk(j, index, &(struct piece){.text = p->echo, .n_text = p->n_echo, .log = &p->log}, out);
}

static void stream_token(struct job *j, int index, const struct engine_event *ev, struct buf *out)
{
	struct choice *c = &j->choices[index];
	open_choice(j, index, out);
	if (ev->n_text || j->params.logprobs || j->params.return_token_ids) {
		struct piece p = {.text = ev->n_text ? ev->text : "", .n_text = ev->n_text, .log = &c->log, .ids = &c->ids};
		write_chunk(j, index, &p, out);
	}
	token_log_clear(&c->log);
	buf_clear(&c->ids);
}

static void stream_done(struct job *j, int index, const struct engine_event *ev, struct buf *out)
{
	const char *finish = finish_word(ev->reason);
	const char *text = ev->n_text ? ev->text : "";
	open_choice(j, index, out);
	if (j->dialect == DIALECT_COMPLETION) {
		write_chunk(j, index, &(struct piece){.text = text, .n_text = ev->n_text, .finish = finish}, out);
		return;
	}
	if (ev->n_text)
		write_chunk(j, index, &(struct piece){.text = text, .n_text = ev->n_text}, out);
	write_chunk(j, index, &(struct piece){.finish = finish}, out);
}

static void stream_end(struct job *j, struct buf *out)
{
	if (j->params.include_usage) {
		sse_begin(out);
		buf_append(out, j->head.data, j->head.len);
		struct json_out o = {out, true};
		json_out_key(&o, "choices");
		json_out_begin(&o, '[');
		json_out_end(&o, ']');
		write_usage(j, &o);
		json_out_end(&o, '}');
		sse_end(out);
	}
	sse_begin(out);
	buf_puts(out, "[DONE]");
	sse_end(out);
}

// --- events

static void take_prompt_token(struct job *j, struct prompt *p, const struct engine_event *ev)
{
	const struct tokenizer *t = tokenizer_of(j);
	if (j->params.prompt_logprobs)
		token_log_prompt(&p->full_log, t, ev);
	if (!p->echo || !j->params.logprobs)
		return;
	// A token's place in the echoed text: where its spelling stands next. One that is not there (BOS, or the space that
	// some tokenizers put before the first word) takes what of it is there.
	size_t n, rest = p->n_echo - p->log_bytes;
	const char *piece = tokenizer_piece(t, ev->token, &n), *at = p->echo + p->log_bytes;
	token_log_completion(&p->log, t, ev, token_log_chars(p->echo, p->log_bytes));
	if (n <= rest && memcmp(at, piece, n) == 0)
		p->log_bytes += n;
	else if (n && piece[0] == ' ' && n - 1 <= rest && memcmp(at, piece + 1, n - 1) == 0)
		p->log_bytes += n - 1;
	else if (tokenizer_type(t, ev->token) != TOKEN_CONTROL)
		p->log_bytes += n < rest ? n : rest;
}

// Where the token starts in the text, in characters. A token that begins inside a character starts where that one does.
static size_t take_offset(struct job *j, struct choice *c, const struct engine_event *ev)
{
	const struct tokenizer *t = tokenizer_of(j);
	size_t n, offset = c->n_chars;
	const char *piece = tokenizer_piece(t, ev->token, &n);
	if (ev->hidden || (tokenizer_type(t, ev->token) == TOKEN_CONTROL && !j->params.keep_special))
		return offset;
	if (n && offset && ((unsigned char)piece[0] & 0xC0) == 0x80)
		offset--;
	c->n_chars += token_log_chars(piece, n);
	return offset;
}

static void take_token(struct job *j, int index, const struct engine_event *ev, struct buf *out)
{
	struct choice *c = &j->choices[index];
	c->n_completion++;
	if (j->params.logprobs && j->dialect == DIALECT_CHAT)
		token_log_chat(&c->log, tokenizer_of(j), ev);
	else if (j->params.logprobs)
		token_log_completion(&c->log, tokenizer_of(j), ev, take_offset(j, c, ev));
	if (j->params.return_token_ids) {
		struct json_out o = {&c->ids, c->ids.len > 0};
		json_out_int(&o, ev->token);
	}
	if (j->params.stream)
		stream_token(j, index, ev, out);
	else
		buf_append(&c->text, ev->text, ev->n_text);
}

// What an ending that is no answer means for the client.
static bool ending_error(enum finish_reason reason, struct api_error *e)
{
	switch (reason) {
	case FINISH_STOP:
	case FINISH_STOP_STRING:
	case FINISH_LENGTH:
		return false;
	case FINISH_CANCELLED:
		api_error_set(e, 503, NULL, "the server is shutting down");
		e->retry_after = 5;
		return true;
	case FINISH_DEADLINE:
		api_error_set(e, 504, NULL, "the request's time was over");
		e->code = "deadline_exceeded";
		e->no_retry = true;
		return true;
	case FINISH_QUEUE_TIMEOUT:
		api_error_set(e, 503, NULL, "the request waited too long in the queue");
		e->retry_after = 5;
		return true;
	case FINISH_ERROR:
		break;
	}
	api_error_set(e, 500, NULL, "the engine failed on this request");
	return true;
}

static void take_done(struct job *j, int index, const struct engine_event *ev, struct buf *out)
{
	struct choice *c = &j->choices[index];
	struct api_error e = {0};
	if (ending_error(ev->reason, &e)) {
		reply_fail(j, &e, out);
		return;
	}
	c->done = true;
	c->reason = ev->reason;
	c->n_completion = ev->n_completion;
	if (j->params.stream)
		stream_done(j, index, ev, out);
	else
		buf_append(&c->text, ev->text, ev->n_text);
	if (++j->n_done < j->n_choices)
		return;
	if (j->params.stream)
		stream_end(j, out);
	j->ended = true;
}

void reply_event(struct job *j, int prompt, const struct engine_event *ev, struct buf *out)
{
	struct prompt *p = &j->prompts[prompt];
	int index = prompt * j->params.n + ev->choice;
	CHECK(ev->choice >= 0 && ev->choice < j->params.n, "choice %d of %d", ev->choice, j->params.n);
	if (j->ended || j->choices[index].done)
		return;
	switch (ev->kind) {
	case EVENT_START:
		p->started = true;
		p->n_prompt = ev->n_prompt;
		p->n_cached = ev->n_cached;
		break;
	case EVENT_PROMPT_TOKEN:
		take_prompt_token(j, p, ev);
		break;
	case EVENT_TOKEN:
		take_token(j, index, ev, out);
		break;
	case EVENT_DONE:
		take_done(j, index, ev, out);
		break;
	}
}

void reply_fail(struct job *j, const struct api_error *e, struct buf *out)
{
	if (j->ended)
		return;
	j->ended = true;
	j->error = *e;
	if (!j->params.stream || !j->committed)
		return;
	struct json_out o;
	sse_begin(out);
	json_out_init(&o, out);
	json_out_begin(&o, '{');
	json_out_key(&o, "error");
	api_error_write(e, &o);
	json_out_end(&o, '}');
	sse_end(out);
}

// --- the whole answer

static void write_chat_choice(const struct job *j, const struct choice *c, struct json_out *o)
{
	json_out_key(o, "message");
	json_out_begin(o, '{');
	json_out_member_str(o, "role", "assistant");
	json_out_member_string(o, "content", c->text.data, c->text.len);
	json_out_key(o, "refusal");
	json_out_null(o);
	json_out_key(o, "annotations");
	json_out_begin(o, '[');
	json_out_end(o, ']');
	json_out_end(o, '}');
	write_logprobs(j, o, NULL, &c->log);
}

static void write_completion_choice(const struct job *j, const struct choice *c, const struct prompt *p,
									struct json_out *o)
{
	if (p->echo && c->text.len) {
		struct buf whole = {0};
		buf_append(&whole, p->echo, p->n_echo);
		buf_append(&whole, c->text.data, c->text.len);
		json_out_member_string(o, "text", whole.data, whole.len);
		buf_deinit(&whole);
	} else if (p->echo) {
		json_out_member_string(o, "text", p->echo, p->n_echo);
	} else {
		json_out_member_string(o, "text", c->text.data, c->text.len);
	}
	write_logprobs(j, o, p->echo ? &p->log : NULL, &c->log);
	if (j->params.return_token_ids)
		write_prompt_ids(o, p);
	write_prompt_log(j, o, p);
}

void reply_write(const struct job *j, struct buf *out)
{
	struct json_out o;
	bool chat = j->dialect == DIALECT_CHAT;
	json_out_init(&o, out);
	write_head(j, &o, chat ? "chat.completion" : "text_completion");
	json_out_key(&o, "choices");
	json_out_begin(&o, '[');
	for (int i = 0; i < j->n_choices; i++) {
		const struct choice *c = &j->choices[i];
		json_out_begin(&o, '{');
		json_out_member_int(&o, "index", i);
		if (chat)
			write_chat_choice(j, c, &o);
		else
			write_completion_choice(j, c, &j->prompts[i / j->params.n], &o);
		if (j->params.return_token_ids)
			write_ids(&o, "token_ids", c->ids.data, c->ids.len);
		json_out_member_str(&o, "finish_reason", finish_word(c->reason));
		json_out_end(&o, '}');
	}
	json_out_end(&o, ']');
	write_usage(j, &o);
	if (chat && j->params.return_token_ids)
		write_prompt_ids(&o, &j->prompts[0]);
	if (chat)
		write_prompt_log(j, &o, &j->prompts[0]);
	json_out_end(&o, '}');
}
