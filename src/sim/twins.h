/* The test kernels in C: one function per kernel of helper/kernels.h, to that contract. */
#ifndef P2S_SIM_TWINS_H
#define P2S_SIM_TWINS_H

#include "helper/kernels_measure.h"
#include "sim/context.h"
#include "sim/map.h"

/* A launched kernel. */
struct sim_kernel {
	struct sim_job job;
	struct sim_context *context;
	int (*twin)(struct sim_kernel *k); /* returns 0 or the CUresult that the context fails with; -1: never comes back */
	uint64_t args[P2S_KERNEL_ARGS_MAX];
	uint64_t ns; /* modelled duration, set by the twin */
	uint32_t party; /* who is let go together with it; see flow.h */
	uint64_t peers; /* the context's peer access when it was launched */
	int effect;  /* of a launch fault */
	int error;
};

#define SIM_TWIN_WEDGED (-1)

struct sim_twin {
	const char *name;
	unsigned args;
	int (*twin)(struct sim_kernel *k);
};

extern const struct sim_twin sim_twins[];
extern const int sim_twin_count;

int sim_twin_fill(struct sim_kernel *k);
int sim_twin_check(struct sim_kernel *k);
int sim_twin_load(struct sim_kernel *k);
int sim_twin_mp(struct sim_kernel *k);
int sim_twin_tear(struct sim_kernel *k);
int sim_twin_atomic(struct sim_kernel *k);
int sim_twin_wide(struct sim_kernel *k);
int sim_twin_ll(struct sim_kernel *k);
int sim_twin_gate(struct sim_kernel *k);
int sim_twin_pump(struct sim_kernel *k);
int sim_twin_chase(struct sim_kernel *k);
int sim_twin_issue(struct sim_kernel *k);
int sim_twin_pong(struct sim_kernel *k);

/* The view of the kernel's GPU on device memory at ptr, at least `bytes` long. 0, or 700. */
int sim_kernel_view(struct sim_kernel *k, uint64_t ptr, uint64_t bytes, struct sim_view *v);
/* The outcome of a bulk access as a twin's return value. */
int sim_kernel_outcome(enum sim_outcome rc, int error);
/* Modelled time of moving bytes through a view. */
uint64_t sim_kernel_ns(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes);

#endif
