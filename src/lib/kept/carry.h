/* Failures outlive the record that they were found in: what replaces it on the same machine takes them along until three runs
 * that were at least as thorough have passed. Pure. */
#ifndef P2S_KEPT_CARRY_H
#define P2S_KEPT_CARRY_H

#include <stdint.h>

#include "kept/record.h"

#define P2S_CARRY_PASSES 3 /* good runs that outweigh one bad one */

/* old: a record whose host part matches (same boot, driver, kernel, ...). What failed in it between GPUs that are the same cards
 * still, and that no three runs outweigh, becomes part of now; so does what was measured slow, if now did not measure. A HANG is
 * never outweighed. Pairs of which now tested only one GPU or none are remembered in cells that no answer shows. Sets
 * now->passes. Returns 1 if a pair of now's own group is worse for it. */
int32_t p2s_carry_failures(struct p2s_record *now, const struct p2s_record *old);
/* The other way round: kept stays, being wider or of a better level, or from another folder. Whatever failed in other, a record
 * of the same boot, driver and kernel, becomes part of it, and no pass outweighs that; so do the pairs that other left untested
 * because a GPU ended. Sets kept->passes to 0 then. Returns 1 if kept changed. */
int32_t p2s_carry_add(struct p2s_record *kept, const struct p2s_record *other);

#endif
