/* What the system says about itself: kernel, driver, virtual machine, container. */
#ifndef P2S_INVENTORY_HOST_H
#define P2S_INVENTORY_HOST_H

#include "core/fsroot.h"
#include "core/model.h"
#include "inventory/host_json.h"

/* Facts that belong to the record's key and not to the report. "" unknown: neither matches nor fails. */
struct p2s_host {
	char boot_id[48];
	char firmware[128];     /* DMI BIOS version */
	char cmdline[2048];     /* the words that matter, separated by one blank, in order */
	char module[96];        /* identity of the loaded nvidia module */
	int64_t booted_unix;    /* when this machine was started; 0 unknown, or a simulated one */
};

/* Fills the host part of the model and *host. */
void p2s_host_read(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m, struct p2s_host *host);
/* What only the full report shows: container, SNP, log access. */
void p2s_host_read_more(const struct p2s_fsroot *root, const struct p2s_seam *seam, struct p2s_model *m);

#endif
