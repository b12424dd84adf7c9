/* The report object: memory, and the evidence of a kept answer that is read only when asked for. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "emit/emit.h"

p2psafe_report *p2s_report_new(int32_t pass_untested)
{
	p2psafe_report *r = calloc(1, sizeof *r);

	if (r == NULL)
		return NULL;
	p2s_model_init(&r->decision.m);
	r->pass_untested = pass_untested;
	if (pthread_mutex_init(&r->lock, NULL) != 0) {
		free(r);
		return NULL;
	}
	return r;
}

int32_t p2s_view_index(struct p2s_view *v)
{
	const struct p2s_model *m = &v->m;

	v->subjects = calloc(m->finding_count + 1, sizeof *v->subjects);
	if (v->subjects == NULL)
		return 0;
	for (size_t i = 0; i < m->finding_count; i++)
		p2s_emit_subject(m, &m->findings[i], v->subjects[i], sizeof v->subjects[i]);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		const struct p2s_consumer *k = &m->consumers[c];

		v->failed[c] = calloc(k->failed_count + 1, sizeof *v->failed[c]);
		if (v->failed[c] == NULL)
			return 0;
		for (size_t i = 0; i < k->failed_count; i++)
			p2s_emit_failed_leg(m, &k->failed[i], v->failed[c][i], sizeof v->failed[c][i]);
	}
	return 1;
}

void p2s_view_free(struct p2s_view *v)
{
	free(v->subjects);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		free(v->failed[c]);
	p2s_model_free(&v->m);
	memset(v, 0, sizeof *v);
}

P2PSAFE_API void p2psafe_report_free(p2psafe_report *report)
{
	if (report == NULL)
		return;
	p2s_view_free(&report->decision);
	if (report->evidence != NULL) {
		p2s_view_free(report->evidence);
		free(report->evidence);
	}
	if (report->load_free != NULL)
		report->load_free(report->load_user);
	pthread_mutex_destroy(&report->lock);
	free(report);
}

static struct p2s_view *load(const p2psafe_report *report)
{
	struct p2s_view *v = calloc(1, sizeof *v);

	if (v == NULL)
		return NULL;
	p2s_model_init(&v->m);
	if (report->load(report->load_user, &v->m) && p2s_view_index(v))
		return v;
	p2s_view_free(v);
	free(v);
	return NULL;
}

const struct p2s_view *p2s_report_evidence(const p2psafe_report *report)
{
	p2psafe_report *r = (p2psafe_report *)report; /* immutable to the outside: what is added was there all along */
	const struct p2s_view *v;

	if (r->load == NULL)
		return &r->decision;
	pthread_mutex_lock(&r->lock);
	if (!r->load_done) {
		r->evidence = load(r);
		r->load_done = 1;
	}
	v = r->evidence != NULL ? r->evidence : &r->decision;
	pthread_mutex_unlock(&r->lock);
	return v;
}
