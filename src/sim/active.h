/* Which engines of the whole machine are at work right now, for faults that need load. */
#ifndef P2S_SIM_ACTIVE_H
#define P2S_SIM_ACTIVE_H

#include "sim/host.h"

/* The calling thread runs a job until it leaves. */
void sim_active_enter(struct sim_host *h);
void sim_active_leave(struct sim_host *h);
/* The job that the calling thread works for; a thread that helps another takes over its job. 0: none. */
uint32_t sim_active_job(void);
void sim_active_join(uint32_t job);
/* How many other jobs run, in all processes. */
int sim_active_others(struct sim_host *h);

#endif
