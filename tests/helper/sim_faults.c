/* Every fault of bulk transfers does what docs/HOSTS.md says, and only where it says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "sim_rig.h"

#define MIB (UINT64_C(1) << 20)
#define BYTES (4 * MIB)
#define POISON 100
#define DATA 200

/* GPU 0 accesses buf of GPU 1 (and GPU 2 has one at the same place); near is GPU 0's. All poisoned. */
struct stage {
	struct rig_gpu g[3];
	CUdeviceptr buf;
	CUdeviceptr third;
	CUdeviceptr near;
	CUdeviceptr near2;
};

static void set_stage(struct stage *s)
{
	int i;

	for (i = 2; i >= 0; i--)
		rig_open(&s->g[i], i);
	s->buf = rig_peer(&s->g[0], &s->g[1], BYTES);
	s->third = rig_peer(&s->g[0], &s->g[2], BYTES);
	CU(cu.cuMemAlloc_v2(&s->near, BYTES));
	CU(cu.cuMemAlloc_v2(&s->near2, BYTES));
	rig_fill(&s->g[1], s->buf, 0, BYTES, POISON);
	rig_fill(&s->g[2], s->third, 0, BYTES, POISON);
	rig_fill(&s->g[0], s->near, 0, BYTES, DATA);
	rig_fill(&s->g[0], s->near2, 0, BYTES, POISON);
}

static void put(struct stage *s, int engine)
{
	CU(cu.cuCtxSetCurrent(s->g[0].ctx));
	if (engine)
		CU(cu.cuMemcpyAsync(s->buf, s->near, BYTES, s->g[0].stream));
	else
		rig_fill(&s->g[0], s->buf, 0, BYTES, DATA);
	CU(rig_sync(&s->g[0], 20000));
}

static void get(struct stage *s, int engine)
{
	uint64_t args[5] = { s->near2, s->buf, 0, BYTES, 0 };

	CU(cu.cuCtxSetCurrent(s->g[0].ctx));
	if (engine)
		CU(cu.cuMemcpyAsync(s->near2, s->buf, BYTES, s->g[0].stream));
	else
		rig_launch(&s->g[0], s->g[0].load, args, 5);
	CU(rig_sync(&s->g[0], 20000));
}

static uint64_t first_word(struct rig_gpu *g, CUdeviceptr p)
{
	uint64_t w;

	CU(cu.cuCtxSetCurrent(g->ctx));
	CU(cu.cuMemcpyDtoHAsync_v2(&w, p, 8, g->stream));
	CU(rig_sync(g, 5000));
	return w;
}

/* What the owner finds after a write, both by copy engine and by stores. */
struct wanted {
	uint64_t kept;  /* words that still hold the poison */
	uint64_t came;  /* words that hold the data */
	uint64_t first; /* the first word; 0 any */
};

#define WORDS (BYTES / 8)

static void writes(void *arg)
{
	const struct wanted *w = arg;
	struct stage s;
	int engine;

	set_stage(&s);
	for (engine = 0; engine < 2; engine++) {
		rig_fill(&s.g[1], s.buf, 0, BYTES, POISON);
		put(&s, engine);
		CHECK(WORDS - rig_bad(&s.g[1], s.buf, BYTES, POISON) == w->kept);
		CHECK(WORDS - rig_bad(&s.g[1], s.buf, BYTES, DATA) == w->came);
		CHECK(!w->first || first_word(&s.g[1], s.buf) == w->first);
	}
}

#define PLAN(text) ", \"faults\": [{\"src\": \"0000:01:00.0\", \"dst\": \"0000:02:00.0\", " text "}]"
#define WRITE "\"op\": [\"ce_write\", \"sm_store\"], "
#define READ "\"op\": [\"ce_read\", \"sm_load\"], "

static int write_with(const char *plan, uint64_t kept, uint64_t came, uint64_t first)
{
	struct wanted w = { kept, came, first };

	return rig_run(3, plan, writes, &w);
}

static void torn_copy(void *arg)
{
	struct stage s;
	uint64_t word = (p2s_word(DATA, 0) & UINT32_MAX) | p2s_word(POISON, 0) >> 32 << 32;

	(void)arg;
	set_stage(&s);
	put(&s, 1);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == WORDS && first_word(&s.g[1], s.buf) == word);
	/* A kernel's stores are whole when it ends. */
	put(&s, 0);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == 0);
	get(&s, 1);
	CHECK(rig_bad(&s.g[0], s.near2, BYTES, DATA) == WORDS && first_word(&s.g[0], s.near2) == word);
}

static void test_torn(void **state)
{
	(void)state;
	assert_int_equal(rig_run(3, PLAN("\"op\": [\"ce_write\", \"ce_read\", \"sm_store\"], \"effect\": \"torn\""), torn_copy,
		NULL), 0);
}

static void test_writes(void **state)
{
	(void)state;
	assert_int_equal(write_with("", 0, WORDS, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\""), WORDS, 0, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"stale\""), WORDS, 0, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"mirror\""), WORDS, 0, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"ones\""), 0, 0, ~UINT64_C(0)), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"nan\""), 0, 0, UINT64_C(0x7fc000007fc00000)), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"bit_flip\", \"bits\": \"0x8000000000000000\""), 0, WORDS * 3 / 4,
	                            p2s_word(DATA, 0) ^ UINT64_C(1) << 63), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"shift\", \"shift\": 65536"), 8192, 0, 0), 0);
	/* Conditions: a range, a size, the other direction, another mapping, the n-th time. */
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"from\": 4096, \"to\": 70000"), (70000 - 4096) / 8,
		WORDS - 8238, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"min_bytes\": 4194305"), 0, WORDS, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"max_bytes\": 4194304"), WORDS, 0, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"mapping\": \"ipc\""), 0, WORDS, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"mapping\": [\"ipc\", \"peer\"]"), WORDS, 0, 0), 0);
	assert_int_equal(write_with(PLAN(WRITE "\"effect\": \"drop\", \"after\": 2"), 0, WORDS, 0), 0);
	assert_int_equal(write_with(", \"faults\": [{\"src\": \"0000:02:00.0\", " WRITE "\"effect\": \"drop\"}]", 0, WORDS, 0), 0);
}

static void some_units(void *arg)
{
	struct stage s;
	uint64_t bad;

	(void)arg;
	set_stage(&s);
	put(&s, 1);
	/* One unit of 32 bytes in a hundred; whole units. */
	bad = rig_bad(&s.g[1], s.buf, BYTES, DATA);
	CHECK(bad > BYTES / 32 / 130 * 4 && bad < BYTES / 32 / 75 * 4);
	CHECK(bad % 4 == 0);
}

static void once(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	put(&s, 1);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == 0);
	rig_fill(&s.g[1], s.buf, 0, BYTES, POISON);
	put(&s, 1);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, POISON) == 0);
	put(&s, 1);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == 0);
}

static void test_rate_and_count(void **state)
{
	(void)state;
	assert_int_equal(rig_run(3, PLAN(WRITE "\"effect\": \"drop\", \"rate\": 10000"), some_units, NULL), 0);
	assert_int_equal(rig_run(3, PLAN(WRITE "\"effect\": \"drop\", \"after\": 1, \"count\": 1"), once, NULL), 0);
}

static void mirrored(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	put(&s, 0);
	/* The writer reads its own bytes back; the owner has none. */
	get(&s, 0);
	CHECK(rig_bad(&s.g[0], s.near2, BYTES, DATA) == 0);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, POISON) == 0);
}

static void shown_the_window(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	put(&s, 0);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == 0);
}

static void misdirected(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	put(&s, 1);
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, POISON) == 0);
	CHECK(rig_check(&s.g[2], s.third, BYTES, 4096, BYTES, 0, POISON).bad_words > 0);
	/* At the same place, 4096 bytes further. */
	CHECK(first_word(&s.g[2], s.third + 4096) == p2s_word(DATA, 0));
	CHECK(first_word(&s.g[2], s.third) == p2s_word(POISON, 0));
}

static void test_mirror_and_misdirect(void **state)
{
	(void)state;
	assert_int_equal(rig_run(3, PLAN("\"op\": \"sm_store\", \"effect\": \"mirror\""), mirrored, NULL), 0);
	assert_int_equal(rig_run(3, ", \"mutant\": \"check_through_window\"" PLAN("\"op\": \"sm_store\", \"effect\": \"mirror\""),
	                         shown_the_window, NULL), 0);
	assert_int_equal(rig_run(3, PLAN(WRITE "\"effect\": \"misdirect\", \"target\": \"0000:03:00.0\", \"shift\": 4096"),
		misdirected,
	                         NULL), 0);
}

static void reads(void *arg)
{
	const struct wanted *w = arg;
	struct stage s;
	int engine;

	set_stage(&s);
	rig_fill(&s.g[1], s.buf, 0, BYTES, DATA);
	for (engine = 0; engine < 2; engine++) {
		rig_fill(&s.g[0], s.near2, 0, BYTES, POISON + 1);
		get(&s, engine);
		CHECK(WORDS - rig_bad(&s.g[0], s.near2, BYTES, POISON + 1) == w->kept);
		CHECK(WORDS - rig_bad(&s.g[0], s.near2, BYTES, DATA) == w->came);
		CHECK(!w->first || first_word(&s.g[0], s.near2) == w->first);
		/* The owner's bytes are untouched. */
		CHECK(rig_bad(&s.g[1], s.buf, BYTES, DATA) == 0);
	}
}

static void test_reads(void **state)
{
	struct wanted clean = { 0, WORDS, 0 }, kept = { WORDS, 0, 0 }, ones = { 0, 0, ~UINT64_C(0) };
	struct wanted stale = { 0, 0, p2s_word(POISON, 0) }, flipped = { 0, WORDS * 3 / 4, p2s_word(DATA, 0) ^ 1 };

	(void)state;
	assert_int_equal(rig_run(3, "", reads, &clean), 0);
	assert_int_equal(rig_run(3, PLAN(READ "\"effect\": \"drop\""), reads, &kept), 0);
	assert_int_equal(rig_run(3, PLAN(READ "\"effect\": \"ones\""), reads, &ones), 0);
	assert_int_equal(rig_run(3, PLAN(READ "\"effect\": \"stale\""), reads, &stale), 0);
	assert_int_equal(rig_run(3, PLAN(READ "\"effect\": \"bit_flip\""), reads, &flipped), 0);
}

static void copy_error(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	CHECK(cu.cuMemcpyAsync(s.buf, s.near, BYTES, s.g[0].stream) == 719);
	/* The call failed, the context lives. */
	CU(rig_sync(&s.g[0], 5000));
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, POISON) == 0);
}

static void kernel_error(void *arg)
{
	struct stage s;
	uint64_t args[4];

	(void)arg;
	set_stage(&s);
	args[0] = s.buf;
	args[1] = 0;
	args[2] = 128;
	args[3] = DATA;
	rig_launch(&s.g[0], s.g[0].fill, args, 4);
	CHECK(rig_sync(&s.g[0], 5000) == 719);
	CHECK(cu.cuStreamQuery(s.g[0].stream) == 719);
	CU(rig_sync(&s.g[1], 5000));
}

static void wedged(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	CU(cu.cuMemcpyAsync(s.buf, s.near, BYTES, s.g[0].stream));
	CHECK(rig_sync(&s.g[0], 200) == CU_NOT_READY);
	/* Others go on, and the process can end. */
	CHECK(rig_bad(&s.g[1], s.buf, BYTES, POISON) == 0);
}

static void crashed(void *arg)
{
	struct stage s;

	(void)arg;
	set_stage(&s);
	put(&s, 1);
}

static void staged(void *arg)
{
	struct stage s;
	static unsigned char bytes[65536], back[65536];

	(void)arg;
	set_stage(&s);
	memset(bytes, 7, sizeof(bytes));
	CU(cu.cuMemcpyHtoDAsync_v2(s.near, bytes, sizeof(bytes), s.g[0].stream));
	CU(cu.cuMemcpyDtoHAsync_v2(back, s.near, sizeof(back), s.g[0].stream));
	CU(rig_sync(&s.g[0], 5000));
	CHECK(back[0] == 0 && back[65535] == 0);
	/* Peer transfers are not meant. */
	put(&s, 1);
	CHECK(rig_check(&s.g[1], s.buf, BYTES, 65536, BYTES, DATA, POISON).bad_words == 8192);
}

static void no_enable(void *arg)
{
	struct rig_gpu a, b;

	(void)arg;
	rig_open(&b, 1);
	rig_open(&a, 0);
	CHECK(cu.cuCtxEnablePeerAccess(b.ctx, 0) == 205);
	CU(cu.cuCtxSetCurrent(b.ctx));
	CU(cu.cuCtxEnablePeerAccess(a.ctx, 0));
	CHECK(cu.cuCtxEnablePeerAccess(a.ctx, 0) == CU_PEER_ALREADY);
}

static void test_stops(void **state)
{
	(void)state;
	assert_int_equal(rig_run(3, PLAN("\"op\": \"ce_write\", \"effect\": \"error\", \"error\": 719"), copy_error, NULL), 0);
	assert_int_equal(rig_run(3, PLAN("\"op\": \"sm_store\", \"effect\": \"error\", \"error\": 719"), kernel_error, NULL), 0);
	assert_int_equal(rig_run(3, PLAN("\"op\": \"ce_write\", \"effect\": \"wedge\""), wedged, NULL), 0);
	assert_int_equal(rig_run(3, PLAN("\"op\": \"ce_write\", \"effect\": \"crash\""), crashed, NULL), 1000 + SIGSEGV);
	assert_int_equal(rig_run(3, ", \"faults\": [{\"op\": \"staged\", \"effect\": \"zeros\", \"min_bytes\": 4096}]", staged,
		NULL), 0);
	assert_int_equal(rig_run(2, PLAN("\"op\": \"enable\", \"effect\": \"error\", \"error\": 205"), no_enable, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes), cmocka_unit_test(test_torn), cmocka_unit_test(test_rate_and_count),
			cmocka_unit_test(test_mirror_and_misdirect),
		cmocka_unit_test(test_reads),  cmocka_unit_test(test_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
