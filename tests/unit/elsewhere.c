/* What other folders keep of this machine's failures, as root's and a user's. */
#define _GNU_SOURCE
#include "unit.h"

#include "api/hit.h"
#include "kept/store.h"
#include "rules/rules.h"
#include "trusted.h"

#define OK P2PSAFE_VERDICT_OK
#define BAD P2PSAFE_VERDICT_CORRUPT
#define NOT P2PSAFE_VERDICT_UNTESTED

/* GPUs first to 3 of 4 are the group and all its pairs say the same. */
static void make(struct p2s_record *r, struct p2s_model *m, int32_t first, int32_t verdict)
{
	struct p2s_host h = {.boot_id = "boot-1"};

	unit_model(m, 4, verdict);
	for (int32_t i = 0; i < first; i++)
		m->gpus[i].in_group = 0;
	p2s_model_drop_outsiders(m);
	assert_int_equal(p2s_rules_judge(m, NULL), 1);
	assert_int_equal(p2s_record_from_model(r, m, &h, NULL), 1);
}

static int32_t at(const struct p2s_record *r, int32_t src, int32_t dst)
{
	return r->verdict[(size_t)(src * 4 + dst) * P2S_CONSUMERS + P2PSAFE_CONSUMER_NCCL_P2P];
}

static void put(int dir, uint64_t generation, int32_t verdict, int32_t ended, const char *boot)
{
	struct p2s_record r;
	struct p2s_model m;

	make(&r, &m, 2, verdict);
	r.gpu_ended = ended;
	r.created_unix = 2000;
	r.retries = 2;
	snprintf(r.boot_id, sizeof r.boot_id, "%s", boot);
	assert_int_equal(p2s_store_publish(dir, &r, generation, NULL), 1);
	p2s_record_free(&r);
	p2s_model_free(&m);
}

/* Our record says that all four passed. Another folder has one of 2>3 only; broken: and a newer one there cannot be read. */
static void learn(void **state)
{
	static const struct {
		int32_t verdict, ended;
		const char *boot;
		int broken, ours; /* ours: it is the folder that we write */
		int32_t usable, want;
	} rows[] = {{OK, 0, "boot-1", 0, 0, 1, OK},   {BAD, 0, "boot-1", 0, 0, 1, BAD}, {BAD, 0, "boot-2", 0, 0, 1, OK},
				{NOT, 0, "boot-1", 0, 0, 1, OK},  {NOT, 1, "boot-1", 0, 0, 1, NOT}, {NOT, 1, "boot-2", 0, 0, 1, OK},
				{BAD, 0, "boot-1", 1, 0, 1, BAD}, {OK, 0, "boot-1", 1, 0, 1, OK},   {OK, 0, "boot-1", 0, 1, 1, OK},
				{BAD, 0, "boot-1", 0, 1, 1, BAD}, {OK, 0, "boot-1", 1, 1, 0, OK}};
	struct place *p = *state;

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_session s = {.host = {.boot_id = "boot-1"}};
		struct p2s_places places = {.count = 2, .write = rows[i].ours};
		struct p2s_record r;
		struct p2s_model m;
		int32_t worse;

		assert_true(p2s_store_clear(p->dir) >= 0);
		places.place[0].fd = -1; /* where r comes from: it is not asked again */
		places.place[1].fd = p->dir;
		put(p->dir, 1, rows[i].verdict, rows[i].ended, rows[i].boot);
		if (rows[i].broken)
			assert_int_equal(p2s_store_stop(p->dir, 2, 0), 1);
		make(&r, &m, 0, OK);
		r.created_unix = 1000;
		if (p2s_hit_learn(&s, &m, &places, 0, &r, &worse) != rows[i].usable)
			fail_msg("row %zu: usable", i);
		if (rows[i].usable && (at(&r, 2, 3) != rows[i].want || worse != (rows[i].want != OK)))
			fail_msg("row %zu: %d, worse %d", i, at(&r, 2, 3), worse);
		assert_int_equal(at(&r, 0, 1), OK);
		assert_int_equal(r.created_unix, rows[i].want != OK ? 2000 : 1000);
		assert_int_equal(r.retries, rows[i].want != OK ? 2 : 0);
		/* a folder does not teach itself */
		assert_int_equal(p2s_hit_learn(&s, &m, &places, 1, &r, &worse), 1);
		assert_int_equal(worse, 0);
		p2s_record_free(&r);
		p2s_model_free(&m);
	}
}

/* Nothing there at all, or no such folder. */
static void nothing_there(void **state)
{
	struct place *p = *state;

	for (int i = 0; i < 2; i++) {
		struct p2s_session s = {.host = {.boot_id = "boot-1"}};
		struct p2s_places places = {.count = 2, .write = 1};
		struct p2s_record r;
		struct p2s_model m;
		int32_t worse;

		places.place[0].fd = -1;
		places.place[1].fd = i ? p->dir : -1;
		make(&r, &m, 0, OK);
		assert_int_equal(p2s_hit_learn(&s, &m, &places, 0, &r, &worse), 1);
		assert_int_equal(worse, 0);
		p2s_record_free(&r);
		p2s_model_free(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(learn, setup, teardown),
									   cmocka_unit_test_setup_teardown(nothing_there, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
