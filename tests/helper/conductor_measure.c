/* What the conductor measures, on simulated hosts whose links are known: their clock is a model, so the numbers are exact and a
 * busy machine changes none of them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "conductor_hosts.h"
#include "helper/measure_ops.h"

static struct play p; /* large */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define GB UINT64_C(1000000000)
#define MS_NS UINT64_C(1000000)
#define MEASURE P2PSAFE_FLAG_MEASURE

static void play_more(uint32_t n, const char *link, const char *faults, const char *more, uint64_t flags)
{
	struct made_host h;

	host_make(&h, n, link, faults, more, "");
	host_play(&p, &h, n);
	p.level = P2PSAFE_LEVEL_QUICK;
	p.flags = flags;
	p.deadline_ms = 400000; /* of no meaning here, but for a very busy machine */
	assert_true(play_run(&p));
	assert_int_equal(p.dones, 1);
	if (p.done.status != P2S_DONE_COMPLETE)
		play_dump(&p);
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	host_remove(&h);
}

static void play_host(uint32_t n, const char *link, const char *faults, uint64_t flags)
{
	play_more(n, link, faults, "", flags);
}

static uint64_t got(uint32_t src, uint32_t dst, int32_t kind)
{
	return play_measure(&p, src, dst, kind, 0);
}

/* Within percent of what the links say. */
static void near(uint64_t value, uint64_t want, unsigned percent)
{
	if (value < want / 100 * (100 - percent) || value > want / 100 * (100 + percent))
		fail_msg("%llu, wanted about %llu", (unsigned long long)value, (unsigned long long)want);
}

static void every_number_of_a_healthy_pair(void **state)
{
	static const int32_t one_way[] = {P2S_MEASURE_CE_WRITE, P2S_MEASURE_CE_READ, P2S_MEASURE_SM_STORE, P2S_MEASURE_SM_LOAD,
									  P2S_MEASURE_LOADED};

	(void)state;
	play_host(2, "{\"default\": {\"kind\": \"nvlink\", \"nvlinks\": 18, \"bytes_per_s\": 390000000000, \"latency_ns\": 800}}",
			  "", MEASURE);
	for (uint32_t a = 0; a < 2; a++) {
		uint32_t b = 1 - a;
		uint64_t before = 0;
		uint64_t last = 0;

		for (size_t i = 0; i < COUNT(one_way); i++)
			near(got(a, b, one_way[i]), 390 * GB, 3);
		near(got(a, b, P2S_MEASURE_BOTH_WAYS), 780 * GB, 3);
		assert_int_equal(got(a, b, P2S_MEASURE_LOAD_NS), 800);
		assert_int_equal(got(a, b, P2S_MEASURE_STORE_FLAG_NS), 800);
		assert_int_equal(got(a, b, P2S_MEASURE_WRITE_ISSUE_NS), 4);
		for (unsigned r = 0; r < P2S_ROWS; r++) {
			uint64_t bytes = p2s_row_bytes(r);
			uint64_t rate = play_measure(&p, a, b, P2S_MEASURE_SIZE, bytes);
			uint64_t ns = play_measure(&p, a, b, P2S_MEASURE_SIZE_NS, bytes);

			assert_true(bytes > before && rate >= last && ns >= 800);
			near(rate, bytes * GB / ns, 2); /* nothing overlaps in the model */
			before = bytes;
			last = rate;
			/* The staged path: both halves take turns for what is one chunk, and overlap for more. */
			rate = play_measure(&p, a, b, P2S_MEASURE_STAGED, bytes);
			ns = play_measure(&p, a, b, P2S_MEASURE_STAGED_NS, bytes);
			assert_true(bytes <= 16 << 20 ? rate != 0 && rate <= 12 * GB && ns >= 28000 : rate == 0 && ns == 0);
		}
		assert_true(got(a, b, P2S_MEASURE_STAGED) > 9 * GB);
		assert_int_equal(got(a, b, P2S_MEASURE_STAGED_NS), play_measure(&p, a, b, P2S_MEASURE_STAGED_NS, 4096));
		near(p.gpu_facts[a][P2S_GPU_FACT_TO_HOST], 12 * GB, 20);
		near(p.gpu_facts[a][P2S_GPU_FACT_FROM_HOST], 12 * GB, 20);
		near(p.gpu_facts[a][P2S_GPU_FACT_HOST_BOTH_WAYS], 20 * GB, 20);
		assert_true((int64_t)p.gpu_facts[a][P2S_GPU_FACT_HOST_NODE] >= -1);
		assert_true(p.gpu_facts[a][P2S_GPU_FACT_ALL_TO_ONE] == UINT64_MAX); /* two GPUs have no "all" */
	}
	assert_true(p2s_row_bytes(0) == 4096 && p2s_row_bytes(2) == 12288 && p2s_row_bytes(P2S_ROWS - 1) == 256 << 20);
	assert_true(got(1, 0, P2S_MEASURE_STAGED_BOTH_WAYS) != 0);
	play_free(&p);
}

static void nobody_measures_unasked(void **state)
{
	(void)state;
	play_host(2, "nvlink", "", 0);
	assert_int_equal(p.measure_count, 0);
	assert_int_equal(play_timing(&p, "measure_device"), 0);
	play_free(&p);
}

/* Only pairs whose legs were OK; their fall-back is measured all the same. */
static void what_failed_has_no_numbers(void **state)
{
	(void)state;
	play_host(2, "nvlink",
			  "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_load\", \"effect\": \"zeros\", "
			  "\"min_bytes\": 65536}",
			  MEASURE | P2PSAFE_FLAG_KEEP_GOING);
	for (size_t i = 0; i < p.measure_count; i++)
		assert_true(p.measures[i].src != 0 || p.measures[i].kind == P2S_MEASURE_STAGED ||
					p.measures[i].kind == P2S_MEASURE_STAGED_NS || p.measures[i].kind == P2S_MEASURE_STAGED_BOTH_WAYS);
	near(got(1, 0, P2S_MEASURE_CE_WRITE), 390 * GB, 3);
	assert_int_equal(got(1, 0, P2S_MEASURE_STORE_FLAG_NS), 0); /* a message there and back needs both ways */
	assert_true(got(0, 1, P2S_MEASURE_STAGED) != 0);
	play_free(&p);
}

/* Right in every leg, wrong while it is measured: no number, and a verdict. */
static void wrong_bytes_under_measuring_veto(void **state)
{
	(void)state;
	play_host(
		2, "nvlink",
		"{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"bit_flip\", \"rate\": "
		"100, \"min_bytes\": 33554432}",
		MEASURE);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(play_verdict(&p, 1, 0, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM), 0);
	assert_int_equal(got(0, 1, P2S_MEASURE_SM_STORE), 0);
	assert_int_equal(got(0, 1, P2S_MEASURE_CE_WRITE), 0);
	play_free(&p);
}

/* Loads within one process are measured beside those from process to process, and are as much of a pair: what is wrong there
 * takes all its numbers away. */
static void wrong_loads_within_one_process_veto(void **state)
{
	(void)state;
	play_host(2, "nvlink",
			  "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_load\", \"mapping\": \"peer\", "
			  "\"effect\": \"bit_flip\", \"min_bytes\": 33554432}",
			  MEASURE);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_SM_LOAD, P2PSAFE_MAPPING_PEER), P2PSAFE_VERDICT_OK);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER), P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(play_verdict(&p, 0, 1, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM), 0);
	for (size_t i = 0; i < p.measure_count; i++)
		assert_true(p.measures[i].src != 0 || p.measures[i].kind == P2S_MEASURE_STAGED ||
					p.measures[i].kind == P2S_MEASURE_STAGED_NS || p.measures[i].kind == P2S_MEASURE_STAGED_BOTH_WAYS);
	near(got(1, 0, P2S_MEASURE_CE_WRITE), 390 * GB, 3);
	play_free(&p);
}

/* An engine that was right in every leg and does not come back while it is timed: that direction is a HANG and has no numbers,
 * nothing more is tried on its two GPUs, and the way back is not blamed. Whoever asked to keep going gets all numbers of the
 * others. */
static void a_hang_under_measuring(void **state)
{
	(void)state;
	/* 0 and 1 meet in the last of three rounds, beside 2 and 3. Only what is timed is as large. */
	play_host(4, "nvlink",
			  "{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"ce_write\", \"effect\": \"wedge\", "
			  "\"min_bytes\": 33554432}",
			  MEASURE | P2PSAFE_FLAG_KEEP_GOING);
	assert_true(play_has_fact(&p, "GPU_WEDGED"));
	for (uint32_t a = 0; a < 4; a++) {
		for (uint32_t b = 0; b < 4; b++) {
			int gone = a < 2 && b < 2;

			if (a == b)
				continue;
			assert_int_equal(play_verdict(&p, a, b, P2PSAFE_LEG_CE_WRITE, P2PSAFE_MAPPING_CUMEM), P2PSAFE_VERDICT_OK);
			assert_int_equal(play_verdict(&p, a, b, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM),
							 a == 0 && b == 1 ? P2PSAFE_VERDICT_HANG : 0);
			for (int32_t kind = P2S_MEASURE_CE_WRITE; kind <= P2S_MEASURE_LOADED; kind++)
				near(got(a, b, kind), gone ? 0 : kind == P2S_MEASURE_BOTH_WAYS ? 780 * GB : 390 * GB, 3);
			assert_int_equal(got(a, b, P2S_MEASURE_STORE_FLAG_NS), gone ? 0 : 1000);
			assert_true((play_measure(&p, a, b, P2S_MEASURE_SIZE, 64 << 20) == 0) == gone);
			assert_true((got(a, b, P2S_MEASURE_STAGED) == 0) == gone);
		}
		assert_true(p.gpu_facts[a][P2S_GPU_FACT_TO_HOST] != UINT64_MAX);  /* before it */
		assert_true(p.gpu_facts[a][P2S_GPU_FACT_ALL_TO_ONE] == UINT64_MAX); /* a number for all, or none */
	}
	assert_int_equal(p.gpus[0].state, P2PSAFE_GPU_STATE_WEDGED);
	assert_int_equal(p.gpus[2].state, P2PSAFE_GPU_STATE_READY);
	play_free(&p);
}

/* A worker that dies where no leg runs: its GPU shares memory with the host once more, to have its link measured. Before
 * that its pairs passed everything. The other two GPUs have nothing to do with it. */
static void a_death_under_measuring(void **state)
{
	(void)state;
	play_host(3, "{\"default\": {\"kind\": \"nvlink\"}}",
			  "{\"op\": \"call\", \"name\": \"cuMemHostRegister_v2\", \"src\": \"0000:10:00.0\", \"effect\": \"crash\", "
			  "\"after\": 3}",
			  MEASURE);
	for (uint32_t a = 0; a < 3; a++) {
		for (uint32_t b = 0; b < 3; b++) {
			const struct p2s_lib_leg *load = play_leg(&p, a, b, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM);

			if (a == b)
				continue;
			assert_int_equal(play_leg(&p, a, b, P2PSAFE_LEG_TEARING_8, P2PSAFE_MAPPING_CUMEM)->verdict, P2PSAFE_VERDICT_OK);
			if (a != 0 && b != 0) {
				assert_null(load);
				continue;
			}
			assert_non_null(load);
			assert_int_equal(load->verdict, P2PSAFE_VERDICT_ERROR);
			assert_string_equal(load->note, "worker died: signal 11");
		}
	}
	play_free(&p);
}

/* Slow in one thing only, and slow in all: what is measured says so, and nothing is measured for long. */
static void slow_links_are_not_measured_for_long(void **state)
{
	(void)state;
	play_host(2, "pcie", "{\"op\": \"sm_load\", \"effect\": \"slow\", \"factor\": 10}", MEASURE);
	near(got(0, 1, P2S_MEASURE_CE_READ), 25 * GB, 3);
	near(got(0, 1, P2S_MEASURE_SM_LOAD), 25 * GB / 10, 3);
	play_free(&p);
	play_host(2, "{\"default\": {\"kind\": \"pcie\", \"bytes_per_s\": 250000000}}", "", MEASURE);
	near(got(0, 1, P2S_MEASURE_CE_WRITE), GB / 4, 3);
	assert_true(play_timing(&p, "measure_device") < 800 * MS_NS);
	assert_true(play_measure(&p, 0, 1, P2S_MEASURE_SIZE, 8 << 20) != 0);
	assert_int_equal(play_measure(&p, 0, 1, P2S_MEASURE_SIZE, 16 << 20), 0); /* 67 ms for one transfer */
	play_free(&p);
}

/* A look that tells nothing, as when a timer fails, leaves nothing to go by: there is no number then, and no wrong one. */
static void a_number_is_right_or_not_there(void **state)
{
	unsigned there = 0;

	(void)state;
	play_host(2, "nvlink", "{\"op\": \"call\", \"name\": \"cuEventElapsedTime\", \"effect\": \"error\", \"every\": 3}", MEASURE);
	for (uint32_t a = 0; a < 2; a++) {
		for (int32_t kind = P2S_MEASURE_CE_WRITE; kind <= P2S_MEASURE_LOADED; kind++) {
			uint64_t value = got(a, 1 - a, kind);

			if (value != 0)
				near(value, kind == P2S_MEASURE_BOTH_WAYS ? 780 * GB : 390 * GB, 3);
			there += value != 0;
		}
	}
	assert_true(there < 12); /* else no look failed */
	play_free(&p);
}

/* Two GPUs behind one switch, two behind another: across, pairs share an uplink, which loses more than it divides. */
static void a_collapse_shows_only_under_load(void **state)
{
	(void)state;
	play_host(4,
			  "{\"default\": {\"kind\": \"pcie\"}, \"uplinks\": [{\"gpus\": [\"0000:10:00.0\", \"0000:20:00.0\"], "
			  "\"bytes_per_s\": 25000000000, \"lost_percent\": 40}]}",
			  "", MEASURE);
	for (uint32_t a = 0; a < 4; a++) {
		for (uint32_t b = 0; b < 4; b++) {
			int across = (a < 2) != (b < 2);

			if (a == b)
				continue;
			near(got(a, b, P2S_MEASURE_CE_WRITE), 25 * GB, 3); /* alone */
			near(got(a, b, P2S_MEASURE_SM_LOAD), 25 * GB, 3);
			near(got(a, b, P2S_MEASURE_BOTH_WAYS), 50 * GB, 3);
			near(got(a, b, P2S_MEASURE_LOADED), across ? 25 * GB * 60 / 100 / 2 : 25 * GB, 3);
			near(play_measure(&p, a, b, P2S_MEASURE_SIZE, 64 << 20), 25 * GB, 3);
		}
		/* Two come through the uplink, one does not: of its own port each has a third. */
		near(p.gpu_facts[a][P2S_GPU_FACT_ALL_TO_ONE], 2 * 75 * GB / 10 + 25 * GB / 3, 5);
		near(p.gpu_facts[a][P2S_GPU_FACT_ONE_TO_ALL], 2 * 75 * GB / 10 + 25 * GB / 3, 5);
	}
	play_free(&p);
}

/* Rounds of disjoint pairs at once: what the GPUs need grows with their number, not with its square. One mapping is enough to
 * see it, the one that is measured only where there is no other. */
static void time_grows_with_n(void **state)
{
#ifdef FEW_GPUS
	static const uint32_t counts[] = {2, 4};
#else
	static const uint32_t counts[] = {2, 4, 8, 16};
#endif
	uint64_t bulk[COUNT(counts)];
	uint64_t measure[COUNT(counts)];

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++) {
		play_more(counts[i], "pcie", "", "\"missing_symbols\": [\"cuIpcGetMemHandle\", \"cuMemCreate\"],", MEASURE);
		bulk[i] = play_timing(&p, "bulk_device");
		measure[i] = play_timing(&p, "measure_device");
		print_message("%2u GPUs: bulk %llu us, measuring %llu us of the GPUs' time\n", counts[i],
					  (unsigned long long)bulk[i] / 1000, (unsigned long long)measure[i] / 1000);
		assert_true(bulk[i] != 0 && measure[i] != 0);
		for (uint32_t a = 0; a < counts[i]; a++)
			for (uint32_t b = 0; b < counts[i]; b++)
				if (a != b)
					near(got(a, b, P2S_MEASURE_CE_WRITE), 25 * GB, 3);
		play_free(&p);
	}
	for (size_t i = 1; i < COUNT(counts); i++) {
		assert_true(bulk[i] * (counts[i - 1] - 1) <= bulk[i - 1] * (counts[i] - 1) * 5 / 4);
		/* Besides the rounds: each GPU's host link, and from four on all to one. */
		assert_true(measure[i] * (counts[i - 1] - 1) <= measure[i - 1] * (counts[i] - 1) * 5 / 4);
	}
}

static int slower_when_idle(struct play *play, uint16_t id, const union p2s_lib_any *any)
{
	(void)play;
	assert_true(id != p2s_id_lib_hop || any->hop.gpu != 0 || any->hop.speed_now_mts == 2500);
	return 1;
}

/* Links are looked at while they are busy. What nobody wrote down for a busy link stays unread. */
static void links_under_load(void **state)
{
	struct made_host h;

	(void)state;
	for (int known = 0; known < 2; known++) {
		host_make(&h, 2, "pcie", "", "", "");
		host_add_device(
			&h, "0000:10:00.0", "pci0000:00/0000:10:00.0",
			"current_link_speed=2.5 GT/s PCIe;max_link_speed=16.0 GT/s PCIe;current_link_width=16;max_link_width=16");
		if (known) {
			host_write(&h, "loaded/sys/bus/pci/devices/0000:10:00.0/current_link_speed", "16.0 GT/s PCIe\n");
			host_write(&h, "loaded/sys/bus/pci/devices/0000:10:00.0/current_link_width", "8\n");
		}
		host_play(&p, &h, 2);
		p.level = P2PSAFE_LEVEL_QUICK;
		p.flags = MEASURE;
		p.on_message = slower_when_idle;
		assert_true(play_run(&p));
		assert_int_equal(p.hops[0].speed_max_mts, 16000);
		assert_int_equal(p.hops[0].speed_loaded_mts, known ? 16000 : 0);
		assert_int_equal(p.hops[0].width_loaded, known ? 8 : 0);
		host_remove(&h);
		play_free(&p);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_of_a_healthy_pair),
		cmocka_unit_test(nobody_measures_unasked),
		cmocka_unit_test(what_failed_has_no_numbers),
		cmocka_unit_test(wrong_bytes_under_measuring_veto),
		cmocka_unit_test(wrong_loads_within_one_process_veto),
		cmocka_unit_test(a_hang_under_measuring),
		cmocka_unit_test(a_death_under_measuring),
		cmocka_unit_test(slow_links_are_not_measured_for_long),
		cmocka_unit_test(a_number_is_right_or_not_there),
		cmocka_unit_test(a_collapse_shows_only_under_load),
		cmocka_unit_test(time_grows_with_n),
		cmocka_unit_test(links_under_load),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
