/* The operations that measure, against the simulated driver: what they give, what they refuse, and that none waits for ever.
 *
 *   worker_measure WORKER SIM_LIBRARY */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <numa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/near.h"
#include "p2psafe/p2psafe.h"
#include "worker_drive.h"

#define MIB (UINT64_C(1) << 20)
#define GB UINT64_C(1000000000)
#define SEED UINT64_C(0xa000000012345678)
#define POISON UINT64_C(0xa00000008765432f)
#define WAIT_NS UINT64_C(20000000000) /* of the gate: a build machine may be busy */

static const char *program;
static const char *library;
static char folder[64];
static int numa[2] = {-1, -1}; /* what the driver says of each GPU */

/* Two GPUs of two worker processes: each has memory 1 and sees the other's as 2. Number 3 is the ring of GPU 0, mapped by both.
 */
struct rig {
	struct drive d[2];
	int memory;
	int ring_fd;
	struct p2s_stage_head *ring;
};

#define BUF(gpu, n) P2S_BUF(gpu, n)

static void make_host(void)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s/cuda.json", folder);
	f = fopen(path, "w");
	assert_non_null(f);
	for (int i = 0; i < 2; i++)
		fprintf(f,
				"%s{\"bdf\": \"0000:0%d:00.0\", \"uuid\": \"GPU-11111111-2222-3333-4444-55555555550%d\", \"name\": \"Test\", "
				"\"minor\": %d, \"memory_bytes\": 268435456, \"free_bytes\": 234881024, \"host_numa_id\": %d}",
				i == 0 ? "{\"driver_api\": 12080, \"gpus\": [" : ", ", i + 1, i + 1, i, numa[i]);
	fprintf(f, "], \"links\": {\"default\": {\"kind\": \"nvlink\", \"bytes_per_s\": 100000000000, \"latency_ns\": 500}}, "
			   "\"staged\": {\"bytes_per_s\": 10000000000, \"latency_ns\": 1000}}\n");
	assert_int_equal(fclose(f), 0);
}

static int ask(struct rig *r, int gpu, struct p2s_op_request q, struct p2s_op_answer *a)
{
	return drive_ask(&r->d[gpu], 0, &q, -1, NULL, a);
}

#define ASK(r, gpu, a, ...) ask((r), (gpu), (struct p2s_op_request){__VA_ARGS__}, (a))

static void exchange(struct rig *r, int owner)
{
	struct p2s_op_request give = {.op = P2S_OP_EXPORT, .buf = BUF(owner, 1), .mode = P2PSAFE_MAPPING_CUMEM};
	struct p2s_op_request take = {.op = P2S_OP_IMPORT, .buf = BUF(owner, 2), .mode = P2PSAFE_MAPPING_CUMEM, .len = 8 * MIB};
	struct p2s_op_answer a;
	int fd = -1;

	assert_int_equal(drive_ask(&r->d[owner], 0, &give, -1, &fd, &a), P2S_RC_OK);
	assert_int_equal(drive_ask(&r->d[1 - owner], 0, &take, fd, NULL, &a), P2S_RC_OK);
	close(fd);
}

static void begin(struct rig *r, int init)
{
	struct p2s_op_answer a;
	char address[32];

	memset(r, 0, sizeof *r);
	make_host();
	r->memory = drive_memfd(0);
	r->ring_fd = drive_memfd(P2S_STAGE_BYTES);
	r->ring = mmap(NULL, P2S_STAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->ring_fd, 0);
	assert_true(r->ring != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request map = {.op = P2S_OP_HOST_MAP, .buf = BUF(0, 3), .len = P2S_STAGE_BYTES};

		snprintf(address, sizeof address, "0000:0%d:00.0", i + 1);
		assert_true(drive_start(&r->d[i], program, library, folder, r->memory, 1));
		assert_int_equal(drive_init(&r->d[i], 0, address, &a), P2S_RC_OK);
		assert_int_equal(ASK(r, i, &a, .op = P2S_OP_ALLOC, .buf = BUF(i, 1), .len = 8 * MIB, .mode = P2S_ALLOC_CUMEM),
						 P2S_RC_OK);
		assert_int_equal(drive_ask(&r->d[i], 0, &map, r->ring_fd, NULL, &a), P2S_RC_OK);
		if (init)
			assert_int_equal(ASK(r, i, &a, .op = P2S_OP_SPEED_INIT), P2S_RC_OK);
	}
	for (int i = 0; i < 2; i++)
		exchange(r, i);
}

static void end(struct rig *r)
{
	struct p2s_op_answer a;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ASK(r, i, &a, .op = P2S_OP_QUIT), P2S_RC_OK);
		assert_int_equal(drive_wait(&r->d[i], 3000), 0);
		drive_end(&r->d[i]);
	}
	munmap(r->ring, P2S_STAGE_BYTES);
	close(r->ring_fd);
	close(r->memory);
}

static void fill(struct rig *r, int gpu, uint64_t seed)
{
	struct p2s_op_answer a;

	assert_int_equal(ASK(r, gpu, &a, .op = P2S_OP_FILL, .buf = BUF(gpu, 1), .len = 8 * MIB, .seed = seed), P2S_RC_OK);
}

static void holds(struct rig *r, int gpu, uint64_t off, uint64_t len, uint64_t seed)
{
	struct p2s_op_answer a;

	assert_int_equal(ASK(r, gpu, &a, .op = P2S_OP_CHECK, .buf = BUF(gpu, 1), .off = off, .len = len, .in_off = off,
						 .in_len = len, .seed = seed, .seed2 = seed),
					 P2S_RC_OK);
	assert_int_equal(a.bad_words, 0);
}

/* Waits until the gate is there and everything is queued behind it. */
static void queued(struct rig *r, int gpu)
{
	const struct p2s_control *c = r->d[gpu].control[0];
	uint64_t start = p2s_now_ns();

	while (c->ready[0].word == 0 || c->ready[1].word == 0) {
		assert_true(p2s_now_ns() - start < WAIT_NS);
		usleep(1000);
	}
}

/* Both requests behind gates of the same or of two parties; go when both are queued, as the conductor does. */
static void together(struct rig *r, struct p2s_op_request q[2], struct p2s_op_answer a[2])
{
	for (int i = 0; i < 2; i++) {
		q[i].max_ns = WAIT_NS;
		drive_clear(&r->d[i], 0);
		assert_true(drive_send(&r->d[i], 0, &q[i], -1));
	}
	for (int i = 0; i < 2; i++)
		queued(r, i);
	for (int i = 0; i < 2; i++)
		assert_true(drive_go(&r->d[i], 0, 2));
	for (int i = 0; i < 2; i++)
		assert_int_equal(drive_receive(&r->d[i], 0, NULL, &a[i]), P2S_RC_OK);
}

static uint64_t rate(const struct p2s_op_request *q, const struct p2s_op_answer *a)
{
	return (uint64_t)((double)q->len * q->rounds * 1e9 / (double)a->device_ns);
}

static void links_are_shared_within_a_party(void **state)
{
	struct p2s_op_request q[2] = {
		/* GPU 0 writes to 1, and GPU 1 reads from 0: the same wires, the same direction */
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = 4 * MIB, .rounds = 3, .words = 3, .flag_off = 1},
		{.op = P2S_OP_SPEED,
		 .buf = BUF(1, 1),
		 .off = 4 * MIB,
		 .buf2 = BUF(0, 2),
		 .off2 = 4 * MIB,
		 .len = 4 * MIB,
		 .rounds = 3,
		 .words = 3}};
	struct p2s_op_answer a[2];
	uint32_t party = 0;
	struct rig r;

	(void)state;
	begin(&r, 1);
	for (uint32_t mode = P2S_SPEED_COPY; mode <= P2S_SPEED_PUMP; mode++) {
		for (int same = 0; same < 2; same++) {
			fill(&r, 0, SEED);
			fill(&r, 1, POISON);
			q[0].mode = q[1].mode = mode;
			q[0].idiom = ++party;
			q[1].idiom = same ? party : ++party;
			together(&r, q, a);
			for (int i = 0; i < 2; i++) {
				uint64_t want = same ? 50 * GB : 100 * GB;

				assert_int_equal(a[i].value, q[i].idiom);
				assert_int_equal(a[i].samples_len, 24);
				assert_in_range(rate(&q[i], &a[i]), want * 90 / 100, want);
			}
			holds(&r, 1, 0, 8 * MIB, SEED);
		}
	}
	end(&r);
}

static void a_gate_that_is_not_opened_counts_nothing(void **state)
{
	struct p2s_op_request q = {.op = P2S_OP_SPEED,
							   .buf = BUF(1, 2),
							   .buf2 = BUF(0, 1),
							   .len = MIB,
							   .rounds = 1,
							   .words = 1,
							   .idiom = 9,
							   .max_ns = WAIT_NS,
							   .timeout_ns = WAIT_NS};
	struct p2s_op_answer a;
	struct rig r;

	(void)state;
	begin(&r, 1);
	fill(&r, 0, SEED);
	fill(&r, 1, POISON);
	/* aborted in place of go: all that was queued is over when the answer comes */
	drive_clear(&r.d[0], 0);
	assert_true(drive_send(&r.d[0], 0, &q, -1));
	queued(&r, 0);
	r.d[0].control[0]->abort.word = 1;
	assert_int_equal(drive_receive(&r.d[0], 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(a.value, 0);
	holds(&r, 1, 0, MIB, SEED);
	/* by its own bound */
	q.max_ns = 20000000;
	q.timeout_ns = WAIT_NS;
	drive_clear(&r.d[0], 0);
	assert_int_equal(drive_ask(&r.d[0], 0, &q, -1, NULL, &a), P2S_RC_OK);
	assert_int_equal(a.value, 0);
	end(&r);
}

static void rows_and_latencies(void **state)
{
	struct p2s_op_request q = {
		.op = P2S_OP_ROWS, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .idiom = 3, .max_ns = WAIT_NS, .handle_len = 11};
	struct p2s_row row[P2S_ROWS];
	struct p2s_op_answer a;
	struct rig r;

	(void)state;
	begin(&r, 1);
	fill(&r, 0, SEED);
	for (unsigned i = 0; i < q.handle_len; i++)
		q.handle[i] = i == 4 ? 0 : (unsigned char)(i + 1);
	drive_clear(&r.d[0], 0);
	assert_true(drive_send(&r.d[0], 0, &q, -1) && drive_go(&r.d[0], 0, 2));
	assert_int_equal(drive_receive(&r.d[0], 0, NULL, &a), P2S_RC_OK);
	assert_int_equal(a.value, 3);
	assert_int_equal(a.samples_len, sizeof row);
	memcpy(row, a.samples, sizeof row);
	for (unsigned i = 0; i < P2S_ROWS; i++) {
		if (i == 4 || i >= q.handle_len) {
			assert_int_equal(row[i].alone_ns + row[i].each_ns, 0);
			continue;
		}
		assert_in_range(row[i].each_ns, p2s_row_bytes(i) / 100, p2s_row_bytes(i) / 100 + 4000);
		assert_in_range(row[i].alone_ns, row[i].each_ns - 2, row[i].each_ns + 2);
	}
	holds(&r, 1, 0, p2s_row_bytes(10), SEED);
	assert_int_equal(ASK(&r, 0, &a, .op = P2S_OP_LATENCY, .mode = P2S_LATENCY_CHASE, .buf = BUF(1, 2), .len = MIB,
						 .slot_bytes = 128, .rounds = 100, .words = 8),
					 P2S_RC_OK);
	assert_int_equal(a.value, 500000);
	assert_int_equal(
		ASK(&r, 0, &a, .op = P2S_OP_LATENCY, .mode = P2S_LATENCY_ISSUE, .buf = BUF(1, 2), .slot_bytes = 1000, .rounds = 4),
		P2S_RC_OK);
	assert_int_equal(a.value, 4000);
	end(&r);
}

static void staged(struct rig *r, struct p2s_op_request q[2], struct p2s_op_answer a[2])
{
	for (int i = 0; i < 2; i++) {
		q[i].op = P2S_OP_STAGE;
		q[i].buf = BUF(i, 1);
		q[i].rounds = 2;
		drive_clear(&r->d[i], 0);
		assert_true(drive_send(&r->d[i], 0, &q[i], -1));
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(drive_receive(&r->d[i], 0, NULL, &a[i]), P2S_RC_OK);
}

static void through_host_memory(void **state)
{
	struct p2s_op_request q[2] = {{.buf2 = BUF(0, 3), .idiom = 5, .max_ns = WAIT_NS, .handle_len = 12},
								  {.buf3 = BUF(0, 3), .idiom = 5, .max_ns = WAIT_NS, .handle_len = 12}};
	struct p2s_stage_row sent[P2S_ROWS];
	struct p2s_stage_row got[P2S_ROWS];
	struct p2s_op_answer a[2];
	struct rig r;

	(void)state;
	begin(&r, 1);
	for (int again = 0; again < 2; again++) { /* the ring goes on where it was */
		fill(&r, 0, SEED + (uint64_t)again);
		fill(&r, 1, POISON);
		q[0].handle[0] = q[0].handle[2] = q[0].handle[11] = 3;
		memcpy(q[1].handle, q[0].handle, sizeof q[0].handle);
		q[0].idiom = q[1].idiom = 5 + (uint32_t)again;
		staged(&r, q, a);
		memcpy(sent, a[0].samples, sizeof sent);
		memcpy(got, a[1].samples, sizeof got);
		for (unsigned i = 0; i < P2S_ROWS; i++) {
			uint64_t bytes = p2s_row_bytes(i);

			assert_true((got[i].wall_each_ns != 0) == (q[0].handle[i] != 0) &&
						(got[i].wall_alone_ns != 0) == (q[0].handle[i] != 0));
			assert_int_equal(sent[i].wall_alone_ns, 0); /* only the receiver knows when all was there */
			if (q[0].handle[i] != 0)
				assert_in_range(sent[i].device_each_ns, bytes / 10, bytes / 10 + 1000 * (bytes / p2s_stage_chunk(bytes)) + 10);
		}
		holds(&r, 1, 0, p2s_row_bytes(11), SEED + (uint64_t)again);
	}
	/* one side alone gives up in time, says so to the other, and nothing counts */
	q[1].max_ns = 50000000;
	q[1].idiom = 9;
	assert_int_equal(drive_ask(&r.d[1], 0, &q[1], -1, NULL, &a[1]), P2S_RC_OK);
	memcpy(got, a[1].samples, sizeof got);
	assert_int_equal(got[0].wall_alone_ns + got[0].wall_each_ns + got[11].wall_each_ns, 0);
	assert_true(r.ring->stop.word != 0);
	end(&r);
}

/* Is this machine's node 0 one that a process may ask for? What near.c answers here, worker_near checks. */
static int node_0_works(void)
{
	return access("/sys/devices/system/node/node0/cpulist", R_OK) == 0 && numa_available() >= 0 && p2s_near_bind(0);
}

/* Each worker's thread goes to its GPU's node. One that is hidden, or that only the driver knows, costs nothing but speed. */
static void a_worker_works_near_its_gpu(void **state)
{
	static const int said[][2] = {{-1, 0}, {900, 1 << 20}};
	int works = node_0_works();
	struct p2s_op_answer a;
	struct rig r;

	(void)state;
	for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
		memcpy(numa, said[i], sizeof numa);
		begin(&r, 0);
		for (int gpu = 0; gpu < 2; gpu++) {
			assert_int_equal(ASK(&r, gpu, &a, .op = P2S_OP_SPEED_INIT), P2S_RC_OK);
			assert_int_equal(a.value, numa[gpu] == 0 && works ? 1 : 0);
		}
		end(&r);
	}
	numa[0] = numa[1] = -1;
}

static void bad_requests_touch_nothing(void **state)
{
	static const struct p2s_op_request bad[] = {
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = MIB, .rounds = 1, .words = 1}, /* no bound */
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = MIB, .rounds = 0, .words = 1, .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = MIB, .rounds = 1, .words = 8, .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = MIB, .rounds = 300, .words = 2, .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED,
		 .buf = BUF(1, 2),
		 .buf2 = BUF(0, 1),
		 .len = 8 * MIB + 32,
		 .rounds = 1,
		 .words = 1,
		 .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED,
		 .buf = BUF(1, 2),
		 .off = 8,
		 .buf2 = BUF(0, 1),
		 .len = MIB,
		 .rounds = 1,
		 .words = 1,
		 .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(1, 2), .len = MIB, .rounds = 1, .words = 1, .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 3), .len = MIB, .rounds = 1, .words = 1, .max_ns = WAIT_NS},
		{.op = P2S_OP_SPEED,
		 .buf = BUF(1, 2),
		 .buf2 = BUF(0, 3),
		 .len = MIB,
		 .mode = P2S_SPEED_TO_HOST,
		 .rounds = 1,
		 .words = 1,
		 .max_ns = WAIT_NS}, /* not its own memory */
		{.op = P2S_OP_SPEED,
		 .buf = BUF(0, 1),
		 .buf2 = BUF(0, 3),
		 .len = MIB,
		 .mode = 9,
		 .rounds = 1,
		 .words = 1,
		 .max_ns = WAIT_NS},
		{.op = P2S_OP_ROWS, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .max_ns = WAIT_NS},
		{.op = P2S_OP_ROWS,
		 .buf = BUF(1, 2),
		 .buf2 = BUF(0, 1),
		 .max_ns = WAIT_NS,
		 .handle_len = 18,
		 .handle = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{.op = P2S_OP_ROWS, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .max_ns = WAIT_NS, .handle_len = 3, .handle = {255, 255, 255}},
		{.op = P2S_OP_LATENCY, .buf = BUF(1, 2), .len = MIB + 128, .slot_bytes = 128, .rounds = 1, .words = 1},
		{.op = P2S_OP_LATENCY, .buf = BUF(1, 2), .len = 16 * MIB, .slot_bytes = 128, .rounds = 1, .words = 1},
		{.op = P2S_OP_LATENCY, .buf = BUF(1, 2), .len = MIB, .slot_bytes = 128, .rounds = 1, .words = 65},
		{.op = P2S_OP_LATENCY, .buf = BUF(1, 2), .len = MIB, .slot_bytes = 100, .rounds = 1, .words = 1},
		{.op = P2S_OP_LATENCY, .mode = P2S_LATENCY_ISSUE, .buf = BUF(1, 2), .slot_bytes = 1048576, .rounds = 1},
		{.op = P2S_OP_PONG, .buf = BUF(1, 2), .buf2 = BUF(1, 2), .rounds = 2, .max_ns = WAIT_NS}, /* not its own memory */
		{.op = P2S_OP_PONG, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .off2 = 64, .rounds = 2, .max_ns = WAIT_NS},
		{.op = P2S_OP_PONG, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .rounds = 2, .words = 2, .max_ns = WAIT_NS},
		{.op = P2S_OP_STAGE,
		 .buf = BUF(0, 1),
		 .buf2 = BUF(0, 3),
		 .rounds = 1,
		 .max_ns = WAIT_NS,
		 .handle_len = 1,
		 .handle = {1}},
		{.op = P2S_OP_STAGE, .buf = BUF(0, 1), .idiom = 1, .rounds = 1, .max_ns = WAIT_NS, .handle_len = 1, .handle = {1}},
		{.op = P2S_OP_STAGE,
		 .buf = BUF(0, 1),
		 .buf2 = BUF(0, 1),
		 .idiom = 1,
		 .rounds = 1,
		 .max_ns = WAIT_NS,
		 .handle_len = 1,
		 .handle = {1}},
		{.op = P2S_OP_STAGE,
		 .buf = BUF(1, 2),
		 .buf2 = BUF(0, 3),
		 .idiom = 1,
		 .rounds = 1,
		 .max_ns = WAIT_NS,
		 .handle_len = 1,
		 .handle = {1}},
		{.op = P2S_OP_STAGE,
		 .buf = BUF(0, 1),
		 .buf2 = BUF(0, 3),
		 .off = 8 * MIB,
		 .idiom = 1,
		 .rounds = 1,
		 .max_ns = WAIT_NS,
		 .handle_len = 1,
		 .handle = {1}},
	};
	struct p2s_op_request good = {
		.op = P2S_OP_SPEED, .buf = BUF(1, 2), .buf2 = BUF(0, 1), .len = MIB, .rounds = 1, .words = 1, .max_ns = WAIT_NS};
	struct p2s_op_answer a;
	struct rig r;

	(void)state;
	begin(&r, 0);
	fill(&r, 0, SEED);
	fill(&r, 1, POISON);
	assert_int_equal(drive_ask(&r.d[0], 0, &good, -1, NULL, &a), P2S_RC_NO_KERNELS); /* the second module is not there yet */
	assert_int_equal(ASK(&r, 0, &a, .op = P2S_OP_SPEED_INIT), P2S_RC_OK);
	assert_int_equal(ASK(&r, 0, &a, .op = P2S_OP_SPEED_INIT), P2S_RC_BAD_REQUEST);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct p2s_op_request q = bad[i];
		int rc = drive_ask(&r.d[0], 0, &q, -1, NULL, &a);

		if (rc != P2S_RC_BAD_REQUEST)
			fail_msg("request %zu: %d", i, rc);
	}
	holds(&r, 1, 0, 8 * MIB, POISON);
	end(&r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_shared_within_a_party),
		cmocka_unit_test(a_gate_that_is_not_opened_counts_nothing),
		cmocka_unit_test(rows_and_latencies),
		cmocka_unit_test(through_host_memory),
		cmocka_unit_test(a_worker_works_near_its_gpu),
		cmocka_unit_test(bad_requests_touch_nothing),
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
