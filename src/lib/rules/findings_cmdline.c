/* The command line is a hint; only where it misleads is it told. */
#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "rules/about.h"

/* The words as written, without the ones that are quoted elsewhere on purpose. */
static void words(const struct p2s_host_facts *h, char *out, size_t cap)
{
	size_t used = 0;

	out[0] = '\0';
	for (const char *at = h->cmd_words; *at != '\0';) {
		size_t n = strcspn(at, " ");

		if (n > 0 &&
			(strncmp(at, "iommu", 5) == 0 || strncmp(at, "intel_iommu=", 12) == 0 || strncmp(at, "amd_iommu=", 10) == 0) &&
			used + n + 2 < cap)
			used += (size_t)snprintf(out + used, cap - used, "%s%.*s", used > 0 ? " " : "", (int)n, at);
		at += n + (at[n] == ' ');
	}
}

int32_t p2s_find_cmdline_mismatch(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_model *m = a->m;
	const struct p2s_host_facts *h = &m->facts.host;
	int32_t translated = m->iommu_state == P2PSAFE_IOMMU_TRANSLATED;
	/* A unit is there: it is not off, these GPUs are outside it. */
	int32_t none = m->iommu_state == P2PSAFE_IOMMU_NONE && h->iommu_class_count <= 0;

	if (h->cmd_read != P2S_YES)
		return 0;
	if (!(translated && (h->cmd_off == P2S_YES || h->cmd_pt == P2S_YES)) &&
		!(m->iommu_state == P2PSAFE_IOMMU_IDENTITY && h->cmd_off == P2S_YES) && !(none && h->cmd_intel_on == P2S_YES))
		return 0;
	words(h, c->value[0], sizeof c->value[0]);
	P2S_SAY(c->value[1], "%s", none ? "off" : p2s_word_name(P2S_GROUP_IOMMU, m->iommu_state));
	if (none)
		c->severity = P2PSAFE_SEVERITY_INFO; /* the machine is better than its command line */
	return 1;
}

int32_t p2s_find_cmdline_amd_on(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.cmd_amd_on == P2S_YES;
}

int32_t p2s_find_cmdline_noacs(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.cmd_noacs == P2S_YES;
}

int32_t p2s_find_cmdline_comma(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.cmd_acs_list_comma == P2S_YES;
}

int32_t p2s_find_acs_override(const struct p2s_about *a, struct p2s_claim *c)
{
	(void)c;
	return a->m->facts.host.cmd_acs_override == P2S_YES;
}
