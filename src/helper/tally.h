/* What one leg showed so far, when it runs again and again: damage seen once stays, passes add up. Pure. */
#ifndef P2S_HELPER_TALLY_H
#define P2S_HELPER_TALLY_H

#include "ipc/proto.h"

struct p2s_tally {
	int32_t verdict; /* 0: did not run yet */
	uint64_t bytes;
	uint64_t rounds;
	uint64_t coverage;
};

/* Takes in a result of the leg. again: of a repetition of the whole test, not of its first pass. Returns 1 when it changes what
 * is known: *leg is then what there is to tell, everything before included. */
int p2s_tally_add(struct p2s_tally *kept, struct p2s_lib_leg *leg, int again);

#endif
