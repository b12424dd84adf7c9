/* The NVIDIA GPUs of this machine and what the system says about them, from files that need neither driver nor
 * hardware. Never opened: config space, resourceN, /proc/driver/nvidia/gpus, /dev/nvidia*. */
#ifndef P2S_INVENTORY_INVENTORY_H
#define P2S_INVENTORY_INVENTORY_H

#include "core/fsroot.h"
#include "core/model.h"

enum p2s_scope {
	P2S_SCOPE_ALL,  /* every NVIDIA display function */
	P2S_SCOPE_BOUND /* only those bound to the nvidia driver, found without a walk over all PCI devices: for a hit */
};

/* Appends the GPUs in address order. Returns 1, 0 when out of memory. */
int32_t p2s_inventory_read(const struct p2s_fsroot *root, struct p2s_model *m, enum p2s_scope scope);
/* 1 if the GPU's driver is nvidia. */
int32_t p2s_inventory_bound(const struct p2s_gpu *g);

#endif
