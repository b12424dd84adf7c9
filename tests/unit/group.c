/* Whose GPUs are these, and which are judged together. */
#define _GNU_SOURCE
#include "unit.h"

#include "inventory/group.h"

/* A root without nodes: access comes from the seam alone. */
static const struct p2s_fsroot root = {.fd = -1, .simulated = 1};

/* known, driver: per GPU, y or n; driver NULL: all n. */
static void make(struct p2s_model *m, struct p2s_seam *seam, int32_t n, const char *known, const char *access,
                 const char *driver)
{
	unit_model(m, n, 0);
	memset(seam, 0, sizeof *seam);
	seam->simulated = 1;
	for (size_t i = 0; i < P2S_MINORS; i++)
		seam->access[i] = -1;
	for (size_t i = 0; access[i] != '\0'; i++)
		seam->access[i] = access[i] == 'y';
	for (int32_t i = 0; i < n; i++) {
		m->gpus[i].minor = known[i] == 'y' ? i : -1;
		m->gpus[i].ordinal = driver != NULL && driver[i] == 'y' ? i : -1;
	}
}

static void table(void **state)
{
	static const struct {
		int32_t gpus;
		const char *known;  /* per GPU: its minor number is told */
		const char *access; /* per node */
		const char *driver; /* per GPU: the driver gave it an ordinal; NULL nobody asked it */
		enum p2s_group want;
		const char *group; /* per GPU */
	} rows[] = {{4, "yyyy", "yyyy", NULL, P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "yyyy", "ynyn", NULL, P2S_GROUP_TESTABLE, "ynyn"},
	            {4, "yyyy", "ynnn", NULL, P2S_GROUP_INVISIBLE, "ynnn"},
	            {4, "yyyy", "nnnn", NULL, P2S_GROUP_NONE, "nnnn"},
	            {1, "y", "y", NULL, P2S_GROUP_SINGLE, "y"},
	            {4, "nnnn", "yyyy", NULL, P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "nnnn", "ynnn", NULL, P2S_GROUP_INVISIBLE, "yyyy"},
	            {4, "nnnn", "nnnn", NULL, P2S_GROUP_NONE, "nnnn"},
	            {4, "nnnn", "yynn", NULL, P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "nnnn", "yynn", "yynn", P2S_GROUP_TESTABLE, "yynn"},
	            {4, "nnnn", "", NULL, P2S_GROUP_TESTABLE, "yyyy"},
	            {1, "n", "y", NULL, P2S_GROUP_SINGLE, "y"},
	            /* one whose context fails has no ordinal; the node that is left is its own, or of one that was not asked */
	            {4, "nnnn", "yyyn", "yynn", P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "nnnn", "yynn", "ynnn", P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "nnnn", "yyyy", "yynn", P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "nnnn", "yynn", "nnnn", P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "ynnn", "yyyn", "yynn", P2S_GROUP_TESTABLE, "yyyy"},
	            /* the known minor is of a GPU that may not be opened: it owns none of the nodes that may */
	            {4, "nnny", "yyyn", "yynn", P2S_GROUP_TESTABLE, "yyyn"},
	            /* every node has an owner: a container that hides the other GPUs everywhere but in sysfs */
	            {4, "yynn", "yynn", NULL, P2S_GROUP_TESTABLE, "yynn"},
	            {4, "nnyy", "nnyy", NULL, P2S_GROUP_TESTABLE, "nnyy"},
	            {4, "yynn", "yynn", "ynnn", P2S_GROUP_TESTABLE, "yynn"},
	            {4, "yynn", "yyyn", NULL, P2S_GROUP_TESTABLE, "yyyy"},
	            {4, "ynnn", "ynnn", NULL, P2S_GROUP_INVISIBLE, "ynnn"},
	            {4, "ynnn", "yynn", "yynn", P2S_GROUP_TESTABLE, "yynn"},
	            /* what the driver gave an ordinal is ours, whoever else could own the nodes */
	            {3, "yynn", "yynn", "yyyn", P2S_GROUP_TESTABLE, "yyy"}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model m;
		struct p2s_seam seam;
		enum p2s_group got;
		char group[8];

		make(&m, &seam, rows[i].gpus, rows[i].known, rows[i].access, rows[i].driver);
		got = p2s_group_judge(&root, &seam, &m, rows[i].driver != NULL);
		for (int32_t k = 0; k < rows[i].gpus; k++)
			group[k] = m.gpus[k].in_group ? 'y' : 'n';
		group[rows[i].gpus] = '\0';
		if (got != rows[i].want || strcmp(group, rows[i].group) != 0)
			fail_msg("row %zu: %d with %s, expected %d with %s", i, got, group, rows[i].want, rows[i].group);
		p2s_model_free(&m);
	}
}

/* Two that claim one node own one between them. */
static void a_minor_that_is_told_twice_owns_one_node(void **state)
{
	struct p2s_model m;
	struct p2s_seam seam;

	(void)state;
	make(&m, &seam, 3, "ynn", "yyn", NULL);
	m.gpus[1].minor = 0;
	assert_int_equal(p2s_group_judge(&root, &seam, &m, 0), P2S_GROUP_TESTABLE);
	assert_int_equal(m.gpus[2].in_group, 1);
	p2s_model_free(&m);
}

static void other_drivers_are_never_ours(void **state)
{
	struct p2s_model m;
	struct p2s_seam seam;

	(void)state;
	make(&m, &seam, 3, "yyy", "yyy", NULL);
	snprintf(m.gpus[1].driver, sizeof m.gpus[1].driver, "vfio-pci");
	assert_int_equal(p2s_group_judge(&root, &seam, &m, 0), P2S_GROUP_TESTABLE);
	assert_int_equal(m.gpus[1].ours, 0);
	assert_int_equal(m.gpus[1].in_group, 0);
	assert_int_equal(m.gpus[1].state, P2PSAFE_GPU_STATE_NOT_OURS);
	m.gpus[2].driver[0] = '\0';
	/* one GPU of the driver's: the others are no peers that it hides */
	assert_int_equal(p2s_group_judge(&root, &seam, &m, 0), P2S_GROUP_SINGLE);
	p2s_model_free(&m);
}

static void narrowing(void **state)
{
	static const struct {
		const char *list;
		int32_t rc;
		const char *group; /* y or n per GPU */
	} rows[] = {{"0000:01:00.0,0000:03:00.0", 0, "yny"},
	            {"0,2", 0, "yny"},
	            {" 1 , 02:00.0 ", P2PSAFE_E_CONFIG, NULL}, /* twice */
	            {"GPU-00000001,0", 0, "yyn"},
	            {"gpu-00000002-1111-2222-3333-444444444444", 0, "nny"},
	            {"GPU-0000000", P2PSAFE_E_CONFIG, NULL}, /* fits several */
	            {"", P2PSAFE_E_CONFIG, NULL},
	            {",", P2PSAFE_E_CONFIG, NULL},
	            {"0,", P2PSAFE_E_CONFIG, NULL},
	            {"  ", P2PSAFE_E_CONFIG, NULL},
	            {"3", P2PSAFE_E_CONFIG, NULL},
	            {"-1", P2PSAFE_E_CONFIG, NULL},
	            {"GPU-ffff", P2PSAFE_E_CONFIG, NULL},
	            {"0000:09:00.0", P2PSAFE_E_CONFIG, NULL},
	            {"all", P2PSAFE_E_CONFIG, NULL},
	            {"99999999999999999999999", P2PSAFE_E_CONFIG, NULL}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model m;
		struct p2s_fault fault = {0};
		int32_t pending;
		int32_t rc;

		unit_model(&m, 3, 0);
		rc = p2s_group_narrow(&m, rows[i].list, &pending, &fault);
		if (rc != rows[i].rc)
			fail_msg("\"%s\": %d (%s), expected %d", rows[i].list, rc, fault.text, rows[i].rc);
		for (size_t k = 0; rows[i].group != NULL && k < 3; k++)
			assert_int_equal(m.gpus[k].in_group, rows[i].group[k] == 'y');
		assert_int_equal(pending, 0);
		p2s_model_free(&m);
	}
}

static void uuids_wait_for_the_driver(void **state)
{
	struct p2s_model m;
	struct p2s_fault fault;
	int32_t pending;

	(void)state;
	unit_model(&m, 2, 0);
	m.gpus[0].uuid[0] = m.gpus[1].uuid[0] = '\0';
	assert_int_equal(p2s_group_narrow(&m, "GPU-00000000,1", &pending, &fault), 0);
	assert_int_equal(pending, 1);
	assert_int_equal(p2s_group_size(&m), 2);
	assert_int_equal(p2s_group_narrow(&m, "GPU-00000000", NULL, &fault), P2PSAFE_E_CONFIG);
	m.gpus[1].ours = 0;
	assert_int_equal(p2s_group_narrow(&m, "0000:02:00.0", &pending, &fault), P2PSAFE_E_CONFIG);
	assert_int_equal(fault.gpu.bus, 2);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(a_minor_that_is_told_twice_owns_one_node),
	                                   cmocka_unit_test(other_drivers_are_never_ours),
	                                   cmocka_unit_test(narrowing), cmocka_unit_test(uuids_wait_for_the_driver)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
