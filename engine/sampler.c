// SPDX-License-Identifier: Apache-2.0
//
// All sums run in the order of ids or of descending weight, in double, so that a draw is the same wherever the row
// stands in a batch. Sorting is avoided until few candidates are left: weights are binned by their float's upper
// bits first.
#include "engine/sampler.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	SPAN = 256,   // weights whose sum is kept, so that a draw need not walk the whole vocabulary
	BINS = 1024,  // 128 octaves of 8 bins: every float in (0, 1] down to 2^-127 has its place
	BIN_SHIFT = 20, // 23 mantissa bits, of which the upper 3 choose the bin inside the octave
};

struct candidate {
	float weight;
	int32_t id;
};

struct sampler {
	int n_vocab;
	int32_t *count;     // [V] how often a token occurs; all zero between calls
	float *weight;      // [V] exp((logit - best) / temperature)
	double *span_sum;   // [V / SPAN]
	float *edited;      // [V] the row after bias and penalties, when there are any
	struct candidate *cand; // [V]
};

void sampling_defaults(struct sampling *s)
{
	*s = (struct sampling){
	    .temperature = 1,
	    .top_p = 1,
	    .repetition_penalty = 1,
	    .max_tokens = INT32_MAX,
	    .n_logprobs = SAMPLING_NO_LOGPROBS,
	    .n_prompt_logprobs = SAMPLING_NO_LOGPROBS,
	};
}

struct sampler *sampler_create(int n_vocab)
{
	struct sampler *s = mem_zalloc(1, sizeof *s);
	size_t n = (size_t)n_vocab;
	s->n_vocab = n_vocab;
	s->count = mem_zalloc(n, sizeof *s->count);
	s->weight = mem_zalloc(n, sizeof *s->weight);
	s->span_sum = mem_zalloc(n / SPAN + 1, sizeof *s->span_sum);
	s->edited = mem_zalloc(n, sizeof *s->edited);
	s->cand = mem_zalloc(n, sizeof *s->cand);
	return s;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	free(s->count);
	free(s->weight);
	free(s->span_sum);
	free(s->edited);
	free(s->cand);
	free(s);
}

uint64_t sampler_random(uint64_t seed, uint32_t choice, uint32_t position)
{
	uint32_t c[4] = {position, choice, 0, 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
		uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
		memcpy(c, next, sizeof c);
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return (uint64_t)c[0] | (uint64_t)c[1] << 32;
}

static int best_of(const float *v, int n)
{
	int best = 0;
	for (int i = 1; i < n; i++)
		if (v[i] > v[best])
			best = i;
	return best;
}

// Better first: higher value, then the lower id.
static int by_weight(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

// min_tokens: no end before its time. (ignore_eos forbids nothing; the commit merely goes on past an end token.)
static void forbid_ends(const struct sampler_input *in, float *logits)
{
	if (in->n_tokens - in->n_prompt >= in->sampling->min_tokens)
		return;
	for (int i = 0; i < in->n_ends; i++)
		logits[in->ends[i]] = -INFINITY;
	for (size_t i = 0; i < in->sampling->n_stop_ids; i++)
		logits[in->sampling->stop_ids[i]] = -INFINITY;
}

static void penalize(struct sampler *s, const struct sampler_input *in, float *logits)
{
	const struct sampling *p = in->sampling;
	if (p->repetition_penalty != 1) {
		for (int i = 0; i < in->n_tokens; i++) {
			int32_t id = in->tokens[i];
			if (s->count[id]++)
				continue;
			logits[id] = logits[id] > 0 ? logits[id] / p->repetition_penalty : logits[id] * p->repetition_penalty;
		}
		for (int i = 0; i < in->n_tokens; i++)
			s->count[in->tokens[i]] = 0;
	}
	if (p->frequency_penalty == 0 && p->presence_penalty == 0)
		return;
	for (int i = in->n_prompt; i < in->n_tokens; i++)
		s->count[in->tokens[i]]++;
	for (int i = in->n_prompt; i < in->n_tokens; i++) {
		int32_t id = in->tokens[i];
		if (!s->count[id])
			continue;
		logits[id] -= p->frequency_penalty * (float)s->count[id] + p->presence_penalty;
		s->count[id] = 0;
	}
}

// exp for x ≤ 0 by 2^n · p(f), |f| ≤ 0.5: relative error under 3e-7 (degree-6 Taylor in base e after reduction by ln 2
// in two parts). Plain arithmetic, so that the compiler vectorises the loop and every machine gives the same bits.
static inline float exp_negative(float x)
{
	x = x < -87 ? -87 : x;
	float n = (float)(int)(x * 1.44269504f - 0.5f);
	float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
	float p = 1.3888889e-3f;
	p = p * r + 8.3333333e-3f;
	p = p * r + 4.1666667e-2f;
	p = p * r + 1.6666667e-1f;
	p = p * r + 0.5f;
	p = p * r + 1;
	p = p * r + 1;
	union {
		uint32_t u;
		float f;
	} scale = {.u = (uint32_t)((int)n + 127) << 23};
	return p * scale.f;
}

// Weights of the whole vocabulary relative to the best, and their sums by span.
__attribute__((optimize("O3"))) static double weigh(struct sampler *s, const float *logits, float temperature)
{
	float best = logits[best_of(logits, s->n_vocab)], inv = 1 / temperature;
	for (int i = 0; i < s->n_vocab; i++)
		s->weight[i] = exp_negative((logits[i] - best) * inv);
	double total = 0;
	for (int from = 0, k = 0; from < s->n_vocab; from += SPAN, k++) {
		int to = from + SPAN < s->n_vocab ? from + SPAN : s->n_vocab;
		double sum = 0;
		for (int i = from; i < to; i++) {
			// exp_negative stops at e^-87: what is forbidden (-inf) must weigh nothing at all.
			if (logits[i] == -INFINITY)
				s->weight[i] = 0;
			sum += (double)s->weight[i];
		}
		s->span_sum[k] = sum;
		total += sum;
	}
	return total;
}

static int32_t draw_from_all(const struct sampler *s, double total, double u)
{
	double left = u * total;
	int k = 0, n_spans = (s->n_vocab + SPAN - 1) / SPAN;
	while (k < n_spans - 1 && left >= s->span_sum[k])
		left -= s->span_sum[k++];
	int32_t last = -1;
	// Rounding may leave a little over at the end of the span: then the last token that weighs something is the one.
	for (int i = k * SPAN; i < s->n_vocab; i++) {
		if (!(s->weight[i] > 0))
			continue;
		last = i;
		if (left < (double)s->weight[i])
			return i;
		left -= (double)s->weight[i];
	}
	if (last >= 0)
		return last;
	for (int i = s->n_vocab; i-- > 0;)
		if (s->weight[i] > 0)
			return i;
	return 0;
}

static int bin_of(float w)
{
	union {
		float f;
		uint32_t u;
	} v = {.f = w};
	int octave_and_eighth = (int)(v.u >> BIN_SHIFT); // 127 * 8 for 1.0, falling with w
	return 127 * 8 - octave_and_eighth;
}

// The candidates that min_p, top_k and top_p leave, best first; their number.
static int filter(struct sampler *s, const struct sampling *p)
{
	double mass[BINS] = {0}, total = 0;
	int count[BINS] = {0}, n_alive = 0;
	for (int i = 0; i < s->n_vocab; i++) {
		float w = s->weight[i];
		if (!(w > 0) || w < p->min_p)
			continue;
		int b = bin_of(w);
		mass[b] += (double)w;
		count[b]++;
		n_alive++;
	}
	int keep = p->top_k > 0 && p->top_k < n_alive ? p->top_k : n_alive;
	// Bins are in descending order of weight: take whole bins until both limits are surely passed.
	int last = 0, seen = 0;
	for (int b = 0; b < BINS; b++)
		total += mass[b];
	double want = p->top_k > 0 && p->top_k < n_alive ? total : (double)p->top_p * total, got = 0;
	for (int b = 0; b < BINS; b++) {
		seen += count[b];
		got += mass[b];
		last = b;
		if (seen >= keep || got > want)
			break;
	}
	int n = 0;
	for (int i = 0; i < s->n_vocab; i++) {
		float w = s->weight[i];
		if (w > 0 && w >= p->min_p && bin_of(w) <= last)
			s->cand[n++] = (struct candidate){w, i};
	}
	qsort(s->cand, (size_t)n, sizeof *s->cand, by_weight);
	if (n > keep)
		n = keep;
	if (p->top_p >= 1)
		return n;
	// top_p is a share of what top_k left; without top_k of all that is alive.
	double base = total;
	if (keep < n_alive) {
		base = 0;
		for (int i = 0; i < n; i++)
			base += (double)s->cand[i].weight;
	}
	double sum = 0, limit = (double)p->top_p * base;
	for (int i = 0; i < n; i++) {
		sum += (double)s->cand[i].weight;
		if (sum >= limit)
			return i + 1;
	}
	return n;
}

static int32_t draw(struct sampler *s, const struct sampler_input *in, const float *logits)
{
	const struct sampling *p = in->sampling;
	double total = weigh(s, logits, p->temperature);
	uint64_t bits = sampler_random(p->seed, (uint32_t)in->choice, (uint32_t)in->n_tokens);
	double u = (double)(bits >> 11) * 0x1p-53;
	if (p->top_k <= 0 && p->top_p >= 1 && p->min_p <= 0)
		return draw_from_all(s, total, u);
	int n = filter(s, p);
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += (double)s->cand[i].weight;
	double left = u * sum;
	for (int i = 0; i < n; i++) {
		if (left < (double)s->cand[i].weight)
			return s->cand[i].id;
		left -= (double)s->cand[i].weight;
	}
	return s->cand[n - 1].id;
}

// log of the sum of exponentials of the raw row.
static float log_sum(const float *logits, int n)
{
	float best = logits[best_of(logits, n)];
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += (double)expf(logits[i] - best);
	return best + (float)log(sum);
}

static void find_top(const float *logits, int n_vocab, float base, int n_top, struct sampler_output *out)
{
	// An insertion sort of the n_top best: almost every logit fails the first comparison.
	struct token_logprob *top = out->top;
	int n = 0;
	for (int i = 0; n_top && i < n_vocab; i++) {
		if (n == n_top && !(logits[i] > top[n - 1].logprob))
			continue;
		int at = n < n_top ? n++ : n - 1;
		for (; at > 0 && logits[i] > top[at - 1].logprob; at--)
			top[at] = top[at - 1];
		top[at] = (struct token_logprob){i, logits[i]};
	}
	for (int i = 0; i < n; i++)
		top[i].logprob -= base;
	out->n_top = n;
}

void sampler_logprobs(struct sampler *s, const float *logits, int32_t id, int n_top, struct sampler_output *out)
{
	CHECK(id >= 0 && id < s->n_vocab && n_top <= SAMPLING_MAX_LOGPROBS, "%d %d", id, n_top);
	float base = log_sum(logits, s->n_vocab);
	out->id = id;
	out->logprob = logits[id] - base;
	find_top(logits, s->n_vocab, base, n_top, out);
}

static bool edits_logits(const struct sampler_input *in)
{
	const struct sampling *p = in->sampling;
	return p->n_bias || in->n_tokens - in->n_prompt < p->min_tokens || p->repetition_penalty != 1 ||
	       p->frequency_penalty != 0 || p->presence_penalty != 0;
}

void sampler_run(struct sampler *s, const struct sampler_input *in, float *logits, struct sampler_output *out)
{
	const struct sampling *p = in->sampling;
	// A model that overflows must neither crash the server nor be sampled from: not-a-number counts as impossible.
	for (int i = 0; i < s->n_vocab; i++)
		if (isnan(logits[i]))
			logits[i] = -INFINITY;
	float *edited = logits;
	if (edits_logits(in)) {
		edited = s->edited;
		memcpy(edited, logits, (size_t)s->n_vocab * sizeof *edited);
		for (size_t i = 0; i < p->n_bias; i++)
			edited[p->bias[i].id] += p->bias[i].bias;
		forbid_ends(in, edited);
		penalize(s, in, edited);
	}
	int32_t id = p->temperature < 1e-3f ? best_of(edited, s->n_vocab) : draw(s, in, edited);
	if (p->n_logprobs != SAMPLING_NO_LOGPROBS)
		sampler_logprobs(s, logits, id, p->n_logprobs, out);
	else
		*out = (struct sampler_output){.id = id};
}
