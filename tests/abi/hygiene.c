/* The host process stays untouched: this program looks at itself before and after probe, test and decide on a simulated
 * host. Mapped files, descriptors, threads, signal dispositions and mask, environment, working directory, file mode mask,
 * children, and that nothing was written to descriptors 1 and 2.
 *
 * usage: hygiene HOST_DIR CACHE_DIR */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "p2psafe/p2psafe.h"

#define TEXT_BYTES 65536

extern char **environ;

/* Everything that a library could disturb, as text, so that a difference can be shown. */
struct self {
	char maps[TEXT_BYTES];   /* names of mapped files */
	char fds[TEXT_BYTES];    /* number and target of every descriptor */
	char tasks[4096];        /* thread ids */
	char signals[8192];      /* handler and flags of each signal; blocked, ignored and caught masks as the kernel has them */
	char environment[TEXT_BYTES];
	char limits[2048];
	char folder[4096];
	mode_t mask;
	int priority;
};

static struct self before, after;

/* Never in the host's process: whatever talks to a driver. */
static const char *const forbidden[] = {"libcuda", "libnvidia", "libpci", "libnuma"};

static void add(char *text, size_t cap, const char *line)
{
	size_t used = strlen(text);

	if (used + strlen(line) + 2 > cap) {
		fprintf(stderr, "hygiene: no room for %s\n", line);
		exit(2);
	}
	memcpy(text + used, line, strlen(line));
	text[used + strlen(line)] = '\n';
	text[used + strlen(line) + 1] = '\0';
}

static int has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return 1;
	return 0;
}

static void read_maps(struct self *self)
{
	char line[8192];
	FILE *maps = fopen("/proc/self/maps", "re");

	if (maps == NULL)
		exit(2);
	while (fgets(line, sizeof line, maps) != NULL) {
		char *path = strchr(line, '/');

		if (path == NULL)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (!has_line(self->maps, path))
			add(self->maps, sizeof self->maps, path);
	}
	fclose(maps);
}

static void read_folder(const char *folder, int links, char *text, size_t cap)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	if (dir == NULL)
		exit(2);
	while ((entry = readdir(dir)) != NULL) {
		char line[4608];
		char target[4096] = "";

		if (entry->d_name[0] == '.')
			continue;
		if (links) {
			ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

			if (atoi(entry->d_name) == dirfd(dir))
				continue;
			target[n > 0 ? n : 0] = '\0';
		}
		snprintf(line, sizeof line, "%s %s", entry->d_name, target);
		add(text, cap, line);
	}
	closedir(dir);
}

static void read_signals(struct self *self)
{
	char line[512];
	FILE *status = fopen("/proc/self/status", "re");

	if (status == NULL)
		exit(2);
	while (fgets(line, sizeof line, status) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0)
			add(self->signals, sizeof self->signals, line);
	}
	fclose(status);
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) != 0)
			continue;
		snprintf(line, sizeof line, "%d %p %x", number, *(void **)(void *)&action.sa_handler, (unsigned)action.sa_flags);
		add(self->signals, sizeof self->signals, line);
	}
}

static void look(struct self *self)
{
	memset(self, 0, sizeof *self);
	read_maps(self);
	read_folder("/proc/self/fd", 1, self->fds, sizeof self->fds);
	read_folder("/proc/self/task", 0, self->tasks, sizeof self->tasks);
	read_signals(self);
	for (char **variable = environ; *variable != NULL; variable++)
		add(self->environment, sizeof self->environment, *variable);
	for (int resource = 0; resource < (int)RLIM_NLIMITS; resource++) {
		struct rlimit limit = {0, 0};
		char line[128];

		getrlimit((__rlimit_resource_t)resource, &limit);
		snprintf(line, sizeof line, "%d %llu %llu", resource, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
		add(self->limits, sizeof self->limits, line);
	}
	if (getcwd(self->folder, sizeof self->folder) == NULL)
		exit(2);
	self->mask = umask(0);
	umask(self->mask);
	self->priority = getpriority(PRIO_PROCESS, 0);
}

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
	same(call, "mapped files", before.maps, after.maps);
	same(call, "descriptors", before.fds, after.fds);
	same(call, "threads", before.tasks, after.tasks);
	same(call, "signals", before.signals, after.signals);
	same(call, "environment", before.environment, after.environment);
	same(call, "limits", before.limits, after.limits);
	same(call, "working directory", before.folder, after.folder);
	if (quiet) {
		planted_seen |= before.mask != after.mask;
		return;
	}
	CHECK(before.mask, after.mask);
	CHECK(before.priority, after.priority);
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
	look(&before);
	status = p2psafe_context_new(&ctx, NULL, NULL, &err);
	if (status == P2PSAFE_OK)
		status = call(ctx, options, &report, &err);
	p2psafe_report_json(report, &json, NULL);
	kept = p2psafe_report_is_kept(report);
	p2psafe_report_free(report);
	p2psafe_context_free(ctx);
	look(&after);
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
static int plant;
static int planted_fd;
static char planted_folder[4096];

static void disturb(void)
{
	planted_fd = -1;
	switch (plant) {
	case 0:
		planted_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		break;
	case 1:
		setenv("P2PSAFE_PLANTED", "1", 1);
		break;
	case 2:
		signal(SIGUSR1, SIG_IGN);
		break;
	case 3:
		if (getcwd(planted_folder, sizeof planted_folder) == NULL || chdir("/proc") != 0)
			exit(2);
		break;
	case 4:
		umask(before.mask ^ 0111);
		break;
	case 5:
		if (write(1, "x", 1) != 1)
			exit(2);
		break;
	default:
		break;
	}
}

static void undo(void)
{
	if (planted_fd >= 0)
		close(planted_fd);
	unsetenv("P2PSAFE_PLANTED");
	signal(SIGUSR1, SIG_DFL);
	if (planted_folder[0] != '\0' && chdir(planted_folder) != 0)
		exit(2);
	planted_folder[0] = '\0';
	umask(before.mask);
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
	for (plant = 0; plant <= 5; plant++) {
		planted_seen = 0;
		run("planted", disturbing_probe, options, 0);
		undo();
		CHECK(1, planted_seen);
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

	child = host_child();
	all_calls(&options);
	CHECK(child, waitpid(child, &status, 0));
	CHECK(42, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	CHECK(-1, waitpid(-1, NULL, WNOHANG)); /* and none of the library's is left */
	CHECK(ECHILD, errno);

	planted(&options);

	/* a host that ignores SIGCHLD: children vanish unwaited, and the answer is still an answer */
	signal(SIGCHLD, SIG_IGN);
	all_calls(&options);
	CHECK(-1, waitpid(-1, NULL, WNOHANG));

	for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
		CHECK(1, strstr(after.maps, forbidden[i]) == NULL);
	return check_result();
}
