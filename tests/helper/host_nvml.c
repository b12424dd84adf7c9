/* Whose the processes on a GPU are, on this machine, by an NVML of our own: its functions are those of this program. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/facts.h"
#include "helper/nvml_facts.h"
#include "ipc/proto.h"

struct process { /* nvmlProcessInfo_t: all that any driver ever gave it */
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance;
	unsigned compute_instance;
	unsigned long long protected_bytes;
};

#define RECORD 24
#define OTHER_USER 12345

static const size_t records[] = {16, RECORD, sizeof(struct process)};

static unsigned pids[8];
static unsigned pid_count;
static size_t record = RECORD; /* bytes of one, as this driver has them */

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, unsigned char *list);

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, unsigned char *list)
{
	(void)device;
	assert_true(*count >= pid_count);
	for (unsigned i = 0; i < pid_count; i++) {
		struct process one = {pids[i], 306184192, UINT32_MAX, UINT32_MAX, 0};

		memcpy(list + i * record, &one, record);
	}
	*count = pid_count;
	return 0;
}

/* Asks, and returns fact `which` of the GPU. */
static int64_t ask(int32_t which)
{
	static int device;
	struct p2s_nvml_ask a = {.host_dir = "", .n = 1, .device = {&device}};
	int64_t value = P2S_UNREAD;
	int sock[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	a.library = dlopen(NULL, RTLD_NOW);
	assert_non_null(a.library);
	a.sock = sock[0];
	p2s_nvml_facts(&a);
	close(sock[0]);
	for (;;) {
		union p2s_lib_any any;
		uint16_t id = 0;

		if (p2s_codec_recv(sock[1], &p2s_lib_table, &id, &any, sizeof any, NULL, p2s_now_ns() + UINT64_C(5000000000)) != P2S_IO_OK)
			break;
		if (id == p2s_id_lib_gpu_fact && any.gpu_fact.which == which)
			value = (int64_t)any.gpu_fact.value;
	}
	close(sock[1]);
	dlclose(a.library);
	return value;
}

static void expect(unsigned pid, int64_t busy, int64_t other)
{
	pids[0] = pid;
	pid_count = 1;
	assert_int_equal(ask(P2S_GPU_FACT_BUSY_PROCESS), busy);
	assert_int_equal(ask(P2S_GPU_FACT_OTHER_PROCESS), other);
}

static void nobody_is_there(void **state)
{
	(void)state;
	pid_count = 0;
	assert_int_equal(ask(P2S_GPU_FACT_BUSY_PROCESS), P2S_NO);
	assert_int_equal(ask(P2S_GPU_FACT_OTHER_PROCESS), P2S_NO);
}

/* The test's own processes are no reason for anything. */
static void our_own_do_not_count(void **state)
{
	(void)state;
	expect((unsigned)getpid(), P2S_NO, P2S_NO);
}

/* What stands for a process that this namespace does not show: it is somebody's, nobody knows whose. */
static void a_pid_that_cannot_be_resolved_is_busy(void **state)
{
	static const unsigned unknown[] = {0, INT_MAX, UINT_MAX, (unsigned)INT_MAX + 1};

	(void)state;
	for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
		expect(unknown[i], P2S_YES, P2S_NO);
}

/* Of the same user, but no part of the test. */
static void the_callers_other_programs_are_busy(void **state)
{
	int ready[2];
	char byte;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		setpgid(0, 0);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	expect((unsigned)child, P2S_YES, P2S_NO);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

/* One of ours hides none of the others. */
static void all_are_looked_at(void **state)
{
	(void)state;
	pids[0] = (unsigned)getpid();
	pids[1] = 0;
	pid_count = 2;
	assert_int_equal(ask(P2S_GPU_FACT_BUSY_PROCESS), P2S_YES);
}

/* A process of another user; it ends with the test. */
static pid_t start_another_users(int pipe_fds[2])
{
	char byte;
	pid_t child;

	if (geteuid() != 0)
		return 1; /* the first process is root's */
	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (setpgid(0, 0) != 0 || setuid(OTHER_USER) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
			write(pipe_fds[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	return child;
}

/* Drivers differ in the size of a record, and none says which it has: what is in between must not pass for processes, nor hide them. */
static void records_of_any_size_are_told_apart(void **state)
{
	int fds[2];
	pid_t other = start_another_users(fds);

	(void)state;
	for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
		record = records[i];
		for (pid_count = 1; pid_count <= 8; pid_count++) {
			for (unsigned k = 0; k < pid_count; k++)
				pids[k] = (unsigned)getpid();
			assert_int_equal(ask(P2S_GPU_FACT_BUSY_PROCESS), P2S_NO);
			assert_int_equal(ask(P2S_GPU_FACT_OTHER_PROCESS), P2S_NO);
			for (unsigned at = 0; at < pid_count; at++) {
				pids[at] = (unsigned)other;
				assert_int_equal(ask(P2S_GPU_FACT_OTHER_PROCESS), P2S_YES);
				pids[at] = (unsigned)getpid();
			}
		}
	}
	record = RECORD;
	if (geteuid() == 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
		close(fds[0]);
		close(fds[1]);
	}
}

/* No process can be seen, and we are nobody who may send a signal to target: as where /proc hides what is not the reader's. */
static int hide_all(pid_t target)
{
	int root = geteuid() == 0;

	return setpgid(0, 0) == 0 && unshare(root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", "/proc", "tmpfs", MS_RDONLY, "mode=755") == 0 &&
	       (!root || (setgid(OTHER_USER) == 0 && setuid(OTHER_USER) == 0)) && kill(target, 0) != 0 && errno == EPERM;
}

/* Their pids are known and their status is not: they cannot be the caller's. */
static void hidden_processes_are_other_users(void **state)
{
	enum { FINE, NOT_OTHER, NOT_NOBODY, NOT_HERE };
	pid_t target = geteuid() == 0 ? getpid() : 1;
	int status;
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		if (!hide_all(target))
			_exit(NOT_HERE);
		pid_count = 1;
		pids[0] = (unsigned)target;
		if (ask(P2S_GPU_FACT_OTHER_PROCESS) != P2S_YES)
			_exit(NOT_OTHER);
		pids[0] = INT_MAX; /* of another namespace, perhaps */
		_exit(ask(P2S_GPU_FACT_OTHER_PROCESS) == P2S_NO && ask(P2S_GPU_FACT_BUSY_PROCESS) == P2S_YES ? FINE : NOT_NOBODY);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_HERE)
		print_message("no namespace of our own here\n");
	else
		assert_int_equal(WEXITSTATUS(status), FINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(our_own_do_not_count),
		cmocka_unit_test(a_pid_that_cannot_be_resolved_is_busy),
		cmocka_unit_test(the_callers_other_programs_are_busy),
		cmocka_unit_test(all_are_looked_at),
		cmocka_unit_test(records_of_any_size_are_told_apart),
		cmocka_unit_test(hidden_processes_are_other_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
