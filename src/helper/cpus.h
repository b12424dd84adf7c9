/* CPUs to spare: threads may look for what they wait for a little while before they sleep. Waking up costs more than that,
 * unless somebody else needs the CPU: the workers, or whoever shares a limit on CPU time. */
#ifndef P2S_HELPER_CPUS_H
#define P2S_HELPER_CPUS_H

#include <stdint.h>

/* What a limit of a cgroup leaves, in CPUs, rounded down; UINT32_MAX: it limits nothing. text: "quota period" in microseconds,
 * quota "max" or -1 where there is none (cpu.max, and cpu.cfs_quota_us with cpu.cfs_period_us behind it). 0 for any other text:
 * nothing is known to be to spare. */
uint32_t p2s_cpus_quota(const char *text);
/* How many this process may use: of its affinity, and of the limits of its cgroup and of all above it. 0 unknown. */
uint32_t p2s_cpus_allowed(void);
/* 1 if so many are enough for a test of so many GPUs: for each, a thread here and one in a worker look, often both at once. */
int p2s_cpus_enough(uint32_t cpus, uint32_t gpus);

#endif
