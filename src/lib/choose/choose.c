#include "choose/choose.h"

#include <string.h>

#include "score/score.h"

static const struct p2s_staged *staged_of(const struct p2s_model *m, int32_t a, int32_t b)
{
	for (size_t i = 0; i < m->staged_count; i++)
		if ((m->staged[i].a == a && m->staged[i].b == b) || (m->staged[i].a == b && m->staged[i].b == a))
			return &m->staged[i];
	return NULL;
}

static int32_t staged_verdict(const struct p2s_model *m, int32_t a, int32_t b)
{
	const struct p2s_staged *s = staged_of(m, a, b);

	return s != NULL ? s->verdict : P2PSAFE_VERDICT_UNTESTED;
}

/* A pair is unordered here: peers only if both directions are proven. */
static int32_t transport_of(const struct p2s_model *m, const struct p2s_pair *p)
{
	const struct p2s_pair *back = p2s_model_pair_const(m, p->dst, p->src);

	if (p->verdict == P2PSAFE_VERDICT_OK && back != NULL && back->verdict == P2PSAFE_VERDICT_OK)
		return p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C ? P2PSAFE_TRANSPORT_NVLINK : P2PSAFE_TRANSPORT_PCIE;
	switch (staged_verdict(m, p->src, p->dst)) {
	case P2PSAFE_VERDICT_OK:
	case P2PSAFE_VERDICT_DEGRADED:
		return P2PSAFE_TRANSPORT_HOST_STAGED;
	case P2PSAFE_VERDICT_UNTESTED:
	case P2PSAFE_VERDICT_UNKNOWN:
		return P2PSAFE_TRANSPORT_NONE; /* nothing is proven */
	default:
		return P2PSAFE_TRANSPORT_NET; /* even host memory is not right */
	}
}

static int32_t faster_one_way(const struct p2s_model *m, const struct p2s_pair *p)
{
	const struct p2s_staged *staged = staged_of(m, p->src, p->dst);

	return p->verdict == P2PSAFE_VERDICT_OK && staged != NULL && staged->verdict == P2PSAFE_VERDICT_OK &&
	       p2s_score_staged(p, staged) != 0 && p2s_score_writes(p) > p2s_score_staged(p, staged);
}

int32_t p2s_choose_faster(const struct p2s_model *m, const struct p2s_pair *p)
{
	const struct p2s_pair *back = p2s_model_pair_const(m, p->dst, p->src);

	return back != NULL && faster_one_way(m, p) && faster_one_way(m, back);
}

int32_t p2s_choose_all_faster(const struct p2s_model *m)
{
	if (!p2s_choose_all_in_group(m))
		return 0;
	for (size_t i = 0; i < m->pair_count; i++)
		if (!p2s_choose_faster(m, &m->pairs[i]))
			return 0;
	return m->pair_count > 0;
}

int32_t p2s_choose(struct p2s_model *m)
{
	int32_t worst = P2PSAFE_TRANSPORT_UNKNOWN;

	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].transport = transport_of(m, &m->pairs[i]);
		if (m->pairs[i].transport > worst) /* the constants are in order, best first */
			worst = m->pairs[i].transport;
	}
	if (worst == P2PSAFE_TRANSPORT_UNKNOWN) {
		/* No pair: one GPU talks to others over the network only; no GPU talks to nobody. */
		worst = P2PSAFE_TRANSPORT_NONE;
		for (size_t i = 0; i < m->gpu_count; i++)
			if (m->gpus[i].in_group)
				worst = P2PSAFE_TRANSPORT_NET;
		for (size_t i = 0; i < m->finding_count; i++)
			if (strcmp(m->findings[i].code, "PEER_INVISIBLE") == 0)
				worst = P2PSAFE_TRANSPORT_NET;
	}
	m->transport = worst;
	/* A kept answer brings the level of its test: what that rests on is not all in the record, but whom NCCL may use now is known. */
	if (!m->kept_hit)
		m->nccl_level = p2s_choose_level(m);
	else if (!p2s_choose_all_in_group(m))
		m->nccl_level = P2PSAFE_PATH_UNKNOWN;
	return p2s_choose_islands(m);
}
