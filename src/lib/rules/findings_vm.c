/* Guests: what the hypervisor grants, and what it hides. */
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "rules/about.h"

#define CLIQUE_NONE (-2)

static int32_t in_guest(const struct p2s_model *m)
{
	return m->facts.host.hypervisor == P2S_YES && m->facts.host.wsl != P2S_YES;
}

static int32_t by_wire(const struct p2s_pair *p)
{
	return p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C;
}

static int32_t same_clique(const struct p2s_model *m, const struct p2s_pair *p)
{
	int32_t a = m->gpus[p->src].facts.clique;

	return a >= 0 && a == m->gpus[p->dst].facts.clique;
}

/* Clouds whose instances say who they are (DMI). */
static const char *cloud(const struct p2s_model *m)
{
	static const char *const vendors[] = {"Amazon",  "Google",  "Microsoft", "Oracle",
										  "Alibaba", "Tencent", "OpenStack", "DigitalOcean"};

	for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++)
		if (strstr(m->facts.host.dmi_vendor, vendors[i]) != NULL)
			return m->facts.host.dmi_vendor;
	return NULL;
}

/* Directions over PCIe that are refused, or not tested at all; with wires also those over NVLink that are refused. Returns 0
 * when there is none, or when something works. */
static int32_t refused(const struct p2s_model *m, int32_t wires, char *out, size_t cap, int32_t *untested)
{
	size_t pairs = 0;
	size_t no = 0;
	size_t open = 0;

	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (by_wire(p) && (!wires || p->can_access != 0))
			continue;
		pairs++;
		no += p->verdict == P2PSAFE_VERDICT_UNSUPPORTED || p->can_access == 0;
		open += p2s_about_untested(p) != 0;
	}
	*untested = no == 0;
	if (no > 0)
		snprintf(out, cap, "the driver refuses %zu of %zu directions", no, pairs);
	else
		snprintf(out, cap, "not tested");
	return no > 0 || (pairs > 0 && open == pairs);
}

int32_t p2s_find_vm_cloud(const struct p2s_about *a, struct p2s_claim *c)
{
	const char *who = cloud(a->m);
	int32_t untested;

	if (!in_guest(a->m) || who == NULL || !refused(a->m, 1, c->value[1], sizeof c->value[1], &untested) || untested)
		return 0;
	P2S_SAY(c->value[0], "%s", who);
	return 1;
}

int32_t p2s_find_vm_no_clique(const struct p2s_about *a, struct p2s_claim *c)
{
	size_t none = 0;
	size_t unread = 0;
	size_t group = 0;
	int32_t untested;

	if (!in_guest(a->m) || cloud(a->m) != NULL || !refused(a->m, 0, c->value[1], sizeof c->value[1], &untested))
		return 0;
	for (size_t i = 0; i < a->m->gpu_count; i++) {
		if (!a->m->gpus[i].in_group)
			continue;
		group++;
		none += a->m->gpus[i].facts.clique == CLIQUE_NONE;
		unread += a->m->gpus[i].facts.clique == P2S_UNREAD;
	}
	if (none + unread == 0)
		return 0; /* they all have one */
	if (none > 0)
		P2S_SAY(c->value[0], "%zu of %zu GPUs carry no clique of the hypervisor", none, group);
	else
		P2S_SAY(c->value[0], "whether the hypervisor granted peers could not be read");
	if (none == 0 || untested)
		c->confidence = P2PSAFE_CONFIDENCE_LOW;
	if (untested)
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

int32_t p2s_find_vm_false_clique(const struct p2s_about *a, struct p2s_claim *c)
{
	int32_t damage = 0;

	if (!in_guest(a->m) || by_wire(a->pair) || !p2s_about_bad(a->pair) || !same_clique(a->m, a->pair))
		return 0;
	for (size_t i = 0; i < a->pair->leg_count; i++)
		if (damage == 0 || a->pair->legs[i].damage == P2PSAFE_DAMAGE_MIRROR)
			damage = a->pair->legs[i].damage;
	P2S_SAY(c->value[0], "%d", (int)a->m->gpus[a->gpu].facts.clique);
	P2S_SAY(c->value[1], "%s",
			damage == P2PSAFE_DAMAGE_MIRROR ? "mirror: a private copy of the accessor"
			: damage != 0                   ? p2s_word_name(P2S_GROUP_DAMAGE, damage)
											: p2s_word_name(P2S_GROUP_VERDICT, a->pair->verdict));
	return 1;
}

int32_t p2s_find_vm_passthrough(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return in_guest(a->m) && !by_wire(a->pair) && p2s_about_bad(a->pair) && !same_clique(a->m, a->pair);
}

int32_t p2s_find_vm_topology(const struct p2s_about *a, struct p2s_claim *c)
{
	size_t group = 0;
	size_t flat = 0;
	size_t nowhere = 0;
	size_t wired = 0;

	for (size_t i = 0; i < a->m->pair_count; i++)
		wired += by_wire(&a->m->pairs[i]) != 0;
	/* Over NVLink everybody is near. */
	if (!in_guest(a->m) || (wired > 0 && wired == a->m->pair_count))
		return 0;
	for (size_t i = 0; i < a->m->gpu_count; i++) {
		const struct p2s_gpu *g = &a->m->gpus[i];

		if (!p2s_about_looked_at(a->m, (int32_t)i))
			continue;
		group++;
		flat += g->facts.hop_count == 1;
		nowhere += g->numa_node < 0;
	}
	if (group < 2 || (flat != group && nowhere != group))
		return 0;
	P2S_SAY(c->value[0], "%s%s%s", nowhere == group ? "no NUMA node is told" : "",
			nowhere == group && flat == group ? ", and " : "", flat == group ? "all GPUs hang on a root bus" : "");
	return 1;
}

int32_t p2s_find_wsl(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.wsl == P2S_YES;
}

int32_t p2s_find_confidential_guest(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.confidential_guest == P2S_YES;
}
