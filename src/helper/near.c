#define _GNU_SOURCE
#include "helper/near.h"

#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NODES 1024 /* bits of the node mask: CONFIG_NODES_SHIFT is at most 10 */

/* libnuma prints what it dislikes and may end the process; this program says nothing. */
void numa_error(char *where);
void numa_warn(int number, char *where, ...);

void numa_error(char *where)
{
	(void)where;
}

void numa_warn(int number, char *where, ...)
{
	(void)number;
	(void)where;
}

int32_t p2s_near_node(const char *address)
{
	char path[128];
	char text[16];
	ssize_t n;
	long node;
	char *end;
	int fd;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", address);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	node = strtol(text, &end, 10);
	return end != text && node >= 0 && node < NODES ? (int32_t)node : -1;
}

int p2s_near_bind(int32_t node)
{
	struct bitmask *cpus;
	cpu_set_t allowed;
	cpu_set_t want;
	int any = 0;

	if (node < 0 || numa_available() < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		return 0;
	cpus = numa_allocate_cpumask();
	CPU_ZERO(&want);
	if (cpus != NULL && node <= numa_max_node() && numa_node_to_cpus(node, cpus) == 0) {
		for (unsigned i = 0; i < CPU_SETSIZE && i < cpus->size; i++) {
			if (CPU_ISSET(i, &allowed) && numa_bitmask_isbitset(cpus, i)) {
				CPU_SET(i, &want);
				any = 1;
			}
		}
	}
	if (cpus != NULL)
		numa_free_cpumask(cpus);
	return any && sched_setaffinity(0, sizeof want, &want) == 0;
}

int p2s_near_place(int32_t node, void *at, uint64_t bytes)
{
	unsigned long mask[NODES / (8 * sizeof(unsigned long))] = {0};
	const unsigned bits = 8 * sizeof mask[0];

	/* A node that is not there would be taken as "wherever the thread runs". */
	if (node < 0 || node >= NODES || numa_available() < 0 || node > numa_max_node())
		return 0;
	mask[(unsigned)node / bits] |= 1UL << ((unsigned)node % bits);
	return mbind(at, bytes, MPOL_PREFERRED, mask, NODES, 0) == 0;
}
