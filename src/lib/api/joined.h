/* Reports that p2psafe_merge() made, when they are joined once more. */
#ifndef P2S_API_JOINED_H
#define P2S_API_JOINED_H

#include <jansson.h>
#include <stdint.h>

#include "core/model.h"

/* 1 if the report says of itself that it was joined from others. */
int32_t p2s_joined_is(const json_t *report);
/* The decision of such a report, which p2s_emit_parse() left in m without GPUs and pairs, into m: there are no legs to judge it from,
 * so it counts as it says. Returns 1, 0 when out of memory, -1 when it is no whole joined report: it contradicts itself, or sets what
 * this version would not set. */
int32_t p2s_joined_read(const json_t *report, struct p2s_model *m);

#endif
