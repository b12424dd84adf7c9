#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper/host.h"

#define DEVICES "/sys/bus/pci/devices"
#define CLASS_BRIDGE 0x0604
#define BRIDGES_MAX 2048
#define WINDOWS_FROM 7       /* resource lines of a bridge: six BARs, ROM, then perhaps SR-IOV, then its windows */
#define FLAG_MEM 0x200u      /* IORESOURCE_MEM */
#define FLAG_PREFETCH 0x2000u
#define FLAG_64BIT 0x100000u
#define FLAG_UNSET 0x20000000u

static enum p2s_read line(const struct p2s_fsroot *root, const char *address, const char *attribute, char *text, size_t cap)
{
	char path[160];

	snprintf(path, sizeof path, DEVICES "/%s/%s", address, attribute);
	return p2s_fsroot_line(root, path, text, cap);
}

static uint32_t number(const struct p2s_fsroot *root, const char *address, const char *attribute, uint32_t max)
{
	char path[160];
	uint64_t v;

	snprintf(path, sizeof path, DEVICES "/%s/%s", address, attribute);
	return p2s_fsroot_u64(root, path, &v) == P2S_READ_OK && v <= max ? (uint32_t)v : 0;
}

void p2s_host_driver(const struct p2s_fsroot *root, const char *address, char *out, size_t cap)
{
	char path[160];
	char link[512];
	const char *slash;

	snprintf(path, sizeof path, DEVICES "/%s/driver", address);
	out[0] = '\0';
	if (p2s_fsroot_link(root, path, link, sizeof link) != P2S_READ_OK)
		return;
	slash = strrchr(link, '/');
	snprintf(out, cap, "%.63s", slash != NULL ? slash + 1 : link);
}

int32_t p2s_host_sleeps(const struct p2s_fsroot *root, const char *address)
{
	char text[32];

	if (line(root, address, "power_state", text, sizeof text) == P2S_READ_OK && text[0] == 'D')
		return text[1] == '3';
	/* Kernels before 5.11: a device without runtime power management never sleeps. */
	return line(root, address, "power/runtime_status", text, sizeof text) == P2S_READ_OK && strcmp(text, "suspended") == 0;
}

/* ---- attributes of one hop ---- */

/* "16.0 GT/s PCIe", "2.5 GT/s PCIe", "Unknown". */
static uint32_t speed(const struct p2s_fsroot *root, const char *address, const char *attribute)
{
	char text[64];
	unsigned whole, tenth = 0;

	if (line(root, address, attribute, text, sizeof text) != P2S_READ_OK || strstr(text, "GT/s") == NULL ||
	    sscanf(text, "%4u.%1u", &whole, &tenth) < 1 || whole > 1000)
		return 0;
	return whole * 1000 + tenth * 100;
}

static uint32_t width(const struct p2s_fsroot *root, const char *address, const char *attribute)
{
	return number(root, address, attribute, 32); /* 63 and 255 mean unknown */
}

struct region {
	unsigned long long start, end, flags;
};

static int read_regions(const struct p2s_fsroot *root, const char *address, struct region *out, int max)
{
	char path[160];
	char text[8192];
	const char *at = text;
	int n = 0;

	snprintf(path, sizeof path, DEVICES "/%s/resource", address);
	if (p2s_fsroot_read(root, path, text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return 0;
	while (*at != '\0' && n < max && sscanf(at, "%llx %llx %llx", &out[n].start, &out[n].end, &out[n].flags) == 3) {
		n++;
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return n;
}

static uint64_t size_of(const struct region *r)
{
	return r->end > r->start ? r->end - r->start + 1 : 0;
}

/* Does the bridge hold the frame-buffer window below it? An address inside one of its windows proves it. A window that found no
 * place while the bridge has none that is large enough says no. Bridges that show nothing say nothing. */
static int32_t window_ok(const struct p2s_fsroot *root, const char *bridge, const struct region *bar)
{
	struct region r[24];
	int n = read_regions(root, bridge, r, 24);
	int shown = 0;
	int fits = 0;

	for (int i = WINDOWS_FROM; i < n; i++) {
		if ((r[i].flags & FLAG_MEM) == 0)
			continue;
		shown = 1;
		if ((r[i].flags & FLAG_UNSET) != 0 || size_of(&r[i]) == 0)
			continue;
		if (bar->start != 0 && (bar->flags & FLAG_UNSET) == 0 && bar->start >= r[i].start && bar->end <= r[i].end)
			return P2S_YES;
		fits |= (r[i].flags & FLAG_PREFETCH) != 0 && size_of(bar) != 0 && size_of(&r[i]) >= size_of(bar);
	}
	if (size_of(bar) == 0 || (bar->start != 0 && (bar->flags & FLAG_UNSET) == 0))
		return P2S_UNREAD; /* size not known, or placed in spite of what is shown here */
	return shown && !fits ? P2S_NO : P2S_UNREAD;
}

void p2s_host_loaded(struct p2s_host_state *h, const struct p2s_fsroot *root)
{
	for (uint32_t g = 0; g < h->n; g++) {
		struct p2s_place *p = &h->gpu[g].place;

		for (size_t i = 0; i < p->hops; i++) {
			p->hop[i].speed_loaded_mts = speed(root, p->hop[i].address, "current_link_speed");
			p->hop[i].width_loaded = width(root, p->hop[i].address, "current_link_width");
		}
	}
}

static void attributes(const struct p2s_fsroot *root, struct p2s_hop *hop, const struct region *bar, int last)
{
	hop->vendor = number(root, hop->address, "vendor", 0xffff);
	hop->device = number(root, hop->address, "device", 0xffff);
	hop->acs_cap = hop->acs_ctl = P2S_ACS_UNREAD;
	hop->speed_now_mts = speed(root, hop->address, "current_link_speed");
	hop->speed_max_mts = speed(root, hop->address, "max_link_speed");
	hop->width_now = width(root, hop->address, "current_link_width");
	hop->width_max = width(root, hop->address, "max_link_width");
	hop->window_ok = last ? P2S_UNREAD : window_ok(root, hop->address, bar);
}

/* What a hop is by its place, for those whose capability cannot be read: root port, then pairs of upstream and downstream ports.
 * Where that does not come out even, a bridge of another kind is among them. */
static void kinds_by_place(struct p2s_place *p)
{
	size_t between = p->hops >= 2 ? p->hops - 2 : 0;

	for (size_t i = 0; i < p->hops; i++) {
		if (i + 1 == p->hops)
			p->hop[i].kind = P2S_HOP_ENDPOINT;
		else if (i == 0)
			p->hop[i].kind = P2S_HOP_ROOT_PORT;
		else
			p->hop[i].kind = between % 2 != 0 ? P2S_HOP_UNKNOWN : i % 2 == 1 ? P2S_HOP_SWITCH_UP : P2S_HOP_SWITCH_DOWN;
	}
}

/* ---- the chain ---- */

/* The kernel's own answer: the link of the device runs through every bridge above it. */
static int place_by_link(const struct p2s_fsroot *root, const char *address, struct p2s_place *p)
{
	char path[128];
	char text[2048];
	char *save = NULL;

	snprintf(path, sizeof path, DEVICES "/%s", address);
	if (p2s_fsroot_link(root, path, text, sizeof text) != P2S_READ_OK)
		return 0;
	for (char *part = strtok_r(text, "/", &save); part != NULL; part = strtok_r(NULL, "/", &save)) {
		struct p2psafe_bdf bdf;

		if (strncmp(part, "pci", 3) == 0 && p->root[0] == '\0' && p->hops == 0) {
			snprintf(p->root, sizeof p->root, "%.19s", part);
		} else if (p->root[0] != '\0' && p2s_bdf_parse(part, &bdf)) {
			if (p->hops == P2S_HOPS)
				return 0;
			p2s_bdf_format(&bdf, p->hop[p->hops++].address);
		}
	}
	return p->root[0] != '\0' && p->hops > 0 && strcmp(p->hop[p->hops - 1].address, address) == 0;
}

struct bridge {
	struct p2psafe_bdf bdf;
	uint32_t secondary;
};

struct bridges {
	struct bridge *list;
	size_t count;
};

static void list_bridges(const struct p2s_fsroot *root, struct bridges *b)
{
	char **names;
	size_t count;

	b->count = 0;
	b->list = calloc(BRIDGES_MAX, sizeof *b->list);
	if (b->list == NULL || p2s_fsroot_list(root, DEVICES, &names, &count) != P2S_READ_OK)
		return;
	for (size_t i = 0; i < count && b->count < BRIDGES_MAX; i++) {
		struct bridge *one = &b->list[b->count];

		if (!p2s_bdf_parse(names[i], &one->bdf) || number(root, names[i], "class", 0xffffff) >> 8 != CLASS_BRIDGE)
			continue;
		one->secondary = number(root, names[i], "secondary_bus_number", 255);
		b->count += one->secondary > 0;
	}
	p2s_fsroot_names_free(names, count);
}

static const struct bridge *bridge_above(const struct bridges *b, const struct p2psafe_bdf *below)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->list[i].bdf.domain == below->domain && b->list[i].secondary == below->bus && b->list[i].bdf.bus != below->bus)
			return &b->list[i];
	return NULL;
}

/* Where the links are missing: by the bus numbers of the bridges. A loop never ends and so never fits. */
static int place_by_bus(const struct bridges *b, const char *address, struct p2s_place *p)
{
	struct p2psafe_bdf up[P2S_HOPS];
	const struct bridge *above;
	size_t n = 0;

	if (!p2s_bdf_parse(address, &up[n++]))
		return 0;
	while ((above = bridge_above(b, &up[n - 1])) != NULL) {
		if (n == P2S_HOPS)
			return 0;
		up[n++] = above->bdf;
	}
	snprintf(p->root, sizeof p->root, "pci%04x:%02x", up[n - 1].domain, up[n - 1].bus);
	for (size_t i = 0; i < n; i++)
		p2s_bdf_format(&up[n - 1 - i], p->hop[i].address);
	p->hops = n;
	return 1;
}

static void look(struct p2s_host_state *h, struct p2s_host_gpu *g, struct bridges *b)
{
	struct region bars[6] = {{0}};
	char text[64];
	int n = read_regions(&h->root, g->address, bars, 6);

	g->bar = n > 0 && (bars[0].flags & FLAG_64BIT) != 0 ? 2 : 1;
	g->place.node = -1;
	if (line(&h->root, g->address, "numa_node", text, sizeof text) == P2S_READ_OK && text[0] >= '0' && text[0] <= '9' &&
	    strlen(text) < 6)
		g->place.node = atoi(text);
	p2s_host_driver(&h->root, g->address, text, sizeof text);
	g->bound = strcmp(text, "nvidia") == 0;
	if (!place_by_link(&h->root, g->address, &g->place)) {
		memset(g->place.hop, 0, sizeof g->place.hop);
		g->place.root[0] = '\0';
		g->place.hops = 0;
		if (b->list == NULL)
			list_bridges(&h->root, b);
		if (!place_by_bus(b, g->address, &g->place))
			g->place.hops = 0;
	}
	for (size_t i = 0; i < g->place.hops; i++)
		attributes(&h->root, &g->place.hop[i], &bars[g->bar], i + 1 == g->place.hops);
	kinds_by_place(&g->place);
	g->vendor = number(&h->root, g->address, "vendor", 0xffff);
	g->device = number(&h->root, g->address, "device", 0xffff);
}

void p2s_host_tree(struct p2s_host_state *h)
{
	struct bridges b = {0};

	for (uint32_t i = 0; i < h->n; i++)
		look(h, &h->gpu[i], &b);
	free(b.list);
}
