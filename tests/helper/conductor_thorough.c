/* The level `thorough`: every address that can be spared, everything again, and for as long as one asks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "conductor_hosts.h"

static struct play p; /* large */

#define CUMEM P2PSAFE_MAPPING_CUMEM
#define GIB (UINT64_C(1) << 30)
#define BLOCK (UINT64_C(256) << 20)

/* Two GPUs of 4 GiB, 3 of them free: a little less than 1 GiB is held. */
static void thorough_host(struct made_host *h, const char *faults, const char *more, const char *gpu)
{
	char text[4096];
	size_t at = (size_t)snprintf(text, sizeof text, "{\"driver_api\": 12080, %s \"gpus\": [", more);

	host_make(h, 2, "nvlink", "", "", "");
	for (unsigned i = 0; i < 2; i++)
		at += (size_t)snprintf(text + at, sizeof text - at,
		                       "%s{\"bdf\": \"0000:%u0:00.0\", \"uuid\": \"GPU-00000000-0000-0000-0000-%012x\", "
		                       "\"name\": \"Simulated\", \"minor\": %u, \"memory_bytes\": 4294967296, "
		                       "\"free_bytes\": 3221225472%s}",
		                       i == 0 ? "" : ", ", i + 1, i + 1, i, i == 1 ? gpu : "");
	snprintf(text + at, sizeof text - at,
	         "], \"links\": {\"default\": {\"kind\": \"nvlink\", \"nvlinks\": 4}}, \"faults\": [%s]}", faults);
	host_write(h, "cuda.json", text);
}

static void play_thorough(const char *faults, const char *more, const char *gpu, uint64_t soak_ms, uint64_t flags)
{
	struct made_host h;

	thorough_host(&h, faults, more, gpu);
	host_play(&p, &h, 2);
	p.level = P2PSAFE_LEVEL_THOROUGH;
	p.flags = flags;
	p.soak_ms = soak_ms;
	p.deadline_ms = 120000;
	assert_true(play_run(&p));
	assert_int_equal(p.dones, 1);
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	host_remove(&h);
}

static const struct p2s_lib_leg *leg_is(uint32_t a, uint32_t b, int32_t leg, int32_t mapping, int32_t verdict)
{
	const struct p2s_lib_leg *l = play_leg(&p, a, b, leg, mapping);

	if (l == NULL || l->verdict != verdict)
		play_dump(&p);
	assert_non_null(l);
	assert_int_equal(l->verdict, verdict);
	return l;
}

/* Results of one leg that were sent. */
static unsigned told(uint32_t a, uint32_t b, int32_t leg, int32_t mapping)
{
	unsigned n = 0;

	for (size_t i = 0; i < p.leg_count; i++)
		n += p.legs[i].src == a && p.legs[i].dst == b && p.legs[i].leg == leg && p.legs[i].mapping == mapping;
	return n;
}

static void all_that_can_be_spared_is_swept_and_everything_runs_twice(void **state)
{
	(void)state;
	play_thorough("", "", "", 0, 0);
	for (uint32_t a = 0; a < 2; a++) {
		const struct p2s_lib_leg *sweep = leg_is(a, 1 - a, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_OK);

		assert_int_equal(sweep->coverage_of_bytes, 4 * GIB);
		assert_int_equal(sweep->coverage_bytes % BLOCK, 0);
		assert_true(sweep->coverage_bytes >= 2 * BLOCK && sweep->coverage_bytes <= 1 * GIB);
		assert_int_equal(sweep->max_handle_bytes, BLOCK);
		/* stored, loaded, copied there and copied back; twice */
		assert_int_equal(sweep->bytes, 8 * sweep->coverage_bytes);
		assert_int_equal(told(a, 1 - a, P2PSAFE_LEG_SWEEP, CUMEM), 2);
		assert_int_equal(told(a, 1 - a, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_IPC), 2);
		assert_int_equal(told(a, 1 - a, P2PSAFE_LEG_MP_PULL, P2PSAFE_MAPPING_PEER), 2);
		assert_true(told(a, 1 - a, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER) >= 2);
		/* each time beside traffic to host memory */
		assert_string_equal(leg_is(a, 1 - a, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER, P2PSAFE_VERDICT_OK)->note, "");
		assert_int_equal(leg_is(a, 1 - a, P2PSAFE_LEG_MP_PUSH, CUMEM, P2PSAFE_VERDICT_OK)->error_bound_ppb,
		                 (UINT64_C(3000000000) + play_leg(&p, a, 1 - a, P2PSAFE_LEG_MP_PUSH, CUMEM)->rounds - 1) /
		                     play_leg(&p, a, 1 - a, P2PSAFE_LEG_MP_PUSH, CUMEM)->rounds);
	}
	play_free(&p);
}

/* Bytes of one block land in the block before: nobody sees it who has only one of them. */
static void blocks_that_are_one_place_are_seen(void **state)
{
	const struct p2s_lib_leg *l;

	(void)state;
	play_thorough("{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"misdirect\", "
	              "\"target\": \"0000:20:00.0\", \"shift\": -268435456, \"min_bytes\": 268435456}",
	              "", "", 0, P2PSAFE_FLAG_KEEP_GOING);
	l = leg_is(0, 1, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(l->damage, P2PSAFE_DAMAGE_ALIASED);
	assert_non_null(strstr(l->note, "bytes meant for block 1 of the sweep lie in block 0"));
	leg_is(1, 0, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_OK);
	leg_is(0, 1, P2PSAFE_LEG_SM_STORE, CUMEM, P2PSAFE_VERDICT_OK);
	play_free(&p);
}

/* A fault far behind everything that the other legs ever touch. */
static void a_bad_place_far_away_is_met(void **state)
{
	static const char *const ops[] = {"ce_read", "sm_store"};

	(void)state;
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		char fault[200];

		snprintf(fault, sizeof fault,
		         "{\"src\": \"0000:10:00.0\", \"op\": \"%s\", \"effect\": \"bit_flip\", \"from\": 201326592, "
		         "\"to\": 201326720}", ops[i]);
		play_thorough(fault, "", "", 0, P2PSAFE_FLAG_KEEP_GOING);
		assert_int_equal(leg_is(0, 1, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_CORRUPT)->damage, P2PSAFE_DAMAGE_BIT_ERROR);
		leg_is(1, 0, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_OK);
		play_free(&p);
	}
}

static void memory_that_others_use_is_left_to_them(void **state)
{
	(void)state;
	play_thorough("", "", ", \"processes\": [{\"pid\": 4711, \"name\": \"python3\"}]", 0, 0);
	assert_non_null(strstr(leg_is(0, 1, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_UNTESTED)->note, "another program uses"));
	leg_is(1, 0, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_UNTESTED);
	leg_is(0, 1, P2PSAFE_LEG_SIZES, CUMEM, P2PSAFE_VERDICT_OK);
	play_free(&p);
	/* Without NVML nobody knows. */
	play_thorough("", "\"nvml\": {\"available\": false},", "", 0, 0);
	assert_non_null(strstr(leg_is(0, 1, P2PSAFE_LEG_SWEEP, CUMEM, P2PSAFE_VERDICT_UNTESTED)->note, "not known whether"));
	play_free(&p);
}

static unsigned soaks;
static uint32_t soak_of;
static uint32_t soak_done;

static int watch_progress(struct play *who, uint16_t id, const union p2s_lib_any *any)
{
	(void)who;
	if (id != p2s_id_lib_progress || strcmp(any->progress.phase, "soak") != 0)
		return 1;
	soaks++;
	soak_of = any->progress.of;
	assert_true(any->progress.done >= soak_done && any->progress.done <= any->progress.of);
	soak_done = any->progress.done;
	return 1;
}

/* Something that goes wrong once, in the second pass, and never again: each pass has one copy of this size per mapping. */
static void a_soak_finds_what_is_rare_and_keeps_it(void **state)
{
	const struct p2s_lib_leg *first;
	struct made_host h;

	(void)state;
	thorough_host(&h,
	              "{\"src\": \"0000:10:00.0\", \"op\": \"ce_write\", \"mapping\": \"ipc\", \"effect\": \"zeros\", "
	              "\"min_bytes\": 65537, \"max_bytes\": 65537, \"after\": 1, \"count\": 1}",
	              "\"nvml\": {\"available\": false},", "");
	host_play(&p, &h, 2);
	p.level = P2PSAFE_LEVEL_THOROUGH;
	p.flags = P2PSAFE_FLAG_KEEP_GOING;
	p.soak_ms = 3000;
	p.deadline_ms = 120000;
	p.on_message = watch_progress;
	soaks = soak_of = soak_done = 0;
	assert_true(play_run(&p));
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	assert_true(p.seconds >= 3);
	assert_true(soaks > 3 && soak_of == 3 && soak_done >= 2);
	/* Passed once, failed once; whatever came after that was not told. */
	leg_is(0, 1, P2PSAFE_LEG_SIZES, P2PSAFE_MAPPING_IPC, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(told(0, 1, P2PSAFE_LEG_SIZES, P2PSAFE_MAPPING_IPC), 2);
	assert_true(told(1, 0, P2PSAFE_LEG_SM_LOAD, P2PSAFE_MAPPING_IPC) >= 2);
	first = NULL;
	for (size_t i = 0; i < p.leg_count && first == NULL; i++)
		if (p.legs[i].src == 1 && p.legs[i].leg == P2PSAFE_LEG_SM_LOAD && p.legs[i].mapping == P2PSAFE_MAPPING_IPC)
			first = &p.legs[i];
	assert_non_null(first);
	assert_true(leg_is(1, 0, P2PSAFE_LEG_SM_LOAD, P2PSAFE_MAPPING_IPC, P2PSAFE_VERDICT_OK)->rounds > first->rounds);
	play_free(&p);
	host_remove(&h);
}

/* Nothing can be run: nothing is repeated for an hour. */
static void a_soak_of_nothing_ends(void **state)
{
	(void)state;
	play_thorough("{\"op\": [\"ce_write\", \"ce_read\", \"sm_store\", \"sm_load\", \"flag\", \"atomic\"], "
	              "\"effect\": \"drop\"}", "", "", 3600000, 0);
	leg_is(0, 1, P2PSAFE_LEG_SM_STORE, CUMEM, P2PSAFE_VERDICT_CORRUPT);
	assert_true(p.seconds < 60);
	play_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_can_be_spared_is_swept_and_everything_runs_twice),
		cmocka_unit_test(blocks_that_are_one_place_are_seen),
		cmocka_unit_test(a_bad_place_far_away_is_met),
		cmocka_unit_test(memory_that_others_use_is_left_to_them),
		cmocka_unit_test(a_soak_finds_what_is_rare_and_keeps_it),
		cmocka_unit_test(a_soak_of_nothing_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
