#include "api/decide.h"

#include "api/answer.h"
#include "ipc/proto.h"

int32_t p2s_decide_test(struct p2s_session *s, p2psafe_report *report)
{
	struct p2s_model *m = &report->decision.m;
	struct p2s_run_result result;
	enum p2s_group group;
	int32_t rc = p2s_answer_look(s, m, P2S_SCOPE_ALL);

	if (rc == 0)
		rc = p2s_answer_group(s, m, 0, &group);
	if (rc == 0 && (group == P2S_GROUP_TESTABLE || group == P2S_GROUP_SINGLE))
		rc = p2s_answer_run(s, m, P2S_MODE_TEST, NULL, NULL, &result);
	return rc != 0 ? rc : p2s_answer_finish(s, m, NULL);
}

int32_t p2s_decide_kept(struct p2s_session *s, p2psafe_report *report)
{
	return p2s_decide_test(s, report);
}
