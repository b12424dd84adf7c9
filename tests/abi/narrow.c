/* Callers in narrow and hostile surroundings, with the real helper and the simulated driver, which inherit them. Always a
 * report or a clean refusal, in time; a bad machine is never allowed; nothing of the caller's is changed or lost, and no child
 * is left, also where the orphans of a killed helper come to us. (tests/kept/surroundings.c does the same with a helper that
 * needs next to nothing.)
 *
 * usage: narrow FOLDER (host good/, host bad/, helper/p2psafe-helper; made by narrow.py) */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "p2psafe/p2psafe.h"
#include "self.h"

#define SKIP 77
#define DEADLINE_MS 60000 /* not what is tested here: an overloaded machine may take its time */
#define NEUTRAL "/mnt"    /* where the folder is seen when the usual places are gone */

static char folder[4096];
static struct self before, after;
static int complain_to; /* a descriptor for complaints that no case takes away */
static pid_t kill_at_start; /* 1: wanted; then the helper */

/* What a child found, as its exit status. */
enum outcome { REFUSED, ALLOWED, DENIED, LATE, CHANGED, CHILD_LEFT, INVALID, OUTCOMES };
static const char *const outcome_names[OUTCOMES] = {
	"refused", "allowed", "denied", "late", "changed its caller", "left a child", "unreadable report"};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The helper is killed as soon as its workers run: they lose their parent. */
static void on_log(void *user, int32_t level, const char *line)
{
	const char *pid = strstr(line, " runs as pid ");

	(void)user;
	if (kill_at_start == 1 && pid != NULL)
		kill_at_start = (pid_t)atoi(pid + strlen(" runs as pid "));
	if (kill_at_start > 1 && level == P2PSAFE_LOG_PROGRESS) {
		kill(kill_at_start, SIGKILL);
		kill_at_start = 1;
	}
}

static int ask(const char *host)
{
	struct p2psafe_error err = {.size = sizeof err};
	struct p2psafe_options options;
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	char path[3][4200];
	char *json = NULL;
	uint64_t start = now_ms();
	int outcome;

	snprintf(path[0], sizeof path[0], "%s/%s", folder, host);
	snprintf(path[1], sizeof path[1], "%s/cache", folder);
	snprintf(path[2], sizeof path[2], "%s/helper/p2psafe-helper", folder);
	p2psafe_options_init(&options, sizeof options);
	options.host_dir = path[0];
	options.cache_dir = path[1];
	options.helper_path = path[2];
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = DEADLINE_MS;
	self_look(&before);
	if (p2psafe_context_new(&ctx, on_log, NULL, &err) != P2PSAFE_OK)
		return REFUSED;
	if (p2psafe_test(ctx, &options, &report, &err) != P2PSAFE_OK)
		outcome = REFUSED;
	else if (p2psafe_report_json(report, &json, &err) != P2PSAFE_OK || json[0] != '{')
		outcome = INVALID;
	else
		outcome = p2psafe_report_allows(report, P2PSAFE_CONSUMER_NCCL_P2P) ? ALLOWED : DENIED;
	if (now_ms() - start > DEADLINE_MS + 1000)
		outcome = LATE;
	if (getenv("NARROW_VERBOSE") != NULL)
		dprintf(complain_to, "%s %s\n", err.text, json != NULL ? json : "");
	p2psafe_string_free(json);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	self_look(&after);
	for (int part = 0; part < SELF_PARTS; part++)
		if (strcmp(before.text[part], after.text[part]) != 0) {
			dprintf(complain_to, "changed: %s\n--- before\n%s--- after\n%s", self_names[part], before.text[part], after.text[part]);
			outcome = CHANGED;
		}
	if (waitpid(-1, NULL, WNOHANG) != -1)
		outcome = CHILD_LEFT;
	return outcome;
}

/* ---- Surroundings: each returns 0, or SKIP where it is not possible here ------------------------------------- */

static int usual(void)
{
	return 0;
}

static int nothing_on_0_1_2(void)
{
	close(0);
	close(1);
	close(2);
	return 0;
}

static int set_limit(int what, rlim_t value)
{
	struct rlimit l = {.rlim_cur = value, .rlim_max = value};

	return setrlimit((__rlimit_resource_t)what, &l) == 0 ? 0 : SKIP;
}

static int sixteen_descriptors(void)
{
	return set_limit(RLIMIT_NOFILE, 16);
}

static int few_descriptors(void)
{
	return set_limit(RLIMIT_NOFILE, 256);
}

static int no_locked_memory(void)
{
	return set_limit(RLIMIT_MEMLOCK, 0);
}

static int files_may_not_grow(void)
{
	return set_limit(RLIMIT_FSIZE, 0);
}

static int little_memory(void)
{
	return set_limit(RLIMIT_AS, 96 << 20);
}

static int small_stack(void)
{
	return set_limit(RLIMIT_STACK, 256 << 10);
}

/* Root is not bound by this limit. */
static int become_nobody(void)
{
	if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		return SKIP;
	return 0;
}

static int no_more_processes(void)
{
	return become_nobody() != 0 ? SKIP : set_limit(RLIMIT_NPROC, 0);
}

static int all_signals_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	return sigprocmask(SIG_SETMASK, &all, NULL) == 0 ? 0 : SKIP;
}

static int all_signals_ignored(void)
{
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	return 0;
}

static void reap_all(int number)
{
	int kept = errno;

	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	errno = kept;
}

/* Whoever ends is reaped by the caller before the library can look. */
static int children_taken_away(void)
{
	struct sigaction action = {.sa_handler = reap_all, .sa_flags = SA_RESTART};

	return sigaction(SIGCHLD, &action, NULL) == 0 ? 0 : SKIP;
}

static int no_environment(void)
{
	return clearenv() == 0 ? 0 : SKIP;
}

static int mask_that_allows_nothing(void)
{
	umask(0777);
	return 0;
}

static int heir_of_orphans(void)
{
	kill_at_start = 1;
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 ? 0 : SKIP;
}

/* A name space of mounts of our own, in which FOLDER is also at a place that no case takes away. */
static int own_mounts(void)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount(folder, NEUTRAL, NULL, MS_BIND, NULL) != 0)
		return SKIP;
	snprintf(folder, sizeof folder, NEUTRAL);
	return 0;
}

static int hide(const char *path)
{
	return mount("tmpfs", path, "tmpfs", MS_RDONLY, "mode=000") == 0 ? 0 : SKIP;
}

/* Goes on in a child that is the first of its own: orphans come to it, and its number is 1. */
static int first_process(void)
{
	int status = 0;
	pid_t pid;

	if (own_mounts() != 0 || unshare(CLONE_NEWPID) != 0)
		return SKIP;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		return getpid() == 1 && mount("proc", "/proc", "proc", 0, NULL) == 0 ? 0 : SKIP;
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return SKIP;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : OUTCOMES);
}

static int first_process_and_heir(void)
{
	kill_at_start = 1;
	return first_process();
}

static int no_proc(void)
{
	return own_mounts() != 0 ? SKIP : hide("/proc");
}

static int no_sys(void)
{
	return own_mounts() != 0 ? SKIP : hide("/sys");
}

static int no_tmp(void)
{
	static const char *const all[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};

	if (own_mounts() != 0)
		return SKIP;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (access(all[i], F_OK) == 0 && hide(all[i]) != 0)
			return SKIP;
	return 0;
}

static int no_dev(void)
{
	return own_mounts() != 0 ? SKIP : hide("/dev");
}

static int nothing_can_be_written(void)
{
	if (own_mounts() != 0 || mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0 ||
	    mount(NULL, NEUTRAL, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
		return SKIP;
	return 0;
}

/* Another answer for a list of system calls, for us and all that we start. */
static int filter(const int *calls, size_t count, unsigned action)
{
	struct sock_filter code[160];
	struct sock_fprog program = {.filter = code};
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++) {
		if (n + 3 > (unsigned short)(sizeof code / sizeof code[0]))
			return SKIP;
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return SKIP;
	return 0;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DENY(e) (SECCOMP_RET_ERRNO | ((e) & SECCOMP_RET_DATA))

/* Nobody has any business with these here: who calls one dies at once. */
static const int alien[] = {
	SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_ptrace, SYS_process_vm_readv,
	SYS_process_vm_writev, SYS_kcmp, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_perf_event_open,
	SYS_bpf, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_init_module, SYS_finit_module,
	SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_settimeofday, SYS_clock_settime,
	SYS_adjtimex, SYS_clock_adjtime, SYS_acct, SYS_quotactl, SYS_sethostname, SYS_setdomainname, SYS_open_by_handle_at,
	SYS_personality, SYS_fanotify_init, SYS_move_pages, SYS_migrate_pages, SYS_vhangup, SYS_connect, SYS_bind,
	SYS_listen, SYS_accept, SYS_accept4, SYS_setuid, SYS_setgid, SYS_setgroups, SYS_chown, SYS_fchown, SYS_fchownat};

static int killed_for_alien_calls(void)
{
	return filter(alien, COUNT(alien), SECCOMP_RET_KILL_PROCESS);
}

/* What docker's default filter denies to a container without capabilities; clone3 is unknown there. */
static const int docker[] = {
	SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_delete_module, SYS_finit_module,
	SYS_get_mempolicy, SYS_init_module, SYS_ioperm, SYS_iopl, SYS_io_uring_setup, SYS_io_uring_enter,
	SYS_io_uring_register, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind,
	SYS_mount, SYS_move_pages, SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_perf_event_open, SYS_personality,
	SYS_pivot_root, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_quotactl, SYS_reboot, SYS_request_key,
	SYS_set_mempolicy, SYS_setns, SYS_settimeofday, SYS_swapon, SYS_swapoff, SYS_sysfs, SYS_syslog, SYS_umount2,
	SYS_unshare, SYS_userfaultfd, SYS_vhangup};

static int filter_like_dockers(void)
{
	static const int unknown[] = {SYS_clone3};

	return filter(docker, COUNT(docker), DENY(EPERM)) != 0 ? SKIP : filter(unknown, COUNT(unknown), DENY(ENOSYS));
}

static int filter_that_knows_none_of_these(void)
{
	return filter(docker, COUNT(docker), DENY(ENOSYS));
}

/* Calls for which there is another way. (getrandom is one for the library, but not for the simulated driver.) */
static const int newer[] = {SYS_clone3, SYS_close_range, SYS_openat2, SYS_faccessat2, SYS_pidfd_open, SYS_pidfd_send_signal,
                            SYS_pidfd_getfd, SYS_statx, SYS_renameat2};

static int old_kernel(void)
{
	return filter(newer, COUNT(newer), DENY(ENOSYS));
}

static int comforts_refused(void)
{
	static const int calls[] = {SYS_sched_setaffinity, SYS_mlock, SYS_madvise, SYS_setrlimit, SYS_capset, SYS_sysinfo, SYS_statfs,
	                            SYS_fstatfs, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_setpriority};

	return filter(calls, COUNT(calls), DENY(EPERM));
}

/* What there is no other way for. */
static int no_programs(void)
{
	static const int calls[] = {SYS_execve, SYS_execveat};

	return filter(calls, COUNT(calls), DENY(EACCES));
}

static int killed_for_programs(void)
{
	static const int calls[] = {SYS_execve, SYS_execveat};

	return filter(calls, COUNT(calls), SECCOMP_RET_KILL_PROCESS);
}

static int no_sockets(void)
{
	static const int calls[] = {SYS_socketpair, SYS_socket};

	return filter(calls, COUNT(calls), DENY(EPERM));
}

static int no_shared_memory(void)
{
	static const int calls[] = {SYS_memfd_create};

	return filter(calls, COUNT(calls), DENY(ENOSYS));
}

static int no_passed_descriptors(void)
{
	static const int calls[] = {SYS_recvmsg};

	return filter(calls, COUNT(calls), DENY(EPERM));
}

/* ---- The table ------------------------------------------------------------------------------------------ */

struct surroundings {
	const char *name;
	int (*prepare)(void);
	enum outcome good;    /* for the good machine */
	enum outcome or_good; /* also right */
};

static const struct surroundings all[] = {
	{"usual", usual, ALLOWED, ALLOWED},
	{"nothing on descriptors 0, 1 and 2", nothing_on_0_1_2, ALLOWED, ALLOWED},
	{"sixteen descriptors", sixteen_descriptors, DENIED, ALLOWED},
	{"256 descriptors", few_descriptors, ALLOWED, ALLOWED},
	{"no locked memory", no_locked_memory, ALLOWED, ALLOWED},
	{"files may not grow", files_may_not_grow, DENIED, ALLOWED},
	{"little memory", little_memory, DENIED, ALLOWED},
	{"a small stack", small_stack, ALLOWED, ALLOWED},
	{"nobody", become_nobody, ALLOWED, ALLOWED},
	{"no more processes", no_more_processes, DENIED, DENIED},
	{"all signals blocked", all_signals_blocked, ALLOWED, ALLOWED},
	{"all signals ignored", all_signals_ignored, ALLOWED, ALLOWED},
	{"children taken away", children_taken_away, ALLOWED, ALLOWED},
	{"no environment", no_environment, ALLOWED, ALLOWED},
	{"a mask that allows nothing", mask_that_allows_nothing, ALLOWED, ALLOWED},
	{"a helper that is killed, and its orphans come to us", heir_of_orphans, DENIED, DENIED},
	{"the first process of a container", first_process, ALLOWED, ALLOWED},
	{"the first process of a container, and the helper is killed", first_process_and_heir, DENIED, DENIED},
	{"no /proc", no_proc, DENIED, ALLOWED},
	{"no /sys", no_sys, ALLOWED, ALLOWED},
	{"no /tmp, /var/tmp, /dev/shm, /run", no_tmp, ALLOWED, ALLOWED},
	{"no /dev", no_dev, DENIED, ALLOWED},
	{"nothing can be written", nothing_can_be_written, ALLOWED, ALLOWED},
	{"killed for alien calls", killed_for_alien_calls, ALLOWED, ALLOWED},
	{"a filter like docker's", filter_like_dockers, ALLOWED, ALLOWED},
	{"a filter that knows none of these", filter_that_knows_none_of_these, ALLOWED, ALLOWED},
	{"an old kernel", old_kernel, ALLOWED, ALLOWED},
	{"comforts refused", comforts_refused, ALLOWED, ALLOWED},
	{"no programs", no_programs, DENIED, DENIED},
	{"killed for programs", killed_for_programs, DENIED, DENIED},
	{"no sockets", no_sockets, DENIED, DENIED},
	{"no shared memory", no_shared_memory, DENIED, DENIED},
	{"no passed descriptors", no_passed_descriptors, DENIED, DENIED},
};

static int in_child(const struct surroundings *s, const char *host)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int rc;

		alarm(DEADLINE_MS / 1000 + 60); /* a hang is a failure with a name */
		rc = s->prepare();
		if (s->prepare == all_signals_blocked || s->prepare == all_signals_ignored)
			alarm(0);
		_exit(rc != 0 ? rc : ask(host));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "%s: the caller was ended by signal %d\n", s->name, WTERMSIG(status));
		return OUTCOMES;
	}
	return WEXITSTATUS(status);
}

static const char *name_of(int outcome)
{
	return outcome >= 0 && outcome < OUTCOMES ? outcome_names[outcome] : "no outcome";
}

static void in(const struct surroundings *s)
{
	int got = in_child(s, "good");
	int bad;

	if (got == SKIP) {
		printf("%s: not possible here\n", s->name);
		return;
	}
	CHECK(1, got == (int)s->good || got == (int)s->or_good);
	bad = in_child(s, "bad");
	CHECK(1, bad == DENIED || bad == REFUSED);
	printf("%s: good machine %s, bad machine %s\n", s->name, name_of(got), name_of(bad));
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3 || strlen(argv[1]) >= sizeof folder)
		return 2;
	snprintf(folder, sizeof folder, "%s", argv[1]);
	complain_to = fcntl(2, F_DUPFD_CLOEXEC, 8);
	for (size_t i = 0; i < COUNT(all); i++)
		if (argc == 2 || strcmp(argv[2], all[i].name) == 0)
			in(&all[i]);
	return check_result();
}
