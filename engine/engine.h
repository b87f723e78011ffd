// SPDX-License-Identifier: Apache-2.0
//
// The front door: everything that server/ may call. An engine owns a model, its KV pool, the scheduler and one thread that
// steps. Requests go in by engine_submit, what becomes of them comes out as events, cancel by id. Nothing here blocks for longer than a
// mutex held over a pointer swap, but open, close, and submit's copy of the prompt.
#ifndef QUIRE_ENGINE_ENGINE_H
#define QUIRE_ENGINE_ENGINE_H

#include "engine/sampling.h"
#include "engine/scheduler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct tokenizer;
struct chat_template;

struct engine_options {
	const char *model_path;
	const char *backend;          // "auto", "cpu", "ref"
	const char *isa;              // NULL: the best; for tests
	int n_threads;                // 0: the cores this process may use
	const char *kv_dtype;         // "auto" (f16), "f16", "f32"
	int block_tokens;             // 16
	int max_model_len;            // 0: what the model says, cut to what the pool holds
	int max_seqs;                 // 64
	int max_batched_tokens;       // 0: chosen
	uint64_t kv_cache_bytes;      // 0: by memory_utilization or kv_cache_tokens
	uint64_t kv_cache_tokens;     // 0: by memory_utilization
	double memory_utilization;    // share of free memory for weights and cache, 0.5
	int queue_limit;              // requests waiting, 1024
	uint64_t queue_timeout_ns;    // 0: none
	uint64_t request_timeout_ns;  // 0: none
	uint64_t target_itl_ns;
	bool prefix_caching;
	const char *chat_template_path; // NULL: the model's own
};

// Facts fixed at open, for the start-up report, /v1/models and checks of parameters.
struct engine_info {
	const char *model_name;   // general.name or the file's name without its ending
	const char *arch;
	const char *quantization; // the type most of the weights have, such as "Q4_1"
	const char *backend;      // "cpu avx512-vnni, 2 threads"
	const char *template_note; // which chat template serves; or why chat is refused
	bool has_chat;            // false: chat requests are refused with template_note
	int n_vocab, n_layers, n_ctx_train, max_model_len, max_seqs, max_batched_tokens, block_tokens, n_blocks;
	int n_kv_heads, head_dim; // of the first layer, for the report's derivation
	const char *kv_dtype;
	uint64_t file_bytes, weight_bytes, scratch_bytes, kv_bytes_per_token, kv_pool_bytes, memory_free_bytes;
	uint64_t rss_limit_bytes; // what the process should never exceed
	double load_seconds;
	int queue_limit;
};

enum finish_reason {
	FINISH_STOP,      // an end-of-generation token
	FINISH_STOP_STRING, // a stop string or stop id: event.stop_index / event.token say which
	FINISH_LENGTH,    // max_tokens, or the context is full
	FINISH_CANCELLED, // engine_cancel: its client is gone
	FINISH_DEADLINE,  // total time over
	FINISH_QUEUE_TIMEOUT,
	FINISH_ERROR,     // the engine failed
};

enum event_kind {
	EVENT_START,        // admitted: n_prompt and n_cached are known. Once per request
	EVENT_PROMPT_TOKEN, // prompt logprobs: position, token and its logprob (the first has none: logprob is NaN, n_top 0)
	EVENT_TOKEN,        // one sampled token of one choice, and the text that became certain with it (may be empty)
	EVENT_DONE,         // a choice ended: reason, last text. No more events of this choice
};

struct token_logprob {
	int32_t id;
	float logprob; // natural logarithm of the model's own distribution (before temperature, penalties and bias)
};

struct engine_event {
	uint64_t id;     // as given to engine_submit
	enum event_kind kind;
	int choice;
	int position;    // of `token` in prompt + text
	int32_t token;   // EVENT_TOKEN, EVENT_PROMPT_TOKEN; EVENT_DONE by a stop id: that id
	float logprob;   // where logprobs were asked for, else 0
	int n_top;
	const struct token_logprob *top; // best first; valid during the call
	const char *text; // not terminated; valid UTF-8 whole characters; valid during the call
	size_t n_text;
	bool hidden;     // EVENT_TOKEN: the end-of-generation or stop token itself, counted but without text
	enum finish_reason reason;
	int stop_index;  // of the stop string, else -1
	int n_prompt, n_cached, n_completion; // EVENT_START, EVENT_DONE; n_completion of this choice
	uint64_t time_ns;    // when the engine published it
	uint64_t queue_ns, prefill_ns, decode_ns; // EVENT_DONE
	int n_preempted;
};

struct submission { // everything is copied
	uint64_t id;
	const int32_t *prompt;
	int n_prompt;          // at least 1; ids inside the vocabulary
	int n;                 // choices, 1 … 128
	const struct sampling *sampling;
	const char *const *stops; // stop strings
	const size_t *stop_lens;
	size_t n_stops;
	bool include_stop;
	bool keep_special;     // skip_special_tokens: false
	int priority;
	const char *tenant;    // the namespace's root: the authenticated tenant, then the salt inside it. NULL: ""
	const char *cache_salt;
	bool use_cache;
	uint64_t timeout_ns;   // 0: the engine's
};

// Opens a model and starts the thread. err names the file, field or option and what would work. on_events is called on the
// engine's thread after each step that published something; it must only wake the loop.
int engine_open(const struct engine_options *o, void (*on_events)(void *ctx), void *ctx, struct engine **out, char *err,
                size_t len);
void engine_close(struct engine *e); // ends what runs with FINISH_CANCELLED and joins the thread; NULL is allowed

const struct engine_info *engine_info(const struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);
const struct chat_template *engine_chat_template(const struct engine *e); // NULL if !has_chat

// Any thread. 0, or: ERR_LIMIT (the prompt does not fit the context or the pool; err has its length and the limit),
// ERR_BUSY (queue full), ERR_CANCELLED (draining). After 0 exactly one EVENT_DONE per choice will come.
int engine_submit(struct engine *e, const struct submission *s, char *err, size_t len);

// Any thread; unknown or ended ids are ignored. EVENT_DONE with FINISH_CANCELLED follows.
void engine_cancel(struct engine *e, uint64_t id);

// Any thread: the client does not read; its sequences are not scheduled until resumed.
void engine_pause(struct engine *e, uint64_t id, bool paused);

// One consumer thread (the loop): hands over what was published since the last call, in order. Returns how many.
size_t engine_poll(struct engine *e, void (*fn)(void *ctx, const struct engine_event *ev), void *ctx);

enum { ENGINE_ITER_BUCKETS = 16 };
struct engine_stats {
	struct scheduler_stats sched;
	uint64_t busy_ns;              // time spent in steps
	uint64_t generated_tokens;
	uint64_t iteration_tokens_sum, iterations;
	uint64_t iteration_bucket[ENGINE_ITER_BUCKETS + 1]; // not cumulative; bounds in engine_iteration_bounds
	uint64_t last_step_ns;         // when the last step ended: a watchdog compares it with has_work
};
extern const double engine_iteration_bounds[ENGINE_ITER_BUCKETS]; // 1 8 16 32 64 128 256 512 1024 2048 4096 …
void engine_get_stats(struct engine *e, struct engine_stats *out); // any thread: a snapshot of the last step

#endif
