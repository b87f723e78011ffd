// SPDX-License-Identifier: Apache-2.0
//
// Inside the engine: shared by engine.c (open, close, submit: any thread), step.c (the step) and open.c (loading).
#ifndef QUIRE_ENGINE_INTERNAL_H
#define QUIRE_ENGINE_INTERNAL_H

#include "engine/base/list.h"
#include "engine/batch.h"
#include "engine/engine.h"
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "engine/outbox.h"
#include "engine/sampler.h"
#include "engine/text/chat_template.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"

#include <pthread.h>

struct choice { // one sequence of a request, and what the commit keeps about it
	struct sequence seq;
	struct detokenizer *detok;
	uint64_t first_token_ns;
	bool left_queue; // it started, or ended before it could
	bool done;
};

struct request {
	struct list link; // inbox, then engine.requests
	uint64_t id;
	struct sampling sampling; // its arrays follow in `arrays`
	void *arrays;
	char *ns;
	size_t max_text;        // the most bytes one of its events can carry
	uint64_t deadline_ns;   // 0: none
	uint64_t queue_deadline_ns;
	bool started;           // EVENT_START was sent
	int n_choices, n_done;
	struct choice choices[];
};

struct order { // what other threads want of a request
	uint64_t id;
	enum { ORDER_CANCEL, ORDER_PAUSE, ORDER_RESUME } what;
};

struct engine {
	struct engine_options opt;
	struct engine_info info;
	char model_name[256], quantization[16], describe[128], template_note[512];

	struct gguf *file;
	struct tokenizer *tok;
	struct chat_template *chat;
	struct backend *be;
	struct model *model;
	int32_t *ends; // end-of-generation ids
	int n_ends;

	// Engine thread.
	struct scheduler *sched;
	struct batch *batch;
	struct sampler *sampler;
	float *logits;               // [max_out][V]
	struct sampler_output *chosen; // [max_seqs] by plan item
	char *text;                  // of one event
	size_t text_cap;
	struct list requests;
	uint64_t arrivals, busy_ns, generated, last_deadline_scan_ns, last_check_ns;
	uint64_t iter_sum, iter_n, iter_bucket[ENGINE_ITER_BUCKETS + 1];

	struct outbox *out;

	pthread_t thread;
	pthread_mutex_t mu; // guards what follows
	pthread_cond_t wake;
	struct list inbox;  // requests not yet seen by the thread
	struct order *orders;
	size_t n_orders, cap_orders;
	int n_unstarted;    // choices that were submitted and never ran
	bool stopping;
	struct engine_stats stats;
};

// open.c: loads everything and sizes the pool; on failure what was opened is closed by engine__unload.
int engine__load(struct engine *e, char *err, size_t len);
void engine__unload(struct engine *e);

// step.c, engine thread only.
bool engine__step(struct engine *e); // rows 7 to 11 of a request's life; false: nothing to do
void engine__admit(struct engine *e, struct request *r, uint64_t now);
void engine__end(struct engine *e, struct request *r, enum finish_reason reason, uint64_t now); // all unfinished choices
void engine__check_deadlines(struct engine *e, uint64_t now);
void request__destroy(struct request *r);

#endif
