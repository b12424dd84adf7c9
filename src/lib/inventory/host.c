#define _GNU_SOURCE
#include "inventory/host.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "inventory/driver.h"
#include "inventory/group.h"
#include "inventory/where.h"

/* Command-line words that change how DMA or the driver works (kernel parameters documentation). */
static const char *const cmdline_words[] = {"iommu=",       "iommu.",     "intel_iommu=", "amd_iommu=", "arm-smmu.",
                                            "mem_encrypt=", "pci=",       "pcie_acs_override=", "nvidia.", "vfio",
                                            "swiotlb=",     "kvm_amd.",   "mce="};

/* And one that changes neither, but names a folder of somebody's. */
static const char left_out[] = "nvidia.NVreg_TemporaryFilePath=";

#define CPUS_MAX 65536 /* the kernel's own limit is 8192 (NR_CPUS, x86) */
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void read_cmdline(const struct p2s_fsroot *root, struct p2s_host *host)
{
	char text[8192];
	char *save = NULL;
	size_t used = 0;

	if (p2s_fsroot_line(root, "/proc/cmdline", text, sizeof text) != P2S_READ_OK)
		return;
	for (char *word = strtok_r(text, " \t\n", &save); word != NULL; word = strtok_r(NULL, " \t\n", &save)) {
		size_t n = strlen(word);

		for (size_t i = 0; i < COUNT(cmdline_words); i++) {
			if (strncmp(word, cmdline_words[i], strlen(cmdline_words[i])) != 0 ||
			    strncmp(word, left_out, sizeof left_out - 1) == 0)
				continue;
			if (used + n + 2 <= sizeof host->cmdline) {
				if (used > 0)
					host->cmdline[used++] = ' ';
				memcpy(host->cmdline + used, word, n + 1);
				used += n;
			}
			break;
		}
	}
	if (used == 0)
		snprintf(host->cmdline, sizeof host->cmdline, "-"); /* read, and nothing that matters in it */
}

static void read_module(const struct p2s_fsroot *root, struct p2s_host *host)
{
	char text[64];
	struct stat st;

	if (p2s_fsroot_line(root, "/sys/module/nvidia/srcversion", text, sizeof text) != P2S_READ_OK)
		text[0] = '\0';
	/* A reloaded module gets a new folder in sysfs, hence another inode number. In a simulated tree inode numbers say
	 * nothing. */
	if (!root->simulated && fstatat(root->fd, "sys/module/nvidia", &st, 0) == 0)
		snprintf(host->module, sizeof host->module, "%s/%llu", text, (unsigned long long)st.st_ino);
	else
		snprintf(host->module, sizeof host->module, "%s", text);
}

/* Captured trees often hold /proc/version and no /proc/sys. */
static void read_kernel(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[512];

	int major, minor;

	if (p2s_fsroot_line(root, "/proc/sys/kernel/osrelease", m->kernel, sizeof m->kernel) != P2S_READ_OK &&
	    p2s_fsroot_line(root, "/proc/version", text, sizeof text) == P2S_READ_OK && strncmp(text, "Linux version ", 14) == 0)
		snprintf(m->kernel, sizeof m->kernel, "%.*s", (int)strcspn(text + 14, " "), text + 14);
	if (sscanf(m->kernel, "%3d.%3d", &major, &minor) == 2 && major > 0 && minor >= 0) {
		m->facts.host.kernel_major = major;
		m->facts.host.kernel_minor = minor;
	}
}

static int64_t started(void)
{
	struct timespec up;

	return clock_gettime(CLOCK_BOOTTIME, &up) == 0 ? (int64_t)time(NULL) - (int64_t)up.tv_sec : 0;
}

void p2s_host_read(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m, struct p2s_host *host)
{
	memset(host, 0, sizeof *host);
	m->privileged = seam->simulated ? seam->privileged : geteuid() == 0;
	host->booted_unix = root->simulated ? 0 : started();
	read_kernel(root, m);
	p2s_fsroot_line(root, "/proc/sys/kernel/random/boot_id", host->boot_id, sizeof host->boot_id);
	p2s_fsroot_line(root, "/sys/class/dmi/id/bios_version", host->firmware, sizeof host->firmware);
	p2s_driver_read(root, m);
	read_cmdline(root, host);
	read_module(root, host);
	p2s_where_machine(root, seam, m);
}

/* What root may do here: read configuration space and the log. In a container root may lack it, and outside an ordinary user may
 * have it; user 0 of another user namespace has it only inside. */
static int32_t is_privileged(const struct p2s_fsroot *root)
{
	char text[8192];
	const char *at;
	unsigned long long caps;
	unsigned inside, outside, count;

	if (p2s_fsroot_read(root, "/proc/self/status", text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return geteuid() == 0;
	at = strstr(text, "\nCapEff:");
	if (at == NULL || sscanf(at + strlen("\nCapEff:"), "%llx", &caps) != 1)
		return geteuid() == 0;
	if ((caps >> CAP_SYS_ADMIN & 1) == 0)
		return 0;
	return p2s_fsroot_line(root, "/proc/self/uid_map", text, sizeof text) != P2S_READ_OK ||
	       (sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 && count == UINT32_MAX);
}

/* "0-63,128-191": how many these are; 0 where it is no such list. */
static uint32_t count_listed(const char *text)
{
	uint32_t count = 0;

	for (;;) {
		unsigned long first, last;
		char *end;

		if (!isdigit((unsigned char)*text))
			return 0;
		first = last = strtoul(text, &end, 10);
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				return 0;
			last = strtoul(end + 1, &end, 10);
		}
		if (last < first || last >= CPUS_MAX)
			return 0;
		count += (uint32_t)(last - first) + 1;
		if (*end != ',')
			return *end == '\0' ? count : 0;
		text = end + 1;
	}
}

/* Firmware lists many more as possible than there are; that counts only where nobody tells what is there. */
static uint32_t logical_cpus(const struct p2s_fsroot *root)
{
	static const char *const files[] = {"/sys/devices/system/cpu/present", "/sys/devices/system/cpu/possible"};
	uint32_t count = 0;
	char text[1024];

	for (size_t i = 0; i < COUNT(files) && count == 0; i++)
		if (p2s_fsroot_line(root, files[i], text, sizeof text) == P2S_READ_OK)
			count = count_listed(text);
	return count;
}

static uint64_t shared_memory(const struct p2s_seam *seam)
{
	struct statvfs fs;

	if (seam->simulated)
		return seam->shm_bytes;
	return statvfs("/dev/shm", &fs) == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize : 0;
}

void p2s_host_read_more(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m)
{
	char word[16];

	if (!seam->simulated)
		m->privileged = is_privileged(root);
	p2s_where_more(root, m);
	p2s_driver_facts(m);
	m->facts.host.cpu_count = logical_cpus(root);
	m->facts.host.shm_bytes = shared_memory(seam);
	m->facts.host.nodes_usable = p2s_group_nodes(root, seam);
	if (seam->simulated)
		snprintf(m->log_state, sizeof m->log_state, "%s", seam->log_state);
	else if (!p2s_fsroot_exists(root, "/dev/kmsg"))
		snprintf(m->log_state, sizeof m->log_state, "absent");
	else if (p2s_fsroot_line(root, "/proc/sys/kernel/dmesg_restrict", word, sizeof word) == P2S_READ_OK && word[0] != '0' &&
	         !m->privileged)
		snprintf(m->log_state, sizeof m->log_state, "denied");
	else
		snprintf(m->log_state, sizeof m->log_state, "%s",
		         faccessat(root->fd, "dev/kmsg", R_OK, AT_EACCESS) == 0 ? "readable" : "denied");
}
