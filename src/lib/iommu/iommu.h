/* Does an IOMMU translate what these GPUs send? From group types and the IOMMU class, never from the command line. */
#ifndef P2S_IOMMU_IOMMU_H
#define P2S_IOMMU_IOMMU_H

#include "core/fsroot.h"
#include "core/model.h"

/* Sets iommu_state, _confidence and _evidence over the GPUs bound to nvidia (if there are none: over all). Returns 1, or
 * 0 when out of memory. */
int32_t p2s_iommu_judge(const struct p2s_fsroot *root, struct p2s_model *m);

#endif
