/* One call of the library, turned into rows for NCCL and one line for people. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p2psafe/p2psafe.h"
#include "test_conf.h"
#include "veto.h"

/* secure_getenv: a program with more rights than its user believes none of these. */
static const char *variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static void add_text(struct p2s_veto *v, const char *text)
{
	size_t used = strlen(v->line);

	snprintf(v->line + used, sizeof v->line - used, "%s", text);
}

/* Only NCCL asks here, and only for its own variables. */
static int32_t is_for_nccl(const struct p2psafe_setting *s)
{
	return s->applied && (s->kind == P2PSAFE_SETTING_ENV || s->kind == P2PSAFE_SETTING_UNSET) && strncmp(s->name, "NCCL_", 5) == 0;
}

static int32_t rows_of_report(struct p2s_veto *v, const p2psafe_report *report)
{
	int32_t count = p2psafe_report_setting_count(report);

	for (int32_t i = 0; i < count; i++) {
		struct p2psafe_setting s = {.size = sizeof s};

		if (p2psafe_report_setting(report, i, &s) != P2PSAFE_OK)
			return 0;
		if (is_for_nccl(&s) && !p2s_veto_add(v, s.name, s.value, s.kind == P2PSAFE_SETTING_UNSET))
			return 0;
	}
	return 1;
}

/* The library's own veto of everything, as lines of NAME=VALUE; ours if it cannot be had. */
static void rows_of_all(struct p2s_veto *v)
{
	char *text = NULL;
	int32_t whole = p2psafe_report_env(NULL, P2PSAFE_FORMAT_NCCL_CONF, &text, NULL) == P2PSAFE_OK;
	char *rest = NULL;

	v->count = 0;
	for (char *line = whole ? strtok_r(text, "\n", &rest) : NULL; line != NULL && whole; line = strtok_r(NULL, "\n", &rest)) {
		char *value = strchr(line, '=');

		if (line[0] == '#' || value == NULL)
			continue;
		*value++ = '\0';
		whole = p2s_veto_add(v, line, value, 0);
	}
	p2psafe_string_free(text);
	if (whole && v->count > 0)
		return;
	v->count = p2s_veto_of_all.count;
	memcpy(v->rows, p2s_veto_of_all.rows, sizeof v->rows);
}

/* Why nothing was tested, before anything else that is wrong with the machine. */
static const char *const untested[] = {"LOCK_HELD",        "NO_MARKER",      "HELPER_MISSING",      "WSL2",            "NO_GPU",    "NO_DRIVER",
                                       "NO_DEVICE_ACCESS", "PEER_INVISIBLE", "FABRIC_MANAGER_DOWN", "PROBE_RISK_HIGH", "RUN_FAILED"};

/* Place of a finding in that list, behind it for other errors, -1 for what is none. */
static int32_t rank_of(const struct p2psafe_finding *f)
{
	int32_t n = (int32_t)(sizeof untested / sizeof untested[0]);

	for (int32_t i = 0; i < n; i++)
		if (strcmp(f->code, untested[i]) == 0)
			return i;
	return f->severity >= P2PSAFE_SEVERITY_ERROR ? n : -1;
}

static void add_finding(struct p2s_veto *v, const p2psafe_report *report)
{
	int32_t count = p2psafe_report_finding_count(report);
	int32_t best = -1;
	int32_t best_rank = -1;
	struct p2psafe_finding f = {.size = sizeof f};
	const char *evidence;
	char text[300];

	for (int32_t i = 0; i < count; i++) {
		int32_t rank = p2psafe_report_finding(report, i, &f) == P2PSAFE_OK ? rank_of(&f) : -1;

		if (rank >= 0 && (best < 0 || rank < best_rank)) {
			best = i;
			best_rank = rank;
		}
	}
	if (best < 0 || p2psafe_report_finding(report, best, &f) != P2PSAFE_OK)
		return;
	evidence = p2psafe_report_evidence_text(report, best, 0);
	snprintf(text, sizeof text, " (%s%s%.200s)", f.code, evidence != NULL ? ": " : "", evidence != NULL ? evidence : "");
	add_text(v, text);
}

static void add_reason(struct p2s_veto *v, const p2psafe_report *report)
{
	struct p2psafe_consumer_info info = {.size = sizeof info};
	const char *leg = p2psafe_report_failed_leg(report, P2PSAFE_CONSUMER_NCCL_P2P, 0);
	char text[200];

	if (p2psafe_report_consumer(report, P2PSAFE_CONSUMER_NCCL_P2P, &info) != P2PSAFE_OK)
		return;
	add_text(v, p2psafe_verdict_name(info.verdict));
	if (info.verdict == P2PSAFE_VERDICT_UNTESTED || info.verdict == P2PSAFE_VERDICT_UNKNOWN || leg == NULL) {
		add_finding(v, report);
		return;
	}
	snprintf(text, sizeof text, " (%s", leg);
	add_text(v, text);
	if (info.failed_leg_count > 1) {
		snprintf(text, sizeof text, " and %d more", (int)info.failed_leg_count - 1);
		add_text(v, text);
	}
	add_text(v, ")");
}

static void add_rows(struct p2s_veto *v)
{
	char text[300];

	add_text(v, "; NCCL is told");
	for (size_t i = 0; i < v->count; i++) {
		const struct p2s_veto_row *row = &v->rows[i];

		snprintf(text, sizeof text, row->unset ? " %s unset%s" : " %s=%s", row->name, row->value);
		add_text(v, text);
	}
}

static int32_t has_row(const struct p2s_veto *v, const char *name)
{
	for (size_t i = 0; i < v->count; i++)
		if (strcmp(v->rows[i].name, name) == 0)
			return 1;
	return 0;
}

static void tell_report(struct p2s_veto *v, const p2psafe_report *report)
{
	int32_t off = has_row(v, "NCCL_P2P_DISABLE");

	v->tell = P2S_TELL_INFO;
	if (p2psafe_report_is_simulated(report)) {
		v->tell = P2S_TELL_WARNING;
		add_text(v, "SIMULATED (P2PSAFE_TEST_CONF), this is not about this machine: ");
	}
	if (off || has_row(v, "NCCL_P2P_LEVEL")) {
		v->tell = P2S_TELL_WARNING;
		add_text(v, off ? "NCCL is kept off peer-to-peer: " : "NCCL's peer-to-peer is limited: ");
		add_reason(v, report);
	} else {
		add_text(v, p2psafe_report_is_kept(report) ? "kept answer: " : "fresh answer: ");
		add_text(v, p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P) ? "peer-to-peer is safe for NCCL"
		                                                                     : "nothing is forbidden to NCCL's peer-to-peer");
	}
	if (v->count > 0)
		add_rows(v);
	if (v->tell == P2S_TELL_WARNING)
		add_text(v, "; 'p2psafe explain' says more, P2PSAFE_PLUGIN=0 turns this off");
}

static void tell_failure(struct p2s_veto *v, const char *what, const char *why)
{
	rows_of_all(v);
	v->tell = P2S_TELL_WARNING;
	add_text(v, "NCCL is kept off peer-to-peer: no report: ");
	add_text(v, what);
	add_text(v, why);
	add_rows(v);
	add_text(v, "; P2PSAFE_PLUGIN=0 turns this off");
}

static void ask(struct p2s_veto *v, const struct p2s_test_conf *conf)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options o;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	int32_t rc;

	p2psafe_options_init(&o, sizeof o);
	/* No list of GPUs: a rank that is masked to one GPU still answers for the group. */
	o.flags = P2PSAFE_FLAG_ENVIRONMENT | P2PSAFE_FLAG_REQUIRE_MARKER | P2PSAFE_FLAG_NO_RETRY;
	o.host_dir = conf->host_dir;
	o.cuda_library = conf->cuda_library;
	rc = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (rc == P2PSAFE_OK)
		rc = p2psafe_decide(ctx, &o, &report, &err);
	if (rc != P2PSAFE_OK)
		tell_failure(v, err.text[0] != '\0' ? err.text : p2psafe_status_name(rc), "");
	else if (rows_of_report(v, report))
		tell_report(v, report);
	else
		tell_failure(v, "its settings do not fit", "");
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
}

void p2s_veto_decide(struct p2s_veto *v)
{
	const char *off = variable("P2PSAFE_PLUGIN");
	const char *path = variable("P2PSAFE_TEST_CONF");
	struct p2s_test_conf conf = {.host_dir = NULL};
	const char *why;
	int cancel;

	memset(v, 0, sizeof *v);
	if (off != NULL && strcmp(off, "0") == 0)
		return;
	/* A thread that is cancelled in the middle would leave the others without an answer. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (path != NULL && !p2s_test_conf_read(&conf, path, &why))
		tell_failure(v, "P2PSAFE_TEST_CONF cannot be used: ", why);
	else
		ask(v, &conf);
	pthread_setcancelstate(cancel, NULL);
}
