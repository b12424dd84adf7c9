#include "rules/about.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/lost.h"

int32_t p2s_about_translated(const struct p2s_gpu *g)
{
	return strcmp(g->domain_type, "DMA") == 0 || strcmp(g->domain_type, "DMA-FQ") == 0;
}

int32_t p2s_about_looked_at(const struct p2s_model *m, int32_t gpu)
{
	if (m->gpus[gpu].in_group)
		return 1;
	for (size_t i = 0; i < m->gpu_count; i++)
		if (m->gpus[i].in_group || strcmp(m->gpus[i].driver, "nvidia") == 0)
			return 0;
	return strncmp(m->gpus[gpu].driver, "vfio", 4) != 0;
}

int32_t p2s_about_may_translate(const struct p2s_gpu *g)
{
	if (g->domain_type[0] == '\0')
		return g->facts.has_iommu_link != P2S_NO;
	return !p2s_about_translated(g) && strcmp(g->domain_type, "identity") != 0;
}

int32_t p2s_about_bad(const struct p2s_pair *p)
{
	return p2s_rules_is_bad(p->verdict) && !p2s_rules_only_lost(p);
}

int32_t p2s_about_untested(const struct p2s_pair *p)
{
	for (size_t i = 0; i < p->leg_count; i++)
		if (p->legs[i].verdict != P2PSAFE_VERDICT_UNTESTED && p->legs[i].verdict != P2PSAFE_VERDICT_UNKNOWN)
			return 0;
	return p->verdict == P2PSAFE_VERDICT_UNTESTED || p->verdict == P2PSAFE_VERDICT_UNKNOWN;
}

struct p2s_tally p2s_about_tally(const struct p2s_model *m, int32_t g)
{
	struct p2s_tally t = {0};

	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (g >= 0 && p->src != g && p->dst != g)
			continue;
		t.pairs++;
		t.ok += p->verdict == P2PSAFE_VERDICT_OK;
		t.bad += p2s_about_bad(p) != 0;
		t.untested += p2s_about_untested(p) != 0;
		t.unsupported += p->verdict == P2PSAFE_VERDICT_UNSUPPORTED;
		t.degraded += p->verdict == P2PSAFE_VERDICT_DEGRADED;
	}
	return t;
}

int32_t p2s_about_all_right(const struct p2s_model *m, int32_t g)
{
	struct p2s_tally t = p2s_about_tally(m, g);

	return t.pairs > 0 && t.ok == t.pairs;
}

int32_t p2s_about_shared(const struct p2s_model *m, int32_t a, int32_t b)
{
	const struct p2s_gpu_facts *x = &m->gpus[a].facts;
	const struct p2s_gpu_facts *y = &m->gpus[b].facts;
	int32_t n = 0;

	if (x->hop_count == 0 || y->hop_count == 0)
		return -1;
	/* The last hop is the GPU itself. */
	while ((size_t)n + 1 < x->hop_count && (size_t)n + 1 < y->hop_count && strcmp(x->hops[n].address, y->hops[n].address) == 0)
		n++;
	return n;
}

int32_t p2s_about_redirects(const struct p2s_hop *h)
{
	return h->acs_ctl >= 0 && (h->acs_ctl & (P2S_ACS_RR | P2S_ACS_CR | P2S_ACS_EC)) != 0;
}

int32_t p2s_about_geforce(const struct p2s_gpu *g)
{
	return strstr(g->name, "GeForce") != NULL;
}

int32_t p2s_about_has(const struct p2s_model *m, const char *code)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, code) == 0)
			return 1;
	return 0;
}

/* What is said of a GPU or of the host is about the ways of one kind: over NVLink no IOMMU, bridge or BAR1 is met, and over PCIe
 * no NVLink. */
static int32_t is_on_its_way(const struct p2s_finding *f, const struct p2s_pair *p)
{
	int32_t wire = p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C;

	return f->dst >= 0 || p->path == P2PSAFE_PATH_UNKNOWN || wire == (strncmp(f->code, "NVLINK_", 7) == 0);
}

int32_t p2s_about_explained(const struct p2s_model *m, const struct p2s_pair *p)
{
	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];
		int32_t covers =
			f->src < 0 || (f->dst < 0 ? f->src == p->src || f->src == p->dst : f->src == p->src && f->dst == p->dst);

		if (covers && f->severity >= P2PSAFE_SEVERITY_ERROR && p2s_find_is_damage(f->code) && is_on_its_way(f, p))
			return 1;
	}
	return 0;
}

int32_t p2s_about_kernel_from(const struct p2s_model *m, int32_t major, int32_t minor)
{
	const struct p2s_host_facts *h = &m->facts.host;

	if (h->kernel_major < 0 || h->kernel_minor < 0)
		return -1;
	return h->kernel_major > major || (h->kernel_major == major && h->kernel_minor >= minor);
}

/* The table of what raw transfers do under translation: a patched driver and DmaRemapPeerMmio=0 use raw bus addresses always; a
 * stock driver maps them before 6.12, when the encryption bit of SME still spoils the mapping. */
int32_t p2s_about_prior(const struct p2s_model *m)
{
	const struct p2s_host_facts *h = &m->facts.host;
	int32_t new_kernel = p2s_about_kernel_from(m, 6, 12);

	if (h->patched == P2S_YES || h->remap_peer_mmio == P2S_NO || new_kernel == 1)
		return 1;
	if (new_kernel != 0 || h->remap_peer_mmio != P2S_YES)
		return -1;
	if (h->sme == P2S_YES)
		return 1;
	return h->sme == P2S_NO && h->patched == P2S_NO ? 0 : -1;
}

/* Lines alike are one event with the number of the youngest, so numbers count before places. */
static int32_t is_later(const struct p2s_log_event *a, const struct p2s_log_event *b)
{
	return a->seq != 0 && b->seq != 0 && a->seq != b->seq ? a->seq > b->seq : a > b;
}

int32_t p2s_about_taken_back(const struct p2s_model *m, const struct p2s_log_event *e)
{
	const struct p2s_log_event *last = e;

	if (e->kind != P2S_LOG_XID || e->xid != 154 || e->in_test)
		return 0;
	for (size_t i = 0; i < m->facts.log_count; i++) {
		const struct p2s_log_event *other = &m->facts.log[i];

		if (other->kind == P2S_LOG_XID && other->xid == 154 && other->gpu == e->gpu && is_later(other, last))
			last = other;
	}
	return e->gpu >= 0 && last->recovery == P2S_RECOVERY_NONE;
}

unsigned long long p2s_about_mib(uint64_t bytes)
{
	return (unsigned long long)((bytes + (UINT64_C(1) << 19)) >> 20);
}

void p2s_about_sysfs(const struct p2s_gpu *g, const char *name, char *out, size_t cap)
{
	snprintf(out, cap, "/sys/bus/pci/devices/%s/%s", g->address, name);
}
