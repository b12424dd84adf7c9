/* Threads and memory next to a GPU (src/helper/near.c): what a node does, and that no node, a hidden one and one that is not
 * there change nothing. On a machine whose kernel or container keeps its topology to itself every wish fails, quietly. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/near.h"

#define BYTES 65536

static const int32_t nowhere[] = {-1, -2, INT32_MIN, 1023, 1024, 1 << 20, INT32_MAX};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The first node with a CPU that this process may use; -1: the topology is hidden. */
static int32_t some_node(void)
{
	int cpu = sched_getcpu();

	return numa_available() < 0 || cpu < 0 ? -1 : numa_node_of_cpu(cpu);
}

static void a_node_is_read_or_unknown(void **state)
{
	DIR *dir = opendir("/sys/bus/pci/devices");
	struct dirent *e;

	(void)state;
	assert_int_equal(p2s_near_node("ffff:ff:1f.7"), -1);
	assert_int_equal(p2s_near_node(""), -1);
	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char path[400];
		int node = -1;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", e->d_name);
		f = fopen(path, "r");
		if (f == NULL || fscanf(f, "%d", &node) != 1 || node < 0)
			node = -1;
		if (f != NULL)
			fclose(f);
		assert_int_equal(p2s_near_node(e->d_name), node);
	}
	if (dir != NULL)
		closedir(dir);
}

static void a_thread_stays_where_it_may_be(void **state)
{
	int32_t node = some_node();
	cpu_set_t before, after;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	for (size_t i = 0; i < COUNT(nowhere); i++) {
		assert_int_equal(p2s_near_bind(nowhere[i]), 0);
		assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
		assert_true(CPU_EQUAL(&before, &after));
	}
	if (node < 0) {
		assert_int_equal(p2s_near_bind(0), 0);
		return;
	}
	assert_int_equal(p2s_near_bind(node), 1);
	assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
	for (size_t i = 0; i < CPU_SETSIZE; i++)
		assert_int_equal(CPU_ISSET(i, &after) != 0, CPU_ISSET(i, &before) && numa_node_of_cpu((int)i) == node);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static int policy_of(void *at)
{
	int mode = -1;

	return get_mempolicy(&mode, NULL, 0, at, MPOL_F_ADDR) == 0 ? mode : -1;
}

static void pages_are_wished_near(void **state)
{
	int fd = memfd_create("near", MFD_CLOEXEC);
	int32_t node = some_node();
	void *at;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, BYTES) == 0);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	for (size_t i = 0; i < COUNT(nowhere); i++)
		assert_int_equal(p2s_near_place(nowhere[i], at, BYTES), 0);
	assert_true(policy_of(at) == MPOL_DEFAULT || node < 0);
	if (node >= 0) {
		assert_int_equal(p2s_near_place(node, at, BYTES), 1);
		assert_int_equal(policy_of(at), MPOL_PREFERRED);
		memset(at, 1, BYTES); /* a wish, not a limit: the memory is there in any case */
	}
	munmap(at, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_read_or_unknown),
		cmocka_unit_test(a_thread_stays_where_it_may_be),
		cmocka_unit_test(pages_are_wished_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
