/* The judge names every damage, and the schedule meets every pair once: pure functions, no process. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/word.h"
#include "helper/cpus.h"
#include "helper/judge.h"
#include "helper/schedule.h"
#include "helper/tally.h"
#include "p2psafe/p2psafe.h"

#define KEY UINT64_C(0x0123456789abcdef)

static struct p2s_pattern earlier[2];

static struct p2s_expect expect(uint64_t in_begin, uint64_t in_end)
{
	struct p2s_expect e = {.want = {KEY, 0},
	                       .has_before = 1,
	                       .in_begin = in_begin,
	                       .in_end = in_end,
	                       .src = 1,
	                       .dst = 2,
	                       .leg = P2PSAFE_LEG_SM_STORE,
	                       .gpus = 4,
	                       .bytes = 1 << 20};

	e.want.seed = p2s_seed(KEY, 1, 2, P2PSAFE_LEG_SM_STORE, 5);
	e.outside = p2s_seed(KEY, 1, 2, 0, 0);
	earlier[0] = (struct p2s_pattern){KEY, p2s_seed(KEY, 1, 2, P2PSAFE_LEG_SM_STORE, 4)};
	earlier[1] = (struct p2s_pattern){KEY ^ 77, p2s_seed(KEY ^ 77, 3, 2, P2PSAFE_LEG_STALE, 9)};
	e.earlier = earlier;
	e.earlier_count = 2;
	return e;
}

/* Judges n words from offset 256 on, each found(word index). */
static struct p2s_judgement judge(const struct p2s_expect *e, size_t n, uint64_t (*found)(const struct p2s_expect *, uint64_t))
{
	struct p2s_sample s[P2S_SAMPLES];
	struct p2s_judgement j;

	for (size_t i = 0; i < n; i++)
		s[i] = (struct p2s_sample){256 + 8 * i, found(e, 256 / 8 + i)};
	p2s_judge_check(e, n, 256, s, n, &j);
	return j;
}

static uint64_t f_dropped(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->outside, o);
}

static uint64_t f_zeros(const struct p2s_expect *e, uint64_t o)
{
	(void)e;
	(void)o;
	return 0;
}

static uint64_t f_ones(const struct p2s_expect *e, uint64_t o)
{
	(void)e;
	(void)o;
	return UINT64_MAX;
}

static uint64_t f_nan(const struct p2s_expect *e, uint64_t o)
{
	(void)e;
	(void)o;
	return UINT64_C(0x7fc000007fc00000);
}

static uint64_t f_stale(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->earlier[0].seed, o);
}

static uint64_t f_stale_leg(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->earlier[1].seed, o);
}

static uint64_t f_misdirected(const struct p2s_expect *e, uint64_t o)
{
	(void)e;
	return p2s_word(p2s_seed(KEY, 1, 3, P2PSAFE_LEG_SM_STORE, 5), o);
}

static uint64_t f_shifted(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o + 520);
}

static uint64_t f_torn(const struct p2s_expect *e, uint64_t o)
{
	return (p2s_word(e->want.seed, o) & 0xffffffff) | (p2s_word(e->outside, o) & ~UINT64_C(0xffffffff));
}

static uint64_t f_torn_epochs(const struct p2s_expect *e, uint64_t o)
{
	return (p2s_word(e->want.seed, o) & 0xffff) | (p2s_word(e->earlier[0].seed, o) & ~UINT64_C(0xffff));
}

static uint64_t f_bits(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o) ^ UINT64_C(0x8000000000000001);
}

static uint64_t f_foreign(const struct p2s_expect *e, uint64_t o)
{
	(void)e;
	return p2s_mix(o * 3 + 17);
}

static void names_every_damage(void **state)
{
	static const struct {
		uint64_t (*found)(const struct p2s_expect *, uint64_t);
		int32_t damage;
	} list[] = {{f_dropped, P2PSAFE_DAMAGE_DROPPED},
	            {f_zeros, P2PSAFE_DAMAGE_ZEROS},
	            {f_ones, P2PSAFE_DAMAGE_ONES},
	            {f_nan, P2PSAFE_DAMAGE_NAN},
	            {f_stale, P2PSAFE_DAMAGE_STALE},
	            {f_stale_leg, P2PSAFE_DAMAGE_STALE},
	            {f_misdirected, P2PSAFE_DAMAGE_MISDIRECTED},
	            {f_shifted, P2PSAFE_DAMAGE_SHIFTED},
	            {f_torn, P2PSAFE_DAMAGE_TORN},
	            {f_torn_epochs, P2PSAFE_DAMAGE_TORN},
	            {f_bits, P2PSAFE_DAMAGE_BIT_ERROR},
	            {f_foreign, P2PSAFE_DAMAGE_UNKNOWN}};
	struct p2s_expect e = expect(0, 4096);

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		for (size_t n = 1; n <= 16; n += 5) {
			struct p2s_judgement j = judge(&e, n, list[i].found);

			assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
			assert_int_equal(j.damage, list[i].damage);
			assert_int_equal(j.has_detail, 1);
			assert_int_equal(j.offset, 256);
			assert_true(j.expected == p2s_word(e.want.seed, 32));
			assert_true(j.found == list[i].found(&e, 32));
		}
	}
}

/* Whatever the pattern is, a flipped bit is a flipped bit: no neighbour's byte may make it something else. */
static void one_bit_is_never_taken_for_another_damage(void **state)
{
	struct p2s_expect e = expect(0, 1 << 20);

	(void)state;
	for (uint64_t o = 0; o < 20000; o++)
		assert_int_equal(p2s_judge_name(&e, 8 * o, p2s_word(e.want.seed, o) ^ UINT64_C(1) << (o % 64)),
		                 P2PSAFE_DAMAGE_BIT_ERROR);
}

static void clean_is_ok_and_bad_without_samples_is_not(void **state)
{
	struct p2s_expect e = expect(0, 4096);
	struct p2s_judgement j;

	(void)state;
	p2s_judge_check(&e, 0, UINT64_MAX, NULL, 0, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_NONE);
	p2s_judge_check(&e, 3, 64, NULL, 0, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_UNKNOWN);
}

static uint64_t f_mixed(const struct p2s_expect *e, uint64_t o)
{
	return o % 3 == 0 ? f_dropped(e, o) : o % 3 == 1 ? f_bits(e, o) : f_foreign(e, o);
}

static void a_name_needs_eight_words(void **state)
{
	struct p2s_expect e = expect(0, 4096);

	(void)state;
	assert_int_equal(judge(&e, 2, f_mixed).damage, P2PSAFE_DAMAGE_UNKNOWN);
	assert_int_equal(judge(&e, 16, f_mixed).damage, P2PSAFE_DAMAGE_UNKNOWN);
	assert_int_equal(judge(&e, 32, f_mixed).damage, P2PSAFE_DAMAGE_DROPPED); /* eleven of them agree */
}

static void borders_are_judged_by_the_byte(void **state)
{
	struct p2s_expect e = expect(257, 262);
	uint64_t want = p2s_judge_word(&e, 256);
	uint64_t data = p2s_word(e.want.seed, 32);
	uint64_t guard = p2s_word(e.outside, 32);

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal((uint8_t)(want >> (8 * i)), (uint8_t)((i >= 1 && i < 6 ? data : guard) >> (8 * i)));
	assert_true(p2s_judge_word(&e, 264) == p2s_word(e.outside, 33));
	assert_int_equal(p2s_judge_name(&e, 256, guard), P2PSAFE_DAMAGE_DROPPED);
	assert_int_equal(p2s_judge_name(&e, 256, guard & ~UINT64_C(0x0000ffffffffff00)), P2PSAFE_DAMAGE_ZEROS);
	assert_int_equal(p2s_judge_name(&e, 256, want), P2PSAFE_DAMAGE_NONE);
	/* Only the first bytes of a small transfer came. */
	assert_int_equal(p2s_judge_name(&e, 256, (want & UINT64_C(0x0000000000ffffff)) | (guard & ~UINT64_C(0x0000000000ffffff))),
	                 P2PSAFE_DAMAGE_DROPPED);
	/* A write that spilled over its end. */
	assert_int_not_equal(p2s_judge_name(&e, 264, p2s_word(e.want.seed, 33)), P2PSAFE_DAMAGE_NONE);
}

static struct p2s_mp_shape shape = {.rounds = 64, .words = 128, .slot_bytes = 4096, .flag_off = 2048, .owner_good = -1};

static struct p2s_role_result role(uint64_t status, uint64_t rounds)
{
	struct p2s_role_result r = {.status = status, .rounds_done = rounds};

	return r;
}

static struct p2s_expect message(void)
{
	struct p2s_expect e = expect(0, 64 * 4096);

	e.leg = P2PSAFE_LEG_MP_PUSH;
	e.want.seed = p2s_seed(KEY, 1, 2, P2PSAFE_LEG_MP_PUSH, 0);
	e.earlier_count = 0;
	return e;
}

static void messages_in_order_are_ok(void **state)
{
	struct p2s_expect e = message();
	struct p2s_role_result w = role(P2S_ROLE_DONE, 64);
	struct p2s_role_result r = role(P2S_ROLE_DONE, 64);
	struct p2s_judgement j;

	(void)state;
	p2s_judge_mp(&e, &shape, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
	p2s_judge_mp(&e, &shape, NULL, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
	r.rounds_done = 63; /* one message is missing: never OK */
	p2s_judge_mp(&e, &shape, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
}

static void payload_behind_its_flag_is_reordered(void **state)
{
	struct p2s_expect e = message();
	struct p2s_role_result w = role(P2S_ROLE_DONE, 64);
	struct p2s_role_result r = role(P2S_ROLE_DONE, 64);
	struct p2s_mp_shape s = shape;
	struct p2s_judgement j;

	(void)state;
	r.bad_words = r.samples = 10;
	for (uint64_t i = 0; i < 10; i++)
		r.sample[i] = (struct p2s_sample){7 * 4096 + 8 * i, p2s_word(e.outside, (7 * 4096 + 8 * i) / 8)};
	p2s_judge_mp(&e, &shape, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_REORDERED);
	assert_int_equal(j.offset, 7 * 4096);
	assert_true(j.expected == p2s_word(p2s_seed_epoch(e.want.seed, 8), 7 * 4096 / 8));
	s.owner_good = 1; /* it came in the end */
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_REORDERED);
	s.owner_good = 0; /* it never came: no order of things */
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_DROPPED);
	for (uint64_t i = 0; i < 10; i++)
		r.sample[i].found = p2s_word(p2s_seed_epoch(e.want.seed, 8), r.sample[i].offset / 8) ^ 4;
	p2s_judge_mp(&e, &shape, &w, &r, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_BIT_ERROR);
}

/* Words that carry their flags: half old is torn, in words and in lines; none at all is dropped. */
static void own_flags(void **state)
{
	static const uint32_t modes[] = {P2S_LL_SINGLE, P2S_LL_PAIR, P2S_LL_LINE};
	struct p2s_expect e = message();
	struct p2s_role_result w = role(P2S_ROLE_DONE, 64);
	struct p2s_judgement j;

	(void)state;
	for (size_t m = 0; m < 3; m++) {
		struct p2s_mp_shape s = {
			.rounds = 64, .words = 64, .slot_bytes = 512, .own_flags = 1, .mode = modes[m], .owner_good = -1};
		struct p2s_role_result r = role(P2S_ROLE_DONE, 64);
		uint64_t seed = p2s_seed_epoch(e.want.seed, 8);
		uint64_t flag = p2s_word(seed, 7 * 512 / 8) >> 32 << 32;

		p2s_judge_mp(&e, &s, &w, &r, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
		r.bad_words = r.samples = 9;
		for (uint64_t i = 0; i < 9; i++) {
			uint64_t old = p2s_word(e.outside, 7 * 64 + i);

			r.sample[i] = (struct p2s_sample){7 * 512 + 8 * i, modes[m] == P2S_LL_LINE ? old : (old & UINT32_MAX) | flag};
		}
		p2s_judge_mp(&e, &s, &w, &r, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(j.damage, P2PSAFE_DAMAGE_TORN);
		assert_int_equal(j.offset, 7 * 512);
		assert_true(j.expected == (modes[m] == P2S_LL_LINE ? p2s_word(seed, 7 * 64) : (p2s_word(seed, 7 * 64) & UINT32_MAX) | flag));
		r = role(P2S_ROLE_TIMEOUT, 3);
		r.payload_bad = 64;
		r.flag_found = p2s_word(e.outside, 3 * 64);
		p2s_judge_mp(&e, &s, &w, &r, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(j.damage, P2PSAFE_DAMAGE_DROPPED);
	}
}

static void a_flag_that_never_came(void **state)
{
	struct p2s_expect e = message();
	struct p2s_role_result w = role(P2S_ROLE_DONE, 64);
	struct p2s_role_result r = role(P2S_ROLE_TIMEOUT, 3);
	struct p2s_mp_shape s = shape;
	uint64_t off = 3 * 4096 + 2048;
	struct p2s_judgement j;

	(void)state;
	s.owner_good = 0;
	r.flag_found = p2s_word(e.outside, off / 8);
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_DROPPED);
	assert_int_equal(j.offset, off);
	r.flag_found = 0;
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_ZEROS);
	s.owner_good = 1; /* late */
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_UNKNOWN);
	p2s_judge_mp(&e, &s, NULL, &r, &j); /* a process that was late with its copies */
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
	s.pull = 1;
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_STALE);
	w = role(P2S_ROLE_TIMEOUT, 3); /* the writer never got there: the reader proves nothing */
	p2s_judge_mp(&e, &s, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
}

/* What the reader waited for is there, and its writer took more than half of the reader's time, or never came to its end: once
 * more may tell. A writer that was there in time, or words that are not there, are damage. */
static void a_writer_that_was_late(void **state)
{
	static const struct {
		uint64_t writer, writer_ns;
		uint64_t bad;
		int owner_good;
		int late;
		int32_t verdict;
	} rows[] = {
		{P2S_ROLE_DONE, 101, 0, 1, 1, P2PSAFE_VERDICT_UNTESTED},    {P2S_ROLE_DONE, 100, 0, 1, 0, P2PSAFE_VERDICT_CORRUPT},
		{P2S_ROLE_DONE, 101, 0, 0, 0, P2PSAFE_VERDICT_CORRUPT},     {P2S_ROLE_DONE, 101, 0, -1, 0, P2PSAFE_VERDICT_CORRUPT},
		{P2S_ROLE_DONE, 101, 1, 1, 0, P2PSAFE_VERDICT_CORRUPT},     {P2S_ROLE_TIMEOUT, 200, 0, 1, 1, P2PSAFE_VERDICT_UNTESTED},
		{P2S_ROLE_TIMEOUT, 200, 0, 0, 0, P2PSAFE_VERDICT_CORRUPT},  {P2S_ROLE_ABORTED, 200, 0, 1, 0, P2PSAFE_VERDICT_CORRUPT},
	};
	struct p2s_expect e = message();

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		for (int pull = 0; pull < 4; pull++) {
			struct p2s_role_result w = role(rows[i].writer, 4);
			struct p2s_role_result r = role(P2S_ROLE_TIMEOUT, 3);
			struct p2s_mp_shape s = shape;
			struct p2s_judgement j;

			s.pull = pull & 1;
			s.own_flags = pull >> 1;
			s.owner_good = rows[i].owner_good;
			w.elapsed_ns = rows[i].writer_ns;
			r.elapsed_ns = 200;
			r.bad_words = r.samples = rows[i].bad;
			p2s_judge_mp(&e, &s, &w, &r, &j);
			if (p2s_judge_mp_late(&s, &w, &r) != rows[i].late || j.verdict != rows[i].verdict)
				fail_msg("row %zu, form %d: verdict %d", i, pull, j.verdict);
			assert_false(p2s_judge_mp_late(&s, NULL, &r));
			r.status = P2S_ROLE_DONE;
			assert_false(p2s_judge_mp_late(&s, &w, &r));
		}
	}
}

/* The last message of 1000 leaves at 2 ms: 20 us for the start and four messages' time are left to the reader. */
static void a_reader_that_came_behind(void **state)
{
	struct p2s_role_result w = role(P2S_ROLE_DONE, 1000);
	struct p2s_role_result r = role(P2S_ROLE_DONE, 1000);

	(void)state;
	w.elapsed_ns = 2000000;
	r.elapsed_ns = 2028000;
	r.polls = 63; /* looks that found no flag */
	assert_false(p2s_judge_mp_behind(1000, &w, &r));
	r.elapsed_ns = 2029000;
	assert_true(p2s_judge_mp_behind(1000, &w, &r));
	assert_false(p2s_judge_mp_behind(15, &w, &r));
	w.status = P2S_ROLE_TIMEOUT;
	assert_false(p2s_judge_mp_behind(1000, &w, &r));
	w.status = P2S_ROLE_DONE;
	r.status = P2S_ROLE_TIMEOUT;
	assert_false(p2s_judge_mp_behind(1000, &w, &r));
}

/* It got its GPU when all was sent: whoever never waits needs less time than its writer. */
static void a_reader_that_came_when_all_lay_there(void **state)
{
	struct p2s_role_result w = role(P2S_ROLE_DONE, 1000);
	struct p2s_role_result r = role(P2S_ROLE_DONE, 1000);

	(void)state;
	w.elapsed_ns = 2000000;
	r.elapsed_ns = 1500000;
	assert_true(p2s_judge_mp_behind(1000, &w, &r));
	r.polls = 61;
	assert_true(p2s_judge_mp_behind(1000, &w, &r));
	r.polls = 62;
	assert_false(p2s_judge_mp_behind(1000, &w, &r));
	r.polls = 0;
	assert_false(p2s_judge_mp_behind(15, &w, &r));
}

static void roles_that_did_not_run_are_untested(void **state)
{
	static const uint64_t list[] = {P2S_ROLE_NOT_RUN, P2S_ROLE_IDLE, P2S_ROLE_NO_GO, P2S_ROLE_ABORTED, 99};
	struct p2s_expect e = message();
	struct p2s_judgement j;

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		struct p2s_role_result w = role(P2S_ROLE_DONE, 64);
		struct p2s_role_result r = role(list[i], 64);

		p2s_judge_mp(&e, &shape, &w, &r, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
		p2s_judge_mp(&e, &shape, &r, &w, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
		r.seen_a = r.seen_b = 1;
		p2s_judge_tear(1, 2, &w, &r, &j);
		assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
	}
}

static void tearing(void **state)
{
	uint64_t a = p2s_seed(KEY, 1, 2, 7, 1);
	uint64_t b = p2s_seed(KEY, 1, 2, 7, 2);
	struct p2s_role_result w = role(P2S_ROLE_DONE, 100);
	struct p2s_role_result r = role(P2S_ROLE_DONE, 100);
	struct p2s_judgement j;

	(void)state;
	r.seen_a = 5;
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED); /* saw only one pattern: no power */
	r.seen_b = 5;
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
	r.bad_words = r.samples = 9;
	for (uint64_t i = 0; i < 9; i++)
		r.sample[i] = (struct p2s_sample){8 * i, (p2s_word(a, i) & 0xffffffff) | (p2s_word(b, i) & ~UINT64_C(0xffffffff))};
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_TORN);
	r = role(P2S_ROLE_TIMEOUT, 3);
	w.elapsed_ns = 1000000;
	r.elapsed_ns = 2000000;
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_DROPPED);
	assert_false(p2s_judge_tear_again(&w, &r, &j));
	/* The mark was not there yet. */
	w.elapsed_ns = 1000001;
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT); /* unless another look says more */
	assert_true(p2s_judge_tear_again(&w, &r, &j));
	r.bad_words = r.samples = 1;
	r.sample[0] = (struct p2s_sample){0, 1};
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_false(p2s_judge_tear_again(&w, &r, &j));
	w.status = P2S_ROLE_TIMEOUT;
	r = role(P2S_ROLE_TIMEOUT, 3);
	p2s_judge_tear(a, b, &w, &r, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_false(p2s_judge_tear_again(&w, &r, &j));
}

static void atomics(void **state)
{
	static const uint64_t start[2] = {UINT64_MAX - 3, 1000};
	static const uint64_t far[2] = {32, 4};
	static const uint64_t near[2] = {64, 8};
	uint64_t end[2] = {start[0] + 96, start[1] + 12};
	struct p2s_judgement j;

	(void)state;
	p2s_judge_atomic(start, end, far, near, 0, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_OK);
	end[0] = start[0] + 64; /* only the owner's */
	p2s_judge_atomic(start, end, far, near, 0, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_DROPPED);
	end[0] = start[0] + 96;
	end[1]--;
	p2s_judge_atomic(start, end, far, near, 0, &j);
	assert_int_equal(j.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(j.offset, 8);
}

static void error_bound(void **state)
{
	(void)state;
	assert_int_equal(p2s_judge_bound_ppb(0), 0);
	assert_int_equal(p2s_judge_bound_ppb(1), 1000000000);
	assert_int_equal(p2s_judge_bound_ppb(2048), 1464844);
	assert_int_equal(p2s_judge_bound_ppb(3000000000), 1);
}

static void every_pair_meets_once(void **state)
{
	(void)state;
	assert_int_equal(p2s_schedule_rounds(0), 0);
	assert_int_equal(p2s_schedule_rounds(1), 0);
	for (uint32_t n = 2; n <= 64; n++) {
		static unsigned met[64][64];
		uint32_t rounds = p2s_schedule_rounds(n);

		memset(met, 0, sizeof met);
		assert_int_equal(rounds, n % 2 == 0 ? n - 1 : n);
		for (uint32_t r = 0; r < rounds; r++) {
			unsigned busy[64] = {0};
			uint32_t pairs = 0;

			for (uint32_t i = 0; i < (n + 1) / 2; i++) {
				uint32_t a, b;

				if (!p2s_schedule_pair(n, r, i, &a, &b))
					continue;
				assert_true(a < b && b < n);
				assert_int_equal(busy[a]++, 0);
				assert_int_equal(busy[b]++, 0);
				met[a][b]++;
				pairs++;
			}
			assert_int_equal(pairs, n / 2);
		}
		for (uint32_t a = 0; a < n; a++)
			for (uint32_t b = a + 1; b < n; b++)
				assert_int_equal(met[a][b], 1);
	}
}

/* Whoever comes last has as much time as whoever came first, and more when the others were quick. */
static void time_is_split_evenly(void **state)
{
	(void)state;
	for (uint32_t parts = 1; parts <= 64; parts++) {
		const uint64_t end = 1000 + 7000 * parts;
		uint64_t slow = 1000;
		uint64_t quick = 1000;
		uint64_t until;

		for (uint32_t left = parts; left > 0; left--) {
			until = p2s_schedule_until(slow, end, left);
			assert_int_equal(until - slow, 7000);
			slow = until;
			until = p2s_schedule_until(quick, end, left);
			assert_true(until - quick >= 7000 && until <= end);
			quick += 1000;
		}
		assert_int_equal(slow, end);
	}
	assert_int_equal(p2s_schedule_until(5, 5, 3), 5);
	assert_int_equal(p2s_schedule_until(9, 5, 3), 5);
	assert_int_equal(p2s_schedule_until(1, 5, 0), 5);
	assert_int_equal(p2s_schedule_until(0, UINT64_MAX, 2), UINT64_MAX / 2);
}

static uint64_t f_behind(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o - 24);
}

static uint64_t f_alias(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o ^ 512);
}

static uint64_t f_one_lane(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o) ^ UINT64_C(1) << 37;
}

static uint64_t f_lanes(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(e->want.seed, o) ^ (o % 2 ? UINT64_C(0x100) : UINT64_C(0x10));
}

static uint64_t f_upper_old(const struct p2s_expect *e, uint64_t o)
{
	return (p2s_word(e->want.seed, o) & UINT32_MAX) | p2s_word(e->outside, o) >> 32 << 32;
}

static uint64_t f_others(const struct p2s_expect *e, uint64_t o)
{
	return p2s_word(p2s_seed(e->want.key, 3, 0, P2PSAFE_LEG_SM_STORE, 5), o);
}

/* By how much, which bit, which half, whose: the words for people and the numbers behind them. */
static void test_says(void **state)
{
	struct p2s_expect e = expect(0, 1 << 20);
	struct p2s_sample s[40];
	struct p2s_judgement j = judge(&e, 12, f_behind);
	size_t i;

	(void)state;
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_SHIFTED);
	assert_int_equal(j.moved, 192);
	assert_string_equal(j.said, "arrived 192 bytes behind its place");
	j = judge(&e, 12, f_alias);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_ALIASED);
	assert_string_equal(j.said, "address bit 12 is lost: what is 0x1000 bytes apart shares one place");
	j = judge(&e, 12, f_one_lane);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_BIT_ERROR);
	assert_true(j.bits == UINT64_C(1) << 37);
	assert_string_equal(j.said, "bit 37 of the 8-byte words");
	j = judge(&e, 12, f_lanes);
	assert_string_equal(j.said, "bits among 0x0000000000000110 of the 8-byte words");
	j = judge(&e, 12, f_upper_old);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_TORN);
	assert_string_equal(j.said, "lower half of the 8-byte words new, the other old");
	j = judge(&e, 12, f_others);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_MISDIRECTED);
	assert_string_equal(j.said, "bytes meant for 3>0 lie here");
	/* Moved by a power of two as a whole: some words far away show that it is no lost address bit. */
	for (i = 0; i < 40; i++) {
		uint64_t o = i < 32 ? i : 512 + i;

		s[i] = (struct p2s_sample){8 * o, p2s_word(e.want.seed, o + 512)};
	}
	p2s_judge_check(&e, 5000, 0, s, 32, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_ALIASED);
	p2s_judge_check(&e, 5000, 0, s, 40, &j);
	assert_int_equal(j.damage, P2PSAFE_DAMAGE_SHIFTED);
	assert_int_equal(j.moved, -4096);
	assert_string_equal(j.said, "arrived 4096 bytes before its place");
}

/* Every order of two results of a leg, in the first pass and in a repetition. */
static void what_failed_once_stays_failed(void **state)
{
	static const struct {
		int32_t before;
		int32_t now;
		int told;
		int32_t known;
	} list[] = {
		{P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_OK, 1, P2PSAFE_VERDICT_OK},
		{P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNTESTED, 0, P2PSAFE_VERDICT_OK},
		{P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_CORRUPT, 1, P2PSAFE_VERDICT_CORRUPT},
		{P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_ERROR, 1, P2PSAFE_VERDICT_ERROR},
		{P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_OK, 0, P2PSAFE_VERDICT_CORRUPT},
		{P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_HANG, 0, P2PSAFE_VERDICT_CORRUPT},
		{P2PSAFE_VERDICT_HANG, P2PSAFE_VERDICT_CORRUPT, 1, P2PSAFE_VERDICT_CORRUPT},
		{P2PSAFE_VERDICT_ERROR, P2PSAFE_VERDICT_UNTESTED, 0, P2PSAFE_VERDICT_ERROR},
		{P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_OK, 1, P2PSAFE_VERDICT_OK},
		{P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_CORRUPT, 1, P2PSAFE_VERDICT_CORRUPT},
		{P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_UNTESTED, 1, P2PSAFE_VERDICT_UNTESTED},
	};

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		struct p2s_lib_leg first = {.verdict = list[i].before, .bytes = 100, .rounds = 10, .coverage_bytes = 64};
		struct p2s_lib_leg next = {.verdict = list[i].now, .bytes = 50, .rounds = 20, .coverage_bytes = 32};
		struct p2s_tally kept = {0};

		assert_int_equal(p2s_tally_add(&kept, &first, 1), 1);
		assert_int_equal(first.rounds, 10);
		assert_int_equal(p2s_tally_add(&kept, &next, 1), list[i].told);
		assert_int_equal(kept.verdict, list[i].known);
		if (list[i].before == P2PSAFE_VERDICT_OK && list[i].told) {
			assert_int_equal(next.rounds, 30);
			assert_int_equal(next.bytes, 150);
			assert_int_equal(next.coverage_bytes, 64);
			assert_int_equal(next.error_bound_ppb, list[i].now == P2PSAFE_VERDICT_OK ? p2s_judge_bound_ppb(30) : 0);
		}
		/* Within one pass the last result counts. */
		memset(&kept, 0, sizeof kept);
		assert_int_equal(p2s_tally_add(&kept, &first, 0), 1);
		next.rounds = 20;
		assert_int_equal(p2s_tally_add(&kept, &next, 0), 1);
		assert_int_equal(kept.verdict, list[i].now);
		assert_int_equal(next.rounds, 20);
	}
}

/* Who must share CPUs does not burn them: a mask, or a limit on CPU time, counts like CPUs that are not there. */
static void cpus_to_spare(void **state)
{
	static const struct {
		const char *text;
		uint32_t cpus;
	} list[] = {{"max 100000\n", UINT32_MAX}, {"400000 100000\n", 4}, {"150000 100000\n", 1}, {"50000 100000\n", 0},
	            {"-1\n100000\n", UINT32_MAX}, {"400000\n100000\n", 4}, {"", 0}, {"max", UINT32_MAX}, {"maximal", 0},
	            {"400000", 0}, {"400000 0\n", 0}, {"400000 x\n", 0}, {"-2 100000\n", 0}, {"99999999999999999999 1\n", 0}};
	static const struct {
		uint32_t cpus, gpus;
		int enough;
	} rule[] = {{0, 2, 0},  {2, 2, 0},  {7, 2, 0},   {8, 2, 1},   {8, 4, 1},
	            {8, 5, 0},  {16, 8, 1}, {31, 16, 0}, {32, 16, 1}, {UINT32_MAX, 16, 1}};
	cpu_set_t before, one;
	uint32_t all = p2s_cpus_allowed();

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		assert_int_equal(p2s_cpus_quota(list[i].text), list[i].cpus);
	for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
		assert_int_equal(p2s_cpus_enough(rule[i].cpus, rule[i].gpus), rule[i].enough);
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	assert_true(all <= (uint32_t)CPU_COUNT(&before));
	CPU_ZERO(&one);
	for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(p2s_cpus_allowed(), all > 0 ? 1 : 0);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says),
		cmocka_unit_test(names_every_damage),
		cmocka_unit_test(one_bit_is_never_taken_for_another_damage),
		cmocka_unit_test(clean_is_ok_and_bad_without_samples_is_not),
		cmocka_unit_test(a_name_needs_eight_words),
		cmocka_unit_test(borders_are_judged_by_the_byte),
		cmocka_unit_test(messages_in_order_are_ok),
		cmocka_unit_test(payload_behind_its_flag_is_reordered),
		cmocka_unit_test(own_flags),
		cmocka_unit_test(a_flag_that_never_came),
		cmocka_unit_test(a_writer_that_was_late),
		cmocka_unit_test(a_reader_that_came_behind),
		cmocka_unit_test(a_reader_that_came_when_all_lay_there),
		cmocka_unit_test(roles_that_did_not_run_are_untested),
		cmocka_unit_test(tearing),
		cmocka_unit_test(atomics),
		cmocka_unit_test(error_bound),
		cmocka_unit_test(every_pair_meets_once),
		cmocka_unit_test(time_is_split_evenly),
		cmocka_unit_test(what_failed_once_stays_failed),
		cmocka_unit_test(cpus_to_spare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
