/* Who shares the links: transfers that a gate let go at once. Real threads finish when they like, so a modelled machine cannot
 * look at who runs right now; what is behind gates of one party (p2s_gate) is taken to move all together, from the first
 * byte to the last. Everything else moves alone. */
#ifndef P2S_SIM_FLOW_H
#define P2S_SIM_FLOW_H

#include "sim/context.h"

/* The stream's next work belongs to a party; 0: to none. */
void sim_flow_gate(struct sim_stream *s, uint32_t party);
/* Bytes of GPU `from` will go to GPU `to` behind the stream's gate. Told when the work is queued: the gate opens only after all
 * have queued theirs. Returns the party for sim_flow_share, 0 none. */
uint32_t sim_flow_note(struct sim_stream *s, int from, int to);
/* How many times longer a transfer takes than alone, in thousandths; 1000 alone. src, dst: accessor and owner, whose link
 * it is. */
uint64_t sim_flow_share(struct sim_host *h, uint32_t party, int src, int dst, int from, int to);

#endif
