/* No failure is forgotten because something else is kept already: what stays in the folder learns of it. */
#define _GNU_SOURCE
#include "kept.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What the answer for all GPUs says of a group of two. */
static int32_t group_allows(const struct kept *k, int32_t a, int32_t b)
{
	const int32_t gpus[] = {a, b};
	struct p2psafe_options o;
	p2psafe_context *ctx;
	p2psafe_report *report;
	int32_t allowed;

	kept_options(k, &o);
	assert_int_equal(p2psafe_context_new(&ctx, NULL, NULL, NULL), 0);
	assert_int_equal(p2psafe_decide(ctx, &o, &report, NULL), 0);
	allowed = p2psafe_report_group_allows(report, gpus, 2, P2PSAFE_CONSUMER_NCCL_P2P);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	return allowed;
}

/* A new failure is not dropped because what is kept is as bad elsewhere, and wider or of a better level. */
static void beside_a_better_record(void **state)
{
	struct kept *k = *state;

	for (int quick = 0; quick < 2; quick++) {
		tmp_remove(k->cache);
		kept_script(k, "bad 0 1");
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
		assert_int_equal(kept_decide(k, "1,2").allowed, 1);
		kept_script(k, "bad 1 2");
		kept_vetoed(kept_test(k, quick ? NULL : "1,2", quick ? P2PSAFE_LEVEL_QUICK : P2PSAFE_LEVEL_STANDARD), P2PSAFE_VERDICT_CORRUPT, 0);
		kept_vetoed(kept_decide(k, "1,2"), P2PSAFE_VERDICT_CORRUPT, 1);
		kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
		assert_int_equal(kept_decide(k, "0,2").allowed, 1);
		assert_int_equal(group_allows(k, 1, 2), 0);
		assert_int_equal(group_allows(k, 0, 2), 1);
		assert_int_equal(kept_runs(k), 2 * (quick + 1));
		assert_int_equal(kept_files(k, ".json"), 1);
	}
}

/* Of a machine that works a smaller or quicker test takes nothing away, and adds nothing. */
static void beside_a_good_record(void **state)
{
	struct kept *k = *state;
	char before[400];
	char after[400];

	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	kept_find(k, ".json", before, sizeof before);
	assert_int_equal(kept_test(k, "1,2", P2PSAFE_LEVEL_STANDARD).allowed, 1);
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_QUICK).allowed, 1);
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_QUICK).allowed, 1);
	kept_find(k, ".json", after, sizeof after);
	assert_string_equal(before, after);
	assert_int_equal(kept_files(k, ".json"), 1);
	assert_int_equal(kept_decide(k, NULL).kept, 1);
	assert_int_equal(kept_decide(k, NULL).allowed, 1);
}

/* What is kept of another pair hides neither an error nor a GPU that ended before its pairs were tested. */
static void beside_a_worse_one(void **state)
{
	static const struct {
		const char *first, *then;
		int32_t verdict;
	} rows[] = {{"hang 0 1", "state 2 failed", P2PSAFE_VERDICT_ERROR},
				{"bad 0 1", "state 2 failed", P2PSAFE_VERDICT_ERROR},
				{"bad 0 1", "state 2 wedged\nno_pairs", P2PSAFE_VERDICT_UNTESTED},
				{"hang 0 1", "state 2 wedged\nno_pairs", P2PSAFE_VERDICT_UNTESTED}};
	struct kept *k = *state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		tmp_remove(k->cache);
		kept_script(k, rows[i].first);
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
		assert_int_equal(kept_decide(k, "1,2").allowed, 1);
		kept_script(k, rows[i].then);
		kept_vetoed(kept_test(k, "1,2", P2PSAFE_LEVEL_STANDARD), rows[i].verdict, 0);
		kept_vetoed(kept_decide(k, "1,2"), rows[i].verdict, 1);
		assert_int_equal(kept_decide(k, "0,1").allowed, 0);
		assert_int_equal(kept_decide(k, "0,2").allowed, 1);
	}
}

/* Three passes in a row: a failure in between counts, also one that a smaller or quicker test saw. */
static void passes_in_a_row(void **state)
{
	struct kept *k = *state;

	for (int quick = 0; quick < 2; quick++) {
		tmp_remove(k->cache);
		kept_script(k, "bad 0 1");
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
		kept_script(k, "");
		for (int i = 0; i < 2; i++)
			assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
		kept_script(k, "bad 0 1");
		assert_int_equal(kept_test(k, quick ? NULL : "0,1", quick ? P2PSAFE_LEVEL_QUICK : P2PSAFE_LEVEL_STANDARD).allowed, 0);
		kept_script(k, "");
		for (int i = 0; i < 3; i++) {
			kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
			assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
		}
		assert_int_equal(kept_decide(k, NULL).allowed, 1);
	}
}

/* What lies behind a record that cannot be read still counts, for the rank that mends the folder as for those after it. */
static void behind_a_damaged_record(void **state)
{
	static const char *const scripts[] = {"bad 0 1", "hang 0 1"};
	struct kept *k = *state;

	for (size_t i = 0; i < 2 * sizeof scripts / sizeof scripts[0]; i++) {
		int32_t want = i < 2 ? P2PSAFE_VERDICT_CORRUPT : P2PSAFE_VERDICT_HANG;
		const char *gpus = i % 2 ? "0,1" : NULL;

		tmp_remove(k->cache);
		kept_script(k, scripts[i / 2]);
		assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
		tmp_write(k->cache, "2.json", "{");
		kept_script(k, "");
		kept_vetoed(kept_decide(k, gpus), want, 1);
		kept_vetoed(kept_decide(k, gpus), want, 1);
		assert_int_equal(kept_decide(k, "1,2").allowed, 1);
		kept_script(k, "bad 1 2");
		tmp_write(k->cache, "9.json", "{");
		kept_vetoed(kept_test(k, "1,2", P2PSAFE_LEVEL_QUICK), P2PSAFE_VERDICT_CORRUPT, 0);
		kept_script(k, "");
		kept_vetoed(kept_decide(k, "1,2"), P2PSAFE_VERDICT_CORRUPT, 1);
		kept_vetoed(kept_decide(k, "0,1"), want, 1);
	}
}

static struct answer recheck_without_a_helper(const struct kept *k, const char *gpus)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.gpus = gpus;
	o.flags |= P2PSAFE_FLAG_RECHECK;
	o.helper_path = "/nonexistent/helper";
	o.deadline_ms = 300;
	return kept_ask(p2psafe_decide, &o);
}

/* What a recheck could not confirm is no answer either when the lock is held and patience ends; who comes later hears the same.
 */
static void refused_and_the_lock_is_held(void **state)
{
	struct kept *k = *state;
	char path[200];
	int fd;

	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	snprintf(path, sizeof path, "%s/lock", k->cache);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	kept_vetoed(recheck_without_a_helper(k, NULL), P2PSAFE_VERDICT_UNTESTED, 0);
	close(fd);
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_UNTESTED, 1);
	assert_int_equal(kept_runs(k), 1);
}

/* Nor is it taken over because it is bad elsewhere. */
static void refused_and_bad_elsewhere(void **state)
{
	struct kept *k = *state;

	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 0);
	kept_vetoed(recheck_without_a_helper(k, "1,2"), P2PSAFE_VERDICT_UNTESTED, 0);
	assert_int_equal(kept_decide(k, "1,2").allowed, 1); /* nothing is known against it */
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
}

/* A test on a disk without room: a file can be made, but nothing gets into it. */
static struct answer test_without_room(const struct kept *k, const char *gpus, struct answer *shared)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rlimit none = {.rlim_cur = 100, .rlim_max = 100};

		if (setrlimit(RLIMIT_FSIZE, &none) != 0)
			_exit(1);
		*shared = kept_test(k, gpus, P2PSAFE_LEVEL_STANDARD);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return *shared;
}

/* What cannot be written still takes back what is kept; what says nothing new leaves it. */
static void no_room_for_a_worse_answer(void **state)
{
	struct answer *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kept *k = *state;

	assert_true(shared != MAP_FAILED);
	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	assert_int_equal(test_without_room(k, NULL, shared).allowed, 1);
	assert_int_equal(test_without_room(k, "0,1", shared).allowed, 1);
	assert_int_equal(kept_decide(k, NULL).kept, 1);
	kept_script(k, "bad 0 1");
	kept_vetoed(test_without_room(k, NULL, shared), P2PSAFE_VERDICT_CORRUPT, 0);
	assert_int_equal(kept_runs(k), 4);
	kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 0); /* nothing is kept: it tested */
	assert_int_equal(kept_runs(k), 5);
	/* beside a failure that is kept: it is not lost */
	kept_script(k, "bad 1 2");
	kept_vetoed(test_without_room(k, "1,2", shared), P2PSAFE_VERDICT_CORRUPT, 0);
	kept_vetoed(kept_decide(k, "1,2"), P2PSAFE_VERDICT_CORRUPT, 0);
	kept_script(k, "");
	kept_vetoed(kept_decide(k, "0,1"), P2PSAFE_VERDICT_CORRUPT, 1);
	kept_vetoed(kept_decide(k, "1,2"), P2PSAFE_VERDICT_CORRUPT, 1);
	munmap(shared, sizeof *shared);
}

static struct answer decide_with(const struct kept *k, const char *file, const char *gpus, uint64_t flags)
{
	struct p2psafe_options o;

	kept_options(k, &o);
	o.gpus = gpus;
	o.flags = flags;
	o.result_file = file;
	return kept_ask(p2psafe_decide, &o);
}

/* Two records of one machine, as root's and a user's: what one of them knows to be bad counts, whichever is read first. */
static void what_another_place_knows(void **state)
{
	struct kept *k = *state;
	char first[400];
	char path[400];

	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	kept_find(k, ".json", path, sizeof path);
	snprintf(first, sizeof first, "%s/first.json", k->base);
	assert_int_equal(rename(path, first), 0);
	tmp_remove(k->cache);
	assert_int_equal(decide_with(k, first, NULL, 0).kept, 1);
	/* nothing bad: as if it were alone */
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_QUICK).allowed, 1);
	assert_int_equal(decide_with(k, first, NULL, 0).kept, 1);
	assert_int_equal(decide_with(k, first, NULL, 0).allowed, 1);
	kept_script(k, "bad 0 1");
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_QUICK).allowed, 0);
	kept_vetoed(decide_with(k, first, NULL, 0), P2PSAFE_VERDICT_CORRUPT, 1);
	kept_vetoed(decide_with(k, first, "0,1", 0), P2PSAFE_VERDICT_CORRUPT, 1);
	assert_int_equal(decide_with(k, first, "1,2", 0).allowed, 1);
	assert_int_equal(decide_with(k, first, "1,2", 0).kept, 1);
	/* a GPU that ended there */
	tmp_remove(k->cache);
	kept_script(k, "state 2 wedged\nno_pairs");
	kept_vetoed(kept_test(k, "1,2", P2PSAFE_LEVEL_STANDARD), P2PSAFE_VERDICT_UNTESTED, 0);
	kept_vetoed(decide_with(k, first, "1,2", 0), P2PSAFE_VERDICT_UNTESTED, 1);
	assert_int_equal(decide_with(k, first, "0,1", 0).allowed, 1);
	assert_int_equal(kept_runs(k), 4);
	/* what cannot be read there is newer, and may have said anything */
	tmp_remove(k->cache);
	kept_script(k, "");
	assert_int_equal(kept_test(k, "0,1", P2PSAFE_LEVEL_QUICK).allowed, 1);
	tmp_write(k->cache, "9.json", "");
	assert_int_equal(decide_with(k, first, NULL, 0).kept, 0);
	assert_int_equal(kept_runs(k), 6);
	assert_int_equal(decide_with(k, first, NULL, 0).kept, 1); /* mended */
}

/* A recheck that refuses one of them asks the next. */
static void recheck_of_the_next_place(void **state)
{
	struct kept *k = *state;
	char first[400];
	char path[400];

	assert_int_equal(kept_test(k, NULL, P2PSAFE_LEVEL_STANDARD).allowed, 1);
	kept_find(k, ".json", path, sizeof path);
	snprintf(first, sizeof first, "%s/first.json", k->base);
	assert_int_equal(rename(path, first), 0); /* without its evidence it cannot be rechecked */
	for (int i = 0; i < 3; i++) {
		struct answer a = decide_with(k, first, NULL, P2PSAFE_FLAG_RECHECK);

		assert_int_equal(a.allowed, 1);
		assert_int_equal(a.kept, i > 0);
		assert_int_equal(kept_runs(k), 2);
	}
}

/* Others gave up waiting and spoke for this start; what the test then finds is kept all the same. */
static void found_while_others_gave_up(void **state)
{
	struct answer *shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kept *k = *state;

	assert_true(shared != MAP_FAILED);
	for (int for_all = 0; for_all < 2; for_all++) {
		int runs = kept_runs(k);
		pid_t first;

		tmp_remove(k->cache);
		kept_script(k, "sleep 3000\nbad 0 1"); /* longer than it takes to stop it, on any machine */
		first = fork();
		if (first == 0) {
			struct p2psafe_options o;

			kept_options(k, &o);
			o.deadline_ms = 20000;
			shared[0] = kept_ask(for_all ? p2psafe_decide : p2psafe_test, &o);
			_exit(0);
		}
		while (kept_runs(k) == runs)
			usleep(10000);
		kill(first, SIGSTOP);
		kept_wait(kept_rank(k, 700, &shared[1]));
		kill(first, SIGCONT);
		kept_wait(first);
		kept_script(k, "");
		kept_vetoed(shared[1], P2PSAFE_VERDICT_UNTESTED, 0);
		kept_vetoed(shared[0], for_all ? P2PSAFE_VERDICT_UNTESTED : P2PSAFE_VERDICT_CORRUPT, for_all);
		kept_vetoed(kept_decide(k, NULL), P2PSAFE_VERDICT_CORRUPT, 1);
		assert_int_equal(kept_runs(k), runs + 1);
	}
	munmap(shared, 2 * sizeof *shared);
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(beside_a_better_record),    T(beside_a_good_record),       T(beside_a_worse_one),
		T(passes_in_a_row),           T(behind_a_damaged_record),    T(refused_and_the_lock_is_held),
		T(refused_and_bad_elsewhere), T(no_room_for_a_worse_answer), T(what_another_place_knows),
		T(recheck_of_the_next_place), T(found_while_others_gave_up)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
