/* A simulated host is read right whatever else moves on the machine. */
#define _GNU_SOURCE
#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/fsroot.h"
#include "tmpdir.h"

#define READS 5000

/* Renames one file to and fro until it is killed. */
static pid_t restless(const char *base)
{
	char a[300];
	char b[300];
	pid_t pid;

	snprintf(a, sizeof a, "%s/elsewhere/a", base);
	snprintf(b, sizeof b, "%s/elsewhere/b", base);
	tmp_write(base, "elsewhere/a", "");
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (rename(a, b) == 0 && rename(b, a) == 0)
		;
	_exit(1);
}

/* The kernel says "again" where it could not make sure that ".." stayed inside: that is no unreadable file. */
static void test_renames_elsewhere(void **state)
{
	struct p2s_fsroot root;
	char base[256];
	char text[64];
	int failed = 0;
	int status;
	pid_t pid;

	(void)state;
	tmp_make(base, sizeof base);
	tmp_write(base, "root/sys/devices/pci0000:00/0000:01:00.0/vendor", "0x10de\n");
	tmp_write(base, "root/sys/bus/pci/devices/none", "");
	tmp_link(base, "root/sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:01:00.0");
	assert_int_equal(p2s_fsroot_open(&root, base), 1);
	pid = restless(base);
	assert_true(pid > 0);
	for (int i = 0; i < READS; i++)
		failed += p2s_fsroot_line(&root, "/sys/bus/pci/devices/0000:01:00.0/vendor", text, sizeof text) != P2S_READ_OK ||
		          strcmp(text, "0x10de") != 0;
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it was at it all the time */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(failed, 0);
	p2s_fsroot_close(&root);
	tmp_remove(base);
}

/* Links stay inside the folder, absolute ones and those that climb. */
static void test_links_stay_inside(void **state)
{
	struct p2s_fsroot root;
	char base[256];
	char text[64];

	(void)state;
	tmp_make(base, sizeof base);
	tmp_write(base, "root/sys/inside", "inside\n");
	tmp_link(base, "root/sys/absolute", "/sys/inside");
	tmp_link(base, "root/sys/climbs", "../../../../../../../../sys/inside");
	tmp_link(base, "root/sys/outside", "/etc/passwd");
	assert_int_equal(p2s_fsroot_open(&root, base), 1);
	assert_int_equal(p2s_fsroot_line(&root, "/sys/absolute", text, sizeof text), P2S_READ_OK);
	assert_string_equal(text, "inside");
	assert_int_equal(p2s_fsroot_line(&root, "/sys/climbs", text, sizeof text), P2S_READ_OK);
	assert_string_equal(text, "inside");
	assert_int_equal(p2s_fsroot_line(&root, "/sys/outside", text, sizeof text), P2S_READ_ABSENT);
	p2s_fsroot_close(&root);
	tmp_remove(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_renames_elsewhere),
		cmocka_unit_test(test_links_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
