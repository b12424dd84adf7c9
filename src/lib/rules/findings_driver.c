/* The driver, the cards, their modes and their NVLinks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "rules/about.h"
#include "rules/explain.h"

#define TOO_MANY_PEERS 711 /* CUDA_ERROR_TOO_MANY_PEERS */

static int32_t in_guest(const struct p2s_model *m)
{
	return m->facts.host.hypervisor == P2S_YES;
}

static int32_t by_wire(const struct p2s_pair *p)
{
	return p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C;
}

static int32_t is_refused(const struct p2s_pair *p)
{
	return p->can_access == 0 && !p2s_about_bad(p) && p->verdict != P2PSAFE_VERDICT_OK;
}

/* "sm_store over cumem: dropped", of the first leg that went wrong. */
static void say_damage(const struct p2s_pair *p, char *out, size_t cap)
{
	for (size_t i = 0; i < p->leg_count; i++) {
		const struct p2s_leg *l = &p->legs[i];

		if (!p2s_rules_is_bad(l->verdict))
			continue;
		snprintf(out, cap, "%s over %s: %s%s%s", p2s_word_name(P2S_GROUP_LEG, l->leg),
				 p2s_word_name(P2S_GROUP_MAPPING, l->mapping), p2s_word_name(P2S_GROUP_VERDICT, l->verdict),
				 l->damage != 0 ? ", bytes " : "", l->damage != 0 ? p2s_word_name(P2S_GROUP_DAMAGE, l->damage) : "");
		return;
	}
	snprintf(out, cap, "transfers are %s", p2s_word_name(P2S_GROUP_VERDICT, p->verdict));
}

int32_t p2s_find_mixed(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *x = &a->m->gpus[a->gpu];
	const struct p2s_gpu *y = &a->m->gpus[a->peer];

	if (by_wire(a->pair) || x->device == 0 || y->device == 0 || x->device == y->device || !is_refused(a->pair))
		return 0;
	P2S_SAY(c->value[0], "%04x:%04x", x->vendor, x->device);
	P2S_SAY(c->value[1], "%04x:%04x", y->vendor, y->device);
	return 1;
}

static int32_t both_geforce(const struct p2s_about *a)
{
	return p2s_about_geforce(&a->m->gpus[a->gpu]) && p2s_about_geforce(&a->m->gpus[a->peer]);
}

int32_t p2s_find_geforce_refused(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return !in_guest(a->m) && !by_wire(a->pair) && both_geforce(a) && is_refused(a->pair) &&
		   a->m->gpus[a->gpu].device == a->m->gpus[a->peer].device;
}

int32_t p2s_find_geforce_false(const struct p2s_about *a, struct p2s_claim *c)
{
	if (by_wire(a->pair) || !both_geforce(a) || !p2s_about_bad(a->pair) || a->pair->can_access == 0 ||
		p2s_about_explained(a->m, a->pair))
		return 0;
	say_damage(a->pair, c->value[0], sizeof c->value[0]);
	return 1;
}

int32_t p2s_find_p2p_false(const struct p2s_about *a, struct p2s_claim *c)
{
	if (!p2s_about_bad(a->pair) || a->pair->can_access == 0 || p2s_about_explained(a->m, a->pair))
		return 0;
	say_damage(a->pair, c->value[0], sizeof c->value[0]);
	return 1;
}

int32_t p2s_find_peer_limit(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	for (size_t i = 0; i < a->pair->leg_count; i++)
		if (a->pair->legs[i].cuda_error == TOO_MANY_PEERS)
			return 1;
	return 0;
}

/* Compares dotted numbers as far as both go. */
static int compare_versions(const char *a, const char *b)
{
	while (*a != '\0' && *b != '\0') {
		char *ea;
		char *eb;
		long x = strtol(a, &ea, 10);
		long y = strtol(b, &eb, 10);

		if (ea == a || eb == b || x != y)
			return x < y ? -1 : x > y;
		a = *ea == '.' ? ea + 1 : ea;
		b = *eb == '.' ? eb + 1 : eb;
	}
	return 0;
}

int32_t p2s_find_driver_known_bad(const struct p2s_about *a, struct p2s_claim *c)
{
	static const struct {
		const char *first, *last, *what;
	} bad[] = {
#define P2S_BAD_DRIVER(first, last, what, source) {first, last, what},
#include "rules/drivers.def"
#undef P2S_BAD_DRIVER
	};
	const char *version = a->m->driver_version;

	if (version[0] == '\0' || p2s_about_tally(a->m, -1).bad == 0)
		return 0;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (compare_versions(version, bad[i].first) < 0 || compare_versions(version, bad[i].last) > 0)
			continue;
		P2S_SAY(c->value[0], "%s", version);
		P2S_SAY(c->value[1], "%s", bad[i].what);
		return 1;
	}
	return 0;
}

int32_t p2s_find_driver_patched(const struct p2s_about *a, struct p2s_claim *c)
{
	if (a->m->facts.host.patched != P2S_YES)
		return 0;
	P2S_SAY(c->value[0], "%s", a->m->facts.host.patched_why);
	return 1;
}

/* Launch drivers of the RTX 40 series offered what did not work, and those before 525.105 are no sign of anything. */
int32_t p2s_find_driver_looks_patched(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;

	(void)c;
	if (in_guest(m) || m->driver_version[0] == '\0' || m->facts.host.patched == P2S_YES ||
		m->facts.host.force_p2p_keys == P2S_YES || compare_versions(m->driver_version, "525.105") < 0)
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (p->can_access == 1 && !by_wire(p) && p2s_about_geforce(&m->gpus[p->src]) && p2s_about_geforce(&m->gpus[p->dst]))
			return 1;
	}
	return 0;
}

int32_t p2s_find_driver_forced(const struct p2s_about *a, struct p2s_claim *c)
{
	if (a->m->facts.host.force_p2p_keys != P2S_YES)
		return 0;
	P2S_SAY(c->value[0], "%s", a->m->facts.host.registry_dwords);
	return 1;
}

int32_t p2s_find_mig(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->gpus[a->gpu].facts.mig == P2S_YES;
}

int32_t p2s_find_confidential_gpu(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->gpus[a->gpu].facts.confidential == P2S_YES;
}

/* nvmlGpuFabricState_t: 0 none here, 1 not started, 2 in progress, 3 over, which is good only without an error. */
int32_t p2s_find_fabric(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;

	if (f->fabric_state == 3 && f->fabric_status > 0)
		P2S_SAY(c->value[0], "set up with an error (NVML %d)", (int)f->fabric_status);
	else if (f->fabric_state == 1 || f->fabric_state == 2)
		P2S_SAY(c->value[0], "%s", f->fabric_state == 1 ? "not started" : "still being set up");
	else
		return 0;
	return 1;
}

int32_t p2s_find_nvlink_partial(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu_facts *f = &a->m->gpus[a->gpu].facts;

	/* None up: there is no bridge, and that is no fault. */
	if (f->nvlinks_active <= 0 || f->nvlinks_total <= f->nvlinks_active)
		return 0;
	P2S_SAY(c->value[0], "%d", (int)f->nvlinks_active);
	P2S_SAY(c->value[1], "%d", (int)f->nvlinks_total);
	return 1;
}

int32_t p2s_find_nvlink_errors(const struct p2s_about *a, struct p2s_claim *c)
{
	const uint64_t *n = a->m->gpus[a->gpu].facts.nvlink_errors;

	if (n[0] == UINT64_MAX || n[1] == UINT64_MAX || n[1] <= n[0])
		return 0;
	P2S_SAY(c->value[0], "%" PRIu64, n[1] - n[0]);
	P2S_SAY(c->value[1], "%" PRIu64, n[0]);
	P2S_SAY(c->value[2], "%" PRIu64, n[1]);
	return 1;
}

/* ---- what makes a test dangerous ---- */

static int32_t logged_grave(const struct p2s_model *m, int32_t gpu, char *text, size_t cap)
{
	for (size_t i = 0; i < m->facts.log_count; i++) {
		const struct p2s_log_event *e = &m->facts.log[i];

		if (e->gpu != gpu || e->in_test || !p2s_log_is_grave(e) || p2s_about_taken_back(m, e))
			continue;
		snprintf(text, cap, "since boot it logged Xid %d", (int)e->xid);
		return 1;
	}
	return 0;
}

/* Compute modes 2 (prohibited) and 3 (one process). */
static const char *mode_reason(const struct p2s_gpu_facts *f)
{
	return f->pending_reset == P2S_YES   ? "the driver waits for a reset of it"
		   : f->mig == P2S_YES           ? "MIG is on"
		   : f->confidential == P2S_YES  ? "confidential computing is on"
		   : f->mps == P2S_YES           ? "an MPS server runs on it"
		   : f->compute_mode == 2        ? "its compute mode is prohibited"
		   : f->compute_mode == 3        ? "its compute mode is exclusive"
		   : f->other_process == P2S_YES ? "another user's process computes on it"
										 : NULL;
}

int32_t p2s_rules_risky(const struct p2s_model *m, int32_t gpu, char *text, size_t cap)
{
	const struct p2s_host_facts *h = &m->facts.host;
	const struct p2s_gpu *g = &m->gpus[gpu];
	const char *why = mode_reason(&g->facts);
	int32_t offered = 0;

	if (logged_grave(m, gpu, text, cap))
		return 1;
	for (size_t i = 0; i < m->pair_count; i++)
		offered |= m->pairs[i].src == gpu && m->pairs[i].can_access == 1;
	if (why != NULL) {
		snprintf(text, cap, "%s", why);
		return 1;
	}
	if (!p2s_about_translated(g) && !p2s_about_may_translate(g))
		return 0;
	why = h->patched == P2S_YES                  ? "a patched driver uses raw addresses"
		  : h->force_p2p_keys == P2S_YES         ? "driver keys force the offer of peers"
		  : offered && p2s_about_geforce(g)      ? "a GeForce offers peers"
												 : NULL;
	if (why == NULL)
		return 0;
	snprintf(text, cap, "%s, and %s", why,
			 p2s_about_translated(g) ? "the IOMMU translates" : "nobody can tell whether the IOMMU translates");
	return 1;
}

/* Told only where it kept a test away, or would. */
int32_t p2s_find_risky(const struct p2s_about *a, struct p2s_claim *c)
{
	struct p2s_tally t = p2s_about_tally(a->m, a->gpu);

	if (t.untested != t.pairs || t.pairs == 0)
		return 0;
	P2S_SAY(c->source, "kernel log, NVML, driver parameters");
	return p2s_rules_risky(a->m, a->gpu, c->value[0], sizeof c->value[0]);
}
