/* Machines that are not all of one kind: what one GPU cannot do is no fault of the others, and nothing is taken for proven that
 * was not looked at. */
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

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CUMEM P2PSAFE_MAPPING_CUMEM
#define IPC P2PSAFE_MAPPING_IPC
#define PEER P2PSAFE_MAPPING_PEER
#define NVLINK "{\"default\": {\"kind\": \"nvlink\", \"nvlinks\": 4}}"

/* One string per GPU: its further members in cuda.json, each after a comma. */
static void odd_host(struct made_host *h, uint32_t n, const char *const *more, const char *faults)
{
	char text[8192];
	size_t at;

	host_make(h, n, "nvlink", "", "", "");
	at = (size_t)snprintf(text, sizeof text, "{\"driver_api\": 12080, \"gpus\": [");
	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof text - at,
		                       "%s{\"bdf\": \"0000:%02x:00.0\", \"uuid\": \"GPU-00000000-0000-0000-0000-%012x\", "
		                       "\"name\": \"Simulated\", \"minor\": %u%s}",
		                       i == 0 ? "" : ", ", 16 * (i + 1), i + 1, i, more[i]);
	snprintf(text + at, sizeof text - at, "], \"links\": " NVLINK ", \"faults\": [%s]}", faults);
	host_write(h, "cuda.json", text);
}

static void play_odd(uint32_t n, const char *const *more, const char *faults, int32_t level, uint64_t flags)
{
	struct made_host h;

	odd_host(&h, n, more, faults);
	host_play(&p, &h, n);
	p.level = level;
	p.flags = flags;
	assert_true(play_run(&p));
	assert_int_equal(p.dones, 1);
	host_remove(&h);
}

static void verdict_is(uint32_t a, uint32_t b, int32_t leg, int32_t mapping, int32_t verdict)
{
	if (play_verdict(&p, a, b, leg, mapping) != verdict)
		play_dump(&p);
	assert_int_equal(play_verdict(&p, a, b, leg, mapping), verdict);
}

static const int32_t most_legs[] = {P2PSAFE_LEG_SM_STORE, P2PSAFE_LEG_SM_LOAD, P2PSAFE_LEG_CE_WRITE, P2PSAFE_LEG_CE_READ,
                                    P2PSAFE_LEG_SIZES,    P2PSAFE_LEG_STALE,   P2PSAFE_LEG_MP_PUSH,  P2PSAFE_LEG_MP_PULL,
                                    P2PSAFE_LEG_TEARING_8, P2PSAFE_LEG_CE_FLAG, P2PSAFE_LEG_ATOMICS};

static void all_legs_are(uint32_t a, uint32_t b, int32_t mapping, int32_t verdict)
{
	for (size_t i = 0; i < COUNT(most_legs); i++)
		verdict_is(a, b, most_legs[i], mapping, verdict);
}

/* Its memory cannot be handed out as IPC; it can still take in that of the others. */
static void a_mapping_that_one_gpu_refuses_is_whole_the_other_way(void **state)
{
	static const char *const gpus[] = {"", ", \"ipc\": false", ""};
	static const char *const handles[] = {"", ", \"cumem_fd\": false", ""};

	(void)state;
	play_odd(3, gpus, "", P2PSAFE_LEVEL_QUICK, 0);
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	all_legs_are(0, 1, IPC, P2PSAFE_VERDICT_UNSUPPORTED);
	all_legs_are(2, 1, IPC, P2PSAFE_VERDICT_UNSUPPORTED);
	all_legs_are(1, 0, IPC, P2PSAFE_VERDICT_OK);
	all_legs_are(1, 2, IPC, P2PSAFE_VERDICT_OK);
	all_legs_are(0, 2, IPC, P2PSAFE_VERDICT_OK);
	all_legs_are(0, 1, CUMEM, P2PSAFE_VERDICT_OK);
	all_legs_are(1, 0, PEER, P2PSAFE_VERDICT_OK);
	play_free(&p);
	play_odd(3, handles, "", P2PSAFE_LEVEL_QUICK, 0);
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	all_legs_are(0, 1, CUMEM, P2PSAFE_VERDICT_UNSUPPORTED);
	all_legs_are(0, 2, CUMEM, P2PSAFE_VERDICT_OK);
	all_legs_are(1, 0, IPC, P2PSAFE_VERDICT_OK);
	play_free(&p);
}

/* An error that may be gone when a framework asks is no refusal: over that mapping nothing is known. */
static void a_mapping_that_fails_is_no_refusal(void **state)
{
	static const char *const gpus[] = {"", ""};
	static const struct {
		const char *fault;
		int32_t mapping;
		int32_t verdict;
	} list[] = {
		{"{\"op\": \"call\", \"name\": \"cuIpcOpenMemHandle_v2\", \"effect\": \"error\", \"error\": 2}", IPC,
	     P2PSAFE_VERDICT_UNTESTED},
		{"{\"op\": \"call\", \"name\": \"cuIpcOpenMemHandle_v2\", \"effect\": \"error\", \"error\": 999}", IPC,
	     P2PSAFE_VERDICT_UNTESTED},
		{"{\"op\": \"call\", \"name\": \"cuIpcOpenMemHandle_v2\", \"effect\": \"error\", \"error\": 801}", IPC,
	     P2PSAFE_VERDICT_UNSUPPORTED},
		{"{\"op\": \"call\", \"name\": \"cuIpcGetMemHandle\", \"effect\": \"error\", \"error\": 999}", IPC,
	     P2PSAFE_VERDICT_UNTESTED},
		{"{\"op\": \"call\", \"name\": \"cuMemCreate\", \"effect\": \"error\", \"error\": 2}", CUMEM,
	     P2PSAFE_VERDICT_UNTESTED},
		{"{\"op\": \"call\", \"name\": \"cuMemSetAccess\", \"effect\": \"error\", \"error\": 101}", CUMEM,
	     P2PSAFE_VERDICT_UNSUPPORTED},
		{"{\"op\": \"call\", \"name\": \"cuCtxEnablePeerAccess\", \"effect\": \"error\", \"error\": 999}", PEER,
	     P2PSAFE_VERDICT_UNTESTED},
		{"{\"op\": \"call\", \"name\": \"cuCtxEnablePeerAccess\", \"effect\": \"error\", \"error\": 711}", PEER,
	     P2PSAFE_VERDICT_UNSUPPORTED},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		int32_t other = list[i].mapping == PEER ? IPC : PEER;

		play_odd(2, gpus, list[i].fault, P2PSAFE_LEVEL_QUICK, 0);
		verdict_is(0, 1, P2PSAFE_LEG_SM_STORE, list[i].mapping, list[i].verdict);
		assert_int_not_equal(play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, list[i].mapping)->cuda_error, 0);
		all_legs_are(0, 1, other, P2PSAFE_VERDICT_OK);
		all_legs_are(1, 0, other, P2PSAFE_VERDICT_OK);
		play_free(&p);
	}
}

/* Memory or an aperture that others have used up since is no fault of the pair: mapped again, or with memory of its own. */
static void a_handle_that_finds_no_room_any_more_is_no_error(void **state)
{
	static const char *const gpus[] = {"", ""};
	static const int32_t mapping[] = {CUMEM, IPC};
	static const int errors[] = {2, 205};
	static const unsigned after[] = {1, 2, 3, 4}; /* imports that went well: 3 before memory of its own */

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		const int32_t m = mapping[i % 2];
		const unsigned n = after[i / 2];
		char fault[160];

		snprintf(fault, sizeof fault,
		         "{\"op\": \"open\", \"mapping\": \"%s\", \"src\": \"0000:10:00.0\", \"effect\": \"error\", \"error\": %d, \"after\": %u}",
		         m == CUMEM ? "cumem" : "ipc", errors[(i + i / 2) % 2], n);
		play_odd(2, gpus, fault, P2PSAFE_LEVEL_QUICK, 0);
		verdict_is(0, 1, P2PSAFE_LEG_STALE, m, P2PSAFE_VERDICT_UNTESTED);
		verdict_is(0, 1, P2PSAFE_LEG_SIZES, m, P2PSAFE_VERDICT_OK);
		verdict_is(1, 0, P2PSAFE_LEG_STALE, m, P2PSAFE_VERDICT_OK);
		verdict_is(1, 0, P2PSAFE_LEG_MP_PUSH, m, P2PSAFE_VERDICT_OK);
		if (n >= 3)
			verdict_is(0, 1, P2PSAFE_LEG_MP_PULL, m, P2PSAFE_VERDICT_OK);
		all_legs_are(0, 1, PEER, P2PSAFE_VERDICT_OK);
		play_free(&p);
	}
}

/* A path may have atomics or not; where the driver does not tell, losing increments is no damage. */
static void unknown_atomics_are_not_tried(void **state)
{
	static const char *const gpus[] = {"", ""};
	static const char *const names[] = {"cuDeviceCanAccessPeer", "cuDeviceGetP2PAttribute"};

	(void)state;
	for (size_t i = 0; i < COUNT(names); i++) {
		char fault[160];

		snprintf(fault, sizeof fault, "{\"op\": \"call\", \"name\": \"%s\", \"effect\": \"error\"}", names[i]);
		play_odd(2, gpus, fault, P2PSAFE_LEVEL_QUICK, 0);
		verdict_is(0, 1, P2PSAFE_LEG_ATOMICS, CUMEM, P2PSAFE_VERDICT_UNTESTED);
		verdict_is(1, 0, P2PSAFE_LEG_ATOMICS, PEER, P2PSAFE_VERDICT_UNTESTED);
		verdict_is(0, 1, P2PSAFE_LEG_MP_PULL, CUMEM, P2PSAFE_VERDICT_OK);
		verdict_is(0, 1, P2PSAFE_LEG_SIZES, PEER, P2PSAFE_VERDICT_OK);
		play_free(&p);
	}
}

static const int32_t copy_legs[] = {P2PSAFE_LEG_CE_WRITE, P2PSAFE_LEG_CE_READ, P2PSAFE_LEG_SIZES, P2PSAFE_LEG_STALE};

/* No compiler in the container: what copy engines do is tested all the same, and nothing else is claimed. */
static void without_kernels_copies_are_proven_and_nothing_else(void **state)
{
	static const char *const none[] = {", \"jit\": false", ", \"jit\": false"};
	static const char *const one[] = {"", ", \"jit\": false", ""};

	(void)state;
	for (int32_t level = P2PSAFE_LEVEL_QUICK; level <= P2PSAFE_LEVEL_THOROUGH; level++) {
		play_odd(2, none, "", level, 0);
		assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
		assert_true(play_has_fact(&p, "KERNELS_NOT_LOADED"));
		assert_false(play_has_fact(&p, "GPU_INIT_FAILED"));
		assert_int_equal(p.staged[0].verdict, P2PSAFE_VERDICT_OK);
		for (uint32_t a = 0; a < 2; a++) {
			for (size_t i = 0; i < COUNT(copy_legs); i++)
				verdict_is(a, 1 - a, copy_legs[i], PEER, P2PSAFE_VERDICT_OK);
			verdict_is(a, 1 - a, P2PSAFE_LEG_SM_STORE, PEER, P2PSAFE_VERDICT_UNTESTED);
			for (size_t k = 0; k < p.leg_count; k++)
				if (p.legs[k].leg != P2PSAFE_LEG_LOAD && p.legs[k].verdict == P2PSAFE_VERDICT_OK)
					assert_true(p.legs[k].leg == copy_legs[0] || p.legs[k].leg == copy_legs[1] || p.legs[k].leg == copy_legs[2] ||
					            p.legs[k].leg == copy_legs[3]);
			assert_non_null(strstr(play_leg(&p, a, 1 - a, P2PSAFE_LEG_SIZES, PEER)->note, "by copies only"));
		}
		assert_true(play_leg(&p, 0, 1, P2PSAFE_LEG_CE_WRITE, PEER)->bytes >= UINT64_C(1) << 20);
		play_free(&p);
	}
	play_odd(3, one, "", P2PSAFE_LEVEL_QUICK, 0);
	all_legs_are(0, 2, CUMEM, P2PSAFE_VERDICT_OK);
	for (size_t i = 0; i < COUNT(copy_legs); i++) {
		verdict_is(0, 1, copy_legs[i], PEER, P2PSAFE_VERDICT_OK);
		verdict_is(1, 2, copy_legs[i], PEER, P2PSAFE_VERDICT_OK);
	}
	verdict_is(0, 1, P2PSAFE_LEG_SM_STORE, PEER, P2PSAFE_VERDICT_UNTESTED);
	verdict_is(1, 0, P2PSAFE_LEG_MP_PUSH, PEER, 0);
	play_free(&p);
}

/* Whatever a copy does wrong is seen and named as well as with kernels. */
static void without_kernels_every_damage_is_named(void **state)
{
	static const char *const gpus[] = {", \"jit\": false", ", \"jit\": false", ", \"jit\": false"};
	static const struct {
		const char *effect;
		int32_t damage;
	} list[] = {{"\"drop\"", P2PSAFE_DAMAGE_DROPPED},
	            {"\"zeros\"", P2PSAFE_DAMAGE_ZEROS},
	            {"\"ones\"", P2PSAFE_DAMAGE_ONES},
	            {"\"nan\"", P2PSAFE_DAMAGE_NAN},
	            {"\"mirror\"", P2PSAFE_DAMAGE_DROPPED},
	            {"\"shift\", \"shift\": 3072", P2PSAFE_DAMAGE_SHIFTED},
	            {"\"bit_flip\", \"bits\": \"0x0000002000000000\"", P2PSAFE_DAMAGE_BIT_ERROR},
	            {"\"torn\"", P2PSAFE_DAMAGE_TORN},
	            {"\"misdirect\", \"target\": \"0000:30:00.0\"", P2PSAFE_DAMAGE_MISDIRECTED}};
	static const char *const ops[] = {"ce_write", "ce_read"};

	(void)state;
	for (size_t k = 0; k < COUNT(ops); k++) {
		for (size_t i = 0; i < COUNT(list); i++) {
			int32_t leg = k == 0 ? P2PSAFE_LEG_CE_WRITE : P2PSAFE_LEG_CE_READ;
			char fault[300];

			if (k == 1 && (strstr(list[i].effect, "mirror") != NULL || strstr(list[i].effect, "misdirect") != NULL))
				continue; /* of stores only */
			snprintf(fault, sizeof fault,
			         "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"%s\", \"mapping\": \"peer\", "
			         "\"effect\": %s}", ops[k], list[i].effect);
			play_odd(3, gpus, fault, P2PSAFE_LEVEL_QUICK, P2PSAFE_FLAG_KEEP_GOING);
			verdict_is(0, 1, leg, PEER, P2PSAFE_VERDICT_CORRUPT);
			if (play_leg(&p, 0, 1, leg, PEER)->damage != list[i].damage)
				play_dump(&p);
			assert_int_equal(play_leg(&p, 0, 1, leg, PEER)->damage, list[i].damage);
			verdict_is(1, 0, leg, PEER, P2PSAFE_VERDICT_OK);
			play_free(&p);
		}
	}
}

#define TEST_C "0000:30:00.0"
/* Launches of a GPU before the first contact, and until that of the first pair is over; a few less and more. */
#define LAUNCHES_BEFORE 24
#define LAUNCHES_AFTER 42

/* GPU c: after so many launches the next `count` fail. */
static void play_blind(uint32_t gpus, uint32_t before, uint32_t count, int duplicate, int error)
{
	static const char *const more[] = {"", "", "", ""};
	char faults[500];

	snprintf(faults, sizeof faults,
	         "%s{\"src\": \"" TEST_C "\", \"op\": \"launch\", \"effect\": \"error\", \"error\": %d, \"after\": %u, "
	         "\"count\": %u}",
	         duplicate ? "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": "
	                     "\"duplicate\", \"target\": \"" TEST_C "\", \"max_bytes\": 128, \"count\": 1}, "
	                   : "",
	         error, before, count);
	play_odd(gpus, more, faults, P2PSAFE_LEVEL_QUICK, 0);
}

/* Bytes of a>b that landed in memory of c, too, are found, whichever call of c fails once. */
static void a_look_that_fails_once_is_done_again(void **state)
{
	uint32_t looked = 0;

	(void)state;
	for (uint32_t k = LAUNCHES_BEFORE; k < LAUNCHES_AFTER; k += 3) {
		play_blind(3, k, 1, 1, 999);
		if (p.gpus[2].state == P2PSAFE_GPU_STATE_READY) {
			verdict_is(0, 1, P2PSAFE_LEG_SM_STORE, CUMEM, P2PSAFE_VERDICT_CORRUPT);
			looked++;
		}
		play_free(&p);
	}
	assert_true(looked >= 3);
}

static int facts_about(const char *code, int32_t gpu)
{
	int n = 0;

	for (size_t i = 0; i < p.fact_count; i++)
		n += strcmp(p.facts[i].code, code) == 0 && p.facts[i].src == gpu && p.facts[i].severity == P2PSAFE_SEVERITY_DANGER;
	return n;
}

/* A device that was lost once is not asked again, and is told once. */
static void a_lost_gpu_is_out_at_once(void **state)
{
	(void)state;
	play_blind(3, LAUNCHES_AFTER - 7, 1, 0, 214 /* ECC_UNCORRECTABLE */);
	assert_int_equal(p.gpus[2].state, P2PSAFE_GPU_STATE_FAILED);
	assert_non_null(strstr(p.gpus[2].error, "device lost, error 214"));
	assert_int_equal(facts_about("GPU_LOST", 2), 1);
	assert_int_equal(facts_about("GPU_LOST", 0) + facts_about("GPU_LOST", 1), 0);
	assert_false(play_has_fact(&p, "GPU_INIT_FAILED"));
	assert_int_not_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, CUMEM), P2PSAFE_VERDICT_OK);
	play_free(&p);
}

static uint32_t pairs_not_ok_without(uint32_t c)
{
	uint32_t count = 0;

	for (uint32_t a = 0; a < p.n; a++)
		for (uint32_t b = a + 1; b < p.n; b++)
			count += a != c && b != c && (play_verdict(&p, a, b, P2PSAFE_LEG_SM_STORE, CUMEM) != P2PSAFE_VERDICT_OK ||
			                              play_verdict(&p, b, a, P2PSAFE_LEG_SM_STORE, CUMEM) != P2PSAFE_VERDICT_OK);
	return count;
}

/* Where c's bytes cannot be looked at any more, the contact at work proves nothing; later ones are not spoiled by it. */
static void a_gpu_that_cannot_look_spoils_one_contact(void **state)
{
	uint32_t spoiled = 0;

	(void)state;
	for (uint32_t k = LAUNCHES_BEFORE; k < LAUNCHES_AFTER && spoiled < 2; k += 2) {
		const struct p2s_lib_leg *leg;

		play_blind(4, k, 1000000, 0, 999);
		leg = play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, CUMEM);
		assert_non_null(leg);
		assert_int_not_equal(play_verdict(&p, 0, 2, P2PSAFE_LEG_SM_STORE, CUMEM), P2PSAFE_VERDICT_OK);
		assert_int_not_equal(play_verdict(&p, 2, 3, P2PSAFE_LEG_SM_STORE, CUMEM), P2PSAFE_VERDICT_OK);
		if (leg->verdict == P2PSAFE_VERDICT_OK) {
			assert_int_equal(pairs_not_ok_without(2), 0);
		} else {
			assert_int_equal(leg->verdict, P2PSAFE_VERDICT_UNTESTED);
			assert_non_null(strstr(leg->note, "memory of " TEST_C " could not be looked at: cuLaunchKernel"));
			assert_int_equal(leg->cuda_error, 999);
			assert_int_equal(pairs_not_ok_without(2), 1);
			leg = play_leg(&p, 1, 0, P2PSAFE_LEG_SM_STORE, CUMEM);
			assert_non_null(leg);
			assert_non_null(strstr(leg->note, "other direction"));
			spoiled++;
		}
		play_free(&p);
	}
	assert_int_equal(spoiled, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_that_one_gpu_refuses_is_whole_the_other_way),
		cmocka_unit_test(a_mapping_that_fails_is_no_refusal),
		cmocka_unit_test(a_handle_that_finds_no_room_any_more_is_no_error),
		cmocka_unit_test(unknown_atomics_are_not_tried),
		cmocka_unit_test(without_kernels_copies_are_proven_and_nothing_else),
		cmocka_unit_test(without_kernels_every_damage_is_named),
		cmocka_unit_test(a_look_that_fails_once_is_done_again),
		cmocka_unit_test(a_lost_gpu_is_out_at_once),
		cmocka_unit_test(a_gpu_that_cannot_look_spoils_one_contact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
