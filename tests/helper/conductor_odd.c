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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapping_that_one_gpu_refuses_is_whole_the_other_way),
		cmocka_unit_test(a_mapping_that_fails_is_no_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
