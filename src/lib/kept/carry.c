#include "kept/carry.h"

#include "kept/key.h"
#include "rules/rules.h"

/* What an earlier record says, seen from the new one. */
struct view {
	const struct p2s_record *old;
	int32_t map[P2S_MAX_GPUS]; /* index in the old record of each GPU of the new one; -1 not there, or another card */
};

static unsigned char *cell(const struct p2s_record *r, int32_t a, int32_t b)
{
	return &r->verdict[((size_t)a * r->gpu_count + (size_t)b) * P2S_CONSUMERS];
}

/* The worst failure of a pair for anybody, OK if there is none. */
static int32_t failure(const unsigned char *of)
{
	int32_t worst = P2PSAFE_VERDICT_OK;

	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		if (c != P2PSAFE_CONSUMER_MULTICAST && p2s_rules_is_bad(of[c]))
			worst = p2s_rules_worse(worst, of[c]);
	return worst;
}

/* One of them is a HANG, which counts for the whole boot. */
static int32_t hung(const unsigned char *of)
{
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		if (c != P2PSAFE_CONSUMER_MULTICAST && of[c] == P2PSAFE_VERDICT_HANG)
			return 1;
	return 0;
}

static int32_t both_tested(const struct p2s_record *r, int32_t a, int32_t b)
{
	return r->gpus[a].tested && r->gpus[b].tested;
}

/* Did a pair of the record's own group fail? */
static int32_t any(const struct p2s_record *r)
{
	for (int32_t a = 0; a < (int32_t)r->gpu_count; a++)
		for (int32_t b = 0; b < (int32_t)r->gpu_count; b++)
			if (a != b && both_tested(r, a, b) && failure(cell(r, a, b)) != P2PSAFE_VERDICT_OK)
				return 1;
	return 0;
}

static void look(struct view *v, const struct p2s_record *now, const struct p2s_record *old)
{
	char reason[200];

	v->old = old;
	for (size_t i = 0; i < now->gpu_count; i++) {
		v->map[i] = p2s_record_gpu(old, now->gpus[i].address);
		reason[0] = '\0';
		if (v->map[i] >= 0 && !p2s_key_gpu_matches(&old->gpus[v->map[i]], &now->gpus[i], reason, sizeof reason))
			v->map[i] = -1;
	}
}

/* Cells of the old record for a pair of the new one, NULL where it says nothing. */
static const unsigned char *before(const struct view *v, int32_t a, int32_t b)
{
	return a == b || v->map[a] < 0 || v->map[b] < 0 ? NULL : cell(v->old, v->map[a], v->map[b]);
}

/* Did this run look at all that failed in the old record's group, and at nothing that failed outside of it? Then a pass of it
 * counts on top of the passes before. */
static int32_t same_failures(const struct view *v, const struct p2s_record *now)
{
	for (int32_t a = 0; a < (int32_t)now->gpu_count; a++) {
		for (int32_t b = 0; b < (int32_t)now->gpu_count; b++) {
			const unsigned char *was = before(v, a, b);

			if (was != NULL && failure(was) != P2PSAFE_VERDICT_OK &&
			    both_tested(now, a, b) != both_tested(v->old, v->map[a], v->map[b]))
				return 0;
		}
	}
	return 1;
}

/* Did every pair that failed before, and that this run looked at, pass? */
static int32_t all_passed(const struct view *v, const struct p2s_record *now)
{
	for (int32_t a = 0; a < (int32_t)now->gpu_count; a++) {
		for (int32_t b = 0; b < (int32_t)now->gpu_count; b++) {
			const unsigned char *was = before(v, a, b);
			const unsigned char *is = cell(now, a, b);

			if (was == NULL || failure(was) == P2PSAFE_VERDICT_OK || !both_tested(now, a, b))
				continue;
			for (int32_t c = 0; c < P2S_CONSUMERS; c++)
				if (c != P2PSAFE_CONSUMER_MULTICAST && is[c] != P2PSAFE_VERDICT_OK && is[c] != P2PSAFE_VERDICT_DEGRADED &&
				    is[c] != P2PSAFE_VERDICT_UNSUPPORTED)
					return 0;
		}
	}
	return 1;
}

/* The worse of both for each consumer. For the pair itself a HANG stays one, so that it still counts for the whole boot. */
static int32_t take(unsigned char *to, const unsigned char *from, int32_t slow_too)
{
	int32_t hang = (hung(to) || hung(from)) && to[0] != P2PSAFE_VERDICT_HANG;
	int32_t worse = hang;

	if (hang)
		to[0] = P2PSAFE_VERDICT_HANG;
	for (int32_t c = hung(to) ? 1 : 0; c < P2S_CONSUMERS; c++) {
		int32_t both = p2s_rules_worse(to[c], from[c]);

		if (both == to[c] || !(p2s_rules_is_bad(from[c]) || (slow_too && from[c] == P2PSAFE_VERDICT_DEGRADED)))
			continue;
		to[c] = (unsigned char)both;
		worse = 1;
	}
	return worse;
}

int32_t p2s_carry_failures(struct p2s_record *now, const struct p2s_record *old)
{
	int32_t same;
	int32_t passed;
	int32_t outweighed;
	int32_t failed_now = any(now);
	int32_t worse = 0;
	int32_t left = 0;
	struct view v;

	look(&v, now, old);
	same = same_failures(&v, now);
	passed = all_passed(&v, now) && now->level >= old->level;
	outweighed = same && passed && old->passes + 1 >= P2S_CARRY_PASSES;
	for (int32_t a = 0; a < (int32_t)now->gpu_count; a++) {
		for (int32_t b = 0; b < (int32_t)now->gpu_count; b++) {
			const unsigned char *was = before(&v, a, b);
			int32_t ours = both_tested(now, a, b);

			if (was == NULL)
				continue;
			if (failure(was) == P2PSAFE_VERDICT_OK) {
				worse |= ours && !now->measured && take(cell(now, a, b), was, 1);
				continue;
			}
			if (ours && outweighed && !hung(was))
				continue;
			worse |= take(cell(now, a, b), was, !now->measured) && ours;
			left |= ours;
		}
	}
	if (worse)
		now->nccl_level = P2PSAFE_PATH_UNKNOWN; /* it was found among pairs some of which count as failed now */
	now->passes = !left || failed_now ? 0 : !same ? passed : old->passes + passed;
	return worse;
}

/* A pair that was not tested because a GPU ended is covered by no earlier pass. */
static int32_t untest(unsigned char *to, const unsigned char *from)
{
	int32_t worse = 0;

	for (int32_t c = 0; c < P2S_CONSUMERS; c++) {
		int32_t both = p2s_rules_worse(to[c], from[c]);

		if (both != P2PSAFE_VERDICT_UNTESTED || to[c] == P2PSAFE_VERDICT_UNTESTED)
			continue;
		to[c] = P2PSAFE_VERDICT_UNTESTED;
		worse = 1;
	}
	return worse;
}

int32_t p2s_carry_add(struct p2s_record *kept, const struct p2s_record *other)
{
	int32_t passes = kept->passes;
	int32_t ended = 0;
	int32_t failed = 0;
	int32_t worse = 0;
	struct view v;

	look(&v, kept, other);
	for (int32_t a = 0; a < (int32_t)kept->gpu_count; a++) {
		for (int32_t b = 0; b < (int32_t)kept->gpu_count; b++) {
			const unsigned char *is = before(&v, a, b);

			if (is == NULL)
				continue;
			if (failure(is) != P2PSAFE_VERDICT_OK) {
				worse |= take(cell(kept, a, b), is, 0);
				failed = 1;
			}
			if (!other->gpu_ended || !both_tested(other, v.map[a], v.map[b]))
				continue;
			worse |= untest(cell(kept, a, b), is);
			ended |= is[0] == P2PSAFE_VERDICT_UNTESTED;
		}
	}
	if (worse)
		kept->nccl_level = P2PSAFE_PATH_UNKNOWN;
	if (failed || ended)
		kept->passes = 0;
	kept->gpu_ended |= ended;
	worse |= other->torn_lines && !kept->torn_lines;
	kept->torn_lines |= other->torn_lines;
	return worse || kept->passes != passes;
}
