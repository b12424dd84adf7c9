/* Messages between library and conductor. See proto.def for the fields and codec.h for the frames. */
#ifndef P2S_IPC_PROTO_H
#define P2S_IPC_PROTO_H

#include "ipc/codec.h"

#define P2S_PROTOCOL 3
#define P2S_VERSION_TEXT "1.0.0"

enum {
	P2S_MODE_PROBE = 0, /* asks no driver */
	P2S_MODE_TEST = 1,
	P2S_MODE_MINORS = 2 /* only what the driver's own files say about device nodes */
};

/* The library's answer to risk. */
enum {
	P2S_RISK_STOP = 0, /* nothing risky any more */
	P2S_RISK_GO = 1,
	P2S_RISK_SKIP = 2 /* not this pair: what was read stands against it */
};

enum {
	P2S_DRIVER_OK = 0,
	P2S_DRIVER_NO_LIBRARY = 1, /* libcuda.so.1 not found or not loadable */
	P2S_DRIVER_NO_DEVICE = 2,  /* cuInit: no device, or no usable one */
	P2S_DRIVER_TOO_OLD = 3,    /* API below 12.0 or a required symbol missing */
	P2S_DRIVER_FAILED = 4      /* cuInit failed otherwise (mismatch, not loaded, ...) */
};

enum {
	P2S_DONE_COMPLETE = 0,
	P2S_DONE_DEADLINE = 1,   /* stopped at the deadline: the rest is UNTESTED */
	P2S_DONE_NO_DRIVER = 2,  /* nothing could be tested; a driver message says why */
	P2S_DONE_STOPPED = 3,    /* stopped for safety (hang, lost device, grave Xid): the rest is UNTESTED */
	P2S_DONE_FAILED = 4      /* the conductor itself could not go on */
};

enum {
	P2S_MEASURE_CE_WRITE = 1,
	P2S_MEASURE_CE_READ = 2,
	P2S_MEASURE_SM_STORE = 3,
	P2S_MEASURE_SM_LOAD = 4,
	P2S_MEASURE_BOTH_WAYS = 5,
	P2S_MEASURE_LOADED = 6,
	P2S_MEASURE_WRITE_ISSUE_NS = 7,
	P2S_MEASURE_LOAD_NS = 8,
	P2S_MEASURE_STORE_FLAG_NS = 9,
	P2S_MEASURE_STAGED = 10
};

/* Which member of struct p2s_gpu_facts a gpu_fact carries. Values with a before and an after have two numbers. */
enum {
	P2S_GPU_FACT_REBAR = 1,
	P2S_GPU_FACT_REBAR_MAX_BYTES = 2,
	P2S_GPU_FACT_CLIQUE = 3,
	P2S_GPU_FACT_BAR1_ASSIGNED = 4,
	P2S_GPU_FACT_DISPLAY_ACTIVE = 5,
	P2S_GPU_FACT_MIG = 6,
	P2S_GPU_FACT_CONFIDENTIAL = 7,
	P2S_GPU_FACT_MPS = 8,
	P2S_GPU_FACT_PERSISTENCE = 9,
	P2S_GPU_FACT_COMPUTE_MODE = 10,
	P2S_GPU_FACT_PENDING_RESET = 11,
	P2S_GPU_FACT_OTHER_PROCESS = 12,
	P2S_GPU_FACT_BUSY_PROCESS = 13,
	P2S_GPU_FACT_FABRIC_STATE = 14,
	P2S_GPU_FACT_NVLINKS_ACTIVE = 15,
	P2S_GPU_FACT_NVLINKS_TOTAL = 16,
	P2S_GPU_FACT_VGPU = 17,
	P2S_GPU_FACT_AER_CORRECTABLE_BEFORE = 20,
	P2S_GPU_FACT_AER_CORRECTABLE_AFTER = 21,
	P2S_GPU_FACT_AER_NONFATAL_BEFORE = 22,
	P2S_GPU_FACT_AER_NONFATAL_AFTER = 23,
	P2S_GPU_FACT_AER_FATAL_BEFORE = 24,
	P2S_GPU_FACT_AER_FATAL_AFTER = 25,
	P2S_GPU_FACT_PCIE_REPLAYS_BEFORE = 26,
	P2S_GPU_FACT_PCIE_REPLAYS_AFTER = 27,
	P2S_GPU_FACT_NVLINK_ERRORS_BEFORE = 28,
	P2S_GPU_FACT_NVLINK_ERRORS_AFTER = 29
};

#define P2S_PROTO_FILE "ipc/proto.def"
#define P2S_PROTO_NAME lib
#include "ipc/codec_struct.h"
#undef P2S_PROTO_FILE
#undef P2S_PROTO_NAME

extern const struct p2s_table p2s_lib_table;

#endif
