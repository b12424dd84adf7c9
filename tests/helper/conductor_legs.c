/* What each leg of the conductor sees that no other does: whole runs against simulated hosts with one thing wrong. */
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

static void play_host(uint32_t n, const char *link, const char *faults, int32_t level, uint64_t flags)
{
	struct made_host h;

	host_make(&h, n, link, faults, "", "");
	host_play(&p, &h, n);
	p.level = level;
	p.flags = flags;
	assert_true(play_run(&p));
	assert_int_equal(p.dones, 1);
	assert_int_equal(p.done.status, P2S_DONE_COMPLETE);
	host_remove(&h);
}

static const struct p2s_lib_leg *leg_is(uint32_t a, uint32_t b, int32_t leg, int32_t mapping, int32_t verdict, int32_t damage)
{
	const struct p2s_lib_leg *l = play_leg(&p, a, b, leg, mapping);

	if (l == NULL || l->verdict != verdict || l->damage != damage)
		play_dump(&p);
	assert_non_null(l);
	assert_int_equal(l->verdict, verdict);
	assert_int_equal(l->damage, damage);
	return l;
}

/* Loads that come in halves: the owner writes, the accessor looks through the window. */
static void remote_loads_that_tear_are_seen(void **state)
{
	(void)state;
	play_host(2, "nvlink", "{\"op\": \"sm_load\", \"effect\": \"torn\"}", P2PSAFE_LEVEL_QUICK, 0);
	leg_is(0, 1, P2PSAFE_LEG_TEARING_8, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_TORN);
	play_free(&p);
}

/* Both ways pass messages and tear words in the same kernels. What went wrong one way, and when, hides nothing of the other. */
static void one_way_hides_nothing_of_the_other(void **state)
{
	static const char *const torn = "{\"src\": \"0000:10:00.0\", \"op\": \"sm_store\", \"effect\": \"torn\"}, "
									"{\"src\": \"0000:20:00.0\", \"op\": \"sm_load\", \"effect\": \"torn\"}";
	/* One flag of the first form of messages, and one of a later form. */
	static const char *const lost =
		"{\"src\": \"0000:10:00.0\", \"op\": \"flag\", \"effect\": \"drop\", \"after\": 9, \"count\": 1}, "
		"{\"src\": \"0000:20:00.0\", \"op\": \"flag\", \"effect\": \"drop\", \"after\": 262, \"count\": 1}";

	(void)state;
	play_host(2, "pcie", torn, P2PSAFE_LEVEL_QUICK, 0);
	leg_is(0, 1, P2PSAFE_LEG_TEARING_8, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_TORN);
	leg_is(1, 0, P2PSAFE_LEG_TEARING_8, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_TORN);
	play_free(&p);
	play_host(2, "pcie", lost, P2PSAFE_LEVEL_QUICK, 0);
	leg_is(0, 1, P2PSAFE_LEG_MP_PUSH, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_DROPPED);
	leg_is(1, 0, P2PSAFE_LEG_MP_PUSH, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_DROPPED);
	play_free(&p);
}

/* Chunks of a large buffer are asked for before the one in front is answered. One that fails ends the leg and nothing else: whoever
 * looks after the context then finds the channel free. */
static void a_chunk_that_fails_ends_its_leg(void **state)
{
	static const struct {
		const char *op;
		int32_t leg;
	} list[] = {{"sm_store", P2PSAFE_LEG_SM_STORE}, {"ce_write", P2PSAFE_LEG_CE_WRITE}};

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		char fault[200];

		snprintf(fault, sizeof fault, "{\"op\": \"%s\", \"effect\": \"error\", \"error\": 700, \"min_bytes\": 16777216}",
		         list[i].op);
		play_host(2, "nvlink", fault, P2PSAFE_LEVEL_STANDARD, P2PSAFE_FLAG_KEEP_GOING);
		leg_is(0, 1, list[i].leg, CUMEM, P2PSAFE_VERDICT_ERROR, P2PSAFE_DAMAGE_NONE);
		play_free(&p);
	}
}

/* A few bytes far inside: whoever says that it covered everything has met them; who has not does not say so. */
static void a_hole_far_inside_is_met_or_not_claimed(void **state)
{
	static const struct {
		const char *op;
		int32_t leg;
	} list[] = {{"sm_store", P2PSAFE_LEG_SM_STORE},
	            {"sm_load", P2PSAFE_LEG_SM_LOAD},
	            {"ce_write", P2PSAFE_LEG_CE_WRITE},
	            {"ce_read", P2PSAFE_LEG_CE_READ}};
	unsigned met = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		const struct p2s_lib_leg *l;
		char fault[200];

		snprintf(fault, sizeof fault, "{\"op\": \"%s\", \"effect\": \"drop\", \"from\": 209715200, \"to\": 209715264}",
		         list[i].op);
		play_host(2, "nvlink", fault, P2PSAFE_LEVEL_STANDARD, P2PSAFE_FLAG_KEEP_GOING);
		l = play_leg(&p, 0, 1, list[i].leg, CUMEM);
		assert_non_null(l);
		assert_true(l->coverage_of_bytes > 209715264);
		if (l->verdict == P2PSAFE_VERDICT_CORRUPT)
			met++;
		else
			assert_true(l->verdict == P2PSAFE_VERDICT_OK && l->coverage_bytes <= l->coverage_of_bytes - 64);
		play_free(&p);
	}
	assert_true(met >= 2); /* a busy machine meets fewer, not none */
}

/* The end of the buffer is part of every bulk leg, however little time there is. */
static void the_last_bytes_are_met_by_every_engine(void **state)
{
	static const struct {
		const char *op;
		int32_t leg;
	} list[] = {{"sm_store", P2PSAFE_LEG_SM_STORE},
	            {"sm_load", P2PSAFE_LEG_SM_LOAD},
	            {"ce_write", P2PSAFE_LEG_CE_WRITE},
	            {"ce_read", P2PSAFE_LEG_CE_READ}};

	(void)state;
	for (size_t i = 0; i < COUNT(list); i++) {
		char fault[200];

		snprintf(fault, sizeof fault, "{\"op\": \"%s\", \"effect\": \"zeros\", \"from\": 268435440}", list[i].op);
		play_host(2, "nvlink", fault, P2PSAFE_LEVEL_STANDARD, P2PSAFE_FLAG_KEEP_GOING);
		leg_is(1, 0, list[i].leg, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_ZEROS);
		play_free(&p);
	}
}

/* The flag comes, the payload never: that is not an order of things. */
static void a_payload_that_never_comes_is_dropped_not_reordered(void **state)
{
	(void)state;
	play_host(2, "nvlink", "{\"op\": \"sm_store\", \"effect\": \"drop\", \"min_bytes\": 4096, \"max_bytes\": 4096, "
	                       "\"to\": 1024}",
	          P2PSAFE_LEVEL_QUICK, P2PSAFE_FLAG_KEEP_GOING);
	leg_is(0, 1, P2PSAFE_LEG_MP_PUSH, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_DROPPED);
	play_free(&p);
	play_host(2, "nvlink", "{\"op\": \"flag\", \"effect\": \"reorder\"}", P2PSAFE_LEVEL_QUICK, 0);
	leg_is(0, 1, P2PSAFE_LEG_MP_PUSH, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_REORDERED);
	play_free(&p);
}

/* One pair writes into a third GPU's memory; pairs of that GPU that are well stay well. */
static void what_went_astray_is_blamed_on_who_sent_it(void **state)
{
	static const char *const faults[] = {
		"{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": \"sm_store\", \"effect\": \"misdirect\", "
		"\"target\": \"0000:30:00.0\"}",
		"{\"src\": \"0000:10:00.0\", \"dst\": \"0000:20:00.0\", \"op\": [\"sm_store\", \"ce_write\"], \"min_bytes\": 65536, "
		"\"effect\": \"misdirect\", \"target\": \"0000:30:00.0\"}"};

	(void)state;
	for (size_t i = 0; i < COUNT(faults); i++) {
		play_host(3, "nvlink", faults[i], P2PSAFE_LEVEL_QUICK, P2PSAFE_FLAG_KEEP_GOING);
		leg_is(0, 1, P2PSAFE_LEG_SM_STORE, CUMEM, P2PSAFE_VERDICT_CORRUPT,
		       i == 0 ? P2PSAFE_DAMAGE_MISDIRECTED : P2PSAFE_DAMAGE_DROPPED);
		for (size_t k = 0; k < p.leg_count; k++) {
			const struct p2s_lib_leg *l = &p.legs[k];

			if (l->src == 0 && l->dst == 1)
				continue;
			if (l->verdict != P2PSAFE_VERDICT_OK && l->verdict != P2PSAFE_VERDICT_UNTESTED)
				play_dump(&p);
			assert_true(l->verdict == P2PSAFE_VERDICT_OK || l->verdict == P2PSAFE_VERDICT_UNTESTED);
		}
		play_free(&p);
	}
}

/* Only where handles are made anew does this driver lose what is stored first. */
static void memory_made_anew_is_looked_at(void **state)
{
	(void)state;
	play_host(2, "nvlink", "", P2PSAFE_LEVEL_QUICK, 0);
	for (int32_t m = P2PSAFE_MAPPING_PEER; m <= P2PSAFE_MAPPING_CUMEM; m++) {
		const struct p2s_lib_leg *l = play_leg(&p, 0, 1, P2PSAFE_LEG_STALE, m);

		if (l != NULL)
			assert_true(l->verdict == P2PSAFE_VERDICT_OK && l->rounds >= 12 + 8); /* twelve before, two handles of four after */
	}
	assert_non_null(play_leg(&p, 0, 1, P2PSAFE_LEG_STALE, P2PSAFE_MAPPING_PEER));
	play_free(&p);
}

/* Everything moves at once, and what is wrong only then is seen. */
static void load_is_put_on_and_looked_through(void **state)
{
	(void)state;
	play_host(3, "nvlink", "", P2PSAFE_LEVEL_STANDARD, 0);
	for (uint32_t a = 0; a < 3; a++)
		for (uint32_t b = 0; b < 3; b++)
			if (a != b) {
				const struct p2s_lib_leg *copies =
					leg_is(a, b, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE);

				assert_true(copies->bytes > 0 && copies->rounds >= 2 && copies->error_bound_ppb > 0);
				assert_true(leg_is(a, b, P2PSAFE_LEG_LOAD, CUMEM, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE)->rounds > 0);
			}
	play_free(&p);
	play_host(2, "nvlink", "{\"op\": \"ce_write\", \"effect\": \"zeros\", \"mapping\": \"peer\", \"from\": 1966080, \"to\": "
	                       "2031616, \"min_bytes\": 2097152, \"max_bytes\": 2097152}",
	          P2PSAFE_LEVEL_STANDARD, P2PSAFE_FLAG_KEEP_GOING);
	leg_is(0, 1, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_ZEROS);
	play_free(&p);
}

/* Lines of 128 bytes that come in pieces are told, and nothing is vetoed for it. */
static void torn_lines_are_told_and_judge_nothing(void **state)
{
	(void)state;
	play_host(2, "{\"default\": {\"kind\": \"nvlink\", \"nvlinks\": 4, \"granularity\": 32}}", "", P2PSAFE_LEVEL_QUICK, 0);
	assert_true(play_has_fact(&p, "TEARING_128"));
	leg_is(0, 1, P2PSAFE_LEG_MP_PULL, P2PSAFE_MAPPING_PEER, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE);
	leg_is(0, 1, P2PSAFE_LEG_TEARING_128, CUMEM, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_DAMAGE_TORN);
	play_free(&p);
	play_host(2, "{\"default\": {\"kind\": \"nvlink\", \"nvlinks\": 4}}", "", P2PSAFE_LEVEL_QUICK, 0);
	leg_is(0, 1, P2PSAFE_LEG_TEARING_128, CUMEM, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE);
	play_free(&p);
}

/* What is moved is in proportion to the link: a round of bulk legs takes a quarter of a second of the GPUs' time over Gen4
 * links and over slower ones, and under load a copy takes 4 ms. By the model's clock: how busy this machine is can only make
 * it less. */
static void bytes_follow_the_link(void **state)
{
	static const uint64_t rates[] = {24000000000, 6000000000, 100000000}; /* bytes/s */
	static const int32_t legs[] = {P2PSAFE_LEG_SM_STORE, P2PSAFE_LEG_CE_WRITE, P2PSAFE_LEG_CE_READ, P2PSAFE_LEG_SIZES};

	(void)state;
	for (size_t r = 0; r < COUNT(rates); r++) {
		char link[96];

		snprintf(link, sizeof link, "{\"default\": {\"kind\": \"pcie\", \"bytes_per_s\": %llu}}",
		         (unsigned long long)rates[r]);
		play_host(2, link, "", P2PSAFE_LEVEL_STANDARD, 0);
		for (size_t i = 0; i < COUNT(legs); i++) {
			const struct p2s_lib_leg *l = leg_is(1, 0, legs[i], CUMEM, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE);
			/* Two engines or two ways of a leg, beside what finds the speed: 3 or 4 ms each, for sizes as much again. */
			uint64_t ms = legs[i] == P2PSAFE_LEG_SIZES ? 12 : 8;

			assert_true(l->bytes >= 1 << 20 && l->bytes <= rates[r] / 1000 * ms + (9 << 20));
		}
		if (rates[r] >= 6000000000) {
			uint64_t ns = play_timing(&p, "bulk_device");

			assert_true(ns != 0 && ns < UINT64_C(250000000));
		} else {
			const struct p2s_lib_leg *l =
				leg_is(1, 0, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_PEER, P2PSAFE_VERDICT_OK, P2PSAFE_DAMAGE_NONE);

			/* 2 MiB once, then what goes in 4 ms. */
			assert_true(l->rounds >= 2 && l->bytes <= (2 << 20) + (l->rounds - 1) * (384 << 10));
		}
		play_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remote_loads_that_tear_are_seen),
		cmocka_unit_test(one_way_hides_nothing_of_the_other),
		cmocka_unit_test(a_chunk_that_fails_ends_its_leg),
		cmocka_unit_test(a_hole_far_inside_is_met_or_not_claimed),
		cmocka_unit_test(the_last_bytes_are_met_by_every_engine),
		cmocka_unit_test(a_payload_that_never_comes_is_dropped_not_reordered),
		cmocka_unit_test(what_went_astray_is_blamed_on_who_sent_it),
		cmocka_unit_test(memory_made_anew_is_looked_at),
		cmocka_unit_test(load_is_put_on_and_looked_through),
		cmocka_unit_test(torn_lines_are_told_and_judge_nothing),
		cmocka_unit_test(bytes_follow_the_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
