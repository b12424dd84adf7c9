/* From legs to permissions. */
#include "unit.h"

#include "evidence/log.h"
#include "ipc/fill.h"
#include "rules/rules.h"
#include "score/score.h"

static int32_t allowed(const struct p2s_model *m, int32_t consumer)
{
	return m->consumers[consumer].allowed;
}

static void order_of_verdicts(void **state)
{
	static const int32_t order[] = {P2PSAFE_VERDICT_OK,    P2PSAFE_VERDICT_DEGRADED, P2PSAFE_VERDICT_UNSUPPORTED,
	                                P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_ERROR, P2PSAFE_VERDICT_HANG,
	                                P2PSAFE_VERDICT_CORRUPT};

	(void)state;
	for (size_t a = 0; a < COUNT(order); a++)
		for (size_t b = 0; b < COUNT(order); b++)
			assert_int_equal(p2s_rules_worse(order[a], order[b]), order[a > b ? a : b]);
	/* a number nobody knows is no pass */
	assert_int_equal(p2s_rules_worse(P2PSAFE_VERDICT_OK, 0), P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(p2s_rules_worse(P2PSAFE_VERDICT_OK, 99), P2PSAFE_VERDICT_UNTESTED);
}

static void all_ok(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_PEER_COPIES; c++) {
		assert_int_equal(allowed(&m, c), 1);
		assert_int_equal(m.consumers[c].failed_count, 0);
		assert_int_equal(p2s_rules_vetoed(&m, c, 0), 0);
	}
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_MULTICAST), -1);
	assert_int_equal(p2s_rules_vetoed(&m, P2PSAFE_CONSUMER_MULTICAST, 0), 0);
	assert_int_equal(p2s_rules_exit_code(&m), 0);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(m.pairs[0].score, -1);
	p2s_model_free(&m);
}

static void nothing_tested_allows_nothing(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, 0);
	p2s_rules_judge(&m, NULL);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		assert_int_equal(allowed(&m, c), 0);
		assert_int_equal(m.consumers[c].verdict, P2PSAFE_VERDICT_UNTESTED);
		assert_int_equal(p2s_rules_vetoed(&m, c, 0), 1);
		assert_int_equal(p2s_rules_vetoed(&m, c, 1), 0);
	}
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(p2s_rules_exit_code(&m), 1);
	p2s_model_free(&m);
}

/* One bad leg in one direction, in any mapping, ends every permission of the group; UNTESTED only those that need it. */
/* A GPU that came into the group after the pairs were made. */
static void a_gpu_without_pairs_allows_nothing(void **state)
{
	struct p2s_gpu *g;
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	g = p2s_model_add_gpu(&m);
	assert_non_null(g);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed, 1);
	m.gpus[3].in_group = 1;
	p2s_rules_judge(&m, NULL);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		assert_int_equal(m.consumers[c].allowed, 0);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(p2s_rules_exit_code(&m), 1);
	/* its pairs are added where they belong, and take nothing from the others */
	assert_int_equal(p2s_model_make_pairs(&m), 1);
	assert_int_equal(m.pair_count, 12);
	assert_int_equal(m.staged_count, 6);
	for (size_t i = 0; i < m.pair_count; i++) {
		const struct p2s_pair *p = &m.pairs[i];

		assert_true(p->src == (int32_t)(i / 3) && p->dst == (int32_t)(i % 3 + (i % 3 >= i / 3)));
		assert_int_equal(p->leg_count != 0, p->src != 3 && p->dst != 3);
	}
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed, 0);
	assert_int_equal(p2s_model_pair(&m, 1, 3)->verdict, P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(p2s_model_pair(&m, 1, 2)->verdict, P2PSAFE_VERDICT_OK);
	p2s_model_free(&m);
}

static void one_bad_leg(void **state)
{
	static const int32_t bad[] = {P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_HANG, P2PSAFE_VERDICT_ERROR};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		for (int32_t map = P2PSAFE_MAPPING_PEER; map <= P2PSAFE_MAPPING_CUMEM; map++) {
			for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++) {
				struct p2s_model m;

				unit_model(&m, 3, P2PSAFE_VERDICT_OK);
				unit_leg(&m, 2, 0, leg, map)->verdict = bad[i];
				p2s_rules_judge(&m, NULL);
				for (int32_t c = 1; c < P2S_CONSUMERS; c++)
					assert_int_equal(allowed(&m, c), 0);
				assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].verdict, bad[i]);
				assert_true(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].failed_count >= 1);
				assert_int_equal(p2s_model_pair(&m, 2, 0)->verdict, bad[i]);
				assert_int_equal(p2s_model_pair(&m, 0, 2)->verdict, P2PSAFE_VERDICT_OK);
				/* "untested passes" never covers a bad verdict */
				assert_int_equal(p2s_rules_vetoed(&m, P2PSAFE_CONSUMER_NCCL_P2P, 1), 1);
				assert_int_equal(p2s_rules_exit_code(&m), 1);
				p2s_model_free(&m);
			}
		}
	}
}

/* A GPU that does not live to the end of the test takes what its pairs passed before with it: also where what is untested may
 * pass, and in what is kept. */
static void a_lost_gpu_takes_its_permissions_along(void **state)
{
	static const struct {
		int32_t state;
		int32_t verdict;
	} ends[] = {{P2PSAFE_GPU_STATE_WEDGED, P2PSAFE_VERDICT_HANG},
	            {P2PSAFE_GPU_STATE_FAILED, P2PSAFE_VERDICT_ERROR},
	            {P2PSAFE_GPU_STATE_RISKY, P2PSAFE_VERDICT_ERROR},
	            {P2PSAFE_GPU_STATE_READY, P2PSAFE_VERDICT_OK}};

	(void)state;
	for (size_t i = 0; i < COUNT(ends); i++) {
		struct p2s_lib_gpu_out out = {.index = 2, .state = ends[i].state, .ordinal = -1, .driver_order = -1, .minor = -1};
		struct p2s_model m;

		unit_model(&m, 3, P2PSAFE_VERDICT_OK);
		assert_int_equal(p2s_fill_gpu(&m, &out), 1);
		out.state = P2PSAFE_GPU_STATE_UNKNOWN; /* later news of its name do not revive it */
		assert_int_equal(p2s_fill_gpu(&m, &out), 1);
		p2s_rules_judge(&m, NULL);
		for (size_t k = 0; k < m.pair_count; k++) {
			const struct p2s_pair *p = &m.pairs[k];
			int32_t hit = p->src == 2 || p->dst == 2;

			assert_int_equal(p->verdict, hit ? ends[i].verdict : P2PSAFE_VERDICT_OK);
			for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_PEER_COPIES; c++) {
				assert_int_equal(p->permits[c], hit ? ends[i].verdict : P2PSAFE_VERDICT_OK);
				assert_int_equal(p2s_rules_consumer(p, c, NULL, NULL), p->permits[c]);
			}
		}
		for (int32_t c = P2PSAFE_CONSUMER_NCCL_P2P; c <= P2PSAFE_CONSUMER_PEER_COPIES; c++) {
			assert_int_equal(allowed(&m, c), ends[i].verdict == P2PSAFE_VERDICT_OK);
			assert_int_equal(p2s_rules_vetoed(&m, c, 1), ends[i].verdict != P2PSAFE_VERDICT_OK);
		}
		p2s_model_free(&m);
	}
}

/* Of a GPU that never took part the legs say so. */
static void a_gpu_that_never_took_part_is_untested(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_UNTESTED);
	m.gpus[1].state = P2PSAFE_GPU_STATE_RISKY;
	m.gpus[2].state = P2PSAFE_GPU_STATE_WEDGED;
	p2s_rules_judge(&m, NULL);
	for (size_t k = 0; k < m.pair_count; k++)
		assert_int_equal(m.pairs[k].verdict, P2PSAFE_VERDICT_UNTESTED);
	/* Where one leg ran, the others are no mere lack of a test. */
	unit_leg(&m, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_OK;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, P2PSAFE_VERDICT_ERROR);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->permits[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY], P2PSAFE_VERDICT_ERROR);
	assert_int_equal(p2s_model_pair(&m, 1, 0)->verdict, P2PSAFE_VERDICT_UNTESTED);
	p2s_model_free(&m);
}

#define BRIDGE "0000:40:01.0"

/* Three GPUs, all legs OK, over PCIe; GPU 2 below BRIDGE. */
static void all_passed(struct p2s_model *m, int32_t path)
{
	unit_model(m, 3, P2PSAFE_VERDICT_OK);
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].path = path;
	m->gpus[2].facts.hop_count = 2;
	snprintf(m->gpus[2].facts.hops[0].address, sizeof m->gpus[2].facts.hops[0].address, BRIDGE);
}

/* What the kernel logs when every leg is over, and whose proof it ends. pairs: bit 3 * src + dst. */
static void what_is_logged_late_counts(void **state)
{
#define PAIR(a, b) (1u << (3 * (a) + (b)))
#define OF(a) (PAIR(a, (a + 1) % 3) | PAIR(a, (a + 2) % 3))
#define WITH(a) (OF(a) | PAIR((a + 1) % 3, a) | PAIR((a + 2) % 3, a))
	static const struct {
		struct p2s_log_event event;
		const char *device;
		int32_t path;
		uint32_t pairs;
	} lines[] = {
#define LINE(kind_, gpu_, owner_, src_, dst_) .event.kind = P2S_LOG_##kind_, .event.gpu = gpu_, .event.owner = owner_, .event.src = src_, .event.dst = dst_
		{LINE(AMD_FAULT, 0, 1, 0, 1), .path = P2PSAFE_PATH_PHB, .pairs = PAIR(0, 1)},
		{LINE(AMD_FAULT, 0, 1, 0, 1), .path = P2PSAFE_PATH_NVL, .pairs = PAIR(0, 1)},
		{LINE(AMD_FAULT, 0, -1, 0, 2), .path = P2PSAFE_PATH_PHB, .pairs = PAIR(0, 2)},
		{LINE(AMD_FAULT, 0, -1, -1, -1), .path = P2PSAFE_PATH_PHB, .pairs = OF(0)},
		{LINE(AMD_FAULT, 0, -1, -1, -1), .path = P2PSAFE_PATH_UNKNOWN, .pairs = OF(0)},
		/* by the time alone: no IOMMU is on the way of NVLink */
		{LINE(AMD_FAULT, 0, -1, 0, 1), .path = P2PSAFE_PATH_NVL, .pairs = 0},
		{LINE(AMD_FAULT, 0, -1, -1, -1), .path = P2PSAFE_PATH_NVL, .pairs = 0},
		/* another device, also where it hits our memory */
		{LINE(AMD_FAULT, -1, -1, 0, 1), .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(AMD_FAULT, -1, 1, -1, -1), .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(XID, 1, -1, -1, -1), .event.xid = 79, .path = P2PSAFE_PATH_PHB, .pairs = WITH(1)},
		{LINE(XID, -1, -1, -1, -1), .event.xid = 79, .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(XID, 1, -1, -1, -1), .event.xid = 31, .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(XID, 1, -1, -1, -1), .event.xid = 145, .event.text = "145, RLW Fatal", .path = P2PSAFE_PATH_NVL, .pairs = WITH(1)},
		{LINE(XID, 1, -1, -1, -1), .event.xid = 145, .event.text = "145, RLW Nonfatal", .path = P2PSAFE_PATH_NVL, .pairs = 0},
		{LINE(XID, 1, -1, -1, -1), .event.xid = 145, .event.text = "145, RLW Fatal", .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(SXID, -1, -1, -1, -1), .event.flags = 1, .path = P2PSAFE_PATH_NVL, .pairs = WITH(0) | WITH(1)},
		{LINE(SXID, -1, -1, -1, -1), .event.flags = 0, .path = P2PSAFE_PATH_NVL, .pairs = 0},
		{LINE(AER_FATAL, 2, -1, -1, -1), .path = P2PSAFE_PATH_PHB, .pairs = WITH(2)},
		{LINE(AER_FATAL, -1, -1, -1, -1), .device = BRIDGE, .path = P2PSAFE_PATH_PHB, .pairs = WITH(2)},
		{LINE(AER_FATAL, -1, -1, -1, -1), .device = "0000:50:01.0", .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(AER_FATAL, -1, -1, -1, -1), .path = P2PSAFE_PATH_PHB, .pairs = 0},
		{LINE(AER_NONFATAL, 2, -1, -1, -1), .path = P2PSAFE_PATH_PHB, .pairs = 0},
	};

	(void)state;
	for (size_t i = 0; i < 2 * COUNT(lines); i++) {
		struct p2s_log_event e = lines[i / 2].event;
		struct p2s_model m;

		all_passed(&m, lines[i / 2].path);
		e.in_test = i % 2 == 0;
		if (lines[i / 2].device != NULL)
			snprintf(e.device, sizeof e.device, "%s", lines[i / 2].device);
		assert_int_equal(p2s_facts_add_log(&m.facts, &e), 1);
		p2s_rules_judge(&m, NULL);
		for (size_t k = 0; k < m.pair_count; k++) {
			const struct p2s_pair *p = &m.pairs[k];
			int32_t hit = e.in_test && (lines[i / 2].pairs & PAIR(p->src, p->dst)) != 0;

			assert_int_equal(p->verdict, hit ? P2PSAFE_VERDICT_ERROR : P2PSAFE_VERDICT_OK);
			assert_int_equal(p->permits[P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE], p->verdict);
		}
		p2s_model_free(&m);
	}
}

/* Faults of an accessor of which a leg failed are that leg's: what it passed elsewhere stays. */
static void a_fault_that_is_explained_spoils_no_more(void **state)
{
	struct p2s_log_event e = {.kind = P2S_LOG_AMD_FAULT, .in_test = 1, .gpu = 0, .owner = -1, .src = -1, .dst = -1};
	struct p2s_model m;

	(void)state;
	all_passed(&m, P2PSAFE_PATH_PHB);
	unit_leg(&m, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
	assert_int_equal(p2s_facts_add_log(&m.facts, &e), 1);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(p2s_model_pair(&m, 0, 2)->verdict, P2PSAFE_VERDICT_OK);
	p2s_model_free(&m);
}

/* By the time it is an NVLink pair's, on whose way there is no IOMMU: it is of something else that the GPU did over PCIe. Damage on
 * NVLink explains it no more. */
static void a_fault_beside_nvlink_is_of_the_others(void **state)
{
	struct p2s_log_event e = {.kind = P2S_LOG_AMD_FAULT, .in_test = 1, .gpu = 0, .owner = -1, .src = 0, .dst = 1};

	(void)state;
	for (int32_t failed = 0; failed < 3; failed++) {
		struct p2s_model m;

		all_passed(&m, P2PSAFE_PATH_PHB);
		p2s_model_pair(&m, 0, 1)->path = p2s_model_pair(&m, 1, 0)->path = P2PSAFE_PATH_NVL;
		if (failed != 0)
			unit_leg(&m, 0, failed, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
		assert_int_equal(p2s_facts_add_log(&m.facts, &e), 1);
		p2s_rules_judge(&m, NULL);
		for (size_t k = 0; k < m.pair_count; k++) {
			const struct p2s_pair *pair = &m.pairs[k];
			int32_t bad = pair->src == 0 && pair->dst == failed;
			int32_t lost = pair->src == 0 && pair->dst == 2;

			assert_int_equal(pair->verdict, bad    ? P2PSAFE_VERDICT_CORRUPT
			                                : lost ? P2PSAFE_VERDICT_ERROR
			                                       : P2PSAFE_VERDICT_OK);
		}
		p2s_model_free(&m);
	}
}

/* Named NVLink, and as slow as PCIe: it may meet the IOMMU. */
static void a_fault_of_a_name_that_is_taken_back(void **state)
{
	struct p2s_log_event e = {.kind = P2S_LOG_AMD_FAULT, .in_test = 1, .gpu = 0, .owner = -1, .src = 0, .dst = 1};

	(void)state;
	for (uint64_t speed = 12000000000; speed <= 395000000000; speed += 383000000000) {
		struct p2s_model m;

		unit_model(&m, 2, P2PSAFE_VERDICT_OK);
		for (size_t i = 0; i < m.gpu_count; i++) {
			struct p2s_gpu_facts *f = &m.gpus[i].facts;

			f->hop_count = 2;
			for (size_t h = 0; h < 2; h++) {
				f->hops[h].speed_max_mts = 32000;
				f->hops[h].width_max = 16;
			}
		}
		for (size_t i = 0; i < m.pair_count; i++)
			m.pairs[i].bandwidth.ce_write = speed;
		m.staged[0].bandwidth.ce_write = m.staged[0].bandwidth.ce_read = 6000000000;
		assert_int_equal(p2s_facts_add_log(&m.facts, &e), 1);
		p2s_rules_judge(&m, NULL);
		assert_int_equal(p2s_model_pair(&m, 0, 1)->path, speed > 64000000000 ? P2PSAFE_PATH_NVL : P2PSAFE_PATH_UNKNOWN);
		assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, speed > 64000000000 ? P2PSAFE_VERDICT_OK : P2PSAFE_VERDICT_ERROR);
		p2s_model_free(&m);
	}
}

/* Counters of the GPU, and of what lies above it. */
static void a_link_that_failed_counts(void **state)
{
	(void)state;
	for (int how = 0; how < 5; how++) {
		int32_t hit = how == 0 || how == 1;
		struct p2s_gpu_facts *f;
		struct p2s_model m;

		all_passed(&m, P2PSAFE_PATH_PHB);
		f = &m.gpus[2].facts;
		f->aer_fatal[0] = how == 2 ? UINT64_MAX : 4;
		f->aer_fatal[1] = how == 0 ? 5 : how == 3 ? UINT64_MAX : 4;
		f->hops[0].errors[2] = how == 1;
		f->hops[0].errors[0] = f->hops[0].errors[1] = how == 4;
		p2s_rules_judge(&m, NULL);
		for (size_t k = 0; k < m.pair_count; k++)
			assert_int_equal(m.pairs[k].verdict, hit && (m.pairs[k].src == 2 || m.pairs[k].dst == 2) ? P2PSAFE_VERDICT_ERROR
			                                                                                         : P2PSAFE_VERDICT_OK);
		p2s_model_free(&m);
	}
}

/* A report that is read back brings no log: what it says of a pair is never made better. */
static void what_a_report_told_stays(void **state)
{
	struct p2s_model m;

	(void)state;
	all_passed(&m, P2PSAFE_PATH_PHB);
	p2s_model_pair(&m, 0, 1)->told = P2PSAFE_VERDICT_HANG;
	p2s_model_pair(&m, 1, 2)->told = P2PSAFE_VERDICT_UNTESTED; /* of one consumer: the legs say whose */
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, P2PSAFE_VERDICT_HANG);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->permits[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY], P2PSAFE_VERDICT_HANG);
	assert_int_equal(p2s_model_pair(&m, 1, 0)->verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_model_pair(&m, 1, 2)->verdict, P2PSAFE_VERDICT_OK);
	p2s_model_free(&m);
}

/* Nobody looked once more at the end: what passed is untested, what failed failed. The deadline alone is no such end, as the
 * helper then says that it is done. */
static void a_run_that_broke_off_proves_nothing(void **state)
{
	static const char *const ends[] = {NULL, "HELPER_DIED", "DEADLINE_HIT"};

	(void)state;
	for (size_t i = 0; i < COUNT(ends); i++) {
		struct p2s_model m;

		all_passed(&m, P2PSAFE_PATH_NVL);
		m.deadline_hit = 1;
		unit_leg(&m, 0, 1, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
		if (ends[i] != NULL)
			assert_int_equal(p2s_model_find(&m, ends[i], P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, -1, -1, NULL, "end"),
			                 1);
		p2s_rules_judge(&m, NULL);
		assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, P2PSAFE_VERDICT_CORRUPT);
		assert_int_equal(p2s_model_pair(&m, 1, 0)->verdict, ends[i] != NULL ? P2PSAFE_VERDICT_UNTESTED : P2PSAFE_VERDICT_OK);
		assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_PEER_COPIES), 0);
		p2s_model_free(&m);
	}
}

static void an_untested_leg_vetoes_its_consumers(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	unit_leg(&m, 0, 1, P2PSAFE_LEG_ATOMICS, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_UNTESTED;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_SYMMETRIC_MEMORY), 0);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_OK);
	/* multicast follows symmetric memory */
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_MULTICAST), 0);
	assert_int_equal(p2s_rules_vetoed(&m, P2PSAFE_CONSUMER_MULTICAST, 0), 1);
	assert_int_equal(p2s_rules_exit_code(&m), 0);
	p2s_model_free(&m);
}

static void refuse(struct p2s_model *m, int32_t mapping)
{
	for (size_t i = 0; i < m->pair_count; i++)
		for (size_t k = 0; k < m->pairs[i].leg_count; k++)
			if (m->pairs[i].legs[k].mapping == mapping)
				m->pairs[i].legs[k].verdict = P2PSAFE_VERDICT_UNSUPPORTED;
}

static void a_refused_mapping_is_left_out(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	refuse(&m, P2PSAFE_MAPPING_CUMEM);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_SYMMETRIC_MEMORY), 0);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY].verdict, P2PSAFE_VERDICT_UNSUPPORTED);
	refuse(&m, P2PSAFE_MAPPING_IPC);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE), 0);
	refuse(&m, P2PSAFE_MAPPING_PEER);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_UNSUPPORTED);
	p2s_model_free(&m);
}

/* Left out only if another mapping is wholly OK. */
static void a_refused_mapping_does_not_hide_an_untested_one(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	refuse(&m, P2PSAFE_MAPPING_CUMEM);
	refuse(&m, P2PSAFE_MAPPING_PEER);
	unit_leg(&m, 0, 1, P2PSAFE_LEG_STALE, P2PSAFE_MAPPING_IPC)->verdict = P2PSAFE_VERDICT_UNTESTED;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].verdict, P2PSAFE_VERDICT_UNTESTED);
	p2s_model_free(&m);
}

static void one_unsupported_leg_is_no_refusal(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	for (int32_t map = P2PSAFE_MAPPING_PEER; map <= P2PSAFE_MAPPING_CUMEM; map++)
		unit_leg(&m, 0, 1, P2PSAFE_LEG_ATOMICS, map)->verdict = P2PSAFE_VERDICT_UNSUPPORTED;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_SYMMETRIC_MEMORY), 0);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY].failed_count, 1);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(p2s_rules_exit_code(&m), 0);
	p2s_model_free(&m);
}

static void tearing_128_is_told_and_not_judged(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	unit_leg(&m, 0, 1, P2PSAFE_LEG_TEARING_128, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	unit_leg(&m, 0, 1, P2PSAFE_LEG_LOAD, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_CORRUPT;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	p2s_model_free(&m);
}

static void slower_than_staging_is_degraded(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	m.staged[0].bandwidth.ce_write = UINT64_C(42500000000);
	m.pairs[0].bandwidth.ce_write = UINT64_C(12190000000);
	m.pairs[1].bandwidth.ce_write = UINT64_C(50000000000);
	m.pairs[1].limit_bytes_per_s = UINT64_C(100000000000);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_DEGRADED);
	assert_int_equal(m.pairs[1].verdict, P2PSAFE_VERDICT_OK);
	/* half of the limit, 17 per cent above staging, and no other number: (200 + 35) of 1000 above the floor of OK */
	assert_int_equal(m.pairs[1].score, 312);
	assert_int_equal(m.pairs[1].efficiency, 500);
	assert_in_range(m.pairs[0].score, 1, P2S_SCORE_DEGRADED_MAX);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_PEER_COPIES), 0);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE), 1);
	p2s_model_free(&m);
}

/* Slow stays slow, whatever else is not known of the pair: copies of one process say nothing about NCCL's way, and do not hand
 * it back what it lost. */
static void slow_and_partly_untested_stays_denied(void **state)
{
	static const int32_t others[] = {P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_UNSUPPORTED};

	(void)state;
	for (size_t i = 0; i < COUNT(others); i++) {
		struct p2s_model m;

		unit_model(&m, 2, P2PSAFE_VERDICT_OK);
		m.staged[0].bandwidth.ce_write = UINT64_C(42500000000);
		m.pairs[0].bandwidth.ce_write = UINT64_C(12190000000);
		unit_leg(&m, 0, 1, P2PSAFE_LEG_CE_WRITE, P2PSAFE_MAPPING_PEER)->verdict = others[i];
		p2s_rules_judge(&m, NULL);
		assert_int_equal(m.pairs[0].verdict, others[i]);
		assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_PEER_COPIES), 0);
		assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
		assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].verdict, P2PSAFE_VERDICT_DEGRADED);
		assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE), 1);
		p2s_model_free(&m);
	}
}

/* Staging is compared in the pair's own direction. */
static void staging_has_directions(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	m.staged[0].bandwidth.ce_write = UINT64_C(20000000000); /* 0 to 1 */
	m.staged[0].bandwidth.ce_read = UINT64_C(40000000000);  /* 1 to 0 */
	m.pairs[0].bandwidth.sm_store = m.pairs[1].bandwidth.sm_store = UINT64_C(30000000000);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_model_pair(&m, 0, 1)->verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_model_pair(&m, 1, 0)->verdict, P2PSAFE_VERDICT_DEGRADED);
	p2s_model_free(&m);
}

/* Where staging is not proven it is no way out: then the right bytes win, however slow they are. */
static void broken_staging_degrades_nobody(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	m.staged[0].bandwidth.ce_write = UINT64_C(42500000000);
	m.pairs[0].bandwidth.ce_write = m.pairs[1].bandwidth.ce_write = UINT64_C(12190000000);
	m.staged[0].verdict = P2PSAFE_VERDICT_CORRUPT;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	m.staged[0].verdict = P2PSAFE_VERDICT_UNTESTED;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_OK);
	m.staged[0].verdict = P2PSAFE_VERDICT_OK;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_DEGRADED);
	p2s_model_free(&m);
}

/* NVML's word is not proven by a speed that PCIe has too. The bytes are right all the same. */
static void a_name_is_taken_back(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	for (int32_t g = 0; g < 2; g++) {
		m.gpus[g].facts.hop_count = 1;
		m.gpus[g].facts.hops[0].speed_max_mts = 32000;
		m.gpus[g].facts.hops[0].width_max = 16;
	}
	m.pairs[0].bandwidth.ce_write = UINT64_C(50000000000);
	m.pairs[1].bandwidth.ce_write = UINT64_C(390000000000);
	p2s_rules_judge(&m, NULL);
	assert_int_equal(m.pairs[0].path, P2PSAFE_PATH_UNKNOWN);
	assert_int_equal(m.pairs[0].nccl_path, P2PSAFE_PATH_NVL);
	assert_int_equal(m.pairs[0].verdict, P2PSAFE_VERDICT_OK);
	assert_int_equal(m.pairs[1].path, P2PSAFE_PATH_NVL);
	p2s_model_free(&m);
}

static void exit_codes(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 1, 0);
	m.single_gpu = 1;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(p2s_rules_exit_code(&m), 0);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
		assert_int_equal(allowed(&m, c), 0);
		assert_int_equal(p2s_rules_vetoed(&m, c, 0), 0);
	}
	m.nothing_tested = 1;
	assert_int_equal(p2s_rules_exit_code(&m), 3);
	p2s_model_free(&m);
	/* legs that say OK count for nothing when nothing could be tested */
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	m.nothing_tested = 1;
	p2s_rules_judge(&m, NULL);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	p2s_model_free(&m);
}

/* Same verdicts from the matrix of a kept record as from the legs. */
static void a_matrix_gives_the_same_answer(void **state)
{
	struct p2s_model m;
	unsigned char cells[3 * 3 * P2S_CONSUMERS];
	struct p2s_matrix matrix = {.gpus = 3, .verdict = cells};
	int32_t want[P2S_CONSUMERS];

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	unit_leg(&m, 1, 2, P2PSAFE_LEG_ATOMICS, P2PSAFE_MAPPING_CUMEM)->verdict = P2PSAFE_VERDICT_UNSUPPORTED;
	p2s_rules_judge(&m, NULL);
	memset(cells, 0, sizeof cells);
	for (size_t i = 0; i < m.pair_count; i++) {
		unsigned char *cell = &cells[(size_t)(m.pairs[i].src * 3 + m.pairs[i].dst) * P2S_CONSUMERS];

		cell[0] = (unsigned char)m.pairs[i].verdict;
		for (int32_t c = 1; c < P2S_CONSUMERS; c++)
			cell[c] = (unsigned char)p2s_rules_consumer(&m.pairs[i], c, NULL, NULL);
	}
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		want[c] = m.consumers[c].allowed;
	p2s_rules_judge(&m, &matrix);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		assert_int_equal(m.consumers[c].allowed, want[c]);
	memset(cells, 0, sizeof cells);
	p2s_rules_judge(&m, &matrix);
	assert_int_equal(allowed(&m, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_verdicts),
	                                   cmocka_unit_test(all_ok),
	                                   cmocka_unit_test(nothing_tested_allows_nothing),
	                                   cmocka_unit_test(a_gpu_without_pairs_allows_nothing),
	                                   cmocka_unit_test(one_bad_leg),
	                                   cmocka_unit_test(a_lost_gpu_takes_its_permissions_along),
	                                   cmocka_unit_test(a_gpu_that_never_took_part_is_untested),
	                                   cmocka_unit_test(what_is_logged_late_counts),
	                                   cmocka_unit_test(a_fault_that_is_explained_spoils_no_more),
	                                   cmocka_unit_test(a_fault_beside_nvlink_is_of_the_others),
	                                   cmocka_unit_test(a_fault_of_a_name_that_is_taken_back),
	                                   cmocka_unit_test(a_link_that_failed_counts),
	                                   cmocka_unit_test(what_a_report_told_stays),
	                                   cmocka_unit_test(a_run_that_broke_off_proves_nothing),
	                                   cmocka_unit_test(an_untested_leg_vetoes_its_consumers),
	                                   cmocka_unit_test(a_refused_mapping_is_left_out),
	                                   cmocka_unit_test(a_refused_mapping_does_not_hide_an_untested_one),
	                                   cmocka_unit_test(one_unsupported_leg_is_no_refusal),
	                                   cmocka_unit_test(tearing_128_is_told_and_not_judged),
	                                   cmocka_unit_test(slower_than_staging_is_degraded),
	                                   cmocka_unit_test(slow_and_partly_untested_stays_denied),
	                                   cmocka_unit_test(staging_has_directions),
	                                   cmocka_unit_test(broken_staging_degrades_nobody),
	                                   cmocka_unit_test(a_name_is_taken_back),
	                                   cmocka_unit_test(exit_codes),
	                                   cmocka_unit_test(a_matrix_gives_the_same_answer)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
