// SPDX-License-Identifier: Apache-2.0
//
// Golden data: what an independent reference computed for a model (tests/golden/ORIGINS.md says which). A folder holds
// golden.json and, beside it, rows of logits as raw little-endian float32. Anything wrong with the files aborts: they
// are ours.
#ifndef QUIRE_TESTS_MODEL_GOLDEN_H
#define QUIRE_TESTS_MODEL_GOLDEN_H

#include <stdint.h>

enum { GOLDEN_BEST = 5 };

struct golden_case {
	const char *name;
	int n_prompt;
	int32_t *prompt;
	double *prompt_logprobs; // [n_prompt - 1] of prompt[t + 1] after prompt[t], or NULL
	int n_greedy;
	int32_t *greedy;	   // the reference's own greedy continuation
	double *gap;		   // [n_greedy] best minus second-best logit
	double *logprob;	   // [n_greedy] of the chosen token
	int32_t *best_ids;	   // [n_greedy][GOLDEN_BEST]
	double *best_logprobs; // [n_greedy][GOLDEN_BEST]
	int n_rows;
	int *positions; // [n_rows] in prompt + greedy: row i holds the logits after that token
	float *logits;	// [n_rows][n_vocab]
	int n_last;		// real models: the best logits after the last prompt token, else 0
	int32_t *last_ids;
	double *last_logits;
};

struct golden {
	char *dir;
	int n_vocab;
	double tolerance; // of log probabilities
	int n_cases;
	struct golden_case *cases;
	void *json; // owns the names
};

struct golden *golden_read(const char *dir);
void golden_free(struct golden *g);

// A long text for judging caches and back ends: ids, and each one's negative log probability after those before it.
struct golden_text {
	int n;
	int32_t *ids; // [n]
	float *nll;	  // [n - 1] of ids[1] …
};

struct golden_text *golden_read_text(const char *dir); // perplexity.json
void golden_free_text(struct golden_text *t);

// log Σ exp of a row, in double: a token's log probability is its logit minus this.
double golden_logsum(const float *logits, int n_vocab);
int golden_argmax(const float *logits, int n_vocab);

// How far a model's rows are from a reference's; zeroed by the caller, added to by every golden_judge.
struct golden_verdict {
	double worst_logit;				   // largest difference of any logit whose reference is stored
	double worst_logprob, sum_logprob; // of log probabilities: absolute differences
	int n_logprobs;
	int n_steps, n_equal; // greedy steps, and those whose argmax is the reference's
	int n_wrong;		  // … is not although the reference's gap was over `gap`
	int first_wrong;	  // step number of the first of them
};

// rows: the logits after tokens first … first + n - 1 of prompt + greedy (teacher-forced), whole or in pieces.
void golden_judge(const struct golden *g, const struct golden_case *c, int first, int n, const float *rows, double gap,
				  struct golden_verdict *v);

#endif
