#include "kept/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

/* One matrix of letters: of a consumer, or of staging. */
struct matrix {
	const struct p2s_record *r;
	unsigned char *cells;
	size_t step;       /* bytes between cells */
	int32_t hang_wins; /* of the pairs themselves: a HANG is seen behind what is worse, for it counts for the whole boot */
};

static unsigned char *cell(const struct matrix *m, size_t a, size_t b)
{
	return &m->cells[(a * m->r->gpu_count + b) * m->step];
}

static int32_t both_tested(const struct p2s_record *r, size_t a, size_t b)
{
	return a != b && r->gpus[a].tested && r->gpus[b].tested;
}

/* What a pair outside the group may be taken for without being remembered as failed or slow. */
static int32_t is_calm(int32_t verdict)
{
	return !p2s_rules_is_bad(verdict) && verdict != P2PSAFE_VERDICT_DEGRADED;
}

static void fill(const struct matrix *m)
{
	size_t n = m->r->gpu_count;
	unsigned char calm = P2PSAFE_VERDICT_UNTESTED;

	/* rows of GPUs outside the group are like the first one inside */
	for (size_t i = n * n; i-- > 0;)
		if (both_tested(m->r, i / n, i % n) && is_calm(*cell(m, i / n, i % n)))
			calm = *cell(m, i / n, i % n);
	for (size_t a = 0; a < n; a++) {
		for (size_t b = 0; b < n; b++) {
			unsigned char *v = cell(m, a, b);

			if (!both_tested(m->r, a, b))
				*v = p2s_rules_is_bad(*v) ? *v : calm;
			else if (is_calm(*v))
				calm = *v;
		}
	}
}

/* Worst of a row, or of all for a == n. A pair outside the group counts only if it failed. Returns 0 if there is nothing to
 * say. */
static int32_t worst(const struct matrix *m, size_t a)
{
	size_t n = m->r->gpu_count;
	int32_t found = 0;

	for (size_t i = a < n ? a * n : 0; i < (a < n ? (a + 1) * n : n * n); i++) {
		int32_t v = *cell(m, i / n, i % n);

		if (i / n == i % n || (!both_tested(m->r, i / n, i % n) && !p2s_rules_is_bad(v)))
			continue;
		if (m->hang_wins && (v == P2PSAFE_VERDICT_HANG || found == P2PSAFE_VERDICT_HANG))
			found = P2PSAFE_VERDICT_HANG;
		else
			found = found == 0 ? p2s_rules_worse(v, v) : p2s_rules_worse(found, v);
	}
	return found;
}

static void flatten(const struct matrix *m, int32_t whole)
{
	size_t n = m->r->gpu_count;
	int32_t all = worst(m, n);
	int32_t letter = all != 0 ? all : P2PSAFE_VERDICT_UNTESTED;

	for (size_t a = 0; a < n; a++) {
		int32_t row = worst(m, a);

		/* a row without a word of its own: like the one before, or like all if that failed */
		if (whole)
			letter = all != 0 ? all : letter;
		else if (row != 0)
			letter = row;
		else if (!is_calm(letter))
			letter = P2PSAFE_VERDICT_UNTESTED;
		for (size_t b = 0; b < n; b++)
			*cell(m, a, b) = (unsigned char)letter;
	}
}

/* Paths do not compare: of a whole matrix with more than one none is known. */
static void paths(const struct p2s_record *r, unsigned char *path, int32_t whole)
{
	size_t n = r->gpu_count;
	unsigned char last = P2PSAFE_PATH_UNKNOWN;
	int32_t same = 1;
	int32_t any = 0;

	for (size_t i = n * n; i-- > 0;) {
		if (!both_tested(r, i / n, i % n))
			continue;
		same = same && (!any || last == path[i]);
		any = 1;
		last = path[i];
	}
	if (whole) {
		memset(path, same ? last : P2PSAFE_PATH_UNKNOWN, n * n);
		return;
	}
	for (size_t i = 0; i < n * n; i++) {
		if (both_tested(r, i / n, i % n))
			last = path[i];
		else
			path[i] = last;
	}
}

int32_t p2s_shrink(struct p2s_record *out, const struct p2s_record *r, enum p2s_shrink how)
{
	size_t cells = r->gpu_count * r->gpu_count;

	*out = *r;
	out->verdict = malloc(cells * P2S_CONSUMERS + 1);
	out->path = malloc(cells + 1);
	out->staged = malloc(cells + 1);
	if (out->verdict == NULL || out->path == NULL || out->staged == NULL) {
		p2s_shrink_free(out);
		return 0;
	}
	memcpy(out->verdict, r->verdict, cells * P2S_CONSUMERS);
	memcpy(out->path, r->path, cells);
	memcpy(out->staged, r->staged, cells);
	for (int32_t c = 0; c <= P2S_CONSUMERS; c++) {
		struct matrix m = {.r = r, .cells = out->verdict + c, .step = P2S_CONSUMERS, .hang_wins = c == 0};

		if (c == P2S_CONSUMERS) {
			m.cells = out->staged;
			m.step = 1;
		}
		if (how == P2S_SHRINK_FILL)
			fill(&m);
		else
			flatten(&m, how == P2S_SHRINK_WHOLE);
	}
	paths(r, out->path, how == P2S_SHRINK_WHOLE);
	if (how != P2S_SHRINK_FILL)
		out->nccl_level = P2PSAFE_PATH_UNKNOWN; /* it was found among pairs that say something else now */
	return 1;
}

void p2s_shrink_free(struct p2s_record *copy)
{
	free(copy->verdict);
	free(copy->path);
	free(copy->staged);
	memset(copy, 0, sizeof *copy);
}
