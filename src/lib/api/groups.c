/* Groups of GPUs: the interface over choose/groups.h. Everything is counted in the evidence's GPUs, as p2psafe_report_gpu() is. */
#include "choose/groups.h"

#include <stdlib.h>

#include "api/internal.h"
#include "core/sized.h"

#define BIT(i) (UINT64_C(1) << (i))

static const struct p2s_model *model_of(const p2psafe_report *report)
{
	return &p2s_report_evidence(report)->m;
}

/* The GPUs as a set; a mistake is an error and no set. */
static int32_t set_of(const struct p2s_model *m, const int32_t *gpus, int32_t count, uint64_t *set)
{
	*set = 0;
	if (gpus == NULL || count < 2)
		return P2PSAFE_E_INVALID;
	for (int32_t i = 0; i < count; i++) {
		if (gpus[i] < 0 || (size_t)gpus[i] >= m->gpu_count)
			return P2PSAFE_E_RANGE;
		if (!m->gpus[gpus[i]].in_group || *set & BIT(gpus[i]))
			return P2PSAFE_E_INVALID;
		*set |= BIT(gpus[i]);
	}
	return P2PSAFE_OK;
}

static int32_t members(uint64_t set, int32_t *gpus)
{
	int32_t n = 0;

	for (; set != 0; set &= set - 1)
		gpus[n++] = __builtin_ctzll(set);
	return n;
}

static int32_t tell(const struct p2s_model *m, uint64_t set, int32_t exact, struct p2psafe_group *out)
{
	struct p2psafe_group own = {0};
	struct p2s_group_facts facts;

	if (!p2s_groups_facts(m, set, &facts))
		return P2PSAFE_E_INVALID;
	own.verdict = facts.verdict;
	own.transport = facts.transport;
	own.score = facts.score;
	own.exact = exact;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_group(const p2psafe_report *report, const int32_t *gpus, int32_t count,
                                         struct p2psafe_group *out)
{
	uint64_t set;
	int32_t rc = report == NULL ? P2PSAFE_E_INVALID : set_of(model_of(report), gpus, count, &set);

	return rc != 0 ? rc : tell(model_of(report), set, 1, out);
}

P2PSAFE_API int32_t p2psafe_report_group_allows(const p2psafe_report *report, const int32_t *gpus, int32_t count, int32_t consumer)
{
	uint64_t set;

	if (report == NULL || set_of(model_of(report), gpus, count, &set) != 0)
		return 0;
	return p2s_groups_allow(model_of(report), set, consumer);
}

P2PSAFE_API int32_t p2psafe_report_best_group(const p2psafe_report *report, int32_t consumer, int32_t count, int32_t *gpus,
                                              struct p2psafe_group *out)
{
	struct p2s_bonds *b;
	uint64_t set;
	int32_t exact;
	int32_t rc;

	if (report == NULL || gpus == NULL || count < 2 || consumer < 0 || consumer >= P2S_CONSUMERS)
		return P2PSAFE_E_INVALID;
	b = malloc(sizeof *b);
	if (b == NULL)
		return P2PSAFE_E_NOMEM;
	p2s_groups_bonds(model_of(report), consumer, b);
	set = p2s_groups_best(b, count, &exact);
	free(b);
	if (set == 0)
		return P2PSAFE_E_RANGE;
	rc = out != NULL ? tell(model_of(report), set, exact, out) : 0;
	if (rc == 0)
		members(set, gpus);
	return rc;
}

P2PSAFE_API int32_t p2psafe_report_island_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)model_of(report)->island_count;
}

P2PSAFE_API int32_t p2psafe_report_island(const p2psafe_report *report, int32_t i, int32_t *gpus, int32_t room)
{
	const struct p2s_model *m = report != NULL ? model_of(report) : NULL;
	int32_t n = 0;

	if (m == NULL || gpus == NULL)
		return P2PSAFE_E_INVALID;
	if (i < 0 || (size_t)i >= m->island_count)
		return P2PSAFE_E_RANGE;
	while (m->islands[i][n] >= 0)
		n++;
	if (n > room)
		return P2PSAFE_E_INVALID;
	for (int32_t k = 0; k < n; k++)
		gpus[k] = m->islands[i][k];
	return n;
}

P2PSAFE_API int32_t p2psafe_report_partition(const p2psafe_report *report, int32_t *part, int32_t room)
{
	uint64_t islands[P2S_MAX_GPUS];
	const struct p2s_model *m;
	struct p2s_bonds *b;
	int32_t exact;
	int32_t n;

	if (report == NULL || part == NULL || room < 0 || (size_t)room < model_of(report)->gpu_count)
		return P2PSAFE_E_INVALID;
	m = model_of(report);
	b = malloc(sizeof *b);
	if (b == NULL)
		return P2PSAFE_E_NOMEM;
	p2s_groups_bonds(m, P2PSAFE_CONSUMER_UNKNOWN, b);
	n = p2s_groups_partition(b, islands, &exact);
	free(b);
	for (size_t i = 0; i < m->gpu_count; i++) {
		part[i] = -1;
		for (int32_t k = 0; k < n; k++)
			if (islands[k] & BIT(i))
				part[i] = k;
	}
	return n;
}

P2PSAFE_API int32_t p2psafe_report_order(const p2psafe_report *report, int32_t count, int32_t *gpus, int32_t room)
{
	int32_t order[P2S_MAX_GPUS];
	struct p2s_bonds *b;
	int32_t exact;
	int32_t n;
	int32_t all;

	if (report == NULL || gpus == NULL || count < 2)
		return P2PSAFE_E_INVALID;
	b = malloc(sizeof *b);
	if (b == NULL)
		return P2PSAFE_E_NOMEM;
	p2s_groups_bonds(model_of(report), P2PSAFE_CONSUMER_UNKNOWN, b);
	n = p2s_groups_order(b, count, order, &exact);
	all = __builtin_popcountll(b->group);
	free(b);
	if (all > room)
		return P2PSAFE_E_INVALID;
	for (int32_t i = 0; i < all; i++)
		gpus[i] = order[i];
	return n;
}
