/* One folder, several machines: the home of a user of a cluster. Each machine tests for itself, and once. */
#define _GNU_SOURCE
#include "kept.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define MACHINES 4
#define RANKS 4 /* of each */

static struct answer (*shared)[RANKS];
static const char *name = "gpu1";

/* Before libc's: every folder lies on a file server, and this machine has the name that we say. */
int statfs(const char *path, struct statfs *out)
{
	int rc = (int)syscall(SYS_statfs, path, out);

	out->f_type = NFS_SUPER_MAGIC;
	return rc;
}

int uname(struct utsname *out)
{
	int rc = (int)syscall(SYS_uname, out);

	snprintf(out->nodename, sizeof out->nodename, "%s", name);
	return rc;
}

/* Machine i of a cluster, with the folder of all. */
static struct kept machine(const struct kept *k, int i)
{
	struct kept m = *k;
	char text[64];

	snprintf(m.host, sizeof m.host, "%s/host%d", k->base, i);
	mkdir(m.host, 0755);
	tmp_host(m.host, m.gpus);
	snprintf(text, sizeof text, "%d1111111-2222-3333-4444-555555555555\n", i);
	tmp_write(m.host, "root/proc/sys/kernel/random/boot_id", text);
	return m;
}

static void each_machine_tests_once(void **state)
{
	static const char *const names[MACHINES] = {"gpu1", "gpu2", "gpu3.example.org", "../4"};
	struct kept *k = *state;
	struct kept m[MACHINES];
	pid_t pids[MACHINES][RANKS];

	for (int i = 0; i < MACHINES; i++)
		m[i] = machine(k, i);
	kept_script(k, "sleep 200");
	for (int r = 0; r < RANKS; r++) {
		for (int i = 0; i < MACHINES; i++) {
			name = names[i];
			pids[i][r] = kept_rank(&m[i], 60000, &shared[i][r]);
		}
	}
	for (int i = 0; i < MACHINES; i++)
		for (int r = 0; r < RANKS; r++)
			kept_wait(pids[i][r]);
	for (int i = 0; i < MACHINES; i++) {
		for (int r = 0; r < RANKS; r++) {
			assert_int_equal(shared[i][r].rc, 0);
			assert_int_equal(shared[i][r].allowed, 1);
		}
	}
	assert_int_equal(kept_runs(k), MACHINES);
	for (int i = 0; i < MACHINES; i++) {
		name = names[i];
		assert_int_equal(kept_decide(&m[i], NULL).kept, 1);
	}
}

/* A hang on one machine forbids nothing on those that are like it. */
static void a_marker_is_of_one_machine(void **state)
{
	struct kept *k = *state;
	struct kept m[2] = {machine(k, 0), machine(k, 1)};

	name = "gpu1";
	kept_script(k, "hang 0 1");
	assert_int_equal(kept_test(&m[0], NULL, 0).verdict, P2PSAFE_VERDICT_HANG);
	kept_script(k, "");
	name = "gpu2";
	assert_int_equal(kept_decide(&m[1], NULL).allowed, 1);
	/* and it is still there when its machine comes back */
	name = "gpu1";
	tmp_write(m[0].host, "root/proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n");
	assert_int_equal(kept_test(&m[0], NULL, 0).verdict, P2PSAFE_VERDICT_UNTESTED);
}

#define T(test) cmocka_unit_test_setup_teardown(test, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(each_machine_tests_once), T(a_marker_is_of_one_machine)};

	shared = mmap(NULL, MACHINES * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
