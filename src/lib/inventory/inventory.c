#define _GNU_SOURCE
#include "inventory/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bdf.h"
#include "inventory/gpu_facts.h"

#define NVIDIA 0x10deu
#define DEVICES "/sys/bus/pci/devices"

int32_t p2s_inventory_bound(const struct p2s_gpu *g)
{
	return strcmp(g->driver, "nvidia") == 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* 0 where there is no such attribute. *unsure is set where there is one that cannot be read: that is not the same. */
static uint32_t number(const struct p2s_fsroot *root, const char *address, const char *attribute, int32_t *unsure)
{
	char path[128];
	uint64_t v = 0;
	enum p2s_read r;

	snprintf(path, sizeof path, DEVICES "/%s/%s", address, attribute);
	r = p2s_fsroot_u64(root, path, &v);
	if (r == P2S_READ_OK && v <= UINT32_MAX)
		return (uint32_t)v;
	*unsure |= r != P2S_READ_ABSENT;
	return 0;
}

/* uevent gives driver, class and ids in one read. Returns 1 if it held the ids. */
static int from_uevent(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	char path[128];
	char text[2048];
	char *save = NULL;
	int got = 0;

	snprintf(path, sizeof path, DEVICES "/%s/uevent", g->address);
	if (p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return 0;
	for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		unsigned a, b;

		if (sscanf(line, "PCI_CLASS=%x", &a) == 1) {
			g->class_code = a;
			got |= 1;
		} else if (sscanf(line, "PCI_ID=%x:%x", &a, &b) == 2) {
			g->vendor = a;
			g->device = b;
			got |= 2;
		} else if (sscanf(line, "PCI_SUBSYS_ID=%x:%x", &a, &b) == 2) {
			g->subsystem_vendor = a;
			g->subsystem_device = b;
			got |= 4;
		} else if (strncmp(line, "DRIVER=", 7) == 0) {
			snprintf(g->driver, sizeof g->driver, "%s", line + 7);
		}
	}
	return got == 7;
}

/* Returns 1 if it could not be read whether this is a GPU of the driver. */
static int32_t from_attributes(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	char path[128];
	char link[512];
	int32_t unsure = 0;
	int32_t never_mind = 0;
	enum p2s_read r;

	g->vendor = number(root, g->address, "vendor", &unsure);
	if (g->vendor != NVIDIA)
		return unsure;
	g->class_code = number(root, g->address, "class", &unsure);
	g->device = number(root, g->address, "device", &never_mind);
	g->subsystem_vendor = number(root, g->address, "subsystem_vendor", &never_mind);
	g->subsystem_device = number(root, g->address, "subsystem_device", &never_mind);
	snprintf(path, sizeof path, DEVICES "/%s/driver", g->address);
	r = p2s_fsroot_link(root, path, link, sizeof link);
	if (r == P2S_READ_OK)
		snprintf(g->driver, sizeof g->driver, "%.31s", last_part(link));
	return unsure || (r != P2S_READ_OK && r != P2S_READ_ABSENT);
}

static void read_bars(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	char path[128];
	char text[4096];

	snprintf(path, sizeof path, DEVICES "/%s/resource", g->address);
	if (p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL) == P2S_READ_OK)
		p2s_gpu_facts_resource(text, g);
}

static void read_rest(const struct p2s_fsroot *root, struct p2s_gpu *g, enum p2s_scope scope)
{
	char path[128];
	char text[64];

	read_bars(root, g);
	snprintf(path, sizeof path, DEVICES "/%s/iommu_group/type", g->address);
	if (p2s_fsroot_line(root, path, text, sizeof text) == P2S_READ_OK)
		snprintf(g->domain_type, sizeof g->domain_type, "%.23s", text);
	if (scope == P2S_SCOPE_BOUND)
		return;
	p2s_gpu_facts_read(root, g);
	snprintf(path, sizeof path, DEVICES "/%s/numa_node", g->address);
	if (p2s_fsroot_line(root, path, text, sizeof text) == P2S_READ_OK) {
		char *end;
		long node;

		errno = 0;
		node = strtol(text, &end, 10);
		if (errno == 0 && end != text && *end == '\0' && node >= 0 && node < 65536)
			g->numa_node = (int32_t)node;
	}
}

static int32_t add(const struct p2s_fsroot *root, struct p2s_model *m, const char *name, enum p2s_scope scope)
{
	struct p2s_gpu probe = {.ordinal = -1, .driver_order = -1, .minor = -1, .numa_node = -1};
	struct p2s_gpu *g;
	uint32_t kind;

	if (!p2s_bdf_parse(name, &probe.bdf))
		return 1;
	p2s_facts_gpu_init(&probe.facts);
	p2s_bdf_format(&probe.bdf, probe.address);
	if (scope == P2S_SCOPE_ALL || !from_uevent(root, &probe)) {
		/* A walk over all devices looks at one attribute first: most are not NVIDIA's. */
		probe.driver[0] = '\0';
		m->unsure_gpus += from_attributes(root, &probe);
	}
	kind = probe.class_code >> 8;
	if (probe.vendor != NVIDIA || (kind != 0x0300 && kind != 0x0302))
		return 1;
	if (scope == P2S_SCOPE_BOUND && probe.driver[0] == '\0')
		snprintf(probe.driver, sizeof probe.driver, "nvidia");
	read_rest(root, &probe, scope);
	g = p2s_model_add_gpu(m);
	if (g == NULL)
		return m->gpu_count == P2S_MAX_GPUS; /* the 65th GPU and later ones are not looked at */
	*g = probe;
	return 1;
}

static int by_address(const void *a, const void *b)
{
	return p2s_bdf_compare(&((const struct p2s_gpu *)a)->bdf, &((const struct p2s_gpu *)b)->bdf);
}

int32_t p2s_inventory_read(const struct p2s_fsroot *root, struct p2s_model *m, enum p2s_scope scope)
{
	char **names = NULL;
	size_t count = 0;
	int32_t ok = 1;
	enum p2s_read r = P2S_READ_ABSENT;

	if (scope == P2S_SCOPE_BOUND)
		r = p2s_fsroot_list(root, "/sys/bus/pci/drivers/nvidia", &names, &count);
	if (r != P2S_READ_OK) {
		/* Simulated trees may lack the driver's folder; a machine without the module does too. */
		if (p2s_fsroot_list(root, DEVICES, &names, &count) != P2S_READ_OK)
			return 1;
		for (size_t i = 0; i < count && ok; i++)
			ok = add(root, m, names[i], P2S_SCOPE_ALL);
	} else {
		for (size_t i = 0; i < count && ok; i++)
			ok = add(root, m, names[i], P2S_SCOPE_BOUND);
	}
	p2s_fsroot_names_free(names, count);
	if (m->gpu_count > 1)
		qsort(m->gpus, m->gpu_count, sizeof *m->gpus, by_address);
	return ok;
}
