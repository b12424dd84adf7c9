#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>

#include "rules/lost.h"
#include "score/score.h"

#define LEG(x) (1u << P2PSAFE_LEG_##x)
#define MAP(x) (1u << P2PSAFE_MAPPING_##x)

struct needs {
	int32_t consumer;
	uint32_t legs;
	uint32_t mappings;
};

static const struct needs table[] = {
#define P2S_NEEDS(consumer, legs, mappings) {P2PSAFE_CONSUMER_##consumer, legs, mappings},
#include "rules/consumers.def"
#undef P2S_NEEDS
};

/* Told, never judged (tearing_128), or not a transfer between the two GPUs (staged). */
#define NOT_JUDGED (LEG(TEARING_128) | LEG(STAGED))

/* Higher is worse. A number this table lacks counts as UNTESTED: never a pass. */
static int rank(int32_t verdict)
{
	switch (verdict) {
	case P2PSAFE_VERDICT_CORRUPT:
		return 6;
	case P2PSAFE_VERDICT_HANG:
		return 5;
	case P2PSAFE_VERDICT_ERROR:
		return 4;
	case P2PSAFE_VERDICT_UNSUPPORTED:
		return 2;
	case P2PSAFE_VERDICT_DEGRADED:
		return 1;
	case P2PSAFE_VERDICT_OK:
		return 0;
	default:
		return 3;
	}
}

static int32_t normal(int32_t verdict)
{
	return rank(verdict) == 3 ? P2PSAFE_VERDICT_UNTESTED : verdict;
}

int32_t p2s_rules_worse(int32_t a, int32_t b)
{
	return normal(rank(b) > rank(a) ? b : a);
}

int32_t p2s_rules_is_bad(int32_t verdict)
{
	return rank(verdict) >= 4;
}

static const struct needs *needs_of(int32_t consumer)
{
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].consumer == consumer)
			return &table[i];
	return NULL;
}

static int32_t leg_verdict(const struct p2s_pair *pair, int32_t leg, int32_t mapping)
{
	for (size_t i = 0; i < pair->leg_count; i++)
		if (pair->legs[i].leg == leg && pair->legs[i].mapping == mapping)
			return normal(pair->legs[i].verdict);
	return P2PSAFE_VERDICT_UNTESTED;
}

/* The worst required leg over one mapping. *refused: the API turned the mapping down before any byte moved, so every
 * required leg is UNSUPPORTED. */
static int32_t over_mapping(const struct p2s_pair *pair, uint32_t legs, int32_t mapping, int32_t *refused)
{
	int32_t worst = P2PSAFE_VERDICT_OK;

	*refused = 1;
	for (int32_t leg = 1; leg <= P2PSAFE_LEG_STAGED; leg++) {
		int32_t v;

		if (!(legs & 1u << leg))
			continue;
		v = leg_verdict(pair, leg, mapping);
		worst = p2s_rules_worse(worst, v);
		if (v != P2PSAFE_VERDICT_UNSUPPORTED)
			*refused = 0;
	}
	return worst;
}

/* Once per pair, leg and mapping. What belongs to one pair was noted in one go, so only the end of the list is looked at: 64 GPUs
 * have more than a hundred thousand entries. */
static int32_t note_failed(struct p2s_consumer *failed, const struct p2s_pair *pair, int32_t leg, int32_t mapping)
{
	for (size_t i = failed->failed_count; i > 0; i--) {
		const struct p2s_failed_leg *f = &failed->failed[i - 1];

		if (f->src != pair->src || f->dst != pair->dst)
			break;
		if (f->leg == leg && f->mapping == mapping)
			return 1;
	}
	return p2s_model_add_failed(failed, pair->src, pair->dst, leg, mapping);
}

static void note_mapping(struct p2s_consumer *failed, const struct p2s_pair *pair, uint32_t legs, int32_t mapping, int32_t *oom)
{
	for (int32_t leg = 1; leg <= P2PSAFE_LEG_STAGED; leg++)
		if ((legs & 1u << leg) && leg_verdict(pair, leg, mapping) != P2PSAFE_VERDICT_OK &&
		    !note_failed(failed, pair, leg, mapping))
			*oom = 1;
}

int32_t p2s_rules_consumer(const struct p2s_pair *pair, int32_t consumer, struct p2s_consumer *failed, int32_t *oom)
{
	const struct needs *n = needs_of(consumer);
	int32_t verdict[P2PSAFE_MAPPING_HOST + 1];
	int32_t refused[P2PSAFE_MAPPING_HOST + 1];
	int32_t worst = P2PSAFE_VERDICT_OK;
	int32_t usable_ok = 0;

	if (n == NULL)
		return P2PSAFE_VERDICT_UNTESTED;
	for (int32_t map = 1; map <= P2PSAFE_MAPPING_HOST; map++) {
		if (!(n->mappings & 1u << map))
			continue;
		verdict[map] = over_mapping(pair, n->legs, map, &refused[map]);
		usable_ok |= verdict[map] == P2PSAFE_VERDICT_OK;
	}
	for (int32_t map = 1; map <= P2PSAFE_MAPPING_HOST; map++) {
		if (!(n->mappings & 1u << map) || (refused[map] && usable_ok))
			continue;
		worst = p2s_rules_worse(worst, verdict[map]);
		if (failed != NULL && verdict[map] != P2PSAFE_VERDICT_OK)
			note_mapping(failed, pair, n->legs, map, oom);
	}
	/* Damage anywhere between these two GPUs ends every permission, whatever the row asks for. */
	for (size_t i = 0; i < pair->leg_count; i++) {
		const struct p2s_leg *l = &pair->legs[i];

		if (!p2s_rules_is_bad(l->verdict) || l->leg <= 0 || l->leg > P2PSAFE_LEG_STAGED || (NOT_JUDGED & 1u << l->leg))
			continue;
		worst = p2s_rules_worse(worst, l->verdict);
		if (failed != NULL && !note_failed(failed, pair, l->leg, l->mapping))
			*oom = 1;
	}
	return pair->lost != 0 ? p2s_rules_worse(worst, pair->lost) : worst;
}

/* Exact, but no better than staging. A faster way that is not proven is no way out. */
static int32_t is_slow(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	return staged != NULL && staged->verdict == P2PSAFE_VERDICT_OK && p2s_score_degraded(pair, staged);
}

int32_t p2s_rules_pair(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	int32_t v = p2s_rules_worse(p2s_rules_consumer(pair, P2PSAFE_CONSUMER_NCCL_P2P, NULL, NULL),
	                            p2s_rules_consumer(pair, P2PSAFE_CONSUMER_PEER_COPIES, NULL, NULL));

	return v == P2PSAFE_VERDICT_OK && is_slow(pair, staged) ? P2PSAFE_VERDICT_DEGRADED : v;
}

static const struct p2s_staged *staged_of(const struct p2s_model *m, const struct p2s_pair *p)
{
	for (size_t i = 0; i < m->staged_count; i++)
		if ((m->staged[i].a == p->src && m->staged[i].b == p->dst) || (m->staged[i].a == p->dst && m->staged[i].b == p->src))
			return &m->staged[i];
	return NULL;
}

/* What measuring says about the pair besides its verdict. A name that its speed does not bear out is taken back: nobody knows then
 * which way the bytes take. NCCL still believes NVML, so nccl_path stays. */
static void measure(const struct p2s_model *m, struct p2s_pair *p, const struct p2s_staged *staged)
{
	struct p2s_limit limit;

	p2s_score_limit(m, p, &limit);
	p->limit_loaded = limit.under_load;
	p->efficiency = p2s_score_efficiency(p, limit.under_load);
	if (p2s_score_not_nvlink(m, p))
		p->path = P2PSAFE_PATH_UNKNOWN;
	p->wins_from = p2s_score_wins_from(p);
	p->score = p2s_score_pair(p, staged);
}

static int32_t kept_verdict(const struct p2s_matrix *kept, const struct p2s_pair *p, int32_t which)
{
	return normal(kept->verdict[((size_t)p->src * kept->gpus + (size_t)p->dst) * P2S_CONSUMERS + (size_t)which]);
}

/* Every two GPUs of the group, both ways: what has no pair was not tested. */
static int32_t has_every_pair(const struct p2s_model *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->gpu_count; i++)
		n += m->gpus[i].in_group != 0;
	return n > 1 && m->pair_count == n * (n - 1);
}

static int32_t judge_consumer(struct p2s_model *m, int32_t consumer, const struct p2s_matrix *kept)
{
	struct p2s_consumer *c = &m->consumers[consumer];
	int32_t oom = 0;

	free(c->failed);
	c->failed = NULL;
	c->failed_count = 0;
	c->verdict = has_every_pair(m) ? P2PSAFE_VERDICT_OK : P2PSAFE_VERDICT_UNTESTED;
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];
		int32_t v = kept != NULL ? kept_verdict(kept, p, consumer) : p2s_rules_consumer(p, consumer, c, &oom);

		/* Not worth a permission where the alternative is staging, also when what another consumer needs is not OK. */
		if (v == P2PSAFE_VERDICT_OK &&
		    (p->verdict == P2PSAFE_VERDICT_DEGRADED || (kept == NULL && is_slow(p, staged_of(m, p)))) &&
		    (consumer == P2PSAFE_CONSUMER_NCCL_P2P || consumer == P2PSAFE_CONSUMER_PEER_COPIES))
			v = P2PSAFE_VERDICT_DEGRADED;
		p->permits[consumer] = (unsigned char)v;
		c->verdict = p2s_rules_worse(c->verdict, v);
	}
	c->allowed = m->pair_count > 0 && c->verdict == P2PSAFE_VERDICT_OK && !m->nothing_tested;
	return !oom;
}

int32_t p2s_rules_judge(struct p2s_model *m, const struct p2s_matrix *kept)
{
	struct p2s_consumer *multicast = &m->consumers[P2PSAFE_CONSUMER_MULTICAST];
	int32_t ok = 1;

	p2s_rules_lose(m);
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];

		p->verdict = kept != NULL ? kept_verdict(kept, p, 0) : p2s_rules_pair(p, staged_of(m, p));
		if (kept == NULL)
			measure(m, p, staged_of(m, p));
	}
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		if (c != P2PSAFE_CONSUMER_MULTICAST)
			ok &= judge_consumer(m, c, kept);
	multicast->verdict = P2PSAFE_VERDICT_UNTESTED;
	multicast->allowed = m->pair_count > 0 && m->consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed == 1 &&
	                             m->consumers[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY].allowed == 1
	                         ? -1
	                         : 0;
	return ok;
}

int32_t p2s_rules_exit_code(const struct p2s_model *m)
{
	if (m->nothing_tested)
		return 3;
	if (m->single_gpu)
		return 0;
	return m->consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed == 1 && m->consumers[P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE].allowed == 1 &&
	               m->consumers[P2PSAFE_CONSUMER_PEER_COPIES].allowed == 1
	           ? 0
	           : 1;
}

int32_t p2s_rules_vetoed(const struct p2s_model *m, int32_t consumer, int32_t pass_untested)
{
	if (m->single_gpu && !m->nothing_tested)
		return 0; /* there is no peer to be wrong about */
	if (consumer == P2PSAFE_CONSUMER_MULTICAST) {
		if (m->consumers[consumer].allowed != 0)
			return 0;
		return p2s_rules_vetoed(m, P2PSAFE_CONSUMER_NCCL_P2P, pass_untested) ||
		       p2s_rules_vetoed(m, P2PSAFE_CONSUMER_SYMMETRIC_MEMORY, pass_untested);
	}
	if (consumer <= 0 || consumer >= P2S_CONSUMERS || m->consumers[consumer].allowed == 1)
		return 0;
	return !(pass_untested && m->consumers[consumer].verdict == P2PSAFE_VERDICT_UNTESTED);
}
