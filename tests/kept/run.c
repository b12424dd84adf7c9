/* Helpers that are missing, silent, dead, of another version, or talk nonsense: always a report, always in time, no child
 * left, nothing of the caller's changed. */
#define _GNU_SOURCE
#include "kept.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Asks with a script and expects that nothing is allowed, within the deadline plus one second. */
static struct answer refused(struct kept *k, const char *script, uint64_t deadline_ms)
{
	struct p2psafe_options o;
	struct answer a;

	tmp_remove(k->cache); /* the marker of the run before */
	kept_script(k, script);
	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	o.deadline_ms = deadline_ms;
	a = kept_ask(p2psafe_test, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.json_ok, 1);
	assert_in_range(a.ms, 0, deadline_ms + 1000);
	/* no child, dead or alive */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	return a;
}

static void helpers_that_do_not_work(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;

	assert_int_equal(refused(k, "version 0.9.9", 3000).exit_code, 3);
	assert_int_equal(refused(k, "die", 3000).exit_code, 3);
	assert_int_equal(refused(k, "silent", 500).exit_code, 3);
	assert_int_equal(refused(k, "nodriver", 3000).exit_code, 3);
	assert_int_equal(refused(k, "cut", 3000).exit_code, 1);
	assert_int_equal(refused(k, "no_done", 3000).verdict, P2PSAFE_VERDICT_UNTESTED); /* every leg was OK, and its end was not seen */
	assert_int_equal(refused(k, "stall", 500).exit_code, 1);
	assert_int_equal(refused(k, "sleep 60000", 500).exit_code, 1);
	assert_int_equal(refused(k, "worker\nsleep 60000", 500).exit_code, 1);
	assert_int_equal(refused(k, "worker\nstall", 500).exit_code, 1);
	assert_int_equal(refused(k, "missing tearing_8", 3000).verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(refused(k, "hang 1 2", 3000).verdict, P2PSAFE_VERDICT_HANG);
	kept_options(k, &o);
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	o.helper_path = "/nonexistent/helper";
	a = kept_ask(p2psafe_test, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.exit_code, 3);
	o.helper_path = k->script; /* there, but no program */
	assert_int_equal(kept_ask(p2psafe_test, &o).exit_code, 3);
	assert_int_equal(chmod(k->script, 0755), 0); /* executable by its mode, but not by its content */
	assert_int_equal(kept_ask(p2psafe_test, &o).exit_code, 3);
}

static void nonsense_does_not_stop_what_makes_sense(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;

	kept_script(k, "garbage");
	kept_options(k, &o);
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
	kept_script(k, "far_risk"); /* no GPU of ours is meant, and none is looked up */
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
	kept_script(k, "linger"); /* stays until we hang up */
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
	kept_script(k, "refuse cumem\nnoatomics");
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1);
}

/* The node of a third GPU is made while the other two are tested: NCCL would use it, and nobody tested it. */
static void a_gpu_that_becomes_ours_meanwhile(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct answer a;
	char node[200], script[300];

	snprintf(node, sizeof node, "%s/root/dev/nvidia2", k->host);
	snprintf(script, sizeof script, "node %s", node);
	assert_int_equal(unlink(node), 0);
	kept_options(k, &o);
	assert_int_equal(kept_ask(p2psafe_decide, &o).allowed, 1);
	tmp_remove(k->cache);
	kept_script(k, script);
	a = kept_ask(p2psafe_decide, &o);
	assert_int_equal(a.rc, 0);
	assert_int_equal(a.allowed, 0);
	assert_int_equal(a.verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(a.exit_code, 1);
	assert_int_equal(a.json_ok, 1);
	assert_int_equal(access(node, F_OK), 0);
	kept_script(k, "");
	assert_int_equal(kept_ask(p2psafe_test, &o).allowed, 1); /* all three */
}

/* A caller with closed standard descriptors, SIGCHLD ignored or reaped by a handler, and few descriptors. */
static void in_child(const struct kept *k, void (*prepare)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct p2psafe_options o;
		struct answer a;

		prepare();
		kept_options(k, &o);
		o.flags = P2PSAFE_FLAG_NO_CACHE;
		a = kept_ask(p2psafe_test, &o);
		_exit(a.rc == 0 && a.allowed == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void close_standard(void)
{
	close(0);
	close(1);
	close(2);
}

static void ignore_children(void)
{
	signal(SIGCHLD, SIG_IGN);
}

static void reap(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	errno = saved;
}

static void reap_children(void)
{
	struct sigaction sa = {.sa_handler = reap, .sa_flags = SA_RESTART};

	sigaction(SIGCHLD, &sa, NULL);
}

static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void few_descriptors(void)
{
	struct rlimit l = {.rlim_cur = 24, .rlim_max = 24};

	setrlimit(RLIMIT_NOFILE, &l);
}

static void odd_callers(void **state)
{
	struct kept *k = *state;

	in_child(k, close_standard);
	in_child(k, ignore_children);
	in_child(k, reap_children);
	in_child(k, block_signals);
	in_child(k, few_descriptors);
}

static void nothing_of_the_caller_changes(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct sigaction before;
	struct sigaction after;
	sigset_t mask;
	char cwd[300];
	char cwd_after[300];
	int descriptors;

	kept_options(k, &o);
	kept_ask(p2psafe_decide, &o); /* what libraries open once is open now */
	sigaction(SIGPIPE, NULL, &before);
	assert_non_null(getcwd(cwd, sizeof cwd));
	descriptors = kept_descriptors();
	for (int i = 0; i < 3; i++) {
		kept_script(k, i == 0 ? "die" : i == 1 ? "worker\ncut" : "");
		kept_ask(p2psafe_test, &o);
		kept_ask(p2psafe_decide, &o);
		kept_ask(p2psafe_probe, &o);
	}
	assert_int_equal(kept_descriptors(), descriptors);
	sigaction(SIGPIPE, NULL, &after);
	assert_ptr_equal(before.sa_handler, after.sa_handler);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int s = 1; s < 32; s++)
		assert_int_equal(sigismember(&mask, s), 0);
	assert_non_null(getcwd(cwd_after, sizeof cwd_after));
	assert_string_equal(cwd, cwd_after);
}

/* host.json says that kills are not delivered: the answer comes in time and names what is left. */
static void a_child_that_cannot_be_killed(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	struct p2psafe_error err = {.size = sizeof err};
	p2psafe_context *ctx;
	p2psafe_report *report;
	uint64_t start = kept_now_ms();
	int32_t named = 0;
	char *json;

	tmp_write(k->host, "host.json", "{\"description\": \"a\", \"source\": \"invented\", \"ignore_sigkill_ms\": 3000}");
	kept_script(k, "worker\nstall");
	kept_options(k, &o);
	o.deadline_ms = 700;
	o.flags = P2PSAFE_FLAG_NO_CACHE;
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_test(ctx, &o, &report, &err), 0);
	assert_in_range(kept_now_ms() - start, 700, 1700);
	assert_int_equal(p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	for (int32_t i = 0; i < p2psafe_report_finding_count(report); i++) {
		struct p2psafe_finding f = {.size = sizeof f};

		assert_int_equal(p2psafe_report_finding(report, i, &f), 0);
		if (strcmp(f.code, "CHILD_LEFT_BEHIND") == 0)
			for (int32_t e = 0; e < f.evidence_count; e++) {
				int pid = -1;

				assert_int_equal(sscanf(p2psafe_report_evidence_text(report, i, e), "pid %d", &pid), 1);
				assert_true(pid > 1);
				kill(pid, SIGKILL);
				named++;
			}
	}
	assert_int_equal(named, 2); /* conductor and worker */
	assert_int_equal(p2psafe_report_json(report, &json, NULL), 0);
	p2psafe_string_free(json);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
}

/* A caller that logs sees whole lines, and a busy context says so. */
static p2psafe_context *shared_ctx;
static int lines;

static void log_line(void *user, int32_t level, const char *line)
{
	p2psafe_report *report = NULL;

	assert_ptr_equal(user, &lines);
	assert_in_range(level, P2PSAFE_LOG_ERROR, P2PSAFE_LOG_PROGRESS);
	assert_null(strchr(line, '\n'));
	lines++;
	assert_int_equal(p2psafe_probe(shared_ctx, NULL, &report, NULL), P2PSAFE_E_BUSY);
}

static void a_busy_context(void **state)
{
	struct kept *k = *state;
	struct p2psafe_options o;
	p2psafe_report *report;

	kept_options(k, &o);
	lines = 0;
	assert_int_equal(p2psafe_context_new(&shared_ctx, log_line, &lines, NULL), 0);
	assert_int_equal(p2psafe_decide(shared_ctx, &o, &report, NULL), 0);
	assert_true(lines > 0);
	p2psafe_report_free(report);
	p2psafe_context_free(shared_ctx);
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(helpers_that_do_not_work),
	                                   T(nonsense_does_not_stop_what_makes_sense),
	                                   T(a_gpu_that_becomes_ours_meanwhile),
	                                   T(odd_callers),
	                                   T(nothing_of_the_caller_changes),
	                                   T(a_child_that_cannot_be_killed),
	                                   T(a_busy_context)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
