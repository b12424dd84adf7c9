/* Every PTX kernel against its C twin: a worker on a real GPU and a worker on the simulated driver get the same
 * requests, on clean and on damaged buffers, and must give the same results and leave the same bytes. Where the
 * pattern defines the outcome, the bytes are also compared with core/word.h, so that a mistake in both would show.
 *
 *   twin_compare [--text] WORKER SIM_LIBRARY SIM_HOST SIM_ADDRESS [LIBRARY HOST ADDRESS]
 *
 * --text: the kernels as the driver compiles them from their text, although the build may have ready-made code.
 *
 * The last three replace the real GPU by another simulated one: that tests this program where there is no GPU. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "twin.h"

static struct twin twin;
static int text_only;

/* The first GPU of the nvidia driver. */
static int find_gpu(char *out, size_t cap)
{
	DIR *d = opendir("/proc/driver/nvidia/gpus");
	struct dirent *e;

	out[0] = '\0';
	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.' && (out[0] == '\0' || strcmp(e->d_name, out) < 0))
			snprintf(out, cap, "%.40s", e->d_name);
	if (d != NULL)
		closedir(d);
	return out[0] != '\0';
}

static int prepare(struct twin *t, int s, const char *worker, const char *library, const char *host, const char *address)
{
	struct p2s_op_request q = {.op = P2S_OP_ALLOC, .buf = TWIN_A, .len = TWIN_BYTES, .mode = P2S_ALLOC_PLAIN};
	int memory = drive_memfd(TWIN_BYTES);

	if (memory < 0 || !drive_start(&t->drive[s], worker, library, host, -1, 1))
		return 0;
	t->drive[s].init_mode = text_only ? P2S_INIT_TEXT : P2S_INIT_ANY;
	if (drive_init(&t->drive[s], 0, address, &t->answer[s]) != P2S_RC_OK || t->drive[s].device[0].module < 1) {
		printf("init of %s: error %d %d at %s, %s\n", address, t->answer[s].cuda_error, t->drive[s].device[0].cuda_error,
			   t->answer[s].where, t->drive[s].device[0].jit_log);
		return 0;
	}
	t->host[s] = mmap(NULL, TWIN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (t->host[s] == MAP_FAILED || drive_ask(&t->drive[s], 0, &q, -1, NULL, &t->answer[s]) != P2S_RC_OK)
		return 0;
	q.buf = TWIN_B;
	if (drive_ask(&t->drive[s], 0, &q, -1, NULL, &t->answer[s]) != P2S_RC_OK)
		return 0;
	q.op = P2S_OP_HOST_MAP;
	q.buf = TWIN_HOST;
	return drive_ask(&t->drive[s], 0, &q, memory, NULL, &t->answer[s]) == P2S_RC_OK;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct twin *);
	} kernels[] = {{"p2s_fill", twin_fill_cases}, {"p2s_check", twin_check_cases}, {"p2s_load", twin_load_cases},
				   {"p2s_mp", twin_mp_cases},     {"p2s_tear", twin_tear_cases},   {"p2s_atomic", twin_atomic_cases},
				   {"p2s_wide", twin_wide_cases}, {"p2s_ll", twin_ll_cases},     {"loading the second module", twin_measure_begin},
				   {"p2s_gate", twin_gate_cases}, {"p2s_pump", twin_pump_cases}, {"p2s_chase", twin_chase_cases},
				   {"p2s_issue", twin_issue_cases}, {"p2s_pong", twin_pong_cases}};
	char address[48] = "";

	if (argc > 1 && strcmp(argv[1], "--text") == 0) {
		text_only = 1;
		argv++;
		argc--;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5 && argc != 8) {
		printf("usage: twin_compare WORKER SIM_LIBRARY SIM_HOST SIM_ADDRESS [LIBRARY HOST ADDRESS]\n");
		return 2;
	}
	if (argc == 5 && (access("/dev/nvidia0", R_OK | W_OK) != 0 || !find_gpu(address, sizeof address))) {
		printf("skipped: no usable /dev/nvidia0\n");
		return 77;
	}
	if (!prepare(&twin, TWIN_REAL, argv[1], argc == 8 ? argv[5] : "-", argc == 8 ? argv[6] : NULL,
				 argc == 8 ? argv[7] : address) ||
		!prepare(&twin, TWIN_SIM, argv[1], argv[2], argv[3], argv[4])) {
		printf("FAIL: a worker did not start\n");
		return 1;
	}
	printf("%s against %s\n", twin.drive[TWIN_REAL].device[0].name, twin.drive[TWIN_SIM].device[0].name);
	printf("kernels %s, loaded in %d ms\n", twin.drive[TWIN_REAL].device[0].module == 2 ? "ready-made" : "from text",
		   (int)(twin.drive[TWIN_REAL].device[0].module_ns / 1000000));
	for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
		int failed = twin.failed;
		int done = twin.done;
		uint64_t start = p2s_now_ns();

		kernels[i].run(&twin);
		printf("%s: %d comparisons, %d failed, %d ms\n", kernels[i].name, twin.done - done, twin.failed - failed,
			   (int)((p2s_now_ns() - start) / 1000000));
	}
	for (int s = 0; s < TWIN_SIDES; s++)
		drive_end(&twin.drive[s]);
	return twin.failed != 0;
}
