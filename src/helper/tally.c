#include "helper/tally.h"

#include "helper/judge.h"
#include "p2psafe/p2psafe.h"

static int badness(int32_t verdict)
{
	switch (verdict) {
	case P2PSAFE_VERDICT_CORRUPT:
		return 3;
	case P2PSAFE_VERDICT_HANG:
		return 2;
	case P2PSAFE_VERDICT_ERROR:
		return 1;
	default:
		return 0;
	}
}

static void keep(struct p2s_tally *kept, const struct p2s_lib_leg *leg)
{
	kept->verdict = leg->verdict;
	kept->bytes = leg->bytes;
	kept->rounds = leg->rounds;
	kept->coverage = leg->coverage_bytes;
}

int p2s_tally_add(struct p2s_tally *kept, struct p2s_lib_leg *leg, int again)
{
	if (!again || kept->verdict == 0) {
		keep(kept, leg);
		return 1;
	}
	/* What failed once is not healed by what passed later; a pass is not taken back by a repetition that told nothing. */
	if (badness(kept->verdict) > 0 && badness(leg->verdict) <= badness(kept->verdict))
		return 0;
	if (kept->verdict == P2PSAFE_VERDICT_OK && leg->verdict != P2PSAFE_VERDICT_OK && badness(leg->verdict) == 0)
		return 0;
	if (kept->verdict == P2PSAFE_VERDICT_OK) {
		leg->bytes += kept->bytes;
		leg->rounds += kept->rounds;
		if (leg->coverage_bytes < kept->coverage)
			leg->coverage_bytes = kept->coverage;
		if (leg->verdict == P2PSAFE_VERDICT_OK)
			leg->error_bound_ppb = p2s_judge_bound_ppb(leg->rounds);
	}
	keep(kept, leg);
	return 1;
}
