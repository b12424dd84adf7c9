/* A second opinion on what a judged model allows, from the legs alone and by a table of its own: whatever the bytes were that a model
 * came from, no permission stands without its proof. */
#ifndef P2S_TESTS_FUZZ_SECOND_H
#define P2S_TESTS_FUZZ_SECOND_H

#include "core/model.h"
#include "../unit/needs.h"
#include "evidence/log.h"
#include "fuzz.h"
#include "rules/rules.h"

static inline const struct p2s_leg *second_leg(const struct p2s_pair *p, int32_t leg, int32_t map)
{
	const struct p2s_leg *found = NULL;

	for (size_t i = 0; i < p->leg_count; i++)
		if (p->legs[i].leg == leg && p->legs[i].mapping == map)
			found = &p->legs[i];
	return found;
}

/* 1 if the legs of this directed pair prove what the consumer needs, and none that moves data was bad. */
static inline int second_proven(const struct p2s_pair *p, const struct need *n)
{
	int whole = 0;

	for (const int32_t *map = n->maps; map < n->maps + sizeof n->maps / sizeof n->maps[0] && *map != 0; map++) {
		int ok = 1;

		for (const int32_t *leg = n->legs; *leg != 0; leg++) {
			const struct p2s_leg *l = second_leg(p, *leg, *map);

			ok &= l != NULL && l->verdict == P2PSAFE_VERDICT_OK;
		}
		whole |= ok;
	}
	for (size_t i = 0; i < p->leg_count; i++) {
		int32_t v = p->legs[i].verdict;

		if (p->legs[i].leg != P2PSAFE_LEG_TEARING_128 && p->legs[i].leg != P2PSAFE_LEG_STAGED &&
		    (v == P2PSAFE_VERDICT_CORRUPT || v == P2PSAFE_VERDICT_HANG || v == P2PSAFE_VERDICT_ERROR))
			return 0;
	}
	return whole;
}

/* Both of its GPUs lived to the end of the test, and so did the way between. */
static inline int second_alive(const struct p2s_model *m, const struct p2s_pair *p)
{
	for (int i = 0; i < 2; i++) {
		int32_t state = m->gpus[i == 0 ? p->src : p->dst].state;

		if (state == P2PSAFE_GPU_STATE_FAILED || state == P2PSAFE_GPU_STATE_RISKY || state == P2PSAFE_GPU_STATE_WEDGED)
			return 0;
	}
	for (size_t i = 0; i < m->facts.log_count; i++) {
		const struct p2s_log_event *e = &m->facts.log[i];

		if (!e->in_test)
			continue;
		if (p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT && e->owner >= 0 && e->src == p->src && e->dst == p->dst)
			return 0; /* an IOMMU stopped it */
		if ((e->kind == P2S_LOG_AER_FATAL || p2s_log_is_grave(e)) && (e->gpu == p->src || e->gpu == p->dst))
			return 0;
	}
	return 1;
}

/* Every permission and every peer transport of a model that was judged from its legs has its proof. */
static inline void second_opinion(const struct p2s_model *m)
{
	FUZZ_ASSERT(m->consumers[0].allowed == 0 && m->consumers[P2PSAFE_CONSUMER_MULTICAST].allowed != 1);
	for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
		const struct need *n = &needs[i];
		const struct p2s_consumer *c = &m->consumers[n->consumer];

		FUZZ_ASSERT(c->allowed == 0 || c->allowed == 1);
		if (c->allowed != 1)
			continue;
		FUZZ_ASSERT(m->pair_count >= 2 && !m->nothing_tested && c->verdict == P2PSAFE_VERDICT_OK);
		for (size_t k = 0; k < m->pair_count; k++)
			FUZZ_ASSERT(second_proven(&m->pairs[k], n) && second_alive(m, &m->pairs[k]) &&
			            p2s_model_pair_const(m, m->pairs[k].dst, m->pairs[k].src) != NULL);
	}
	for (size_t k = 0; k < m->pair_count; k++) {
		const struct p2s_pair *p = &m->pairs[k];

		FUZZ_ASSERT(p->transport >= P2PSAFE_TRANSPORT_NVLINK && p->transport <= P2PSAFE_TRANSPORT_NONE);
		if (p->transport == P2PSAFE_TRANSPORT_NVLINK || p->transport == P2PSAFE_TRANSPORT_PCIE)
			FUZZ_ASSERT(second_proven(p, &needs[0]) && second_proven(p, &needs[3]) && second_alive(m, p));
	}
	if (p2s_rules_exit_code(m) == 0 && !m->single_gpu)
		FUZZ_ASSERT(m->consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed == 1 &&
		            m->consumers[P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE].allowed == 1 &&
		            m->consumers[P2PSAFE_CONSUMER_PEER_COPIES].allowed == 1);
	for (size_t i = 0; i < m->setting_count; i++)
		FUZZ_ASSERT(!m->settings[i].gives); /* permission is only given where it is asked for */
}

#endif
