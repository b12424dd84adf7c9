/* GPUs, the bridges above them, their IOMMU groups, and the device nodes. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bdf.h"
#include "gather.h"

#define DEVICES "/sys/bus/pci/devices"
#define NVIDIA 0x10de
#define DISPLAY 0x03 /* base class */
#define CONFIG_MAX 4096
#define CAP_VPD 0x03      /* vital product data: serial numbers */
#define EXT_SERIAL 0x0003 /* device serial number */
#define CAP_LIST_START 0x34
#define EXT_LIST_START 0x100

static void attribute_path(char *out, size_t cap, const char *address, const char *name)
{
	snprintf(out, cap, DEVICES "/%s/%s", address, name);
}

static uint64_t number(const struct gather *g, const char *address, const char *name)
{
	char path[256];
	uint64_t v = 0;
	attribute_path(path, sizeof(path), address, name);
	return p2s_fsroot_u64(&g->from, path, &v) == P2S_READ_OK ? v : 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

/* Zeroes serial numbers and what is left of product data, in place. */
static void blank(unsigned char *config, size_t len)
{
	size_t at = len > CAP_LIST_START ? config[CAP_LIST_START] & 0xfcu : 0;
	for (int i = 0; at >= 0x40 && at + 8 <= len && i < 48; i++) {
		size_t next = config[at + 1] & 0xfcu;
		if (config[at] == CAP_VPD)
			memset(config + at + 2, 0, 6);
		at = next;
	}
	at = EXT_LIST_START;
	for (int i = 0; at >= EXT_LIST_START && at + 12 <= len && i < 480; i++) {
		uint32_t head = (uint32_t)config[at] | (uint32_t)config[at + 1] << 8 | (uint32_t)config[at + 2] << 16 |
						(uint32_t)config[at + 3] << 24;
		if ((head & 0xffff) == EXT_SERIAL)
			memset(config + at + 4, 0, 8);
		at = head >> 20;
	}
}

/* Configuration space: not of a sleeping device, which it would wake, and not of a GPU that another driver holds. */
static void take_config(struct gather *g, const char *address, const char *to, int may)
{
	unsigned char config[CONFIG_MAX + 1];
	char path[256], out[512], state[32];
	size_t len = 0;
	attribute_path(path, sizeof(path), address, "power_state");
	if (!may || (p2s_fsroot_line(&g->from, path, state, sizeof(state)) == P2S_READ_OK && strncmp(state, "D3", 2) == 0))
		return;
	attribute_path(path, sizeof(path), address, "config");
	if (p2s_fsroot_read(&g->from, path, (char *)config, sizeof(config), &len, NULL) != P2S_READ_OK)
		return;
	blank(config, len);
	snprintf(out, sizeof(out), "%s/config", to);
	gather_write(g, out, config, len);
}

static void take_attributes(struct gather *g, const char *address, const char *to)
{
	static const char *const names[] = {
#define P2S_GATHER_FILE(path, how)
#define P2S_GATHER_ATTRIBUTE(name) name,
#define P2S_GATHER_WORD(start)
#include "gather.def"
#undef P2S_GATHER_WORD
#undef P2S_GATHER_ATTRIBUTE
#undef P2S_GATHER_FILE
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[256], text[8192], out[512];
		size_t len = 0;
		attribute_path(path, sizeof(path), address, names[i]);
		if (p2s_fsroot_read(&g->from, path, text, sizeof(text), &len, NULL) != P2S_READ_OK)
			continue;
		snprintf(out, sizeof(out), "%s/%s", to, names[i]);
		gather_write(g, out, text, len);
	}
}

/* A link of a device to a place below /sys: "../" for each part of the device's own path. */
static void link_up(struct gather *g, const char *to, const char *name, const char *below_sys)
{
	char path[640], text[512] = "";
	size_t used = 0;
	for (const char *p = strstr(to, "devices/"); p != NULL; p = strchr(p + 1, '/'))
		if (used + 4 < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "../");
	snprintf(text + used, sizeof(text) - used, "%s", below_sys);
	snprintf(path, sizeof(path), "%s/%s", to, name);
	gather_link(g, path, text);
}

static void take_group(struct gather *g, const char *address, const char *to)
{
	char path[256], link[512], type[64], below[128], out[256], text[600];
	attribute_path(path, sizeof(path), address, "iommu_group");
	if (p2s_fsroot_link(&g->from, path, link, sizeof(link)) != P2S_READ_OK || strlen(last_part(link)) > 15)
		return;
	snprintf(below, sizeof(below), "kernel/iommu_groups/%s", last_part(link));
	link_up(g, to, "iommu_group", below);
	snprintf(out, sizeof(out), "root/sys/%s/devices/%s", below, address);
	snprintf(text, sizeof(text), "../../../../%s", to + strlen("root/sys/"));
	gather_link(g, out, text);
	attribute_path(path, sizeof(path), address, "iommu_group/type");
	if (p2s_fsroot_line(&g->from, path, type, sizeof(type)) != P2S_READ_OK)
		return;
	/* Devices of one group come here one after another: the first writes its type. */
	snprintf(out, sizeof(out), "sys/%s/type", below);
	struct p2s_fsroot mine = {.fd = g->to, .simulated = 1};
	snprintf(text, sizeof(text), "/root/%s", out);
	if (p2s_fsroot_exists(&mine, text))
		return;
	snprintf(text, sizeof(text), "root/%s", out);
	size_t len = strlen(type);
	type[len++] = '\n';
	gather_write(g, text, type, len);
}

/* The unit that translates for the device, "<...>/arm-smmu-v3.0.auto/iommu/smmu3.0x5000000": fault lines of ARM name
 * nothing else. */
static void take_unit(struct gather *g, const char *address, const char *to)
{
	char path[256], link[512], below[128];
	attribute_path(path, sizeof(path), address, "iommu");
	if (p2s_fsroot_link(&g->from, path, link, sizeof(link)) != P2S_READ_OK)
		return;
	char *end = strstr(link, "/iommu/");
	if (end == NULL)
		return;
	*end = '\0';
	if (strlen(last_part(link)) > 31 || strlen(last_part(end + 1)) > 31)
		return;
	snprintf(below, sizeof(below), "devices/platform/%.31s/iommu/%.31s", last_part(link), last_part(end + 1));
	link_up(g, to, "iommu", below);
}

static void take_driver(struct gather *g, const char *address, const char *to, char *driver, size_t cap)
{
	char path[256], link[512], below[128], out[256], text[600];
	driver[0] = '\0';
	attribute_path(path, sizeof(path), address, "driver");
	if (p2s_fsroot_link(&g->from, path, link, sizeof(link)) != P2S_READ_OK || strlen(last_part(link)) > 31)
		return;
	snprintf(driver, cap, "%s", last_part(link));
	snprintf(below, sizeof(below), "bus/pci/drivers/%s", driver);
	link_up(g, to, "driver", below);
	snprintf(out, sizeof(out), "root/sys/%s/%s", below, address);
	snprintf(text, sizeof(text), "../../../../%s", to + strlen("root/sys/"));
	gather_link(g, out, text);
}

/* One device at its place below /sys/devices, once. */
static void take_device(struct gather *g, const char *address, const char *place, int is_gpu)
{
	char to[400], path[256], link[512], driver[32];
	struct p2s_fsroot mine = {.fd = g->to, .simulated = 1};
	snprintf(path, sizeof(path), "/root" DEVICES "/%s", address);
	if (p2s_fsroot_link(&mine, path, link, sizeof(link)) == P2S_READ_OK)
		return;
	snprintf(to, sizeof(to), "root/sys/devices/%s", place);
	gather_folder(g, to);
	snprintf(link, sizeof(link), "../../../devices/%s", place);
	gather_link(g, path + 1, link);
	take_attributes(g, address, to);
	take_group(g, address, to);
	take_unit(g, address, to);
	take_driver(g, address, to, driver, sizeof(driver));
	take_config(g, address, to, !is_gpu || strcmp(driver, "nvidia") == 0);
	attribute_path(path, sizeof(path), address, "physfn");
	if (p2s_fsroot_link(&g->from, path, link, sizeof(link)) == P2S_READ_OK) {
		char physfn[420], text[32];
		snprintf(physfn, sizeof(physfn), "%s/physfn", to);
		snprintf(text, sizeof(text), "../%.24s", last_part(link));
		gather_link(g, physfn, text);
	}
}

/* ".../devices/pci0000:40/0000:40:01.0/0000:41:00.0": every part after the root bus is a device. Without the link the GPU
 * stands alone. */
static void take_path(struct gather *g, const char *address)
{
	char path[256], link[1024], place[360] = "", *save = NULL;
	struct p2psafe_bdf bdf;
	snprintf(path, sizeof(path), DEVICES "/%s", address);
	if (p2s_fsroot_link(&g->from, path, link, sizeof(link)) == P2S_READ_OK) {
		for (char *part = strtok_r(link, "/", &save); part != NULL; part = strtok_r(NULL, "/", &save)) {
			size_t len = strlen(place);
			int is_bus = len == 0 && strncmp(part, "pci", 3) == 0;
			if (!is_bus && (len == 0 || !p2s_bdf_parse(part, &bdf)))
				continue;
			if (len + strlen(part) + 2 >= sizeof(place))
				return;
			snprintf(place + len, sizeof(place) - len, "%s%s", len > 0 ? "/" : "", part);
			if (!is_bus)
				take_device(g, part, place, strcmp(part, address) == 0);
		}
	}
	if (strcmp(last_part(place), address) != 0) {
		snprintf(place, sizeof(place), "pci%.7s/%s", address, address);
		take_device(g, address, place, 1);
	}
}

static void take_names(struct gather *g, const char *folder, int (*wanted)(const char *), int as_folder)
{
	char **names;
	size_t count;
	if (p2s_fsroot_list(&g->from, folder, &names, &count) != P2S_READ_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		char to[400];
		if (!wanted(names[i]))
			continue;
		snprintf(to, sizeof(to), "root%s/%.200s", folder, names[i]);
		if (as_folder)
			gather_folder(g, to);
		else
			gather_write(g, to, "", 0);
	}
	p2s_fsroot_names_free(names, count);
}

static int any_name(const char *name)
{
	return name[0] != '\0';
}

static int is_node(const char *name)
{
	return strncmp(name, "nvidia", 6) == 0 &&
		   (isdigit((unsigned char)name[6]) || strcmp(name, "nvidiactl") == 0 || strcmp(name, "nvidia-uvm") == 0);
}

void gather_tree(struct gather *g)
{
	char **names;
	size_t count;
	gather_folder(g, "root/sys/class");
	gather_folder(g, "root/sys/kernel");
	gather_folder(g, "root" DEVICES);
	if (p2s_fsroot_list(&g->from, DEVICES, &names, &count) == P2S_READ_OK) {
		for (size_t i = 0; i < count; i++) {
			struct p2psafe_bdf bdf;
			if (p2s_bdf_parse(names[i], &bdf) && number(g, names[i], "vendor") == NVIDIA &&
				number(g, names[i], "class") >> 16 == DISPLAY)
				take_path(g, names[i]);
		}
		p2s_fsroot_names_free(names, count);
	}
	if (p2s_fsroot_exists(&g->from, "/sys/class/iommu")) {
		gather_folder(g, "root/sys/class/iommu");
		take_names(g, "/sys/class/iommu", any_name, 1);
	}
	take_names(g, "/dev", is_node, 0);
}
