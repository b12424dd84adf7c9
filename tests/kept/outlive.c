/* Failures outlive the record that they were found in, and the request: what replaces it on this machine takes them along until
 * three runs have passed; and all ranks of a start hear the same, also where an older record does not answer them. */
#define _GNU_SOURCE
#include "kept.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define RANKS 6

static struct answer *shared;

/* What the answer for all GPUs says of a group of two. says: its JSON has this text, NULL any. */
static int32_t group_allows(const struct kept *k, int32_t a, int32_t b, const char *says)
{
	const int32_t gpus[] = {a, b};
	struct p2psafe_options o;
	p2psafe_context *ctx;
	p2psafe_report *report;
	int32_t allowed;
	char *json;

	kept_options(k, &o);
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_decide(ctx, &o, &report, NULL), 0);
	allowed = p2psafe_report_group_allows(report, gpus, 2, P2PSAFE_CONSUMER_NCCL_P2P);
	assert_int_equal(p2psafe_report_json(report, &json, NULL), 0);
	if (says != NULL)
		assert_non_null(strstr(json, says));
	p2psafe_string_free(json);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return allowed;
}

/* A failure of a quick test is not forgotten because a standard one is wanted. */
static void of_a_lower_level(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_QUICK).allowed, 0);
	kept_script(k, "");
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1); /* it tested, and that was the first pass */
	assert_int_equal(kept_runs(k), 2);
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(group_allows(k, 0, 1, "a failure is kept, 1 of 3 passing tests since; "), 0);
	assert_int_equal(kept_runs(k), 2);
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_QUICK).allowed, 1); /* of a lower level: counts for nothing */
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	assert_int_equal(kept_decide(k, NULL).allowed, 1);
	assert_int_equal(kept_runs(k), 5);
}

/* Nor because more GPUs are wanted. */
static void of_fewer_gpus(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_script(k, "");
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(kept_runs(k), 2);
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(kept_decide(k, "1,2").allowed, 1);
	assert_int_equal(kept_runs(k), 2);
	for (int i = 0; i < 2; i++) {
		kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	}
	assert_int_equal(kept_decide(k, NULL).allowed, 1);
	assert_int_equal(kept_decide(k, "0,1").allowed, 1);
	assert_int_equal(kept_runs(k), 4);
}

/* Nor because the same is asked of other GPUs in between. */
static void of_other_gpus(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_script(k, "");
	for (int i = 0; i < 4; i++)
		assert_int_equal(kept_test(k, "1,2", P2PSAFE_LEVEL_STANDARD).allowed, 1); /* passes, but not where it failed */
	assert_int_equal(kept_decide(k, "1,2").allowed, 1);
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1); /* each of these two tested, and passed */
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(kept_runs(k), 7);
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	assert_int_equal(kept_decide(k, "0,1").allowed, 1);
}

/* A second pair that fails does not take the place of the first. */
static void beside_another(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_script(k, "bad 1 2");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
	assert_int_equal(group_allows(k, 0, 1, NULL), 0);
	assert_int_equal(group_allows(k, 1, 2, NULL), 0);
	assert_int_equal(group_allows(k, 0, 2, NULL), 1);
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
	kept_vetoed(kept_decide(k, "1,2"), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(kept_decide(k, "0,2").allowed, 1);
	assert_int_equal(kept_runs(k), 2);
}

/* A HANG stays for the boot, whatever is asked and whatever else fails. */
static void a_hang(void **state)
{
	struct kept *k = *state;

	kept_script(k, "hang 0 1");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_QUICK).allowed, 0);
	kept_script(k, "");
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_HANG, 1);
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_HANG, 1);
	assert_int_equal(kept_runs(k), 2);
	kept_script(k, "bad 1 2");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_script(k, "");
	for (int i = 0; i < 4; i++)
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_HANG, 1);
	tmp_write(k->host, "root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
	assert_int_equal(kept_decide(k, "0,1").allowed, 1);
}

/* Another card in its place did not fail. */
static void another_card(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_script(k, "");
	tmp_write(k->host, "root/sys/bus/pci/devices/0000:02:00.0/device", "0x2330\n");
	assert_int_equal(kept_decide(k, NULL).allowed, 1);
	assert_int_equal(kept_decide(k, NULL).kept, 1);
}

/* A record that does not answer the ranks is no reason for each of them to test. */
static void many_ranks_test_once(void **state)
{
	static const char *const first[] = {"bad 0 1", "hang 0 1", "missing mp_push", ""};
	struct kept *k = *state;

	for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
		pid_t pids[RANKS];
		int runs;

		tmp_remove(k->cache);
		kept_script(k, first[i]);
		kept_test(k, NULL, P2PSAFE_LEVEL_QUICK);
		runs = kept_runs(k);
		kept_script(k, i == 3 ? "missing mp_push" : "");
		for (int r = 0; r < RANKS; r++)
			pids[r] = kept_rank(k, 20000, &shared[r]);
		for (int r = 0; r < RANKS; r++)
			kept_wait(pids[r]);
		assert_int_equal(kept_runs(k), runs + 1);
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(shared[r].rc, 0);
			assert_int_equal(shared[r].allowed, i == 2);
			assert_int_equal(shared[r].verdict, shared[0].verdict);
		}
	}
}

/* Who gives up speaks for all, also over a record that passed at a lower level. */
static void a_stopped_tester_over_a_lower_level(void **state)
{
	struct kept *k = *state;
	pid_t first;

	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_QUICK).allowed, 1);
	kept_script(k, "sleep 3000"); /* longer than it takes to stop it, on any machine */
	first = kept_rank(k, 20000, &shared[0]);
	while (kept_runs(k) == 1)
		usleep(10000);
	kill(first, SIGSTOP);
	kept_wait(kept_rank(k, 700, &shared[1]));
	kill(first, SIGCONT);
	kept_wait(first);
	kept_wait(kept_rank(k, 8000, &shared[2]));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(shared[i].rc, 0);
		assert_int_equal(shared[i].allowed, 0);
		assert_int_equal(shared[i].verdict, P2PSAFE_VERDICT_UNTESTED);
	}
	assert_int_equal(kept_runs(k), 2);
}

/* The caller sleeps over its deadline, as in a debugger or a paused machine, while the helper says everything: all of it waits
 * and counts. */
static void what_was_said_while_the_caller_slept(void **state)
{
	struct kept *k = *state;

	tmp_remove(k->host);
	mkdir(k->host, 0755);
	tmp_host(k->host, 2);
	for (int bad = 0; bad < 2; bad++) {
		tmp_remove(k->cache);
		kept_script(k, bad ? "pause\nno_risk\nbad 1 0" : "pause\nno_risk");
		kept_wait(kept_rank(k, 1500, &shared[bad]));
		assert_int_equal(shared[bad].rc, 0);
		assert_in_range(shared[bad].ms, 2000, UINT32_MAX);
		assert_int_equal(shared[bad].allowed, !bad);
		assert_int_equal(shared[bad].verdict, bad ? P2PSAFE_VERDICT_CORRUPT : P2PSAFE_VERDICT_OK);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(of_a_lower_level),
	                                   T(of_fewer_gpus),
	                                   T(of_other_gpus),
	                                   T(beside_another),
	                                   T(a_hang),
	                                   T(another_card),
	                                   T(many_ranks_test_once),
	                                   T(a_stopped_tester_over_a_lower_level),
	                                   T(what_was_said_while_the_caller_slept)};

	shared = mmap(NULL, sizeof *shared * RANKS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
