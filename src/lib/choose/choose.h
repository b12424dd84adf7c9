/* Transport, islands and ordinals from judged pairs. Pure. */
#ifndef P2S_CHOOSE_CHOOSE_H
#define P2S_CHOOSE_CHOOSE_H

#include <stdint.h>

#include "core/model.h"

/* Sets transport of every pair and of the group, and islands. Pairs must be judged. Returns 1, 0 when out of memory. */
int32_t p2s_choose(struct p2s_model *m);
/* The maximal safe cliques of the group, largest first, then by index. */
int32_t p2s_choose_islands(struct p2s_model *m);
/* Sets the ordinals that a CUDA program under this mask would see; -1 for GPUs it does not see. visible NULL: no mask.
 * order NULL: CUDA's default. */
void p2s_choose_ordinals(struct p2s_model *m, const char *visible, const char *order);

#endif
