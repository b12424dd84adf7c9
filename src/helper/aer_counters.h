/* PCIe error counters of the GPUs and of every bridge above them, from sysfs: before and behind a test. */
#ifndef P2S_HELPER_AER_COUNTERS_H
#define P2S_HELPER_AER_COUNTERS_H

#include "core/facts.h"
#include "core/fsroot.h"

#define P2S_AER_KINDS 3 /* corrected, non-fatal, fatal */

struct p2s_aer_place { /* a GPU and the way to it */
	char address[P2S_HOPS][P2S_BDF_TEXT]; /* root port first, the GPU itself last */
	size_t count;                         /* 0: no look yet */
	uint64_t value[P2S_HOPS][P2S_AER_KINDS]; /* UINT64_MAX: not read */
};

/* First look: finds the way by the kernel's link (without one the GPU stands alone) and reads every counter. */
void p2s_aer_look(const struct p2s_fsroot *root, const char *gpu, struct p2s_aer_place *p);
/* Reads the counters of one function anew. */
void p2s_aer_read(const struct p2s_fsroot *root, const char *address, uint64_t value[P2S_AER_KINDS]);

#endif
