#include <stdlib.h>
#include <string.h>

#include "choose/choose.h"

#define ISLANDS_MAX 256

struct search {
	uint64_t safe[P2S_MAX_GPUS]; /* bit b of safe[a]: a and b are proven both ways */
	uint64_t found[ISLANDS_MAX];
	size_t count;
};

/* Bron and Kerbosch with a pivot: every maximal clique once. clique, open and done are sets of GPU indices. */
static void search(struct search *s, uint64_t clique, uint64_t open, uint64_t done)
{
	uint64_t pivot;
	uint64_t todo;

	if (s->count == ISLANDS_MAX)
		return;
	if (open == 0) {
		if (done == 0 && clique != 0)
			s->found[s->count++] = clique;
		return;
	}
	pivot = s->safe[__builtin_ctzll(open | done)];
	todo = open & ~pivot;
	while (todo != 0) {
		int v = __builtin_ctzll(todo);
		uint64_t bit = UINT64_C(1) << v;

		search(s, clique | bit, open & s->safe[v], done & s->safe[v]);
		open &= ~bit;
		done |= bit;
		todo &= ~bit;
	}
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	int nx = __builtin_popcountll(x);
	int ny = __builtin_popcountll(y);

	if (nx != ny)
		return ny - nx;
	if (x == y)
		return 0;
	/* the one with the lowest index that the other lacks comes first */
	return (x & (x ^ y) & (~(x ^ y) + 1)) != 0 ? -1 : 1;
}

static int32_t *members(uint64_t set)
{
	int32_t *list = malloc(((size_t)__builtin_popcountll(set) + 1) * sizeof *list);
	size_t n = 0;

	if (list == NULL)
		return NULL;
	for (int32_t i = 0; i < P2S_MAX_GPUS; i++)
		if (set & UINT64_C(1) << i)
			list[n++] = i;
	list[n] = -1;
	return list;
}

int32_t p2s_choose_islands(struct p2s_model *m)
{
	struct search *s = calloc(1, sizeof *s);
	uint64_t group = 0;

	if (s == NULL)
		return 0;
	for (size_t i = 0; i < m->island_count; i++)
		free(m->islands[i]);
	free(m->islands);
	m->islands = NULL;
	m->island_count = 0;
	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].in_group)
			group |= UINT64_C(1) << i;
	for (size_t i = 0; i < m->pair_count && !m->nothing_tested; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		const struct p2s_pair *back = p2s_model_pair_const(m, p->dst, p->src);

		if (p->verdict == P2PSAFE_VERDICT_OK && back != NULL && back->verdict == P2PSAFE_VERDICT_OK)
			s->safe[p->src] |= UINT64_C(1) << p->dst;
	}
	if (group != 0)
		search(s, 0, group, 0);
	qsort(s->found, s->count, sizeof s->found[0], by_size);
	m->islands = s->count > 0 ? calloc(s->count, sizeof *m->islands) : NULL;
	for (size_t i = 0; i < s->count && m->islands != NULL; i++) {
		m->islands[i] = members(s->found[i]);
		if (m->islands[i] == NULL)
			break;
		m->island_count++;
	}
	group = m->island_count == s->count;
	free(s);
	return group != 0;
}
