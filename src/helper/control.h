/* The control page of one channel: memory shared by conductor (memfd mapping), worker and GPU (cuMemHostRegister). It
 * works when the worker itself is stuck in a driver call: the conductor can still raise abort. Every word is alone in
 * its 128-byte line, so that GPU and CPU writers never share one. */
#ifndef P2S_HELPER_CONTROL_H
#define P2S_HELPER_CONTROL_H

#include <stdint.h>

struct p2s_line {
	volatile uint64_t word;
	uint64_t unused[15];
};

struct p2s_control {
	struct p2s_line ready[2];  /* written by the GPU, one per role */
	struct p2s_line go;        /* written by the conductor: 0 wait, 1 go */
	struct p2s_line abort;     /* written by conductor or worker: not 0: stop now */
	struct p2s_line heartbeat; /* written by the worker: counts up while it polls */
	struct p2s_line polls;     /* written by the GPU: polls so far */
};

/* Byte offsets as the kernels use them. */
#define P2S_CTL_READY 0
#define P2S_CTL_GO 256
#define P2S_CTL_ABORT 384
#define P2S_CTL_POLLS 640
#define P2S_CTL_BYTES 4096

_Static_assert(sizeof(struct p2s_line) == 128, "a line");
_Static_assert(sizeof(struct p2s_control) == 768, "P2S_CTL_* are offsets in struct p2s_control");

#endif
