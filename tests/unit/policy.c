/* What may replace what. */
#include "unit.h"

#include "kept/policy.h"
#include "rules/rules.h"

static void make(struct p2s_record *r, int32_t n, int32_t verdict, int32_t level)
{
	struct p2s_model m;
	struct p2s_host h = {0};

	unit_model(&m, n, verdict);
	m.level = level;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_record_from_model(r, &m, &h, NULL), 1);
	p2s_model_free(&m);
}

#define Q P2PSAFE_LEVEL_QUICK
#define S P2PSAFE_LEVEL_STANDARD
#define OK P2PSAFE_VERDICT_OK
#define BAD P2PSAFE_VERDICT_CORRUPT
#define HANG P2PSAFE_VERDICT_HANG
#define SLOW P2PSAFE_VERDICT_DEGRADED
#define NOT P2PSAFE_VERDICT_UNTESTED

static void table(void **state)
{
	static const struct {
		int32_t old_n, old_v, old_level, valid, new_n, new_v, new_level, passes;
		enum p2s_policy want;
	} rows[] = {
		{4, OK, S, 0, 2, NOT, Q, 0, P2S_POLICY_REPLACE},    /* the old one speaks of another machine */
		{4, OK, S, 1, 4, OK, S, 0, P2S_POLICY_REPLACE},     /* fresher */
		{4, OK, S, 1, 4, OK, Q, 0, P2S_POLICY_KEEP},        /* lower level */
		{4, OK, S, 1, 2, OK, S, 0, P2S_POLICY_KEEP},        /* narrower */
		{4, OK, S, 1, 2, BAD, Q, 0, P2S_POLICY_REPLACE},    /* worse always counts */
		{4, OK, S, 1, 4, NOT, S, 0, P2S_POLICY_KEEP},       /* not tested outweighs nothing */
		{4, BAD, S, 1, 4, OK, S, 0, P2S_POLICY_COUNT_PASS}, /* one good run is not enough */
		{4, BAD, S, 1, 4, OK, S, 1, P2S_POLICY_COUNT_PASS},
		{4, BAD, S, 1, 4, OK, S, 2, P2S_POLICY_REPLACE}, /* the third is */
		{4, BAD, S, 1, 4, OK, Q, 2, P2S_POLICY_KEEP},    /* of at least its level */
		{4, BAD, Q, 1, 4, OK, S, 0, P2S_POLICY_REPLACE}, /* says more, and takes the failure along */
		{2, BAD, S, 1, 4, OK, S, 0, P2S_POLICY_REPLACE},
		{4, BAD, S, 1, 4, NOT, S, 2, P2S_POLICY_KEEP},
		{4, HANG, S, 1, 4, OK, S, 9, P2S_POLICY_KEEP}, /* for this boot */
		{4, HANG, S, 0, 4, OK, S, 0, P2S_POLICY_REPLACE},
		{4, SLOW, S, 1, 4, OK, S, 0, P2S_POLICY_KEEP}, /* without measuring nobody knows that it got faster */
		{4, OK, S, 1, 4, SLOW, S, 0, P2S_POLICY_REPLACE},
		{4, NOT, S, 1, 4, OK, Q, 0, P2S_POLICY_REPLACE},
		{4, NOT, S, 1, 4, NOT, S, 0, P2S_POLICY_REPLACE},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_record old;
		struct p2s_record now;
		enum p2s_policy got;

		make(&old, rows[i].old_n, rows[i].old_v, rows[i].old_level);
		make(&now, rows[i].new_n, rows[i].new_v, rows[i].new_level);
		old.passes = rows[i].passes;
		got = p2s_policy_replace(&old, rows[i].valid, &now);
		if (got != rows[i].want)
			fail_msg("row %zu: %d, expected %d", i, got, rows[i].want);
		p2s_record_free(&old);
		p2s_record_free(&now);
	}
}

/* A failure beside pairs that nobody tested: who tested them says more. */
static void a_pass_over_what_was_left_untested(void **state)
{
	struct p2s_record old;
	struct p2s_record now;

	(void)state;
	make(&old, 4, BAD, S);
	make(&now, 4, OK, S);
	assert_int_equal(p2s_policy_replace(&old, 1, &now), P2S_POLICY_COUNT_PASS);
	old.verdict[(1 * 4 + 2) * P2S_CONSUMERS] = NOT;
	assert_int_equal(p2s_policy_replace(&old, 1, &now), P2S_POLICY_REPLACE);
	old.gpus[2].tested = 0; /* a cell that no answer shows; the new one is wider then, too */
	assert_int_equal(p2s_policy_replace(&old, 1, &now), P2S_POLICY_REPLACE);
	now.gpus[2].tested = 0;
	assert_int_equal(p2s_policy_replace(&old, 1, &now), P2S_POLICY_COUNT_PASS);
	p2s_record_free(&old);
	p2s_record_free(&now);
}

/* A GPU that hung before anything of its pairs ran leaves them untested: an earlier pass does not cover that, whatever was asked
 * for then; an earlier failure says more. */
static void a_gpu_that_ended_outweighs_a_pass(void **state)
{
	static const int32_t before[] = {OK, SLOW, P2PSAFE_VERDICT_UNSUPPORTED, BAD, HANG, NOT};

	(void)state;
	for (size_t i = 0; i < COUNT(before); i++) {
		struct p2s_record old;
		struct p2s_record now;

		make(&old, 4, before[i], S);
		make(&now, 2, NOT, Q);
		assert_int_equal(p2s_policy_replace(&old, 1, &now), P2S_POLICY_KEEP);
		now.gpu_ended = 1;
		assert_int_equal(p2s_policy_replace(&old, 1, &now), i < 3 ? P2S_POLICY_REPLACE : P2S_POLICY_KEEP);
		p2s_record_free(&old);
		p2s_record_free(&now);
	}
}

/* A simulated host that is given the folder of a machine leaves what is there; the machine takes no notice of it. */
static void a_simulated_answer_replaces_no_real_one(void **state)
{
	static const int32_t verdicts[] = {OK, SLOW, NOT, BAD, HANG};

	(void)state;
	for (size_t i = 0; i < COUNT(verdicts) * COUNT(verdicts) * 2; i++) {
		struct p2s_record real;
		struct p2s_record sim;

		make(&real, 2, verdicts[i / 2 % COUNT(verdicts)], Q);
		make(&sim, 4, verdicts[i / 2 / COUNT(verdicts)], S);
		sim.simulated = 1;
		assert_int_equal(p2s_policy_replace(&real, (int32_t)i % 2, &sim), P2S_POLICY_KEEP);
		assert_int_equal(p2s_policy_replace(&sim, 0, &real), P2S_POLICY_REPLACE);
		p2s_record_free(&real);
		p2s_record_free(&sim);
	}
}

/* A test without measuring does not take numbers away, unless it says something new. */
static void numbers_stay(void **state)
{
	static const struct {
		int32_t old_n, new_n, new_v, new_level, old_measured, new_measured;
		enum p2s_policy want;
	} rows[] = {
		{4, 4, OK, S, 1, 0, P2S_POLICY_KEEP},    {4, 4, OK, S, 1, 1, P2S_POLICY_REPLACE},
		{4, 4, OK, S, 0, 0, P2S_POLICY_REPLACE}, {4, 4, BAD, S, 1, 0, P2S_POLICY_REPLACE},
		{2, 4, OK, S, 1, 0, P2S_POLICY_REPLACE}, {4, 4, OK, P2PSAFE_LEVEL_THOROUGH, 1, 0, P2S_POLICY_REPLACE},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_record old;
		struct p2s_record now;

		make(&old, rows[i].old_n, OK, S);
		make(&now, rows[i].new_n, rows[i].new_v, rows[i].new_level);
		old.measured = rows[i].old_measured;
		now.measured = rows[i].new_measured;
		if (p2s_policy_replace(&old, 1, &now) != rows[i].want)
			fail_msg("row %zu", i);
		p2s_record_free(&old);
		p2s_record_free(&now);
	}
}

static void when_to_try_again(void **state)
{
	static const int64_t after[] = {60, 300, 1800, 3600, 3600, 3600};
	static const int64_t odd[] = {INT64_MIN, INT64_MAX}; /* what a file may hold and a clock may show */
	struct p2s_record r;

	(void)state;
	make(&r, 2, NOT, S);
	r.created_unix = 1000000;
	for (size_t i = 0; i < COUNT(after); i++) {
		r.retries = (int32_t)i;
		assert_int_equal(p2s_policy_retry(&r, 1000000 + after[i] - 1), 0);
		assert_int_equal(p2s_policy_retry(&r, 1000000 + after[i]), 1);
	}
	assert_int_equal(p2s_policy_retry(&r, 999999), 1); /* the clock was set back */
	for (size_t i = 0; i < COUNT(odd); i++) {
		r.created_unix = odd[i];
		assert_int_equal(p2s_policy_retry(&r, odd[i]), 0);
		assert_int_equal(p2s_policy_retry(&r, odd[COUNT(odd) - 1 - i]), 1); /* and forward, as far as it goes */
	}
	p2s_record_free(&r);
	make(&r, 2, OK, S);
	assert_int_equal(p2s_policy_retry(&r, INT64_MAX), 0);
	p2s_record_free(&r);
	make(&r, 2, BAD, S);
	assert_int_equal(p2s_policy_retry(&r, INT64_MAX), 0);
	p2s_record_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(table),
									   cmocka_unit_test(a_pass_over_what_was_left_untested),
									   cmocka_unit_test(a_gpu_that_ended_outweighs_a_pass),
									   cmocka_unit_test(a_simulated_answer_replaces_no_real_one),
									   cmocka_unit_test(numbers_stay),
									   cmocka_unit_test(when_to_try_again)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
