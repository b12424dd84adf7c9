#include "inventory/gpu_facts.h"

#include <stdio.h>
#include <string.h>

#define DEVICES "/sys/bus/pci/devices"

struct line {
	unsigned long long start, end, flags;
};

/* A line per BAR: start, end and flags in hex; all zero: unused. A BAR that found no place keeps its size and flags and has the
 * flag UNSET (drivers/pci/pci-sysfs.c, resource_show). */
static int read_lines(const char *text, struct line *lines)
{
	int count = 0;

	while (*text != '\0' && count < P2S_BARS) {
		struct line *l = &lines[count];

		if (sscanf(text, "%llx %llx %llx", &l->start, &l->end, &l->flags) != 3)
			break;
		count++;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return count;
}

void p2s_gpu_facts_resource(const char *text, struct p2s_gpu *g)
{
	struct line lines[P2S_BARS] = {{0}};
	int count = read_lines(text, lines);
	int window;

	for (int i = 0; i < count; i++) {
		if (lines[i].end <= lines[i].start || (lines[i].flags & P2S_RESOURCE_UNSET) != 0)
			continue;
		g->bar_start[i] = lines[i].start;
		g->bar_bytes[i] = lines[i].end - lines[i].start + 1;
	}
	if (count < 3)
		return;
	window = (lines[0].flags & P2S_RESOURCE_64BIT) != 0 ? 2 : 1;
	if (lines[0].flags != 0) /* else nobody knows how wide BAR0 is */
		g->facts.bar1_index = window;
	g->bar1_bytes = lines[window].end > lines[window].start ? lines[window].end - lines[window].start + 1 : 0;
	/* Every GPU has this window. An empty line beside a register window means that the kernel gave up on it. */
	if (g->bar_bytes[window] != 0 && g->bar_start[window] != 0)
		g->facts.bar1_assigned = P2S_YES;
	else if (g->bar_bytes[0] != 0 || (lines[window].flags & P2S_RESOURCE_UNSET) != 0)
		g->facts.bar1_assigned = P2S_NO;
}

static int32_t flag(const struct p2s_fsroot *root, const char *address, const char *attribute)
{
	char path[128];
	uint64_t v;

	snprintf(path, sizeof path, DEVICES "/%s/%s", address, attribute);
	return p2s_fsroot_u64(root, path, &v) == P2S_READ_OK && v <= 1 ? (int32_t)v : P2S_UNREAD;
}

/* "D0", "D3hot", "D3cold", "unknown", "error". Kernels before 5.11 have no such file; runtime power management tells too. */
static int32_t asleep(const struct p2s_fsroot *root, const char *address)
{
	char path[128];
	char text[32];

	snprintf(path, sizeof path, DEVICES "/%s/power_state", address);
	if (p2s_fsroot_line(root, path, text, sizeof text) == P2S_READ_OK && text[0] == 'D')
		return text[1] == '3';
	snprintf(path, sizeof path, DEVICES "/%s/power/runtime_status", address);
	if (p2s_fsroot_line(root, path, text, sizeof text) == P2S_READ_OK)
		return strcmp(text, "suspended") == 0 ? P2S_YES : strcmp(text, "active") == 0 ? P2S_NO : P2S_UNREAD;
	return P2S_UNREAD;
}

/* The device's own link runs through its root bus: ".../devices/pci0000:40/...". */
static void root_bus(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	char path[128];
	char link[2048];
	const char *at;

	snprintf(path, sizeof path, DEVICES "/%s", g->address);
	if (p2s_fsroot_link(root, path, link, sizeof link) != P2S_READ_OK)
		return;
	at = strstr(link, "/pci");
	if (at != NULL && strcspn(at + 1, "/") < sizeof g->facts.root_bus)
		snprintf(g->facts.root_bus, sizeof g->facts.root_bus, "%.*s", (int)strcspn(at + 1, "/"), at + 1);
}

void p2s_gpu_facts_read(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	struct p2s_gpu_facts *f = &g->facts;
	char path[128];
	char text[512];
	uint64_t v;

	root_bus(root, g);
	f->boot_vga = flag(root, g->address, "boot_vga");
	f->asleep = asleep(root, g->address);
	snprintf(path, sizeof path, DEVICES "/%s/physfn", g->address);
	switch (p2s_fsroot_link(root, path, text, sizeof text)) {
	case P2S_READ_OK:
		f->is_vf = P2S_YES;
		break;
	case P2S_READ_ABSENT:
		f->is_vf = P2S_NO;
		break;
	default:
		break;
	}
	snprintf(path, sizeof path, DEVICES "/%s/dma_mask_bits", g->address);
	if (p2s_fsroot_u64(root, path, &v) == P2S_READ_OK && v <= 64)
		f->dma_mask_bits = (uint32_t)v;
}
