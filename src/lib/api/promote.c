/* Permission, where it is wanted: what was measured stands in the evidence, which a kept answer reads only for this. */
#include "api/promote.h"

#include <stdlib.h>
#include <string.h>

#include "emit/emit.h"

static int32_t copy_settings(struct p2s_model *to, const struct p2s_model *from)
{
	to->setting_count = 0;
	for (size_t i = 0; i < from->setting_count; i++) {
		const struct p2s_setting *s = &from->settings[i];

		if (!p2s_model_add_setting(to, s->consumer, s->kind, s->applied, s->name, s->value, s->why))
			return 0;
		to->settings[i].scope = s->scope;
		to->settings[i].gives = s->gives;
	}
	return 1;
}

int32_t p2s_promote(p2psafe_report *report)
{
	struct p2s_model *evidence;

	if (p2s_report_evidence(report) == &report->decision)
		return 1; /* made just now, and promoted then; or without evidence, and never */
	evidence = &report->evidence->m;
	evidence->promote = 1;
	return p2s_emit_settings(evidence, report->pass_untested) && copy_settings(&report->decision.m, evidence);
}
