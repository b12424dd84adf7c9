/* The order is systemd's (src/basic/virt.c): some vendors' firmware names first, then Xen, the CPU's own word, the other
 * firmware names, /sys/hypervisor, the device tree. A guest whose hypervisor has no name here is "vm". */
#define _GNU_SOURCE
#include "inventory/where.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/ascii.h"
#include "inventory/cpuid.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define DMI "/sys/class/dmi/id/"

static const struct {
	const char *signature, *word;
} signatures[] = {{"KVMKVMKVM", "kvm"},       {"Linux KVM Hv", "kvm"},     {"TCGTCGTCGTCG", "qemu"},   {"Microsoft Hv", "microsoft"},
                  {"VMwareVMware", "vmware"}, {"XenVMMXenVMM", "xen"},     {"bhyve bhyve ", "bhyve"},  {"QNXQVMBSQG", "qnx"},
                  {"ACRNACRNACRN", "acrn"},   {"SRESRESRESRE", "sre"},     {"Apple VZ", "apple"},      {"VBoxVBoxVBox", "oracle"},
                  {"prl hyperv  ", "parallels"}, {" lrpepyh  vr", "parallels"}, {"EVMMEVMMEVMM", "intel"}};

/* early: counts before the CPU is asked. guest: only together with the CPU's hypervisor flag, since the maker of the
 * firmware also makes real machines. Prefixes of product_name, sys_vendor, board_vendor, bios_vendor, product_version. */
static const struct {
	const char *prefix, *word;
	int early, guest;
} vendors[] = {{"innotek GmbH", "oracle", 1, 0},
               {"VirtualBox", "oracle", 1, 0},
               {"Xen", "xen", 1, 0},
               {"Amazon EC2", "amazon", 1, 0},
               {"Parallels", "parallels", 1, 0},
               {"Google Compute Engine", "google", 1, 0},
               {"KVM", "kvm", 0, 0},
               {"OpenStack", "kvm", 0, 0},
               {"KubeVirt", "kvm", 0, 0},
               {"QEMU", "kvm", 0, 0},
               {"VMware", "vmware", 0, 0},
               {"VMW", "vmware", 0, 0},
               {"Bochs", "bochs", 0, 0},
               {"BHYVE", "bhyve", 0, 0},
               {"Hyper-V", "microsoft", 0, 0},
               {"Apple Virtualization", "apple", 0, 0},
               {"Red Hat", "kvm", 0, 1},
               {"Microsoft", "microsoft", 0, 1},
               {"Google", "google", 0, 1},
               {"Oracle", "oracle", 0, 1},
               {"Nutanix", "kvm", 0, 1},
               {"Alibaba", "kvm", 0, 1}};

const char *p2s_where_signature(const char *signature)
{
	for (size_t i = 0; i < COUNT(signatures); i++)
		if (strcmp(signature, signatures[i].signature) == 0)
			return signatures[i].word;
	return NULL;
}

struct firmware {
	char text[5][64];
	int32_t any;
};

static void read_firmware(const struct p2s_fsroot *root, struct p2s_model *m, struct firmware *f)
{
	static const char *const names[] = {"product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"};

	f->any = 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		char path[64];
		char text[256];

		snprintf(path, sizeof path, DMI "%s", names[i]);
		if (p2s_fsroot_line(root, path, text, sizeof text) != P2S_READ_OK)
			text[0] = '\0';
		f->any |= text[0] != '\0';
		snprintf(f->text[i], sizeof f->text[i], "%.63s", text);
	}
	snprintf(m->facts.host.dmi_product, sizeof m->facts.host.dmi_product, "%s", f->text[0]);
	snprintf(m->facts.host.dmi_vendor, sizeof m->facts.host.dmi_vendor, "%s", f->text[1]);
}

/* guest: 1 the CPU says so, 0 it denies, -1 it does not say. */
static const char *by_firmware(const struct firmware *f, int early, int32_t guest)
{
	for (size_t i = 0; i < COUNT(f->text); i++) {
		for (size_t k = 0; k < COUNT(vendors); k++) {
			if (f->text[i][0] == '\0' || vendors[k].early != early || (vendors[k].guest && guest != 1) ||
			    strncmp(f->text[i], vendors[k].prefix, strlen(vendors[k].prefix)) != 0)
				continue;
			/* EC2's machines without a hypervisor carry the same vendor. */
			if (strcmp(vendors[k].word, "amazon") == 0 && strstr(f->text[0], ".metal") != NULL)
				return "none";
			return vendors[k].word;
		}
	}
	return NULL;
}

/* The flags line of the first CPU; "" none. The rest of a large machine's cpuinfo takes milliseconds to make. */
static void read_flags(const struct p2s_fsroot *root, char *flags, size_t cap, int32_t *amd)
{
	char text[8192];
	const char *at;

	flags[0] = '\0';
	if (p2s_fsroot_head(root, "/proc/cpuinfo", text, sizeof text) != P2S_READ_OK)
		return;
	*amd = strstr(text, "AuthenticAMD") != NULL || strstr(text, "HygonGenuine") != NULL;
	at = strncmp(text, "flags", 5) == 0 ? text : strstr(text, "\nflags");
	if (at == NULL)
		return;
	at += at[0] == '\n';
	at += strcspn(at, ":\n");
	snprintf(flags, cap, " %.*s ", (int)strcspn(at, "\n"), at);
}

static int32_t has(const char *flags, const char *word)
{
	char spaced[40];

	snprintf(spaced, sizeof spaced, " %s ", word);
	return strstr(flags, spaced) != NULL;
}

/* Xen: the first domain is the machine itself. */
static const char *by_xen(const struct p2s_fsroot *root)
{
	char text[256];
	unsigned long features;

	if (p2s_fsroot_line(root, "/proc/xen/capabilities", text, sizeof text) == P2S_READ_OK)
		return strstr(text, "control_d") != NULL ? "none" : "xen";
	if (p2s_fsroot_line(root, "/sys/hypervisor/type", text, sizeof text) != P2S_READ_OK)
		return NULL;
	if (strcmp(text, "xen") != 0)
		return text[0] != '\0' ? "vm" : NULL;
	if (p2s_fsroot_line(root, "/sys/hypervisor/properties/features", text, sizeof text) == P2S_READ_OK &&
	    sscanf(text, "%lx", &features) == 1 && (features >> 11 & 1) != 0) /* XENFEAT_dom0 */
		return "none";
	return "xen";
}

static const char *by_device_tree(const struct p2s_fsroot *root)
{
	char text[128];

	if (p2s_fsroot_read(root, "/proc/device-tree/hypervisor/compatible", text, sizeof text, NULL, NULL) == P2S_READ_OK) {
		if (strcmp(text, "linux,kvm") == 0)
			return "kvm";
		return strstr(text, "xen") != NULL ? "xen" : strcmp(text, "vmware") == 0 ? "vmware" : "vm";
	}
	return p2s_fsroot_exists(root, "/proc/device-tree/fw-cfg") ? "qemu" : NULL;
}

void p2s_where_machine(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m)
{
	char signature[P2S_CPUID_SIGNATURE] = "";
	struct p2s_host_facts *h = &m->facts.host;
	const char *word = NULL;
	struct firmware f;
	char flags[6000] = "";
	int32_t guest = -1;
	int32_t amd = P2S_UNREAD;

	read_firmware(root, m, &f);
	if (!seam->simulated) {
		guest = p2s_cpuid_hypervisor(signature);
	} else {
		read_flags(root, flags, sizeof flags, &amd);
		guest = flags[0] != '\0' ? has(flags, "hypervisor") : -1;
		memcpy(signature, seam->cpuid_signature, sizeof signature);
	}
	word = by_firmware(&f, 1, guest);
	if (word == NULL || strcmp(word, "xen") == 0) { /* Xen's first domain has the same firmware names as its guests */
		const char *xen = by_xen(root);

		word = xen != NULL ? xen : word;
	}
	if (word == NULL && guest == 1)
		word = p2s_where_signature(signature);
	if (word == NULL)
		word = by_firmware(&f, 0, guest);
	if (word == NULL)
		word = by_device_tree(root);
	if (word == NULL && guest >= 0)
		word = guest ? "vm" : "none";
	/* Not x86: real machines have firmware tables, and none of them named a hypervisor. */
	if (word == NULL && f.any)
		word = "none";
	snprintf(m->virtualization, sizeof m->virtualization, "%s", word != NULL ? word : "");
	h->hypervisor = word == NULL ? P2S_UNREAD : strcmp(word, "none") != 0;
}

/* The value of a NUL-separated environment; 0 not in it. */
static int32_t variable(const char *env, size_t len, const char *name, char *out, size_t cap)
{
	size_t n = strlen(name);

	for (size_t at = 0; at < len; at += strlen(env + at) + 1) {
		if (strncmp(env + at, name, n) == 0 && env[at + n] == '=') {
			snprintf(out, cap, "%.*s", (int)cap - 1, env + at + n + 1);
			return 1;
		}
	}
	return 0;
}

static int32_t is_wsl(const struct p2s_model *m)
{
	return p2s_ascii_contains(m->kernel, "microsoft") || strstr(m->kernel, "WSL") != NULL;
}

/* The order is systemd's (detect_container). What the first process was started with is the last word; whoever may not read it
 * knows a container only by the files that runtimes leave. */
static void read_container(const struct p2s_fsroot *root, struct p2s_model *m)
{
	static const struct {
		const char *path, *word; /* word NULL: the file's own text */
	} files[] = {{"/run/host/container-manager", NULL},
	             {"/run/systemd/container", NULL},
	             {"/run/.containerenv", "podman"},
	             {"/.dockerenv", "docker"}};
	char *out = m->container;
	size_t cap = sizeof m->container;
	char env[8192];
	size_t len;
	enum p2s_read r;

	m->facts.host.wsl = is_wsl(m) || p2s_fsroot_exists(root, "/dev/dxg");
	if (p2s_fsroot_exists(root, "/proc/vz") && !p2s_fsroot_exists(root, "/proc/bc")) {
		snprintf(out, cap, "openvz");
		return;
	}
	if (is_wsl(m)) {
		snprintf(out, cap, "wsl");
		return;
	}
	for (size_t i = 0; i < COUNT(files); i++) {
		char word[64];

		if (files[i].word != NULL && p2s_fsroot_exists(root, files[i].path)) {
			snprintf(out, cap, "%s", files[i].word);
			return;
		}
		if (files[i].word == NULL && p2s_fsroot_line(root, files[i].path, word, sizeof word) == P2S_READ_OK && word[0] != '\0') {
			snprintf(out, cap, "%.31s", word);
			return;
		}
	}
	r = p2s_fsroot_read(root, "/proc/1/environ", env, sizeof env, &len, NULL);
	if (r != P2S_READ_OK)
		return; /* unknown: "no file tells" is not "no container" */
	if (variable(env, len, "container", out, cap) && out[0] != '\0')
		return;
	snprintf(out, cap, "%s", variable(env, len, "KUBERNETES_SERVICE_HOST", out, cap) ? "kubernetes" : "none");
}

static int32_t parameter(const struct p2s_fsroot *root, const char *path)
{
	char word[16];

	if (p2s_fsroot_line(root, path, word, sizeof word) != P2S_READ_OK)
		return P2S_UNREAD;
	switch (word[0]) {
	case 'Y':
	case 'y':
	case '1':
		return P2S_YES;
	case 'N':
	case 'n':
	case '0':
		return P2S_NO;
	default:
		return P2S_UNREAD;
	}
}

/* Does this kernel really host SEV-SNP guests? The module says so; the CPU's flag is necessary and no proof, since the IOMMU
 * step comes after it. */
static void read_snp(const struct p2s_fsroot *root, struct p2s_model *m, const char *flags)
{
	static const char path[] = "/sys/module/kvm_amd/parameters/sev_snp";
	struct p2s_host_facts *h = &m->facts.host;

	h->snp = parameter(root, path);
	if (h->snp != P2S_UNREAD)
		snprintf(h->snp_source, sizeof h->snp_source, "%s", path);
	else if (flags[0] != '\0' && (has(flags, "hypervisor") || !has(flags, "sev_snp"))) {
		h->snp = P2S_NO;
		snprintf(h->snp_source, sizeof h->snp_source, "/proc/cpuinfo: flags without sev_snp");
		if (has(flags, "hypervisor"))
			snprintf(h->snp_source, sizeof h->snp_source, "/proc/cpuinfo: a guest");
	}
	m->snp_host = h->snp;
}

static void read_confidential(const struct p2s_fsroot *root, struct p2s_host_facts *h, const char *flags)
{
	static const char *const signs[] = {"/sys/devices/system/cpu/sev/vmpl", "/dev/sev-guest", "/dev/tdx_guest"};

	for (size_t i = 0; i < COUNT(signs); i++)
		if (p2s_fsroot_exists(root, signs[i]))
			h->confidential_guest = P2S_YES;
	if (has(flags, "tdx_guest") || (!root->simulated && p2s_cpuid_tdx_guest()))
		h->confidential_guest = h->tdx = P2S_YES;
	if (h->confidential_guest == P2S_YES)
		return;
	if (h->hypervisor == P2S_NO)
		h->confidential_guest = P2S_NO;
	/* A guest with encrypted memory must see the CPU's leaf about it, and with it these flags. */
	else if (h->hypervisor == P2S_YES && flags[0] != '\0' && !has(flags, "sev") && !has(flags, "sme"))
		h->confidential_guest = P2S_NO;
}

static void read_encryption(const struct p2s_fsroot *root, struct p2s_host_facts *h, const char *flags)
{
	int32_t kvm = parameter(root, "/sys/module/kvm_intel/parameters/tdx");

	if (flags[0] != '\0' && !has(flags, "sme"))
		h->sme = P2S_NO;
	else if (has(flags, "sme") && (h->kernel_major > 6 || (h->kernel_major == 6 && h->kernel_minor >= 3)))
		h->sme = P2S_YES; /* older kernels show what firmware allows, not what is active */
	if (h->tdx == P2S_UNREAD)
		h->tdx = kvm != P2S_UNREAD ? kvm : flags[0] != '\0' && !has(flags, "tdx_host_platform") ? P2S_NO : P2S_UNREAD;
}

void p2s_where_more(const struct p2s_fsroot *root, struct p2s_model *m)
{
	struct p2s_host_facts *h = &m->facts.host;
	char flags[6000];

	read_flags(root, flags, sizeof flags, &h->amd_cpu);
	read_container(root, m);
	read_snp(root, m, flags);
	read_confidential(root, h, flags);
	read_encryption(root, h, flags);
}
