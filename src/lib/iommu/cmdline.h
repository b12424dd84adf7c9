/* The kernel command line as a list of hints. What is written there is not what is in force: firmware, Kconfig, SEV-SNP and
 * writes to sysfs decide as well. Pure: text in, facts out. */
#ifndef P2S_IOMMU_CMDLINE_H
#define P2S_IOMMU_CMDLINE_H

#include "core/facts.h"

/* Fills the cmd_ members. text: /proc/cmdline, any bytes up to the NUL; NULL: it could not be read, everything stays
 * P2S_UNREAD. */
void p2s_cmdline_parse(const char *text, struct p2s_host_facts *h);

#endif
