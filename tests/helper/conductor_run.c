/* Whole runs of the conductor with real worker processes against simulated hosts. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conductor_hosts.h"

static struct play p; /* large */

static const int32_t mappings[] = {P2PSAFE_MAPPING_CUMEM, P2PSAFE_MAPPING_IPC, P2PSAFE_MAPPING_PEER};
static const int32_t legs[] = {P2PSAFE_LEG_SM_STORE,  P2PSAFE_LEG_SM_LOAD, P2PSAFE_LEG_CE_WRITE, P2PSAFE_LEG_CE_READ,
                               P2PSAFE_LEG_SIZES,     P2PSAFE_LEG_STALE,   P2PSAFE_LEG_MP_PUSH,  P2PSAFE_LEG_MP_PULL,
                               P2PSAFE_LEG_TEARING_8, P2PSAFE_LEG_CE_FLAG, P2PSAFE_LEG_ATOMICS};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Every leg of the direction over every mapping has this verdict; atomics may have another. */
static void assert_all(uint32_t src, uint32_t dst, int32_t verdict, int32_t atomics)
{
	for (size_t m = 0; m < COUNT(mappings); m++) {
		for (size_t i = 0; i < COUNT(legs); i++) {
			int32_t want = legs[i] == P2PSAFE_LEG_ATOMICS ? atomics : verdict;

			if (play_verdict(&p, src, dst, legs[i], mappings[m]) != want)
				play_dump(&p);
			assert_int_equal(play_verdict(&p, src, dst, legs[i], mappings[m]), want);
		}
	}
}

/* What must hold after every run, whatever was wrong with the host. */
static void assert_orderly(int32_t done)
{
	if (p.dones != 1 || p.done.status != done)
		play_dump(&p);
	assert_true(p.hello);
	assert_int_equal(p.dones, 1);
	assert_int_equal(p.done.status, done);
	assert_int_equal(p.after_done, 0);
	assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 0);
	for (size_t i = 0; i < p.worker_count; i++)
		assert_int_equal(p.workers[i].gone, 1);
	assert_true(p.seconds < (double)p.deadline_ms / 1000 + 1);
}

static void pause_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&ts, NULL);
}

static void assert_nobody_left(int within_ms)
{
	for (int i = 0; i < within_ms / 20 && play_left(&p) > 0; i++)
		pause_ms(20);
	assert_int_equal(play_left(&p), 0);
}

static void healthy_nvlink_pair_passes_everything(void **state)
{
	const struct p2s_lib_leg *push;
	struct made_host h;

	(void)state;
	host_make(&h, 2, "nvlink", "", "", "");
	host_play(&p, &h, 2);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_all(0, 1, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_OK);
	assert_all(1, 0, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_OK);
	assert_int_equal(p.staged_count, 1);
	assert_int_equal(p.staged[0].verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(p.risks, 2);
	assert_int_equal(p.fact_count, 0);
	assert_int_equal(p.gpus[1].ordinal, 1);
	assert_int_equal(p.gpus[1].driver_order, 1);
	assert_int_equal(p.gpus[1].state, P2PSAFE_GPU_STATE_READY);
	assert_int_equal(p.driver.cuda_version, 12080);
	push = play_leg(&p, 0, 1, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_IPC);
	assert_true(push->rounds >= 256);
	assert_int_equal(push->error_bound_ppb, (UINT64_C(3000000000) + push->rounds - 1) / push->rounds);
	assert_nobody_left(0);
	play_free(&p);
	host_remove(&h);
}

static void pcie_has_no_atomics_and_standard_moves_more(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 3, "pcie", "", "", "");
	host_play(&p, &h, 3);
	p.level = P2PSAFE_LEVEL_STANDARD;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	for (uint32_t a = 0; a < 3; a++)
		for (uint32_t b = 0; b < 3; b++)
			if (a != b)
				assert_all(a, b, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_int_equal(p.staged_count, 3);
	assert_true(play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->bytes > 1 << 20);
	assert_nobody_left(0);
	play_free(&p);
	host_remove(&h);
}

static void a_host_that_drops_everything_shows_every_direction(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 4, "pcie",
	          "{\"op\": [\"ce_write\", \"ce_read\", \"sm_store\", \"sm_load\", \"flag\", \"atomic\"], \"effect\": \"drop\"}",
	          "", "");
	host_play(&p, &h, 4);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	for (uint32_t a = 0; a < 4; a++) {
		for (uint32_t b = 0; b < 4; b++) {
			const struct p2s_lib_leg *leg = play_leg(&p, a, b, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM);

			if (a == b)
				continue;
			assert_int_equal(leg->verdict, P2PSAFE_VERDICT_CORRUPT);
			assert_int_equal(leg->damage, P2PSAFE_DAMAGE_DROPPED);
			assert_int_equal(leg->has_detail, 1);
			assert_true(leg->expected != leg->found);
		}
	}
	/* One message named the damage of the first pair; the others got the first store and no more. */
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(play_verdict(&p, 2, 3, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_CUMEM), 0);
	assert_int_equal(p.staged_count, 6);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(p.staged[i].verdict, P2PSAFE_VERDICT_OK);
	play_free(&p);
	host_remove(&h);
}

static void first_store_tells_the_damages_apart(void **state)
{
	static const struct {
		const char *fault;
		int32_t damage;
	} list[] = {
		{"{\"op\": [\"sm_store\", \"ce_write\", \"flag\"], \"effect\": \"mirror\"}", P2PSAFE_DAMAGE_MIRROR},
		{"{\"op\": \"sm_store\", \"effect\": \"drop\"}", P2PSAFE_DAMAGE_DROPPED},
		{"{\"op\": \"sm_store\", \"effect\": \"zeros\"}", P2PSAFE_DAMAGE_ZEROS},
		{"{\"op\": \"sm_store\", \"effect\": \"ones\"}", P2PSAFE_DAMAGE_ONES},
		{"{\"op\": \"sm_store\", \"effect\": \"nan\"}", P2PSAFE_DAMAGE_NAN},
		{"{\"op\": \"sm_store\", \"effect\": \"shift\", \"shift\": 4096}", P2PSAFE_DAMAGE_SHIFTED},
		{"{\"op\": \"sm_store\", \"effect\": \"bit_flip\", \"bits\": \"0x10\"}", P2PSAFE_DAMAGE_BIT_ERROR},
		{"{\"op\": \"sm_store\", \"effect\": \"misdirect\", \"target\": \"0000:30:00.0\"}", P2PSAFE_DAMAGE_MISDIRECTED},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		const struct p2s_lib_leg *leg;
		struct made_host h;

		host_make(&h, 3, "pcie", list[i].fault, "", "");
		host_play(&p, &h, 3);
		assert_true(play_run(&p));
		assert_orderly(P2S_DONE_COMPLETE);
		leg = play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM);
		assert_int_equal(leg->verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(leg->damage, list[i].damage);
		play_free(&p);
		host_remove(&h);
	}
}

/* A fault of one engine is found in the leg of that engine, first contact or not. */
static void each_engine_has_its_leg(void **state)
{
	static const struct {
		const char *fault;
		int32_t leg;
		int32_t damage;
	} list[] = {
		{"{\"op\": \"ce_write\", \"effect\": \"drop\", \"min_bytes\": 65536}", P2PSAFE_LEG_CE_WRITE, P2PSAFE_DAMAGE_DROPPED},
		{"{\"op\": \"ce_read\", \"effect\": \"zeros\", \"min_bytes\": 65536}", P2PSAFE_LEG_CE_READ, P2PSAFE_DAMAGE_ZEROS},
		{"{\"op\": \"sm_load\", \"effect\": \"stale\"}", P2PSAFE_LEG_SM_LOAD, P2PSAFE_DAMAGE_STALE},
		{"{\"op\": \"sm_load\", \"effect\": \"bit_flip\", \"min_bytes\": 65536}", P2PSAFE_LEG_SM_LOAD,
	     P2PSAFE_DAMAGE_BIT_ERROR},
		{"{\"op\": \"flag\", \"effect\": \"drop\"}", P2PSAFE_LEG_MP_PUSH, P2PSAFE_DAMAGE_DROPPED},
		{"{\"op\": \"flag\", \"effect\": \"reorder\"}", P2PSAFE_LEG_MP_PUSH, P2PSAFE_DAMAGE_REORDERED},
		{"{\"op\": \"sm_store\", \"effect\": \"torn\"}", P2PSAFE_LEG_TEARING_8, P2PSAFE_DAMAGE_TORN},
		{"{\"op\": \"atomic\", \"effect\": \"drop\"}", P2PSAFE_LEG_ATOMICS, P2PSAFE_DAMAGE_DROPPED},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		const struct p2s_lib_leg *leg;
		struct made_host h;

		host_make(&h, 2, "nvlink", list[i].fault, "", "");
		host_play(&p, &h, 2);
		assert_true(play_run(&p));
		assert_orderly(P2S_DONE_COMPLETE);
		leg = play_leg(&p, 0, 1, list[i].leg, P2PSAFE_MAPPING_CUMEM);
		if (leg == NULL || leg->verdict != P2PSAFE_VERDICT_CORRUPT || leg->damage != list[i].damage)
			play_dump(&p);
		assert_non_null(leg);
		assert_int_equal(leg->verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(leg->damage, list[i].damage);
		play_free(&p);
		host_remove(&h);
	}
}

static const char one_way[] = "{\"src\": \"0000:20:00.0\", \"dst\": \"0000:10:00.0\", "
							  "\"op\": [\"ce_write\", \"ce_read\", \"sm_store\", \"sm_load\"], \"effect\": \"drop\"}";

static void keep_going_proves_the_good_direction(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", one_way, "", "");
	host_play(&p, &h, 2);
	p.flags = P2PSAFE_FLAG_KEEP_GOING;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_all(0, 1, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_int_equal(play_verdict(&p, 1, 0, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_CORRUPT);
	play_free(&p);
	host_play(&p, &h, 2); /* and without: first contact, nothing more, and nothing is called OK */
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	for (size_t i = 0; i < p.leg_count; i++)
		assert_int_not_equal(p.legs[i].verdict, P2PSAFE_VERDICT_OK);
	play_free(&p);
	host_remove(&h);
}

static const char wedge[] = "{\"op\": \"sm_store\", \"effect\": \"zeros\"}, {\"op\": \"flag\", \"effect\": \"wedge\"}";

static void a_hang_stops_everything(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 4, "pcie", wedge, "", "");
	host_play(&p, &h, 4);
	p.deadline_ms = 15000;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_STOPPED);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_MP_PUSH, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_HANG);
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_WEDGED);
	assert_true(play_has_fact(&p, "GPU_WEDGED"));
	assert_int_equal(p.risks, 1);
	for (size_t i = 0; i < p.leg_count; i++)
		if (p.legs[i].src != 0 || p.legs[i].dst != 1)
			assert_int_equal(p.legs[i].verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_nobody_left(2000);
	play_free(&p);
	host_remove(&h);
}

static void a_child_that_cannot_be_killed_is_left_behind_in_time(void **state)
{
	unsigned left = 0;
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", wedge, "", ", \"ignore_sigkill_ms\": 20000");
	host_play(&p, &h, 2);
	p.deadline_ms = 10000;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_STOPPED);
	for (size_t i = 0; i < p.worker_count; i++)
		left += p.workers[i].left == 1;
	assert_int_equal(left, 1);
	assert_nobody_left(5000);
	play_free(&p);
	host_remove(&h);
}

static void a_deadline_ends_a_run_between_legs(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 8, "pcie", "", "", "");
	host_play(&p, &h, 8);
	p.level = P2PSAFE_LEVEL_STANDARD;
	p.deadline_ms = 2200;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_DEADLINE);
	for (size_t i = 0; i < p.leg_count; i++)
		assert_true(p.legs[i].verdict == P2PSAFE_VERDICT_OK || p.legs[i].verdict == P2PSAFE_VERDICT_UNTESTED ||
		            p.legs[i].verdict == P2PSAFE_VERDICT_UNSUPPORTED);
	assert_nobody_left(1000);
	play_free(&p);
	host_remove(&h);
}

static void no_risk_without_leave(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", "", "", "");
	host_play(&p, &h, 2);
	p.risk_go = 0;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_STOPPED);
	assert_int_equal(p.risks, 1);
	for (size_t i = 0; i < p.leg_count; i++)
		assert_true(p.legs[i].verdict == P2PSAFE_VERDICT_UNTESTED || p.legs[i].verdict == P2PSAFE_VERDICT_UNSUPPORTED);
	play_free(&p);
	host_remove(&h);
}

static void a_crash_is_an_error_and_the_rest_is_known(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 3, "pcie",
	          "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"ce_write\", \"mapping\": \"cumem\", "
	          "\"effect\": \"crash\"}",
	          "", "");
	host_play(&p, &h, 3);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_CE_WRITE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_ERROR);
	assert_non_null(strstr(play_leg(&p, 0, 1, P2PSAFE_LEG_CE_WRITE, P2PSAFE_MAPPING_CUMEM)->note, "signal 11"));
	assert_all(1, 2, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_all(2, 1, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	play_free(&p);
	host_remove(&h);
}

static void refusals_are_unsupported_before_any_byte(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "{\"default\": {\"kind\": \"pcie\", \"can_access\": 0}}", "", "", "");
	host_play(&p, &h, 2);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_int_equal(p.pairs[0][1].can_access, 0);
	assert_all(0, 1, P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_int_equal(p.risks, 0);
	play_free(&p);
	host_remove(&h);
	host_make(&h, 2, "pcie", "{\"op\": [\"open\", \"enable\"], \"effect\": \"error\", \"error\": 217}", "", "");
	host_play(&p, &h, 2);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_all(0, 1, P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_int_equal(play_leg(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_IPC)->cuda_error, 217);
	assert_int_equal(p.risks, 0);
	assert_int_equal(p.staged[0].verdict, P2PSAFE_VERDICT_OK);
	play_free(&p);
	host_remove(&h);
}

static void driver_problems_are_named(void **state)
{
	static const struct {
		const char *more;
		int32_t status;
	} list[] = {
		{"\"init_error\": 100,", P2S_DRIVER_NO_DEVICE},
		{"\"init_error\": 802,", P2S_DRIVER_FAILED}, /* it waits for the fabric manager */
		{"\"init_error\": 803,", P2S_DRIVER_FAILED},
		{"\"missing_symbols\": [\"cuMemAlloc_v2\"],", P2S_DRIVER_TOO_OLD},
	};
	struct made_host h;

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		host_make(&h, 2, "pcie", "", list[i].more, "");
		host_play(&p, &h, 2);
		assert_true(play_run(&p));
		assert_orderly(P2S_DONE_NO_DRIVER);
		assert_int_equal(p.drivers, 1);
		assert_int_equal(p.driver.status, list[i].status);
		assert_int_equal(play_has_fact(&p, "FABRIC_MANAGER_DOWN"), strstr(list[i].more, "802") != NULL);
		assert_int_equal(p.leg_count, 0);
		play_free(&p);
		host_remove(&h);
	}
	host_make(&h, 2, "pcie", "", "", "");
	host_play(&p, &h, 2);
	p.cuda_library = "/nonexistent/libcuda.so.1";
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_NO_DRIVER);
	assert_int_equal(p.driver.status, P2S_DRIVER_NO_LIBRARY);
	play_free(&p);
	host_remove(&h);
}

static void paths_come_from_the_tree(void **state)
{
	static const struct {
		const char *path;
		const char *attributes;
	} tree[] = {
		/* 0, 1: one switch; 2: behind a second one below it; 3: another root port; 4: another root bus, same node; 5: other
	       node */
		{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:10:00.0",
	     "numa_node=0;max_link_speed=32.0 GT/s PCIe;max_link_width=16"},
		{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:20:00.0",
	     "numa_node=0;max_link_speed=16.0 GT/s PCIe;max_link_width=16"},
		{"pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:03:00.0/0000:04:00.0/0000:30:00.0", "numa_node=0"},
		{"pci0000:00/0000:00:02.0/0000:40:00.0", "numa_node=0"},
		{"pci0000:50/0000:50:01.0/0000:50:00.0", "numa_node=0"},
		{"pci0000:60/0000:60:01.0/0000:60:00.0", "numa_node=1"},
		{"pci0000:70/0000:70:01.0/0000:70:00.0", "numa_node=-1"},
	};
	static const int32_t from_0[][2] = {{P2PSAFE_PATH_PIX, P2PSAFE_PATH_PIX}, {P2PSAFE_PATH_PXB, P2PSAFE_PATH_PXB},
	                                    {P2PSAFE_PATH_PHB, P2PSAFE_PATH_PHB}, {P2PSAFE_PATH_NODE, P2PSAFE_PATH_PHB},
	                                    {P2PSAFE_PATH_SYS, P2PSAFE_PATH_SYS}, {P2PSAFE_PATH_UNKNOWN, P2PSAFE_PATH_SYS}};
	struct made_host h;

	(void)state;
	host_make(&h, 7, "pcie", "", "", "");
	for (uint32_t i = 0; i < 7; i++) {
		char address[P2S_BDF_TEXT];

		snprintf(address, sizeof address, "0000:%02x:00.0", 16 * (i + 1));
		host_add_device(&h, address, tree[i].path, tree[i].attributes);
	}
	host_write(&h, "root/proc/driver/nvidia/gpus/0000:20:00.0/information", "Model: \t\t X\nDevice Minor: \t 5\n");
	host_play(&p, &h, 7);
	p.mode = P2S_MODE_PROBE;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_int_equal(p.worker_count, 1); /* no GPU worker, no NVML */
	for (uint32_t i = 1; i < 7; i++) {
		assert_int_equal(p.pairs[0][i].path, from_0[i - 1][0]);
		assert_int_equal(p.pairs[0][i].nccl_path, from_0[i - 1][1]);
		assert_int_equal(p.pairs[i][0].path, from_0[i - 1][0]);
	}
	assert_int_equal(p.pairs[0][1].limit_bytes_per_s, 31507692307); /* the narrower: 16 GT/s, 16 lanes, 128/130 */
	assert_int_equal(p.gpus[1].minor, -1); /* only the driver knows it, and a probe does not ask */
	play_free(&p);
	host_play(&p, &h, 7);
	p.mode = P2S_MODE_MINORS;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_int_equal(p.gpus[1].minor, 5);
	assert_int_equal(p.gpus[0].minor, -1);
	play_free(&p);
	host_remove(&h);
}

static void a_gpu_that_is_only_listed_is_never_touched(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 3, "pcie", "", "", "");
	host_play(&p, &h, 3);
	p.test[1] = 0;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_all(0, 2, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	for (size_t i = 0; i < p.leg_count; i++)
		assert_true(p.legs[i].src != 1 && p.legs[i].dst != 1);
	for (size_t i = 0; i < p.worker_count; i++)
		assert_null(strstr(p.workers[i].role, "0000:20:00.0"));
	play_free(&p);
	host_remove(&h);
}

static void a_hanging_nvml_costs_little(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", "", "\"nvml\": {\"hang\": true},", "");
	host_play(&p, &h, 2);
	p.deadline_ms = 20000;
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	assert_all(0, 1, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED);
	assert_nobody_left(500);
	play_free(&p);
	host_remove(&h);
}

static void nvlink_is_known_and_goes_first(void **state)
{
	const struct p2s_lib_leg *first;
	struct made_host h;

	(void)state;
	/* Every store is lost; the first to be found is one over NVLink. */
	host_make(&h, 3,
	          "{\"default\": {\"kind\": \"pcie\"}, \"pairs\": ["
	          "{\"src\": \"0000:20:00.0\", \"dst\": \"0000:30:00.0\", \"kind\": \"nvlink\", \"nvlinks\": 4}, "
	          "{\"src\": \"0000:30:00.0\", \"dst\": \"0000:20:00.0\", \"kind\": \"nvlink\", \"nvlinks\": 4}]}",
	          "{\"op\": \"sm_store\", \"effect\": \"drop\"}", "\"nvml\": {\"link_bytes_per_s\": 25000000000},", "");
	host_play(&p, &h, 3);
	assert_true(play_run(&p));
	assert_orderly(P2S_DONE_COMPLETE);
	first = &p.legs[0];
	assert_int_equal(first->src, 1);
	assert_int_equal(first->dst, 2);
	assert_int_equal(p.pairs[1][2].path, P2PSAFE_PATH_NVL);
	assert_int_equal(p.pairs[1][2].nvlinks, 4);
	assert_int_equal(p.pairs[1][2].limit_bytes_per_s, 100000000000);
	assert_int_not_equal(p.pairs[0][1].path, P2PSAFE_PATH_NVL);
	play_free(&p);
	host_remove(&h);
}

static void wrong_command_lines_are_told(void **state)
{
	static const char *const lines[] = {"",
	                                    "bogus",
	                                    "conductor now",
	                                    "worker",
	                                    "worker --channels 4,x",
	                                    "worker --channels 4,4",
	                                    "worker --channels 1",
	                                    "worker --cuda",
	                                    "worker --eager 1",
	                                    "nvml --library"};
	char command[512];

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		int status;

		snprintf(command, sizeof command, "test $(%s %s 2>&1 >/dev/null | wc -l) = 1 && { %s %s 2>/dev/null; test $? = 2; }",
		         getenv("P2S_TEST_HELPER"), lines[i], getenv("P2S_TEST_HELPER"), lines[i]);
		status = system(command);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	snprintf(command, sizeof command, "%s --version | grep -q '%s'", getenv("P2S_TEST_HELPER"), P2S_VERSION_TEXT);
	assert_int_equal(system(command), 0);
}

static int hang_up_at_first_leg(struct play *player, uint16_t id, const union p2s_lib_any *any)
{
	(void)player;
	(void)any;
	return id != p2s_id_lib_leg;
}

static int kill_at_first_leg(struct play *player, uint16_t id, const union p2s_lib_any *any)
{
	(void)any;
	if (id == p2s_id_lib_leg)
		kill(player->pid, SIGKILL);
	return 1;
}

static void nobody_survives_the_library_or_the_conductor(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 4, "pcie", "", "", "");
	host_play(&p, &h, 4);
	p.on_message = hang_up_at_first_leg;
	assert_true(play_run(&p));
	assert_int_equal(p.dones, 0);
	assert_nobody_left(2000);
	play_free(&p);
	host_play(&p, &h, 4);
	p.on_message = kill_at_first_leg;
	assert_true(play_run(&p));
	assert_true(WIFSIGNALED(p.status));
	assert_int_equal(p.dones, 0);
	assert_nobody_left(2000);
	play_free(&p);
	host_remove(&h);
}

/* Somebody else ends the worker of GPU 0 (the machine is short of memory, say) when this leg of its own was told. */
static int32_t last_words;

static int kill_worker_at_leg(struct play *player, uint16_t id, const union p2s_lib_any *any)
{
	if (id != p2s_id_lib_leg || any->leg.src != 0 || any->leg.leg != last_words || any->leg.mapping != P2PSAFE_MAPPING_IPC)
		return 1;
	for (size_t i = 0; i < player->worker_count; i++)
		if (strcmp(player->workers[i].role, "gpu 0000:10:00.0") == 0 && !player->workers[i].gone)
			kill(player->workers[i].pid, SIGKILL);
	return 1;
}

/* Between two legs or in the middle of one: what its pairs passed until then is no permission, however few legs a consumer needs. */
static void a_worker_that_is_killed_takes_back_what_passed(void **state)
{
	static const int32_t moments[] = {P2PSAFE_LEG_STALE, P2PSAFE_LEG_MP_PUSH, P2PSAFE_LEG_MP_PULL, P2PSAFE_LEG_TEARING_8};
	struct made_host h;

	(void)state;
	host_make(&h, 3, "nvlink", "", "", "");
	for (size_t k = 0; k < COUNT(moments); k++) {
		last_words = moments[k];
		host_play(&p, &h, 3);
		p.on_message = kill_worker_at_leg;
		assert_true(play_run(&p));
		assert_int_equal(p.dones, 1);
		for (uint32_t o = 1; o < 3; o++) {
			for (int back = 0; back < 2; back++) {
				int passed = 0;
				int bad = 0;

				for (size_t i = 0; i < p.leg_count; i++) {
					const struct p2s_lib_leg *l = &p.legs[i];

					if (l->src != (back ? o : 0) || l->dst != (back ? 0 : o))
						continue;
					passed |= l->leg == P2PSAFE_LEG_STALE && l->verdict == P2PSAFE_VERDICT_OK &&
					          l->mapping != P2PSAFE_MAPPING_PEER;
					bad |= l->verdict == P2PSAFE_VERDICT_ERROR || l->verdict == P2PSAFE_VERDICT_HANG;
				}
				if (passed && !bad)
					play_dump(&p);
				assert_true(bad || !passed);
			}
		}
		play_free(&p);
	}
	host_remove(&h);
}

static void another_version_is_refused(void **state)
{
	struct made_host h;

	(void)state;
	host_make(&h, 2, "pcie", "", "", "");
	for (int i = 0; i < 4; i++) {
		host_play(&p, &h, 2);
		if (i == 0)
			p.protocol++;
		if (i == 1)
			p.version = "0.0.1";
		if (i == 2)
			snprintf(p.address[1], sizeof p.address[1], "nonsense");
		if (i == 3)
			p.level = 77;
		assert_true(play_run(&p));
		assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) != 0);
		assert_int_equal(p.worker_count, 0);
		assert_int_equal(p.dones, 0);
		play_free(&p);
	}
	host_remove(&h);
}

static void garbage_ends_it(void **state)
{
	static const char *const noise[] = {"", "x", "P2PS", "P2PS\x01\x00\x08\x00", "P2PS\xff\xff\xff\xff and more"};

	(void)state;
	for (size_t i = 0; i < COUNT(noise); i++) {
		uint64_t begin = p2s_now_ns();
		int pair[2];
		int status;
		pid_t pid;

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		pid = fork();
		if (pid == 0) {
			if (pair[1] != 3)
				dup2(pair[1], 3);
			else
				fcntl(3, F_SETFD, 0);
			execl(getenv("P2S_TEST_HELPER"), "p2psafe-helper", "conductor", (char *)NULL);
			_exit(127);
		}
		close(pair[1]);
		assert_true(send(pair[0], noise[i], strlen(noise[i]), MSG_NOSIGNAL) >= 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 127);
		assert_true(p2s_now_ns() - begin < UINT64_C(4000000000));
		close(pair[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_nvlink_pair_passes_everything),
		cmocka_unit_test(pcie_has_no_atomics_and_standard_moves_more),
		cmocka_unit_test(a_host_that_drops_everything_shows_every_direction),
		cmocka_unit_test(first_store_tells_the_damages_apart),
		cmocka_unit_test(each_engine_has_its_leg),
		cmocka_unit_test(keep_going_proves_the_good_direction),
		cmocka_unit_test(a_hang_stops_everything),
		cmocka_unit_test(a_child_that_cannot_be_killed_is_left_behind_in_time),
		cmocka_unit_test(a_deadline_ends_a_run_between_legs),
		cmocka_unit_test(no_risk_without_leave),
		cmocka_unit_test(a_crash_is_an_error_and_the_rest_is_known),
		cmocka_unit_test(refusals_are_unsupported_before_any_byte),
		cmocka_unit_test(driver_problems_are_named),
		cmocka_unit_test(paths_come_from_the_tree),
		cmocka_unit_test(a_gpu_that_is_only_listed_is_never_touched),
		cmocka_unit_test(a_hanging_nvml_costs_little),
		cmocka_unit_test(nvlink_is_known_and_goes_first),
		cmocka_unit_test(wrong_command_lines_are_told),
		cmocka_unit_test(nobody_survives_the_library_or_the_conductor),
		cmocka_unit_test(a_worker_that_is_killed_takes_back_what_passed),
		cmocka_unit_test(another_version_is_refused),
		cmocka_unit_test(garbage_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
