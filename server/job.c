// SPDX-License-Identifier: Apache-2.0
#include "server/job.h"

#include "engine/base/mem.h"

#include <stdlib.h>

enum {
	PARAMS_BYTES = 8 << 20
}; // what the copied parameters of one request may take: a bias for every token of a vocabulary

struct job *job_create(const struct api_context *ctx, enum dialect dialect)
{
	struct job *j = mem_zalloc(1, sizeof *j);
	j->ctx = ctx;
	j->dialect = dialect;
	arena_init(&j->arena, PARAMS_BYTES);
	return j;
}

static void log_deinit(struct token_log *log)
{
	for (int i = 0; i < LOG_PARTS; i++)
		buf_deinit(&log->part[i]);
}

void job_destroy(struct job *j)
{
	if (!j)
		return;
	for (int i = 0; i < j->n_prompts; i++) {
		struct prompt *p = &j->prompts[i];
		token_vec_deinit(&p->tokens);
		free(p->echo);
		log_deinit(&p->log);
		buf_deinit(&p->full_log);
	}
	for (int i = 0; i < j->n_choices; i++) {
		struct choice *c = &j->choices[i];
		buf_deinit(&c->text);
		log_deinit(&c->log);
		buf_deinit(&c->ids);
	}
	free(j->prompts);
	free(j->choices);
	buf_deinit(&j->head);
	arena_deinit(&j->arena);
	free(j);
}

void job_set_prompts(struct job *j, int n)
{
	j->prompts = mem_zalloc((size_t)n, sizeof *j->prompts);
	j->n_prompts = n;
}
