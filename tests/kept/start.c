/* Many processes, one test, one answer. */
#define _GNU_SOURCE
#include "kept.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define RANKS 8
#define MANY 64

static struct answer *shared;

/* Starts a process that decides and leaves its answer in slot i. */
static void eight_ranks_one_test(void **state)
{
	struct kept *k = *state;
	pid_t pids[RANKS];
	int hits = 0;

	kept_script(k, "sleep 300");
	for (int i = 0; i < RANKS; i++)
		pids[i] = kept_rank(k, 8000, &shared[i]);
	for (int i = 0; i < RANKS; i++)
		kept_wait(pids[i]);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(shared[i].rc, 0);
		assert_int_equal(shared[i].allowed, 1);
		assert_int_equal(shared[i].exit_code, 0);
		assert_int_equal(shared[i].json_ok, 1);
		hits += shared[i].kept;
	}
	assert_int_equal(kept_runs(k), 1);
	assert_int_equal(hits, RANKS - 1);
	assert_int_equal(kept_files(k, ".json"), 1);
}

/* As many as one machine starts, and then as many again. */
static void sixty_four_processes_one_test(void **state)
{
	static const char *const scripts[] = {"sleep 100", "sleep 100\nbad 0 2"};
	struct kept *k = *state;
	pid_t pids[MANY];
	int hits = 0;

	for (int bad = 0; bad < 2; bad++) {
		tmp_remove(k->cache);
		kept_script(k, scripts[bad]);
		for (int again = 0; again < 2; again++) {
			for (int i = 0; i < MANY; i++)
				pids[i] = kept_rank(k, 100000, &shared[i]);
			for (int i = 0; i < MANY; i++)
				kept_wait(pids[i]);
			hits = 0;
			for (int i = 0; i < MANY; i++) {
				assert_int_equal(shared[i].rc, 0);
				assert_int_equal(shared[i].allowed, !bad);
				assert_int_equal(shared[i].verdict, bad ? P2PSAFE_VERDICT_CORRUPT : P2PSAFE_VERDICT_OK);
				hits += shared[i].kept;
			}
			assert_int_equal(hits, again ? MANY : MANY - 1);
			assert_int_equal(kept_runs(k), bad + 1);
			assert_int_equal(kept_files(k, ".json"), 1);
			assert_int_equal(kept_files(k, ".full"), 1);
		}
	}
	/* nothing is left over: decision, full report, lock */
	assert_int_equal(kept_files(k, ""), 3 + 2);
}

static void eight_ranks_one_veto(void **state)
{
	struct kept *k = *state;
	pid_t pids[RANKS];

	kept_script(k, "sleep 200\nbad 2 1");
	for (int i = 0; i < RANKS; i++)
		pids[i] = kept_rank(k, 8000, &shared[i]);
	for (int i = 0; i < RANKS; i++)
		kept_wait(pids[i]);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(shared[i].allowed, 0);
		assert_int_equal(shared[i].verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(shared[i].json_ok, 1);
	}
	assert_int_equal(kept_runs(k), 1);
}

static void a_killed_tester_is_followed_by_another(void **state)
{
	struct kept *k = *state;
	pid_t first;
	pid_t others[3];

	kept_script(k, "sleep 3000");
	first = kept_rank(k, 8000, &shared[0]);
	while (kept_runs(k) == 0)
		usleep(10000);
	for (int i = 0; i < 3; i++)
		others[i] = kept_rank(k, 8000, &shared[1 + i]);
	usleep(100000);
	kept_script(k, "sleep 100");
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
	for (int i = 0; i < 3; i++)
		kept_wait(others[i]);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(shared[1 + i].rc, 0);
		assert_int_equal(shared[1 + i].allowed, 1);
	}
	assert_int_equal(kept_runs(k), 2);
}

/* Nobody tests beside a stopped holder; who gives up speaks for all, the tester that wakes up included. */
static void a_stopped_tester_adopts_what_the_others_said(void **state)
{
	struct kept *k = *state;
	pid_t first;
	pid_t second;

	kept_script(k, "sleep 700");
	first = kept_rank(k, 2000, &shared[0]);
	while (kept_runs(k) == 0)
		usleep(10000);
	kill(first, SIGSTOP);
	second = kept_rank(k, 20000, &shared[1]);
	kept_wait(second);
	assert_int_equal(shared[1].rc, 0);
	assert_int_equal(shared[1].allowed, 0);
	assert_int_equal(shared[1].verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_in_range(shared[1].ms, 1000, 5000);
	assert_int_equal(kept_runs(k), 1);
	kill(first, SIGCONT);
	kept_wait(first);
	assert_int_equal(shared[0].allowed, 0);
	/* and so does everybody who comes later */
	kept_wait(kept_rank(k, 8000, &shared[2]));
	assert_int_equal(shared[2].allowed, 0);
	assert_int_equal(shared[2].kept, 1);
	assert_int_equal(kept_runs(k), 1);
}

/* Each of them loses its patience at another time, and all say the same; so does the tester, whatever it found. */
static void many_wait_for_a_stopped_tester(void **state)
{
	struct kept *k = *state;
	pid_t pids[RANKS];

	kept_script(k, "sleep 3000"); /* longer than it takes to stop it, on any machine */
	pids[0] = kept_rank(k, 30000, &shared[0]);
	while (kept_runs(k) == 0)
		usleep(1000);
	kill(pids[0], SIGSTOP);
	for (int i = 1; i < RANKS; i++)
		pids[i] = kept_rank(k, (uint64_t)(300 + 100 * i), &shared[i]);
	for (int i = 1; i < RANKS; i++)
		kept_wait(pids[i]);
	kill(pids[0], SIGCONT);
	kept_wait(pids[0]);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(shared[i].rc, 0);
		assert_int_equal(shared[i].allowed, 0);
		assert_int_equal(shared[i].verdict, P2PSAFE_VERDICT_UNTESTED);
	}
	assert_int_equal(kept_runs(k), 1);
}

/* The tester has time left when it wakes up, and its test passes: it adopts all the same. */
static void a_tester_that_was_late_adopts_too(void **state)
{
	struct kept *k = *state;
	pid_t first;

	kept_script(k, "sleep 700");
	first = kept_rank(k, 20000, &shared[0]);
	while (kept_runs(k) == 0)
		usleep(10000);
	kill(first, SIGSTOP);
	kept_wait(kept_rank(k, 1000, &shared[1]));
	assert_int_equal(shared[1].allowed, 0);
	assert_int_equal(shared[1].verdict, P2PSAFE_VERDICT_UNTESTED);
	kill(first, SIGCONT);
	kept_wait(first);
	assert_int_equal(shared[0].rc, 0);
	assert_int_equal(shared[0].allowed, 0);
	assert_int_equal(shared[0].verdict, P2PSAFE_VERDICT_UNTESTED);
	kept_wait(kept_rank(k, 8000, &shared[2]));
	assert_int_equal(shared[2].allowed, 0);
	assert_int_equal(shared[2].kept, 1);
	assert_int_equal(kept_runs(k), 1);
}

static void our_own_deadline_bounds_the_wait(void **state)
{
	struct kept *k = *state;
	pid_t first;

	kept_script(k, "sleep 6000");
	first = kept_rank(k, 20000, &shared[0]);
	while (kept_runs(k) == 0)
		usleep(10000);
	kept_wait(kept_rank(k, 500, &shared[1]));
	assert_int_equal(shared[1].rc, 0);
	assert_int_equal(shared[1].allowed, 0);
	assert_in_range(shared[1].ms, 400, 1500);
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(eight_ranks_one_test, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(sixty_four_processes_one_test, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(eight_ranks_one_veto, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(many_wait_for_a_stopped_tester, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(a_killed_tester_is_followed_by_another, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(a_stopped_tester_adopts_what_the_others_said, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(a_tester_that_was_late_adopts_too, kept_setup, kept_teardown),
		cmocka_unit_test_setup_teardown(our_own_deadline_bounds_the_wait, kept_setup, kept_teardown)};

	shared = mmap(NULL, sizeof *shared * MANY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
