/* Messages between library and conductor. See proto.def for the fields and codec.h for the frames. */
#ifndef P2S_IPC_PROTO_H
#define P2S_IPC_PROTO_H

#include "ipc/codec.h"

#define P2S_PROTOCOL 6
#define P2S_VERSION_TEXT "1.0.0"

enum {
	P2S_MODE_PROBE = 0, /* asks no driver */
	P2S_MODE_TEST = 1,
	P2S_MODE_MINORS = 2, /* only what the driver's own files say about device nodes */
	P2S_MODE_RECHECK = 3 /* what a kept record rests on and only the helper can read: no GPU is opened, no byte moves */
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

/* What a measure message carries. src is the accessor, dst the owner of the memory, as everywhere. Only legs that were OK are
 * measured; a number that is missing was not measured (no leg, no time, an error), which is never 0 and never a guess.
 * Bytes per second are decimal, the median of several samples between two events on the stream, behind a gate: launch costs
 * are not in them. `bytes` is 0 but for the rows of a size table. */
enum {
	/* One way, nothing else moves: by the accessor's copy engine (a>b: write carries bytes a to b, read b to a), by stores
	 * or loads of all its SMs. */
	P2S_MEASURE_CE_WRITE = 1,
	P2S_MEASURE_CE_READ = 2,
	P2S_MEASURE_SM_STORE = 3,
	P2S_MEASURE_SM_LOAD = 4,
	/* Copy-engine writes a to b and b to a at once, their sum. Told for both directed pairs. */
	P2S_MEASURE_BOTH_WAYS = 5,
	/* The copy-engine write a to b while every pair of the round writes both ways: each GPU sends and receives as fast as it
	 * can. Compare with CE_WRITE: what is missing is lost to shared links. With two GPUs it is one half of BOTH_WAYS. */
	P2S_MEASURE_LOADED = 6,
	P2S_MEASURE_WRITE_ISSUE_NS = 7, /* until a posted 16-byte store lets the next one go, of one thread */
	P2S_MEASURE_LOAD_NS = 8,        /* one dependent load of 8 bytes there and back */
	P2S_MEASURE_STORE_FLAG_NS = 9,  /* from a store and its flag to their being seen by a kernel of the owner */
	/* Bytes src to dst through pinned host memory near src, by the copy engines of both in two processes, chunk by chunk. Row
	 * (bytes != 0) or, with bytes 0, the best row. Told for both directions; a>b is a < b in struct p2s_staged's
	 * bandwidth.ce_write, b>a in ce_read. */
	P2S_MEASURE_STAGED = 10,
	P2S_MEASURE_STAGED_BOTH_WAYS = 11, /* both directions at once, their sum */
	/* One staged transfer alone: from its start to the last byte being in dst's memory, seen by the other process. Row, or with
	 * bytes 0 the smallest: struct p2s_staged's latency.store_flag_ns (of both directions the worse). */
	P2S_MEASURE_STAGED_NS = 12,
	P2S_MEASURE_SIZE = 13,    /* row: copy-engine writes of `bytes` each, one behind the other */
	P2S_MEASURE_SIZE_NS = 14  /* row: one of them alone, on the engine */
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
	P2S_GPU_FACT_FABRIC_STATUS = 18, /* only with state 3, which alone gives it a meaning */
	P2S_GPU_FACT_AER_CORRECTABLE_BEFORE = 20,
	P2S_GPU_FACT_AER_CORRECTABLE_AFTER = 21,
	P2S_GPU_FACT_AER_NONFATAL_BEFORE = 22,
	P2S_GPU_FACT_AER_NONFATAL_AFTER = 23,
	P2S_GPU_FACT_AER_FATAL_BEFORE = 24,
	P2S_GPU_FACT_AER_FATAL_AFTER = 25,
	P2S_GPU_FACT_PCIE_REPLAYS_BEFORE = 26,
	P2S_GPU_FACT_PCIE_REPLAYS_AFTER = 27,
	P2S_GPU_FACT_NVLINK_ERRORS_BEFORE = 28,
	P2S_GPU_FACT_NVLINK_ERRORS_AFTER = 29,
	/* Measured, bytes/s, copy engines; not sent when not measured. Host memory is pinned, on the GPU's node. */
	P2S_GPU_FACT_TO_HOST = 40,
	P2S_GPU_FACT_FROM_HOST = 41,
	P2S_GPU_FACT_HOST_BOTH_WAYS = 42, /* both at once, their sum */
	P2S_GPU_FACT_ALL_TO_ONE = 43,     /* into this GPU while every other writes to it, their sum; three GPUs or more */
	P2S_GPU_FACT_ONE_TO_ALL = 44,     /* out of this GPU while every other reads from it, their sum */
	P2S_GPU_FACT_HOST_NODE = 45       /* NUMA node of the host memory used for this GPU; -1: not bound to one */
};

#define P2S_PROTO_FILE "ipc/proto.def"
#define P2S_PROTO_NAME lib
#include "ipc/codec_struct.h"
#undef P2S_PROTO_FILE
#undef P2S_PROTO_NAME

extern const struct p2s_table p2s_lib_table;

#endif
