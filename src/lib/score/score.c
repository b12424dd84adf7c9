#include "score/score.h"

/* The better of the two ways that consumers write: a pair is only as slow as its best engine. */
static uint64_t best(const struct p2s_pair *p)
{
	return p->bandwidth.sm_store > p->bandwidth.ce_write ? p->bandwidth.sm_store : p->bandwidth.ce_write;
}

int32_t p2s_score_degraded(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	return staged != NULL && best(pair) != 0 && staged->bandwidth.ce_write != 0 && best(pair) <= staged->bandwidth.ce_write;
}

int32_t p2s_score_pair(const struct p2s_pair *pair, const struct p2s_staged *staged)
{
	uint64_t bw = best(pair);
	uint64_t of;

	switch (pair->verdict) {
	case P2PSAFE_VERDICT_OK:
	case P2PSAFE_VERDICT_DEGRADED:
		break;
	case P2PSAFE_VERDICT_UNTESTED:
	case P2PSAFE_VERDICT_UNKNOWN:
		return -1;
	default:
		return 0;
	}
	if (bw == 0)
		return -1;
	/* Part of what the narrowest hop can do; without a limit, the share against staging. */
	of = pair->limit_bytes_per_s;
	if (of == 0)
		of = staged != NULL && staged->bandwidth.ce_write != 0 ? bw / 2 + staged->bandwidth.ce_write / 2 + bw / 2 : bw * 2;
	if (bw >= of)
		return 1000;
	bw = bw / (of / 1000 + 1);
	return bw < 1 ? 1 : (int32_t)bw;
}
