/* What the waiting kernels share: handshake over the control page, three bounds, results. */
#ifndef P2S_SIM_TWINS_WAIT_H
#define P2S_SIM_TWINS_WAIT_H

#include "helper/control.h"
#include "sim/twins.h"

/* One block of a waiting kernel. */
struct sim_role {
	struct sim_kernel *kernel;
	struct p2s_control *ctl;
	int block;
	int rc; /* CUresult or SIM_TWIN_WEDGED */
	struct sim_view view;
	struct sim_view res;
	int idle;
	struct p2s_role_result result;
	uint64_t max_ns;
	uint64_t max_iters;
	uint64_t go_ns;   /* when go was seen */
	uint64_t seen_ns; /* last look at the clock */
	uint64_t used_ns; /* of max_ns */
	uint32_t turns;
	int active; /* a sender was alive at the last look */
};

/* Finds control page and results. 0 or 700. */
int sim_role_open(struct sim_role *r, struct sim_kernel *k, int block, uint64_t ctl, uint64_t res);
/* Ready, then go. 1: go on; 0: the role has ended (NO_GO or ABORTED). */
int sim_role_go(struct sim_role *r);
/* One turn of a polling loop. 1: go on; 0: a bound was met and status is set. While a kernel that sends to this memory lives, a
 * busy CPU is not taken for a dead peer: the bound of time is longer. */
int sim_role_turn(struct sim_role *r);
/* A reader begins and ends to look at the memory of its view. */
void sim_role_looks(struct sim_role *r, int on);
/* On a GPU writer and reader run side by side; on few CPUs the writer gives the reader time. Waits until some reader is there,
 * for half a second at most, in the first round only. Returns the count of looks. */
uint32_t sim_role_await(struct sim_role *r, uint64_t round);
/* Waits until a reader has looked since, for 2 ms at most. */
void sim_role_meet(struct sim_role *r, uint32_t looks);
/* Aborted? Sets the status. */
int sim_role_aborted(struct sim_role *r);
/* An effect that ends the role: 1 and rc set. */
int sim_role_stopped(struct sim_role *r, const struct sim_hit *hit);
/* A fence of the role towards its peer. 1: the role has ended, rc set. */
int sim_role_fence(struct sim_role *r);
/* Writes the results. */
void sim_role_end(struct sim_role *r);
/* Runs one or two roles at once, one thread each. idle ones do their handshake too. */
int sim_roles_run(struct sim_role *roles, int count, void (*body)(struct sim_role *));
/* Keeps a bad word. */
void sim_role_bad(struct sim_role *r, uint64_t offset, uint64_t found);

#endif
