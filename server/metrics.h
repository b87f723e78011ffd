// SPDX-License-Identifier: Apache-2.0
//
// Counters and histograms for Prometheus, under the names and buckets of vLLM. What a client feels (time to first
// token, between tokens, in all) is measured here from the events; what the engine knows is read from its statistics
// when asked. Always true: started = finished (stop, length, abort, error) + running + waiting. Loop thread.
#ifndef QUIRE_SERVER_METRICS_H
#define QUIRE_SERVER_METRICS_H

#include "engine/base/buf.h"
#include "engine/engine.h"

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 24 };

struct histogram {
	const double *bounds; // ascending
	int n_bounds;
	uint64_t count[HISTOGRAM_BUCKETS + 1]; // not cumulative; the last is +Inf
	double sum;
};

enum finish_class { FINISHED_STOP, FINISHED_LENGTH, FINISHED_ABORT, FINISHED_ERROR, FINISH_CLASSES };

// One request as metrics see it: between metrics_start and its last event.
struct request_meter {
	uint64_t arrival_ns;
	bool admitted, has_token;
	int n, n_done; // choices
	int n_prompt, n_cached, max_tokens;
	int64_t n_tokens; // over all choices
	int longest;	  // tokens of the longest choice
	enum finish_class worst;
	uint64_t *last_ns; // [n] when each choice got its last token; 0 before
};

struct metrics {
	uint64_t started, running, waiting, finished[FINISH_CLASSES];
	uint64_t prompt_tokens, cached_tokens, generated_tokens;
	uint64_t rejected;	// refused by a full queue
	int64_t started_at; // seconds since 1970
	struct histogram ttft, itl, tpot, e2e, queue, inference, prefill, decode;
	struct histogram prompt_len, generated_len, longest_len, computed_len, params_n, params_max_tokens;
	double token_bounds[HISTOGRAM_BUCKETS]; // 1 2 5 10 … up to the context
};

void metrics_init(struct metrics *m, int max_model_len, int64_t started_at);

// A request was accepted by the engine; meter belongs to it until metrics_event returned true.
void metrics_start(struct metrics *m, struct request_meter *meter, const struct sampling *s, int n,
				   uint64_t arrival_ns);

// Takes any event of the request. True at its last one; the meter's memory is freed then.
bool metrics_event(struct metrics *m, struct request_meter *meter, const struct engine_event *ev, uint64_t now_ns);

// Forgets a request whose last event will not come (the server ends).
void metrics_drop(struct metrics *m, struct request_meter *meter);

// The exposition text.
void metrics_write(const struct metrics *m, const struct engine_info *info, const struct engine_stats *stats,
				   const char *model_name, struct buf *out);

void histogram_add(struct histogram *h, double value);

#endif
