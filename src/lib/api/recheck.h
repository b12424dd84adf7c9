/* A kept record held against what only the helper can read. */
#ifndef P2S_API_RECHECK_H
#define P2S_API_RECHECK_H

#include "api/internal.h"
#include "kept/place.h"
#include "kept/recheck.h"
#include "kept/record.h"

struct p2s_refused { /* records that were found wanting, one in each place at most */
	int32_t count;
	struct {
		char path[600];
		char why[200];
	} of[P2S_PLACES + 1];
};

/* As p2s_hit_try(), and then the helper looks (no GPU is opened, no byte moves): a record that something speaks against is no
 * hit, is noted in *refused, and is not asked about again. */
int32_t p2s_recheck_hit(struct p2s_session *s, const struct p2s_places *places, struct p2s_refused *refused,
                        p2psafe_report *report, int32_t *hit, char *why, size_t cap);
/* Index of a refused record, -1 if that path is none. */
int32_t p2s_recheck_refused(const struct p2s_refused *refused, const char *path);
/* Makes a report empty again that a hit filled. */
void p2s_recheck_forget(p2psafe_report *report);
/* 0 if a run just made shows that the record in dir no longer speaks of this machine, 1 if not, or if its evidence is not
 * there. *out says what speaks against it. */
int32_t p2s_recheck_record(int dir, const struct p2s_record *r, const struct p2s_model *now, struct p2s_recheck *out);

#endif
