/* A kept record becomes a report. */
#ifndef P2S_API_HIT_H
#define P2S_API_HIT_H

#include "api/internal.h"
#include "api/recheck.h"
#include "kept/place.h"
#include "kept/record.h"

/* Looks for a record that speaks of this machine and fills the report with its decision, and with the failures that other
 * folders keep of it. refused: records that are not asked, NULL none. *hit 1: done. *hit 0: report is untouched and why (cap
 * bytes) says why there is none. Returns 0 or a P2PSAFE_E_*. */
int32_t p2s_hit_try(struct p2s_session *s, const struct p2s_places *places, const struct p2s_refused *refused,
					p2psafe_report *report, int32_t *hit, char *why, size_t cap);
/* Uses the record in the folder that is written without asking whether it is old: what a waiter or a late tester adopts. Same
 * results. */
int32_t p2s_hit_adopt(struct p2s_session *s, const struct p2s_places *places, p2psafe_report *report, int32_t *hit, char *why,
					  size_t cap);
/* Adds to r, a record of this machine from place own (-1 from none of them), what the other folders keep of failures. Returns 1
 * with *worse set if r changed; 0 when something newer may lie in the folder that we write, and cannot be read. */
int32_t p2s_hit_learn(struct p2s_session *s, const struct p2s_model *m, const struct p2s_places *places, int own,
					  struct p2s_record *r, int32_t *worse);

#endif
