/* A kept record held against what only the helper can read. */
#ifndef P2S_API_RECHECK_H
#define P2S_API_RECHECK_H

#include "api/internal.h"
#include "kept/place.h"
#include "kept/recheck.h"
#include "kept/record.h"

struct p2s_refused { /* a record that was found wanting; path "": none */
	char path[600];
	char why[200];
};

/* As p2s_hit_try(), and then the helper looks (no GPU is opened, no byte moves): a record that something speaks against is no
 * hit, is noted in *refused, and is not asked about again. */
int32_t p2s_recheck_hit(struct p2s_session *s, const struct p2s_places *places, struct p2s_refused *refused,
                        p2psafe_report *report, int32_t *hit, char *why, size_t cap);
/* 0 if a run just made shows that the record in dir no longer speaks of this machine, 1 if not, or if its evidence is not
 * there. *out says what speaks against it. */
int32_t p2s_recheck_record(int dir, const struct p2s_record *r, const struct p2s_model *now, struct p2s_recheck *out);

#endif
