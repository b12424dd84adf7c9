/* The simulated kernel's log during a run: lines that faults of cuda.json write, in the records of /dev/kmsg. They are appended to
 * the file of P2PSAFE_SIM_KMSG_FD, which all processes of a run share; without it they are lost. */
#ifndef P2S_SIM_KMSG_H
#define P2S_SIM_KMSG_H

#include <stdint.h>

struct sim_host;

/* The kernel's rate limit (DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST), per fault and accessor. */
struct sim_kmsg_limit {
	uint32_t lock;
	uint32_t printed;
	uint32_t missed;
	uint32_t seq; /* of the log; in the last element of the array only */
	uint64_t begin_ns;
};

/* The fault with this index strikes the transfer src>dst (SIM_ANY and below: nobody). */
void sim_kmsg_write(struct sim_host *h, int fault, int src, int dst);

#endif
