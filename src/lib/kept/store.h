/* The folder of records: <generation>.json (decision) and a full report beside it. The first writer wins within a
 * generation, readers take the highest one, or none if that is not whole: it may have taken a permission back. */
#ifndef P2S_KEPT_STORE_H
#define P2S_KEPT_STORE_H

#include <stdint.h>

#include "kept/record.h"

/* Highest generation number present (whole or not), 0 none. Returns 1, 0 when the folder could not be read to its end. */
int32_t p2s_store_highest(int dir, uint64_t *n);
/* Reads the record of the highest generation into *r. Returns 1, or 0 with *why set. */
int32_t p2s_store_newest(int dir, struct p2s_record *r, const char **why);
/* The highest one that can be read: what is known, for whoever is about to replace it. Never an answer. Returns 1 or 0. */
int32_t p2s_store_last_whole(int dir, struct p2s_record *r);
/* Publishes r (and the full report's text, may be NULL) as the given generation. Returns 1 published, 0 somebody else was
 * first, -1 it could not be written. Sets r->generation, full_name and full_hash. */
int32_t p2s_store_publish(int dir, struct p2s_record *r, uint64_t generation, const char *full);
/* Publishes r again as another generation, keeping its full report. */
int32_t p2s_store_republish(int dir, struct p2s_record *r, uint64_t generation);
/* A worse answer cannot be written, on a full disk, say: nothing kept so far may answer in its place. An empty record under
 * that number, behind which the next one that publishes still finds the failures of older ones; where not even that can be made
 * and alone is set (the caller holds the lock), the older records go. Returns 1 when no older record answers any more. */
int32_t p2s_store_stop(int dir, uint64_t generation, int32_t alone);
/* Removes what generations below `keep` left behind, and unfinished files; for the holder of the lock only. */
void p2s_store_clean(int dir, uint64_t keep);
/* Removes records and markers. Returns how many files went, -errno if the folder cannot be read or some of them stay. */
int32_t p2s_store_clear(int dir);
/* Full report of a record as text, NULL if it is not there, not to be trusted or not the one that the record names. */
char *p2s_store_full(int dir, const struct p2s_record *r, size_t *len);

#endif
