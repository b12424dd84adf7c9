/* The floor: what any program with our process layout must spend. n processes with one primary context each and one
 * process with n, all at once; each calls cuInit, makes its contexts, and exits. Prints milliseconds from the first fork to the
 * last exit. Needs no GPU count: it uses every device of the driver.
 *
 *   floor [LIBRARY]     exit 77: no usable driver */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/model.h"
#include "helper/cuda_loader.h"

struct one {
	const struct p2s_cuda *cu;
	int ordinal;
	int failed;
};

static void *make(void *arg)
{
	struct one *o = arg;
	p2s_cudevice dev = -1;
	p2s_cuctx ctx = NULL;

	o->failed =
		o->cu->cuDeviceGet(&dev, o->ordinal) != P2S_CU_SUCCESS || o->cu->cuDevicePrimaryCtxRetain(&ctx, dev) != P2S_CU_SUCCESS;
	return NULL;
}

/* first..last in threads of their own, as the workers do. */
static int contexts(const char *library, int first, int last)
{
	struct p2s_cuda cu;
	struct one all[P2S_MAX_GPUS];
	pthread_t threads[P2S_MAX_GPUS];
	int failed = 0;

	if (!p2s_cuda_load(&cu, library) || cu.cuInit(0) != P2S_CU_SUCCESS)
		return 1;
	for (int i = first; i <= last; i++) {
		all[i] = (struct one){.cu = &cu, .ordinal = i};
		if (pthread_create(&threads[i], NULL, make, &all[i]) != 0)
			return 1;
	}
	for (int i = first; i <= last; i++) {
		pthread_join(threads[i], NULL);
		failed |= all[i].failed;
	}
	return failed;
}

/* In a child: the parent must not load the driver before it forks. */
static int count_devices(const char *library)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct p2s_cuda cu;
		int n = 0;

		if (!p2s_cuda_load(&cu, library) || cu.cuInit(0) != P2S_CU_SUCCESS || cu.cuDeviceGetCount(&n) != P2S_CU_SUCCESS)
			n = 0;
		_exit(n < P2S_MAX_GPUS ? n : P2S_MAX_GPUS);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int main(int argc, char **argv)
{
	const char *library = argc > 1 ? argv[1] : NULL;
	int n = count_devices(library);
	uint64_t start;
	int failed = 0;

	if (n == 0) {
		printf("skipped: no usable driver\n");
		return 77;
	}
	start = p2s_now_ns();
	for (int i = 0; i <= n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(i < n ? contexts(library, i, i) : contexts(library, 0, n - 1));
		failed |= pid < 0;
	}
	for (int i = 0; i <= n; i++) {
		int status = 0;

		failed |= wait(&status) < 0 || status != 0;
	}
	printf("floor: %d GPUs, %.1f ms%s\n", n, (double)(p2s_now_ns() - start) / 1e6, failed ? ", failed" : "");
	return failed;
}
