#include "api/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/answer.h"
#include "api/hit.h"
#include "api/measured.h"
#include "api/recheck.h"
#include "core/names.h"
#include "emit/emit.h"
#include "ipc/proto.h"
#include "kept/carry.h"
#include "kept/key.h"
#include "kept/lock.h"
#include "kept/marker.h"
#include "kept/place.h"
#include "kept/policy.h"
#include "kept/store.h"
#include "rules/explain.h"
#include "rules/rules.h"

/* A test under the lock, with marker and record. */
struct testing {
	struct p2s_session *s;
	struct p2s_model *m;
	struct p2s_places places;
	int dir; /* of the place that is written; -1 none */
	struct p2s_lock lock;
	uint64_t generation; /* of the record that we may publish, fixed when the lock was taken; 0 without it, or if unknown */
	struct p2s_marker marker;
	int32_t forbidden; /* a marker says no */
	int32_t unmarked;  /* no marker could be written */
	int32_t recall;    /* numbers that were measured before count */
	int32_t gpu_ended; /* a GPU did not last */
	int32_t gave_up;   /* somebody else holds the lock */
	struct p2s_refused *refused; /* records that a recheck spoke against; NULL nobody asked */
};

static int32_t find(struct testing *t, const char *code, int32_t severity, const char *source, const char *text)
{
	return p2s_model_find(t->m, code, severity, P2PSAFE_CONFIDENCE_HIGH, -1, -1, source, text) ? 0 : p2s_answer_oom(t->s);
}

static int32_t on_risk(void *user, int32_t src, int32_t dst, int32_t leg)
{
	struct testing *t = user;
	char why[160];

	if (t->forbidden)
		return P2S_RISK_STOP;
	if (!(t->s->request.flags & P2PSAFE_FLAG_KEEP_GOING) &&
	    (p2s_rules_risky(t->m, src, why, sizeof why) || p2s_rules_risky(t->m, dst, why, sizeof why)))
		return P2S_RISK_SKIP;
	if (p2s_marker_write(&t->marker, t->m->gpus[src].address, t->m->gpus[dst].address, p2s_word_name(P2S_GROUP_LEG, leg)))
		return P2S_RISK_GO;
	t->unmarked = 1;
	/* A simulated host cannot take this machine down. */
	return t->s->request.simulated || !(t->s->request.flags & P2PSAFE_FLAG_REQUIRE_MARKER) ? P2S_RISK_GO : P2S_RISK_STOP;
}

/* A marker in any of the folders that this process reads counts, for they speak of one machine. *where: the folder of the one that
 * what names. */
static enum p2s_marker_state look_for_markers(struct testing *t, char *what, size_t cap, const char **where)
{
	enum p2s_marker_kind kind = t->s->request.simulated							 ? P2S_MARKER_SIMULATED
								: t->s->request.level == P2PSAFE_LEVEL_THOROUGH ? P2S_MARKER_SOAK
																				 : P2S_MARKER_RUN;
	uint64_t key = p2s_key_marker(t->m, &t->s->host);
	enum p2s_marker_state state = p2s_marker_look_as(&t->marker, kind, t->dir, key, t->s->host.boot_id, what, cap);
	char before[160];

	*where = t->places.write >= 0 ? t->places.place[t->places.write].dir : "";
	for (int i = 0; i < t->places.count && !t->s->request.simulated; i++) {
		enum p2s_marker_state own = state;

		if (i == t->places.write)
			continue;
		snprintf(before, sizeof before, "%s", what);
		state = p2s_marker_peek(state, t->dir, t->places.place[i].fd, key, t->s->host.boot_id, what, cap);
		if (state != own || strcmp(before, what) != 0)
			*where = t->places.place[i].dir;
	}
	return state;
}

static int32_t judge_marker(struct testing *t)
{
	char what[160];
	char text[300];
	char source[160];
	const char *where;
	enum p2s_marker_state state = look_for_markers(t, what, sizeof what, &where);

	if (state == P2S_MARKER_NONE || state == P2S_MARKER_ONE || t->s->request.flags & P2PSAFE_FLAG_KEEP_GOING)
		return 0;
	t->forbidden = 1;
	/* The folder: whoever clears the own one still hears of root's. */
	snprintf(source, sizeof source, "marker in %.140s", where);
	snprintf(text, sizeof text, "%s: %s; nothing risky runs %s",
			 state == P2S_MARKER_EARLIER ? "the machine restarted during a test"
			 : state == P2S_MARKER_TWO   ? "two tests of this boot did not end well"
			 : state == P2S_MARKER_BUSY  ? "a thorough test is running"
										 : "a marker of an unfinished test cannot be read",
			 what,
			 state == P2S_MARKER_BUSY ? "beside it" : "until the cache there is cleared or the test is told to keep going");
	return find(t, "PROBE_RISK_HIGH", P2PSAFE_SEVERITY_DANGER, source, text);
}

/* The GPU worked in a transfer between two, and then it could not be used any more: the driver lost it. */
static int32_t lost(const struct p2s_model *m, const struct p2s_pair *p)
{
	if (m->gpus[p->src].state != P2PSAFE_GPU_STATE_FAILED && m->gpus[p->dst].state != P2PSAFE_GPU_STATE_FAILED)
		return 0;
	for (size_t i = 0; i < p->leg_count; i++)
		if (p->legs[i].verdict == P2PSAFE_VERDICT_OK || (p->legs[i].verdict == P2PSAFE_VERDICT_ERROR && p->legs[i].cuda_error != 0))
			return 1;
	return 0;
}

/* Did a GPU hang, or was it lost, or is it not to be trusted any more? group: one of those that were tested. */
static int32_t gpu_ended(const struct p2s_model *m, int32_t group)
{
	static const char *const grave[] = {"GPU_WEDGED", "GPU_LOST", "GRAVE_XID", "NVLINK_FATAL_XID"};

	for (size_t i = 0; i < m->pair_count; i++) {
		if (lost(m, &m->pairs[i]))
			return 1;
		for (size_t k = 0; k < m->pairs[i].leg_count; k++)
			if (m->pairs[i].legs[k].verdict == P2PSAFE_VERDICT_HANG)
				return 1;
	}
	for (size_t i = 0; i < m->finding_count; i++) {
		int32_t gpu = m->findings[i].src;

		for (size_t k = 0; k < sizeof grave / sizeof grave[0] && (!group || (gpu >= 0 && m->gpus[gpu].in_group)); k++)
			if (strcmp(m->findings[i].code, grave[k]) == 0)
				return 1;
	}
	return 0;
}

/* Did the run end in a way that must not be repeated without thought? */
static int32_t ended_badly(const struct p2s_model *m, const struct p2s_run_result *result)
{
	return result->left_behind > 0 || (result->risk_asked && result->done_status < 0) || gpu_ended(m, 0);
}

static int32_t run_test(struct testing *t)
{
	struct p2s_run_result result = {0};
	int32_t rc = judge_marker(t);

	if (rc == 0)
		rc = p2s_answer_run(t->s, t->m, P2S_MODE_TEST, on_risk, t, &result);
	if (rc != 0) {
		/* A name that no GPU has is known as such when the driver has told the names, behind a whole test. */
		p2s_marker_end(&t->marker, rc != P2PSAFE_E_CONFIG || ended_badly(t->m, &result));
		return rc;
	}
	t->gpu_ended = gpu_ended(t->m, 1);
	p2s_marker_end(&t->marker, ended_badly(t->m, &result));
	if (t->unmarked && !t->s->request.simulated)
		rc = find(t, "NO_MARKER", P2PSAFE_SEVERITY_WARNING, "cache",
				  "no place for a marker: a crash during the test leaves no trace");
	p2s_measured_now(t->m);
	if (t->recall)
		p2s_measured_recall(t->s, t->dir, t->m);
	return rc != 0 ? rc : p2s_answer_finish(t->s, t->m, NULL);
}

/* What the folder holds before we publish, and what it is worth. */
struct before {
	struct p2s_record old;
	int32_t had;
	int32_t same_host; /* it speaks of this machine in its present boot; its GPUs are compared one by one */
	int32_t valid;     /* and of all GPUs that were judged now; its level may be lower */
	int32_t newest;    /* nothing that cannot be read lies in front of it */
	int32_t serves;    /* and it answers this request */
};

/* A card that is another one now, or is reached another way, did not fail: its old name leads nowhere. What the log says makes
 * permissions old, never failures. */
static void forget_cards(struct p2s_record *old, const struct p2s_model *m, const struct p2s_recheck *spoken)
{
	for (size_t i = 0; i < m->gpu_count; i++) {
		int32_t k = spoken->other[i] ? p2s_record_gpu(old, m->gpus[i].address) : -1;

		if (k >= 0)
			old->gpus[k].address[0] = '\0';
	}
}

static void path_of(const struct testing *t, uint64_t generation, char *path, size_t cap)
{
	snprintf(path, cap, "%.480s/%llu.json", t->places.place[t->places.write].dir, (unsigned long long)generation);
}

/* Did a recheck speak against that record? */
static int32_t refused(const struct testing *t, uint64_t generation)
{
	char path[600];

	path_of(t, generation, path, sizeof path);
	return t->refused != NULL && p2s_recheck_refused(t->refused, path) >= 0;
}

static void look_before(struct testing *t, uint64_t highest, struct before *b)
{
	struct p2s_request any = t->s->request;
	struct p2s_recheck spoken;
	char reason[200];

	memset(b, 0, sizeof *b);
	b->had = p2s_store_last_whole(t->dir, &b->old);
	if (!b->had)
		return;
	any.level = 0; /* the level is the policy's business here, not the key's */
	b->same_host = p2s_key_host_matches(&b->old, t->m, &t->s->host, &any, reason, sizeof reason);
	b->valid = b->same_host && p2s_recheck_record(t->dir, &b->old, t->m, &spoken) &&
			   p2s_key_matches(&b->old, t->m, &t->s->host, &any, reason, sizeof reason);
	if (b->same_host)
		forget_cards(&b->old, t->m, &spoken);
	b->newest = b->old.generation == highest;
	b->serves = b->valid && b->newest && !(t->gave_up && refused(t, highest)) &&
				p2s_key_matches(&b->old, t->m, &t->s->host, &t->s->request, reason, sizeof reason);
}

/* What stays in place of a new answer learns what failed in it: worse counts, pair by pair. Returns 1 if it is to be published
 * again. Behind a record that cannot be read nothing stays as it is, for that one may have taken back what it allows: *policy.
 */
static int32_t add_failures(struct before *b, const struct p2s_record *now, enum p2s_policy *policy)
{
	if (*policy != P2S_POLICY_KEEP || !b->valid || !p2s_carry_add(&b->old, now))
		return 0;
	if (b->newest)
		return 1;
	*policy = P2S_POLICY_REPLACE;
	return 0;
}

/* Does what stays say something that now does not? Then it counts for all who ask the same. A failure that a pass does not
 * outweigh does, and it is published again: also where something that cannot be read lay in front of it. */
static int32_t says_more(const struct before *b, const struct p2s_record *now, enum p2s_policy policy)
{
	int32_t kept = p2s_record_worst(&b->old);
	int32_t own = p2s_record_worst(now);

	if (policy != P2S_POLICY_KEEP)
		return policy == P2S_POLICY_COUNT_PASS;
	return b->serves && (p2s_rules_is_bad(own) || now->gpu_ended || (kept != own && p2s_rules_worse(kept, own) == kept));
}

static int32_t write_new(struct testing *t, struct p2s_record *now, uint64_t next)
{
	char *full = p2s_emit_full(t->m);
	int32_t result = p2s_store_publish(t->dir, now, next, full);

	free(full);
	if (result == 1)
		path_of(t, next, t->m->kept_path, sizeof t->m->kept_path);
	return result;
}

/* Does the answer take something back that an earlier one may have allowed? */
static int32_t failed(const struct testing *t)
{
	for (size_t i = 0; i < t->m->pair_count; i++) {
		if (p2s_rules_is_bad(t->m->pairs[i].verdict))
			return 1;
		for (int32_t c = 1; c < P2S_CONSUMERS; c++)
			if (c != P2PSAFE_CONSUMER_MULTICAST && p2s_rules_is_bad(t->m->pairs[i].permits[c]))
				return 1;
	}
	return t->gpu_ended;
}

/* What cannot be written takes back at least what is kept. Returns 1 if that no longer answers anybody. */
static int32_t take_back(const struct testing *t)
{
	int32_t gone = p2s_store_stop(t->dir, t->generation, t->lock.fd >= 0);

	p2s_log(t->s->log, P2PSAFE_LOG_WARNING, "%.200s: a worse answer cannot be kept; the earlier one %s",
			t->places.place[t->places.write].dir,
			gone ? "does not count any more" : "cannot be taken back, run `p2psafe cache clear`");
	return gone;
}

enum published {
	PUBLISHED_OURS,  /* our answer counts for all, or for us alone */
	PUBLISHED_OTHER, /* what is kept says something else, which counts for all */
	PUBLISHED_LATE /* so it does, for others gave up waiting; but something failed here, and that is to be kept for later starts
					*/
};

/* Publishes the model if the old record may be replaced: under the lock as the generation that came next when it was taken,
 * for somebody who gave up waiting may have spoken for all meanwhile. for_all: others of this start must find our answer, so
 * what does not answer this request never stays. */
static enum published publish(struct testing *t, int32_t for_all)
{
	enum { FAILED = -1, NOTHING = -2 }; /* besides what p2s_store_publish() returns */
	enum p2s_policy policy = P2S_POLICY_REPLACE;
	struct p2s_record now;
	struct before b;
	uint64_t highest;
	int32_t result = NOTHING;
	int32_t other = 0;
	int32_t own;
	int32_t elsewhere = 0;
	int32_t worse = 0;
	int32_t add = 0;

	if (t->generation == 0)
		return PUBLISHED_OURS; /* a number in the dark could be below what others read */
	if (!p2s_store_highest(t->dir, &highest)) {
		if (failed(t) && !t->s->request.simulated)
			take_back(t);
		return PUBLISHED_OURS;
	}
	if (t->generation <= highest) {
		if (for_all || !failed(t))
			return failed(t) ? PUBLISHED_LATE : PUBLISHED_OTHER;
		t->generation = highest + 1; /* who gave up waiting for a test said "untested", and this one says more */
	}
	if (!p2s_record_from_model(&now, t->m, &t->s->host, t->s->request.cuda_library)) {
		p2s_record_free(&now);
		if (failed(t) && !t->s->request.simulated)
			take_back(t);
		return PUBLISHED_OURS;
	}
	now.gpu_ended = t->gpu_ended;
	own = p2s_record_worst(&now);
	look_before(t, highest, &b);
	if (b.had) {
		policy = p2s_policy_replace(&b.old, b.valid, &now);
		worse = policy == P2S_POLICY_REPLACE && (p2s_rules_is_bad(own) || own == P2PSAFE_VERDICT_UNTESTED);
		if (for_all && policy == P2S_POLICY_KEEP && !b.serves && now.simulated == b.old.simulated)
			policy = P2S_POLICY_REPLACE;
		if (own == P2PSAFE_VERDICT_UNTESTED)
			now.retries = p2s_record_worst(&b.old) == P2PSAFE_VERDICT_UNTESTED ? b.old.retries + 1 : 0;
		add = add_failures(&b, &now, &policy);
		worse |= add;
		other = says_more(&b, &now, policy);
	}
	if (policy == P2S_POLICY_REPLACE) {
		other = b.same_host && p2s_carry_failures(&now, &b.old);
		result = write_new(t, &now, t->generation);
	} else if (policy == P2S_POLICY_COUNT_PASS || add) {
		b.old.passes += policy == P2S_POLICY_COUNT_PASS;
		result = p2s_store_republish(t->dir, &b.old, t->generation);
	}
	if (result == FAILED && worse && b.newest)
		other = take_back(t) && other; /* nothing older answers then, or it would allow */
	if (for_all && (!p2s_hit_learn(t->s, t->m, &t->places, t->places.write, &now, &elsewhere) || elsewhere))
		other = 1; /* of this machine another folder knows more */
	if (b.had)
		p2s_record_free(&b.old);
	p2s_record_free(&now);
	if (result == 1 && t->lock.fd >= 0)
		p2s_store_clean(t->dir, t->generation);
	return other || result == 0 ? PUBLISHED_OTHER : PUBLISHED_OURS;
}

static int32_t untested(struct testing *t, const char *code, const char *text)
{
	int32_t rc = find(t, code, P2PSAFE_SEVERITY_ERROR, "lock", text);

	if (rc == 0 && !p2s_model_make_pairs(t->m))
		rc = p2s_answer_oom(t->s);
	return rc != 0 ? rc : p2s_answer_finish(t->s, t->m, NULL);
}

/* A model to start over with. */
static int32_t look_again(struct testing *t, enum p2s_group *group)
{
	int32_t rc;

	p2s_model_free(t->m);
	p2s_model_init(t->m);
	rc = p2s_answer_look(t->s, t->m, P2S_SCOPE_ALL);
	return rc != 0 ? rc : p2s_answer_group_sure(t->s, t->m, group);
}

static void open_testing(struct testing *t, struct p2s_session *s, p2psafe_report *report)
{
	memset(t, 0, sizeof *t);
	t->s = s;
	t->m = &report->decision.m;
	t->lock.fd = -1;
	t->marker.fd = -1;
	t->marker.dir = -1;
	p2s_places_open(&t->places, &s->request, 1);
	t->dir = t->places.write >= 0 ? t->places.place[t->places.write].fd : -1;
}

static void close_testing(struct testing *t)
{
	p2s_lock_release(&t->lock);
	p2s_places_close(&t->places);
}

/* The number that we may publish under; 0 where nobody can tell which is free. */
static void take_number(struct testing *t)
{
	uint64_t highest;

	t->generation = p2s_store_highest(t->dir, &highest) ? highest + 1 : 0;
}

static enum p2s_lock_result take_lock(struct testing *t)
{
	uint64_t deadline = p2s_session_deadline(t->s, t->m->gpu_count);
	enum p2s_lock_result result =
		t->dir < 0 ? P2S_LOCK_FAILED : p2s_lock_take(&t->lock, t->dir, t->s->host.boot_id, deadline, deadline);

	if (result == P2S_LOCK_HELD)
		take_number(t);
	return result;
}

int32_t p2s_decide_test(struct p2s_session *s, p2psafe_report *report)
{
	struct testing t;
	enum p2s_group group;
	enum p2s_lock_result lock = P2S_LOCK_FAILED;
	int32_t thorough = s->request.level == P2PSAFE_LEVEL_THOROUGH;
	int32_t rc = p2s_answer_look(s, &report->decision.m, P2S_SCOPE_ALL);

	if (rc == 0)
		rc = p2s_answer_group_sure(s, &report->decision.m, &group);
	if (rc != 0)
		return rc;
	if (group != P2S_GROUP_TESTABLE && group != P2S_GROUP_SINGLE)
		return p2s_answer_finish(s, &report->decision.m, NULL);
	open_testing(&t, s, report);
	/* A soak may take hours: it holds the lock only to publish. */
	if (group == P2S_GROUP_TESTABLE && !thorough)
		lock = take_lock(&t);
	if (lock == P2S_LOCK_GAVE_UP)
		rc = untested(&t, "LOCK_HELD", "another test is running or stopped and did not end in time");
	else
		rc = run_test(&t);
	if (rc == 0 && lock != P2S_LOCK_GAVE_UP && group == P2S_GROUP_TESTABLE && !(s->request.flags & P2PSAFE_FLAG_NO_CACHE)) {
		if (thorough)
			lock = take_lock(&t);
		if (lock == P2S_LOCK_GAVE_UP && failed(&t))
			take_number(&t); /* as who gives up does: the soak found something, and whoever tests now adopts it */
		if (t.generation != 0)
			publish(&t, 0);
	}
	close_testing(&t);
	return rc;
}

/* Takes what is kept now, unless it is the very record that a recheck spoke against. */
static int32_t adopt(struct testing *t, p2psafe_report *report, int32_t *hit)
{
	char why[200];
	int32_t rc;

	p2s_model_free(t->m);
	p2s_model_init(t->m);
	rc = p2s_hit_adopt(t->s, &t->places, report, hit, why, sizeof why);
	if (rc == 0 && *hit && t->refused != NULL && p2s_recheck_refused(t->refused, t->m->kept_path) >= 0) {
		p2s_recheck_forget(report);
		*hit = 0;
	}
	return rc;
}

/* Another process holds the lock and does not come back: say untested, so that all ranks of this start say the same. */
static int32_t give_up(struct testing *t, p2psafe_report *report)
{
	int32_t hit = 0;
	int32_t rc;

	t->gave_up = 1;
	if (!(t->s->request.flags & P2PSAFE_FLAG_NO_CACHE)) {
		/* The holder may have published while we were about to leave. Does it so after this look, our number is taken: a number
		 * from later would lay our veto on top of an answer that others already act on. */
		take_number(t);
		rc = adopt(t, report, &hit);
		if (rc != 0 || hit)
			return rc;
	}
	enum p2s_group group;

	rc = look_again(t, &group);
	if (rc == 0)
		rc = untested(t, "LOCK_HELD", "another test is running or stopped and did not end in time");
	if (rc != 0 || t->s->request.flags & P2PSAFE_FLAG_NO_CACHE || group != P2S_GROUP_TESTABLE)
		return rc;
	if (publish(t, 1) == PUBLISHED_OURS)
		return 0;
	rc = adopt(t, report, &hit);
	if (rc != 0 || hit)
		return rc;
	rc = look_again(t, &group);
	return rc != 0 ? rc : untested(t, "LOCK_HELD", "another answer is kept, but it cannot be read");
}

static int32_t try_kept(struct p2s_session *s, const struct p2s_places *places, struct p2s_refused *refused, p2psafe_report *report,
						int32_t *hit, char *why, size_t cap)
{
	return s->request.flags & P2PSAFE_FLAG_RECHECK ? p2s_recheck_hit(s, places, refused, report, hit, why, cap)
												   : p2s_hit_try(s, places, NULL, report, hit, why, cap);
}

/* All of this start say what others said for them; what failed in our test is for those who start later. */
static void keep_late(struct testing *t, struct p2s_model *mine)
{
	struct p2s_model *answer = t->m;

	t->m = mine;
	publish(t, 0);
	t->m = answer;
}

/* We hold the lock: the answer may be there by now, else we make it. */
static int32_t make_answer(struct testing *t, p2psafe_report *report)
{
	int32_t use_cache = !(t->s->request.flags & P2PSAFE_FLAG_NO_CACHE);
	int32_t hit = 0;
	char why[200] = "";
	enum published published;
	struct p2s_model mine;
	enum p2s_group group;
	int32_t rc;

	if (use_cache) {
		p2s_model_free(t->m);
		p2s_model_init(t->m);
		rc = try_kept(t->s, &t->places, t->refused, report, &hit, why, sizeof why);
		if (rc != 0 || hit)
			return rc;
		rc = look_again(t, &group);
		if (rc != 0)
			return rc;
	}
	t->recall = use_cache;
	p2s_log(t->s->log, P2PSAFE_LOG_INFO, "testing: %s", why[0] != '\0' ? why : "a fresh answer is wanted");
	rc = run_test(t);
	if (rc != 0 || !use_cache)
		return rc;
	snprintf(t->m->kept_reason, sizeof t->m->kept_reason, "%.200s", why);
	/* The driver may have shown that only one GPU is ours: such an answer is made afresh each time. */
	published = t->m->pair_count == 0 ? PUBLISHED_OURS : publish(t, 1);
	if (published == PUBLISHED_OURS)
		return 0;
	mine = *t->m;
	p2s_model_init(t->m);
	rc = adopt(t, report, &hit);
	if (published == PUBLISHED_LATE)
		keep_late(t, &mine);
	p2s_model_free(&mine);
	if (rc != 0 || hit)
		return rc;
	rc = look_again(t, &group);
	return rc != 0 ? rc : untested(t, "LOCK_HELD", "another answer is kept, but it cannot be read");
}

static int32_t no_lock(struct testing *t)
{
	char why[300];

	snprintf(why, sizeof why, "%.200s: no lock can be made there", t->places.place[t->places.write].dir);
	return untested(t, "NO_MARKER", why);
}

int32_t p2s_decide_kept(struct p2s_session *s, p2psafe_report *report)
{
	struct p2s_model *m = &report->decision.m;
	struct p2s_places places;
	struct testing t;
	enum p2s_group group;
	struct p2s_refused refused = {.count = 0};
	int32_t guarded;
	int32_t hit = 0;
	char why[200];
	int32_t rc = 0;

	if (!(s->request.flags & P2PSAFE_FLAG_NO_CACHE)) {
		p2s_places_open(&places, &s->request, 0);
		rc = try_kept(s, &places, &refused, report, &hit, why, sizeof why);
		p2s_places_close(&places);
		if (rc != 0 || hit)
			return rc;
	}
	rc = p2s_answer_look(s, m, P2S_SCOPE_ALL);
	if (rc == 0)
		rc = p2s_answer_group_sure(s, m, &group);
	if (rc != 0)
		return rc;
	if (group != P2S_GROUP_TESTABLE)
		return p2s_answer_finish(s, m, NULL);
	open_testing(&t, s, report);
	t.refused = &refused;
	guarded = !s->request.simulated && s->request.flags & P2PSAFE_FLAG_REQUIRE_MARKER;
	if (t.dir < 0 && guarded) {
		rc = untested(&t, "NO_MARKER", t.places.why);
	} else {
		switch (take_lock(&t)) {
		case P2S_LOCK_HELD:
			rc = make_answer(&t, report);
			break;
		case P2S_LOCK_GAVE_UP:
			rc = give_up(&t, report);
			break;
		default:
			/* Without a lock each rank would test beside the others, and none would hear of another's answer. */
			rc = guarded ? no_lock(&t) : run_test(&t);
			break;
		}
	}
	close_testing(&t);
	return rc;
}
