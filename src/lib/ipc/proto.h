/* Messages between library and conductor. See proto.def for the fields and codec.h for the frames. */
#ifndef P2S_IPC_PROTO_H
#define P2S_IPC_PROTO_H

#include "ipc/codec.h"

#define P2S_PROTOCOL 1
#define P2S_VERSION_TEXT "1.0.0"

enum { P2S_MODE_PROBE = 0, P2S_MODE_TEST = 1 };

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

#define P2S_PROTO_FILE "ipc/proto.def"
#define P2S_PROTO_NAME lib
#include "ipc/codec_struct.h"
#undef P2S_PROTO_FILE
#undef P2S_PROTO_NAME

extern const struct p2s_table p2s_lib_table;

#endif
