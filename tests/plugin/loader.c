/* Calls the plugin as NCCL does, and as NCCL does when things go less well. Prints what NCCL would see, one line per variable:
 * NAME=value, or NAME alone when it is not set; what goes to NCCL's logger as "LOG level text".
 *
 * usage: loader PLUGIN v1|v2 COMMAND NAME...
 *     get            open, init, ask, finalize
 *     early          ask without init
 *     twice          two inits, as of two libraries of NCCL in one process
 *     threads        eight threads begin at once
 *     reload         finalize, close, open again: old pointers still stand, and the answer is the same
 *     fork           a child asks after its parent
 *     fork-deciding  children that are made while another thread decides
 *     recursive      the logger asks for a variable (v2)
 *     clean          what a process is made of stays as it was
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugin/nccl_env.h"

#define THREADS 8
#define CHILDREN 6

extern char **environ;

struct plugin {
	void *handle;
	const struct nccl_env_v1 *v1;
	const struct nccl_env_v2 *v2;
};

static const char *path;
static int version;
static char **names;
static int name_count;
static const struct plugin *asked_by_logger;

static void fail(const char *what)
{
	printf("FAILED %s\n", what);
	fflush(stdout);
	_exit(1);
}

__attribute__((format(printf, 5, 6)))
static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (flags == 0 || file == NULL || line < 0 || strchr(text, '\n') != NULL)
		fail("logger: odd arguments");
	printf("LOG %s %s\n", level == NCCL_LOG_WARN ? "warn" : level == NCCL_LOG_INFO ? "info" : "?", text);
	if (asked_by_logger != NULL && asked_by_logger->v2->get_env("NCCL_DEBUG") != getenv("NCCL_DEBUG"))
		fail("recursive: another value");
}

static struct plugin load(void)
{
	struct plugin p = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

	if (p.handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	p.v1 = dlsym(p.handle, "ncclEnvPlugin_v1");
	p.v2 = dlsym(p.handle, "ncclEnvPlugin_v2");
	if (p.v1 == NULL || p.v2 == NULL || strcmp(p.v1->name, "p2psafe") != 0 || strcmp(p.v2->name, "p2psafe") != 0)
		fail("symbols");
	return p;
}

static void init(const struct plugin *p)
{
	int rc = version == 1 ? p->v1->init(2, 28, 9, "") : p->v2->init(2, 30, 7, "", logger);

	if (rc != NCCL_SUCCESS)
		fail("init");
}

static void end(const struct plugin *p)
{
	if ((version == 1 ? p->v1->finalize() : p->v2->finalize()) != NCCL_SUCCESS)
		fail("finalize");
}

static const char *ask(const struct plugin *p, const char *name)
{
	return version == 1 ? p->v1->get_env(name) : p->v2->get_env(name);
}

static void print_all(const struct plugin *p)
{
	for (int i = 0; i < name_count; i++) {
		const char *value = ask(p, names[i]);

		printf("%s%s%s\n", names[i], value != NULL ? "=" : "", value != NULL ? value : "");
	}
	fflush(stdout);
}

static void check_all(const struct plugin *p, const char *const *wanted, const char *what)
{
	for (int i = 0; i < name_count; i++) {
		const char *value = ask(p, names[i]);

		if (value != wanted[i] && (value == NULL || wanted[i] == NULL || strcmp(value, wanted[i]) != 0))
			fail(what);
	}
}

static void take_all(const struct plugin *p, const char **values)
{
	for (int i = 0; i < name_count; i++)
		values[i] = ask(p, names[i]);
}

static pthread_barrier_t together;

static void *one_thread(void *user)
{
	struct plugin p = load();
	const char **values = user;

	pthread_barrier_wait(&together);
	init(&p);
	take_all(&p, values);
	return NULL;
}

static void threads(void)
{
	static const char *values[THREADS][32];
	pthread_t id[THREADS];
	struct plugin p = load();

	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&id[i], NULL, one_thread, values[i]) != 0)
			fail("thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	for (int i = 1; i < THREADS; i++)
		if (memcmp(values[i], values[0], sizeof values[0]) != 0)
			fail("threads: different pointers");
	print_all(&p);
}

static void reload(void)
{
	static const char *before[32];
	static char copies[32][256];
	struct plugin p = load();

	init(&p);
	take_all(&p, before);
	for (int i = 0; i < name_count; i++)
		snprintf(copies[i], sizeof copies[i], "%s", before[i] != NULL ? before[i] : "");
	end(&p);
	if (dlclose(p.handle) != 0)
		fail("dlclose");
	for (int i = 0; i < name_count; i++)
		if (before[i] != NULL && strcmp(before[i], copies[i]) != 0)
			fail("reload: a value did not survive");
	p = load();
	init(&p);
	check_all(&p, before, "reload: another answer");
	print_all(&p);
}

/* Returns 1 if the child found what its parent finds. A child that hangs is ended by its alarm. */
static int child_ends_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void after_fork(void)
{
	static const char *values[32];
	struct plugin p = load();
	pid_t pid;

	init(&p);
	take_all(&p, values);
	print_all(&p);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		check_all(&p, values, "fork: another answer");
		_exit(0);
	}
	if (!child_ends_well(pid))
		fail("fork");
}

static atomic_int decided;

static void *decide(void *user)
{
	init(user);
	atomic_store(&decided, 1);
	return NULL;
}

/* Forks at several moments of the decision, whose length nobody knows: each child must come to the same answer. */
static void fork_deciding(void)
{
	static const char *values[32];
	struct plugin p = load();
	pid_t pid[CHILDREN];
	int report[2];
	pthread_t id;
	int during = 0;

	if (pipe(report) != 0 || pthread_create(&id, NULL, decide, &p) != 0)
		fail("thread");
	for (int i = 0; i < CHILDREN; i++) {
		struct timespec pause = {.tv_nsec = 4000000};

		nanosleep(&pause, NULL);
		during += !atomic_load(&decided);
		pid[i] = fork();
		if (pid[i] == 0) {
			char line[512] = "";

			alarm(100);
			for (int k = 0; k < name_count; k++) {
				const char *value = ask(&p, names[k]);

				snprintf(line + strlen(line), sizeof line - strlen(line), "%s=%s;", names[k], value != NULL ? value : "-");
			}
			_exit(write(report[1], line, 256) == 256 ? 0 : 1);
		}
	}
	pthread_join(id, NULL);
	take_all(&p, values);
	for (int i = 0; i < CHILDREN; i++) {
		char line[512] = "";
		char got[256];

		if (!child_ends_well(pid[i]) || read(report[0], got, sizeof got) != (ssize_t)sizeof got)
			fail("fork-deciding: a child");
		for (int k = 0; k < name_count; k++)
			snprintf(line + strlen(line), sizeof line - strlen(line), "%s=%s;", names[k], values[k] != NULL ? values[k] : "-");
		if (strncmp(line, got, sizeof got) != 0)
			fail("fork-deciding: another answer");
	}
	print_all(&p);
	printf("during %d\n", during);
}

/* Descriptors, threads, signals, environment and folder of this process as text. */
static void look(char *text, size_t cap)
{
	char line[512];
	FILE *status = fopen("/proc/self/status", "re");
	DIR *fds;
	int count = 0;

	text[0] = '\0';
	while (status != NULL && fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, "Threads", 7) == 0 || strncmp(line, "SigBlk", 6) == 0 || strncmp(line, "SigIgn", 6) == 0 ||
		    strncmp(line, "SigCgt", 6) == 0 || strncmp(line, "SigPnd", 6) == 0)
			snprintf(text + strlen(text), cap - strlen(text), "%s", line);
	if (status != NULL)
		fclose(status);
	fds = opendir("/proc/self/fd");
	while (fds != NULL && readdir(fds) != NULL)
		count++;
	if (fds != NULL)
		closedir(fds);
	snprintf(text + strlen(text), cap - strlen(text), "descriptors %d\n", count);
	for (char **e = environ; *e != NULL; e++)
		snprintf(text + strlen(text), cap - strlen(text), "%s\n", *e);
	if (getcwd(line, sizeof line) != NULL)
		snprintf(text + strlen(text), cap - strlen(text), "%s\n", line);
}

static void clean(void)
{
	static char before[65536];
	static char after[65536];
	struct plugin p = load();

	look(before, sizeof before);
	init(&p);
	print_all(&p);
	look(after, sizeof after);
	if (strstr(before, "Threads:\t1\n") == NULL || strcmp(before, after) != 0) {
		printf("--- before\n%s--- after\n%s", before, after);
		fail("clean");
	}
	if (waitpid(-1, NULL, WNOHANG) != -1)
		fail("clean: a child is left");
}

int main(int argc, char **argv)
{
	struct plugin p;

	if (argc < 4 || (strcmp(argv[2], "v1") != 0 && strcmp(argv[2], "v2") != 0)) {
		fprintf(stderr, "usage: loader PLUGIN v1|v2 COMMAND NAME...\n");
		return 2;
	}
	path = argv[1];
	version = argv[2][1] - '0';
	names = argv + 4;
	name_count = argc - 4 < 32 ? argc - 4 : 32;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(argv[3], "threads") == 0) {
		threads();
	} else if (strcmp(argv[3], "reload") == 0) {
		reload();
	} else if (strcmp(argv[3], "fork") == 0) {
		after_fork();
	} else if (strcmp(argv[3], "fork-deciding") == 0) {
		fork_deciding();
	} else if (strcmp(argv[3], "clean") == 0) {
		clean();
	} else {
		p = load();
		if (strcmp(argv[3], "recursive") == 0)
			asked_by_logger = &p;
		if (strcmp(argv[3], "early") != 0)
			init(&p);
		if (strcmp(argv[3], "twice") == 0)
			init(&p);
		print_all(&p);
		end(&p);
	}
	return 0;
}
