/* Score and limits. Properties over thousands of made-up pairs: a worse number or verdict never raises the score, the order of
 * results never changes it. */
#include "unit.h"

#include "ipc/fill.h"
#include "rules/rules.h"
#include "score/score.h"

#define GB UINT64_C(1000000000)
#define ROUNDS 4000

static uint64_t state_of_dice = UINT64_C(0x9e3779b97f4a7c15);

/* xorshift: the same numbers in every run */
static uint64_t dice(uint64_t n)
{
	state_of_dice ^= state_of_dice << 13;
	state_of_dice ^= state_of_dice >> 7;
	state_of_dice ^= state_of_dice << 17;
	return state_of_dice % n;
}

/* Often nothing, mostly a speed, at times nonsense. */
static uint64_t speed(void)
{
	switch (dice(8)) {
	case 0:
		return 0;
	case 1:
		return dice(100);
	case 2:
		return UINT64_MAX - dice(1000);
	default:
		return dice(900) * GB + dice(GB);
	}
}

static void make(struct p2s_pair *p, struct p2s_staged *s)
{
	static const int32_t verdicts[] = {P2PSAFE_VERDICT_OK,      P2PSAFE_VERDICT_DEGRADED, P2PSAFE_VERDICT_OK,
									   P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_UNSUPPORTED,
									   P2PSAFE_VERDICT_HANG};
	uint64_t *const numbers[] = {&p->bandwidth.ce_write, &p->bandwidth.ce_read,   &p->bandwidth.sm_store,
								 &p->bandwidth.sm_load,  &p->bandwidth.both_ways, &p->bandwidth.loaded,
								 &s->bandwidth.ce_write, &s->bandwidth.ce_read,   &p->limit_bytes_per_s};

	memset(p, 0, sizeof *p);
	memset(s, 0, sizeof *s);
	p->dst = 1;
	s->b = 1;
	p->verdict = verdicts[dice(COUNT(verdicts))];
	for (size_t i = 0; i < COUNT(numbers); i++)
		*numbers[i] = speed();
	p->latency.store_flag_ns = dice(4) ? dice(20000) : 0;
	s->latency.store_flag_ns = dice(4) ? dice(20000) : 0;
}

static uint64_t less(uint64_t v)
{
	return v == 0 || dice(4) == 0 ? 0 : dice(v);
}

/* One thing gets worse; what was not measured is the worst. */
static void worsen(struct p2s_pair *p)
{
	static const int32_t worse[] = {P2PSAFE_VERDICT_CORRUPT,  P2PSAFE_VERDICT_HANG,        P2PSAFE_VERDICT_ERROR,
									P2PSAFE_VERDICT_UNTESTED, P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_DEGRADED};
	uint64_t *const numbers[] = {&p->bandwidth.ce_write, &p->bandwidth.ce_read, &p->bandwidth.sm_store, &p->bandwidth.sm_load,
								 &p->bandwidth.loaded};
	size_t which = dice(COUNT(numbers) + 2);

	if (which < COUNT(numbers)) {
		*numbers[which] = less(*numbers[which]);
	} else if (which == COUNT(numbers)) {
		p->latency.store_flag_ns = p->latency.store_flag_ns == 0 || dice(4) == 0 ? 0 : p->latency.store_flag_ns + dice(20000);
	} else {
		int32_t v = worse[dice(COUNT(worse))];

		p->verdict = p2s_rules_worse(p->verdict, v);
	}
}

static void worse_never_raises(void **state)
{
	size_t scored = 0;
	size_t fell = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct p2s_pair p;
		struct p2s_staged s;
		int32_t before;

		make(&p, &s);
		before = p2s_score_pair(&p, &s);
		for (int step = 0; step < 6; step++) {
			int32_t after;

			worsen(&p);
			after = p2s_score_pair(&p, &s);
			/* A pair without numbers that turns out wrong gets its 0: nothing was said before. */
			if (before >= 0 && after > before)
				fail_msg("round %d: %d, and %d with less", i, (int)before, (int)after);
			scored += after > 0;
			fell += before > 0 && after < before;
			before = after;
		}
	}
	assert_true(scored > ROUNDS / 4 && fell > ROUNDS / 4); /* the dice have met what they are to meet */
}

static void ranges(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct p2s_pair p;
		struct p2s_staged s;
		int32_t score;

		make(&p, &s);
		score = p2s_score_pair(&p, &s);
		if (p2s_score_writes(&p) == 0)
			assert_true(score <= 0);
		else if (p.verdict == P2PSAFE_VERDICT_OK)
			assert_in_range(score, P2S_SCORE_DEGRADED_MAX + 1, 1000);
		else if (p.verdict == P2PSAFE_VERDICT_DEGRADED)
			assert_in_range(score, 1, P2S_SCORE_DEGRADED_MAX);
		else
			assert_int_equal(score, 0);
	}
}

static void what_scores_say(void **state)
{
	struct p2s_pair p = {.dst = 1, .verdict = P2PSAFE_VERDICT_OK};
	struct p2s_staged s = {.b = 1};

	(void)state;
	assert_int_equal(P2S_SCORE_WRITE + P2S_SCORE_READ + P2S_SCORE_LOADED + P2S_SCORE_GAIN + P2S_SCORE_LATENCY, 1000);
	assert_int_equal(p2s_score_pair(&p, &s), -1);
	assert_int_equal(p2s_score_pair(&p, NULL), -1);
	p.verdict = P2PSAFE_VERDICT_CORRUPT;
	assert_int_equal(p2s_score_pair(&p, &s), 0);
	p.verdict = P2PSAFE_VERDICT_UNTESTED;
	assert_int_equal(p2s_score_pair(&p, &s), -1);
	p.bandwidth.ce_write = 25 * GB;
	assert_int_equal(p2s_score_pair(&p, &s), 0);
	p.verdict = P2PSAFE_VERDICT_OK;
	/* everything at its best */
	p.limit_bytes_per_s = 25 * GB;
	p.bandwidth = (struct p2s_bandwidth){.ce_write = 30 * GB, .sm_load = 25 * GB, .loaded = 26 * GB};
	p.latency.store_flag_ns = 1;
	s.bandwidth.ce_write = 12 * GB;
	s.latency.store_flag_ns = 14000;
	assert_in_range(p2s_score_pair(&p, &s), 998, 1000);
	/* latency alone does not rescue a slow pair */
	p.bandwidth = (struct p2s_bandwidth){.ce_write = 2 * GB};
	p.verdict = P2PSAFE_VERDICT_DEGRADED;
	assert_in_range(p2s_score_pair(&p, &s), 1, 20);
	/* numbers of a broken clock are no reason to overflow */
	p.verdict = P2PSAFE_VERDICT_OK;
	p.bandwidth = (struct p2s_bandwidth){.ce_write = UINT64_MAX, .ce_read = UINT64_MAX, .loaded = UINT64_MAX};
	s.bandwidth.ce_write = UINT64_MAX;
	p.limit_bytes_per_s = 0;
	assert_in_range(p2s_score_pair(&p, &s), 101, 1000);
	assert_int_equal(p2s_score_efficiency(&p, 1), 10000);
}

struct told {
	int32_t kind;
	uint64_t bytes, value;
};

/* Two GPUs, the same messages in another order. */
static int32_t score_after(struct told *told, size_t count, int32_t *efficiency)
{
	struct p2s_model m;
	int32_t score;

	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	m.pairs[0].limit_bytes_per_s = 450 * GB;
	for (size_t i = 0; i < count; i++) {
		struct p2s_lib_measure in = {.src = 0, .dst = 1, .kind = told[i].kind, .bytes = told[i].bytes, .value = told[i].value};

		assert_int_equal(p2s_fill_measure(&m, &in), 1);
	}
	for (size_t i = m.pairs[0].leg_count; i > 1; i--) {
		size_t k = dice(i);
		struct p2s_leg l = m.pairs[0].legs[k];

		m.pairs[0].legs[k] = m.pairs[0].legs[i - 1];
		m.pairs[0].legs[i - 1] = l;
	}
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	score = m.pairs[0].score;
	*efficiency = m.pairs[0].efficiency;
	p2s_model_free(&m);
	return score;
}

static void order_does_not_matter(void **state)
{
	struct told told[] = {
		{P2S_MEASURE_CE_WRITE, 0, 390 * GB}, {P2S_MEASURE_CE_READ, 0, 380 * GB},   {P2S_MEASURE_SM_STORE, 0, 370 * GB},
		{P2S_MEASURE_SM_LOAD, 0, 360 * GB},  {P2S_MEASURE_BOTH_WAYS, 0, 770 * GB}, {P2S_MEASURE_LOADED, 0, 385 * GB},
		{P2S_MEASURE_LOAD_NS, 0, 830},       {P2S_MEASURE_STORE_FLAG_NS, 0, 1900}, {P2S_MEASURE_STAGED, 0, 50 * GB},
		{P2S_MEASURE_STAGED_NS, 0, 14000},   {P2S_MEASURE_SIZE, 4096, 2 * GB},     {P2S_MEASURE_SIZE, 1048576, 300 * GB},
		{P2S_MEASURE_STAGED, 4096, GB},      {P2S_MEASURE_STAGED_NS, 4096, 14000}};
	int32_t efficiency;
	int32_t first = score_after(told, COUNT(told), &efficiency);

	(void)state;
	assert_in_range(first, 700, 999);
	assert_int_equal(efficiency, 866);
	for (int i = 0; i < 50; i++) {
		for (size_t n = COUNT(told); n > 1; n--) {
			size_t k = dice(n);
			struct told t = told[k];

			told[k] = told[n - 1];
			told[n - 1] = t;
		}
		assert_int_equal(score_after(told, COUNT(told), &efficiency), first);
		assert_int_equal(efficiency, 866);
	}
}

/* Gen4 x16 on root ports of their own. */
static void place(struct p2s_model *m)
{
	for (size_t g = 0; g < m->gpu_count; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		f->hop_count = 2;
		snprintf(f->hops[0].address, sizeof f->hops[0].address, "0000:%02x:01.1", (unsigned)g * 16);
		snprintf(f->hops[1].address, sizeof f->hops[1].address, "%s", m->gpus[g].address);
		for (int h = 0; h < 2; h++) {
			f->hops[h].speed_max_mts = f->hops[h].speed_loaded_mts = 16000;
			f->hops[h].width_max = f->hops[h].width_loaded = 16;
			f->hops[h].max_payload = 256;
		}
	}
	for (size_t i = 0; i < m->pair_count; i++)
		m->pairs[i].path = P2PSAFE_PATH_NODE;
}

/* The same through the rules, which know legs, DEGRADED and names of paths: one result of one direction gets worse. */
struct evidence {
	struct p2s_pair numbers;
	struct p2s_staged staged;
	int32_t legs[P2PSAFE_LEG_STALE + 1][P2PSAFE_MAPPING_CUMEM + 1];
	int nvlink;
};

static int32_t score_of(const struct evidence *e, int32_t *verdict, int32_t *allowed)
{
	struct p2s_model m;
	int32_t score;

	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	place(&m);
	if (e->nvlink)
		m.pairs[0].path = P2PSAFE_PATH_NVL;
	for (size_t i = 0; i < m.pairs[0].leg_count; i++)
		m.pairs[0].legs[i].verdict = e->legs[m.pairs[0].legs[i].leg][m.pairs[0].legs[i].mapping];
	m.pairs[0].bandwidth = e->numbers.bandwidth;
	m.pairs[0].latency = e->numbers.latency;
	m.pairs[0].limit_bytes_per_s = e->numbers.limit_bytes_per_s;
	m.staged[0].bandwidth = e->staged.bandwidth;
	m.staged[0].latency = e->staged.latency;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	score = m.pairs[0].score;
	*verdict = m.pairs[0].verdict;
	*allowed = m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed;
	p2s_model_free(&m);
	return score;
}

static void worse_legs_never_raise(void **state)
{
	static const int32_t bad[] = {P2PSAFE_VERDICT_CORRUPT, P2PSAFE_VERDICT_HANG, P2PSAFE_VERDICT_ERROR, P2PSAFE_VERDICT_UNTESTED};
	size_t good = 0;
	size_t degraded = 0;
	size_t fell = 0;

	(void)state;
	for (int i = 0; i < ROUNDS / 4; i++) {
		struct evidence e;
		int32_t before, after, verdict, was, may, might;

		make(&e.numbers, &e.staged);
		e.nvlink = (int)dice(2);
		for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++)
			for (int32_t map = P2PSAFE_MAPPING_PEER; map <= P2PSAFE_MAPPING_CUMEM; map++)
				e.legs[leg][map] = P2PSAFE_VERDICT_OK;
		before = score_of(&e, &was, &might);
		for (int step = 0; step < 4; step++) {
			int32_t *leg = &e.legs[1 + dice(P2PSAFE_LEG_STALE)][P2PSAFE_MAPPING_PEER + dice(3)];

			if (dice(3) == 0)
				*leg = p2s_rules_worse(*leg, bad[dice(COUNT(bad))]);
			else
				worsen(&e.numbers);
			after = score_of(&e, &verdict, &may);
			/* Who is not measured at all is not known to be slow. */
			if (was == P2PSAFE_VERDICT_DEGRADED && p2s_score_writes(&e.numbers) == 0) {
				assert_true(after <= 0);
				break;
			}
			if ((before >= 0 && after > before) || may > might || p2s_rules_worse(verdict, was) != verdict)
				fail_msg("round %d, step %d: score %d after %d, verdict %d after %d, allowed %d after %d", i, step, (int)after,
				         (int)before, (int)verdict, (int)was, (int)may, (int)might);
			if (verdict == P2PSAFE_VERDICT_OK)
				assert_true(after < 0 || after > P2S_SCORE_DEGRADED_MAX);
			else
				assert_true(after <= (verdict == P2PSAFE_VERDICT_DEGRADED ? P2S_SCORE_DEGRADED_MAX : 0));
			good += verdict == P2PSAFE_VERDICT_OK && after > 0;
			degraded += verdict == P2PSAFE_VERDICT_DEGRADED;
			fell += before > 0 && after < before;
			before = after;
			was = verdict;
			might = may;
		}
	}
	assert_true(good > ROUNDS / 20 && degraded > ROUNDS / 20 && fell > ROUNDS / 20);
}

static void limits(void **state)
{
	struct p2s_model m;
	struct p2s_limit l;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	place(&m);
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, UINT64_C(31507692307));
	assert_int_equal(l.under_load, UINT64_C(31507692307) * 256 / 280);
	m.gpus[1].facts.hops[0].speed_loaded_mts = 8000; /* the narrowest decides */
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.under_load, UINT64_C(31507692307) / 2 * 256 / 280);
	m.gpus[1].facts.hops[0].width_loaded = 0; /* one does not tell: unknown, not the rest */
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.under_load, 0);
	assert_int_equal(l.most, UINT64_C(31507692307));
	m.gpus[0].facts.hops[1].width_max = 4;
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, UINT64_C(31507692307) / 4);
	assert_int_equal(p2s_score_host_limit(&m.gpus[0].facts), UINT64_C(31507692307) / 4);
	assert_int_equal(p2s_score_own_link(&m.gpus[0].facts), UINT64_C(31507692307) / 4);
	assert_int_equal(p2s_score_host_limit(&m.gpus[1].facts), UINT64_C(31507692307));
	m.gpus[0].facts.hops[0].speed_max_mts = 0;
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, 0);
	assert_int_equal(p2s_score_host_limit(&m.gpus[0].facts), 0);
	m.gpus[0].facts.hop_count = 0;
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, 0);
	assert_int_equal(p2s_score_own_link(&m.gpus[0].facts), 0);
	/* NVLink: what NVML counts */
	m.pairs[0].path = P2PSAFE_PATH_NVL;
	m.pairs[0].limit_bytes_per_s = 478 * GB;
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, 478 * GB);
	p2s_model_free(&m);
}

/* What lies above the common bridge is not on the way between the two. */
static void a_shared_uplink_is_no_limit(void **state)
{
	struct p2s_model m;
	struct p2s_limit l;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	place(&m);
	for (size_t g = 0; g < 2; g++)
		snprintf(m.gpus[g].facts.hops[0].address, sizeof m.gpus[g].facts.hops[0].address, "0000:40:01.1");
	m.gpus[0].facts.hops[0].width_max = m.gpus[1].facts.hops[0].width_max = 4;
	p2s_score_limit(&m, &m.pairs[0], &l);
	assert_int_equal(l.most, UINT64_C(31507692307));
	assert_int_equal(p2s_score_host_limit(&m.gpus[0].facts), UINT64_C(31507692307) / 4);
	p2s_model_free(&m);
}

static void from_where_the_peer_wins(void **state)
{
	struct p2s_size_row rows[] = {{4096, 0, 3000, 0, 2000},      {65536, 1, 4000, 2, 9000},       {1 << 20, 5, 0, 2, 0},
								  {4 << 20, 0, 90000, 0, 80000}, {64 << 20, 0, 50000, 0, 600000}, {256 << 20, 7, 0, 0, 0}};
	struct p2s_pair p = {.dst = 1, .sizes = rows, .size_count = 6};

	(void)state;
	assert_int_equal(p2s_score_wins_from(&p), 64 << 20);
	rows[3].p2p_ns = 70000; /* now only the smallest is lost */
	assert_int_equal(p2s_score_wins_from(&p), 65536);
	rows[0].staged_ns = 0; /* nothing to compare: neither won nor lost */
	assert_int_equal(p2s_score_wins_from(&p), 65536);
	rows[4].staged_ns = 40000; /* lost at the largest that was compared */
	assert_int_equal(p2s_score_wins_from(&p), 0);
	p.size_count = 0;
	assert_int_equal(p2s_score_wins_from(&p), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worse_never_raises),      cmocka_unit_test(worse_legs_never_raise),
		cmocka_unit_test(ranges),                  cmocka_unit_test(what_scores_say),
		cmocka_unit_test(order_does_not_matter),   cmocka_unit_test(limits), cmocka_unit_test(a_shared_uplink_is_no_limit),
		cmocka_unit_test(from_where_the_peer_wins)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
