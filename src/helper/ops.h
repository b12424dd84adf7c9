/* The operations of a channel. A worker process serves one or more channels, each a socket and a thread with one GPU's
 * primary context current: `gpu` workers have one, the `peer` worker has one per GPU (one process, all contexts, as
 * llama.cpp and torch do). In the peer worker buffers are shared by all channels, so channel a may name a buffer of channel b: that
 * is the `peer` mapping.
 *
 * Buffers. The conductor chooses ids (P2S_BUF(gpu, n), gpu = index in the run) and they stay valid until RELEASE. A
 * buffer is memory of the channel's own GPU (ALLOC), or a peer's memory seen through a handle (IMPORT).
 *
 * Every op is done when its answer arrives: the worker polls the stream (never blocks in the driver) up to timeout_ns. If
 * the engine has not come back by then it raises abort, polls 300 ms more, and answers P2S_RC_TIMEOUT. A worker that does not
 * answer at all is stuck inside the driver: the conductor raises abort in the control page, waits 300 ms, kills it, and
 * calls it a HANG.
 */
#ifndef P2S_HELPER_OPS_H
#define P2S_HELPER_OPS_H

#include "helper/control.h"
#include "helper/kernels_measure.h"
#include "helper/measure_ops.h"
#include "ipc/codec.h"

enum {
	P2S_OP_INIT = 1,     /* text: PCI address of the channel's GPU; mode P2S_INIT_*. cuInit, primary context, module, streams, events, one empty
	                        launch of every kernel. Answer: `device`, or `answer` with rc ERROR (where: the call, cuInit included) or
	                        rc UNSUPPORTED (where "dlopen": no driver library; "cuDriverGetVersion": API below 12.0, value
	                        is the version; else the name of a required symbol that is missing). The control page's memfd
	                        travels with the request. */
	P2S_OP_ALLOC,        /* buf, len, mode P2S_ALLOC_*. value: bytes got (rounded up to the granularity) */
	P2S_OP_EXPORT,       /* buf, mode P2PSAFE_MAPPING_IPC or _CUMEM. handle (IPC) or a descriptor (CUMEM) travels back */
	P2S_OP_IMPORT,       /* buf (new id), mode, len, handle or descriptor: maps a peer's memory read-write */
	P2S_OP_PEER_ENABLE,  /* peer worker: text: address of the owner. cuCtxEnablePeerAccess from this channel's context to the
	                        owner's; already enabled is OK */
	P2S_OP_CAN_ACCESS,   /* text: address of the owner. value: bit 0 cuDeviceCanAccessPeer, bit 1 access supported, bit 2
	                        native atomics (cuDeviceGetP2PAttribute), bit 3 it is known whether */
	P2S_OP_RELEASE,      /* buf: frees or unmaps it */
	P2S_OP_FILL,         /* buf, off, len, seed: p2s_fill. Without kernels the GPU's own memory is filled by its copy engine */
	P2S_OP_CHECK,        /* buf, off, len (region, multiples of 8), in_off, in_len, seed, seed2 (outside): p2s_check; without
	                        kernels the GPU's copy engine brings the bytes to the host, where they are compared */
	P2S_OP_LOAD,         /* buf (local dst), buf2 (peer src), off, len, mode: p2s_load */
	P2S_OP_COPY,         /* buf (dst), off, buf2 (src), off2, len, mode P2S_COPY_*: on this channel's stream */
	P2S_OP_PEEK,         /* buf, off, len <= 1024: bytes through cuMemcpyDtoHAsync into pinned memory: `samples` */
	P2S_OP_HOST_MAP,     /* len: maps and registers the memfd that travels with it as host buffer buf (staged path) */
	P2S_OP_HOST_COPY,    /* buf (device), off, buf2 (host buffer), off2, len, mode 0: device to host, 1: host to device */
	P2S_OP_MP,           /* mode: 0 p2s_mp, else p2s_wide with blocks of that many threads (whole warps). buf (w_dst, 0 none), off, buf2 (r_src, 0 none), off2, seed (writer), seed2 (reader), rounds, words,
	                        slot_bytes, flag_off, idiom, pace_ns, max_ns: p2s_mp. Resets ready before launch. The
	                        conductor clears ready, go and abort before the request: the worker never clears go, and clears
	                        abort only if it raised it itself and the engine came back (then rc is OK and the roles say
	                        P2S_ROLE_ABORTED). Likewise TEAR and ATOMIC. */
	P2S_OP_TEAR,         /* buf, off, buf2, off2, words, seed (a), seed2 (b), rounds (iters), max_ns: p2s_tear */
	P2S_OP_ATOMIC,       /* buf, off, rounds (count), max_ns: p2s_atomic */
	P2S_OP_CE_FLAG,      /* buf (dst, peer's), off, buf2 (src, local), off2, rounds, words, slot_bytes, flag_off, pace_ns: for each slot
	                        copies the payload and then, in stream order, stores the flag word: mode P2S_FLAG_COPY copies it, like
	                        the payload, from the same offsets of src, which FILL_SLOTS prepared; _KERNEL (p2s_fill) and _WRITE
	                        (cuStreamWriteValue64) make it from seed */
	P2S_OP_FILL_SLOTS,   /* buf, off, seed, rounds, words, slot_bytes, flag_off: writes locally what p2s_mp's writer would write */
	P2S_OP_MEM_INFO,     /* value: free bytes */
	P2S_OP_LL,           /* buf (w_dst, 0 none), off, buf2 (r_src, 0 none), off2, seed, seed2, rounds, words, slot_bytes, mode
	                        P2S_LL_*, pace_ns, max_ns: p2s_ll; the control page as for MP */
	/* Measuring. What a stream holds waits behind p2s_gate until the conductor raises go: it clears the control page as for MP, and
	 * waits for ready 0 (the gate is there) and ready 1 (all is queued). idiom: the party, see p2s_gate. value 0: the gate was not
	 * opened in time, and the times are of no use. max_ns: how long the gate may wait. */
	P2S_OP_SPEED_INIT,   /* the second module, events, a second stream; the thread is bound to the GPU's NUMA node. value: the
	                        node + 1, 0 none */
	P2S_OP_SPEED,        /* buf, off, buf2, off2, len, mode P2S_SPEED_*, rounds (transfers per sample), words (samples, up to
	                        P2S_SAMPLES_MAX), flag_off (transfers before the first sample). device_ns: the median sample, value: the
	                        party, samples: uint64_t[words] ns. A pump of many rounds is one launch */
	P2S_OP_ROWS,        /* buf, off, buf2, off2: copies of each size of p2s_row_bytes; handle: transfers per row, one byte each,
	                        0 none. samples: struct p2s_row[P2S_ROWS], value: the party */
	P2S_OP_LATENCY,      /* mode CHASE: buf, off, len (region), slot_bytes (stride), rounds (loads), words (how many SMs load, one
	                        after the other); ISSUE: buf, off, slot_bytes (stores of a round, in a row), rounds. value: picoseconds of
	                        one access, the median over SMs; 0 unknown. Not gated */
	P2S_OP_PONG,         /* buf (peer's), off, buf2 (own), off2, seed, rounds, words (warm), mode (1 first), max_ns: p2s_pong; the
	                        control page as for MP, one role */
	P2S_OP_STAGE,        /* this side of staged transfers: buf (device); buf2 (host, P2S_STAGE_BYTES; 0 none) and off: what it
	                        sends, buf3 and off2: what it receives; handle: transfers per row as for ROWS, idiom: the party, never 0;
	                        len: bytes of the device memory that may be used from off and off2; rounds: how often a transfer is
	                        done alone; max_ns: for all. samples: struct p2s_stage_row[P2S_ROWS]. Not gated */
	P2S_OP_QUIT          /* releases everything and ends the channel; the process ends with its last channel */
};

enum {
	P2S_RC_OK = 0,
	P2S_RC_ERROR = 1,       /* a driver call failed: cuda_error, where */
	P2S_RC_TIMEOUT = 2,     /* the engine did not come back within timeout_ns plus 300 ms */
	P2S_RC_BAD_REQUEST = 3, /* unknown op or buffer, out of range: a bug in the conductor */
	P2S_RC_NO_KERNELS = 4,  /* the module is not loaded */
	P2S_RC_UNSUPPORTED = 5  /* a driver symbol or device capability is missing: nothing was done */
};

enum { P2S_INIT_ANY = 0, P2S_INIT_TEXT = 1 /* kernels from PTX text only, for tests of both */ };
enum { P2S_ALLOC_PLAIN = 0 /* cuMemAlloc: exportable as IPC, reachable as peer */, P2S_ALLOC_CUMEM = 1 };
enum { P2S_FLAG_COPY = 0, P2S_FLAG_KERNEL = 1, P2S_FLAG_WRITE = 2 };
enum {
	P2S_COPY_ASYNC = 0,      /* cuMemcpyAsync */
	P2S_COPY_PEER_ASYNC = 1, /* cuMemcpyPeerAsync */
	P2S_COPY_HALVES = 2      /* cuMemcpyAsync twice: the source's second half to the first of the target, its first to the second */
};

enum { P2S_FEATURE_IPC = 1, P2S_FEATURE_CUMEM = 2, P2S_FEATURE_PEER = 4, P2S_FEATURE_ATOMICS = 8, P2S_FEATURE_STREAM_WRITE = 16 };

#define P2S_BUF(gpu, n) (((uint32_t)(gpu) + 1) << 16 | (uint32_t)(n))

#define P2S_PROTO_FILE "helper/ops.def"
#define P2S_PROTO_NAME op
#include "ipc/codec_struct.h"
#undef P2S_PROTO_FILE
#undef P2S_PROTO_NAME

extern const struct p2s_table p2s_op_table;

#endif
