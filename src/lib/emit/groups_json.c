/* The part of the decision that says which GPUs may be together. */
#include <stdlib.h>

#include "choose/groups.h"
#include "core/names.h"
#include "emit/emit.h"

static json_t *set(const struct p2s_model *m, uint64_t members)
{
	json_t *list = json_array();

	for (; members != 0; members &= members - 1)
		p2s_emit_append(list, json_string(m->gpus[__builtin_ctzll(members)].address));
	return list;
}

/* The best group of 2 to 8 GPUs, then of twice as many each time. */
static json_t *best_groups(const struct p2s_model *m, const struct p2s_bonds *b, int32_t all)
{
	json_t *list = json_array();

	for (int32_t n = 2; n <= all; n = n < 8 ? n + 1 : 2 * n) {
		struct p2s_group_facts facts;
		int32_t exact;
		uint64_t group = p2s_groups_best(b, n, &exact);

		if (group == 0 || !p2s_groups_facts(m, group, &facts))
			break; /* a larger one would hold one of this size */
		p2s_emit_append(list, json_pack("{s:i, s:o, s:o, s:o, s:b}", "size", (int)n, "gpus", set(m, group), "transport",
		                                      json_string(p2s_word_name(P2S_GROUP_TRANSPORT, facts.transport)), "score", facts.score < 0 ? json_null() : json_integer(facts.score),
		                                      "exact", exact));
	}
	return list;
}

static json_t *orders(const struct p2s_model *m, const struct p2s_bonds *b, int32_t all)
{
	json_t *list = json_array();

	for (int32_t n = 2; n <= all; n *= 2) {
		int32_t order[P2S_MAX_GPUS];
		int32_t exact;
		int32_t whole = p2s_groups_order(b, n, order, &exact);
		json_t *gpus = json_array();

		for (int32_t i = 0; i < all; i++)
			p2s_emit_append(gpus, json_string(m->gpus[order[i]].address));
		p2s_emit_append(
			list, json_pack("{s:i, s:i, s:o, s:b}", "size", (int)n, "groups", (int)whole, "gpus", gpus, "exact", exact));
	}
	return list;
}

/* Which GPUs may be together: docs/GROUPS.md. */
int32_t p2s_emit_groups(json_t *decision, const struct p2s_model *m)
{
	struct p2s_bonds *b = malloc(sizeof *b);
	uint64_t islands[P2S_MAX_GPUS];
	json_t *parts = json_array();
	int32_t exact;
	int32_t n;
	int32_t all;

	if (b == NULL) {
		json_decref(parts);
		return 0;
	}
	p2s_groups_bonds(m, P2PSAFE_CONSUMER_UNKNOWN, b);
	all = __builtin_popcountll(b->group);
	n = p2s_groups_partition(b, islands, &exact);
	for (int32_t i = 0; i < n; i++)
		p2s_emit_append(parts, set(m, islands[i]));
	n = json_object_set_new(decision, "partition", json_pack("{s:o, s:b}", "islands", parts, "exact", exact)) |
	    json_object_set_new(decision, "best_groups", best_groups(m, b, all)) | json_object_set_new(decision, "orders", orders(m, b, all));
	free(b);
	return n == 0;
}
