/* What a kept record rests on and the caller's process may not read: ACS words, MIG mode, NVLink states, UUID, VBIOS, whether a
 * GPU drives a display, and whether a grave Xid was logged since. The helper reads it; here it is compared with what the full
 * report kept. Pure. */
#ifndef P2S_KEPT_RECHECK_H
#define P2S_KEPT_RECHECK_H

#include <stdint.h>

#include "core/model.h"

struct p2s_recheck {
	char changed[160]; /* the first thing that is not as it was; "" nothing */
	char unread[160];  /* what could not be compared, comma-separated; "" nothing */
	unsigned char other[P2S_MAX_GPUS]; /* 1 for each GPU of now that is another card, is reached another way or works otherwise;
										* all 0 where nothing but a display or the log speaks against what was kept */
};

/* Compares every GPU of now's group. Returns 1 when nothing is known to have changed. A value that is unread on either side
 * neither matches nor fails, and is named. */
int32_t p2s_recheck_compare(const struct p2s_model *kept, const struct p2s_model *now, struct p2s_recheck *out);

#endif
