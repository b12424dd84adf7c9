/* What sysfs says about one GPU beyond what its record needs. Attributes only: nothing here wakes or asks the device. */
#ifndef P2S_INVENTORY_GPU_FACTS_H
#define P2S_INVENTORY_GPU_FACTS_H

#include "core/fsroot.h"
#include "core/model.h"

#define P2S_RESOURCE_MEM 0x200u          /* IORESOURCE_MEM, linux/ioport.h */
#define P2S_RESOURCE_PREFETCH 0x2000u    /* IORESOURCE_PREFETCH */
#define P2S_RESOURCE_64BIT 0x100000u     /* IORESOURCE_MEM_64 */
#define P2S_RESOURCE_UNSET 0x20000000u   /* IORESOURCE_UNSET: it has a size and no address */

/* Fills bars and bar1_bytes of the GPU, facts.bar1_assigned and facts.bar1_index, from the text of its "resource" file. Pure. */
void p2s_gpu_facts_resource(const char *text, struct p2s_gpu *g);
/* Fills root_bus, boot_vga, is_vf, asleep and dma_mask_bits of g->facts. */
void p2s_gpu_facts_read(const struct p2s_fsroot *root, struct p2s_gpu *g);

#endif
