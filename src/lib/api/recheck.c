#include "api/recheck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/hit.h"
#include "emit/emit.h"
#include "ipc/proto.h"
#include "kept/store.h"

void p2s_recheck_forget(p2psafe_report *report)
{
	p2s_view_free(&report->decision);
	p2s_model_init(&report->decision.m);
	if (report->evidence != NULL)
		p2s_view_free(report->evidence);
	free(report->evidence);
	report->evidence = NULL;
	if (report->load_free != NULL)
		report->load_free(report->load_user);
	report->load = NULL;
	report->load_free = NULL;
	report->load_user = NULL;
	report->load_done = 0;
}

/* What the machine is now, for the group of the hit. whole: the helper came to its end. */
static int32_t look(struct p2s_session *s, const struct p2s_model *kept, struct p2s_model *now, int32_t *whole)
{
	struct p2s_run_result result = {0};
	enum p2s_group group;
	int32_t rc = p2s_answer_look(s, now, P2S_SCOPE_ALL);

	for (size_t i = 0; rc == 0 && i < now->gpu_count; i++)
		for (size_t k = 0; k < kept->gpu_count; k++)
			if (strcmp(now->gpus[i].address, kept->gpus[k].address) == 0)
				now->gpus[i].minor = kept->gpus[k].minor;
	if (rc == 0)
		rc = p2s_answer_group(s, now, 0, &group);
	if (rc == 0)
		rc = p2s_answer_run(s, now, P2S_MODE_RECHECK, NULL, NULL, &result);
	*whole = result.complete;
	return rc;
}

static void say(const struct p2s_recheck *r, const char *named, char *reason, size_t cap)
{
	snprintf(reason, cap, "%.60s%sACS, MIG, NVLink states, UUID, VBIOS, display and kernel log rechecked%s%.100s", named,
	         named[0] != '\0' ? "; " : "", r->unread[0] != '\0' ? ", but not: " : "", r->unread);
}

static int32_t recheck(struct p2s_session *s, p2psafe_report *report, const char *named, char *why, size_t cap, int32_t *same)
{
	const struct p2s_model *kept = &p2s_report_evidence(report)->m;
	struct p2s_recheck r;
	struct p2s_model now;
	int32_t whole;
	int32_t rc;

	*same = 0;
	if (report->evidence == NULL) {
		snprintf(why, cap, "a record without evidence beside it cannot be rechecked");
		return 0;
	}
	p2s_model_init(&now);
	rc = look(s, kept, &now, &whole);
	if (rc == 0 && !whole) {
		snprintf(why, cap, "the recheck did not come to its end");
	} else if (rc == 0) {
		*same = p2s_recheck_compare(kept, &now, &r);
		if (*same) {
			say(&r, named, report->decision.m.kept_reason, sizeof report->decision.m.kept_reason);
			memcpy(report->evidence->m.kept_reason, report->decision.m.kept_reason, sizeof report->decision.m.kept_reason);
		} else {
			snprintf(why, cap, "%s", r.changed);
		}
	}
	p2s_model_free(&now);
	return rc;
}

int32_t p2s_recheck_refused(const struct p2s_refused *refused, const char *path)
{
	for (int32_t i = 0; i < refused->count; i++)
		if (strcmp(refused->of[i].path, path) == 0)
			return i;
	return -1;
}

static void refuse(struct p2s_refused *refused, const char *path, const char *why)
{
	int32_t last = (int32_t)(sizeof refused->of / sizeof refused->of[0]) - 1;
	int32_t i = refused->count < last ? refused->count++ : last;

	snprintf(refused->of[i].path, sizeof refused->of[i].path, "%s", path);
	snprintf(refused->of[i].why, sizeof refused->of[i].why, "%s", why);
}

int32_t p2s_recheck_hit(struct p2s_session *s, const struct p2s_places *places, struct p2s_refused *refused,
                        p2psafe_report *report, int32_t *hit, char *why, size_t cap)
{
	int32_t rc = 0;

	/* The next folder may have a record that nothing speaks against. */
	for (int i = 0; i <= P2S_PLACES; i++) {
		char path[sizeof refused->of[0].path];
		char named[200];
		int32_t same = 0;

		rc = p2s_hit_try(s, places, refused, report, hit, why, cap);
		if (rc != 0 || !*hit)
			break;
		snprintf(path, sizeof path, "%s", report->decision.m.kept_path);
		snprintf(named, sizeof named, "%s", why); /* of a hit: what of the key could not be compared */
		rc = recheck(s, report, named, why, cap, &same);
		if (rc == 0 && same)
			return 0;
		refuse(refused, path, why);
		p2s_recheck_forget(report);
		*hit = 0;
		if (rc != 0)
			break;
	}
	if (rc == 0 && refused->count > 0)
		snprintf(why, cap, "%s", refused->of[refused->count - 1].why);
	return rc;
}

int32_t p2s_recheck_record(int dir, const struct p2s_record *r, const struct p2s_model *now, struct p2s_recheck *out)
{
	struct p2s_model kept;
	int32_t same = 1;
	size_t len = 0;
	char *text = p2s_store_full(dir, r, &len);

	memset(out, 0, sizeof *out);
	p2s_model_init(&kept);
	if (text != NULL && p2s_emit_parse_full(text, len, &kept) == 1)
		same = p2s_recheck_compare(&kept, now, out);
	p2s_model_free(&kept);
	free(text);
	return same;
}
