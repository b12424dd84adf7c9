#include "iommu/groups.h"

#include <stdio.h>
#include <string.h>

/* drivers/iommu/iommu.c, iommu_group_show_type. DMA-FQ exists since 5.15; before, DMA may be strict or lazy. */
static const struct {
	const char *word;
	enum p2s_domain domain;
} words[] = {{"identity", P2S_DOMAIN_IDENTITY}, {"DMA", P2S_DOMAIN_TRANSLATED},     {"DMA-FQ", P2S_DOMAIN_TRANSLATED},
             {"blocked", P2S_DOMAIN_BLOCKED},   {"unmanaged", P2S_DOMAIN_UNMANAGED}, {"unknown", P2S_DOMAIN_UNKNOWN}};

enum p2s_domain p2s_groups_word(const char *word)
{
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(word, words[i].word) == 0)
			return words[i].domain;
	return word[0] == '\0' ? P2S_DOMAIN_UNREAD : P2S_DOMAIN_OTHER;
}

const char *p2s_groups_meaning(enum p2s_domain domain)
{
	switch (domain) {
	case P2S_DOMAIN_NO_GROUP:
		return "absent: not behind an active IOMMU";
	case P2S_DOMAIN_IDENTITY:
		return "addresses pass unchanged";
	case P2S_DOMAIN_TRANSLATED:
		return "addresses are translated";
	case P2S_DOMAIN_BLOCKED:
		return "all DMA is blocked";
	case P2S_DOMAIN_UNMANAGED:
		return "a page table that the kernel does not manage";
	case P2S_DOMAIN_UNKNOWN:
		return "the kernel itself does not say";
	case P2S_DOMAIN_OTHER:
		return "a word that is not known";
	case P2S_DOMAIN_NO_FILE:
		return "a group without a type file";
	default:
		return "not readable";
	}
}

enum p2s_domain p2s_groups_read(const struct p2s_fsroot *root, struct p2s_gpu *g)
{
	char path[160];
	char text[512];
	const char *slash;
	enum p2s_read r;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", g->address);
	r = p2s_fsroot_link(root, path, text, sizeof text);
	if (r == P2S_READ_ABSENT) {
		g->facts.has_iommu_link = P2S_NO;
		return P2S_DOMAIN_NO_GROUP;
	}
	if (r != P2S_READ_OK)
		return P2S_DOMAIN_UNREAD;
	g->facts.has_iommu_link = P2S_YES;
	slash = strrchr(text, '/');
	snprintf(g->facts.iommu_group, sizeof g->facts.iommu_group, "%.15s", slash != NULL ? slash + 1 : text);
	if (g->domain_type[0] != '\0')
		return p2s_groups_word(g->domain_type);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group/type", g->address);
	return p2s_fsroot_line(root, path, text, sizeof text) == P2S_READ_ABSENT ? P2S_DOMAIN_NO_FILE : P2S_DOMAIN_UNREAD;
}

int32_t p2s_groups_foreign(const struct p2s_gpu *g)
{
	return strncmp(g->driver, "vfio", 4) == 0;
}
