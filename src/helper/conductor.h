/* The conductor: one per run. It starts the workers, composes the legs from the operations of ops.h, judges, and streams every
 * result to the library. Threads: the main thread (starts and ends workers, leads the phases), one watcher of the
 * library's socket, and one thread per pair or GPU inside a phase. A channel is used by one thread at a time. */
#ifndef P2S_HELPER_CONDUCTOR_H
#define P2S_HELPER_CONDUCTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/model.h"
#include "helper/judge.h"
#include "helper/klog.h"
#include "helper/ops.h"
#include "helper/spawn.h"
#include "helper/tally.h"
#include "ipc/proto.h"

#define P2S_LIB_FD 3
#define P2S_MS UINT64_C(1000000)
#define P2S_SEC UINT64_C(1000000000)
#define P2S_KIB UINT64_C(1024)
#define P2S_MIB (UINT64_C(1024) * 1024)

/* Index of a mapping in tables, in the order in which they are tested. */
enum { P2S_M_CUMEM = 0, P2S_M_IPC = 1, P2S_M_PEER = 2, P2S_M_COUNT = 3 };
extern const int32_t p2s_mapping_word[P2S_M_COUNT]; /* P2PSAFE_MAPPING_* */

/* Buffer numbers, see P2S_BUF. Each GPU owns three; each is also the local side of transfers over another mapping:
 * one direction of a pair runs at a time. */
enum {
	P2S_B_CUMEM = 1,    /* gpu worker */
	P2S_B_PLAIN = 2,    /* gpu worker: exported as IPC */
	P2S_B_PEER = 3,     /* peer worker */
	P2S_B_IN_CUMEM = 4, /* the peer's cumem buffer seen through an import; the GPU in the id is the owner */
	P2S_B_IN_IPC = 5,
	P2S_B_HOST = 6, /* shared host memory of the staged path */
	P2S_B_AGAIN = 7, /* small, made and freed again and again */
	P2S_B_IN_AGAIN = 8,
	P2S_B_IN_SWEEP = 9, /* the block of the peer that is being swept */
	P2S_B_RING = 10,    /* shared host memory that the GPU in the id sends through, while it is measured */
	P2S_B_SWEEP = 16    /* gpu worker: this and all numbers above, while everything is held */
};

/* Outcomes of a call beyond P2S_RC_*. */
enum {
	P2S_RC_GONE = 100,  /* the worker ended: answer.where says how */
	P2S_RC_STUCK = 101, /* no answer: the engine or the driver hangs; the worker was killed */
	P2S_RC_LATE = 102,  /* the run's deadline came first, or had come when it was asked */
	P2S_RC_UNSENT = 103 /* the worker had ended before, and never took this request: answer.where says how */
};

/* Of a worker that nobody told to end. */
enum {
	P2S_END_NONE = 0,
	P2S_END_DIED = 1,
	P2S_END_STUCK = 2, /* no answer to this channel: it was killed */
	P2S_END_LATE = 3   /* no answer yet when the deadline came */
};

enum { P2S_CHAN_GPU = 0, P2S_CHAN_PEER = 1, P2S_CHAN_KINDS = 2 };

struct p2s_chan {
	pthread_mutex_t lock; /* from post to wait */
	int sock;             /* -1: none */
	int page_fd;
	struct p2s_control *page;
	struct p2s_proc *proc;
	uint32_t gpu;
	uint32_t seq;
	uint32_t sent; /* the last that was sent: a dead channel takes requests and sends none */
	uint32_t op;
	uint64_t wait_until_ns;
	uint64_t behind_ns; /* how long the request may take that was sent before the one in front of it was answered; 0: there is none */
	_Atomic uint64_t busy_ns; /* what its GPU needed so far, by the GPU's clock; read while others add to it */
	atomic_int dead;
	atomic_int end; /* of its worker: P2S_END_* */
	atomic_int told; /* some leg's verdict tells of it */
	char why[96];
};

#define P2S_RUN_FACTS (P2S_GPU_FACT_FABRIC_STATUS + 1)

struct p2s_device { /* a GPU of the run */
	char address[P2S_BDF_TEXT];
	int test;
	struct p2s_chan chan[P2S_CHAN_KINDS];
	struct p2s_op_device info[P2S_CHAN_KINDS]; /* answers to INIT */
	atomic_int inited[P2S_CHAN_KINDS]; /* set after info, which the threads of the side workers read then */
	char init_error[P2S_CHAN_KINDS][160];
	uint64_t bytes[P2S_B_PEER + 1];        /* of the own buffers that tests use; 0: not there */
	uint64_t handle_bytes[P2S_B_PEER + 1]; /* of the allocation, rounded up by the driver */
	int export_fd;
	unsigned char ipc_handle[64];
	uint32_t ipc_len;
	int mapping_ready[P2S_M_COUNT]; /* the owner's side: allocated and exported */
	int32_t mapping_error[P2S_M_COUNT];
	int host_mapped;
	atomic_int out;  /* takes no further part; state and error tell why */
	atomic_int lost; /* it worked, and then it was gone: told once */
	int32_t state;
	int32_t minor;
	int32_t fact[P2S_RUN_FACTS]; /* what NVML said, by P2S_GPU_FACT_* */
	char uuid[48];
	char name[96];
	char vbios[32];
	char error[160];
	struct p2s_pattern history[P2S_M_COUNT][8]; /* what the window of each mapping held, newest first */
};

enum { P2S_MAP_UNTRIED = 0, P2S_MAP_READY = 1, P2S_MAP_REFUSED = 2, P2S_MAP_FAILED = 3 };

struct p2s_way { /* a directed pair */
	/* The first three and limit only with table_lock: the threads of the side workers may change them at any time. */
	int32_t path;
	int32_t nccl_path;
	int32_t nvlinks;
	int32_t can_access;
	int32_t native_atomics;
	uint64_t limit;
	int32_t map[P2S_M_COUNT]; /* P2S_MAP_* */
	int32_t map_error[P2S_M_COUNT];
	int refused;    /* the library knows what speaks against first contact */
	int first_done; /* first contact was made */
	int clean;      /* first contact was clean */
	atomic_int bad; /* some leg was CORRUPT, HANG or ERROR */
	int staged_ok;      /* through host memory, both ways */
	atomic_int fault;   /* an IOMMU fault of this pair was logged */
	int32_t verdict[16][P2S_M_COUNT];
	struct p2s_tally tally[16][P2S_M_COUNT];
};

struct p2s_side { /* the host and nvml workers */
	struct p2s_proc *proc;
	int sock;
	pthread_t thread;
	int started;
	int answered; /* said that it has said everything */
	int32_t status; /* with which P2S_DONE_* */
	uint64_t start_ns;
	atomic_uint_fast64_t deadline_ns;
	struct p2s_run *run;
};

struct p2s_run {
	struct p2s_lib_run ask;
	uint32_t n;
	struct p2s_device *gpu;
	struct p2s_way *way; /* n * n, [src * n + dst] */
	uint32_t tested[P2S_MAX_GPUS];
	uint32_t tested_count;
	int eager; /* CPUs to spare for looking instead of sleeping */
	int simulated;
	int sim_fd;
	int kmsg_fd; /* simulated: what the kernel logs during the test; workers append to it */
	struct p2s_klog *klog; /* NULL: not read */
	int host_fd;   /* shared memory of the staged path */
	int has_cuda;  /* a simulated host with cuda.json, or a real one */
	char dir[512]; /* of the helper */
	struct p2s_seam seam;

	uint64_t start_ns;
	uint64_t stop_ns; /* no leg is started after this */
	uint64_t last_ns; /* no wait goes beyond this */

	struct p2s_proc *proc; /* all workers */
	size_t proc_count;
	pthread_mutex_t proc_lock;
	struct p2s_side side[2]; /* host, nvml */

	pthread_mutex_t send_lock;
	pthread_mutex_t table_lock;
	pthread_mutex_t risk_lock;
	pthread_cond_t risk_cond;
	int risk_answer; /* -1 none yet */
	atomic_int finishing;

	atomic_int stopped;           /* for safety: nothing risky is started any more */
	atomic_int deadline;          /* something was left out for lack of time */
	atomic_int corrupt;           /* some pair was CORRUPT */
	atomic_int faulted;  /* an IOMMU fault was logged during the test */
	atomic_uint_fast64_t counter; /* of keys */
	uint32_t cycle;               /* which repetition of the whole test this is; 0 the first pass */
	uint64_t soak_ns;             /* start of the repetitions, whose progress is counted in seconds; 0: not there yet */
	atomic_uint legs_told;
	atomic_uint progress_done;
	uint32_t progress_of;
	const char *progress_phase;
};

static inline struct p2s_way *p2s_run_way(struct p2s_run *run, uint32_t a, uint32_t b)
{
	return &run->way[(size_t)a * run->n + b];
}

/* P2PSAFE_PATH_* as far as it is known by now: the host worker may still be answering. */
static inline int32_t p2s_run_path(struct p2s_run *run, uint32_t a, uint32_t b)
{
	int32_t path;

	pthread_mutex_lock(&run->table_lock);
	path = p2s_run_way(run, a, b)->path;
	pthread_mutex_unlock(&run->table_lock);
	return path;
}

static inline int p2s_run_keeps_going(const struct p2s_run *run)
{
	return (run->ask.flags & P2PSAFE_FLAG_KEEP_GOING) != 0;
}

/* conductor_link.c: the library's side. Every function may be called from any thread. */
void p2s_link_send(struct p2s_run *run, uint16_t id, const void *message, int fd);
void p2s_link_leg(struct p2s_run *run, const struct p2s_lib_leg *leg); /* also keeps the verdict in the tables */
void p2s_link_fact(struct p2s_run *run, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
                   const char *text);
void p2s_link_gpu(struct p2s_run *run, uint32_t gpu);
void p2s_link_pair(struct p2s_run *run, uint32_t a, uint32_t b);
void p2s_link_phase(struct p2s_run *run, const char *phase, uint32_t of);
void p2s_link_progress(struct p2s_run *run);
void p2s_link_timing(struct p2s_run *run, const char *name, uint64_t since_ns);
void p2s_link_timing_ns(struct p2s_run *run, const char *name, uint64_t ns);
/* P2S_RISK_GO, P2S_RISK_SKIP (not this pair), or P2S_RISK_STOP: not allowed, no answer, or the run is stopped. */
int p2s_link_risk(struct p2s_run *run, uint32_t a, uint32_t b, int32_t leg);
int p2s_link_watch(struct p2s_run *run); /* starts the watcher */

/* conductor_chan.c */
int p2s_chan_open(struct p2s_chan *chan, uint32_t gpu, int *child_sock);
void p2s_chan_close(struct p2s_chan *chan);
/* Sends a request. fd -1: none. A dead channel takes it silently; the wait then says GONE. */
void p2s_chan_post(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, int fd);
/* One more behind the request that was posted and is not waited for yet: the worker goes on with it at once. Then there are two waits,
 * whatever the first one says. */
void p2s_chan_follow(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req);
/* Has its worker ended while nobody waited for an answer? Then the channel is dead. */
void p2s_chan_look(struct p2s_run *run, struct p2s_chan *chan);
/* Whose end is P2S_END_LATE: was all that it had been asked for done since, or is by then? */
int p2s_chan_caught_up(struct p2s_chan *chan, uint64_t until_ns);
/* P2S_RC_*. *fd (may be NULL) gets a descriptor. */
int p2s_chan_wait(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd);
int p2s_chan_wait_device(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_device *device,
                         struct p2s_op_answer *answer);
int p2s_chan_call(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer);
/* Before a waiting kernel: ready, go and abort to 0. */
void p2s_chan_arm(struct p2s_chan *chan);
/* Waits for the ready words of mask (bit per role); 1 when all are there. */
int p2s_chan_ready(struct p2s_run *run, struct p2s_chan *chan, unsigned mask, uint64_t until_ns);
void p2s_chan_go(struct p2s_chan *chan);
void p2s_chan_abort(struct p2s_chan *chan);

/* conductor_workers.c: starting and ending them, the host and nvml answers */
void p2s_workers_prepare(struct p2s_run *run); /* what all of them share */
int p2s_workers_start(struct p2s_run *run);
int p2s_workers_start_sides(struct p2s_run *run);
void p2s_workers_kill(struct p2s_run *run, struct p2s_proc *proc);
void p2s_workers_await_side(struct p2s_run *run, int which); /* its answers are in */
void p2s_workers_join_side(struct p2s_run *run, int which);  /* and it may go */
/* The host worker reads once more how fast and wide the links are, now that they are busy. Returns when it has, or soon. */
void p2s_workers_ask_host(struct p2s_run *run);
void p2s_workers_end(struct p2s_run *run);

/* conductor_setup.c: phases before first contact. Each returns when all GPUs are through. */
int p2s_setup_init(struct p2s_run *run); /* 1: at least one GPU can be tested; 0: a driver message was sent */
void p2s_setup_local(struct p2s_run *run);
void p2s_setup_mappings(struct p2s_run *run);
void p2s_staged_run(struct p2s_run *run);
/* Runs task(run, a, b) for all pairs of GPUs that still take part, in rounds of disjoint pairs. */
/* Returns what the GPUs needed by their own clocks: of each round the pair that needed most. */
uint64_t p2s_run_rounds(struct p2s_run *run, void (*task)(struct p2s_run *run, uint32_t a, uint32_t b));
/* Runs task(run, gpu, kind) for kind 0..kinds-1 of all tested GPUs that still take part, all at once. */
void p2s_run_each(struct p2s_run *run, int kinds, void (*task)(struct p2s_run *run, uint32_t gpu, int kind));

/* conductor_risk.c: GPUs that static evidence forbids to test take no part from here on */
void p2s_risk_static(struct p2s_run *run);

/* legs_*.c */
void p2s_first_contact_run(struct p2s_run *run);
void p2s_bulk_pair(struct p2s_run *run, uint32_t a, uint32_t b);
void p2s_order_pair(struct p2s_run *run, uint32_t a, uint32_t b);
void p2s_load_run(struct p2s_run *run);
void p2s_sweep_run(struct p2s_run *run); /* thorough: every address of idle GPUs */

/* conductor_soak.c: thorough: everything again, and again for the time that was asked for */
void p2s_soak_run(struct p2s_run *run);

/* measure.c: with P2PSAFE_FLAG_MEASURE, speeds and latencies of what was OK */
void p2s_measure_run(struct p2s_run *run);

/* legs_dead.c: asks every GPU once more; what pairs passed by GPUs and workers that did not live to the end of the test is taken
 * back. */
void p2s_dead_tell(struct p2s_run *run);

#endif
