/* A private folder per test, removed with everything in it. */
#ifndef P2S_TESTS_TMPDIR_H
#define P2S_TESTS_TMPDIR_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void tmp_make(char *path, size_t cap)
{
	snprintf(path, cap, "/tmp/p2psafe-test-XXXXXX");
	if (mkdtemp(path) == NULL)
		abort();
}

static inline void tmp_remove(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		char below[1024];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(below, sizeof below, "%.700s/%.255s", path, e->d_name);
		if (lstat(below, &st) == 0 && S_ISDIR(st.st_mode))
			tmp_remove(below);
		else
			unlink(below);
	}
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

/* Writes a file below base, making its folders. */
static inline void tmp_write(const char *base, const char *name, const char *text)
{
	char path[1024];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", base, name);
	for (char *p = path + strlen(base) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "w");
	if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
		abort();
}

static inline void tmp_link(const char *base, const char *name, const char *to)
{
	char path[1024];

	snprintf(path, sizeof path, "%s/%s", base, name);
	if (symlink(to, path) != 0)
		abort();
}

/* A simulated host of n GPUs 0000:01:00.0, 0000:02:00.0, ... bound to nvidia, with device nodes. */
static inline void tmp_host(const char *base, int n)
{
	char name[256];
	char text[256];

	tmp_write(base, "host.json", "{\"description\": \"made by a test\", \"source\": \"invented\"}");
	tmp_write(base, "root/proc/sys/kernel/osrelease", "6.1.0-test\n");
	tmp_write(base, "root/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
	tmp_write(base, "root/proc/cmdline", "root=/dev/sda quiet iommu=pt\n");
	tmp_write(base, "root/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme\n");
	tmp_write(base, "root/proc/driver/nvidia/version",
	          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (user@host)  Mon\n");
	tmp_write(base, "root/proc/driver/nvidia/params", "DmaRemapPeerMmio: 1\nRmMsg: \"\"\n");
	tmp_write(base, "root/sys/class/dmi/id/bios_version", "1.2\n");
	tmp_write(base, "root/sys/bus/pci/drivers/nvidia/module", "");
	for (int i = 1; i <= n; i++) {
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/vendor", i);
		tmp_write(base, name, "0x10de\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/device", i);
		tmp_write(base, name, "0x2335\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/class", i);
		tmp_write(base, name, "0x030200\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/subsystem_vendor", i);
		tmp_write(base, name, "0x10de\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/subsystem_device", i);
		tmp_write(base, name, "0x18be\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/numa_node", i);
		tmp_write(base, name, "0\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/resource", i);
		snprintf(text, sizeof text,
		         "0x00000000f%x000000 0x00000000f%xffffff 0x0000000000040200\n"
		         "0x0000%02x0000000000 0x0000%02x0fffffffff 0x000000000014220c\n0x0 0x0 0x0\n",
		         i, i, i, i);
		tmp_write(base, name, text);
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/driver", i);
		tmp_link(base, name, "../../drivers/nvidia");
		snprintf(name, sizeof name, "root/sys/kernel/iommu_groups/%d/type", i);
		tmp_write(base, name, "identity\n");
		snprintf(name, sizeof name, "root/sys/bus/pci/devices/0000:%02x:00.0/iommu_group", i);
		snprintf(text, sizeof text, "../../../../kernel/iommu_groups/%d", i);
		tmp_link(base, name, text);
		snprintf(name, sizeof name, "root/sys/bus/pci/drivers/nvidia/0000:%02x:00.0", i);
		snprintf(text, sizeof text, "../../devices/0000:%02x:00.0", i);
		tmp_link(base, name, text);
		snprintf(name, sizeof name, "root/dev/nvidia%d", i - 1);
		tmp_write(base, name, "");
	}
}

#endif
