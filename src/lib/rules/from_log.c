/* What the kernel says of itself in its log, where no file says it, or says it less surely. */
#include "rules/from_log.h"

#include <stdio.h>
#include <string.h>

#include "evidence/log.h"
#include "rules/about.h"

#define PARAMETER "/sys/module/kvm_amd" /* KVM's own word about SNP is the surest */

/* The last line of this kind; NULL none. */
static const struct p2s_log_event *last(const struct p2s_model *m, int32_t kind)
{
	for (size_t i = m->facts.log_count; i > 0; i--)
		if (m->facts.log[i - 1].kind == kind)
			return &m->facts.log[i - 1];
	return NULL;
}

/* The IOMMU's own line is stronger than a CPU flag, which comes before that step, and weaker than the module's parameter. */
static void take_snp(struct p2s_model *m)
{
	struct p2s_host_facts *h = &m->facts.host;
	const struct p2s_log_event *on = last(m, P2S_LOG_SNP_ON);
	const struct p2s_log_event *kvm = last(m, P2S_LOG_SNP_KVM);
	const struct p2s_log_event *refused = last(m, P2S_LOG_SNP_REFUSED);

	if (strncmp(h->snp_source, PARAMETER, sizeof PARAMETER - 1) == 0 || h->hypervisor == P2S_YES ||
		(on == NULL && kvm == NULL && refused == NULL))
		return;
	h->snp = m->snp_host = refused == NULL;
	P2S_SAY(h->snp_source, "kernel log: %.80s", (refused != NULL ? refused : on != NULL ? on : kvm)->text);
}

static void take_encryption(struct p2s_model *m)
{
	struct p2s_host_facts *h = &m->facts.host;

	if (last(m, P2S_LOG_SME_ON) != NULL)
		h->sme = P2S_YES;
	if (last(m, P2S_LOG_SEV_GUEST) != NULL)
		h->confidential_guest = P2S_YES;
	if (last(m, P2S_LOG_TDX_GUEST) != NULL)
		h->confidential_guest = h->tdx = P2S_YES;
	if (last(m, P2S_LOG_TDX_HOST) != NULL)
		h->tdx = P2S_YES;
}

/* GPUs have groups, and no file tells their type: the default that the kernel logged is the next best, and a hint. */
static int32_t type_is_hidden(const struct p2s_model *m)
{
	size_t hidden = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct p2s_gpu *g = &m->gpus[i];

		if (!p2s_about_looked_at(m, (int32_t)i))
			continue;
		if (g->domain_type[0] != '\0' || g->facts.has_iommu_link != P2S_YES)
			return 0;
		hidden++;
	}
	return hidden > 0;
}

static int32_t take_mode(struct p2s_model *m)
{
	const struct p2s_log_event *pt = last(m, P2S_LOG_MODE_PASSTHROUGH);
	const struct p2s_log_event *translated = last(m, P2S_LOG_MODE_TRANSLATED);
	const struct p2s_log_event *said = pt != NULL ? pt : translated;

	if (said == NULL || (pt != NULL && translated != NULL) || !type_is_hidden(m))
		return 1;
	m->iommu_state = pt != NULL ? P2PSAFE_IOMMU_IDENTITY : P2PSAFE_IOMMU_TRANSLATED;
	m->iommu_confidence = P2PSAFE_CONFIDENCE_LOW;
	for (size_t i = 0; i < m->iommu_evidence_count; i++)
		if (strcmp(m->iommu_evidence[i].text, said->text) == 0)
			return 1;
	return p2s_model_add_iommu_evidence(m, "kernel log", said->text);
}

int32_t p2s_rules_take_log(struct p2s_model *m)
{
	if (m->facts.log_count == 0)
		return 1;
	take_snp(m);
	take_encryption(m);
	return take_mode(m);
}
