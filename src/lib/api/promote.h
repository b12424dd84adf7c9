#ifndef P2S_API_PROMOTE_H
#define P2S_API_PROMOTE_H

#include "api/internal.h"

/* Adds to a finished report, which nobody has yet, the settings that give permission. Returns 1, 0 when out of memory. */
int32_t p2s_promote(p2psafe_report *report);

#endif
