/* Groups: against brute force on small machines, bounded on large ones, and the documented ties. */
#include "unit.h"

#include "choose/groups.h"
#include "rules/rules.h"

static uint64_t seed = 7;

static uint32_t random_below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

static void proven(struct p2s_model *m, int32_t n)
{
	unit_model(m, n, P2PSAFE_VERDICT_OK);
	assert_int_equal(p2s_rules_judge(m, NULL), 1);
}

static void spoil(struct p2s_model *m, int32_t a, int32_t b)
{
	p2s_model_pair(m, a, b)->verdict = P2PSAFE_VERDICT_CORRUPT;
	memset(p2s_model_pair(m, a, b)->permits, P2PSAFE_VERDICT_CORRUPT, sizeof p2s_model_pair(m, a, b)->permits);
}

static void score(struct p2s_model *m, int32_t a, int32_t b, int32_t value)
{
	p2s_model_pair(m, a, b)->score = value;
	p2s_model_pair(m, b, a)->score = value;
}

/* A machine of n GPUs on two nodes with some bad directions and scores of few values, so that there are ties. */
static void random_machine(struct p2s_model *m, int32_t n, uint32_t bad_percent)
{
	proven(m, n);
	for (int32_t i = 0; i < n; i++)
		m->gpus[i].numa_node = (int32_t)random_below(2);
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].score = (int32_t)random_below(3) * 100;
		m->pairs[i].path = random_below(2) != 0 ? P2PSAFE_PATH_NVL : P2PSAFE_PATH_PHB;
		if (random_below(100) < bad_percent)
			spoil(m, m->pairs[i].src, m->pairs[i].dst);
	}
}

static int32_t is_safe(const struct p2s_bonds *b, uint64_t set)
{
	for (int32_t i = 0; i < P2S_MAX_GPUS; i++)
		if (set >> i & 1 && (set & ~(UINT64_C(1) << i) & ~b->safe[i]) != 0)
			return 0;
	return 1;
}

struct weight {
	int32_t weakest, across, pairs;
	int64_t sum;
};

static struct weight weigh(const struct p2s_bonds *b, uint64_t set)
{
	struct weight w = {INT32_MAX, 0, 0, 0};

	for (int32_t i = 0; i < P2S_MAX_GPUS; i++) {
		for (int32_t k = i + 1; k < P2S_MAX_GPUS; k++) {
			if (!(set >> i & 1) || !(set >> k & 1))
				continue;
			w.pairs++;
			w.sum += b->value[i][k];
			w.across += !(b->near[i] >> k & 1);
			if (b->value[i][k] < w.weakest)
				w.weakest = b->value[i][k];
		}
	}
	return w;
}

static int32_t better(const struct weight *x, const struct weight *y)
{
	if (x->weakest != y->weakest)
		return x->weakest > y->weakest;
	if (x->across != y->across)
		return x->across < y->across;
	return x->sum > y->sum;
}

static void best_is_best(void **state)
{
	struct p2s_bonds b;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct p2s_model m;
		int32_t n = 2 + (int32_t)random_below(7);

		random_machine(&m, n, random_below(60));
		p2s_groups_bonds(&m, 0, &b);
		for (int32_t k = 2; k <= n; k++) {
			int32_t exact;
			uint64_t got = p2s_groups_best(&b, k, &exact);
			uint64_t want = 0;
			struct weight best = {0};

			for (uint64_t set = 0; set < UINT64_C(1) << n; set++) {
				struct weight w;

				if (__builtin_popcountll(set) != k || !is_safe(&b, set))
					continue;
				w = weigh(&b, set);
				if (want == 0 || better(&w, &best)) {
					want = set;
					best = w;
				}
			}
			assert_int_equal(exact, 1);
			assert_int_equal(got != 0, want != 0);
			if (want != 0) {
				struct weight w = weigh(&b, got);

				assert_int_equal(__builtin_popcountll(got), k);
				assert_true(is_safe(&b, got));
				assert_false(better(&best, &w));
			}
		}
		p2s_model_free(&m);
	}
}

/* Most pairs inside islands of any partition of rest. */
static int32_t most_pairs(const struct p2s_bonds *b, uint64_t rest)
{
	uint64_t first = rest & (~rest + 1);
	uint64_t others = rest & ~first;
	int32_t best = -1;

	if (rest == 0)
		return 0;
	for (uint64_t sub = others;; sub = (sub - 1) & others) {
		uint64_t island = first | sub;

		if (is_safe(b, island)) {
			int32_t n = __builtin_popcountll(island);
			int32_t got = n * (n - 1) / 2 + most_pairs(b, rest & ~island);

			best = got > best ? got : best;
		}
		if (sub == 0)
			return best;
	}
}

static int32_t most_groups(const struct p2s_bonds *b, uint64_t rest, int32_t k)
{
	uint64_t first = rest & (~rest + 1);
	uint64_t others = rest & ~first;
	int32_t best;

	if (__builtin_popcountll(rest) < k)
		return 0;
	best = most_groups(b, others, k);
	for (uint64_t sub = others; sub != 0; sub = (sub - 1) & others) {
		int32_t got;

		if (__builtin_popcountll(sub) != k - 1 || !is_safe(b, first | sub))
			continue;
		got = 1 + most_groups(b, others & ~sub, k);
		best = got > best ? got : best;
	}
	return best;
}

static void partition_and_order_are_best(void **state)
{
	struct p2s_bonds b;

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint64_t islands[P2S_MAX_GPUS];
		int32_t order[P2S_MAX_GPUS];
		struct p2s_model m;
		int32_t n = 1 + (int32_t)random_below(8);
		uint64_t all = 0;
		int32_t pairs = 0;
		int32_t exact;
		int32_t count;

		random_machine(&m, n, random_below(50));
		p2s_groups_bonds(&m, 0, &b);
		count = p2s_groups_partition(&b, islands, &exact);
		assert_int_equal(exact, 1);
		for (int32_t i = 0; i < count; i++) {
			assert_true(islands[i] != 0 && (all & islands[i]) == 0 && is_safe(&b, islands[i]));
			all |= islands[i];
			pairs += weigh(&b, islands[i]).pairs;
			if (i > 0)
				assert_true(__builtin_popcountll(islands[i - 1]) >= __builtin_popcountll(islands[i]));
		}
		assert_int_equal(all, b.group);
		assert_int_equal(pairs, most_pairs(&b, b.group));
		for (int32_t k = 2; k <= 4; k++) {
			int32_t whole = p2s_groups_order(&b, k, order, &exact);

			assert_int_equal(exact, 1);
			assert_int_equal(whole, most_groups(&b, b.group, k));
			all = 0;
			for (int32_t i = 0; i < n; i++) {
				assert_true(order[i] >= 0 && order[i] < n);
				all |= UINT64_C(1) << order[i];
			}
			assert_int_equal(all, b.group);
			for (int32_t g = 0; g < whole; g++) {
				uint64_t set = 0;

				for (int32_t i = 0; i < k; i++)
					set |= UINT64_C(1) << order[g * k + i];
				assert_true(is_safe(&b, set));
			}
		}
		p2s_model_free(&m);
	}
}

/* One bad pair of four: three stay together. Ties go to NUMA nodes, then to PCI order. NVLink comes before PCIe. */
static void documented_ties(void **state)
{
	uint64_t islands[P2S_MAX_GPUS];
	int32_t order[P2S_MAX_GPUS];
	struct p2s_model m;
	struct p2s_bonds b;
	int32_t exact;

	(void)state;
	proven(&m, 4);
	spoil(&m, 3, 0);
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_partition(&b, islands, &exact), 2);
	assert_int_equal(islands[0], 0x7);
	assert_int_equal(islands[1], 0x8);
	assert_int_equal(p2s_groups_best(&b, 4, &exact), 0);
	assert_int_equal(p2s_groups_best(&b, 3, &exact), 0x7);
	assert_int_equal(p2s_groups_best(&b, 2, &exact), 0x3);
	assert_int_equal(p2s_groups_best(&b, 1, &exact), 0);
	for (int32_t i = 0; i < 4; i++)
		m.gpus[i].numa_node = i % 2;
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_best(&b, 2, &exact), 0x5); /* 0 and 2 share a node */
	score(&m, 1, 2, 900);
	for (size_t i = 0; i < m.pair_count; i++)
		if (m.pairs[i].score < 0)
			m.pairs[i].score = 800;
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_best(&b, 2, &exact), 0x6); /* the faster pair, whatever its nodes */
	for (size_t i = 0; i < m.pair_count; i++)
		m.pairs[i].path = P2PSAFE_PATH_PHB;
	p2s_model_pair(&m, 1, 3)->path = p2s_model_pair(&m, 3, 1)->path = P2PSAFE_PATH_NVL;
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_best(&b, 2, &exact), 0xa);
	p2s_model_free(&m);
	/* bridges join 0-2 and 1-3: each stands beside its partner */
	proven(&m, 4);
	for (size_t i = 0; i < m.pair_count; i++)
		m.pairs[i].path = (m.pairs[i].src ^ m.pairs[i].dst) == 2 ? P2PSAFE_PATH_NVL : P2PSAFE_PATH_PHB;
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_order(&b, 2, order, &exact), 2);
	assert_int_equal(order[0], 0);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 1);
	assert_int_equal(order[3], 3);
	assert_int_equal(p2s_groups_order(&b, 4, order, &exact), 1);
	assert_int_equal(order[1], 2);
	p2s_model_free(&m);
}

/* 64 GPUs: whole, in blocks, and a graph that no bounded search can finish. The same answer twice. */
static void many_gpus(void **state)
{
	uint64_t islands[P2S_MAX_GPUS], again[P2S_MAX_GPUS];
	int32_t order[P2S_MAX_GPUS];
	struct p2s_model m;
	struct p2s_bonds b;
	int32_t exact;
	int32_t whole;

	(void)state;
	proven(&m, 64);
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_partition(&b, islands, &exact), 1);
	assert_int_equal(exact, 1);
	assert_int_equal(islands[0], UINT64_MAX);
	assert_int_equal(p2s_groups_best(&b, 64, &exact), UINT64_MAX);
	assert_int_equal(p2s_groups_best(&b, 8, &exact), 0xff);
	assert_int_equal(p2s_groups_order(&b, 8, order, &exact), 8);
	for (size_t i = 0; i < m.pair_count; i++)
		if (m.pairs[i].src / 8 != m.pairs[i].dst / 8)
			spoil(&m, m.pairs[i].src, m.pairs[i].dst);
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_partition(&b, islands, &exact), 8);
	assert_int_equal(exact, 1);
	assert_int_equal(islands[3], UINT64_C(0xff000000));
	assert_int_equal(p2s_groups_best(&b, 9, &exact), 0);
	assert_int_equal(exact, 1);
	p2s_model_free(&m);
	random_machine(&m, 64, 5);
	p2s_groups_bonds(&m, 0, &b);
	for (int32_t k = 2; k <= 64; k++) {
		uint64_t set = p2s_groups_best(&b, k, &exact);

		assert_true(set == 0 || (__builtin_popcountll(set) == k && is_safe(&b, set)));
	}
	for (int32_t k = 2; k <= 16; k *= 2)
		assert_true(p2s_groups_order(&b, k, order, &exact) <= 64 / k);
	whole = p2s_groups_partition(&b, islands, &exact);
	assert_int_equal(p2s_groups_partition(&b, again, &exact), whole);
	assert_memory_equal(islands, again, (size_t)whole * sizeof islands[0]);
	p2s_model_free(&m);
}

/* Zero never means safe: no pair, one direction, another consumer, nothing tested, outsiders. */
static void any_set(void **state)
{
	struct p2s_group_facts facts;
	struct p2s_model m;
	struct p2s_bonds b;
	int32_t exact;

	(void)state;
	proven(&m, 3);
	assert_int_equal(p2s_groups_allow(&m, 0x7, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(p2s_groups_allow(&m, 0x1, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(p2s_groups_allow(&m, 0, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(p2s_groups_allow(&m, 0x7, P2PSAFE_CONSUMER_MULTICAST), 0);
	assert_int_equal(p2s_groups_allow(&m, 0x7, 0), 0);
	assert_int_equal(p2s_groups_allow(&m, 0x7, 99), 0);
	assert_int_equal(p2s_groups_allow(&m, 0x17, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(p2s_groups_facts(&m, 0x8, &facts), 0);
	p2s_model_pair(&m, 2, 0)->permits[P2PSAFE_CONSUMER_PEER_COPIES] = P2PSAFE_VERDICT_UNTESTED;
	assert_int_equal(p2s_groups_allow(&m, 0x5, P2PSAFE_CONSUMER_NCCL_P2P), 1);
	assert_int_equal(p2s_groups_allow(&m, 0x5, P2PSAFE_CONSUMER_PEER_COPIES), 0);
	assert_int_equal(p2s_groups_allow(&m, 0x3, P2PSAFE_CONSUMER_PEER_COPIES), 1);
	p2s_groups_bonds(&m, P2PSAFE_CONSUMER_PEER_COPIES, &b);
	assert_int_equal(p2s_groups_best(&b, 3, &exact), 0);
	m.gpus[1].in_group = 0;
	p2s_model_drop_outsiders(&m);
	assert_int_equal(p2s_groups_allow(&m, 0x3, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	assert_int_equal(p2s_groups_facts(&m, 0x3, &facts), 0);
	spoil(&m, 0, 2);
	assert_int_equal(p2s_groups_facts(&m, 0x5, &facts), 1);
	assert_int_equal(facts.verdict, P2PSAFE_VERDICT_CORRUPT);
	p2s_model_free(&m);
	proven(&m, 2);
	m.nothing_tested = 1;
	assert_int_equal(p2s_groups_allow(&m, 0x3, P2PSAFE_CONSUMER_NCCL_P2P), 0);
	p2s_groups_bonds(&m, 0, &b);
	assert_int_equal(p2s_groups_best(&b, 2, &exact), 0);
	assert_int_equal(p2s_groups_facts(&m, 0x3, &facts), 1);
	assert_int_equal(facts.verdict, P2PSAFE_VERDICT_UNTESTED);
	p2s_model_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(best_is_best), cmocka_unit_test(partition_and_order_are_best),
	                                   cmocka_unit_test(documented_ties), cmocka_unit_test(many_gpus), cmocka_unit_test(any_set)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
