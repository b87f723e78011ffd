// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/workload.h"

#include <math.h>

enum { N_SYSTEMS = 50, SYSTEM_LEN = 400, TURN_LEN = 60, MAX_TURNS = 4, TENANTS = 40 };

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint32_t any(struct workload *w, uint32_t n) // 0 … n - 1
{
	w->random = mix(w->random);
	return (uint32_t)(w->random >> 33) % n;
}

static double uniform(struct workload *w) // (0, 1]
{
	return (any(w, 1u << 30) + 1) / (double)(1u << 30);
}

// Zipf with exponent 1, near enough: the logarithm of the rank is uniform.
static uint32_t popular(struct workload *w, uint32_t n)
{
	return (uint32_t)pow(n, uniform(w)) - 1;
}

const char *workload_name(enum workload_kind kind)
{
	static const char *const names[] = {"chat", "burst", "unique", "heavy", "hostile"};
	return names[kind];
}

void workload_init(struct workload *w, enum workload_kind kind, double rate, uint64_t seed)
{
	*w = (struct workload){.kind = kind, .rate = rate, .random = mix(seed + (uint64_t)kind)};
}

static void next_time(struct workload *w)
{
	w->now_ns += (uint64_t)(-log(uniform(w)) / w->rate * 1e9);
}

// A turn of one of many conversations. The tokens of a conversation go on from turn to turn, answers included, because
// a token is a function of its position.
static void make_chat(struct workload *w, struct arrival *a)
{
	uint32_t conversation = any(w, 3000), turn = 1 + any(w, MAX_TURNS);
	uint32_t system = popular(w, N_SYSTEMS);
	a->head_seed = system;
	a->n_head = SYSTEM_LEN / 4 + (int)(mix(system) % SYSTEM_LEN);
	a->body_seed = (uint64_t)system << 32 | conversation;
	a->n_output = 5 + (int)any(w, TURN_LEN - 5);
	a->n_prompt = a->n_head + (int)turn * TURN_LEN - 20;
}

static void make_heavy(struct workload *w, struct arrival *a)
{
	double size = 10 / pow(uniform(w), 0.8);
	a->n_prompt = (int)(size > 3000 ? 3000 : size);
	a->n_output = 1 + (int)(5 / pow(uniform(w), 0.7)) % 500;
	a->n_head = a->n_prompt / 3;
	a->head_seed = popular(w, 20);
	a->body_seed = w->random;
}

static void make_hostile(struct workload *w, struct arrival *a)
{
	a->n_prompt = 1 + (int)any(w, any(w, 10) ? 200 : 2500);
	a->n_output = 1 + (int)any(w, 100);
	a->n_head = (int)any(w, 600);
	a->head_seed = popular(w, 8);
	a->body_seed = any(w, 3) ? w->random : any(w, 10);
	a->tenant = (int)popular(w, TENANTS);
	a->priority = any(w, 10) ? 0 : (int)any(w, 3) - 1;
	a->cancel_after = any(w, 4) ? 0 : 1 + (int)any(w, 60);
	a->pause_after = any(w, 8) ? 0 : 1 + (int)any(w, 60);
}

struct arrival workload_next(struct workload *w)
{
	struct arrival a = {0};
	next_time(w);
	a.at_ns = w->kind == WORKLOAD_BURST ? w->now_ns / 1000000000 * 1000000000 : w->now_ns;
	switch (w->kind) {
	case WORKLOAD_CHAT:
	case WORKLOAD_BURST:
		make_chat(w, &a);
		break;
	case WORKLOAD_UNIQUE:
		a.n_prompt = 50 + (int)any(w, 300);
		a.n_output = 5 + (int)any(w, 60);
		a.body_seed = w->random;
		break;
	case WORKLOAD_HEAVY:
		make_heavy(w, &a);
		break;
	case WORKLOAD_HOSTILE:
		make_hostile(w, &a);
		break;
	}
	return a;
}

int32_t workload_token(const struct arrival *a, int position)
{
	uint64_t seed = position < a->n_head ? a->head_seed : a->body_seed + 1000003;
	return (int32_t)(mix(mix(seed) + (uint64_t)position) % 50000);
}
