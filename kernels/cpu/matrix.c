// SPDX-License-Identifier: Apache-2.0
//
// Loading weights: memory for them, and packing on all threads. Packed matrices share large anonymous mappings (slabs)
// that ask for 2 MiB pages: a layer's matrices are too small to fill pages of their own, and a decode step walks all of
// them, so that with 4 KiB pages the walk waits for address translation.
#include "kernels/cpu/matrix.h"

#include "engine/base/err.h"
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, SLAB_BYTES = 64 << 20 };

struct slab {
	void *map;
	size_t map_bytes;
	uint8_t *base;
	size_t used, size;
	size_t n_matrices;
};

static void slab_unref(struct cpu_backend *be, struct slab *s)
{
	if (!s || --s->n_matrices)
		return;
	if (be->slab == s)
		be->slab = NULL;
	munmap(s->map, s->map_bytes);
	free(s);
}

static struct slab *slab_create(size_t size)
{
	size = (size + HUGE_PAGE - 1) & ~(size_t)(HUGE_PAGE - 1);
	void *map =
		mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	struct slab *s = mem_zalloc(1, sizeof *s);
	s->map = map;
	s->map_bytes = size + HUGE_PAGE;
	s->base = (uint8_t *)(((uintptr_t)map + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
	s->size = size;
	madvise(s->base, size, MADV_HUGEPAGE); // a wish: without it everything still works
	return s;
}

// Room for a matrix: what does not fit the open slab opens a new one, and the rest of the old one stays untouched.
static struct slab *slab_take(struct cpu_backend *be, size_t bytes, uint8_t **at)
{
	struct slab *s = be->slab;
	if (!s || s->size - s->used < bytes) {
		s = slab_create(bytes > SLAB_BYTES ? bytes : SLAB_BYTES);
		if (!s)
			return NULL;
		if (!be->slab || s->size - bytes > be->slab->size - be->slab->used)
			be->slab = s;
	}
	*at = s->base + s->used;
	s->used += bytes;
	s->n_matrices++;
	return s;
}

static int layout_of(enum dtype type)
{
	for (int i = 0; i < N_LAYOUTS; i++)
		if (layout_infos[i].type == type)
			return i;
	return -1;
}

// Sections without memory yet, and how much they need.
static int plan(const struct matrix_part *parts, int n_parts, uint64_t k, struct matrix *m, char *err, size_t len)
{
	m->k = (size_t)k;
	m->n_sections = n_parts;
	for (int i = 0; i < n_parts; i++) {
		struct section *s = &m->section[i];
		int layout = layout_of(parts[i].type);
		size_t row_bytes, bytes;
		if (layout < 0 || !dtype_row_bytes(parts[i].type, k, &row_bytes))
			return err_set(err, len, ERR_UNSUPPORTED, "the CPU back end cannot take rows of %llu values of type %s",
						   (unsigned long long)k, dtype_name(parts[i].type) ? dtype_name(parts[i].type) : "unknown");
		size_t groups = (size_t)((parts[i].rows + GROUP - 1) / GROUP);
		*s = (struct section){(enum cpu_layout)layout, m->n, (size_t)parts[i].rows, m->n_groups, groups, 0, NULL};
		if (!mem_mul((size_t)k, 4 * GROUP, &bytes) || !mem_mul(bytes, groups, &bytes) || bytes > SIZE_MAX / 4)
			return err_set(err, len, ERR_NOMEM, "a matrix of %llu rows of %llu is too large",
						   (unsigned long long)parts[i].rows, (unsigned long long)k);
		s->group_bytes = layout_group_bytes(s->layout, m->k);
		m->n += s->rows;
		m->n_groups += groups;
		m->bytes += groups * s->group_bytes;
		m->takes_int |= layout < N_INT_LAYOUTS;
		m->takes_float |= layout >= N_INT_LAYOUTS;
	}
	return 0;
}

struct packing {
	const struct matrix_part *parts;
	const struct matrix *m;
};

static void pack_groups(void *ctx, size_t first, size_t last, int thread)
{
	const struct packing *p = ctx;
	(void)thread;
	for (size_t g = first; g < last; g++) {
		const struct section *s = matrix_section(p->m, g);
		const struct matrix_part *part = &p->parts[s - p->m->section];
		size_t row_bytes = 0, row = (g - s->first_group) * GROUP;
		dtype_row_bytes(part->type, p->m->k, &row_bytes);
		pack_group(s->layout, (const uint8_t *)part->data + row * row_bytes, row_bytes,
				   s->rows - row < GROUP ? s->rows - row : GROUP, p->m->k,
				   s->w + (g - s->first_group) * s->group_bytes);
	}
}

int cpu_matrix_load(struct backend *b, const struct matrix_part *parts, int n_parts, uint64_t k, struct matrix **out,
					bool *borrows, char *err, size_t len)
{
	struct cpu_backend *be = cpu_of(b);
	CHECK(n_parts > 0, "a matrix of no parts");
	struct matrix *m = mem_zalloc(1, sizeof *m + (size_t)n_parts * sizeof m->section[0]);
	uint8_t *at = NULL;
	int rc = plan(parts, n_parts, k, m, err, len);
	if (!rc && !(m->slab = slab_take(be, m->bytes, &at)))
		rc = err_set(err, len, ERR_NOMEM, "no memory for %zu bytes of packed weights", m->bytes);
	if (rc) {
		free(m);
		return rc;
	}
	for (int i = 0; i < n_parts; i++) {
		m->section[i].w = at;
		at += m->section[i].n_groups * m->section[i].group_bytes;
	}
	struct packing p = {parts, m};
	team_run(be->team, m->n_groups, 1, pack_groups, &p);
	*out = m;
	*borrows = false;
	return 0;
}

void cpu_matrix_free(struct backend *b, struct matrix *m)
{
	if (m)
		slab_unref(cpu_of(b), m->slab);
	free(m);
}

size_t cpu_matrix_bytes(const struct matrix *m)
{
	return m->bytes;
}

void matrix_read_row(const struct matrix *m, size_t row, float *out)
{
	const struct section *s = matrix_section_of_row(m, row);
	row -= s->first_row;
	pack_read_row(s->layout, s->w + row / GROUP * s->group_bytes, row % GROUP, m->k, out);
}
