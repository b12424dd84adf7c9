/* Entry of the worker processes. main.c parses the command line; worker.c serves the channels. */
#ifndef P2S_HELPER_WORKER_H
#define P2S_HELPER_WORKER_H

#include "core/model.h"

struct p2s_worker_args {
	const char *cuda_library; /* path for dlopen; NULL: libcuda.so.1 */
	int fds[P2S_MAX_GPUS];    /* one SOCK_SEQPACKET socket per channel */
	int count;
	int eager;                /* CPUs to spare: cpus.h */
};

/* Serves all channels until each has QUIT or its peer has closed. Returns the exit status. End of file on every channel
 * ends the process at once, without waiting for the driver. */
int p2s_worker_main(const struct p2s_worker_args *args);

#endif
