/* What a new record takes along from the one that it replaces. */
#include "unit.h"

#include "kept/carry.h"
#include "rules/rules.h"

#define OK P2PSAFE_VERDICT_OK
#define BAD P2PSAFE_VERDICT_CORRUPT
#define HANG P2PSAFE_VERDICT_HANG
#define ERROR P2PSAFE_VERDICT_ERROR
#define SLOW P2PSAFE_VERDICT_DEGRADED
#define NOT P2PSAFE_VERDICT_UNTESTED
#define NO P2PSAFE_VERDICT_UNSUPPORTED

#define GPUS 4

/* GPUs first to last are the group; all its pairs passed, but one says what we want. */
static void make(struct p2s_record *r, int32_t first, int32_t last, int32_t src, int32_t dst, int32_t verdict)
{
	struct p2s_model m;
	struct p2s_host h = {0};

	unit_model(&m, GPUS, OK);
	for (int32_t i = 0; i < GPUS; i++)
		m.gpus[i].in_group = i >= first && i <= last;
	p2s_model_drop_outsiders(&m);
	m.nccl_level = P2PSAFE_PATH_PXB;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	assert_int_equal(p2s_record_from_model(r, &m, &h, NULL), 1);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		r->verdict[(src * GPUS + dst) * P2S_CONSUMERS + c] = (unsigned char)verdict;
	p2s_model_free(&m);
}

static int32_t at(const struct p2s_record *r, int32_t src, int32_t dst)
{
	return r->verdict[(src * GPUS + dst) * P2S_CONSUMERS + P2PSAFE_CONSUMER_NCCL_P2P];
}

static int32_t pair_at(const struct p2s_record *r, int32_t src, int32_t dst)
{
	return r->verdict[(src * GPUS + dst) * P2S_CONSUMERS];
}

static void pair_by_pair(void **state)
{
	/* What was, what is, what is kept; measured: the new run has numbers. */
	static const struct {
		int32_t was, is, measured, want;
	} rows[] = {{BAD, OK, 0, BAD},   {BAD, OK, 1, BAD},     {HANG, OK, 1, HANG}, {ERROR, OK, 1, ERROR}, {BAD, NOT, 0, BAD},
	            {BAD, HANG, 0, BAD}, {HANG, BAD, 0, BAD},   {BAD, NO, 0, BAD},   {OK, BAD, 0, BAD},     {OK, OK, 0, OK},
	            {OK, NOT, 0, NOT},   {NOT, OK, 0, OK},      {NO, OK, 0, OK},     {SLOW, OK, 0, SLOW},   {SLOW, OK, 1, OK},
	            {SLOW, NOT, 0, NOT}, {BAD, SLOW, 1, BAD}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_record old;
		struct p2s_record now;
		int32_t worse;

		make(&old, 0, 3, 1, 2, rows[i].was);
		make(&now, 0, 3, 1, 2, rows[i].is);
		now.measured = rows[i].measured;
		worse = p2s_carry_failures(&now, &old);
		if (at(&now, 1, 2) != rows[i].want || worse != (rows[i].want != rows[i].is || rows[i].was == HANG))
			fail_msg("row %zu: %d, worse %d", i, at(&now, 1, 2), worse);
		/* a HANG is seen behind what is worse */
		if ((rows[i].was == HANG || rows[i].is == HANG) && pair_at(&now, 1, 2) != HANG)
			fail_msg("row %zu: the pair is %d", i, pair_at(&now, 1, 2));
		/* NCCL's level was found among pairs that all passed */
		assert_int_equal(now.nccl_level, worse ? P2PSAFE_PATH_UNKNOWN : P2PSAFE_PATH_PXB);
		assert_int_equal(at(&now, 2, 1), OK);
		p2s_record_free(&old);
		p2s_record_free(&now);
	}
}

/* Passes count only if they looked at what failed, were thorough enough, and nothing else failed. */
static void passes(void **state)
{
	static const struct {
		int32_t was, passes, first, last, level, also; /* also: another pair fails now */
		int32_t want, want_passes;
	} rows[] = {
		{BAD, 0, 0, 3, P2PSAFE_LEVEL_STANDARD, 0, BAD, 1},
		{BAD, 1, 0, 3, P2PSAFE_LEVEL_STANDARD, 0, BAD, 2},
		{BAD, 2, 0, 3, P2PSAFE_LEVEL_STANDARD, 0, OK, 0},
		{BAD, 2, 0, 3, P2PSAFE_LEVEL_QUICK, 0, BAD, 2},
		{BAD, 1, 0, 3, P2PSAFE_LEVEL_THOROUGH, 0, BAD, 2},
		{BAD, 2, 0, 3, P2PSAFE_LEVEL_STANDARD, 1, OK, 0},
		{BAD, 1, 0, 3, P2PSAFE_LEVEL_STANDARD, 1, BAD, 0},
		{HANG, 2, 0, 3, P2PSAFE_LEVEL_STANDARD, 0, HANG, 3},
		{HANG, 99, 0, 3, P2PSAFE_LEVEL_THOROUGH, 0, HANG, 100},
		{BAD, 2, 2, 3, P2PSAFE_LEVEL_STANDARD, 0, BAD, 0}, /* it failed elsewhere */
		{BAD, 9, 0, 1, P2PSAFE_LEVEL_STANDARD, 0, BAD, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_record old;
		struct p2s_record now;

		make(&old, 0, 3, 1, 2, rows[i].was);
		old.passes = rows[i].passes;
		make(&now, rows[i].first, rows[i].last, 3, 0, rows[i].also ? BAD : OK);
		now.level = rows[i].level;
		p2s_carry_failures(&now, &old);
		if (at(&now, 1, 2) != rows[i].want || now.passes != rows[i].want_passes)
			fail_msg("row %zu: %d, %d passes", i, at(&now, 1, 2), now.passes);
		p2s_record_free(&old);
		p2s_record_free(&now);
	}
}

/* A pair that comes back into the group brings its failure, and none of the passes that others had. */
static void there_and_back(void **state)
{
	struct p2s_record a;
	struct p2s_record b;
	struct p2s_record c;

	(void)state;
	make(&a, 0, 1, 0, 1, BAD);
	a.passes = 2;
	make(&b, 2, 3, 2, 3, OK);
	assert_int_equal(p2s_carry_failures(&b, &a), 0); /* none of its own */
	assert_int_equal(p2s_record_worst(&b), OK);
	assert_int_equal(b.nccl_level, P2PSAFE_PATH_PXB);
	b.passes = 2;
	make(&c, 0, 3, 0, 3, OK);
	assert_int_equal(p2s_carry_failures(&c, &b), 1);
	assert_int_equal(at(&c, 0, 1), BAD);
	assert_int_equal(c.passes, 1);
	/* another card in the place of one of them */
	p2s_record_free(&c);
	make(&c, 0, 3, 0, 3, OK);
	c.gpus[1].bars[0] = '9';
	assert_int_equal(p2s_carry_failures(&c, &b), 0);
	assert_int_equal(at(&c, 0, 1), OK);
	p2s_record_free(&a);
	p2s_record_free(&b);
	p2s_record_free(&c);
}

/* What stays learns what failed elsewhere, and what a GPU that ended left untested; a run that says nothing new leaves it
 * alone. */
static void what_stays_learns(void **state)
{
	/* what is kept of 2>3, what a run of these two alone says */
	static const struct {
		int32_t was, is, ended, want, changed;
	} rows[] = {{OK, OK, 0, OK, 0},    {OK, BAD, 0, BAD, 1},    {OK, ERROR, 0, ERROR, 1},  {OK, HANG, 0, HANG, 1},
				{OK, NOT, 0, OK, 0},   {OK, NOT, 1, NOT, 1},    {SLOW, NOT, 1, NOT, 1},    {NO, NOT, 1, NOT, 1},
				{BAD, NOT, 1, BAD, 0}, {HANG, NOT, 1, HANG, 0}, {NOT, NOT, 1, NOT, 0},     {OK, OK, 1, OK, 0},
				{BAD, OK, 0, BAD, 0},  {BAD, BAD, 0, BAD, 0},   {HANG, ERROR, 0, HANG, 0}, {ERROR, BAD, 0, BAD, 1},
				{NOT, OK, 0, NOT, 0},  {NOT, BAD, 0, BAD, 1},   {OK, SLOW, 0, OK, 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int32_t before = 0; before <= 2; before += 2) {
			int32_t says = p2s_rules_is_bad(rows[i].is) || (rows[i].ended && rows[i].is == NOT);
			struct p2s_record kept;
			struct p2s_record run;
			int32_t changed;

			make(&kept, 0, 3, 2, 3, rows[i].was);
			make(&run, 2, 3, 2, 3, rows[i].is);
			kept.passes = before;
			run.gpu_ended = rows[i].ended;
			changed = p2s_carry_add(&kept, &run);
			if (at(&kept, 2, 3) != rows[i].want || changed != (rows[i].changed || (says && before > 0)))
				fail_msg("row %zu: %d, changed %d", i, at(&kept, 2, 3), changed);
			assert_int_equal(kept.passes, says ? 0 : before);
			assert_int_equal(kept.nccl_level, rows[i].changed ? P2PSAFE_PATH_UNKNOWN : P2PSAFE_PATH_PXB);
			assert_int_equal(at(&kept, 3, 2), OK);
			assert_int_equal(at(&kept, 0, 1), OK);
			p2s_record_free(&kept);
			p2s_record_free(&run);
		}
	}
}

/* Another card, and words that were seen torn. */
static void what_stays_learns_of_its_own_cards(void **state)
{
	struct p2s_record kept;
	struct p2s_record run;

	(void)state;
	make(&kept, 0, 3, 2, 3, OK);
	make(&run, 2, 3, 2, 3, BAD);
	run.gpus[3].bars[0] = '9';
	assert_int_equal(p2s_carry_add(&kept, &run), 0);
	assert_int_equal(at(&kept, 2, 3), OK);
	run.torn_lines = 1;
	assert_int_equal(p2s_carry_add(&kept, &run), 1);
	assert_int_equal(kept.torn_lines, 1);
	assert_int_equal(kept.nccl_level, P2PSAFE_PATH_PXB);
	assert_int_equal(p2s_carry_add(&kept, &run), 0);
	p2s_record_free(&kept);
	p2s_record_free(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pair_by_pair), cmocka_unit_test(passes),
									   cmocka_unit_test(there_and_back), cmocka_unit_test(what_stays_learns),
									   cmocka_unit_test(what_stays_learns_of_its_own_cards)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
