#include "rules/lost.h"

#include <string.h>

#include "evidence/log.h"
#include "rules/rules.h"
#include "score/score.h"

#define SXID_FATAL 1 /* flags of a line about an NVSwitch */

/* A leg that a transfer was made for. */
static int32_t ran(const struct p2s_leg *l)
{
	return l->verdict == P2PSAFE_VERDICT_OK || l->verdict == P2PSAFE_VERDICT_DEGRADED || p2s_rules_is_bad(l->verdict);
}

static int32_t took_part(const struct p2s_pair *p)
{
	for (size_t i = 0; i < p->leg_count; i++)
		if (ran(&p->legs[i]))
			return 1;
	return 0;
}

static int32_t a_leg_failed(const struct p2s_pair *p)
{
	for (size_t i = 0; i < p->leg_count; i++)
		if (p2s_rules_is_bad(p->legs[i].verdict))
			return 1;
	return 0;
}

int32_t p2s_rules_only_lost(const struct p2s_pair *pair)
{
	return pair->lost != 0 && !a_leg_failed(pair);
}

/* Its speed does not speak against it. */
static int32_t by_wire(const struct p2s_model *m, const struct p2s_pair *p)
{
	return (p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C) && !p2s_score_not_nvlink(m, p);
}

static void lose(struct p2s_pair *p, int32_t verdict)
{
	if (verdict != 0)
		p->lost = p->lost == 0 ? verdict : p2s_rules_worse(p->lost, verdict);
}

static void lose_all(struct p2s_model *m, int32_t gpu, int32_t verdict)
{
	for (size_t i = 0; verdict != 0 && i < m->pair_count; i++)
		if (m->pairs[i].src == gpu || m->pairs[i].dst == gpu)
			lose(&m->pairs[i], verdict);
}

/* What a GPU in this state leaves of what its pairs passed. 0: all. */
static int32_t end_of(int32_t state)
{
	return state == P2PSAFE_GPU_STATE_WEDGED                                              ? P2PSAFE_VERDICT_HANG
	       : state == P2PSAFE_GPU_STATE_FAILED || state == P2PSAFE_GPU_STATE_RISKY ? P2PSAFE_VERDICT_ERROR
	                                                                                      : 0;
}

/* After a fatal error the link is reset, and what was under way on it is gone. */
static int32_t link_failed(const struct p2s_gpu_facts *f)
{
	if (f->aer_fatal[0] != UINT64_MAX && f->aer_fatal[1] != UINT64_MAX && f->aer_fatal[1] > f->aer_fatal[0])
		return 1;
	for (size_t i = 0; i + 1 < f->hop_count && i < P2S_HOPS; i++)
		if (f->hops[i].errors[2] != 0)
			return 1;
	return 0;
}

int32_t p2s_rules_link_of(const struct p2s_model *m, int32_t gpu, const struct p2s_log_event *e)
{
	const struct p2s_gpu_facts *f = &m->gpus[gpu].facts;

	if (e->gpu == gpu)
		return 1;
	for (size_t i = 0; e->device[0] != '\0' && i < f->hop_count && i < P2S_HOPS; i++)
		if (strcmp(f->hops[i].address, e->device) == 0)
			return 1;
	return 0;
}

static void fatal_error(struct p2s_model *m, const struct p2s_log_event *e)
{
	for (size_t i = 0; i < m->gpu_count; i++)
		if (p2s_rules_link_of(m, (int32_t)i, e))
			lose_all(m, (int32_t)i, P2PSAFE_VERDICT_ERROR);
}

/* An accessor's fault that names no pair came late, or while several were under way. Where a leg of that accessor failed, it
 * belongs there; else it may be any of its pairs. Over NVLink no IOMMU is met: there it explains nothing, and ends nothing. */
static void fault_of_somebody(struct p2s_model *m, int32_t accessor)
{
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].src == accessor && a_leg_failed(&m->pairs[i]) && !by_wire(m, &m->pairs[i]))
			return;
	for (size_t i = 0; i < m->pair_count; i++)
		if (m->pairs[i].src == accessor && !by_wire(m, &m->pairs[i]))
			lose(&m->pairs[i], P2PSAFE_VERDICT_ERROR);
}

/* An IOMMU stopped a transfer. A line that names neither a GPU nor memory of one may be about any device. One that fell while
 * its GPU used NVLink, and names no peer's memory, is of something else that this GPU did. */
static void fault(struct p2s_model *m, const struct p2s_log_event *e)
{
	struct p2s_pair *p = e->src >= 0 && e->dst >= 0 ? p2s_model_pair(m, e->src, e->dst) : NULL;

	if (e->gpu < 0 && e->owner < 0)
		return;
	if (p != NULL && (!by_wire(m, p) || e->owner >= 0))
		lose(p, P2PSAFE_VERDICT_ERROR);
	else if (e->gpu >= 0)
		fault_of_somebody(m, e->gpu);
}

/* gpu -1: a switch between any of them. */
static void link_error(struct p2s_model *m, int32_t gpu)
{
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];

		if ((gpu < 0 || p->src == gpu || p->dst == gpu) &&
		    (p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C || p->path == P2PSAFE_PATH_UNKNOWN))
			lose(p, P2PSAFE_VERDICT_ERROR);
	}
}

static void by_log(struct p2s_model *m)
{
	for (size_t i = 0; i < m->facts.log_count; i++) {
		const struct p2s_log_event *e = &m->facts.log[i];

		if (!e->in_test)
			continue;
		if (p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT)
			fault(m, e);
		else if (e->kind == P2S_LOG_AER_FATAL)
			fatal_error(m, e);
		else if (p2s_log_is_grave(e))
			lose_all(m, e->gpu, P2PSAFE_VERDICT_ERROR);
		else if (e->kind == P2S_LOG_SXID && e->flags == SXID_FATAL)
			link_error(m, -1);
		else if (p2s_log_ends_nvlink(e))
			link_error(m, e->gpu);
	}
}

/* The helper did not come to its end: it died, or the deadline came and it did not even say so, which it does where it can. The
 * log and the GPUs were not looked at once more, and what kept it nobody knows. */
static int32_t broke_off(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, "HELPER_DIED") == 0 || strcmp(m->findings[i].code, "DEADLINE_HIT") == 0)
			return 1;
	return 0;
}

void p2s_rules_lose(struct p2s_model *m)
{
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].lost = p2s_rules_is_bad(m->pairs[i].told) ? m->pairs[i].told : 0;
	for (size_t i = 0; i < m->gpu_count; i++) {
		lose_all(m, (int32_t)i, end_of(m->gpus[i].state));
		if (link_failed(&m->gpus[i].facts))
			lose_all(m, (int32_t)i, P2PSAFE_VERDICT_ERROR);
	}
	by_log(m);
	for (size_t i = 0; i < m->pair_count && broke_off(m); i++)
		lose(&m->pairs[i], P2PSAFE_VERDICT_UNTESTED);
	for (size_t i = 0; i < m->pair_count; i++)
		if (!took_part(&m->pairs[i]) && !p2s_rules_is_bad(m->pairs[i].told))
			m->pairs[i].lost = 0;
}
