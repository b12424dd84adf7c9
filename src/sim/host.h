/* The simulated machine as this process sees it: the configuration, and the memory that all processes of a run share. */
#ifndef P2S_SIM_HOST_H
#define P2S_SIM_HOST_H

#include <stdint.h>

#include "sim/config.h"
#include "sim/store.h"

#define SIM_OBJECTS 4096 /* allocations on the whole machine */
#define SIM_USERS 72     /* processes that hold one allocation; more than P2S_MAX_GPUS + 1 */
#define SIM_RING 4096    /* posted writes on the way from one GPU to another */
#define SIM_ACTIVE 256  /* jobs of engines at once on the whole machine */
#define SIM_FLOWS 512    /* streams of the whole machine that were ever behind a gate */
#define SIM_WRITERS 8    /* kernels at once that send from one GPU to another */

/* Who holds an allocation, and how often. */
struct sim_user {
	uint32_t pid; /* 0 unused */
	uint32_t count;
};

/* One piece of GPU memory, like a driver's physical allocation. */
struct sim_object {
	uint32_t generation; /* odd: in use. A handle names index and generation, so that it dies with the object */
	int32_t gpu;
	uint64_t phys; /* byte offset in the GPU's memory */
	uint64_t bytes;
	struct sim_user users[SIM_USERS];
};

/* A store on its way. Writes of one epoch may land in any order; a fence starts the next epoch. */
struct sim_posted {
	uint64_t phys;
	uint64_t value;
	uint64_t due_ns; /* CLOCK_MONOTONIC; not before */
	uint32_t look;   /* nor before readers have looked so often; 0: not asked */
	uint32_t epoch;
	uint16_t bytes; /* 4 or 8 */
	uint16_t link;  /* index of the sender */
};

struct sim_ring {
	uint32_t lock;
	uint32_t head;
	uint32_t count;
	uint32_t epoch;
	uint32_t writers[SIM_WRITERS]; /* thread ids of kernels that may still add to it; 0 unused */
	uint32_t random;
	uint32_t holds; /* how many second halves may still wait for somebody to look */
	struct sim_posted posted[SIM_RING];
};

struct sim_gpu_state {
	uint32_t passes;  /* polls of waiting kernels: a writer on a busy CPU can wait for them a little */
	uint32_t readers; /* kernels that poll memory of this GPU */
	uint32_t contexts[SIM_USERS]; /* pids with a context, for exclusive mode */
	int32_t lost;      /* CUresult of every later call: the GPU fell off the bus */
	int32_t mps_error; /* what ended one client of MPS ended all */
};

/* What moves behind a gate: see flow.h. */
struct sim_flow {
	uint32_t taken;
	uint32_t party; /* 0 none */
	int32_t from;
	int32_t to;
};

struct sim_shared {
	uint32_t state; /* 0 new, pid of the initialiser, ~0 ready */
	uint32_t lock;  /* objects and contexts */
	uint64_t digest;
	uint64_t run;   /* random; names this run in handles */
	uint32_t active[SIM_ACTIVE];
	struct sim_gpu_state gpus[P2S_MAX_GPUS];
	struct sim_flow flows[SIM_FLOWS];
	struct sim_object objects[SIM_OBJECTS];
};

struct sim_kmsg_limit;

struct sim_host {
	struct sim_config config;
	struct sim_shared *shared;
	struct sim_ring *rings;    /* [src * gpus + dst] */
	uint32_t *fault_counts;    /* [fault][src * gpus + dst] */
	struct sim_kmsg_limit *kmsg; /* [fault * gpus + src], and one */
	struct sim_store *memory;  /* [gpu] */
	struct sim_store *old;     /* [gpu]: the bytes before the last change; NULL unless a fault needs them */
	struct sim_store *mirrors; /* [src * gpus + dst]; NULL unless a fault needs them */
};

/* The host of P2PSAFE_SIM_HOST, attached at the first call. NULL when that failed; the reason went to P2PSAFE_SIM_LOG. */
struct sim_host *sim_host(void);
/* The configuration alone, without memory; NULL when there is none. */
const struct sim_config *sim_host_config(void);
/* One line to the descriptor of P2PSAFE_SIM_LOG, if any. */
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 0, or the CUresult that every call on this GPU gives. */
static inline int sim_gpu_lost(const struct sim_host *h, int gpu)
{
	return __atomic_load_n(&h->shared->gpus[gpu].lost, __ATOMIC_ACQUIRE);
}

static inline int sim_pair(const struct sim_host *h, int src, int dst)
{
	return src * h->config.gpu_count + dst;
}

/* Objects. All take the shared lock. */

/* Allocates memory of a GPU for this process: object index, or -1. bytes is rounded up to whole chunks. */
int sim_object_new(struct sim_host *h, int gpu, uint64_t bytes, uint64_t align);
/* One more use of an object by this process; 0 when it is gone. */
int sim_object_hold(struct sim_host *h, int index, uint32_t generation);
/* One use less; the last one frees the memory. */
void sim_object_drop(struct sim_host *h, int index);
uint64_t sim_object_free_bytes(struct sim_host *h, int gpu);
/* Enters this process as a user of the GPU. Returns 0 if the GPU is exclusive and another process has it. */
int sim_gpu_enter(struct sim_host *h, int gpu, int exclusive);
void sim_gpu_leave(struct sim_host *h, int gpu);

#endif
