/* Transport, islands, ordinals. */
#include "unit.h"

#include "choose/choose.h"
#include "rules/rules.h"

static void set(struct p2s_model *m, int32_t a, int32_t b, int32_t verdict)
{
	p2s_model_pair(m, a, b)->verdict = verdict;
}

static void judged(struct p2s_model *m, int32_t n)
{
	unit_model(m, n, P2PSAFE_VERDICT_OK);
	p2s_rules_judge(m, NULL);
}

static void transport(void **state)
{
	struct p2s_model m;

	(void)state;
	judged(&m, 2);
	assert_int_equal(p2s_choose(&m), 1);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_NVLINK);
	m.pairs[0].path = P2PSAFE_PATH_PHB;
	p2s_choose(&m);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_PCIE);
	/* one direction is not enough: both get the staged path */
	set(&m, 1, 0, P2PSAFE_VERDICT_CORRUPT);
	p2s_choose(&m);
	assert_int_equal(m.pairs[0].transport, P2PSAFE_TRANSPORT_HOST_STAGED);
	assert_int_equal(m.pairs[1].transport, P2PSAFE_TRANSPORT_HOST_STAGED);
	m.staged[0].verdict = P2PSAFE_VERDICT_CORRUPT;
	p2s_choose(&m);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_NET);
	m.staged[0].verdict = P2PSAFE_VERDICT_UNTESTED;
	p2s_choose(&m);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_NONE);
	p2s_model_free(&m);
	judged(&m, 1);
	p2s_choose(&m);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_NET);
	m.gpus[0].in_group = 0;
	p2s_choose(&m);
	assert_int_equal(m.transport, P2PSAFE_TRANSPORT_NONE);
	p2s_model_free(&m);
}

static void expect_island(const struct p2s_model *m, size_t i, const int32_t *want, size_t n)
{
	assert_true(i < m->island_count);
	for (size_t k = 0; k < n; k++)
		assert_int_equal(m->islands[i][k], want[k]);
	assert_int_equal(m->islands[i][n], -1);
}

static void islands(void **state)
{
	static const int32_t all[] = {0, 1, 2, 3}, left[] = {0, 1, 2}, right[] = {1, 2, 3}, one_two[] = {1, 2}, zero[] = {0},
						 three[] = {3};
	struct p2s_model m;

	(void)state;
	judged(&m, 4);
	p2s_choose(&m);
	assert_int_equal(m.island_count, 1);
	expect_island(&m, 0, all, 4);
	/* one bad pair: two overlapping cliques, always in the same order */
	set(&m, 3, 0, P2PSAFE_VERDICT_CORRUPT);
	p2s_choose(&m);
	assert_int_equal(m.island_count, 2);
	expect_island(&m, 0, left, 3);
	expect_island(&m, 1, right, 3);
	for (int32_t i = 1; i < 4; i++)
		set(&m, 0, i, P2PSAFE_VERDICT_UNTESTED);
	for (int32_t i = 1; i < 3; i++)
		set(&m, 3, i, P2PSAFE_VERDICT_HANG);
	p2s_choose(&m);
	assert_int_equal(m.island_count, 3);
	expect_island(&m, 0, one_two, 2);
	expect_island(&m, 1, zero, 1);
	expect_island(&m, 2, three, 1);
	/* whatever the pairs say of a run that tested nothing, they do not hold together */
	m.nothing_tested = 1;
	p2s_choose(&m);
	assert_int_equal(m.island_count, 4);
	p2s_model_free(&m);
}

/* The level of the test, where whoever NCCL may use was tested. */
static void a_kept_level(void **state)
{
	struct p2s_model m;

	(void)state;
	judged(&m, 4);
	for (int outside = 0; outside < 2; outside++) {
		m.kept_hit = 1;
		m.nccl_level = P2PSAFE_PATH_PXB;
		m.gpus[3].in_group = !outside;
		p2s_choose(&m);
		assert_int_equal(m.nccl_level, outside ? P2PSAFE_PATH_UNKNOWN : P2PSAFE_PATH_PXB);
	}
	p2s_model_free(&m);
}

static void expect_ordinals(struct p2s_model *m, const char *visible, const char *order, int32_t a, int32_t b, int32_t c)
{
	p2s_choose_ordinals(m, visible, order);
	if (m->gpus[0].ordinal != a || m->gpus[1].ordinal != b || m->gpus[2].ordinal != c)
		fail_msg("mask %s, order %s: %d %d %d, expected %d %d %d", visible != NULL ? visible : "-", order != NULL ? order : "-",
				 m->gpus[0].ordinal, m->gpus[1].ordinal, m->gpus[2].ordinal, a, b, c);
}

static void ordinals(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	expect_ordinals(&m, NULL, NULL, 0, 1, 2);
	expect_ordinals(&m, "1,0", NULL, 1, 0, -1);
	expect_ordinals(&m, "2", "PCI_BUS_ID", -1, -1, 0);
	expect_ordinals(&m, "", NULL, -1, -1, -1);
	expect_ordinals(&m, "0,-1,1", NULL, 0, -1, -1);
	expect_ordinals(&m, "0,9,1", NULL, 0, -1, -1);
	expect_ordinals(&m, "0,0", NULL, -1, -1, -1);
	expect_ordinals(&m, "GPU-00000002,GPU-00000000-1111", NULL, 1, -1, 0);
	expect_ordinals(&m, "GPU-0000000", NULL, -1, -1, -1);
	expect_ordinals(&m, "MIG-abc", NULL, -1, -1, -1);
	/* the first entry decides the kind; another kind ends the list */
	expect_ordinals(&m, "1,GPU-00000000", NULL, -1, 0, -1);
	expect_ordinals(&m, "GPU-00000002,0", NULL, -1, -1, 0);
	expect_ordinals(&m, "GPU-00000002,MIG-x,GPU-00000000", NULL, -1, -1, 0);
	expect_ordinals(&m, "MIG-x,0", NULL, -1, -1, -1);
	/* numbers as strtoul reads them, and what could be read in two ways */
	expect_ordinals(&m, " 2,\t1 , +0", NULL, 2, 1, 0);
	expect_ordinals(&m, "1gpu2,2ampere", NULL, -1, 0, 1);
	expect_ordinals(&m, "01", NULL, -1, 0, -1);
	expect_ordinals(&m, "2,0x1,0", NULL, -1, -1, 0);
	expect_ordinals(&m, "2,-0,1", NULL, -1, -1, 0);
	expect_ordinals(&m, "2,,1", NULL, -1, -1, 0);
	expect_ordinals(&m, "2,", NULL, -1, -1, 0);
	expect_ordinals(&m, ",2", NULL, -1, -1, -1);
	expect_ordinals(&m, " ", NULL, -1, -1, -1);
	expect_ordinals(&m, "-1", NULL, -1, -1, -1);
	expect_ordinals(&m, "NoDevFiles", NULL, -1, -1, -1);
	expect_ordinals(&m, "1,4294967296,0", NULL, -1, 0, -1);
	expect_ordinals(&m, "1,18446744073709551616,0", NULL, -1, 0, -1);
	/* twice, also under two names, leaves none; behind the end of the list it does not count */
	expect_ordinals(&m, "1,0,1", NULL, -1, -1, -1);
	expect_ordinals(&m, "GPU-00000001,GPU-00000001-1111", NULL, -1, -1, -1);
	expect_ordinals(&m, "1,-1,1", NULL, -1, 0, -1);
	/* UUIDs: unambiguous, as printed */
	expect_ordinals(&m, "GPU-00000002,GPU-0000000,GPU-00000001", NULL, -1, -1, 0);
	expect_ordinals(&m, "GPU-", NULL, -1, -1, -1);
	expect_ordinals(&m, "gpu-00000001", NULL, -1, -1, -1);
	expect_ordinals(&m, "GPU-00000001-1111-2222-3333-4444444444445", NULL, -1, -1, -1);
	/* GPUs that are not ours have no number */
	m.gpus[0].ours = 0;
	expect_ordinals(&m, NULL, NULL, -1, 0, 1);
	expect_ordinals(&m, "0", NULL, -1, 0, -1);
	expect_ordinals(&m, "GPU-00000000,1", NULL, -1, -1, -1);
	m.gpus[0].ours = 1;
	/* whether CUDA counts one that did not come up is not known: it does where only the context failed (no memory left) */
	m.gpus[1].state = P2PSAFE_GPU_STATE_FAILED;
	expect_ordinals(&m, NULL, NULL, 0, -1, -1);
	expect_ordinals(&m, "0,2", NULL, 0, -1, -1);
	expect_ordinals(&m, "1,0", NULL, -1, -1, -1);
	expect_ordinals(&m, "GPU-00000002,GPU-00000000", NULL, 1, -1, 0);
	expect_ordinals(&m, "GPU-00000002,GPU-00000001,GPU-00000000", NULL, -1, -1, 0);
	m.gpus[1].device = 0x2684;
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	m.gpus[1].device = m.gpus[0].device;
	m.gpus[1].state = P2PSAFE_GPU_STATE_READY;
	m.gpus[1].facts.mig = P2S_YES;
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	m.gpus[1].facts.mig = P2S_NO;
	/* fastest first among different models: only the driver knows */
	m.gpus[1].device = 0x2684;
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	expect_ordinals(&m, "1", NULL, -1, -1, -1);
	expect_ordinals(&m, "GPU-00000001", NULL, -1, 0, -1);
	expect_ordinals(&m, NULL, "PCI_BUS_ID", 0, 1, 2);
	p2s_model_free(&m);
}

static void told(struct p2s_model *m, int32_t a, int32_t b, int32_t c)
{
	m->gpus[0].driver_order = a;
	m->gpus[1].driver_order = b;
	m->gpus[2].driver_order = c;
}

/* The order that the driver told the test. */
static void driver_order(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	m.gpus[0].device = 0x2231;
	told(&m, 2, 0, 1);
	expect_ordinals(&m, NULL, NULL, 2, 0, 1);
	expect_ordinals(&m, NULL, "FASTEST_FIRST", 2, 0, 1);
	expect_ordinals(&m, NULL, "PCI_BUS_ID", 0, 1, 2);
	expect_ordinals(&m, "2,0", NULL, 0, 1, -1);
	expect_ordinals(&m, "0", "PCI_BUS_ID", 0, -1, -1);
	expect_ordinals(&m, "1,3,0", NULL, -1, -1, 0);
	expect_ordinals(&m, "GPU-00000000,GPU-00000002", NULL, 0, -1, 1);
	/* equal models: what it told counts, too */
	m.gpus[0].device = m.gpus[1].device;
	expect_ordinals(&m, NULL, NULL, 2, 0, 1);
	told(&m, 2, -1, 1);
	expect_ordinals(&m, NULL, NULL, 0, 1, 2);
	/* half an order, a place twice or beyond the last is none */
	m.gpus[0].device = 0x2231;
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	told(&m, 1, 0, 1);
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	told(&m, 3, 0, 1);
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	/* it was told for three and this process has two of them, also where these were the first two */
	told(&m, 2, 0, 1);
	m.gpus[1].ours = 0;
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	told(&m, 0, 2, 1);
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	expect_ordinals(&m, NULL, "PCI_BUS_ID", 0, -1, 1);
	/* and it was told for two, and here are three */
	m.gpus[1].ours = 1;
	told(&m, 0, -1, 1);
	expect_ordinals(&m, NULL, NULL, -1, -1, -1);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(transport), cmocka_unit_test(islands), cmocka_unit_test(a_kept_level), cmocka_unit_test(ordinals),
										 cmocka_unit_test(driver_order)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
