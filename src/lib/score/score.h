/* Numbers into judgements. Pure, integers only. */
#ifndef P2S_SCORE_SCORE_H
#define P2S_SCORE_SCORE_H

#include <stdint.h>

#include "core/model.h"

/* 1 if the pair was measured and is no faster than staging through host memory. staged may be NULL. */
int32_t p2s_score_degraded(const struct p2s_pair *pair, const struct p2s_staged *staged);
/* 0..1000, monotone in the measured bandwidth; 0 when a required leg is known to be wrong; -1 when not measured. Uses
 * pair->verdict. */
int32_t p2s_score_pair(const struct p2s_pair *pair, const struct p2s_staged *staged);

#endif
