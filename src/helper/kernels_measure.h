/* The kernels of the measuring: names, arguments and results, in the manner of kernels.h. PTX text: kernels_measure.ptx,
 * twins: src/sim/twins_measure.c. A module of its own, loaded by P2S_OP_SPEED_INIT. res points to one zeroed struct
 * p2s_role_result in memory of the GPU that runs the kernel. Every argument is one .u64.
 *
 * p2s_gate(ctl, res, party, max_ns, max_iters)
 *     One thread. Stores 1 to ctl->ready[0], then polls ctl->go: what the stream holds behind it waits. Ends with status DONE,
 *     with ABORTED when ctl->abort is raised, with NO_GO after max_ns or max_iters polls. party numbers what is started at
 *     once, on whichever GPUs; it is handed back in seen_a, and tells a simulated machine who shares its links.
 *
 * p2s_pump(dst, src, bytes, loops)
 *     Copies bytes (a multiple of 16) from src to dst, loops times; then fence.acq_rel.sys. Both multiples of 16. Any grid.
 *
 * p2s_chase(src, res, region, stride, count, block, zero)
 *     Thread 0 of block number `block` does 64 and then count dependent loads of 4 bytes: the first of src, each next one
 *     stride bytes on, modulo region (a power of two). zero must be 0. status DONE, rounds_done = count, elapsed_ns: of
 *     the count loads; seen_a: offset where the next load would have been. Other threads end at once.
 *
 * p2s_issue(dst, res, count, rounds)
 *     One thread: rounds times a fence and then count stores of 16 bytes to dst and on. status DONE, rounds_done = rounds,
 *     elapsed_ns: of all stores together, fences left out.
 *
 * p2s_pong(ctl, res, dst, src, seed, rounds, warm, first, max_ns, max_iters)
 *     One thread on each of two GPUs; handshake as block 0 of p2s_mp. Message k (1..rounds) is the word k ^ seed at dst + 128
 *     (st.relaxed.sys) and then k at dst (st.release.sys). first: sends message k, then waits for it at src; else waits
 *     for it at src, then sends it. src is own memory, dst the peer's. After the wait the payload is loaded once; a wrong
 *     one counts in bad_words. elapsed_ns: from the end of round warm (0: from go) to the end. rounds_done: whole rounds; flag_found: the
 *     flag seen last; status DONE, TIMEOUT, ABORTED, NO_GO.
 */
#ifndef P2S_HELPER_KERNELS_MEASURE_H
#define P2S_HELPER_KERNELS_MEASURE_H

#include "helper/kernels.h"

/* P2S_KERNEL(name, number of arguments) */
#define P2S_KERNELS_MEASURE(K) \
	K(gate, 5)                 \
	K(pump, 4)                 \
	K(chase, 7)                \
	K(issue, 4)                \
	K(pong, 10)

#define P2S_CHASE_WARM 64

#endif
