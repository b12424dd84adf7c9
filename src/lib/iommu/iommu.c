#include "iommu/iommu.h"

#include <stdio.h>
#include <string.h>

#include "inventory/inventory.h"

struct tally {
	size_t gpus, identity, translated, other, ungrouped;
};

static int32_t look(const struct p2s_fsroot *root, struct p2s_model *m, const struct p2s_gpu *g, struct tally *t)
{
	char path[160];
	char link[512];
	enum p2s_read r;

	t->gpus++;
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group/type", g->address);
	if (strcmp(g->domain_type, "identity") == 0)
		t->identity++;
	else if (strcmp(g->domain_type, "DMA") == 0 || strcmp(g->domain_type, "DMA-FQ") == 0)
		t->translated++;
	else if (g->domain_type[0] != '\0')
		t->other++;
	if (g->domain_type[0] != '\0')
		return p2s_model_add_iommu_evidence(m, path, g->domain_type);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", g->address);
	r = p2s_fsroot_link(root, path, link, sizeof link);
	if (r == P2S_READ_ABSENT) {
		t->ungrouped++;
		return p2s_model_add_iommu_evidence(m, path, "absent");
	}
	t->other++;
	return p2s_model_add_iommu_evidence(m, path, r == P2S_READ_OK ? "a group without a readable type" : "not readable");
}

int32_t p2s_iommu_judge(const struct p2s_fsroot *root, struct p2s_model *m)
{
	struct tally t = {0};
	size_t bound = 0;
	size_t units = 0;
	char **names;
	enum p2s_read r;

	m->iommu_state = P2PSAFE_IOMMU_UNKNOWN;
	m->iommu_confidence = P2PSAFE_CONFIDENCE_LOW;
	for (size_t i = 0; i < m->gpu_count; i++)
		bound += p2s_inventory_bound(&m->gpus[i]) != 0;
	for (size_t i = 0; i < m->gpu_count; i++)
		if ((bound == 0 || p2s_inventory_bound(&m->gpus[i])) && !look(root, m, &m->gpus[i], &t))
			return 0;
	r = p2s_fsroot_list(root, "/sys/class/iommu", &names, &units);
	if (r == P2S_READ_OK) {
		char text[64];

		p2s_fsroot_names_free(names, units);
		snprintf(text, sizeof text, "%zu unit%s", units, units == 1 ? "" : "s");
		if (!p2s_model_add_iommu_evidence(m, "/sys/class/iommu", text))
			return 0;
	} else if (!p2s_model_add_iommu_evidence(m, "/sys/class/iommu", r == P2S_READ_ABSENT ? "absent" : "not readable")) {
		return 0;
	}
	if (t.gpus == 0)
		return 1;
	if (t.identity == t.gpus) {
		m->iommu_state = P2PSAFE_IOMMU_IDENTITY;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	} else if (t.translated == t.gpus) {
		m->iommu_state = P2PSAFE_IOMMU_TRANSLATED;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	} else if (t.ungrouped == t.gpus) {
		/* No group and no unit: no IOMMU driver is active. A unit without a group for these GPUs leaves them outside it,
		 * which is rarer and less sure. In WSL the GPUs are not in sysfs at all, so they never come here. */
		if (r == P2S_READ_OK || r == P2S_READ_ABSENT) {
			m->iommu_state = P2PSAFE_IOMMU_NONE;
			m->iommu_confidence = units == 0 ? P2PSAFE_CONFIDENCE_HIGH : P2PSAFE_CONFIDENCE_LOW;
		}
	} else if (t.identity + t.translated + t.ungrouped == t.gpus) {
		m->iommu_state = P2PSAFE_IOMMU_MIXED;
		m->iommu_confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	}
	return 1;
}
