/* A record that is too long even with runs of letters (kept/compact.h) says less, and never something better: a worse answer
 * that does not fit must not leave the one before. Pure. */
#ifndef P2S_KEPT_SHRINK_H
#define P2S_KEPT_SHRINK_H

#include "kept/record.h"

enum p2s_shrink {
	P2S_SHRINK_FILL,  /* pairs outside the group that did not fail say nothing: they become like their neighbours */
	P2S_SHRINK_ROWS,  /* and all pairs from one GPU say the worst that one of them says */
	P2S_SHRINK_WHOLE, /* and all pairs do */
	P2S_SHRINK_STEPS
};

/* A copy of r with longer runs, which borrows r's GPUs. Returns 1, 0 when out of memory. */
int32_t p2s_shrink(struct p2s_record *out, const struct p2s_record *r, enum p2s_shrink how);
void p2s_shrink_free(struct p2s_record *copy);

#endif
