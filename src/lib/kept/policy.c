#include "kept/policy.h"

#include "kept/carry.h"
#include "rules/rules.h"

static size_t width(const struct p2s_record *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->gpu_count; i++)
		n += r->gpus[i].tested != 0;
	return n;
}

/* 1 if a pair of the group was not tested. */
static int32_t leaves_untested(const struct p2s_record *r)
{
	for (size_t a = 0; a < r->gpu_count; a++)
		for (size_t b = 0; b < r->gpu_count; b++)
			if (a != b && r->gpus[a].tested && r->gpus[b].tested &&
				p2s_rules_worse(r->verdict[(a * r->gpu_count + b) * P2S_CONSUMERS], P2PSAFE_VERDICT_OK) ==
					P2PSAFE_VERDICT_UNTESTED)
				return 1;
	return 0;
}

/* 1 if a is strictly worse than b. */
static int32_t worse(int32_t a, int32_t b)
{
	return a != b && p2s_rules_worse(a, b) == a;
}

enum p2s_policy p2s_policy_replace(const struct p2s_record *old, int32_t valid, const struct p2s_record *now)
{
	int32_t before = p2s_record_worst(old);
	int32_t after = p2s_record_worst(now);

	/* Whoever names the folder of a machine for a simulated one loses nothing but the simulated answer. */
	if (now->simulated && !old->simulated)
		return P2S_POLICY_KEEP;
	if (!valid)
		return P2S_POLICY_REPLACE;
	/* What was not tested outweighs nothing that was, except where the reason is a GPU that ended: no earlier pass covers that. */
	if (after == P2PSAFE_VERDICT_UNTESTED && before != P2PSAFE_VERDICT_UNTESTED)
		return now->gpu_ended && !p2s_rules_is_bad(before) ? P2S_POLICY_REPLACE : P2S_POLICY_KEEP;
	if (worse(after, before))
		return P2S_POLICY_REPLACE;
	if (before == P2PSAFE_VERDICT_HANG && after != P2PSAFE_VERDICT_HANG)
		return P2S_POLICY_KEEP; /* for this boot */
	if (p2s_rules_is_bad(before) && !p2s_rules_is_bad(after)) {
		if (now->level < old->level || width(now) < width(old))
			return P2S_POLICY_KEEP;
		/* What says more is published, and takes the failure along (kept/carry.h). */
		return old->passes + 1 >= P2S_CARRY_PASSES || now->level > old->level || width(now) > width(old) || leaves_untested(old)
				   ? P2S_POLICY_REPLACE
				   : P2S_POLICY_COUNT_PASS;
	}
	/* A run that did not measure cannot say that a slow pair is no longer slow. */
	if (before == P2PSAFE_VERDICT_DEGRADED && after == P2PSAFE_VERDICT_OK && !now->measured)
		return P2S_POLICY_KEEP;
	if (before == P2PSAFE_VERDICT_UNTESTED && width(now) >= width(old))
		return P2S_POLICY_REPLACE;
	if (width(now) < width(old) || now->level < old->level)
		return P2S_POLICY_KEEP;
	/* The same answer without the numbers is less. */
	if (after == before && now->level == old->level && width(now) == width(old) && old->measured && !now->measured)
		return P2S_POLICY_KEEP;
	return P2S_POLICY_REPLACE;
}

int32_t p2s_policy_retry(const struct p2s_record *r, int64_t now_unix)
{
	static const int64_t after_s[] = {60, 300, 1800, 3600};
	int32_t i = r->retries < 0 ? 0 : r->retries > 3 ? 3 : r->retries;

	if (p2s_record_worst(r) != P2PSAFE_VERDICT_UNTESTED)
		return 0;
	/* A clock that was set back must not keep a machine untested for ever. Unsigned: a file may hold any number. */
	return now_unix < r->created_unix || (uint64_t)now_unix - (uint64_t)r->created_unix >= (uint64_t)after_s[i];
}
