/* probe, test and decide. */
#include "api/answer.h"
#include "api/decide.h"
#include "api/promote.h"
#include "api/topology.h"
#include "ipc/proto.h"

/* A finished session becomes a report, or an error. */
static int32_t conclude(struct p2s_session *s, int32_t rc, p2psafe_report *report, p2psafe_report **out,
						struct p2psafe_error *err)
{
	if (rc == 0 && s->request.flags & P2PSAFE_FLAG_PROMOTE && !p2s_promote(report))
		rc = p2s_answer_oom(s);
	if (rc == 0 && (s->request.flags & P2PSAFE_FLAG_PROMOTE || s->request.placement_file != NULL))
		rc = p2s_topology(s, report);
	if (rc == 0 && report->decision.subjects == NULL && !p2s_view_index(&report->decision))
		rc = p2s_answer_oom(s);
	if (rc == 0)
		*out = report;
	else
		p2psafe_report_free(report);
	if (rc != 0)
		p2s_error_out(err, &s->fault);
	return rc;
}

static int32_t probe(struct p2s_session *s, p2psafe_report *report)
{
	struct p2s_model *m = &report->decision.m;
	struct p2s_run_result result;
	enum p2s_group group;
	int32_t rc = p2s_answer_look(s, m, P2S_SCOPE_ALL);

	if (rc == 0)
		rc = p2s_answer_group(s, m, 0, &group); /* whose node is whose only the driver knows, and a probe asks none */
	if (rc == 0 && m->gpu_count > 0)
		rc = p2s_answer_run(s, m, P2S_MODE_PROBE, NULL, NULL, &result);
	return rc != 0 ? rc : p2s_answer_finish(s, m, NULL);
}

typedef int32_t (*call_fn)(struct p2s_session *, p2psafe_report *);

static int32_t call(call_fn what, p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
					struct p2psafe_error *err)
{
	struct p2s_session s = {.root = {.fd = -1}};
	p2psafe_report *report;
	int32_t rc;

	if (out == NULL) {
		p2s_fault_set(&s.fault, P2PSAFE_E_INVALID, 0, "out is NULL; expected where to put the report");
		return p2s_error_out(err, &s.fault);
	}
	*out = NULL;
	if (p2s_context_enter(ctx, &s.fault) != 0)
		return p2s_error_out(err, &s.fault);
	rc = p2s_session_open(&s, options, &ctx->log);
	if (rc != 0) {
		p2s_context_leave(ctx);
		return p2s_error_out(err, &s.fault);
	}
	report = p2s_report_new((s.request.flags & P2PSAFE_FLAG_PASS_UNTESTED) != 0);
	rc = report == NULL ? p2s_answer_oom(&s) : what(&s, report);
	rc = conclude(&s, rc, report, out, err);
	p2s_session_close(&s);
	p2s_context_leave(ctx);
	return rc;
}

P2PSAFE_API int32_t p2psafe_probe(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
								  struct p2psafe_error *err)
{
	return call(probe, ctx, options, out, err);
}

P2PSAFE_API int32_t p2psafe_test(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
								 struct p2psafe_error *err)
{
	return call(p2s_decide_test, ctx, options, out, err);
}

P2PSAFE_API int32_t p2psafe_decide(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
								   struct p2psafe_error *err)
{
	return call(p2s_decide_kept, ctx, options, out, err);
}
