/* Transport, islands and ordinals from judged pairs. Pure. */
#ifndef P2S_CHOOSE_CHOOSE_H
#define P2S_CHOOSE_CHOOSE_H

#include <stdint.h>

#include "core/model.h"

/* Sets transport of every pair and of the group, and islands. Pairs must be judged. Returns 1, 0 when out of memory. */
int32_t p2s_choose(struct p2s_model *m);
/* The maximal safe cliques of the group, largest first, then by index. */
int32_t p2s_choose_islands(struct p2s_model *m);
/* 1 if every GPU that this process may use is in the group. */
int32_t p2s_choose_all_in_group(const struct p2s_model *m);
/* The farthest of NCCL's path types such that every pair as near as that, or nearer, is safe for NCCL, and there is one; never
 * farther than NCCL goes by itself. P2PSAFE_PATH_UNKNOWN: there is none, or NCCL's view of the paths is not known. */
int32_t p2s_choose_level(const struct p2s_model *m);
/* 1 if we see the paths that NCCL sees, and every pair that is not safe for it is farther than it goes by itself. */
int32_t p2s_choose_bad_is_far(const struct p2s_model *m);
/* 1 if the pair and its way back are proven and measured faster than staging through host memory, both of them. */
int32_t p2s_choose_faster(const struct p2s_model *m, const struct p2s_pair *p);
/* 1 if that holds for every pair of GPUs that this process may use. A permission reaches all of these, also where only some of them
 * were judged. */
int32_t p2s_choose_all_faster(const struct p2s_model *m);
/* Sets the ordinals that a CUDA program under this mask would see; -1 for GPUs it does not see, or whose place is not known. visible NULL: no mask.
 * order: CUDA_DEVICE_ORDER; NULL: CUDA's default, which is what the driver told the test (driver_order). */
void p2s_choose_ordinals(struct p2s_model *m, const char *visible, const char *order);

#endif
