#include "iommu/iommu.h"

#include <stdio.h>
#include <string.h>

#include "inventory/inventory.h"
#include "iommu/cmdline.h"
#include "iommu/groups.h"

#define CMDLINE "/proc/cmdline"
#define UNITS "/sys/class/iommu"

struct tally {
	size_t gpus, identity, translated, ungrouped, no_file, other;
};

/* Names of the entries of /sys/class/iommu, by driver (kernel documentation sysfs-class-iommu*; virtio-iommu takes the name
 * of its virtio device). */
static const struct {
	const char *prefix;
	int32_t driver;
	const char *name;
} drivers[] = {{"ivhd", P2S_IOMMU_DRIVER_AMD, "AMD"},
               {"dmar", P2S_IOMMU_DRIVER_INTEL, "Intel"},
               {"smmu", P2S_IOMMU_DRIVER_SMMU, "Arm SMMU"},
               {"arm-smmu", P2S_IOMMU_DRIVER_SMMU, "Arm SMMU"},
               {"virtio", P2S_IOMMU_DRIVER_VIRTIO, "virtio"}};

/* Fills class count and driver, and says what was found. *visible: the class could be looked at, or is surely absent. */
static int32_t look_at_units(const struct p2s_fsroot *root, struct p2s_model *m, int32_t *visible)
{
	struct p2s_host_facts *h = &m->facts.host;
	const char *name = "unknown";
	char text[160];
	char **names;
	size_t count = 0;
	enum p2s_read r;

	h->sysfs_readable = p2s_fsroot_exists(root, "/sys/class") || p2s_fsroot_exists(root, "/sys/kernel") ? P2S_YES : P2S_NO;
	r = p2s_fsroot_list(root, UNITS, &names, &count);
	*visible = r == P2S_READ_OK || (r == P2S_READ_ABSENT && h->sysfs_readable == P2S_YES);
	if (!*visible)
		return p2s_model_add_iommu_evidence(m, UNITS, r == P2S_READ_ABSENT ? "absent, and so is the rest of /sys" : "not readable");
	h->iommu_class_count = (int32_t)count;
	h->iommu_driver = count > 0 ? P2S_IOMMU_DRIVER_OTHER : P2S_IOMMU_DRIVER_NONE;
	for (size_t i = 0; i < sizeof drivers / sizeof drivers[0] && count > 0; i++) {
		if (strncmp(names[0], drivers[i].prefix, strlen(drivers[i].prefix)) == 0) {
			h->iommu_driver = drivers[i].driver;
			name = drivers[i].name;
		}
	}
	if (count > 0)
		snprintf(text, sizeof text, "%zu %s unit%s: %.40s%s", count, name, count == 1 ? "" : "s", names[0], count == 1 ? "" : ", ...");
	else
		snprintf(text, sizeof text, "%s: no IOMMU driver is active", r == P2S_READ_OK ? "empty" : "absent");
	p2s_fsroot_names_free(names, count);
	return p2s_model_add_iommu_evidence(m, UNITS, text);
}

static int32_t look_at_gpu(const struct p2s_fsroot *root, struct p2s_model *m, struct p2s_gpu *g, int32_t counts, struct tally *t)
{
	enum p2s_domain domain = p2s_groups_read(root, g);
	char path[160];
	char text[200];

	if (!counts)
		return 1;
	t->gpus++;
	if (p2s_groups_foreign(g) && domain != P2S_DOMAIN_NO_GROUP) {
		/* vfio attached its own domain; the file still prints the default one. */
		snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group/type", g->address);
		snprintf(text, sizeof text, "%s: default domain of a group that %.31s owns, not the one in force", g->domain_type, g->driver);
		t->other++;
		return p2s_model_add_iommu_evidence(m, path, text);
	}
	t->identity += domain == P2S_DOMAIN_IDENTITY;
	t->translated += domain == P2S_DOMAIN_TRANSLATED;
	t->ungrouped += domain == P2S_DOMAIN_NO_GROUP;
	t->no_file += domain == P2S_DOMAIN_NO_FILE;
	t->other += domain == P2S_DOMAIN_UNREAD || domain == P2S_DOMAIN_OTHER || domain == P2S_DOMAIN_BLOCKED ||
	            domain == P2S_DOMAIN_UNMANAGED || domain == P2S_DOMAIN_UNKNOWN;
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group%s", g->address,
	         domain == P2S_DOMAIN_NO_GROUP ? "" : "/type");
	if (g->domain_type[0] != '\0' && domain != P2S_DOMAIN_NO_GROUP)
		snprintf(text, sizeof text, "%s: %s", g->domain_type, p2s_groups_meaning(domain));
	else
		snprintf(text, sizeof text, "%s", p2s_groups_meaning(domain));
	return p2s_model_add_iommu_evidence(m, path, text);
}

/* Kernels before 4.19 have groups without a type file. There the command line is all that a user's process can read: said with
 * low confidence. A newer kernel without the file hides it, and then nothing is known. */
static int32_t judge_by_words(struct p2s_model *m)
{
	const struct p2s_host_facts *h = &m->facts.host;

	if (h->kernel_major < 0 || h->kernel_major > 4 || (h->kernel_major == 4 && h->kernel_minor >= 19) || h->cmd_read != P2S_YES)
		return 1;
	m->iommu_confidence = P2PSAFE_CONFIDENCE_LOW;
	m->iommu_state = h->cmd_pt == P2S_YES ? P2PSAFE_IOMMU_IDENTITY : P2PSAFE_IOMMU_TRANSLATED;
	return p2s_model_add_iommu_evidence(m, CMDLINE, h->cmd_pt == P2S_YES ? "passthrough is asked for; this kernel shows no state"
	                                                                    : "no passthrough is asked for; this kernel shows no state");
}

/* Xen keeps the IOMMU for itself: its first domain, which is the machine and no guest, sees neither units nor groups, and they
 * are at work all the same. */
static int32_t xen_has_it(const struct p2s_fsroot *root, const struct p2s_host_facts *h)
{
	char text[32];

	return h->hypervisor == P2S_NO && p2s_fsroot_line(root, "/sys/hypervisor/type", text, sizeof text) == P2S_READ_OK &&
	       strcmp(text, "xen") == 0;
}

static void judge(struct p2s_model *m, const struct tally *t, int32_t visible)
{
	if (t->identity == t->gpus) {
		m->iommu_state = P2PSAFE_IOMMU_IDENTITY;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	} else if (t->translated == t->gpus) {
		m->iommu_state = P2PSAFE_IOMMU_TRANSLATED;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	} else if (t->ungrouped == t->gpus) {
		/* No group and no unit: no IOMMU driver is active. A unit without a group for these GPUs leaves them outside it,
		 * which is rarer and less sure. In WSL the GPUs are not in sysfs at all. */
		if (visible && m->facts.host.wsl != P2S_YES) {
			m->iommu_state = P2PSAFE_IOMMU_NONE;
			m->iommu_confidence = m->facts.host.iommu_class_count == 0 ? P2PSAFE_CONFIDENCE_HIGH : P2PSAFE_CONFIDENCE_LOW;
		}
	} else if (t->identity + t->translated + t->ungrouped == t->gpus) {
		m->iommu_state = P2PSAFE_IOMMU_MIXED;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	}
}

int32_t p2s_iommu_judge(const struct p2s_fsroot *root, struct p2s_model *m)
{
	struct p2s_host_facts *h = &m->facts.host;
	struct tally t = {0};
	size_t bound = 0;
	int32_t visible;
	char text[8192];

	m->iommu_state = P2PSAFE_IOMMU_UNKNOWN;
	m->iommu_confidence = P2PSAFE_CONFIDENCE_LOW;
	p2s_cmdline_parse(p2s_fsroot_line(root, CMDLINE, text, sizeof text) == P2S_READ_OK ? text : NULL, h);
	h->vfio_gpus = 0;
	for (size_t i = 0; i < m->gpu_count; i++) {
		bound += p2s_inventory_bound(&m->gpus[i]) != 0;
		h->vfio_gpus += p2s_groups_foreign(&m->gpus[i]);
	}
	for (size_t i = 0; i < m->gpu_count; i++)
		if (!look_at_gpu(root, m, &m->gpus[i], bound == 0 || p2s_inventory_bound(&m->gpus[i]), &t))
			return 0;
	if (!look_at_units(root, m, &visible))
		return 0;
	if (h->hypervisor == P2S_YES &&
	    !p2s_model_add_iommu_evidence(m, "virtual machine", "only what the guest has; the host's IOMMU cannot be seen from here"))
		return 0;
	if (xen_has_it(root, h)) {
		visible = 0;
		for (size_t i = 0; i < m->gpu_count; i++)
			if (m->gpus[i].facts.has_iommu_link == P2S_NO)
				m->gpus[i].facts.has_iommu_link = P2S_UNREAD;
		if (!p2s_model_add_iommu_evidence(m, "/sys/hypervisor/type", "xen: the IOMMU is Xen's, and cannot be seen from its first domain"))
			return 0;
	}
	if (t.gpus == 0)
		return 1;
	if (t.no_file == t.gpus)
		return judge_by_words(m);
	judge(m, &t, visible);
	return 1;
}
