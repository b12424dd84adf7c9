#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "core/sized.h"
#include "emit/emit.h"
#include "rules/rules.h"

P2PSAFE_API int32_t p2psafe_report_allows(const p2psafe_report *report, int32_t consumer)
{
	if (report == NULL || consumer <= 0 || consumer >= P2S_CONSUMERS)
		return 0;
	return report->decision.m.consumers[consumer].allowed == 1;
}

P2PSAFE_API int32_t p2psafe_report_exit_code(const p2psafe_report *report)
{
	return report == NULL ? 4 : p2s_rules_exit_code(&report->decision.m);
}

P2PSAFE_API int32_t p2psafe_report_transport(const p2psafe_report *report)
{
	return report == NULL ? P2PSAFE_TRANSPORT_NONE : report->decision.m.transport;
}

P2PSAFE_API int32_t p2psafe_report_is_simulated(const p2psafe_report *report)
{
	return report != NULL && report->decision.m.simulated;
}

P2PSAFE_API int32_t p2psafe_report_is_kept(const p2psafe_report *report)
{
	return report != NULL && report->decision.m.kept_hit;
}

P2PSAFE_API int32_t p2psafe_report_consumer(const p2psafe_report *report, int32_t consumer, struct p2psafe_consumer_info *out)
{
	struct p2psafe_consumer_info own = {0};

	if (report == NULL || consumer <= 0 || consumer >= P2S_CONSUMERS)
		return P2PSAFE_E_INVALID;
	own.consumer = consumer;
	own.allowed = report->decision.m.consumers[consumer].allowed;
	own.verdict = report->decision.m.consumers[consumer].verdict;
	own.failed_leg_count = (int32_t)p2s_report_evidence(report)->m.consumers[consumer].failed_count;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API const char *p2psafe_report_failed_leg(const p2psafe_report *report, int32_t consumer, int32_t i)
{
	const struct p2s_view *v;

	if (report == NULL || consumer <= 0 || consumer >= P2S_CONSUMERS || i < 0)
		return NULL;
	v = p2s_report_evidence(report);
	return (size_t)i < v->m.consumers[consumer].failed_count ? v->failed[consumer][i] : NULL;
}

P2PSAFE_API int32_t p2psafe_report_setting_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)report->decision.m.setting_count;
}

P2PSAFE_API int32_t p2psafe_report_setting(const p2psafe_report *report, int32_t i, struct p2psafe_setting *out)
{
	struct p2psafe_setting own = {0};
	const struct p2s_setting *s;

	if (report == NULL || i < 0 || (size_t)i >= report->decision.m.setting_count)
		return P2PSAFE_E_RANGE;
	s = &report->decision.m.settings[i];
	own.consumer = s->consumer;
	own.kind = s->kind;
	own.applied = s->applied;
	own.name = s->name;
	own.value = s->value;
	own.why = s->why;
	own.scope = s->scope;
	own.gives_permission = s->gives;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_gpu_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)p2s_report_evidence(report)->m.gpu_count;
}

P2PSAFE_API int32_t p2psafe_report_gpu(const p2psafe_report *report, int32_t i, struct p2psafe_gpu *out)
{
	struct p2psafe_gpu own = {0};
	const struct p2s_model *m;
	const struct p2s_gpu *g;

	if (report == NULL || i < 0)
		return P2PSAFE_E_RANGE;
	m = &p2s_report_evidence(report)->m;
	if ((size_t)i >= m->gpu_count)
		return P2PSAFE_E_RANGE;
	g = &m->gpus[i];
	own.bdf = g->bdf;
	own.ordinal = g->ordinal;
	own.is_ours = g->ours != 0;
	own.state = g->state;
	own.numa_node = g->numa_node;
	own.compute_capability_major = g->cc_major > 0 ? g->cc_major : -1;
	own.compute_capability_minor = g->cc_major > 0 ? g->cc_minor : -1;
	own.bar1_bytes = g->bar1_bytes;
	own.memory_bytes = g->memory_bytes;
	own.address = g->address;
	own.uuid = g->uuid;
	own.name = g->name;
	own.domain_type = g->domain_type;
	own.driver = g->driver;
	own.to_host_bytes_per_s = g->facts.to_host;
	own.from_host_bytes_per_s = g->facts.from_host;
	own.host_both_ways_bytes_per_s = g->facts.host_both_ways;
	own.all_to_one_bytes_per_s = g->facts.all_to_one;
	own.one_to_all_bytes_per_s = g->facts.one_to_all;
	own.host_node = g->facts.host_node;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_pair_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)p2s_report_evidence(report)->m.pair_count;
}

const struct p2s_pair *p2s_report_pair_at(const p2psafe_report *report, int32_t i)
{
	const struct p2s_model *m;

	if (report == NULL || i < 0)
		return NULL;
	m = &p2s_report_evidence(report)->m;
	return (size_t)i < m->pair_count ? &m->pairs[i] : NULL;
}

P2PSAFE_API int32_t p2psafe_report_pair(const p2psafe_report *report, int32_t i, struct p2psafe_pair *out)
{
	struct p2psafe_pair own = {0};
	const struct p2s_pair *p = p2s_report_pair_at(report, i);

	if (p == NULL)
		return P2PSAFE_E_RANGE;
	own.src = p->src;
	own.dst = p->dst;
	own.path = p->path;
	own.nccl_path = p->nccl_path;
	own.verdict = p->verdict;
	own.transport = p->transport;
	own.score = p->score;
	own.leg_count = (int32_t)p->leg_count;
	own.limit_bytes_per_s = p->limit_bytes_per_s;
	own.ce_write_bytes_per_s = p->bandwidth.ce_write;
	own.ce_read_bytes_per_s = p->bandwidth.ce_read;
	own.sm_store_bytes_per_s = p->bandwidth.sm_store;
	own.sm_load_bytes_per_s = p->bandwidth.sm_load;
	own.both_ways_bytes_per_s = p->bandwidth.both_ways;
	own.loaded_bytes_per_s = p->bandwidth.loaded;
	own.limit_loaded_bytes_per_s = p->limit_loaded;
	own.write_issue_ns = p->latency.write_issue_ns;
	own.load_ns = p->latency.load_ns;
	own.store_flag_ns = p->latency.store_flag_ns;
	own.p2p_wins_from_bytes = p->wins_from;
	own.efficiency = p->efficiency;
	own.size_count = (int32_t)p->size_count;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_leg(const p2psafe_report *report, int32_t pair, int32_t i, struct p2psafe_leg *out)
{
	struct p2psafe_leg own = {0};
	const struct p2s_pair *p = p2s_report_pair_at(report, pair);
	const struct p2s_leg *l;

	if (p == NULL || i < 0 || (size_t)i >= p->leg_count)
		return P2PSAFE_E_RANGE;
	l = &p->legs[i];
	own.leg = l->leg;
	own.mapping = l->mapping;
	own.initiator = l->initiator;
	own.verdict = l->verdict;
	own.damage = l->damage;
	own.has_detail = l->has_detail;
	own.bytes = l->bytes;
	own.rounds = l->rounds;
	own.error_bound_ppb = l->error_bound_ppb;
	own.coverage_bytes = l->coverage_bytes;
	own.coverage_of_bytes = l->coverage_of_bytes;
	own.max_handle_bytes = l->max_handle_bytes;
	own.offset = l->offset;
	own.expected = l->expected;
	own.found = l->found;
	own.note = l->note;
	return p2s_sized_out(out, &own, sizeof own);
}

P2PSAFE_API int32_t p2psafe_report_finding_count(const p2psafe_report *report)
{
	return report == NULL ? 0 : (int32_t)p2s_report_evidence(report)->m.finding_count;
}

P2PSAFE_API int32_t p2psafe_report_finding(const p2psafe_report *report, int32_t i, struct p2psafe_finding *out)
{
	struct p2psafe_finding own = {0};
	const struct p2s_view *v;
	const struct p2s_finding *f;

	if (report == NULL || i < 0)
		return P2PSAFE_E_RANGE;
	v = p2s_report_evidence(report);
	if ((size_t)i >= v->m.finding_count)
		return P2PSAFE_E_RANGE;
	f = &v->m.findings[i];
	own.severity = f->severity;
	own.confidence = f->confidence;
	own.evidence_count = (int32_t)f->evidence_count;
	own.code = f->code;
	own.subject = v->subjects[i];
	return p2s_sized_out(out, &own, sizeof own);
}

static const struct p2s_evidence *evidence_at(const p2psafe_report *report, int32_t i, int32_t k)
{
	const struct p2s_model *m;

	if (report == NULL || i < 0 || k < 0)
		return NULL;
	m = &p2s_report_evidence(report)->m;
	if ((size_t)i >= m->finding_count || (size_t)k >= m->findings[i].evidence_count)
		return NULL;
	return &m->findings[i].evidence[k];
}

P2PSAFE_API const char *p2psafe_report_evidence_source(const p2psafe_report *report, int32_t i, int32_t k)
{
	const struct p2s_evidence *e = evidence_at(report, i, k);

	return e == NULL ? NULL : e->source;
}

P2PSAFE_API const char *p2psafe_report_evidence_text(const p2psafe_report *report, int32_t i, int32_t k)
{
	const struct p2s_evidence *e = evidence_at(report, i, k);

	return e == NULL ? NULL : e->text;
}

P2PSAFE_API int32_t p2psafe_report_json(const p2psafe_report *report, char **out, struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};
	json_t *top;

	if (out != NULL)
		*out = NULL;
	if (report == NULL || out == NULL) {
		p2s_fault_set(&fault, P2PSAFE_E_INVALID, 0, "%s is NULL", out == NULL ? "out" : "report");
		return p2s_error_out(err, &fault);
	}
	top = p2s_emit_report(&p2s_report_evidence(report)->m, report->pass_untested);
	if (top != NULL)
		*out = p2s_emit_dump(top, JSON_INDENT(2));
	json_decref(top);
	if (*out != NULL)
		return P2PSAFE_OK;
	p2s_fault_set(&fault, P2PSAFE_E_NOMEM, 0, "out of memory");
	return p2s_error_out(err, &fault);
}

P2PSAFE_API int32_t p2psafe_report_env(const p2psafe_report *report, int32_t format, char **out, struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};
	struct p2s_model veto;
	const struct p2s_model *m;

	if (out != NULL)
		*out = NULL;
	if (out == NULL || format <= P2PSAFE_FORMAT_UNKNOWN || format > P2PSAFE_FORMAT_SYSTEMD_UNIT) {
		p2s_fault_set(&fault, P2PSAFE_E_INVALID, 0, out == NULL ? "out is NULL" : "format: %d; expected a P2PSAFE_FORMAT_*",
		              (int)format);
		return p2s_error_out(err, &fault);
	}
	if (format == P2PSAFE_FORMAT_JSON && p2s_jansson_check(&fault) != P2PSAFE_OK)
		return p2s_error_out(err, &fault);
	p2s_model_init(&veto);
	m = report != NULL ? &report->decision.m : &veto;
	if (report != NULL || p2s_emit_full_veto(&veto))
		*out = p2s_emit_text(m, format);
	p2s_model_free(&veto);
	if (*out != NULL)
		return P2PSAFE_OK;
	p2s_fault_set(&fault, P2PSAFE_E_NOMEM, 0, "out of memory");
	return p2s_error_out(err, &fault);
}

P2PSAFE_API void p2psafe_string_free(char *string)
{
	free(string);
}
