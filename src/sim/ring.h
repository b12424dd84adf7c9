/* Posted writes: a store leaves the SM at once and lands in memory later, perhaps after younger ones, never across a fence.
 * One ring per directed pair (src = dst: the way to the own memory). Nobody drives it alone: whoever looks at the memory
 * lets some of what is on its way arrive, so delivery goes on when the writer is gone. */
#ifndef P2S_SIM_RING_H
#define P2S_SIM_RING_H

#include "sim/host.h"

/* Puts a store of 4 or 8 bytes on its way, not to land before due_ns (0: any time). */
void sim_ring_post(struct sim_host *h, int src, int dst, uint64_t phys, uint64_t value, unsigned bytes, uint64_t due_ns);
/* `count` words that follow each other, any time. */
void sim_ring_post_run(struct sim_host *h, int src, int dst, uint64_t phys, const uint64_t *words, uint32_t count);
/* What was posted before lands before what is posted after. */
void sim_ring_fence(struct sim_host *h, int src, int dst);
/* Lets a random share of what is on its way to this GPU arrive. */
void sim_ring_pump(struct sim_host *h, int dst);
/* Everything on its way to this GPU that is due arrives: a bulk reader looks. */
void sim_ring_settle(struct sim_host *h, int dst);
/* Everything from src to dst has landed when this returns: the end of a kernel. */
void sim_ring_drain(struct sim_host *h, int src, int dst);

/* A kernel that may send from src to dst begins, ends. */
void sim_ring_enter(struct sim_host *h, int src, int dst);
void sim_ring_leave(struct sim_host *h, int src, int dst);
/* 1 while such a kernel lives, or something is on its way to dst. */
int sim_ring_busy(struct sim_host *h, int dst);

#endif
