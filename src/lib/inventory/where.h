/* Where this process runs: bare metal or which virtual machine, which container, and what encrypts memory. */
#ifndef P2S_INVENTORY_WHERE_H
#define P2S_INVENTORY_WHERE_H

#include "core/fsroot.h"
#include "core/model.h"
#include "inventory/host_json.h"

/* The word for a hypervisor's CPUID signature (twelve characters of leaf 0x40000000); NULL not known. */
const char *p2s_where_signature(const char *signature);
/* Fills virtualization and facts.host.hypervisor. Cheap: belongs to the key of a kept record. */
void p2s_where_machine(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m);
/* Fills container, snp_host, and the rest of the facts about guest and memory encryption. */
void p2s_where_more(const struct p2s_fsroot *root, struct p2s_model *m);

#endif
