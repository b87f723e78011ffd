// SPDX-License-Identifier: Apache-2.0
//
// A model on a back end with a small KV cache of its own, for tests that look at logits. Blocks of a sequence are
// scattered over the cache on purpose, so that nothing works by lying next to each other.
#ifndef QUIRE_TESTS_MODEL_RUNNER_H
#define QUIRE_TESTS_MODEL_RUNNER_H

#include "engine/model/model.h"

struct runner;

struct runner_options {
	const char *backend; // "ref", "cpu", or "cpu:avx2" to name the ISA
	int n_threads;		 // 0: the back end's choice
	enum kv_dtype kv;
	int block_tokens;				   // 0: 16
	int max_tokens, max_seqs, max_len; // rows of a step, sequences, tokens of one
};

struct chunk { // appended to sequence seq
	int seq, n;
	const int32_t *ids;
};

// NULL with err where the file or the back end refuses.
struct runner *runner_open(const char *gguf, const struct runner_options *o, char *err, size_t len);
void runner_close(struct runner *r);
int runner_n_vocab(const struct runner *r);
struct model *runner_model(struct runner *r);
const char *runner_describe(const struct runner *r);

// One step of all chunks. Logits of every row (all_rows) or of each chunk's last one, in the order of the chunks.
void runner_step(struct runner *r, const struct chunk *chunks, int n, bool all_rows, float *logits);
void runner_rewind(struct runner *r, int seq, int len); // forgets the tokens from len on

// Forgets the KV cache and fills it with bytes that are NaN in every type: nothing may read what was not written.
void runner_poison(struct runner *r);
// Makes `to` a copy of the first len tokens of `from`.
void runner_fork(struct runner *r, int from, int to, int len);

// Feeds ids in steps of at most max_tokens and writes the logits of every row.
void runner_feed(struct runner *r, int seq, const int32_t *ids, int n, float *logits);

#endif
