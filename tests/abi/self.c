#define _GNU_SOURCE
#include "self.h"

#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

const char *const self_names[SELF_PARTS] = {
	"mapped files", "descriptors", "threads", "signals", "environment", "limits", "place"};

static void add(struct self *self, enum self_part part, const char *line)
{
	char *text = self->text[part];
	size_t used = strlen(text);

	if (used + strlen(line) + 2 > SELF_BYTES) {
		fprintf(stderr, "self: no room for %s\n", line);
		exit(2);
	}
	memcpy(text + used, line, strlen(line));
	text[used + strlen(line)] = '\n';
	text[used + strlen(line) + 1] = '\0';
}

static void add_number(struct self *self, enum self_part part, const char *name, long long number)
{
	char line[128];

	snprintf(line, sizeof line, "%s %lld", name, number);
	add(self, part, line);
}

static int has_line(const char *text, const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return 1;
	return 0;
}

/* Names of mapped files. */
static void read_maps(struct self *self)
{
	char line[8192];
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
		char *path = strchr(line, '/');

		if (path == NULL)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (!has_line(self->text[SELF_MAPS], path))
			add(self, SELF_MAPS, path);
	}
	if (maps != NULL)
		fclose(maps);
}

/* Number, flags, position and target of every descriptor. */
static void read_descriptors(struct self *self)
{
	for (int fd = 0; fd < 1024; fd++) {
		char path[64];
		char line[4608];
		char target[4096];
		int flags = fcntl(fd, F_GETFD);
		ssize_t n;

		if (flags < 0)
			continue;
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof target - 1);
		target[n > 0 ? n : 0] = '\0';
		snprintf(line, sizeof line, "%d %x %x %lld %s", fd, (unsigned)flags, (unsigned)fcntl(fd, F_GETFL),
		         (long long)lseek(fd, 0, SEEK_CUR), target);
		add(self, SELF_FDS, line);
	}
}

static void read_tasks(struct self *self)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			add(self, SELF_TASKS, entry->d_name);
	if (dir != NULL)
		closedir(dir);
}

/* A program that is started and ends sends SIGCHLD; where that is blocked it waits from then on. */
static void add_pending(struct self *self, const char *line)
{
	unsigned long long mask = strtoull(strchr(line, ':') + 1, NULL, 16);

	add_number(self, SELF_SIGNALS, "pending", (long long)(mask & ~(1ULL << (SIGCHLD - 1))));
}

/* Handler and flags of each signal; blocked, ignored and caught masks as the kernel has them; timers that send one. */
static void read_signals(struct self *self)
{
	static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
	char line[512];
	FILE *status = fopen("/proc/self/status", "re");
	stack_t stack;

	while (status != NULL && fgets(line, sizeof line, status) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "SigPnd:", 7) == 0 || strncmp(line, "ShdPnd:", 7) == 0)
			add_pending(self, line);
		else if (strncmp(line, "Sig", 3) == 0 && strncmp(line, "SigQ", 4) != 0)
			add(self, SELF_SIGNALS, line);
	}
	if (status != NULL)
		fclose(status);
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) != 0)
			continue;
		snprintf(line, sizeof line, "%d %p %x", number, *(void **)(void *)&action.sa_handler, (unsigned)action.sa_flags);
		add(self, SELF_SIGNALS, line);
	}
	for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
		struct itimerval timer = {0};

		getitimer((__itimer_which_t)timers[i], &timer);
		add_number(self, SELF_SIGNALS, "interval of a timer", timer.it_interval.tv_sec * 1000000 + timer.it_interval.tv_usec);
	}
	if (sigaltstack(NULL, &stack) == 0) {
		snprintf(line, sizeof line, "stack of handlers %p %zu", stack.ss_sp, stack.ss_size);
		add(self, SELF_SIGNALS, line);
	}
}

static void read_limits(struct self *self)
{
	for (int resource = 0; resource < (int)RLIM_NLIMITS; resource++) {
		struct rlimit limit = {0, 0};
		char line[128];

		getrlimit((__rlimit_resource_t)resource, &limit);
		snprintf(line, sizeof line, "%d %llu %llu", resource, (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
		add(self, SELF_LIMITS, line);
	}
}

/* Locale, folder, masks, processors, and the kernel's switches of a process or thread. */
static void read_place(struct self *self)
{
	char line[4608];
	char folder[4096];
	char name[17] = "";
	cpu_set_t cpus;
	mode_t mask = umask(0);
	int reaper = 0;
	int death = 0;

	umask(mask);
	add(self, SELF_PLACE, getcwd(folder, sizeof folder) != NULL ? folder : "no folder");
	add_number(self, SELF_PLACE, "mask", (long long)mask);
	add_number(self, SELF_PLACE, "priority", getpriority(PRIO_PROCESS, 0));
	add_number(self, SELF_PLACE, "group", getpgrp());
	add_number(self, SELF_PLACE, "session", getsid(0));
	snprintf(line, sizeof line, "locale %s", setlocale(LC_ALL, NULL));
	add(self, SELF_PLACE, line);
	snprintf(line, sizeof line, "locale of the thread %p", (void *)uselocale((locale_t)0));
	add(self, SELF_PLACE, line);
	add_number(self, SELF_PLACE, "rounding", fegetround());
	CPU_ZERO(&cpus);
	if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
		for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &cpus))
				add_number(self, SELF_PLACE, "processor", (long long)cpu);
	add_number(self, SELF_PLACE, "policy", sched_getscheduler(0));
	prctl(PR_GET_NAME, name, 0, 0, 0);
	add(self, SELF_PLACE, name);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper, 0, 0, 0);
	add_number(self, SELF_PLACE, "reaper", reaper);
	prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
	add_number(self, SELF_PLACE, "signal at the parent's death", death);
	add_number(self, SELF_PLACE, "dumpable", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
	add_number(self, SELF_PLACE, "no new privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	add_number(self, SELF_PLACE, "slack", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
}

void self_look(struct self *self)
{
	memset(self, 0, sizeof *self);
	read_maps(self);
	read_descriptors(self);
	read_tasks(self);
	read_signals(self);
	for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
		add(self, SELF_ENVIRONMENT, *variable);
	read_limits(self);
	read_place(self);
}
