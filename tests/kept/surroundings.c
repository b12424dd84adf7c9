/* Callers in narrow, odd and hostile surroundings: few descriptors and processes, signals without end, a disk that is full or
 * cannot be written, no /proc, system calls that a filter denies, small stacks, many threads, forks. Always a report or a
 * clean refusal; a bad machine is never allowed; nothing of the caller's is changed or lost. */
#define _GNU_SOURCE
#include "kept.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define SKIP 77

static struct kept *kept;

/* Everything of the caller's that no other test looks at. */
struct mine {
	mode_t mask;
	cpu_set_t cpus;
	int descriptors;
	int priority;
};

static struct mine look(void)
{
	struct mine m;

	memset(&m, 0, sizeof m);
	m.mask = umask(0);
	umask(m.mask);
	sched_getaffinity(0, sizeof m.cpus, &m.cpus);
	m.descriptors = kept_descriptors();
	m.priority = getpriority(PRIO_PROCESS, 0);
	return m;
}

static int same(const struct mine *a, const struct mine *b)
{
	return a->mask == b->mask && CPU_EQUAL(&a->cpus, &b->cpus) && a->descriptors == b->descriptors && a->priority == b->priority;
}

/* What a child found, as its exit status. */
enum { FINE, NO_REPORT, ALLOWED, DENIED, LATE, CHANGED, CHILD_LEFT };

static int ask(void)
{
	struct p2psafe_options o;
	struct answer a;
	struct mine before = look();
	struct mine after;

	kept_options(kept, &o);
	a = kept_ask(p2psafe_test, &o);
	after = look();
	if (!same(&before, &after))
		return CHANGED;
	if (waitpid(-1, NULL, WNOHANG) != -1)
		return CHILD_LEFT;
	if (a.ms > o.deadline_ms + 1000)
		return LATE;
	if (a.rc != 0)
		return NO_REPORT;
	return a.allowed ? ALLOWED : DENIED;
}

typedef int (*prepare_fn)(void);

/* Asks in a child after prepare(), which returns 0, or SKIP where it is not possible. */
static int in_child(prepare_fn prepare)
{
	int status;
	pid_t pid;

	tmp_remove(kept->cache);
	pid = fork();
	if (pid == 0) {
		int rc;

		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test, in this child */
		signal(SIGBUS, SIG_DFL);
		rc = prepare();

		/* exit: so that a build with sanitizers looks for leaks. Descriptors may be gone for it: that is its own trouble. */
		_exit(rc != 0 ? rc : ask());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The good machine is answered with one of two outcomes; the bad one is never allowed. */
static void in(const char *where, prepare_fn prepare, int good, int or_good)
{
	int got;

	kept_script(kept, "");
	got = in_child(prepare);
	if (got == SKIP) {
		print_message("%s: not possible here\n", where);
		return;
	}
	if (got != good && got != or_good)
		fail_msg("%s: outcome %d, wanted %d or %d", where, got, good, or_good);
	kept_script(kept, "bad 0 1");
	got = in_child(prepare);
	if (got != DENIED && got != NO_REPORT)
		fail_msg("%s: outcome %d for a bad machine", where, got);
	kept_script(kept, "");
}

static int set_limit(int what, rlim_t value)
{
	struct rlimit l = {.rlim_cur = value, .rlim_max = value};

	return setrlimit((__rlimit_resource_t)what, &l) == 0 ? 0 : SKIP;
}

static int sixteen_descriptors(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	return set_limit(RLIMIT_NOFILE, 16);
}

static int spare; /* descriptors left by few_left() */

static int few_left(void)
{
	int last = -1;
	int fd;

	if (sixteen_descriptors() != 0)
		return SKIP;
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		last = fd;
	for (int i = 0; i < spare; i++)
		close(last - i);
	return 0;
}

/* Needs not to be root, whom this limit does not bind. */
static int no_more_processes(void)
{
	if (geteuid() == 0) {
		/* what is trusted must belong to root or the caller, and be reachable */
		if (chmod(kept->base, 0755) != 0 || chmod(kept->script, 0644) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
			return SKIP;
	}
	return set_limit(RLIMIT_NPROC, 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* Every system call that can be interrupted is. */
static int alarms_without_end(void)
{
	struct itimerval often = {.it_interval = {.tv_usec = 700}, .it_value = {.tv_usec = 700}};
	struct sigaction sa = {.sa_handler = on_alarm};

	return sigaction(SIGALRM, &sa, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0 ? 0 : SKIP;
}

static int nothing_allowed_by_the_mask(void)
{
	umask(0777);
	return 0;
}

static int folder_is_gone(void)
{
	char path[128];

	snprintf(path, sizeof path, "%s/gone", kept->base);
	return mkdir(path, 0700) == 0 && chdir(path) == 0 && rmdir(path) == 0 ? 0 : SKIP;
}

/* A file system of our own over a folder, in a mount name space of our own. */
static int mounted(const char *path, const char *options, unsigned long flags)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return SKIP;
	mkdir(path, 0755);
	return mount("tmpfs", path, "tmpfs", flags, options) == 0 ? 0 : SKIP;
}

static int read_only_disk(void)
{
	return mounted(kept->cache, "mode=755", MS_RDONLY);
}

static int full_disk(void)
{
	char path[128];
	char block[4096];
	int fd;
	int rc = mounted(kept->cache, "mode=755,size=16k", 0);

	if (rc != 0)
		return rc;
	snprintf(path, sizeof path, "%s/filler", kept->cache);
	memset(block, 'x', sizeof block);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (fd >= 0 && write(fd, block, sizeof block) > 0)
		continue;
	close(fd);
	return 0;
}

static int disk_without_room_for_another_file(void)
{
	return mounted(kept->cache, "mode=755,nr_inodes=2", 0);
}

/* The kept answer allows, no file can be made any more, and the machine went bad: the answer goes without a new one. */
static int taken_back_without_a_file(void)
{
	struct p2psafe_options o;
	char path[128];
	int rc = mounted(kept->cache, "mode=755,nr_inodes=32", 0);

	if (rc != 0)
		return rc;
	kept_options(kept, &o);
	kept_script(kept, "");
	if (!kept_ask(p2psafe_test, &o).allowed || !kept_ask(p2psafe_decide, &o).kept)
		return NO_REPORT;
	for (int i = 0, fd = 0; fd >= 0; i++) {
		snprintf(path, sizeof path, "%s/filler%d", kept->cache, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
	}
	if (!kept_ask(p2psafe_decide, &o).kept)
		return NO_REPORT;
	kept_script(kept, "bad 0 1");
	if (kept_ask(p2psafe_test, &o).allowed)
		return ALLOWED;
	return kept_ask(p2psafe_decide, &o).allowed ? ALLOWED : DENIED;
}

static int no_proc(void)
{
	return mounted("/proc", "mode=000", MS_RDONLY);
}

/* Denies a list of system calls with this errno value, for us and our children. */
static int deny(const int *calls, size_t count, int e)
{
	struct sock_filter filter[64];
	struct sock_fprog program = {.filter = filter};
	unsigned short n = 0;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count && n + 3 < 64; i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)e & SECCOMP_RET_DATA));
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return SKIP;
	return 0;
}

/* What a strict filter of a container denies. None of it is needed for an answer. */
static const int dispensable[] = {SYS_pidfd_open,   SYS_pidfd_send_signal, SYS_getrandom, SYS_memfd_create, SYS_mlock, SYS_sched_setaffinity,
                                  SYS_get_mempolicy, SYS_mbind, SYS_set_mempolicy, SYS_ptrace, SYS_kcmp, SYS_perf_event_open, SYS_bpf,
                                  SYS_syslog, SYS_statfs, SYS_fstatfs, SYS_sysinfo, SYS_chown, SYS_fchown};

static int filter_refuses(void)
{
	return deny(dispensable, sizeof dispensable / sizeof dispensable[0], EPERM);
}

static int filter_knows_nothing(void)
{
	return deny(dispensable, sizeof dispensable / sizeof dispensable[0], ENOSYS);
}

/* Newer calls, of which glibc has older forms to fall back to: an old kernel. */
static int old_kernel(void)
{
	static const int newer[] = {SYS_clone3, SYS_close_range, SYS_openat2, SYS_faccessat2, SYS_pidfd_open, SYS_pidfd_send_signal};

	return deny(newer, sizeof newer / sizeof newer[0], ENOSYS);
}

/* What cannot be done without: no link, so no record; no fsync, so no marker; no sockets or children, so no test. */
static int no_link(void)
{
	static const int calls[] = {SYS_link, SYS_linkat};

	return deny(calls, 2, EPERM);
}

static int no_fsync(void)
{
	static const int calls[] = {SYS_fsync, SYS_fdatasync};

	return deny(calls, 2, EIO);
}

static int no_sockets(void)
{
	static const int calls[] = {SYS_socketpair};

	return deny(calls, 1, EPERM);
}

static int no_children(void)
{
	static const int calls[] = {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork};

	return deny(calls, 4, EAGAIN);
}

static int no_sleep(void)
{
	static const int calls[] = {SYS_poll, SYS_ppoll};

	return deny(calls, 2, EPERM);
}

static void narrow(void **state)
{
	kept = *state;
	in("sixteen descriptors", sixteen_descriptors, ALLOWED, ALLOWED);
	for (spare = 0; spare <= 12; spare++)
		in("a few descriptors left", few_left, spare >= 12 ? ALLOWED : DENIED, spare < 3 ? NO_REPORT : ALLOWED);
	in("no more processes", no_more_processes, DENIED, DENIED);
	in("alarms without end", alarms_without_end, ALLOWED, ALLOWED);
	in("a mask that allows nothing", nothing_allowed_by_the_mask, ALLOWED, ALLOWED);
	in("a folder that is gone", folder_is_gone, ALLOWED, ALLOWED);
}

static void disks(void **state)
{
	kept = *state;
	in("a disk that cannot be written", read_only_disk, ALLOWED, ALLOWED);
	in("a full disk", full_disk, ALLOWED, ALLOWED);
	in("a disk without room for a file", disk_without_room_for_another_file, ALLOWED, ALLOWED);
	in("no /proc", no_proc, ALLOWED, ALLOWED);
	in("no room to take an answer back", taken_back_without_a_file, DENIED, DENIED);
}

static void filters(void **state)
{
	kept = *state;
	in("a filter that refuses", filter_refuses, ALLOWED, ALLOWED);
	in("a filter that knows nothing", filter_knows_nothing, ALLOWED, ALLOWED);
	in("an old kernel", old_kernel, ALLOWED, ALLOWED);
	in("no link", no_link, ALLOWED, ALLOWED);
	in("no fsync", no_fsync, ALLOWED, ALLOWED);
	in("no sockets", no_sockets, DENIED, DENIED);
	in("no children", no_children, DENIED, DENIED);
	in("no waiting", no_sleep, DENIED, ALLOWED);
}

/* A mask that allows everything makes no file that others may write. */
static void files_are_ours_alone(void **state)
{
	DIR *d;
	struct dirent *e;
	mode_t old = umask(0);
	int files = 0;

	kept = *state;
	tmp_remove(kept->cache);
	assert_int_equal(ask(), ALLOWED);
	umask(old);
	d = opendir(kept->cache);
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		struct stat st;

		assert_int_equal(fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (strcmp(e->d_name, "..") == 0)
			continue;
		assert_int_equal(st.st_mode & 022, 0);
		files += S_ISREG(st.st_mode);
	}
	closedir(d);
	assert_true(files >= 2);
}

static void *in_thread(void *result)
{
	struct p2psafe_options o;

	kept_options(kept, &o);
	*(struct answer *)result = kept_ask(p2psafe_decide, &o);
	return NULL;
}

/* Eight threads of one process: one test, one answer. */
static void many_threads(void **state)
{
	struct answer answers[8];
	pthread_t threads[8];
	int before;

	kept = *state;
	before = kept_descriptors();
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, in_thread, &answers[i]), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(answers[i].rc, 0);
		assert_int_equal(answers[i].allowed, 1);
	}
	assert_int_equal(kept_runs(kept), 1);
	assert_int_equal(kept_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Threads of servers often have small stacks. */
static void a_small_stack(void **state)
{
	struct answer answer;
	pthread_attr_t attr;
	pthread_t thread;

	kept = *state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* frames are several times larger there */
#endif
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
	assert_int_equal(pthread_create(&thread, &attr, in_thread, &answer), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
	assert_int_equal(answer.allowed, 1);
}

/* A child that was forked while other threads were inside calls asks for itself. */
static void after_a_fork(void **state)
{
	struct answer answers[4];
	pthread_t threads[4];
	pid_t pids[4];

#ifdef __SANITIZE_ADDRESS__
	skip(); /* its allocator's locks are not those of a fork: a child of a process with threads may wait for ever */
#endif
	kept = *state;
	kept_script(kept, "sleep 50");
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, in_thread, &answers[i]), 0);
	for (int i = 0; i < 4; i++) {
		struct timespec pause = {.tv_nsec = 8000000};

		nanosleep(&pause, NULL);
		pids[i] = fork();
		if (pids[i] == 0) {
			struct answer own;

			in_thread(&own);
			_exit(own.rc == 0 && own.allowed == 1 ? 0 : 1);
		}
	}
	for (int i = 0; i < 4; i++) {
		int status;

		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(answers[i].allowed, 1);
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, kept_setup, kept_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {T(narrow),       T(disks),         T(filters),     T(files_are_ours_alone),
	                                   T(many_threads), T(a_small_stack), T(after_a_fork)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
