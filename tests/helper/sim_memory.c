/* Fill, check, load and copy: formulas and bytes agree, and big transfers are cheap. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/word.h"
#include "sim_rig.h"

#define MIB (UINT64_C(1) << 20)

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fill_and_check(void *arg)
{
	struct rig_gpu g;
	struct p2s_check_result r;
	CUdeviceptr p;
	double start;

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&p, 256 * MIB));
	start = now_ms();
	rig_fill(&g, p, 0, 256 * MIB, 7);
	CHECK(rig_bad(&g, p, 256 * MIB, 7) == 0);
	fprintf(stderr, "256 MiB fill and check: %.1f ms\n", now_ms() - start);
	CHECK(now_ms() - start < 250); /* 20 ms on an idle machine */
	/* Another pattern, another offset: every word is wrong. */
	r = rig_check(&g, p, 256 * MIB, 0, 256 * MIB, 8, 8);
	CHECK(r.bad_words == 256 * MIB / 8 && r.first_bad == 0 && r.samples == r.bad_words);
	CHECK(r.sample[3].offset == 24 && r.sample[3].found == p2s_word(7, 3));
	r = rig_check(&g, p + 4096, MIB, 0, MIB, 7, 7);
	CHECK(r.bad_words == MIB / 8);
	/* A hole of another pattern with odd ends, checked with borders inside words. */
	rig_fill(&g, p, 100003, 300001, 9);
	CHECK(rig_check(&g, p, 256 * MIB, 100003, 300001, 9, 7).bad_words == 0);
	r = rig_check(&g, p, 256 * MIB, 100004, 300001, 9, 7);
	CHECK(r.bad_words == 1 && r.first_bad == 100000);
	r = rig_check(&g, p, 256 * MIB, 0, 0, 9, 7);
	CHECK(r.bad_words == (300001 + 7) / 8 - 100003 / 8);
}

static void formula_equals_bytes(void *arg)
{
	struct rig_gpu g;
	unsigned char *host, *want;
	CUdeviceptr p, q;
	uint64_t i, n = 5 * 65536 + 24;

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&p, MIB));
	CU(cu.cuMemAlloc_v2(&q, MIB));
	host = malloc(n);
	want = malloc(n);
	CHECK(host && want);
	rig_fill(&g, p + 8, 8, n + 8, 42);
	for (i = 0; i < n; i++)
		want[i] = p2s_word_byte(42, i + 8);
	CU(cu.cuMemcpyDtoHAsync_v2(host, p + 16, n, g.stream));
	CU(rig_sync(&g, 5000));
	CHECK(!memcmp(host, want, n));
	/* Through bytes and back: the check must not tell them apart. Then through copies at every kind of alignment. */
	CU(cu.cuMemcpyHtoDAsync_v2(q, want, n, g.stream));
	CHECK(rig_check(&g, q, n & ~UINT64_C(7), 0, 0, 0, 42).bad_words > 0);
	for (i = 0; i < 3; i++) {
		static const uint64_t shifts[3] = { 65536, 8, 3 };

		CU(cu.cuMemcpyAsync(q + shifts[i], p + 16, n, g.stream));
		CU(cu.cuMemcpyDtoHAsync_v2(host, q + shifts[i], n, g.stream));
		CU(rig_sync(&g, 5000));
		CHECK(!memcmp(host, want, n));
	}
}

static void loads(void *arg)
{
	struct rig_gpu a, b;
	CUdeviceptr far, near;
	uint64_t args[5];
	float ms;
	CUevent e1, e2;

	(void)arg;
	rig_open(&a, 0);
	rig_open(&b, 1);
	far = rig_peer(&a, &b, 64 * MIB);
	CU(cu.cuMemAlloc_v2(&near, 64 * MIB));
	rig_fill(&b, far, 0, 64 * MIB, 3);
	rig_fill(&a, near, 0, 64 * MIB, 4);
	args[0] = near;
	args[1] = far;
	args[2] = 16;
	args[3] = 32 * MIB;
	args[4] = 0;
	CU(cu.cuCtxSetCurrent(a.ctx));
	CU(cu.cuEventCreate(&e1, 0));
	CU(cu.cuEventCreate(&e2, 0));
	CU(cu.cuEventRecord(e1, a.stream));
	rig_launch(&a, a.load, args, 5);
	CU(cu.cuEventRecord(e2, a.stream));
	CU(rig_sync(&a, 5000));
	CHECK(rig_check(&a, near, 64 * MIB, 16, 32 * MIB, 3, 4).bad_words == 0);
	/* The clock is the link's: 32 MiB at 25 GB/s. */
	CU(cu.cuEventElapsedTime(&ms, e1, e2));
	CHECK(ms > 1.3f && ms < 1.4f);
	/* Stores the other way, checked by the owner. */
	rig_fill(&a, far, 4096, 8192, 5);
	CHECK(rig_check(&b, far, 64 * MIB, 4096, 8192, 5, 3).bad_words == 0);
}

static void no_access(void *arg)
{
	struct rig_gpu a, b;
	CUdeviceptr far, near;
	uint64_t args[4];

	(void)arg;
	rig_open(&b, 1);
	CU(cu.cuMemAlloc_v2(&far, MIB));
	rig_open(&a, 0);
	CU(cu.cuMemAlloc_v2(&near, MIB));
	rig_fill(&a, near, 0, MIB, 1);
	/* A copy is staged and right; a kernel fails, and so does everything after it. */
	CU(cu.cuMemcpyPeerAsync(far, b.ctx, near, a.ctx, MIB, a.stream));
	CU(rig_sync(&a, 5000));
	CHECK(rig_bad(&b, far, MIB, 1) == 0);
	args[0] = far;
	args[1] = 0;
	args[2] = 64;
	args[3] = 9;
	rig_launch(&a, a.fill, args, 4);
	CHECK(rig_sync(&a, 5000) == CU_ILLEGAL_ADDRESS);
	CHECK(cu.cuMemAlloc_v2(&near, MIB) == CU_ILLEGAL_ADDRESS);
	CHECK(rig_bad(&b, far, MIB, 1) == 0);
}

static void gives_back(void *arg)
{
	struct rig_gpu g;
	size_t before, after, total;
	CUdeviceptr p, q;

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemGetInfo_v2(&before, &total));
	CHECK(cu.cuMemAlloc_v2(&p, before + MIB) == CU_OUT_OF_MEMORY);
	CU(cu.cuMemAlloc_v2(&p, before));
	CU(cu.cuMemGetInfo_v2(&after, &total));
	CHECK(after == 0);
	CU(cu.cuMemFree_v2(p));
	CHECK(cu.cuMemFree_v2(p) == CU_INVALID_VALUE);
	CU(cu.cuMemGetInfo_v2(&after, &total));
	CHECK(after == before);
	/* New memory is clean, and an old pointer is dead. */
	CU(cu.cuMemAlloc_v2(&p, MIB));
	rig_fill(&g, p, 0, MIB, 1);
	CU(cu.cuMemFree_v2(p));
	CU(cu.cuMemAlloc_v2(&q, MIB));
	CHECK(q != p);
	CHECK(rig_bad(&g, q, MIB, 1) == MIB / 8);
	CHECK(cu.cuMemcpyAsync(q, p, 64, g.stream) == CU_INVALID_VALUE);
}

static void test_fill_and_check(void **state)
{
	(void)state;
	assert_int_equal(rig_run(1, "", fill_and_check, NULL), 0);
}

static void test_formula_equals_bytes(void **state)
{
	(void)state;
	assert_int_equal(rig_run(1, "", formula_equals_bytes, NULL), 0);
}

static void test_loads(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, "", loads, NULL), 0);
}

static void test_no_access(void **state)
{
	(void)state;
	assert_int_equal(rig_run(2, "", no_access, NULL), 0);
}

static void test_gives_back(void **state)
{
	(void)state;
	assert_int_equal(rig_run(1, "", gives_back, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill_and_check), cmocka_unit_test(test_formula_equals_bytes), cmocka_unit_test(test_loads),
		cmocka_unit_test(test_no_access),      cmocka_unit_test(test_gives_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
