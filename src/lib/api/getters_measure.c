/* Getters of what was measured, and of what the report is about. */
#include "api/internal.h"
#include "core/sized.h"

P2PSAFE_API int32_t p2psafe_report_size(const p2psafe_report *report, int32_t pair, int32_t i, struct p2psafe_size *out)
{
	struct p2psafe_size own = {0};
	const struct p2s_pair *p = p2s_report_pair_at(report, pair);
	const struct p2s_size_row *r;

	if (p == NULL || i < 0 || (size_t)i >= p->size_count)
		return P2PSAFE_E_RANGE;
	r = &p->sizes[i];
	own.bytes = r->bytes;
	own.p2p_bytes_per_s = r->p2p_bytes_per_s;
	own.p2p_ns = r->p2p_ns;
	own.staged_bytes_per_s = r->staged_bytes_per_s;
	own.staged_ns = r->staged_ns;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_staged_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)p2s_report_evidence(report)->m.staged_count;
}

P2PSAFE_API int32_t p2psafe_report_staged(const p2psafe_report *report, int32_t i, struct p2psafe_staged *out)
{
	struct p2psafe_staged own = {0};
	const struct p2s_model *m;
	const struct p2s_staged *s;

	if (report == NULL || i < 0)
		return P2PSAFE_E_RANGE;
	m = &p2s_report_evidence(report)->m;
	if ((size_t)i >= m->staged_count)
		return P2PSAFE_E_RANGE;
	s = &m->staged[i];
	own.a = s->a;
	own.b = s->b;
	own.verdict = s->verdict;
	own.a_to_b_bytes_per_s = s->bandwidth.ce_write;
	own.b_to_a_bytes_per_s = s->bandwidth.ce_read;
	own.both_ways_bytes_per_s = s->bandwidth.both_ways;
	own.latency_ns = s->latency.store_flag_ns;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_about(const p2psafe_report *report, struct p2psafe_about *out)
{
	struct p2psafe_about own = {0};
	const struct p2s_model *m;

	if (report == NULL)
		return P2PSAFE_E_INVALID;
	m = &p2s_report_evidence(report)->m;
	own.created_unix = m->created_unix;
	own.level = m->level;
	own.deadline_hit = m->deadline_hit != 0;
	own.iommu_state = m->iommu_state;
	own.iommu_confidence = m->iommu_confidence;
	own.cuda_version = m->cuda_version;
	own.privileged = m->privileged != 0;
	own.kernel = m->kernel;
	own.driver_version = m->driver_version;
	own.driver_flavour = m->driver_flavour;
	own.virtualization = m->virtualization;
	own.container = m->container;
	own.iommu_source = m->iommu_evidence_count > 0 ? m->iommu_evidence[0].source : "";
	own.iommu_text = m->iommu_evidence_count > 0 ? m->iommu_evidence[0].text : "";
	own.kept_path = m->kept_path;
	own.kept_reason = m->kept_reason;
	return p2s_sized_out(out, &own, sizeof own);
}
