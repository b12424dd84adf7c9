/* One holder, and nobody who waits for ever. */
#define _GNU_SOURCE
#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "ipc/codec.h"
#include "kept/lock.h"
#include "kept/trust.h"
#include "trusted.h"

#define MS UINT64_C(1000000)

static enum p2s_lock_result take(struct p2s_lock *l, const struct place *p, uint64_t patience_ms, uint64_t deadline_ms)
{
	uint64_t now = p2s_now_ns();

	return p2s_lock_take(l, p->dir, "boot", now + patience_ms * MS, now + deadline_ms * MS);
}

/* A process that takes the lock and stays until it is killed. */
static pid_t hold(const struct place *p, uint64_t deadline_ms)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct p2s_lock l;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
		if (take(&l, p, 1000, deadline_ms) != P2S_LOCK_HELD || write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void held_and_released(void **state)
{
	struct p2s_lock a;
	struct p2s_lock b;

	assert_int_equal(take(&a, *state, 0, 1000), P2S_LOCK_HELD);
	assert_int_equal(take(&b, *state, 100, 1000), P2S_LOCK_GAVE_UP);
	p2s_lock_release(&a);
	assert_int_equal(take(&b, *state, 0, 1000), P2S_LOCK_HELD);
	p2s_lock_release(&b);
	p2s_lock_release(&b);
}

static void a_killed_holder_leaves_nothing(void **state)
{
	struct p2s_lock l;
	pid_t pid = hold(*state, 60000);

	end(pid);
	assert_int_equal(take(&l, *state, 1000, 1000), P2S_LOCK_HELD);
	p2s_lock_release(&l);
}

static void a_stopped_holder_is_waited_for_until_its_deadline(void **state)
{
	struct p2s_lock l;
	pid_t pid = hold(*state, 300);
	uint64_t start = p2s_now_ns();
	uint64_t took;

	kill(pid, SIGSTOP);
	assert_int_equal(take(&l, *state, 20000, 20000), P2S_LOCK_GAVE_UP);
	took = (p2s_now_ns() - start) / MS;
	assert_in_range(took, 1000, 2500);
	end(pid);
}

static void our_own_patience_ends_the_wait(void **state)
{
	struct p2s_lock l;
	pid_t pid = hold(*state, 60000);
	uint64_t start = p2s_now_ns();

	assert_int_equal(take(&l, *state, 200, 200), P2S_LOCK_GAVE_UP);
	assert_in_range((p2s_now_ns() - start) / MS, 200, 900);
	end(pid);
}

static void no_lock_where_none_can_be(void **state)
{
	const struct place *p = *state;
	struct p2s_lock l;

	tmp_link(p->path, "lock", "elsewhere");
	assert_int_equal(take(&l, p, 0, 0), P2S_LOCK_FAILED);
}

/* A second name of a file that somebody needs. It is locked all the same, so that one process tests. */
static void a_file_that_is_no_lock_is_never_written(void **state)
{
	static const char *const texts[] = {"precious", "p", "p2psafe-lok 1 2 3 boot\n"};
	const struct place *p = *state;
	char path[128];
	char found[64];
	struct p2s_lock a;
	struct p2s_lock b;

	snprintf(path, sizeof path, "%s/lock", p->path);
	for (size_t i = 0; i < COUNT(texts); i++) {
		FILE *f;

		tmp_write(p->path, "precious", texts[i]);
		assert_int_equal(linkat(p->dir, "precious", p->dir, "lock", 0), 0);
		assert_int_equal(take(&a, p, 0, 1000), P2S_LOCK_HELD);
		assert_int_equal(take(&b, p, 20, 1000), P2S_LOCK_GAVE_UP);
		p2s_lock_release(&a);
		f = fopen(path, "r");
		assert_non_null(f);
		assert_non_null(fgets(found, sizeof found, f));
		fclose(f);
		assert_string_equal(found, texts[i]);
		assert_int_equal(unlink(path), 0);
	}
}

static void odd_things_under_its_name(void **state)
{
	const struct place *p = *state;
	char path[128];
	struct p2s_lock l;

	snprintf(path, sizeof path, "%s/lock", p->path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(take(&l, p, 0, 1000), P2S_LOCK_FAILED);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(take(&l, p, 0, 1000), P2S_LOCK_FAILED);
	assert_int_equal(rmdir(path), 0);
	tmp_write(p->path, "lock", "");
	assert_int_equal(chmod(path, 0666), 0);
	assert_int_equal(take(&l, p, 0, 1000), P2S_LOCK_FAILED);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, (off_t)1 << 40), 0); /* sparse: nothing in it is a lock's text */
	assert_int_equal(take(&l, p, 0, 1000), P2S_LOCK_HELD);
	p2s_lock_release(&l);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(take(&l, p, 0, 1000), P2S_LOCK_FAILED);
	}
}

/* What a holder says in another boot, far in the future or past, or in words that are none, binds nobody longer than its
 * patience. */
static void what_the_file_says_is_not_believed_for_long(void **state)
{
	static const char *const texts[] = {"p2psafe-lock 1 1 1 boot\n", "p2psafe-lock 1 1 18446744073709551615 boot\n",
	                                    "p2psafe-lock 1 1 1 another\n", "p2psafe-lock 9 1 1 boot\n", "p2psafe-lock 1 -1 -1 boot\n"};
	const struct place *p = *state;
	char path[128];
	pid_t pid = hold(p, 60000);

	snprintf(path, sizeof path, "%s/lock", p->path);
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct p2s_lock l;
		uint64_t start = p2s_now_ns();

		tmp_write(p->path, "lock", texts[i]);
		assert_int_equal(take(&l, p, 150, 150), P2S_LOCK_GAVE_UP);
		assert_in_range((p2s_now_ns() - start) / MS, i == 0 ? 50 : 150, 20000);
	}
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(held_and_released, setup, teardown),
		cmocka_unit_test_setup_teardown(a_killed_holder_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stopped_holder_is_waited_for_until_its_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(our_own_patience_ends_the_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_is_no_lock_is_never_written, setup, teardown),
		cmocka_unit_test_setup_teardown(odd_things_under_its_name, setup, teardown),
		cmocka_unit_test_setup_teardown(what_the_file_says_is_not_believed_for_long, setup, teardown),
		cmocka_unit_test_setup_teardown(no_lock_where_none_can_be, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
