/* The host process stays untouched: this program looks at itself before and after probe, test and decide on a simulated
 * host: everything that self.h sees, children, and that nothing was written to descriptors 1 and 2.
 *
 * usage: hygiene HOST_DIR CACHE_DIR */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "p2psafe/p2psafe.h"
#include "self.h"

static struct self before, after;

/* Never in the host's process: whatever talks to a driver. */
static const char *const forbidden[] = {"libcuda", "libnvidia", "libpci", "libnuma"};

static int planted_seen;
static int quiet; /* differences are wanted */

static void same(const char *call, const char *what, const char *old, const char *now)
{
	int differs = strcmp(old, now) != 0;

	if (quiet) {
		planted_seen |= differs;
		return;
	}
	CHECK(0, differs);
	if (differs)
		fprintf(stderr, "%s changed the %s\n--- before\n%s--- after\n%s", call, what, old, now);
}

static void compare(const char *call)
{
	for (int part = 0; part < SELF_PARTS; part++)
		same(call, self_names[part], before.text[part], after.text[part]);
}

/* Puts file in the place of descriptor number; returns a copy of the old one. */
static int divert(int number, int file)
{
	int old = fcntl(number, F_DUPFD_CLOEXEC, 10);

	if (old < 0 || dup2(file, number) < 0)
		exit(2);
	return old;
}

typedef int32_t (*call_fn)(p2psafe_context *, const struct p2psafe_options *, p2psafe_report **, struct p2psafe_error *);

/* One call and everything around it, between two looks. */
static void run(const char *name, call_fn call, const struct p2psafe_options *options, int want_kept)
{
	struct p2psafe_error err = {.size = sizeof err};
	p2psafe_context *ctx = NULL;
	p2psafe_report *report = NULL;
	char *json = NULL;
	struct stat written;
	int sink = memfd_create("output", MFD_CLOEXEC);
	int out, error;
	int32_t status;
	int32_t kept;

	fflush(NULL);
	out = divert(1, sink);
	error = divert(2, sink);
	self_look(&before);
	status = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (status == P2PSAFE_OK)
		status = call(ctx, options, &report, &err);
	p2psafe_report_json(report, &json, NULL);
	kept = p2psafe_report_is_kept(report);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	self_look(&after);
	dup2(out, 1);
	dup2(error, 2);
	CHECK(P2PSAFE_OK, status);
	CHECK(want_kept, kept);
	if (status != P2PSAFE_OK)
		fprintf(stderr, "%s: %s\n", name, err.text);
	CHECK(1, json != NULL);
	p2psafe_string_free(json);
	compare(name);
	CHECK(0, fstat(sink, &written));
	if (quiet)
		planted_seen |= written.st_size > 0;
	else
		CHECK(0, written.st_size); /* bytes on descriptors 1 and 2 */
	close(out);
	close(error);
	close(sink);
}

static void all_calls(const struct p2psafe_options *options)
{
	struct p2psafe_options fresh = *options;

	fresh.flags |= P2PSAFE_FLAG_NO_CACHE;
	run("probe", p2psafe_probe, options, 0);
	run("test", p2psafe_test, options, 0);
	run("decide, kept", p2psafe_decide, options, 1);
	run("decide, fresh", p2psafe_decide, &fresh, 0);
}

/* Calls that do what the library must not: each must be seen, or the silence above means nothing. */
enum plant {
	OPEN_FILE,
	SET_VARIABLE,
	IGNORE_SIGNAL,
	BLOCK_SIGNAL,
	CHANGE_FOLDER,
	CHANGE_MASK,
	WRITE_OUTPUT,
	CHANGE_LOCALE,
	CHANGE_PROCESSORS,
	CHANGE_ROUNDING,
	CHANGE_NAME,
	CHANGE_LIMIT,
	START_TIMER,
	KEEP_MAPPED,
	PLANTS
};

static enum plant plant;
static int planted_fd;
static char planted_folder[4096];
static void *planted_map;
static sigset_t old_mask;
static cpu_set_t old_cpus;
static struct rlimit old_core;
static mode_t old_umask;

static void disturb(void)
{
	struct itimerval far = {.it_interval = {.tv_sec = 3600}, .it_value = {.tv_sec = 3600}};
	struct rlimit core = {0, old_core.rlim_max};
	sigset_t one;
	cpu_set_t cpu;

	planted_fd = -1;
	switch (plant) {
	case OPEN_FILE:
		planted_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		break;
	case SET_VARIABLE:
		setenv("P2PSAFE_PLANTED", "1", 1);
		break;
	case IGNORE_SIGNAL:
		signal(SIGUSR1, SIG_IGN);
		break;
	case BLOCK_SIGNAL:
		sigemptyset(&one);
		sigaddset(&one, SIGUSR2);
		sigprocmask(SIG_BLOCK, &one, NULL);
		break;
	case CHANGE_FOLDER:
		if (getcwd(planted_folder, sizeof planted_folder) == NULL || chdir("/proc") != 0)
			exit(2);
		break;
	case CHANGE_MASK:
		umask(old_umask ^ 0111);
		break;
	case WRITE_OUTPUT:
		if (write(1, "x", 1) != 1)
			exit(2);
		break;
	case CHANGE_LOCALE:
		if (setlocale(LC_NUMERIC, "C.UTF-8") == NULL)
			planted_seen = 1; /* no other locale here */
		break;
	case CHANGE_PROCESSORS:
		CPU_ZERO(&cpu);
		for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&cpu) == 0; i++)
			if (CPU_ISSET(i, &old_cpus))
				CPU_SET(i, &cpu);
		if (CPU_EQUAL(&cpu, &old_cpus) || sched_setaffinity(0, sizeof cpu, &cpu) != 0)
			planted_seen = 1; /* a single processor */
		break;
	case CHANGE_ROUNDING:
		fesetround(FE_TOWARDZERO);
		break;
	case CHANGE_NAME:
		prctl(PR_SET_NAME, "planted", 0, 0, 0);
		break;
	case CHANGE_LIMIT:
		if (old_core.rlim_cur == 0)
			core.rlim_cur = old_core.rlim_max > 0;
		if (core.rlim_cur == old_core.rlim_cur || setrlimit(RLIMIT_CORE, &core) != 0)
			planted_seen = 1; /* nothing to change */
		break;
	case START_TIMER:
		setitimer(ITIMER_REAL, &far, NULL);
		break;
	case KEEP_MAPPED:
		planted_fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
		planted_map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, planted_fd, 0);
		close(planted_fd);
		planted_fd = -1;
		break;
	default:
		break;
	}
}

static void undo(void)
{
	struct itimerval none = {0};

	if (planted_fd >= 0)
		close(planted_fd);
	unsetenv("P2PSAFE_PLANTED");
	signal(SIGUSR1, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);
	if (planted_folder[0] != '\0' && chdir(planted_folder) != 0)
		exit(2);
	planted_folder[0] = '\0';
	umask(old_umask);
	setlocale(LC_ALL, "C");
	sched_setaffinity(0, sizeof old_cpus, &old_cpus);
	fesetround(FE_TONEAREST);
	prctl(PR_SET_NAME, "hygiene", 0, 0, 0);
	setrlimit(RLIMIT_CORE, &old_core);
	setitimer(ITIMER_REAL, &none, NULL);
	if (planted_map != NULL && planted_map != MAP_FAILED)
		munmap(planted_map, 4096);
	planted_map = NULL;
}

static int32_t disturbing_probe(p2psafe_context *ctx, const struct p2psafe_options *options, p2psafe_report **out,
                                struct p2psafe_error *err)
{
	disturb();
	return p2psafe_probe(ctx, options, out, err);
}

static void planted(const struct p2psafe_options *options)
{
	quiet = 1;
	old_umask = umask(0);
	umask(old_umask);
	sigprocmask(SIG_SETMASK, NULL, &old_mask);
	sched_getaffinity(0, sizeof old_cpus, &old_cpus);
	getrlimit(RLIMIT_CORE, &old_core);
	for (plant = 0; plant < PLANTS; plant++) {
		planted_seen = 0;
		run("planted", disturbing_probe, options, 0);
		undo();
		CHECK(1, planted_seen);
		if (!planted_seen)
			fprintf(stderr, "disturbance %d was not seen\n", (int)plant);
	}
	planted_seen = 0;
	run("nothing planted", p2psafe_probe, options, 0);
	CHECK(0, planted_seen);
	quiet = 0;
}

/* The library waits for its own children only: one of the host, already dead, is still there to be waited for. */
static pid_t host_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(42);
	return pid;
}

int main(int argc, char **argv)
{
	struct p2psafe_options options;
	sigset_t all;
	int status = 0;
	pid_t child;

	if (argc != 3) {
		fprintf(stderr, "usage: hygiene HOST_DIR CACHE_DIR\n");
		return 2;
	}
	p2psafe_options_init(&options, sizeof options);
	options.host_dir = argv[1];
	options.cache_dir = argv[2];
	options.level = P2PSAFE_LEVEL_QUICK;
	options.deadline_ms = 120000; /* a busy machine may take its time */

	child = host_child();
	all_calls(&options);
	CHECK(child, waitpid(child, &status, 0));
	CHECK(42, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	CHECK(-1, waitpid(-1, NULL, WNOHANG)); /* and none of the library's is left */
	CHECK(ECHILD, errno);

	planted(&options);

	/* a host that takes its signals in a thread of its own: all are blocked */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	all_calls(&options);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);

	/* a host that ignores SIGCHLD: children vanish unwaited, and the answer is still an answer */
	signal(SIGCHLD, SIG_IGN);
	all_calls(&options);
	CHECK(-1, waitpid(-1, NULL, WNOHANG));

	for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
		CHECK(1, strstr(after.text[SELF_MAPS], forbidden[i]) == NULL);
	return check_result();
}
