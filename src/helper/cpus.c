#define _GNU_SOURCE
#include "helper/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST 8 /* below that somebody will want it */
#define PER_GPU 2
#define SET_CPUS 8192 /* CONFIG_NR_CPUS is at most that on the machines with these GPUs */
#define CGROUPS "/sys/fs/cgroup"
#define PATH 1024

uint32_t p2s_cpus_quota(const char *text)
{
	char *end;
	long long quota, period;

	if (strncmp(text, "max", 3) == 0 && (text[3] == ' ' || text[3] == '\n' || text[3] == '\0'))
		return UINT32_MAX;
	quota = strtoll(text, &end, 10);
	if (end == text || (*end != ' ' && *end != '\n'))
		return 0;
	if (quota == -1)
		return UINT32_MAX;
	text = end;
	period = strtoll(text, &end, 10);
	if (end == text || (*end != '\n' && *end != '\0') || quota <= 0 || period <= 0 || quota / period >= UINT32_MAX)
		return 0;
	return (uint32_t)(quota / period);
}

int p2s_cpus_enough(uint32_t cpus, uint32_t gpus)
{
	return cpus >= LEAST && cpus / PER_GPU >= gpus;
}

/* Appends what the file holds. Returns 1 if it could be read. */
static int slurp(const char *path, char *text, size_t cap)
{
	size_t at = strlen(text);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text + at, cap - 1 - at);
	close(fd);
	if (n <= 0)
		return 0;
	text[at + (size_t)n] = '\0';
	return 1;
}

/* The limit of one cgroup. No such file is no limit: the root has none, nor has one without this controller. */
static uint32_t limit_of(const char *folder)
{
	char path[PATH + 64];
	char text[128] = "";

	snprintf(path, sizeof path, "%s/cpu.max", folder);
	if (slurp(path, text, sizeof text))
		return p2s_cpus_quota(text);
	snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
	if (!slurp(path, text, sizeof text))
		return UINT32_MAX;
	snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
	return slurp(path, text, sizeof text) ? p2s_cpus_quota(text) : 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Of own, which begins with a slash, and all above it, in the hierarchy that is mounted at root. */
static uint32_t limits(const char *root, const char *own)
{
	char folder[PATH];
	size_t top = strlen(root);
	uint32_t cpus = UINT32_MAX;

	if ((size_t)snprintf(folder, sizeof folder, "%s%s", root, own) >= sizeof folder)
		return 0;
	for (size_t at = strlen(folder); at >= top; at--) {
		if (folder[at] != '/' && folder[at] != '\0')
			continue;
		folder[at] = '\0';
		cpus = least(cpus, limit_of(folder));
	}
	return cpus;
}

/* A line of /proc/self/cgroup is "number:controllers:path". In a container the path may be one of outside; its own limit is then
 * at the root of what is mounted, which is looked at in any case. */
static uint32_t cgroup_cpus(void)
{
	static const char *const roots[] = {CGROUPS, CGROUPS "/cpu", CGROUPS "/cpu,cpuacct"};
	char text[4096] = "";
	char *save = NULL;
	uint32_t cpus = UINT32_MAX;

	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
		cpus = least(cpus, limit_of(roots[i]));
	if (!slurp("/proc/self/cgroup", text, sizeof text))
		return cpus;
	for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':');
		char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

		if (path == NULL || path[1] != '/')
			continue;
		*path++ = '\0';
		if (controllers[1] == '\0')
			cpus = least(cpus, limits(roots[0], path));
		else if (strcmp(controllers + 1, "cpu") == 0 || strstr(controllers + 1, "cpuacct") != NULL)
			cpus = least(cpus, limits(roots[1], path));
	}
	return cpus;
}

uint32_t p2s_cpus_allowed(void)
{
	cpu_set_t *set = CPU_ALLOC(SET_CPUS);
	uint32_t cpus = 0;

	if (set == NULL)
		return 0;
	if (sched_getaffinity(0, CPU_ALLOC_SIZE(SET_CPUS), set) == 0)
		cpus = (uint32_t)CPU_COUNT_S(CPU_ALLOC_SIZE(SET_CPUS), set);
	CPU_FREE(set);
	return least(cpus, cgroup_cpus());
}
