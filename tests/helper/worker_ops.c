/* Every operation of a worker process against the simulated driver: what it does, what it refuses, and how it ends.
 *
 *   worker_ops WORKER SIM_LIBRARY */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper/cuda_abi.h"
#include "p2psafe/p2psafe.h"
#include "worker_drive.h"

#define GPU_A "0000:01:00.0"
#define GPU_B "0000:02:00.0"
#define MIB (UINT64_C(1) << 20)
#define BUF(n) P2S_BUF(0, n)
#define PEER(n) P2S_BUF(1, n)
#define SEED UINT64_C(0xa000000012345678)
#define POISON UINT64_C(0xa00000008765432f)

static const char *program;
static const char *library;
static char folder[64];

/* Writes a simulated host of two GPUs; extra: more keys of cuda.json, gpu: more keys of each GPU. */
static void make_host(int api, const char *gpu, const char *extra)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s/cuda.json", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(
		f,
		"{\"driver_api\": %d, \"gpus\": ["
		"{\"bdf\": \"" GPU_A "\", \"uuid\": \"GPU-11111111-2222-3333-4444-555555555501\", \"name\": \"Test A\", \"minor\": 0, "
		"\"memory_bytes\": 268435456, \"free_bytes\": 234881024%s}, "
		"{\"bdf\": \"" GPU_B "\", \"uuid\": \"GPU-11111111-2222-3333-4444-555555555502\", \"name\": \"Test B\", \"minor\": 1, "
		"\"memory_bytes\": 268435456, \"free_bytes\": 234881024%s}], "
		"\"links\": {\"default\": {\"kind\": \"nvlink\"}}%s}\n",
		api, gpu, gpu, extra);
	assert_int_equal(fclose(f), 0);
}

static int ask(struct drive *d, int channel, struct p2s_op_request q, struct p2s_op_answer *a)
{
	return drive_ask(d, channel, &q, -1, NULL, a);
}

#define ASK(d, c, a, ...) ask((d), (c), (struct p2s_op_request){__VA_ARGS__}, (a))

static void begin(struct drive *d, int channels, int memory)
{
	static const char *const address[] = {GPU_A, GPU_B};
	struct p2s_op_answer a;

	assert_true(drive_start(d, program, library, folder, memory, channels));
	for (int i = 0; i < channels; i++)
		assert_int_equal(drive_init(d, i, address[i], &a), P2S_RC_OK);
}

static void quit(struct drive *d)
{
	struct p2s_op_answer a;

	for (int i = 0; i < d->count; i++)
		assert_int_equal(ASK(d, i, &a, .op = P2S_OP_QUIT), P2S_RC_OK);
	assert_int_equal(drive_wait(d, 3000), 0);
	drive_end(d);
}

static void alloc(struct drive *d, int channel, uint32_t buf, uint64_t len, uint32_t mode)
{
	struct p2s_op_answer a;

	assert_int_equal(ASK(d, channel, &a, .op = P2S_OP_ALLOC, .buf = buf, .len = len, .mode = mode), P2S_RC_OK);
	assert_true(a.value >= len);
}

/* [off, off + len) of buf holds seed, judged by the GPU and by a copy to the host. */
static void holds(struct drive *d, int channel, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed)
{
	struct p2s_op_answer a;
	uint64_t look = len < 1024 ? len : 1024;

	assert_int_equal(
		ASK(d, channel, &a, .op = P2S_OP_CHECK, .buf = buf, .off = off, .len = len, .in_off = off, .in_len = len, .seed = seed),
		P2S_RC_OK);
	assert_int_equal(a.bad_words, 0);
	assert_true(a.first_bad == ~UINT64_C(0));
	assert_int_equal(ASK(d, channel, &a, .op = P2S_OP_PEEK, .buf = buf, .off = off, .len = look), P2S_RC_OK);
	assert_int_equal(a.samples_len, look);
	for (uint64_t i = 0; i < look; i++)
		assert_int_equal(a.samples[i], p2s_word_byte(seed, off + i));
}

static void init_tells_the_device(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", "");
	assert_true(drive_start(&d, program, library, folder, -1, 1));
	/* nothing works before INIT, and INIT needs the control page and an address that exists */
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_ALLOC, .buf = BUF(1), .len = 1), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_INIT, .text = GPU_B), P2S_RC_BAD_REQUEST);
	assert_int_equal(drive_init(&d, 0, GPU_B, &a), P2S_RC_OK);
	assert_int_equal(d.device[0].ordinal, 1);
	assert_int_equal(d.device[0].module, 1);
	assert_int_equal(d.device[0].missing, 0);
	assert_int_equal(d.device[0].cuda_version, 12080);
	assert_int_equal(d.device[0].cumem_fd, 1);
	assert_string_equal(d.device[0].name, "Test B");
	assert_string_equal(d.device[0].uuid, "GPU-11111111-2222-3333-4444-555555555502");
	assert_string_equal(d.device[0].address, GPU_B);
	assert_true(d.device[0].free_bytes > 0 && d.device[0].free_bytes <= d.device[0].memory_bytes);
	/* a second INIT would make a second control page */
	assert_int_equal(drive_init(&d, 0, GPU_B, &a), P2S_RC_BAD_REQUEST);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	quit(&d);
}

static int refused_init(const char *lib, const char *address, struct p2s_op_answer *a)
{
	struct drive d;
	int rc;

	assert_true(drive_start(&d, program, lib, folder, -1, 1));
	rc = drive_init(&d, 0, address, a);
	drive_end(&d);
	return rc;
}

static void init_says_why_not(void **state)
{
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", "");
	assert_int_equal(refused_init("/nonexistent/libcuda.so.1", GPU_A, &a), P2S_RC_UNSUPPORTED);
	assert_string_equal(a.where, "dlopen");
	assert_int_equal(refused_init(library, "0000:7f:00.0", &a), P2S_RC_ERROR);
	assert_int_equal(a.cuda_error, P2S_CU_ERROR_INVALID_DEVICE);
	make_host(11080, "", "");
	assert_int_equal(refused_init(library, GPU_A, &a), P2S_RC_UNSUPPORTED);
	assert_string_equal(a.where, "cuDriverGetVersion");
	assert_int_equal(a.value, 11080);
	make_host(12080, "", ", \"missing_symbols\": [\"cuStreamQuery\"]");
	assert_int_equal(refused_init(library, GPU_A, &a), P2S_RC_UNSUPPORTED);
	assert_string_equal(a.where, "cuStreamQuery");
	make_host(12080, "", ", \"init_error\": 100");
	assert_int_equal(refused_init(library, GPU_A, &a), P2S_RC_ERROR);
	assert_int_equal(a.cuda_error, P2S_CU_ERROR_NO_DEVICE);
	assert_string_equal(a.where, "cuInit");
	make_host(12080, ", \"init_error\": 46", "");
	assert_int_equal(refused_init(library, GPU_A, &a), P2S_RC_ERROR);
	assert_int_equal(a.cuda_error, 46);
}

static void missing_symbols_disable_their_legs(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", ", \"missing_symbols\": [\"cuIpcGetMemHandle\", \"cuMemCreate\", \"cuCtxEnablePeerAccess\"]");
	begin(&d, 2, -1);
	assert_int_equal(d.device[0].missing, P2S_FEATURE_IPC | P2S_FEATURE_CUMEM | P2S_FEATURE_PEER);
	assert_int_equal(d.device[0].cumem_fd, 0);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_ALLOC, .buf = BUF(2), .len = MIB, .mode = P2S_ALLOC_CUMEM),
					 P2S_RC_UNSUPPORTED);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_EXPORT, .buf = BUF(1), .mode = P2PSAFE_MAPPING_IPC), P2S_RC_UNSUPPORTED);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_UNSUPPORTED);
	quit(&d);
}

static void without_a_compiler_copies_remain(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, ", \"jit\": false", "");
	begin(&d, 1, -1);
	assert_int_equal(d.device[0].module, 0);
	assert_int_equal(d.device[0].cuda_error, 221);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 0, BUF(2), MIB, P2S_ALLOC_CUMEM);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_LOAD, .buf = BUF(1), .buf2 = BUF(2), .len = 64), P2S_RC_NO_KERNELS);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_COPY, .buf = BUF(1), .buf2 = BUF(2), .len = MIB), P2S_RC_OK);
	quit(&d);
}

/* Nothing but its own memory: who has no kernels cannot store into a peer's, and must not judge what a window shows. */
static void without_a_compiler_only_own_memory_is_judged(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, ", \"jit\": false", "");
	begin(&d, 2, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 1, PEER(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 64, .seed = 1), P2S_RC_NO_KERNELS);
	assert_int_not_equal(ASK(&d, 0, &a, .op = P2S_OP_CHECK, .buf = PEER(1), .len = 64, .in_len = 64, .seed = 1), P2S_RC_OK);
	assert_true(a.bad_words != 0); /* an answer without a judgement must not look clean */
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = MIB, .seed = SEED), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_COPY, .buf = PEER(1), .buf2 = BUF(1), .len = MIB), P2S_RC_OK);
	assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_CHECK, .buf = PEER(1), .len = MIB, .in_len = MIB, .seed = SEED), P2S_RC_OK);
	assert_int_equal(a.bad_words, 0);
	/* Everything wrong: counted to the last word. */
	assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_CHECK, .buf = PEER(1), .len = MIB, .in_len = MIB, .seed = SEED ^ 1),
					 P2S_RC_OK);
	assert_int_equal(a.bad_words, MIB / 8);
	assert_int_equal(a.first_bad, 0);
	assert_int_equal(a.samples_len, P2S_SAMPLES * sizeof(struct p2s_sample));
	quit(&d);
}

/* With kernels, or without them by the copy engine: the same answers. */
static void local_memory_of(const char *gpu)
{
	struct drive d;
	struct p2s_op_answer a;
	struct p2s_sample s;
	uint64_t free_before;

	make_host(12080, gpu, "");
	begin(&d, 1, -1);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_MEM_INFO), P2S_RC_OK);
	free_before = a.value;
	for (uint32_t mode = P2S_ALLOC_PLAIN; mode <= P2S_ALLOC_CUMEM; mode++) {
		alloc(&d, 0, BUF(1), 4 * MIB, mode);
		alloc(&d, 0, BUF(2), 4 * MIB, mode);
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = 4 * MIB, .seed = POISON), P2S_RC_OK);
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .off = 1001, .len = 5003, .seed = SEED), P2S_RC_OK);
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_CHECK, .buf = BUF(1), .len = 4 * MIB, .in_off = 1001, .in_len = 5003,
							 .seed = SEED, .seed2 = POISON),
						 P2S_RC_OK);
		assert_int_equal(a.bad_words, 0);
		/* the same, looked for one byte off: both edges are wrong */
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_CHECK, .buf = BUF(1), .len = 4 * MIB, .in_off = 1000, .in_len = 5003,
							 .seed = SEED, .seed2 = POISON),
						 P2S_RC_OK);
		assert_int_equal(a.bad_words, 2);
		assert_int_equal(a.first_bad, 1000);
		assert_int_equal(a.samples_len, 2 * sizeof s);
		/* copies and loads */
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_COPY, .buf = BUF(2), .off = 64, .buf2 = BUF(1), .off2 = 64, .len = 8192),
						 P2S_RC_OK);
		holds(&d, 0, BUF(2), 1008, 4992, SEED);
		if (d.device[0].module) {
			assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_LOAD, .buf = BUF(2), .buf2 = BUF(1), .off = 16384, .len = MIB,
								 .mode = 2),
							 P2S_RC_OK);
			holds(&d, 0, BUF(2), 16384, MIB, POISON);
		}
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_RELEASE, .buf = BUF(1)), P2S_RC_OK);
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_RELEASE, .buf = BUF(2)), P2S_RC_OK);
	}
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_MEM_INFO), P2S_RC_OK);
	assert_int_equal(a.value, free_before);
	quit(&d);
}

static void local_memory(void **state)
{
	(void)state;
	local_memory_of("");
}

static void local_memory_without_kernels(void **state)
{
	(void)state;
	local_memory_of(", \"jit\": false");
}

static void host_memory(void **state)
{
	struct drive d;
	struct p2s_op_answer a;
	int memory = drive_memfd(MIB);
	unsigned char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	struct p2s_op_request q = {.op = P2S_OP_HOST_MAP, .buf = BUF(9), .len = 2 * MIB};

	(void)state;
	assert_true(at != MAP_FAILED);
	make_host(12080, "", "");
	begin(&d, 1, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(drive_ask(&d, 0, &q, memory, NULL, &a), P2S_RC_BAD_REQUEST); /* longer than the file */
	q.len = MIB;
	assert_int_equal(drive_ask(&d, 0, &q, memory, NULL, &a), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = MIB, .seed = SEED), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_HOST_COPY, .buf = BUF(1), .off = 8, .buf2 = BUF(9), .off2 = 16, .len = 4096),
					 P2S_RC_OK);
	for (uint64_t i = 0; i < 4096; i++)
		assert_int_equal(at[16 + i], p2s_word_byte(SEED, 8 + i));
	for (uint64_t i = 0; i < 4096; i++)
		at[i] = p2s_word_byte(POISON, i);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_HOST_COPY, .buf = BUF(1), .buf2 = BUF(9), .len = 4096, .mode = 1), P2S_RC_OK);
	holds(&d, 0, BUF(1), 0, 4096, POISON);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEEK, .buf = BUF(9), .len = 8), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(9), .len = 8), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_RELEASE, .buf = BUF(9)), P2S_RC_OK);
	quit(&d);
	munmap(at, MIB);
	close(memory);
}

/* A conductor with a bug: nothing may be touched, and the next good request must work. */
static void bad_requests_touch_nothing(void **state)
{
	static const struct p2s_op_request bad[] = {
		{.op = 0},
		{.op = 99},
		{.op = P2S_OP_ALLOC, .buf = 0, .len = 1},
		{.op = P2S_OP_ALLOC, .buf = BUF(1), .len = 1},
		{.op = P2S_OP_ALLOC, .buf = BUF(7), .len = 0},
		{.op = P2S_OP_ALLOC, .buf = BUF(7), .len = 1, .mode = 2},
		{.op = P2S_OP_RELEASE, .buf = BUF(7)},
		{.op = P2S_OP_EXPORT, .buf = BUF(1), .mode = P2PSAFE_MAPPING_CUMEM},
		{.op = P2S_OP_EXPORT, .buf = BUF(1), .mode = P2PSAFE_MAPPING_PEER},
		{.op = P2S_OP_IMPORT, .buf = BUF(7), .mode = P2PSAFE_MAPPING_IPC, .len = MIB},
		{.op = P2S_OP_IMPORT, .buf = BUF(7), .mode = P2PSAFE_MAPPING_CUMEM, .len = MIB},
		{.op = P2S_OP_PEER_ENABLE, .text = GPU_B},
		{.op = P2S_OP_CAN_ACCESS, .text = "nonsense"},
		{.op = P2S_OP_FILL, .buf = BUF(7), .len = 1},
		{.op = P2S_OP_FILL, .buf = BUF(1), .off = 2 * MIB, .len = 1},
		{.op = P2S_OP_FILL, .buf = BUF(1), .off = 1, .len = 2 * MIB},
		{.op = P2S_OP_FILL, .buf = BUF(1), .off = ~UINT64_C(0), .len = 2},
		{.op = P2S_OP_FILL, .buf = BUF(1), .off = 0, .len = 0},
		{.op = P2S_OP_CHECK, .buf = BUF(1), .off = 4, .len = 8},
		{.op = P2S_OP_CHECK, .buf = BUF(1), .len = 8, .in_off = ~UINT64_C(0), .in_len = 2},
		{.op = P2S_OP_LOAD, .buf = BUF(1), .buf2 = BUF(1), .len = 8},
		{.op = P2S_OP_LOAD, .buf = BUF(1), .buf2 = BUF(2), .len = 8, .mode = 3},
		{.op = P2S_OP_LOAD, .buf = BUF(1), .buf2 = BUF(2), .off = 1, .len = 8, .mode = 1},
		{.op = P2S_OP_COPY, .buf = BUF(1), .buf2 = BUF(2), .off2 = 2 * MIB - 4, .len = 8},
		{.op = P2S_OP_COPY, .buf = BUF(1), .buf2 = BUF(2), .len = 8, .mode = 3},
		{.op = P2S_OP_PEEK, .buf = BUF(1), .len = 1025},
		{.op = P2S_OP_HOST_MAP, .buf = BUF(7), .len = 4096},
		{.op = P2S_OP_HOST_COPY, .buf = BUF(1), .buf2 = BUF(2), .len = 8},
		{.op = P2S_OP_MP, .rounds = 1, .words = 1, .slot_bytes = 64, .flag_off = 8, .max_ns = 1000},
		{.op = P2S_OP_MP, .buf = BUF(1), .rounds = 1, .words = 1, .slot_bytes = 64, .flag_off = 64, .max_ns = 1000},
		{.op = P2S_OP_MP, .buf = BUF(1), .rounds = 1, .words = 2, .slot_bytes = 64, .flag_off = 8, .max_ns = 1000},
		{.op = P2S_OP_MP, .buf = BUF(1), .rounds = 1 << 16, .words = 1, .slot_bytes = 64, .flag_off = 8, .max_ns = 1000},
		{.op = P2S_OP_MP, .buf = BUF(1), .rounds = 1, .words = 1, .slot_bytes = 64, .flag_off = 8, .idiom = 4, .max_ns = 1000},
		{.op = P2S_OP_MP, .buf = BUF(1), .rounds = 1, .words = 1, .slot_bytes = 64, .flag_off = 8},
		{.op = P2S_OP_TEAR, .buf = BUF(1), .words = 1 << 18, .rounds = 1, .max_ns = 1000},
		{.op = P2S_OP_TEAR, .buf = BUF(1), .off = 4, .words = 1, .rounds = 1, .max_ns = 1000},
		{.op = P2S_OP_ATOMIC, .buf = BUF(1), .off = 2 * MIB - 8, .rounds = 1},
		{.op = P2S_OP_CE_FLAG, .buf = BUF(1), .buf2 = BUF(1), .rounds = 1, .words = 1, .slot_bytes = 64, .flag_off = 8},
		{.op = P2S_OP_CE_FLAG,
		 .buf = BUF(1),
		 .off = 2 * MIB - 64,
		 .buf2 = BUF(2),
		 .rounds = 2,
		 .words = 1,
		 .slot_bytes = 64,
		 .flag_off = 8},
		{.op = P2S_OP_FILL_SLOTS, .buf = BUF(1), .rounds = 0, .words = 1, .slot_bytes = 64, .flag_off = 8},
	};
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", "");
	begin(&d, 1, -1);
	alloc(&d, 0, BUF(1), 2 * MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 0, BUF(2), 2 * MIB, P2S_ALLOC_PLAIN);
	for (uint32_t b = 1; b <= 2; b++)
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(b), .len = 2 * MIB, .seed = POISON), P2S_RC_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		int rc = ask(&d, 0, bad[i], &a);

		if (rc != P2S_RC_BAD_REQUEST)
			fail_msg("request %zu (op %u) was answered %d, error %d at %s", i, bad[i].op, rc, a.cuda_error, a.where);
	}
	for (uint32_t b = 1; b <= 2; b++)
		holds(&d, 0, BUF(b), 0, 2 * MIB, POISON);
	quit(&d);
}

static void import_from(struct drive *owner, struct drive *accessor, int mapping)
{
	struct p2s_op_request q = {.op = P2S_OP_EXPORT, .buf = PEER(1), .mode = (uint32_t)mapping};
	struct p2s_op_answer a;
	int fd = -1;

	assert_int_equal(drive_ask(owner, 0, &q, -1, &fd, &a), P2S_RC_OK);
	assert_true(mapping == P2PSAFE_MAPPING_CUMEM ? fd >= 0 : a.handle_len == 64);
	q = (struct p2s_op_request){.op = P2S_OP_IMPORT, .buf = BUF(5), .mode = (uint32_t)mapping, .len = 4 * MIB};
	q.handle_len = a.handle_len;
	memcpy(q.handle, a.handle, sizeof q.handle);
	assert_int_equal(drive_ask(accessor, 0, &q, fd, NULL, &a), P2S_RC_OK);
	if (fd >= 0)
		close(fd);
}

static void handles_between_processes(void **state)
{
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", "");
	for (int mapping = P2PSAFE_MAPPING_IPC; mapping <= P2PSAFE_MAPPING_CUMEM; mapping++) {
		struct drive d[2];
		int memory = drive_memfd(0);

		begin(&d[0], 1, memory);
		assert_true(drive_start(&d[1], program, library, folder, memory, 1));
		assert_int_equal(drive_init(&d[1], 0, GPU_B, &a), P2S_RC_OK);
		alloc(&d[1], 0, PEER(1), 4 * MIB, mapping == P2PSAFE_MAPPING_IPC ? P2S_ALLOC_PLAIN : P2S_ALLOC_CUMEM);
		alloc(&d[0], 0, BUF(1), 4 * MIB, P2S_ALLOC_PLAIN);
		import_from(&d[1], &d[0], mapping);
		/* store, copy, load: judged by the owner of the bytes */
		assert_int_equal(ASK(&d[1], 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 4 * MIB, .seed = POISON), P2S_RC_OK);
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_FILL, .buf = BUF(5), .off = 4096, .len = 128, .seed = SEED), P2S_RC_OK);
		holds(&d[1], 0, PEER(1), 4096, 128, SEED);
		holds(&d[1], 0, PEER(1), 4224, 4096, POISON);
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_LOAD, .buf = BUF(1), .buf2 = BUF(5), .len = MIB), P2S_RC_OK);
		holds(&d[0], 0, BUF(1), 8192, 65536, POISON);
		for (uint32_t mode = P2S_COPY_ASYNC; mode <= P2S_COPY_HALVES; mode++) {
			/* Halves that change places hold what another seed would have put there. */
			uint64_t seed = mode == P2S_COPY_HALVES ? (SEED + mode) ^ MIB / 2 / 8 : SEED + mode;

			assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = MIB, .seed = SEED + mode), P2S_RC_OK);
			assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_COPY, .buf = BUF(5), .buf2 = BUF(1), .len = MIB, .mode = mode),
							 P2S_RC_OK);
			holds(&d[1], 0, PEER(1), 0, MIB, seed);
		}
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_COPY, .buf = BUF(5), .buf2 = BUF(1), .len = 4095, .mode = P2S_COPY_HALVES),
						 P2S_RC_BAD_REQUEST);
		/* only the owner judges */
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_CHECK, .buf = BUF(5), .len = 64, .seed = SEED), P2S_RC_BAD_REQUEST);
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_RELEASE, .buf = BUF(5)), P2S_RC_OK);
		assert_int_equal(ASK(&d[0], 0, &a, .op = P2S_OP_FILL, .buf = BUF(5), .len = 8, .seed = SEED), P2S_RC_BAD_REQUEST);
		quit(&d[0]);
		quit(&d[1]);
		close(memory);
	}
}

static void peer_mapping_needs_access(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", "");
	begin(&d, 2, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 1, PEER(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_CAN_ACCESS, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(a.value, 15);
	assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = MIB, .seed = POISON), P2S_RC_OK);
	/* not enabled: neither a kernel (it would fault) nor a copy (it would be staged unseen) */
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_COPY, .buf = PEER(1), .buf2 = BUF(1), .len = 128), P2S_RC_BAD_REQUEST);
	holds(&d, 1, PEER(1), 0, MIB, POISON);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_A), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED), P2S_RC_OK);
	holds(&d, 1, PEER(1), 0, 128, SEED);
	/* one direction only, and nobody frees or judges another's memory */
	assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = 128, .seed = SEED), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_RELEASE, .buf = PEER(1)), P2S_RC_BAD_REQUEST);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_CHECK, .buf = PEER(1), .len = 128, .seed = SEED), P2S_RC_BAD_REQUEST);
	quit(&d);
}

static struct p2s_role_result role(const struct p2s_op_answer *a, int which)
{
	struct p2s_role_result r;

	assert_int_equal(a->roles_len, 2 * sizeof r);
	memcpy(&r, a->roles + (size_t)which * sizeof r, sizeof r);
	return r;
}

static void waiting_kernels_end_by_their_bounds(void **state)
{
	struct p2s_op_request q = {.op = P2S_OP_MP,
							   .buf2 = BUF(1),
							   .rounds = 4,
							   .words = 4,
							   .slot_bytes = 64,
							   .flag_off = 56,
							   .seed2 = SEED,
							   .max_ns = 20000000};
	struct drive d;
	struct p2s_op_answer a;
	uint64_t start;

	(void)state;
	make_host(12080, "", "");
	begin(&d, 1, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(1), .len = MIB, .seed = POISON), P2S_RC_OK);
	/* its own time limit */
	drive_clear(&d, 0);
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 2));
	assert_int_equal(drive_receive(&d, 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(role(&a, 0).status, P2S_ROLE_IDLE);
	assert_int_equal(role(&a, 1).status, P2S_ROLE_TIMEOUT);
	assert_int_equal(role(&a, 1).rounds_done, 0);
	assert_int_equal(role(&a, 1).payload_bad, 4);
	/* the conductor's abort */
	drive_clear(&d, 0);
	q.max_ns = UINT64_C(20000000000);
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 2));
	d.control[0]->abort.word = 1;
	assert_int_equal(drive_receive(&d, 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(role(&a, 1).status, P2S_ROLE_ABORTED);
	assert_int_equal(d.control[0]->abort.word, 1); /* not the worker's to take back */
	/* the worker's time limit: it raises abort, the engine comes back, abort is taken back */
	drive_clear(&d, 0);
	q.timeout_ns = 50000000;
	start = p2s_now_ns();
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 2));
	assert_int_equal(drive_receive(&d, 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(role(&a, 1).status, P2S_ROLE_ABORTED);
	assert_true(p2s_now_ns() - start < UINT64_C(2000000000));
	assert_int_equal(d.control[0]->abort.word, 0);
	assert_true(d.control[0]->heartbeat.word > 0);
	quit(&d);
}

static void slots_flags_and_atomics(void **state)
{
	struct p2s_op_request slots = {.op = P2S_OP_FILL_SLOTS,
								   .buf = BUF(1),
								   .off = 64,
								   .rounds = 200,
								   .words = 5,
								   .slot_bytes = 128,
								   .flag_off = 120,
								   .seed = SEED};
	struct p2s_op_request q = slots;
	struct drive d;
	struct p2s_op_answer a;
	uint64_t word;

	(void)state;
	make_host(12080, "", "");
	begin(&d, 1, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 0, BUF(2), MIB, P2S_ALLOC_PLAIN);
	for (uint32_t b = 1; b <= 2; b++)
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = BUF(b), .len = MIB, .seed = POISON), P2S_RC_OK);
	assert_int_equal(ask(&d, 0, slots, &a), P2S_RC_OK);
	q.op = P2S_OP_CE_FLAG;
	q.buf = BUF(2);
	q.buf2 = BUF(1);
	q.off2 = 64;
	assert_int_equal(ask(&d, 0, q, &a), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEEK, .buf = BUF(2), .off = 64 + 199 * 128, .len = 128), P2S_RC_OK);
	for (uint64_t j = 0; j < 16; j++) {
		uint64_t want =
			j < 5 || j == 15 ? p2s_word(p2s_seed_epoch(SEED, 200), 199 * 16 + j) : p2s_word(POISON, 8 + 199 * 16 + j);

		memcpy(&word, a.samples + j * 8, 8);
		assert_true(word == want);
	}
	/* a reader finds all of it */
	drive_clear(&d, 0);
	q.op = P2S_OP_MP;
	q.buf = 0;
	q.off = 0;
	q.buf2 = BUF(2);
	q.seed2 = SEED;
	q.idiom = 3;
	q.max_ns = 500000000;
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 2));
	assert_int_equal(drive_receive(&d, 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(role(&a, 1).status, P2S_ROLE_DONE);
	assert_int_equal(role(&a, 1).rounds_done, 200);
	assert_int_equal(role(&a, 1).bad_words, 0);
	/* atomics */
	q = (struct p2s_op_request){.op = P2S_OP_ATOMIC, .buf = BUF(2), .rounds = 100, .max_ns = 500000000};
	drive_clear(&d, 0);
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 1));
	assert_int_equal(drive_receive(&d, 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(role(&a, 0).rounds_done, 3200);
	assert_int_equal(role(&a, 0).cas_done, 100);
	quit(&d);
}

/* An operation is done when its answer arrives, also one that failed behind what it had queued: else its bytes come when others use
 * that memory. */
static void what_was_queued_before_a_failure_is_over(void **state)
{
	const uint64_t len = 8 * MIB;
	struct p2s_op_request q = {.op = P2S_OP_CE_FLAG,
							   .buf = PEER(1),
							   .buf2 = BUF(1),
							   .rounds = 1,
							   .words = (uint32_t)(len / 8),
							   .slot_bytes = (uint32_t)len + 64,
							   .flag_off = (uint32_t)len,
							   .mode = P2S_FLAG_WRITE,
							   .seed = SEED};
	struct p2s_op_request slots = q;
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	slots.op = P2S_OP_FILL_SLOTS;
	slots.buf = BUF(1);
	make_host(12080, "", ", \"faults\": [{\"op\": \"call\", \"name\": \"cuStreamWriteValue64_v2\", \"effect\": \"error\", \"error\": 801}]");
	begin(&d, 2, -1);
	alloc(&d, 0, BUF(1), len + MIB, P2S_ALLOC_PLAIN);
	alloc(&d, 1, PEER(1), len + MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ask(&d, 0, slots, &a), P2S_RC_OK);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = len, .seed = POISON), P2S_RC_OK);
		assert_int_equal(ask(&d, 0, q, &a), P2S_RC_ERROR);
		assert_int_equal(a.cuda_error, 801);
		holds(&d, 1, PEER(1), len - 1024, 1024, p2s_seed_epoch(SEED, 1));
	}
	quit(&d);
}

static void errors_stick(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", ", \"faults\": [{\"op\": \"sm_store\", \"effect\": \"error\", \"error\": 700}]");
	begin(&d, 2, -1);
	alloc(&d, 1, PEER(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED), P2S_RC_ERROR);
	assert_int_equal(a.cuda_error, P2S_CU_ERROR_ILLEGAL_ADDRESS);
	assert_true(a.where[0] != '\0');
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_MEM_INFO), P2S_RC_ERROR);
		assert_int_equal(a.cuda_error, P2S_CU_ERROR_ILLEGAL_ADDRESS);
	}
	quit(&d);
}

static void a_wedged_engine_is_a_timeout(void **state)
{
	struct drive d;
	struct p2s_op_answer a;
	uint64_t start;

	(void)state;
	make_host(12080, "", ", \"faults\": [{\"op\": \"sm_store\", \"effect\": \"wedge\"}]");
	begin(&d, 2, -1);
	alloc(&d, 1, PEER(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	start = p2s_now_ns();
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED, .timeout_ns = 100000000),
					 P2S_RC_TIMEOUT);
	assert_true(p2s_now_ns() - start > 390000000 && p2s_now_ns() - start < UINT64_C(2000000000));
	assert_int_equal(d.control[0]->abort.word, 1); /* stays: nothing came back */
	/* nothing is queued behind it; the other GPU goes on */
	start = p2s_now_ns();
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_MEM_INFO), P2S_RC_TIMEOUT);
	assert_true(p2s_now_ns() - start < 100000000);
	assert_int_equal(ASK(&d, 1, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED), P2S_RC_OK);
	/* the process ends although the engine does not */
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_QUIT), P2S_RC_OK);
	close(d.sock[1]);
	d.sock[1] = -1;
	assert_int_equal(drive_wait(&d, 3000), 0);
	drive_end(&d);
}

static void a_crash_ends_one_worker(void **state)
{
	struct drive d;
	struct p2s_op_answer a;

	(void)state;
	make_host(12080, "", ", \"faults\": [{\"op\": \"sm_store\", \"effect\": \"crash\"}]");
	begin(&d, 2, -1);
	alloc(&d, 1, PEER(1), MIB, P2S_ALLOC_PLAIN);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_PEER_ENABLE, .text = GPU_B), P2S_RC_OK);
	assert_int_equal(ASK(&d, 0, &a, .op = P2S_OP_FILL, .buf = PEER(1), .len = 128, .seed = SEED), -2);
	assert_int_equal(drive_wait(&d, 3000), 256 + 11);
	drive_end(&d);
}

static void the_end_of_the_socket_ends_it(void **state)
{
	struct p2s_op_request q = {.op = P2S_OP_MP,
							   .buf2 = BUF(1),
							   .rounds = 4,
							   .words = 4,
							   .slot_bytes = 64,
							   .flag_off = 56,
							   .seed2 = SEED,
							   .max_ns = UINT64_C(60000000000),
							   .timeout_ns = UINT64_C(60000000000)};
	struct drive d;
	uint64_t start;

	(void)state;
	make_host(12080, "", "");
	/* idle */
	begin(&d, 2, -1);
	close(d.sock[0]);
	d.sock[0] = -1;
	assert_int_equal(drive_wait(&d, 200), -1); /* the other channel is still served */
	start = p2s_now_ns();
	close(d.sock[1]);
	d.sock[1] = -1;
	assert_int_equal(drive_wait(&d, 3000), 0);
	assert_true(p2s_now_ns() - start < UINT64_C(1000000000));
	drive_end(&d);
	/* in the middle of a waiting kernel that would wait for a minute */
	begin(&d, 1, -1);
	alloc(&d, 0, BUF(1), MIB, P2S_ALLOC_PLAIN);
	drive_clear(&d, 0);
	assert_true(drive_send(&d, 0, &q, -1) && drive_go(&d, 0, 2));
	start = p2s_now_ns();
	close(d.sock[0]);
	d.sock[0] = -1;
	assert_true(drive_wait(&d, 5000) >= 0);
	assert_true(p2s_now_ns() - start < UINT64_C(1500000000));
	drive_end(&d);
}

static void rubbish_ends_the_channel(void **state)
{
	struct drive d;

	(void)state;
	make_host(12080, "", "");
	begin(&d, 1, -1);
	assert_int_equal(write(d.sock[0], "rubbish", 7), 7);
	assert_int_equal(drive_wait(&d, 3000), 0);
	drive_end(&d);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_tells_the_device),
		cmocka_unit_test(init_says_why_not),
		cmocka_unit_test(missing_symbols_disable_their_legs),
		cmocka_unit_test(without_a_compiler_copies_remain),
		cmocka_unit_test(local_memory),
		cmocka_unit_test(local_memory_without_kernels),
		cmocka_unit_test(without_a_compiler_only_own_memory_is_judged),
		cmocka_unit_test(host_memory),
		cmocka_unit_test(bad_requests_touch_nothing),
		cmocka_unit_test(handles_between_processes),
		cmocka_unit_test(peer_mapping_needs_access),
		cmocka_unit_test(waiting_kernels_end_by_their_bounds),
		cmocka_unit_test(slots_flags_and_atomics),
		cmocka_unit_test(what_was_queued_before_a_failure_is_over),
		cmocka_unit_test(errors_stick),
		cmocka_unit_test(a_wedged_engine_is_a_timeout),
		cmocka_unit_test(a_crash_ends_one_worker),
		cmocka_unit_test(the_end_of_the_socket_ends_it),
		cmocka_unit_test(rubbish_ends_the_channel),
	};
	int failed;

	if (argc < 3 || !drive_folder(folder, sizeof folder))
		return 2;
	program = argv[1];
	library = argv[2];
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	drive_folder_end(folder);
	return failed;
}
