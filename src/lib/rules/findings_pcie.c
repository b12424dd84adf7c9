/* Bridges, links and windows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rules/about.h"

#define WINDOW_SMALL (UINT64_C(512) << 20) /* a BAR1 that was not resized: 256 MiB, on some boards 512 */

static int32_t in_guest(const struct p2s_model *m)
{
	return m->facts.host.hypervisor == P2S_YES;
}

static void bits_text(int32_t ctl, char *out, size_t cap)
{
	snprintf(out, cap, "%s%s%s%s%s", ctl & P2S_ACS_RR ? "request redirect" : "",
			 ctl & P2S_ACS_RR && ctl & P2S_ACS_CR ? ", " : "", ctl & P2S_ACS_CR ? "completion redirect" : "",
			 ctl & P2S_ACS_EC && ctl & (P2S_ACS_RR | P2S_ACS_CR) ? ", " : "", ctl & P2S_ACS_EC ? "egress control" : "");
}

static void say_bridge(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_hop *h = &a->m->gpus[a->gpu].facts.hops[a->hop];

	c->gpu = a->gpu;
	P2S_SAY(c->source, "configuration space of %s", h->address);
	P2S_SAY(c->value[0], "0x%04x", (unsigned)h->acs_ctl);
	P2S_SAY(c->value[1], "%s", h->address);
	bits_text(h->acs_ctl, c->value[2], sizeof c->value[2]);
}

/* The bridge stands below the last bridge that this GPU shares with a peer: there redirect turns the request up. */
int32_t p2s_find_acs_shared(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	size_t pairs = 0;
	size_t ok = 0;

	if (in_guest(m) || !p2s_about_redirects(&m->gpus[a->gpu].facts.hops[a->hop]))
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		int32_t common;

		if ((p->src != a->gpu && p->dst != a->gpu) || p->path == P2PSAFE_PATH_NVL)
			continue;
		common = p2s_about_shared(m, p->src, p->dst);
		if (common < 1 || a->hop < (size_t)common)
			continue;
		pairs++;
		ok += p->verdict == P2PSAFE_VERDICT_OK;
	}
	if (pairs == 0)
		return 0;
	say_bridge(a, c);
	if (ok == pairs)
		c->severity = P2PSAFE_SEVERITY_INFO; /* a longer way, and the bytes arrive */
	else if (!p2s_about_translated(&m->gpus[a->gpu]))
		c->severity = P2PSAFE_SEVERITY_WARNING; /* slower; without translation it loses no bytes */
	return 1;
}

int32_t p2s_find_acs_root(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	const struct p2s_host_facts *h = &m->facts.host;
	const struct p2s_gpu *g = &m->gpus[a->gpu];
	struct p2s_tally t = p2s_about_tally(m, a->gpu);

	if (in_guest(m) || h->amd_cpu != P2S_YES || h->snp == P2S_YES || m->snp_host == 1 || a->hop != 0 ||
		!p2s_about_translated(g) || !p2s_about_redirects(&g->facts.hops[0]) || (t.bad == 0 && t.untested != t.pairs) ||
		t.pairs == 0)
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		int32_t common = m->pairs[i].src == a->gpu ? p2s_about_shared(m, a->gpu, m->pairs[i].dst) : 0;

		if (common != 0)
			return 0; /* a shared bridge has its own rule; an unknown path none */
	}
	say_bridge(a, c);
	if (t.bad == 0)
		c->severity = P2PSAFE_SEVERITY_INFO;
	return 1;
}

/* Up to Ada the vendor's driver reaches peers through a slot of 64 KiB in BAR1 (the mailbox); the first that shows them the whole
 * window are Hopper and Blackwell (kern_bus_gh100.c). Patched drivers do so always, and most are made for GeForce. */
static int32_t by_mailbox(const struct p2s_model *m, int32_t gpu)
{
	const struct p2s_host_facts *h = &m->facts.host;

	if (m->gpus[gpu].cc_major <= 0 || m->gpus[gpu].cc_major > 8 || h->patched == P2S_YES || h->force_p2p_keys == P2S_YES)
		return 0;
	for (size_t i = 0; i < m->gpu_count; i++)
		if (p2s_about_geforce(&m->gpus[i]))
			return 0;
	return 1;
}

/* Does the size of the window matter to any pair of g? Not over NVLink, and not where all is well. */
static int32_t window_matters(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	struct p2s_tally t = p2s_about_tally(m, a->gpu);
	int32_t refused = 0;

	if (in_guest(m) || t.pairs == 0 || t.ok == t.pairs)
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if ((p->src == a->gpu || p->dst == a->gpu) && p->path == P2PSAFE_PATH_NVL)
			return 0;
		for (size_t k = 0; k < p->leg_count && (p->src == a->gpu || p->dst == a->gpu); k++)
			refused |= p->legs[k].cuda_error == 205; /* CUDA_ERROR_MAP_FAILED: no room in the window */
	}
	if (!refused && by_mailbox(m, a->gpu))
		return 0;
	c->confidence = refused                 ? P2PSAFE_CONFIDENCE_HIGH
					: t.untested == t.pairs ? P2PSAFE_CONFIDENCE_LOW
											: P2PSAFE_CONFIDENCE_MEDIUM;
	p2s_about_sysfs(&m->gpus[a->gpu], "resource", c->source, sizeof c->source);
	return 1;
}

int32_t p2s_find_bar_small(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];

	if (g->bar1_bytes == 0 || g->bar1_bytes > WINDOW_SMALL || (g->memory_bytes != 0 && g->memory_bytes <= g->bar1_bytes) ||
		!window_matters(a, c))
		return 0;
	P2S_SAY(c->value[0], "%llu", p2s_about_mib(g->bar1_bytes));
	if (g->memory_bytes != 0)
		P2S_SAY(c->value[1], ", memory is %llu MiB", p2s_about_mib(g->memory_bytes));
	return 1;
}

int32_t p2s_find_bar_lt_vram(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];

	if (g->bar1_bytes <= WINDOW_SMALL || g->memory_bytes == 0 || g->bar1_bytes >= g->memory_bytes || !window_matters(a, c))
		return 0;
	P2S_SAY(c->value[0], "%llu", p2s_about_mib(g->bar1_bytes));
	P2S_SAY(c->value[1], "%llu", p2s_about_mib(g->memory_bytes));
	return 1;
}

int32_t p2s_find_bar_no_space(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];

	if (g->facts.bar1_assigned != P2S_NO)
		return 0;
	p2s_about_sysfs(g, "resource", c->source, sizeof c->source);
	return 1;
}

int32_t p2s_find_bar_below_4g(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];
	struct p2s_tally t = p2s_about_tally(a->m, a->gpu);

	if (in_guest(a->m) || t.ok == t.pairs || g->bar1_bytes == 0)
		return 0;
	for (int i = 1; i < P2S_BARS; i++) {
		uint64_t end = g->bar_start[i] + g->bar_bytes[i];

		if (g->bar_bytes[i] != g->bar1_bytes || g->bar_start[i] == 0 || end > UINT64_C(1) << 32)
			continue;
		p2s_about_sysfs(g, "resource", c->source, sizeof c->source);
		P2S_SAY(c->value[0], "0x%" PRIx64, g->bar_start[i]);
		return 1;
	}
	return 0;
}

/* The display's reservation is only suspected where pairs with this GPU are wrong and no translation is in the way. */
int32_t p2s_find_display_reserved(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	struct p2s_tally mine = p2s_about_tally(m, a->gpu);
	struct p2s_tally all = p2s_about_tally(m, -1);

	if (m->gpus[a->gpu].facts.display_active != P2S_YES || mine.bad == 0 || p2s_about_translated(&m->gpus[a->gpu]))
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if ((p->src == a->gpu || p->dst == a->gpu) && p2s_about_bad(p) && p2s_about_explained(m, p))
			return 0;
	}
	/* The others work among themselves: then it is this GPU. */
	if (mine.bad == all.bad && all.ok > mine.ok)
		P2S_SAY(c->value[0], " while the others are right");
	else
		c->confidence = P2PSAFE_CONFIDENCE_LOW;
	return 1;
}

static uint64_t rise(const uint64_t counter[2])
{
	return counter[0] != UINT64_MAX && counter[1] != UINT64_MAX && counter[1] > counter[0] ? counter[1] - counter[0] : 0;
}

/* "2 non-fatal, 5 corrected": the worst first, and its severity. Returns 1 if there is any. */
static int32_t say_errors(uint64_t fatal, uint64_t nonfatal, uint64_t corrected, uint64_t replays, struct p2s_claim *c,
						  char *out, size_t cap)
{
	const struct {
		const char *name;
		uint64_t more;
		int32_t severity;
	} kinds[] = {{"fatal", fatal, P2PSAFE_SEVERITY_DANGER},
				 {"non-fatal", nonfatal, P2PSAFE_SEVERITY_ERROR},
				 {"corrected", corrected, P2PSAFE_SEVERITY_WARNING},
				 {"replays", replays, P2PSAFE_SEVERITY_WARNING}};
	size_t used = 0;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (kinds[i].more == 0)
			continue;
		used += (size_t)snprintf(out + used, cap - used, "%s%" PRIu64 " %s", used > 0 ? ", " : "", kinds[i].more,
								 kinds[i].name);
		if (c->severity == 0)
			c->severity = kinds[i].severity;
	}
	return used > 0;
}

int32_t p2s_find_pcie_errors(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];

	p2s_about_sysfs(g, "aer_dev_*; NVML", c->source, sizeof c->source);
	return say_errors(rise(g->facts.aer_fatal), rise(g->facts.aer_nonfatal), rise(g->facts.aer_correctable),
					  rise(g->facts.pcie_replays), c, c->value[0], sizeof c->value[0]);
}

/* The port of a GPU sees what the GPU's own counters do not: what was lost on the way to it. */
int32_t p2s_find_port_errors(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_hop *h = &a->m->gpus[a->gpu].facts.hops[a->hop];

	P2S_SAY(c->source, "/sys/bus/pci/devices/%s/aer_dev_*", h->address);
	P2S_SAY(c->value[0], "%s", h->address);
	return say_errors(h->errors[2], h->errors[1], h->errors[0], 0, c, c->value[1], sizeof c->value[1]);
}
