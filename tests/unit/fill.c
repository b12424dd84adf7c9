/* Nothing the helper says is believed unless it makes sense. */
#include "unit.h"

#include "evidence/log.h"
#include "ipc/fill.h"
#include "rules/rules.h"

static void a_leg_must_make_sense(void **state)
{
	struct p2s_model m;
	struct p2s_lib_leg good = {.src = 0,
							   .dst = 1,
							   .leg = P2PSAFE_LEG_SM_STORE,
							   .mapping = P2PSAFE_MAPPING_IPC,
							   .verdict = P2PSAFE_VERDICT_OK,
							   .bytes = 4096,
							   .rounds = 1};
	struct p2s_lib_leg l;

	(void)state;
	unit_model(&m, 2, 0);
#define REFUSED(change)                                                                                                        \
	do {                                                                                                                       \
		l = good;                                                                                                              \
		change;                                                                                                                \
		assert_int_equal(p2s_fill_leg(&m, &l), -1);                                                                            \
	} while (0)
	REFUSED(l.src = 2);
	REFUSED(l.dst = UINT32_MAX);
	REFUSED(l.initiator = 7);
	REFUSED(l.leg = 0);
	REFUSED(l.leg = 99);
	REFUSED(l.mapping = 0);
	REFUSED(l.mapping = -1);
	REFUSED(l.verdict = 0);
	REFUSED(l.verdict = 8);
	REFUSED(l.damage = 14);
	REFUSED(l.damage = P2PSAFE_DAMAGE_MIRROR); /* OK with damage */
	REFUSED(l.bytes = 0);                      /* OK without a byte */
	REFUSED(l.dst = 0);                        /* no such pair */
	assert_int_equal(m.pairs[0].leg_count, 0);
	assert_int_equal(p2s_fill_leg(&m, &good), 1);
	assert_int_equal(m.pairs[0].leg_count, 1);
	/* the last message for the same leg counts */
	l = good;
	l.verdict = P2PSAFE_VERDICT_CORRUPT;
	l.damage = P2PSAFE_DAMAGE_TORN;
	assert_int_equal(p2s_fill_leg(&m, &l), 1);
	assert_int_equal(m.pairs[0].leg_count, 1);
	assert_int_equal(m.pairs[0].legs[0].verdict, P2PSAFE_VERDICT_CORRUPT);
	p2s_model_free(&m);
}

static int32_t measure(struct p2s_model *m, uint32_t src, uint32_t dst, int32_t kind, uint64_t value, uint64_t bytes)
{
	struct p2s_lib_measure q = {.src = src, .dst = dst, .kind = kind, .value = value, .bytes = bytes};

	return p2s_fill_measure(m, &q);
}

/* Rows are kept in order of their size; of two directions the staged pair gets the slower. */
static void measured_rows(void **state)
{
	struct p2s_model m;
	const struct p2s_size_row *r;

	(void)state;
	unit_model(&m, 2, 0);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_SIZE, 900, 65536), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_SIZE, 100, 4096), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_SIZE_NS, 40, 4096), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_STAGED, 80, 4096), 1);
	assert_int_equal(measure(&m, 1, 0, P2S_MEASURE_STAGED, 70, 4096), 1);
	assert_int_equal(measure(&m, 1, 0, P2S_MEASURE_STAGED_NS, 9000, 4096), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_STAGED_NS, 8000, 4096), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_LOAD_NS, 8000, 4096), -1); /* not a row */
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_SIZE, 8000, 0), -1);       /* nothing but rows */
	assert_int_equal(measure(&m, 0, 0, P2S_MEASURE_CE_WRITE, 1, 0), -1);
	assert_int_equal(measure(&m, 0, 2, P2S_MEASURE_CE_WRITE, 1, 0), -1);
	r = m.pairs[0].sizes;
	assert_int_equal(m.pairs[0].size_count, 2);
	assert_int_equal(r[0].bytes, 4096);
	assert_int_equal(r[0].p2p_bytes_per_s, 100);
	assert_int_equal(r[0].p2p_ns, 40);
	assert_int_equal(r[0].staged_bytes_per_s, 80);
	assert_int_equal(r[0].staged_ns, 8000);
	assert_int_equal(r[1].bytes, 65536);
	assert_int_equal(m.staged[0].size_count, 1);
	assert_int_equal(m.staged[0].sizes[0].staged_bytes_per_s, 70);
	assert_int_equal(m.staged[0].sizes[0].staged_ns, 9000);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_STAGED, 11, 0), 1);
	assert_int_equal(measure(&m, 1, 0, P2S_MEASURE_STAGED, 12, 0), 1);
	assert_int_equal(measure(&m, 1, 0, P2S_MEASURE_STAGED_NS, 14000, 0), 1);
	assert_int_equal(measure(&m, 0, 1, P2S_MEASURE_STAGED_NS, 13000, 0), 1);
	assert_int_equal(m.staged[0].bandwidth.ce_write, 11);
	assert_int_equal(m.staged[0].bandwidth.ce_read, 12);
	assert_int_equal(m.staged[0].latency.store_flag_ns, 14000);
	p2s_model_free(&m);
}

/* What is said of a leg later may be worse, or of one that was untested; never make a failure good. */
static void a_failed_leg_stays_one(void **state)
{
	static const struct {
		int32_t first, then, want;
	} rows[] = {{P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_OK},
	            {P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_CORRUPT},
	            {P2PSAFE_VERDICT_HANG, P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_CORRUPT},
	            {P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_CORRUPT},
	            {P2PSAFE_VERDICT_HANG, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_HANG},
	            {P2PSAFE_VERDICT_ERROR, P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_ERROR}};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_lib_leg l = {.src = 0, .dst = 1, .leg = P2PSAFE_LEG_SM_STORE, .mapping = P2PSAFE_MAPPING_CUMEM, .bytes = 64};
		struct p2s_model m;

		unit_model(&m, 2, 0);
		l.verdict = rows[i].first;
		assert_int_equal(p2s_fill_leg(&m, &l), 1);
		l.verdict = rows[i].then;
		assert_int_equal(p2s_fill_leg(&m, &l), 1);
		assert_int_equal(unit_leg(&m, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict, rows[i].want);
		p2s_model_free(&m);
	}
}

static size_t findings_of(const struct p2s_model *m, const char *code, int32_t gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < m->finding_count; i++)
		n += strcmp(m->findings[i].code, code) == 0 && m->findings[i].src == gpu;
	return n;
}

/* Nobody failed to start it: it was there, and was lost. Another GPU's loss says nothing of it. */
static void a_lost_gpu_is_none_that_did_not_start(void **state)
{
	struct p2s_lib_fact lost = {.code = "GPU_LOST", .severity = P2PSAFE_SEVERITY_DANGER, .confidence = P2PSAFE_CONFIDENCE_HIGH,
	                            .src = 1, .dst = -1, .source = "test", .text = "error 46"};
	struct p2s_lib_gpu_out g = {.index = 1, .state = P2PSAFE_GPU_STATE_FAILED, .error = "device lost, error 46"};
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, 0);
	assert_int_equal(p2s_fill_fact(&m, &lost), 1);
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_int_equal(m.gpus[1].state, P2PSAFE_GPU_STATE_FAILED);
	assert_string_equal(m.gpus[1].error, "device lost, error 46");
	assert_int_equal(findings_of(&m, "GPU_LOST", 1), 1);
	assert_int_equal(findings_of(&m, "GPU_INIT_FAILED", 1), 0);
	g.index = 2;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_int_equal(findings_of(&m, "GPU_INIT_FAILED", 2), 1);
	p2s_model_free(&m);
}

static void the_rest_must_too(void **state)
{
	struct p2s_model m;
	struct p2s_lib_gpu_out g = {.index = 5};
	struct p2s_lib_fact f = {.code = "X", .severity = 1, .confidence = 1, .src = -1, .dst = 1};
	struct p2s_lib_staged s = {.a = 1, .b = 0, .verdict = P2PSAFE_VERDICT_OK};
	struct p2s_lib_measure q = {.src = 0, .dst = 1, .kind = 77, .value = 1};
	struct p2s_lib_pair_out p = {.src = 0, .dst = 1, .path = 9};
	struct p2s_lib_driver d = {.status = P2S_DRIVER_TOO_OLD, .cuda_version = 11080};

	(void)state;
	unit_model(&m, 2, 0);
	m.staged[0].verdict = P2PSAFE_VERDICT_UNTESTED;
	assert_int_equal(p2s_fill_gpu(&m, &g), -1);
	g.index = 0;
	g.state = 99;
	assert_int_equal(p2s_fill_gpu(&m, &g), -1);
	g.state = P2PSAFE_GPU_STATE_FAILED;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_string_equal(m.findings[0].code, "GPU_INIT_FAILED");
	g.state = P2PSAFE_GPU_STATE_READY;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_int_equal(m.gpus[g.index].state, P2PSAFE_GPU_STATE_FAILED); /* it does not come back */
	g.state = P2PSAFE_GPU_STATE_BUSY;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_int_equal(m.gpus[g.index].state, P2PSAFE_GPU_STATE_FAILED);
	g.state = P2PSAFE_GPU_STATE_WEDGED;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	g.state = P2PSAFE_GPU_STATE_RISKY;
	assert_int_equal(p2s_fill_gpu(&m, &g), 1);
	assert_int_equal(m.gpus[g.index].state, P2PSAFE_GPU_STATE_WEDGED);
	g.state = P2PSAFE_GPU_STATE_FAILED;
	assert_int_equal(p2s_fill_fact(&m, &f), -1);
	f.src = 0;
	f.dst = 2;
	assert_int_equal(p2s_fill_fact(&m, &f), -1);
	f.dst = 1;
	assert_int_equal(p2s_fill_fact(&m, &f), 1);
	f.code[0] = '\0';
	assert_int_equal(p2s_fill_fact(&m, &f), -1);
	assert_int_equal(p2s_fill_staged(&m, &s), 1); /* unordered: 1,0 is 0,1 */
	assert_int_equal(m.staged[0].verdict, P2PSAFE_VERDICT_OK);
	s.b = 1;
	assert_int_equal(p2s_fill_staged(&m, &s), -1);
	assert_int_equal(p2s_fill_measure(&m, &q), -1);
	q.kind = P2S_MEASURE_CE_WRITE;
	q.value = 0; /* no number: not measured */
	assert_int_equal(p2s_fill_measure(&m, &q), -1);
	q.value = 5000;
	assert_int_equal(p2s_fill_measure(&m, &q), 1);
	assert_int_equal(m.pairs[0].bandwidth.ce_write, 5000);
	assert_int_equal(p2s_fill_pair(&m, &p), -1);
	assert_int_equal(p2s_fill_driver(&m, &d), 1);
	assert_int_equal(m.nothing_tested, 1);
	p2s_model_free(&m);
}

/* What the way can carry belongs to the way: the number of the PCIe links is none of the NVLink that was found later. */
static void a_limit_belongs_to_its_path(void **state)
{
	struct p2s_model m;
	struct p2s_lib_pair_out pcie = {.src = 0,
									.dst = 1,
									.path = P2PSAFE_PATH_SYS,
									.nccl_path = P2PSAFE_PATH_SYS,
									.can_access = -1,
									.native_atomics = -1,
									.limit_bytes_per_s = 31000000000};
	struct p2s_lib_pair_out nvlink = pcie;
	struct p2s_lib_pair_out later = {.src = 0, .dst = 1, .can_access = 1, .native_atomics = -1};

	(void)state;
	nvlink.path = nvlink.nccl_path = P2PSAFE_PATH_NVL;
	nvlink.limit_bytes_per_s = 0;
	unit_model(&m, 2, 0);
	assert_int_equal(p2s_fill_pair(&m, &pcie), 1);
	assert_int_equal(p2s_fill_pair(&m, &later), 1);
	assert_int_equal(m.pairs[0].limit_bytes_per_s, 31000000000);
	assert_int_equal(p2s_fill_pair(&m, &nvlink), 1);
	assert_int_equal(p2s_fill_pair(&m, &later), 1);
	assert_int_equal(m.pairs[0].path, P2PSAFE_PATH_NVL);
	assert_int_equal(m.pairs[0].limit_bytes_per_s, 0);
	p2s_model_free(&m);
}

static void facts_must_be_in_range(void **state)
{
	struct p2s_model m;
	struct p2s_lib_hop hop = {
		.gpu = 1, .position = 1, .count = 2, .kind = P2S_HOP_SWITCH_DOWN, .acs_ctl = P2S_ACS_NONE, .address = "0000:40:01.0"};
	struct p2s_lib_gpu_fact fact = {.gpu = 0, .which = P2S_GPU_FACT_MIG, .value = 1};
	struct p2s_lib_log_event event = {.kind = P2S_LOG_AMD_FAULT, .gpu = 0, .owner = 1, .src = -1, .dst = -1, .usec = 5, .text = "line", .repeats = 1};
	struct p2s_lib_log_state log = {.state = P2S_LOG_DENIED};

	(void)state;
	unit_model(&m, 2, 0);
	assert_int_equal(m.gpus[0].facts.mig, P2S_UNREAD);
	assert_int_equal(p2s_fill_hop(&m, &hop), 1);
	assert_int_equal(m.gpus[1].facts.hops[1].acs_ctl, P2S_ACS_NONE);
	hop.position = 2;
	assert_int_equal(p2s_fill_hop(&m, &hop), -1);
	hop.count = P2S_HOPS + 1;
	assert_int_equal(p2s_fill_hop(&m, &hop), -1);
	assert_int_equal(p2s_fill_gpu_fact(&m, &fact), 1);
	assert_int_equal(m.gpus[0].facts.mig, P2S_YES);
	fact.which = P2S_GPU_FACT_CLIQUE;
	fact.value = (uint64_t)-2;
	assert_int_equal(p2s_fill_gpu_fact(&m, &fact), 1);
	assert_int_equal(m.gpus[0].facts.clique, -2);
	fact.value = UINT64_C(1) << 40;
	assert_int_equal(p2s_fill_gpu_fact(&m, &fact), -1);
	fact.which = P2S_GPU_FACT_NVLINK_ERRORS_AFTER;
	assert_int_equal(p2s_fill_gpu_fact(&m, &fact), 1);
	assert_int_equal(m.gpus[0].facts.nvlink_errors[1], UINT64_C(1) << 40);
	fact.which = 999;
	assert_int_equal(p2s_fill_gpu_fact(&m, &fact), -1);
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	event.repeats = 9;
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	assert_int_equal(m.facts.log_count, 1);
	assert_int_equal(m.facts.log[0].repeats, 9);
	assert_int_equal(m.facts.log[0].owner, -1); /* no address, so nobody owns it */
	event.usec = 6;
	event.has_address = 1;
	event.owner_bar = 2;
	event.owner_offset = 0x40;
	event.fault_address = m.gpus[1].bar_start[2] + 0x40;
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	assert_int_equal(m.facts.log[1].owner, 1);
	assert_int_equal(m.facts.log[1].owner_offset, 0x40);
	event.usec = 7;
	event.fault_address++; /* what we know of its BARs says otherwise */
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	assert_int_equal(m.facts.log[2].owner, -1);
	assert_int_equal(m.facts.log[2].owner_bar, -1);
	event.gpu = 1; /* the same words at the same time, about another GPU; and once more during the test */
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	event.in_test = 1;
	assert_int_equal(p2s_fill_log_event(&m, &event), 1);
	assert_int_equal(m.facts.log_count, 5);
	event.kind = P2S_LOG_KINDS;
	assert_int_equal(p2s_fill_log_event(&m, &event), -1);
	event.kind = 0;
	assert_int_equal(p2s_fill_log_event(&m, &event), -1);
	event.kind = P2S_LOG_AMD_FAULT;
	event.owner = 2;
	assert_int_equal(p2s_fill_log_event(&m, &event), -1);
	assert_int_equal(p2s_fill_log_state(&m, &log), 1);
	assert_string_equal(m.log_state, "denied");
	log.state = 4;
	assert_int_equal(p2s_fill_log_state(&m, &log), -1);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_leg_must_make_sense), cmocka_unit_test(measured_rows), cmocka_unit_test(a_failed_leg_stays_one), cmocka_unit_test(a_lost_gpu_is_none_that_did_not_start),
		cmocka_unit_test(the_rest_must_too),
									   cmocka_unit_test(a_limit_belongs_to_its_path),
									   cmocka_unit_test(facts_must_be_in_range)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
