/* Which fault of the plan hits a transfer, and which of its units. */
#ifndef P2S_SIM_FAULT_H
#define P2S_SIM_FAULT_H

#include "sim/host.h"

/* A transfer as the plan sees it: src accesses memory of dst. */
struct sim_transfer {
	int src;
	int dst;
	uint32_t op;      /* one SIM_OP_*; several: any of them */
	uint32_t mapping; /* one SIM_MAP_*; 0: calls and copies without one */
	uint64_t offset;  /* of its first byte in the owner's allocation */
	uint64_t bytes;
	const char *name; /* op call */
};

/* A fault that applies to one transfer. fault NULL: none. */
struct sim_hit {
	const struct sim_fault *fault;
	uint64_t salt;        /* of this transfer, for rate */
	uint64_t granularity; /* bytes of a unit */
};

/* Finds the first fault that matches and counts the transfer. */
struct sim_hit sim_fault_find(struct sim_host *h, const struct sim_transfer *t);
/* The effect without counting; SIM_NONE. */
int sim_fault_peek(const struct sim_host *h, const struct sim_transfer *t);
/* 1 if a plan for it waits for others to be active (min_active): it may hit a little later, too. */
int sim_fault_by_load(const struct sim_host *h, const struct sim_transfer *t);
/* 1 if the byte at this offset of the owner's allocation is hit. Whole units are hit or spared. */
int sim_hit_at(const struct sim_hit *hit, uint64_t offset);
/* 1 if every byte between from and to of the fault is hit, so that ranges can be handled whole. */
int sim_hit_whole(const struct sim_hit *hit);
/* 1 if some fault with this effect may meet the pair. */
int sim_fault_plans(const struct sim_config *c, int effect, int src, int dst);
/* The process dies as by a fault inside the driver. */
void sim_fault_crash(void) __attribute__((noreturn));
/* The calling thread never goes on. */
void sim_fault_park(void) __attribute__((noreturn));
/* What time takes `factor` times as long or short for this transfer: ns under the plan. */
uint64_t sim_fault_time(const struct sim_host *h, const struct sim_transfer *t, uint64_t ns);
/* An effect that ends a transfer or a call of `gpu`: the CUresult, SIM_FAULT_WEDGED, 0 none. Crashes where the plan says so;
 * a late error is laid down, a lost GPU is lost. */
#define SIM_FAULT_WEDGED (-1)
int sim_fault_stop(struct sim_host *h, const struct sim_fault *f, int gpu);
/* A fence of src towards dst: as sim_fault_stop; waits where the plan says so. */
int sim_fault_fence(struct sim_host *h, int src, int dst, uint32_t mapping);
#define SIM_FAULT_DROPPED (-2)
/* Before every call of the driver: 0 go on, SIM_FAULT_DROPPED return success and do nothing, else the CUresult to return. */
int sim_fault_enter(const char *name);
#define SIM_ENTER()                                                            \
	do {                                                                   \
		int entered = sim_fault_enter(__func__);                       \
		if (entered)                                                   \
			return entered == SIM_FAULT_DROPPED ? CU_OK : entered; \
	} while (0)

/* For calls that move no bytes: 0 go on, else the CUresult to return. Crashes or blocks where the plan says so. */
int sim_fault_call(struct sim_host *h, const struct sim_transfer *t);

#endif
