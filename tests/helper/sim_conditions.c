/* Faults that depend on more than the transfer: lost address bits, load, the n-th time, speed, late errors, lost GPUs, calls by
 * name, allocation behind a kernel, MPS. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/word.h"
#include "sim_rig.h"

#define MIB (UINT64_C(1) << 20)
#define BYTES (2 * MIB)
#define WORDS (BYTES / 8)
#define POISON 100
#define DATA 200
#define PLAN(text) ", \"faults\": [{\"src\": \"0000:01:00.0\", " text "}]"

/* GPU 0 reaches far of GPU 1; near is its own and holds the data. */
struct stage {
	struct rig_gpu g[2];
	CUdeviceptr far;
	CUdeviceptr near;
};

static void set_stage(struct stage *s)
{
	rig_open(&s->g[1], 1);
	rig_open(&s->g[0], 0);
	s->far = rig_peer(&s->g[0], &s->g[1], BYTES);
	CU(cu.cuMemAlloc_v2(&s->near, BYTES));
	rig_fill(&s->g[1], s->far, 0, BYTES, POISON);
	rig_fill(&s->g[0], s->near, 0, BYTES, DATA);
	CU(cu.cuCtxSetCurrent(s->g[0].ctx));
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static CUresult put(struct stage *s, int engine)
{
	uint64_t args[4] = { s->far, 0, BYTES, DATA };
	CUresult rc = CU_OK;

	CU(cu.cuCtxSetCurrent(s->g[0].ctx));
	if (engine)
		rc = cu.cuMemcpyAsync(s->far, s->near, BYTES, s->g[0].stream);
	else
		rig_launch(&s->g[0], s->g[0].fill, args, 4);
	return rc ? rc : rig_sync(&s->g[0], 20000);
}

static void aliased(void *arg)
{
	struct stage s;
	uint64_t words[2], i;
	int engine;

	(void)arg;
	set_stage(&s);
	for (engine = 0; engine < 2; engine++) {
		rig_fill(&s.g[1], s.far, 0, BYTES, POISON);
		CU(put(&s, engine));
		/* Where the bit is set nothing arrives; where it is clear lies what was meant for there, as it came last. */
		CHECK(WORDS - rig_bad(&s.g[1], s.far, BYTES, POISON) == WORDS / 2);
		for (i = 0; i < 2; i++) {
			CU(cu.cuMemcpyDtoHAsync_v2(&words[i], s.far + i * 4096, 8, s.g[1].stream));
			CU(rig_sync(&s.g[1], 5000));
		}
		CHECK(words[0] == p2s_word(DATA, 4096 / 8) && words[1] == p2s_word(POISON, 4096 / 8));
	}
}

static void every_third(void *arg)
{
	struct stage s;
	int i;

	(void)arg;
	set_stage(&s);
	for (i = 0; i < 7; i++) {
		rig_fill(&s.g[1], s.far, 0, BYTES, POISON);
		CU(put(&s, 1));
		CHECK((rig_bad(&s.g[1], s.far, BYTES, DATA) == WORDS) == (i % 3 == 1));
	}
}

/* A reader that waits for a message which never comes is a job at work. */
static void under_load(void *arg)
{
	struct stage s;
	struct rig_mp m = { 0 };

	(void)arg;
	set_stage(&s);
	CU(put(&s, 1));
	CHECK(rig_bad(&s.g[1], s.far, BYTES, DATA) == 0);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	m = (struct rig_mp){ .r_src = s.near, .r_seed = 7, .rounds = 1, .words = 8, .slot = 4096, .flag = 2048,
		.max_ns = 3000000000 };
	rig_mp(&s.g[0], &m);
	while (!__atomic_load_n(&s.g[0].ctl->ready[1].word, __ATOMIC_ACQUIRE))
		;
	rig_fill(&s.g[1], s.far, 0, BYTES, POISON);
	CU(cu.cuCtxSetCurrent(s.g[1].ctx));
	CU(cu.cuCtxEnablePeerAccess(s.g[0].ctx, 0));
	CU(cu.cuMemcpyAsync(s.far, s.near, BYTES, s.g[1].stream));
	CU(rig_sync(&s.g[1], 5000));
	CHECK(rig_bad(&s.g[1], s.far, BYTES, DATA) == WORDS);
	__atomic_store_n(&s.g[0].ctl->abort.word, 1, __ATOMIC_RELEASE);
	CU(rig_sync(&s.g[0], 5000));
}

static void timed(void *arg)
{
	const float *want = arg;
	CUevent a, b;
	struct stage s;
	float ms;

	set_stage(&s);
	CU(cu.cuEventCreate(&a, 0));
	CU(cu.cuEventCreate(&b, 0));
	CU(cu.cuEventRecord(a, s.g[0].stream));
	CU(cu.cuMemcpyAsync(s.far, s.near, BYTES, s.g[0].stream));
	CU(cu.cuEventRecord(b, s.g[0].stream));
	CU(rig_sync(&s.g[0], 5000));
	CU(cu.cuEventElapsedTime(&ms, a, b));
	CHECK(ms > want[0] && ms < want[1]);
	CHECK(rig_bad(&s.g[1], s.far, BYTES, DATA) == 0);
}

static void late(void *arg)
{
	struct stage s;
	int i;

	(void)arg;
	set_stage(&s);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	CU(cu.cuMemcpyAsync(s.far, s.near, BYTES, s.g[0].stream));
	/* The owner has the bytes; the accessor learns of the error later, and for ever. */
	while (cu.cuStreamQuery(s.g[0].stream) == CU_NOT_READY)
		;
	CHECK(rig_bad(&s.g[1], s.far, BYTES, DATA) == 0);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	for (i = 0; i < 100000 && !cu.cuStreamQuery(s.g[0].stream); i++)
		;
	CHECK(i > 10 && i < 100000);
	CHECK(cu.cuStreamQuery(s.g[0].stream) == 719);
	CHECK(cu.cuMemcpyAsync(s.far, s.near, BYTES, s.g[0].stream) == 719);
	CU(rig_sync(&s.g[1], 5000));
}

static void lost(void *arg)
{
	struct stage s;
	uint64_t word;

	(void)arg;
	set_stage(&s);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	CU(cu.cuMemcpyAsync(s.far, s.near, BYTES, s.g[0].stream));
	CHECK(rig_sync(&s.g[0], 5000) == 719);
	CHECK(cu.cuMemFree_v2(s.near) == 719);
	/* The other GPU lives, and reads ones from the one that is gone. */
	CU(cu.cuCtxSetCurrent(s.g[1].ctx));
	CU(cu.cuCtxEnablePeerAccess(s.g[0].ctx, 0));
	CU(cu.cuMemcpyAsync(s.far, s.near, 4096, s.g[1].stream));
	CU(cu.cuMemcpyDtoHAsync_v2(&word, s.far, 8, s.g[1].stream));
	CU(rig_sync(&s.g[1], 5000));
	CHECK(word == ~UINT64_C(0));
}

static void call_fails(void *arg)
{
	struct stage s;
	CUdeviceptr p;

	(void)arg;
	set_stage(&s);
	CHECK(cu.cuMemAlloc_v2(&p, BYTES) == 304);
	CU(cu.cuMemAlloc_v2(&p, BYTES));
	CU(cu.cuCtxSetCurrent(s.g[1].ctx));
	CU(cu.cuMemAlloc_v2(&p, BYTES));
}

static void call_is_late(void *arg)
{
	struct stage s;
	uint64_t start;
	CUdeviceptr p;

	(void)arg;
	set_stage(&s);
	start = now_ms();
	CU(cu.cuMemAlloc_v2(&p, BYTES));
	CHECK(now_ms() - start >= 200);
}

static void fence_blocks(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	CHECK(put(&s, 1) == CU_OK);
	CHECK(put(&s, 0) == CU_OK);
	CHECK(put(&s, 0) == CU_OK);
	/* The stores are there, the kernel does not end. */
	rig_fill(&s.g[1], s.far, 0, BYTES, POISON);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	{
		uint64_t args[4] = { s.far, 0, BYTES, DATA };

		rig_launch(&s.g[0], s.g[0].fill, args, 4);
	}
	CHECK(rig_sync(&s.g[0], 300) == CU_NOT_READY);
	CHECK(rig_bad(&s.g[1], s.far, BYTES, DATA) == 0);
}

/* Memory comes when the kernel is done. */
static void waits_behind(void *arg)
{
	struct stage s;
	struct rig_mp m = { 0 };
	uint64_t start;
	CUdeviceptr p;

	(void)arg;
	set_stage(&s);
	CU(cu.cuCtxSetCurrent(s.g[0].ctx));
	m = (struct rig_mp){ .r_src = s.near, .r_seed = 7, .rounds = 1, .words = 8, .slot = 4096, .flag = 2048,
		.max_ns = 300000000 };
	rig_mp(&s.g[0], &m);
	while (!__atomic_load_n(&s.g[0].ctl->ready[1].word, __ATOMIC_ACQUIRE))
		;
	start = now_ms();
	CU(cu.cuMemAlloc_v2(&p, BYTES));
	CHECK(now_ms() - start >= 150);
	CU(rig_sync(&s.g[0], 5000));
}

/* Two clients of MPS on exclusive GPUs, in processes of their own. What breaks one context breaks the other's too. */
static volatile int *step;

static void await_step(int n)
{
	struct timespec nap = { 0, 1000000 };
	int i;

	for (i = 0; i < 10000 && *step < n; i++)
		nanosleep(&nap, NULL);
	CHECK(*step >= n);
}

static void mps_breaker(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	*step = 1;
	await_step(2);
	CHECK(put(&s, 0) == 719);
	*step = 3;
	await_step(4);
}

static void mps_other(void *arg)
{
	struct rig_gpu g;
	CUdeviceptr p;

	(void)arg;
	await_step(1);
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&p, BYTES));
	*step = 2;
	await_step(3);
	CHECK(cu.cuMemAlloc_v2(&p, BYTES) == 719);
	*step = 4;
}

static void test_alias(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, PLAN("\"op\": [\"ce_write\", \"sm_store\"], \"effect\": \"alias\", \"bit\": 12"), aliased,
		NULL), 0);
}

static void test_when(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, PLAN("\"op\": \"ce_write\", \"effect\": \"drop\", \"after\": 1, \"every\": 3"),
		every_third, NULL), 0);
}

static void test_load(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, ", \"faults\": [{\"op\": [\"ce_write\", \"ce_read\"], \"effect\": \"drop\", "
	                            "\"min_active\": 1}]",
	                         under_load, NULL), 0);
}

static void test_speed(void **state)
{
	/* 2 MiB at 25 GB/s: 84 us. */
	float usual[2] = { 0.07f, 0.1f }, slow[2] = { 0.7f, 1.0f }, fast[2] = { 0.0f, 0.02f };

	(void)state;
	assert_int_equal(rig_run(2, "", timed, usual), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"ce_write\", \"effect\": \"slow\", \"factor\": 10"), timed, slow), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"ce_write\", \"effect\": \"fast\", \"factor\": 10"), timed, fast), 0);
}

static void test_late_and_lost(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, PLAN("\"op\": \"ce_write\", \"effect\": \"late_error\", \"error\": 719, \"calls\": 2000"), late,
	                         NULL), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"ce_write\", \"effect\": \"lost\", \"error\": 719"), lost, NULL), 0);
}

static void test_calls(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, PLAN("\"op\": \"call\", \"name\": \"cuMemAlloc_v2\", \"effect\": \"error\", \"error\": 304, "
	                                 "\"after\": 2, \"count\": 1"), call_fails, NULL), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"call\", \"name\": \"cuMemAlloc_v2\", \"effect\": \"block\", "
	                                 "\"ms\": 200, \"after\": 2"),
	                         call_is_late, NULL), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"fence\", \"effect\": \"wedge\", \"after\": 2"), fence_blocks, NULL), 0);
}

static void test_driver_manners(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, "", waits_behind, NULL), 0);
}

#define EXCLUSIVE(n, more) "{\"bdf\": \"0000:0" n ":00.0\", \"uuid\": \"GPU-0000000" n "-0000-0000-0000-000000000000\", " \
	"\"name\": \"GPU\", \"minor\": " n ", \"compute_mode\": 3" more "}"
#define HOST(more, plan) plan ", \"gpus\": [" EXCLUSIVE("1", more) ", " EXCLUSIVE("2", more) "]"

static void two(const char *host, void (*first)(void *), void (*second)(void *))
{
	int fd = rig_memory(), a, b;

	*step = 0;
	a = rig_start(0, host, fd, first, NULL);
	b = rig_start(0, host, fd, second, NULL);
	assert_int_equal(rig_wait(a), 0);
	assert_int_equal(rig_wait(b), 0);
	close(fd);
}

static void test_mps(void **state)
{
	(void)state;
	step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal((void *)step, MAP_FAILED);
	two(HOST(", \"mps\": true", PLAN("\"op\": \"sm_store\", \"effect\": \"error\", \"error\": 719")), mps_breaker, mps_other);
	munmap((void *)step, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alias),         cmocka_unit_test(test_when),  cmocka_unit_test(test_load),
		cmocka_unit_test(test_speed),         cmocka_unit_test(test_late_and_lost),
		cmocka_unit_test(test_calls),         cmocka_unit_test(test_driver_manners),
		cmocka_unit_test(test_mps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
