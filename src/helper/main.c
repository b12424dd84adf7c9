/* p2psafe-helper: started by libp2psafe, never by people. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "helper/cubins.h"
#include "helper/drop.h"
#include "helper/roles.h"
#include "helper/worker.h"
#include "ipc/proto.h"

#define SIDE_FD 4 /* socket of the host and nvml workers */

static int usage(void)
{
	fputs("usage: p2psafe-helper --version | conductor | host | nvml [--library PATH] | "
	      "worker [--cuda PATH] [--eager 0|1] --channels FD[,FD...]\n",
	      stderr);
	return 2;
}

/* "4,5,6": descriptor numbers, each once. Returns how many, 0 when the text is anything else. */
static int parse_channels(const char *text, int fds[P2S_MAX_GPUS])
{
	int n = 0;

	for (;;) {
		char *end;
		long fd;

		if (*text < '0' || *text > '9' || n == P2S_MAX_GPUS)
			return 0;
		fd = strtol(text, &end, 10);
		if (fd < 3 || fd > 4096)
			return 0;
		for (int i = 0; i < n; i++)
			if (fds[i] == fd)
				return 0;
		fds[n++] = (int)fd;
		if (*end == '\0')
			return n;
		if (*end != ',')
			return 0;
		text = end + 1;
	}
}

static int worker(int argc, char **argv)
{
	struct p2s_worker_args args = {0};

	for (int i = 2; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--cuda") == 0)
			args.cuda_library = argv[i + 1];
		else if (strcmp(argv[i], "--eager") == 0)
			args.eager = strcmp(argv[i + 1], "1") == 0;
		else if (strcmp(argv[i], "--channels") == 0)
			args.count = parse_channels(argv[i + 1], args.fds);
		else
			return usage();
	}
	return argc % 2 == 0 && args.count > 0 ? p2s_worker_main(&args) : usage();
}

/* The caller's soft limits suit the caller; a driver opens dozens of files per GPU, and shared memory counts as one of some size.
 * The hard limits stay. */
static void raise_limits(void)
{
	static const int which[] = {RLIMIT_NOFILE, RLIMIT_FSIZE};
	struct rlimit l;

	for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
		if (getrlimit(which[i], &l) != 0 || l.rlim_cur == l.rlim_max)
			continue;
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(which[i], &l);
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	p2s_drop_core();
	signal(SIGXFSZ, SIG_IGN); /* what would be too long fails instead */
	if (strcmp(argv[1], "worker") == 0)
		return worker(argc, argv);
	if (strcmp(argv[1], "nvml") == 0 && argc == 4 && strcmp(argv[2], "--library") == 0)
		return p2s_nvml_worker_main(SIDE_FD, argv[3]);
	if (argc != 2)
		return usage();
	if (strcmp(argv[1], "conductor") == 0) {
		raise_limits();
		return p2s_conductor_main();
	}
	if (strcmp(argv[1], "host") == 0) {
		p2s_drop_host();
		return p2s_host_worker_main(SIDE_FD);
	}
	if (strcmp(argv[1], "nvml") == 0)
		return p2s_nvml_worker_main(SIDE_FD, NULL);
	if (strcmp(argv[1], "--version") == 0) {
		printf("p2psafe-helper %s protocol %d\nkernels: text", P2S_VERSION_TEXT, P2S_PROTOCOL);
		for (const struct p2s_cubin *b = p2s_cubins; b->arch != 0; b++)
			if (b->measure == 0)
				printf(" sm_%d", b->arch);
		printf("\n");
		return 0;
	}
	return usage();
}
