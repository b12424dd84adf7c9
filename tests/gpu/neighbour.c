/* Another program on a GPU that is being tested: holds most of its memory, or computes all the time. At its end it looks whether
 * what it had is still there and right: a test must do no harm to whoever else uses the GPU.
 *
 * neighbour WORKER ADDRESS memory|compute PERCENT SECONDS [LIBRARY HOST]
 *
 * Says "ready" once it is at work, and ends after so many seconds or when its standard input ends. PERCENT: of the memory, held
 * or computed with. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker_drive.h"

#define MIB (UINT64_C(1) << 20)
#define BLOCKS_MAX 1500
#define BUF(n) P2S_BUF(0, (n) + 1)

static struct drive d;
static uint64_t block = 256 * MIB;
static uint32_t blocks;

static uint64_t seed_of(uint64_t n)
{
	return p2s_seed(p2s_mix(n ^ UINT64_C(0x6e65696768626f75)), 0, 0, 0, 1);
}

static int ask(struct p2s_op_request q, struct p2s_op_answer *a)
{
	q.timeout_ns = UINT64_C(10000000000);
	if (drive_ask(&d, 0, &q, -1, NULL, a) == P2S_RC_OK)
		return 1;
	fprintf(stderr, "neighbour: op %u: rc %d, %s error %d\n", q.op, a->rc, a->where, (int)a->cuda_error);
	return 0;
}

static int fill(uint32_t n, uint64_t seed)
{
	struct p2s_op_answer a;

	return ask((struct p2s_op_request){.op = P2S_OP_FILL, .buf = BUF(n), .len = block, .seed = seed}, &a);
}

/* Wrong words, -1: not known. */
static int64_t check(uint32_t n, uint64_t seed)
{
	struct p2s_op_request q = {.op = P2S_OP_CHECK, .buf = BUF(n), .len = block, .in_len = block, .seed = seed, .seed2 = seed};
	struct p2s_op_answer a;

	return ask(q, &a) ? (int64_t)a.bad_words : -1;
}

/* As many blocks as leave so much of the memory free. */
static int take(unsigned percent)
{
	uint64_t rest = d.device[0].memory_bytes / 100 * (100 - percent);
	struct p2s_op_answer a;

	while (blocks < BLOCKS_MAX && ask((struct p2s_op_request){.op = P2S_OP_MEM_INFO}, &a)) {
		if (a.value > rest + block)
			a.rc = ask((struct p2s_op_request){.op = P2S_OP_ALLOC, .buf = BUF(blocks), .len = block}, &a);
		else if (block > 2 * MIB && blocks == 0)
			a.rc = -1; /* one block is too much: smaller ones */
		else
			return 1;
		if (a.rc == 0)
			return 0;
		if (a.rc < 0)
			block /= 2;
		else if (!fill(blocks, seed_of(blocks)))
			return 0;
		else
			blocks++;
	}
	return blocks > 0;
}

static int go_on(uint64_t until_ns, int wait_ms)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char text[64];

	if (p2s_now_ns() >= until_ns)
		return 0;
	return poll(&in, 1, wait_ms) <= 0 || read(0, text, sizeof text) > 0;
}

static uint64_t compute(uint64_t until_ns, int64_t *bad)
{
	uint64_t rounds = 0;

	for (*bad = 0; *bad == 0 && go_on(until_ns, 0); rounds++)
		for (uint32_t n = 0; n < blocks && *bad == 0; n++)
			*bad = fill(n, seed_of(rounds * blocks + n)) ? check(n, seed_of(rounds * blocks + n)) : -1;
	return rounds;
}

static uint64_t hold(uint64_t until_ns, int64_t *bad)
{
	while (go_on(until_ns, 100))
		;
	*bad = 0;
	for (uint32_t n = 0; n < blocks && *bad == 0; n++)
		*bad = check(n, seed_of(n));
	return 1;
}

int main(int argc, char **argv)
{
	const char *library = argc == 8 ? argv[6] : "-";
	const char *host = argc == 8 ? argv[7] : NULL;
	int computes = argc > 3 && strcmp(argv[3], "compute") == 0;
	struct p2s_op_answer a;
	uint64_t until, rounds;
	int64_t bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if ((argc != 6 && argc != 8) || (!computes && strcmp(argv[3], "memory") != 0) || atoi(argv[4]) < 1 || atoi(argv[4]) > 99)
		return 2;
	if (host == NULL && access("/dev/nvidia0", R_OK | W_OK) != 0) {
		printf("skipped: no usable GPU\n");
		return 77;
	}
	if (!drive_start(&d, argv[1], library, host, host != NULL ? drive_memfd(0) : -1, 1) ||
		drive_init(&d, 0, argv[2], &a) != P2S_RC_OK || !d.device[0].module || !take((unsigned)atoi(argv[4]))) {
		printf("neighbour: cannot start\n");
		return 1;
	}
	until = p2s_now_ns() + (uint64_t)(atof(argv[5]) * 1e9);
	printf("ready: %u blocks of %llu MiB\n", blocks, (unsigned long long)(block / MIB));
	rounds = computes ? compute(until, &bad) : hold(until, &bad);
	printf("%s: %u blocks of %llu MiB, %llu rounds, %s\n", argv[3], blocks, (unsigned long long)(block / MIB),
		   (unsigned long long)rounds, bad == 0 ? "all right" : bad < 0 ? "an operation FAILED" : "bytes are WRONG");
	ask((struct p2s_op_request){.op = P2S_OP_QUIT}, &a);
	drive_end(&d);
	return bad != 0;
}
