/* Inside a worker process: one channel serves one GPU over one socket, in one thread. channel.c has the loop, the wait and
 * the launch; channel_*.c have the operations, one table of them in channel.c. */
#ifndef P2S_HELPER_CHANNEL_H
#define P2S_HELPER_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "helper/buffers.h"
#include "helper/cuda_loader.h"
#include "helper/ops.h"
#include "helper/worker.h"

#define P2S_KERNEL_INDEX(name, args) P2S_KERNEL_##name,
enum {
	P2S_KERNELS(P2S_KERNEL_INDEX) P2S_KERNEL_BASE, /* the first of the second module */
	P2S_KERNEL_LAST = P2S_KERNEL_BASE - 1,
	P2S_KERNELS_MEASURE(P2S_KERNEL_INDEX) P2S_KERNEL_COUNT
};
#undef P2S_KERNEL_INDEX

/* The channel's pinned block, and at the same offsets its scratch block in device memory. */
#define P2S_SCRATCH_CONTROL 0   /* a control page of its own with go raised: launches that must not wait for the conductor */
#define P2S_SCRATCH_CHECK 4096  /* struct p2s_check_result */
#define P2S_SCRATCH_ROLES 8192  /* two struct p2s_role_result, and their serial */
#define P2S_SCRATCH_WORDS 12288 /* PEEK's bytes; device: memory that empty launches may name */
#define P2S_SCRATCH_ZERO 16384  /* pinned: zeroes, and behind two roles their serial; the start values of results */
#define P2S_SCRATCH_START 20480 /* pinned: struct p2s_check_result as it must be before p2s_check; compared: the serial */
#define P2S_SCRATCH_BYTES 24576
#define P2S_BOUNCE_BYTES UINT64_C(1048576)

#define P2S_ABORT_NS UINT64_C(300000000)     /* how long a raised abort may take */
#define P2S_DEFAULT_NS UINT64_C(10000000000) /* for requests without timeout_ns */

#define P2S_MARKS (4 * P2S_ROWS) /* two per row, for one that goes alone and for many */

struct p2s_worker;

struct p2s_channel {
	struct p2s_worker *worker;
	int32_t index;
	int sock;
	pthread_t thread;
	atomic_int ended;
	atomic_int ready; /* INIT succeeded; other channels look at it */
	int32_t stuck; /* the stream did not come back: nothing more is launched on it */
	int32_t hangup;
	int32_t sticky; /* CUresult that ended the context; 0 none */
	char sticky_where[48];
	char address[24];
	p2s_cudevice dev;
	p2s_cuctx ctx;
	p2s_custream stream;
	p2s_cuevent begin;
	p2s_cuevent end;
	p2s_cufunction fn[P2S_KERNEL_COUNT];
	int32_t arch;      /* 10 * major + minor of the compute capability */
	int32_t text_only; /* ready-made code is not tried */
	int32_t kernels; /* the module is loaded: 1 compiled from text, 2 ready-made */
	int32_t measures; /* and the second one */
	p2s_custream aside; /* a second stream, and its event; with them: */
	p2s_cuevent aside_end;
	p2s_cuevent slot[2][P2S_STAGE_DEPTH]; /* of a staged transfer: sent, received */
	p2s_cuevent mark[P2S_MARKS]; /* of samples and rows */
	int32_t sm_count;
	int32_t gdr;
	int32_t cumem;
	int32_t numa_node; /* of the host memory nearest to the GPU; -1 unknown */
	uint64_t enabled; /* bit b: this context has access to channel b's context */
	struct p2s_control *control;
	p2s_cuptr control_dev;
	unsigned char *pinned;
	p2s_cuptr pinned_dev;
	p2s_cuptr scratch;
	uint64_t serial; /* of results: those of the time before have another */
	unsigned char *bounce; /* pinned, P2S_BOUNCE_BYTES; only without kernels */
};

struct p2s_worker {
	const char *cuda_library;
	struct p2s_cuda cu;
	pthread_mutex_t once; /* loading and cuInit: by the first INIT, the others wait */
	int32_t loaded;       /* 0 not yet, 1 yes, -1 failed */
	p2s_curesult init_error;
	char init_where[48];
	int32_t version;
	uint64_t init_ns;
	int32_t eager; /* CPUs to spare: threads may look for work a little while before they sleep */
	int32_t count;
	struct p2s_channel channel[P2S_MAX_GPUS];
	struct p2s_buffers buffers;
};

/* What an operation gets and gives. fd_in belongs to the loop unless the operation sets it to -1; fd_out is sent and closed. */
struct p2s_call {
	const struct p2s_op_request *q;
	struct p2s_op_answer *a;
	struct p2s_op_device *device; /* INIT: sent in place of *a when has_device is set */
	int has_device;
	int fd_in;
	int fd_out;
};

/* Notes the outcome of a driver call in the answer. Returns 1 on success. */
int p2s_channel_ok(struct p2s_channel *c, struct p2s_op_answer *a, p2s_curesult r, const char *where);
#define P2S_CU(c, a, fn, ...) p2s_channel_ok((c), (a), (c)->worker->cu.fn(__VA_ARGS__), #fn)
/* Sets the result code and returns 0. */
int p2s_channel_refuse(struct p2s_op_answer *a, int32_t rc, const char *where);
/* Polls the stream until it is idle. Returns 1 then; else 0 with rc TIMEOUT or ERROR in the answer. */
int p2s_channel_wait(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns);
/* Launches a kernel on the channel's stream. Returns 1, or 0 with the reason in the answer. */
int p2s_channel_launch(struct p2s_channel *c, struct p2s_op_answer *a, int kernel, uint32_t grid, uint32_t block,
					   const uint64_t *args, size_t count);
/* Time between the events begin and end, both done. 0 unknown. */
uint64_t p2s_channel_elapsed(struct p2s_channel *c);
/* The same between any two. */
uint64_t p2s_channel_between(struct p2s_channel *c, p2s_cuevent begin, p2s_cuevent end);
/* Zeroes results for `roles` roles, launches, waits and brings them back into the answer. channel_wait.c. */
void p2s_channel_roles(struct p2s_channel *c, struct p2s_op_answer *a, int kernel, uint32_t grid, uint32_t block,
					   const uint64_t *args, size_t count, uint64_t timeout_ns);
/* The bound in polls that goes with a bound in time. */
uint64_t p2s_channel_most_polls(uint64_t max_ns);
/* Loads one module, cubin or PTX, and finds its kernels: fn[first], ... Returns 1 (2: ready-made code), or 0 with *error
 * and log. channel_module.c */
int p2s_channel_module(struct p2s_channel *c, int measure, int32_t *error, char *log, size_t cap);
/* 1 if this channel may touch [off, off + len) of b: a bug in the conductor must not become a wild write. local: b must be this
 * GPU's own memory. */
int p2s_channel_reach(const struct p2s_channel *c, const struct p2s_buffer *b, uint64_t off, uint64_t len, int local);
/* Checks the slot geometry of MP, CE_FLAG and FILL_SLOTS, and that all slots lie in b from off on. */
int p2s_channel_slots(const struct p2s_channel *c, const struct p2s_buffer *b, uint64_t off, const struct p2s_op_request *q,
					  int local);
/* The device with this PCI address. Returns 1, or 0 with the reason in the answer. */
int p2s_channel_device(struct p2s_channel *c, struct p2s_op_answer *a, const char *address, p2s_cudevice *dev);

/* Without kernels: memory for it at INIT, FILL and CHECK of the GPU's own memory. Return 1, or 0 with the reason in the answer.
 * channel_host.c */
int p2s_channel_host_init(struct p2s_channel *c, struct p2s_op_answer *a);
void p2s_channel_host_fill(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q,
						   const struct p2s_buffer *b);
int p2s_channel_host_check(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q,
						   const struct p2s_buffer *b, struct p2s_check_result *r);

/* The thread of a channel. */
void *p2s_channel_main(void *arg);
/* Frees everything the channel made (QUIT). */
void p2s_channel_release_all(struct p2s_channel *c, struct p2s_op_answer *a);

/* The operations. */
typedef void p2s_channel_op(struct p2s_channel *c, struct p2s_call *call);
p2s_channel_op p2s_op_init, p2s_op_alloc, p2s_op_export, p2s_op_import, p2s_op_peer_enable, p2s_op_can_access, p2s_op_release,
	p2s_op_fill, p2s_op_check, p2s_op_load, p2s_op_copy, p2s_op_peek, p2s_op_host_map, p2s_op_host_copy, p2s_op_mp, p2s_op_tear,
	p2s_op_atomic, p2s_op_ll, p2s_op_ce_flag, p2s_op_fill_slots, p2s_op_mem_info, p2s_op_speed_init, p2s_op_speed, p2s_op_rows,
	p2s_op_latency, p2s_op_pong, p2s_op_stage, p2s_op_quit;

/* The PTX texts without comments, NUL-terminated; made at build time. */
extern const unsigned char p2s_kernels_ptx[];
extern const unsigned char p2s_kernels_measure_ptx[];

#endif
