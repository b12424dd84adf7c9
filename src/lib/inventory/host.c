#define _GNU_SOURCE
#include "inventory/host.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Command-line words that change how DMA or the driver works (kernel parameters documentation). */
static const char *const cmdline_words[] = {"iommu=",       "iommu.",     "intel_iommu=", "amd_iommu=", "arm-smmu.",
                                            "mem_encrypt=", "pci=",       "pcie_acs_override=", "nvidia.", "vfio",
                                            "swiotlb=",     "kvm_amd.",   "mce="};

/* Driver parameters that change peer transfers; others (TemporaryFilePath, ...) are of no interest. */
static const char *const parameters[] = {"DmaRemapPeerMmio:", "EnablePCIERelaxedOrderingMode:", "EnableResizableBar:",
                                         "NvLinkDisable:",    "EnableGpuFirmware:",             "RegistryDwords:",
                                         "RegistryDwordsPerDevice:", "CoherentGPUMemoryMode:",  "GrdmaPciTopoCheckOverride:",
                                         "ExcludedGpus:",     "ImexChannelCount:"};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (user@host)  date": the version is the
 * first word made of digits and dots; who built it is nobody's business. */
static void read_version(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[1024];
	char *save = NULL;
	char *word;

	if (p2s_fsroot_read(root, "/proc/driver/nvidia/version", text, sizeof text, NULL, NULL) == P2S_READ_OK &&
	    strncmp(text, "NVRM version:", 13) == 0) {
		text[strcspn(text, "\n")] = '\0';
		snprintf(m->driver_flavour, sizeof m->driver_flavour, "%s",
		         strstr(text, "Open Kernel Module") != NULL ? "open" : "proprietary");
		for (word = strtok_r(text, " \t", &save); word != NULL; word = strtok_r(NULL, " \t", &save)) {
			if (isdigit((unsigned char)word[0]) && strchr(word, '.') != NULL && word[strspn(word, "0123456789.")] == '\0') {
				snprintf(m->driver_version, sizeof m->driver_version, "%.31s", word);
				return;
			}
		}
		return;
	}
	if (p2s_fsroot_line(root, "/sys/module/nvidia/version", text, 64) == P2S_READ_OK)
		snprintf(m->driver_version, sizeof m->driver_version, "%.31s", text);
}

static void read_parameters(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[16384];
	char *save = NULL;
	size_t used = 0;

	if (p2s_fsroot_read(root, "/proc/driver/nvidia/params", text, sizeof text, NULL, NULL) != P2S_READ_OK)
		return;
	for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		for (size_t i = 0; i < COUNT(parameters); i++) {
			size_t n = strlen(line);

			if (strncmp(line, parameters[i], strlen(parameters[i])) != 0)
				continue;
			if (used + n + 2 > sizeof m->driver_parameters)
				return;
			memcpy(m->driver_parameters + used, line, n);
			m->driver_parameters[used + n] = '\n';
			used += n + 1;
			m->driver_parameters[used] = '\0';
		}
	}
}

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
			if (strncmp(word, cmdline_words[i], strlen(cmdline_words[i])) != 0)
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

/* The first CPU's block is enough, and the rest of a large machine's cpuinfo takes milliseconds to make. */
static void read_virtualization(const struct p2s_fsroot *root, struct p2s_model *m)
{
	static const struct {
		const char *vendor, *word;
	} vendors[] = {{"QEMU", "kvm"},       {"Red Hat", "kvm"},   {"Amazon EC2", "amazon"}, {"Google", "google"},
	               {"Microsoft", "microsoft"}, {"VMware", "vmware"}, {"Xen", "xen"},           {"innotek", "oracle"}};
	char text[8192];
	char *flags;

	if (p2s_fsroot_head(root, "/proc/cpuinfo", text, sizeof text) != P2S_READ_OK)
		return;
	flags = strstr(text, "\nflags");
	if (flags == NULL && strncmp(text, "flags", 5) == 0)
		flags = text;
	if (flags == NULL)
		return; /* not x86: unknown */
	if (flags[0] == '\n')
		flags++;
	flags[strcspn(flags, "\n")] = '\0';
	if (strstr(flags, " hypervisor") == NULL) {
		snprintf(m->virtualization, sizeof m->virtualization, "none");
		return;
	}
	snprintf(m->virtualization, sizeof m->virtualization, "vm");
	if (p2s_fsroot_line(root, "/sys/class/dmi/id/sys_vendor", text, 128) != P2S_READ_OK)
		return;
	for (size_t i = 0; i < COUNT(vendors); i++)
		if (strncmp(text, vendors[i].vendor, strlen(vendors[i].vendor)) == 0)
			snprintf(m->virtualization, sizeof m->virtualization, "%s", vendors[i].word);
}

/* Captured trees often hold /proc/version and no /proc/sys. */
static void read_kernel(const struct p2s_fsroot *root, struct p2s_model *m)
{
	char text[512];

	if (p2s_fsroot_line(root, "/proc/sys/kernel/osrelease", m->kernel, sizeof m->kernel) == P2S_READ_OK)
		return;
	if (p2s_fsroot_line(root, "/proc/version", text, sizeof text) == P2S_READ_OK && strncmp(text, "Linux version ", 14) == 0)
		snprintf(m->kernel, sizeof m->kernel, "%.*s", (int)strcspn(text + 14, " "), text + 14);
}

void p2s_host_read(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m, struct p2s_host *host)
{
	memset(host, 0, sizeof *host);
	m->privileged = seam->simulated ? seam->privileged : geteuid() == 0;
	read_kernel(root, m);
	p2s_fsroot_line(root, "/proc/sys/kernel/random/boot_id", host->boot_id, sizeof host->boot_id);
	p2s_fsroot_line(root, "/sys/class/dmi/id/bios_version", host->firmware, sizeof host->firmware);
	read_version(root, m);
	read_parameters(root, m);
	read_cmdline(root, host);
	read_module(root, host);
	read_virtualization(root, m);
}

static void read_container(const struct p2s_fsroot *root, struct p2s_model *m)
{
	static const char *const managers[] = {"/run/host/container-manager", "/run/systemd/container"};
	char word[32];

	for (size_t i = 0; i < COUNT(managers); i++) {
		if (p2s_fsroot_line(root, managers[i], word, sizeof word) == P2S_READ_OK && word[0] != '\0') {
			snprintf(m->container, sizeof m->container, "%s", word);
			return;
		}
	}
	if (strcasestr(m->kernel, "microsoft") != NULL || strstr(m->kernel, "WSL") != NULL)
		snprintf(m->container, sizeof m->container, "wsl");
	else if (p2s_fsroot_exists(root, "/.dockerenv"))
		snprintf(m->container, sizeof m->container, "docker");
	else if (p2s_fsroot_exists(root, "/run/.containerenv"))
		snprintf(m->container, sizeof m->container, "podman");
	else
		snprintf(m->container, sizeof m->container, "none");
}

void p2s_host_read_more(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m)
{
	char word[16];

	read_container(root, m);
	if (p2s_fsroot_line(root, "/sys/module/kvm_amd/parameters/sev_snp", word, sizeof word) == P2S_READ_OK)
		m->snp_host = word[0] == 'Y' || word[0] == '1' ? 1 : 0;
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
