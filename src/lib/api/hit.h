/* A kept record becomes a report. */
#ifndef P2S_API_HIT_H
#define P2S_API_HIT_H

#include "api/internal.h"
#include "kept/place.h"
#include "kept/record.h"

/* Looks for a record that speaks of this machine and fills the report with its decision. *hit 1: done. *hit 0: report is
 * untouched and why (cap bytes) says why there is none. Returns 0 or a P2PSAFE_E_*. */
int32_t p2s_hit_try(struct p2s_session *s, const struct p2s_places *places, p2psafe_report *report, int32_t *hit, char *why,
					size_t cap);
/* Uses one record without asking whether it is old: what a waiter or a late tester adopts. Same results. */
int32_t p2s_hit_adopt(struct p2s_session *s, const struct p2s_place *place, p2psafe_report *report, int32_t *hit, char *why,
					  size_t cap);

#endif
