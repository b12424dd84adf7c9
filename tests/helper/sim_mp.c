/* Message passing, tearing and atomics on healthy links, with faults, and with twins that are wrong on purpose. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "sim_rig.h"

#define SLOT 512
#define WORDS 30
#define FLAG 448
#define ROUNDS 256

struct outcome {
	struct p2s_role_result reader;
	struct p2s_role_result writer;
};

/* GPU 0 sends to GPU 1. pull: the payload stays with the sender and the reader fetches it. */
static struct outcome send(int pull, uint64_t idiom, uint64_t max_ns)
{
	struct rig_gpu a, b;
	struct rig_mp w = { .w_seed = 77, .rounds = ROUNDS, .words = WORDS, .slot = SLOT, .flag = FLAG, .idiom = idiom, .pace = 2000,
		            .max_ns = max_ns };
	struct rig_mp r = w;
	struct p2s_role_result roles[2];
	struct outcome out;
	CUdeviceptr buf;

	rig_open(&a, 0);
	rig_open(&b, 1);
	buf = pull ? rig_peer(&b, &a, ROUNDS * SLOT) : rig_peer(&a, &b, ROUNDS * SLOT);
	rig_fill(pull ? &a : &b, buf, 0, ROUNDS * SLOT, 1);
	w.w_dst = buf;
	r.r_src = buf;
	r.r_seed = 77;
	rig_mp(&b, &r);
	rig_mp(&a, &w);
	CU(rig_sync(&a, 30000));
	CU(rig_sync(&b, 30000));
	rig_roles(&a, roles);
	out.writer = roles[0];
	CHECK(roles[1].status == P2S_ROLE_IDLE);
	rig_roles(&b, roles);
	out.reader = roles[1];
	CHECK(roles[0].status == P2S_ROLE_IDLE);
	return out;
}

struct plan {
	int pull;
	uint64_t idiom;
	uint64_t status;   /* of the reader */
	int bad;           /* 1: some payload words must be bad, 0: none */
};

static void pass_messages(void *arg)
{
	const struct plan *p = arg;
	struct outcome o = send(p->pull, p->idiom, 200000000);

	fprintf(stderr, "reader: status %d rounds %d bad %d polls %d, %.1f ms\n", (int)o.reader.status, (int)o.reader.rounds_done,
	       (int)o.reader.bad_words, (int)o.reader.polls, (double)o.reader.elapsed_ns / 1e6);
	CHECK(o.writer.status == P2S_ROLE_DONE && o.writer.rounds_done == ROUNDS);
	CHECK(o.reader.status == p->status);
	CHECK((o.reader.bad_words != 0) == p->bad);
	if (p->status == P2S_ROLE_DONE)
		CHECK(o.reader.rounds_done == ROUNDS);
	else
		CHECK(o.reader.payload_ok + o.reader.payload_bad == WORDS);
}

static int run(const char *more, int pull, uint64_t idiom, uint64_t status, int bad)
{
	struct plan p = { pull, idiom, status, bad };

	return rig_run(2, more, pass_messages, &p);
}

#define FAULT(op, effect) ", \"faults\": [{\"op\": " op ", \"effect\": \"" effect "\"}]"

static void test_clean(void **state)
{
	uint64_t idiom;

	(void)state;
	for (idiom = 0; idiom < 4; idiom++) {
		assert_int_equal(run("", 0, idiom, P2S_ROLE_DONE, 0), 0);
		assert_int_equal(run("", 1, idiom, P2S_ROLE_DONE, 0), 0);
	}
}

static void test_mutants(void **state)
{
	(void)state;
	assert_int_equal(run(", \"mutant\": \"flag_before_data\"", 0, 3, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(", \"mutant\": \"flag_before_data\"", 1, 3, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(", \"mutant\": \"no_fence\"", 0, 3, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(", \"mutant\": \"no_fence\"", 1, 3, P2S_ROLE_DONE, 1), 0);
}

static void test_faults(void **state)
{
	(void)state;
	/* The flag is lost, the payload is there or not. */
	assert_int_equal(run(FAULT("\"flag\"", "hang"), 0, 0, P2S_ROLE_TIMEOUT, 0), 0);
	assert_int_equal(run(FAULT("[\"flag\", \"sm_store\"]", "drop"), 0, 0, P2S_ROLE_TIMEOUT, 0), 0);
	assert_int_equal(run(FAULT("\"flag\"", "mirror"), 0, 1, P2S_ROLE_TIMEOUT, 0), 0);
	/* The payload is wrong behind a good flag. */
	assert_int_equal(run(FAULT("\"sm_store\"", "zeros"), 0, 0, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(FAULT("\"sm_store\"", "bit_flip"), 0, 0, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(FAULT("\"sm_load\"", "stale"), 1, 0, P2S_ROLE_DONE, 1), 0);
	assert_int_equal(run(FAULT("\"flag\"", "reorder"), 0, 0, P2S_ROLE_DONE, 1), 0);
	/* Halves of words come late, but never later than a fence. */
	assert_int_equal(run(FAULT("\"sm_store\"", "torn"), 0, 0, P2S_ROLE_DONE, 0), 0);
}

/* Payload and flag by copy engine; GPU 1 reads. */
static void copy_messages(void *arg)
{
	const int *bad = arg;
	struct rig_gpu a, b;
	struct rig_mp r = { .r_seed = 77, .rounds = 64, .words = WORDS, .slot = SLOT, .flag = FLAG, .idiom = 1, .max_ns = 200000000 };
	struct p2s_role_result roles[2];
	static uint64_t slots[64 * SLOT / 8];
	CUdeviceptr buf, source;
	uint64_t k, j;

	rig_open(&a, 0);
	rig_open(&b, 1);
	buf = rig_peer(&a, &b, sizeof(slots));
	rig_fill(&b, buf, 0, sizeof(slots), 1);
	for (k = 0; k < 64; k++)
		for (j = 0; j < SLOT / 8; j++)
			slots[k * SLOT / 8 + j] = p2s_word(p2s_seed_epoch(77, k + 1), k * SLOT / 8 + j);
	CU(cu.cuCtxSetCurrent(a.ctx));
	CU(cu.cuMemAlloc_v2(&source, sizeof(slots)));
	CU(cu.cuMemcpyHtoDAsync_v2(source, slots, sizeof(slots), a.stream));
	CU(rig_sync(&a, 5000));
	r.r_src = buf;
	rig_mp(&b, &r);
	CU(cu.cuCtxSetCurrent(a.ctx));
	for (k = 0; k < 64; k++) {
		CU(cu.cuMemcpyAsync(buf + k * SLOT, source + k * SLOT, WORDS * 8, a.stream));
		CU(cu.cuMemcpyAsync(buf + k * SLOT + FLAG, source + k * SLOT + FLAG, 8, a.stream));
	}
	CU(rig_sync(&a, 30000));
	CU(rig_sync(&b, 30000));
	rig_roles(&b, roles);
	CHECK(roles[1].status == P2S_ROLE_DONE && roles[1].rounds_done == 64);
	CHECK((roles[1].bad_words > 0) == *bad);
}

static void test_copies(void **state)
{
	int bad = 0;

	(void)state;
	assert_int_equal(rig_run(2, "", copy_messages, &bad), 0);
	/* Another mapping is meant, or a time that does not come. */
	assert_int_equal(rig_run(2, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"reorder\", \"mapping\": \"ipc\"}]",
		copy_messages, &bad), 0);
	assert_int_equal(rig_run(2, ", \"faults\": [{\"op\": \"flag\", \"effect\": \"reorder\", \"after\": 64}]", copy_messages,
		&bad), 0);
	bad = 1;
	assert_int_equal(rig_run(2, FAULT("\"flag\"", "reorder"), copy_messages, &bad), 0);
}

static void abort_it(void *arg)
{
	struct rig_gpu g;
	struct rig_mp r = { .rounds = 4, .words = 4, .slot = 128, .flag = 64, .max_ns = UINT64_C(60000000000) };
	struct p2s_role_result roles[2];

	(void)arg;
	rig_open(&g, 0);
	CU(cu.cuMemAlloc_v2(&r.r_src, 4096));
	rig_mp(&g, &r);
	CHECK(rig_sync(&g, 50) == CU_NOT_READY);
	g.ctl->abort.word = 1;
	CU(rig_sync(&g, 2000));
	rig_roles(&g, roles);
	CHECK(roles[1].status == P2S_ROLE_ABORTED && g.ctl->ready[0].word == 1 && g.ctl->ready[1].word == 1);
}

static void test_abort(void **state)
{
	(void)state;
	assert_int_equal(rig_run(1, "", abort_it, NULL), 0);
}

static void tear(void *arg)
{
	struct rig_gpu a, b;
	struct p2s_role_result zero[2] = { { 0 } }, roles[2];
	uint64_t args[10] = { 0 };
	int *torn = arg;
	CUdeviceptr buf;

	rig_open(&a, 0);
	rig_open(&b, 1);
	buf = rig_peer(&a, &b, 4096);
	rig_fill(&b, buf, 0, 4096, 5 ^ 6 ^ P2S_TEAR_POISON);
	CU(cu.cuMemcpyHtoDAsync_v2(a.res, zero, sizeof(zero), a.stream));
	CU(rig_sync(&a, 5000));
	CU(cu.cuCtxSetCurrent(b.ctx));
	CU(cu.cuMemcpyHtoDAsync_v2(b.res, zero, sizeof(zero), b.stream));
	CU(rig_sync(&b, 5000));
	args[4] = 32;
	args[5] = 5;
	args[6] = 6;
	args[7] = 500;
	args[8] = UINT64_C(20000000000); /* a busy machine may keep the writer waiting */
	args[9] = UINT64_C(1) << 40;
	a.ctl->go.word = b.ctl->go.word = 1;
	args[0] = (uint64_t)(uintptr_t)b.ctl;
	args[1] = b.res;
	args[3] = buf;
	rig_launch(&b, b.tear, args, 10);
	args[0] = (uint64_t)(uintptr_t)a.ctl;
	args[1] = a.res;
	args[2] = buf;
	args[3] = 0;
	rig_launch(&a, a.tear, args, 10);
	CU(rig_sync(&a, 30000));
	CU(rig_sync(&b, 30000));
	rig_roles(&b, roles);
	fprintf(stderr, "tear: status %d passes %d a %d b %d bad %d\n", (int)roles[1].status, (int)roles[1].rounds_done,
		(int)roles[1].seen_a,
	       (int)roles[1].seen_b, (int)roles[1].bad_words);
	CHECK(roles[1].status == P2S_ROLE_DONE);
	CHECK(roles[1].seen_a > 0 && roles[1].seen_b > 0);
	CHECK((roles[1].bad_words > 0) == *torn);
}

static void test_tear(void **state)
{
	int torn = 0;

	(void)state;
	assert_int_equal(rig_run(2, "", tear, &torn), 0);
	torn = 1;
	assert_int_equal(rig_run(2, FAULT("\"sm_store\"", "torn"), tear, &torn), 0);
}

/* Both GPUs count in memory of GPU 1. */
static void count(void *arg)
{
	struct rig_gpu g[2];
	const int *exact = arg;
	uint64_t words[2];
	CUdeviceptr buf;
	int i;

	rig_open(&g[0], 0);
	rig_open(&g[1], 1);
	buf = rig_peer(&g[0], &g[1], 4096);
	for (i = 0; i < 2; i++) {
		uint64_t args[5] = { (uint64_t)(uintptr_t)g[i].ctl, g[i].res, buf, 20000, 100000000 };

		rig_launch(&g[i], g[i].atomic, args, 5);
	}
	g[0].ctl->go.word = g[1].ctl->go.word = 1;
	CU(rig_sync(&g[0], 60000));
	CU(rig_sync(&g[1], 60000));
	CU(cu.cuMemcpyDtoHAsync_v2(words, buf, 16, g[1].stream));
	CU(rig_sync(&g[1], 5000));
	CHECK((words[0] == 2 * 32 * 20000 && words[1] == 2 * 20000) == *exact);
}

static void test_atomics(void **state)
{
	int exact = 1;

	(void)state;
	assert_int_equal(rig_run(2, ", \"links\": {\"default\": {\"kind\": \"nvlink\"}}", count, &exact), 0);
	exact = 0;
	assert_int_equal(rig_run(2, ", \"links\": {\"default\": {\"kind\": \"nvlink\"}}" FAULT("\"atomic\"", "drop"), count,
		&exact), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean), cmocka_unit_test(test_mutants), cmocka_unit_test(test_faults),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_abort), cmocka_unit_test(test_tear),    cmocka_unit_test(test_atomics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
