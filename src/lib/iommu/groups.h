/* What /sys/kernel/iommu_groups/<n>/type says about one GPU. The file names the group's default domain, not the one attached
 * now: while vfio owns a group the word is of no use. */
#ifndef P2S_IOMMU_GROUPS_H
#define P2S_IOMMU_GROUPS_H

#include "core/fsroot.h"
#include "core/model.h"

enum p2s_domain {
	P2S_DOMAIN_UNREAD,     /* a link or file could not be read */
	P2S_DOMAIN_NO_GROUP,   /* no iommu_group link: not behind an active IOMMU */
	P2S_DOMAIN_IDENTITY,
	P2S_DOMAIN_TRANSLATED, /* DMA, DMA-FQ */
	P2S_DOMAIN_BLOCKED,    /* nothing of this device gets through */
	P2S_DOMAIN_UNMANAGED,  /* somebody else's page table */
	P2S_DOMAIN_UNKNOWN,    /* the kernel says "unknown": no default domain yet, or a platform's own kind */
	P2S_DOMAIN_OTHER,      /* a word that this version does not know */
	P2S_DOMAIN_NO_FILE     /* a group without the file: a kernel before 4.19, or masked */
};

/* Meaning of a word of the file. */
enum p2s_domain p2s_groups_word(const char *word);
/* A sentence for people about a word; never NULL. */
const char *p2s_groups_meaning(enum p2s_domain domain);
/* Reads the group of a GPU: fills facts.iommu_group and facts.has_iommu_link. g->domain_type was read before. */
enum p2s_domain p2s_groups_read(const struct p2s_fsroot *root, struct p2s_gpu *g);
/* 1 while another driver than the kernel's own users owns the group (vfio). */
int32_t p2s_groups_foreign(const struct p2s_gpu *g);

#endif
