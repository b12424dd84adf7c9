/* What cuda.json says about a simulated host. Read once per process; the same file gives the same numbers in all. */
#ifndef P2S_SIM_CONFIG_H
#define P2S_SIM_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "core/bdf.h"
#include "core/model.h"

#define SIM_MAX_FAULTS 256
#define SIM_MAX_MISSING 64
#define SIM_MAX_PROCESSES 8
#define SIM_MAX_UPLINKS 16
#define SIM_ANY (-1)
#define SIM_NOBODY (-2) /* a call without a current context */

enum sim_op {
	SIM_OP_CE_WRITE = 1 << 0,
	SIM_OP_CE_READ = 1 << 1,
	SIM_OP_SM_STORE = 1 << 2,
	SIM_OP_SM_LOAD = 1 << 3,
	SIM_OP_FLAG = 1 << 4,
	SIM_OP_ATOMIC = 1 << 5,
	SIM_OP_ENABLE = 1 << 6,
	SIM_OP_OPEN = 1 << 7,
	SIM_OP_EXPORT = 1 << 8,
	SIM_OP_STAGED = 1 << 9,
	SIM_OP_LAUNCH = 1 << 10,
	SIM_OP_CALL = 1 << 11, /* any call of the driver, by name */
	SIM_OP_FENCE = 1 << 12
};

enum sim_mapping { SIM_MAP_PEER = 1 << 0, SIM_MAP_IPC = 1 << 1, SIM_MAP_CUMEM = 1 << 2, SIM_MAP_ALL = 7 };

enum sim_effect {
	SIM_NONE,
	SIM_LOG, /* nothing but the line of the kernel log */
	SIM_DROP,
	SIM_ZEROS,
	SIM_ONES,
	SIM_NAN,
	SIM_MIRROR,
	SIM_STALE,
	SIM_MISDIRECT,
	SIM_DUPLICATE,
	SIM_SHIFT,
	SIM_TORN,
	SIM_REORDER,
	SIM_BIT_FLIP,
	SIM_ERROR,
	SIM_CRASH,
	SIM_HANG,
	SIM_WEDGE,
	SIM_ALIAS,
	SIM_SLOW,
	SIM_FAST,
	SIM_LATE_ERROR,
	SIM_LOST,
	SIM_BLOCK
};

enum sim_mutant { SIM_MUTANT_NONE, SIM_MUTANT_FLAG_FIRST, SIM_MUTANT_NO_FENCE, SIM_MUTANT_CHECK_WINDOW };

struct sim_process { /* of another program, on a GPU */
	int64_t pid;
	char name[64];
};

struct sim_gpu {
	struct p2psafe_bdf bdf;
	char address[P2S_BDF_TEXT];
	char uuid[48];
	unsigned char uuid_bytes[16];
	char name[96];
	int64_t minor;
	int64_t cc_major;
	int64_t cc_minor;
	int64_t sm_count;
	int64_t memory_bytes;
	int64_t free_bytes;
	int64_t init_error;
	int64_t compute_mode;
	int64_t cumem_fd;
	int64_t ipc;
	int64_t gdr;
	int64_t integrated;
	int64_t jit;
	int64_t alloc_waits;
	int64_t mps;
	int64_t mig;
	int64_t vgpu;
	int64_t persistence;
	int64_t display_active;
	int64_t recovery_action; /* what NVML wants done: 0 nothing */
	int64_t fabric_state;    /* nvmlGpuFabricState_t */
	int64_t fabric_status;   /* nvmlReturn_t */
	int64_t host_numa_id;    /* what the driver says of the node beside it; -1: the machine hides it */
	int64_t port_bytes_per_s; /* in each direction, whoever is at the other end */
	int process_count;
	struct sim_process process[SIM_MAX_PROCESSES];
};

struct sim_link {
	int64_t nvlink; /* 1 nvlink, 0 pcie */
	int64_t bytes_per_s;
	int64_t latency_ns;
	int64_t can_access;
	int64_t native_atomics;
	int64_t nvlinks;
	int64_t granularity;
	int64_t reorder;
};

/* What all traffic between some GPUs and the rest shares, in each direction: a switch's upstream port, a socket link. */
struct sim_uplink {
	uint64_t gpus; /* bit per GPU behind it */
	int64_t bytes_per_s;
	int64_t lost_percent; /* of it, when more than one transfer crosses at once */
};

struct sim_fault {
	int src; /* GPU index or SIM_ANY */
	int dst;
	int target;
	uint32_t ops;
	uint32_t mappings;
	int effect;
	int64_t min_bytes;
	int64_t max_bytes; /* 0 none */
	int64_t from;
	int64_t to; /* 0 none */
	int64_t after;
	int64_t count; /* 0 none */
	int64_t rate;  /* of a million units */
	int64_t error;
	int64_t shift;
	int64_t kmsg_delay_ms; /* how much later the kernel logs it */
	char kmsg[240];        /* what it logs; "" nothing */
	int64_t bit;        /* alias: the address bit that is lost */
	int64_t every;      /* of those that match, each n-th */
	int64_t min_active; /* only while so many other jobs run */
	int64_t factor;     /* slow, fast */
	int64_t calls;      /* late_error: how many calls later */
	int64_t ms;         /* block */
	uint64_t bits;
	char name[48];      /* op call: exported name, "*" any */
};

struct sim_nvml {
	int64_t available;
	int64_t hang;
	int64_t link_bytes_per_s;
	int64_t pcie_replays; /* at the first look; each later look of a process sees so many more: */
	int64_t pcie_replays_step;
	int64_t nvlink_errors;
	int64_t nvlink_errors_step;
	int64_t confidential; /* of the whole machine */
	int64_t old_counters; /* NVLink errors through their own function; else as fields */
	int p2p[5]; /* nvmlGpuP2PStatus_t by caps index: read, write, nvlink, atomics, pcie */
};

struct sim_config {
	int64_t driver_api;
	int64_t init_error;
	int64_t seed;
	int64_t staged_bytes_per_s;
	int64_t staged_latency_ns;
	int mutant;
	int has_stale;  /* some fault needs the bytes before the last change */
	int has_mirror; /* some fault needs private copies */
	int has_calls;  /* some fault names a call of the driver */
	int gpu_count;
	int fault_count;
	int missing_count;
	char missing[SIM_MAX_MISSING][48];
	struct sim_gpu gpus[P2S_MAX_GPUS];
	struct sim_link links[P2S_MAX_GPUS][P2S_MAX_GPUS];
	struct sim_fault faults[SIM_MAX_FAULTS];
	int uplink_count;
	struct sim_uplink uplinks[SIM_MAX_UPLINKS];
	struct sim_nvml nvml;
	uint64_t digest; /* of the file: all processes of a run must agree */
};

/* Reads <host_dir>/cuda.json. Returns 1, or 0 with a sentence in err. */
int sim_config_load(struct sim_config *c, const char *host_dir, char *err, size_t err_bytes);
/* Index of the GPU with this PCI address, -1. */
int sim_config_gpu(const struct sim_config *c, const char *address);

#endif
