/* A worker process for the tests: worker_process CUDA_LIBRARY|- FD... */
#include <stdlib.h>
#include <string.h>

#include "helper/worker.h"

int main(int argc, char **argv)
{
	struct p2s_worker_args args = {.eager = 1}; /* as where CPUs are to spare: threads look before they sleep */

	if (argc < 3 || argc - 2 > P2S_MAX_GPUS)
		return 2;
	args.cuda_library = strcmp(argv[1], "-") == 0 ? NULL : argv[1];
	for (int i = 2; i < argc; i++)
		args.fds[args.count++] = atoi(argv[i]);
	return p2s_worker_main(&args);
}
