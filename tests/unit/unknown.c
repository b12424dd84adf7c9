/* Unknown is unsafe: whatever a leg says that is not exactly OK, whatever is missing, whatever number nobody knows, no
 * combination of it yields a permission or a peer transport without every required leg proven. The right answer is worked out
 * here a second time, from a table of its own, and the library must neither allow more nor less. */
#include "unit.h"

#include <limits.h>

#include "api/internal.h"
#include "choose/choose.h"
#include "core/names.h"
#include "needs.h"
#include "rules/rules.h"

#define LEGS (P2PSAFE_LEG_STAGED + 1)
#define MAPS (P2PSAFE_MAPPING_HOST + 1)
#define ABSENT 1000 /* no such entry in the report */

/* Every enumerator, its neighbours outside, and numbers that become small ones when cut short. */
static const int32_t verdicts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 255, 256, 257, 0x10001, INT_MAX, INT_MIN, INT_MIN + 1, ABSENT};

static int32_t plain(int32_t verdict)
{
	return verdict == ABSENT ? P2PSAFE_VERDICT_UNTESTED : verdict;
}

static int32_t bad(int32_t verdict)
{
	return verdict == P2PSAFE_VERDICT_CORRUPT || verdict == P2PSAFE_VERDICT_HANG || verdict == P2PSAFE_VERDICT_ERROR;
}

struct world {
	struct p2s_model m;
	int32_t said[2][LEGS][MAPS]; /* verdict of each leg, by pair; ABSENT: none */
};

/* The second opinion. 1 if this consumer may use the directed pair. */
static int32_t proven(const struct world *w, size_t pair, const struct need *n)
{
	int32_t whole = 0;

	for (const int32_t *map = n->maps; *map != 0; map++) {
		int32_t ok = 1;
		int32_t refused = 1;

		for (const int32_t *leg = n->legs; *leg != 0; leg++) {
			ok &= w->said[pair][*leg][*map] == P2PSAFE_VERDICT_OK;
			refused &= w->said[pair][*leg][*map] == P2PSAFE_VERDICT_UNSUPPORTED;
		}
		if (!ok && !refused)
			return 0;
		whole |= ok;
	}
	for (int32_t leg = 1; leg < LEGS; leg++)
		for (int32_t map = 1; map < MAPS; map++)
			if (leg != P2PSAFE_LEG_TEARING_128 && leg != P2PSAFE_LEG_STAGED && bad(w->said[pair][leg][map]))
				return 0;
	return whole;
}

/* A leg that says DEGRADED makes its whole pair so, which may cost a permission that the legs alone would give. */
static int32_t degraded(const struct world *w)
{
	for (size_t pair = 0; pair < 2; pair++)
		for (int32_t leg = 1; leg < LEGS; leg++)
			for (int32_t map = 1; map < MAPS; map++)
				if (w->said[pair][leg][map] == P2PSAFE_VERDICT_DEGRADED)
					return 1;
	return 0;
}

static void peers_only_on_proof(const struct p2s_pair *p, int32_t right, int32_t may_be_less)
{
	int32_t peers = p->transport == P2PSAFE_TRANSPORT_NVLINK || p->transport == P2PSAFE_TRANSPORT_PCIE;

	assert_true(peers == right || (right && may_be_less));
	if (p->transport == P2PSAFE_TRANSPORT_NVLINK)
		assert_true(p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C);
	assert_in_range(p->transport, P2PSAFE_TRANSPORT_NVLINK, P2PSAFE_TRANSPORT_NONE);
}

static void judged(struct world *w)
{
	int32_t both[COUNT(needs)];
	int32_t may_be_less = degraded(w);

	assert_int_equal(p2s_rules_judge(&w->m, NULL), 1);
	assert_int_equal(p2s_choose(&w->m), 1);
	for (size_t i = 0; i < COUNT(needs); i++) {
		const struct p2s_consumer *c = &w->m.consumers[needs[i].consumer];

		both[i] = proven(w, 0, &needs[i]) && proven(w, 1, &needs[i]);
		assert_true(c->allowed == both[i] || (c->allowed == 0 && may_be_less));
		assert_int_equal(c->verdict == P2PSAFE_VERDICT_OK, c->allowed);
		assert_int_equal(p2s_rules_vetoed(&w->m, needs[i].consumer, 0), !c->allowed);
		both[i] &= c->allowed;
	}
	assert_int_not_equal(w->m.consumers[P2PSAFE_CONSUMER_MULTICAST].allowed, 1);
	assert_int_equal(w->m.consumers[0].allowed, 0);
	for (size_t i = 0; i < w->m.pair_count; i++)
		peers_only_on_proof(&w->m.pairs[i], both[0] && both[3], may_be_less);
	assert_int_equal(p2s_rules_exit_code(&w->m) == 0, both[0] && both[1] && both[3]);
}

/* Puts what is said into the model. An absent leg takes its neighbour's place in the list: order must not matter. */
static void apply(struct world *w, size_t pair)
{
	struct p2s_pair *p = &w->m.pairs[pair];

	p->leg_count = 0;
	for (int32_t map = 1; map < MAPS; map++) {
		for (int32_t leg = 1; leg < LEGS; leg++) {
			struct p2s_leg *l;

			if (w->said[pair][leg][map] == ABSENT)
				continue;
			l = p2s_model_leg(p, leg, map);
			assert_non_null(l);
			l->verdict = w->said[pair][leg][map];
			l->bytes = 4096;
			l->rounds = 1;
		}
	}
}

static void set(struct world *w, size_t pair, int32_t leg, int32_t map, int32_t verdict)
{
	struct p2s_leg *l = NULL;
	struct p2s_pair *p = &w->m.pairs[pair];

	if ((verdict == ABSENT) != (w->said[pair][leg][map] == ABSENT)) {
		w->said[pair][leg][map] = verdict;
		apply(w, pair);
		return;
	}
	w->said[pair][leg][map] = verdict;
	for (size_t i = 0; i < p->leg_count && l == NULL; i++)
		if (p->legs[i].leg == leg && p->legs[i].mapping == map)
			l = &p->legs[i];
	if (l != NULL)
		l->verdict = plain(verdict);
}

static int make(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	unit_model(&w->m, 2, P2PSAFE_VERDICT_OK);
	for (size_t pair = 0; pair < 2; pair++)
		for (int32_t leg = 1; leg < LEGS; leg++)
			for (int32_t map = 1; map < MAPS; map++)
				w->said[pair][leg][map] =
				    leg <= P2PSAFE_LEG_STALE && map <= P2PSAFE_MAPPING_CUMEM ? P2PSAFE_VERDICT_OK : ABSENT;
	apply(w, 0);
	apply(w, 1);
	*state = w;
	return 0;
}

static int drop(void **state)
{
	struct world *w = *state;

	p2s_model_free(&w->m);
	free(w);
	return 0;
}

static void the_second_opinion_agrees_on_health(void **state)
{
	struct world *w = *state;

	judged(w);
	for (size_t i = 0; i < COUNT(needs); i++)
		assert_int_equal(w->m.consumers[needs[i].consumer].allowed, 1);
	assert_int_equal(w->m.transport, P2PSAFE_TRANSPORT_NVLINK);
}

/* Each leg of each mapping and direction takes every value. */
static void each_leg_takes_every_value(void **state)
{
	struct world *w = *state;

	for (size_t pair = 0; pair < 2; pair++) {
		for (int32_t leg = 1; leg < LEGS; leg++) {
			for (int32_t map = 1; map < MAPS; map++) {
				int32_t old = w->said[pair][leg][map];

				for (size_t v = 0; v < COUNT(verdicts); v++) {
					set(w, pair, leg, map, verdicts[v]);
					judged(w);
				}
				set(w, pair, leg, map, old);
			}
		}
	}
	judged(w);
	assert_int_equal(w->m.transport, P2PSAFE_TRANSPORT_NVLINK);
}

/* Any two legs of one direction take every pair of known values. */
static void any_two_legs_take_every_value(void **state)
{
	struct world *w = *state;
	int32_t spots = P2PSAFE_LEG_STALE * P2PSAFE_MAPPING_CUMEM;

	for (int32_t a = 0; a < spots; a++) {
		int32_t leg_a = a % P2PSAFE_LEG_STALE + 1;
		int32_t map_a = a / P2PSAFE_LEG_STALE + 1;

		for (int32_t va = 0; va <= P2PSAFE_VERDICT_UNTESTED; va++) {
			set(w, 0, leg_a, map_a, va);
			for (int32_t b = a + 1; b < spots; b++) {
				int32_t leg_b = b % P2PSAFE_LEG_STALE + 1;
				int32_t map_b = b / P2PSAFE_LEG_STALE + 1;

				for (int32_t vb = 0; vb <= P2PSAFE_VERDICT_UNTESTED; vb++) {
					set(w, 0, leg_b, map_b, vb);
					judged(w);
				}
				set(w, 0, leg_b, map_b, P2PSAFE_VERDICT_OK);
			}
		}
		set(w, 0, leg_a, map_a, P2PSAFE_VERDICT_OK);
	}
}

/* Whole mappings refused, absent or bad, alone and together, with one more leg of any value. */
static void whole_mappings(void **state)
{
	static const int32_t fills[] = {P2PSAFE_VERDICT_OK, P2PSAFE_VERDICT_UNSUPPORTED, P2PSAFE_VERDICT_UNTESTED, ABSENT, 0};
	struct world *w = *state;

	for (size_t mix = 0; mix < COUNT(fills) * COUNT(fills) * COUNT(fills); mix++) {
		size_t part = mix;

		for (int32_t map = 1; map <= P2PSAFE_MAPPING_CUMEM; map++, part /= COUNT(fills))
			for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++)
				w->said[1][leg][map] = fills[part % COUNT(fills)];
		apply(w, 1);
		judged(w);
		for (int32_t map = 1; map <= P2PSAFE_MAPPING_CUMEM; map++) {
			for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++) {
				int32_t old = w->said[1][leg][map];

				for (size_t v = 0; v < COUNT(verdicts); v++) {
					set(w, 1, leg, map, verdicts[v]);
					judged(w);
				}
				set(w, 1, leg, map, old);
			}
		}
	}
}

static uint32_t next(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Everything at once, with many OK among it, so that permissions occur. */
static void everything_at_once(void **state)
{
	struct world *w = *state;
	uint32_t seed = 20261130;
	int32_t permitted = 0;

	for (int round = 0; round < 20000; round++) {
		uint32_t oks = next(&seed) % 64;

		for (size_t pair = 0; pair < 2; pair++) {
			for (int32_t leg = 1; leg < LEGS; leg++)
				for (int32_t map = 1; map < MAPS; map++)
					w->said[pair][leg][map] =
					    next(&seed) % 64 <= oks ? P2PSAFE_VERDICT_OK : verdicts[next(&seed) % COUNT(verdicts)];
			apply(w, pair);
		}
		judged(w);
		for (size_t i = 0; i < COUNT(needs); i++)
			permitted += w->m.consumers[needs[i].consumer].allowed == 1;
	}
	assert_in_range(permitted, 100, 79900); /* both answers were met often */
}

/* What a path is called changes only the word for the transport, and no number becomes NVLink. */
static void paths_nobody_knows(void **state)
{
	struct world *w = *state;

	for (int32_t path = -300; path < 300; path++) {
		w->m.pairs[0].path = w->m.pairs[1].path = path;
		judged(w);
		assert_int_equal(w->m.pairs[0].transport == P2PSAFE_TRANSPORT_NVLINK, path == P2PSAFE_PATH_NVL || path == P2PSAFE_PATH_C2C);
	}
}

/* The way back is as much part of a pair; without an entry for it nothing is proven. Without any pair nothing is allowed at
 * all. */
static void absent_pairs(void **state)
{
	struct world *w = *state;
	size_t count = w->m.pair_count;

	w->m.pair_count = 1;
	assert_int_equal(p2s_rules_judge(&w->m, NULL), 1);
	assert_int_equal(p2s_choose(&w->m), 1);
	assert_int_not_equal(w->m.pairs[0].transport, P2PSAFE_TRANSPORT_NVLINK);
	assert_int_not_equal(w->m.pairs[0].transport, P2PSAFE_TRANSPORT_PCIE);
	w->m.pair_count = 0;
	assert_int_equal(p2s_rules_judge(&w->m, NULL), 1);
	assert_int_equal(p2s_choose(&w->m), 1);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		assert_int_equal(w->m.consumers[c].allowed, 0);
	assert_true(w->m.transport >= P2PSAFE_TRANSPORT_NET);
	w->m.pair_count = count;
	/* a run that tested nothing allows nothing, whatever legs are there */
	w->m.nothing_tested = 1;
	assert_int_equal(p2s_rules_judge(&w->m, NULL), 1);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		assert_int_equal(w->m.consumers[c].allowed, 0);
	assert_int_equal(p2s_rules_exit_code(&w->m), 3);
}

/* A fall-back that was not proven is never called host memory. */
static void the_staged_path_takes_every_value(void **state)
{
	struct world *w = *state;

	set(w, 0, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_CUMEM, P2PSAFE_VERDICT_CORRUPT);
	for (size_t v = 0; v < COUNT(verdicts); v++) {
		w->m.staged[0].verdict = verdicts[v];
		if (verdicts[v] == ABSENT)
			w->m.staged_count = 0;
		judged(w);
		assert_int_equal(w->m.transport == P2PSAFE_TRANSPORT_HOST_STAGED,
		                 verdicts[v] == P2PSAFE_VERDICT_OK || verdicts[v] == P2PSAFE_VERDICT_DEGRADED);
		w->m.staged_count = 1;
	}
}

/* The decision part of a kept record is a matrix of bytes: each byte takes every value. */
static void every_byte_of_a_kept_matrix(void **state)
{
	struct world *w = *state;
	unsigned char bytes[2 * 2 * P2S_CONSUMERS];
	struct p2s_matrix matrix = {.gpus = 2, .verdict = bytes};

	w->m.pairs[0].leg_count = w->m.pairs[1].leg_count = 0;
	for (size_t spot = P2S_CONSUMERS; spot < 3 * P2S_CONSUMERS; spot++) {
		for (int value = 0; value < 256; value++) {
			int32_t consumer = (int32_t)(spot % P2S_CONSUMERS);

			memset(bytes, P2PSAFE_VERDICT_OK, sizeof bytes);
			bytes[spot] = (unsigned char)value;
			assert_int_equal(p2s_rules_judge(&w->m, &matrix), 1);
			assert_int_equal(p2s_choose(&w->m), 1);
			for (int32_t c = 1; c < P2S_CONSUMERS; c++) {
				if (c == P2PSAFE_CONSUMER_MULTICAST)
					assert_int_not_equal(w->m.consumers[c].allowed, 1);
				else if (c == consumer)
					assert_int_equal(w->m.consumers[c].allowed, value == P2PSAFE_VERDICT_OK);
			}
			if (consumer == 0)
				assert_int_equal(w->m.transport == P2PSAFE_TRANSPORT_NVLINK, value == P2PSAFE_VERDICT_OK);
		}
	}
	memset(bytes, 0, sizeof bytes); /* memory nobody wrote */
	assert_int_equal(p2s_rules_judge(&w->m, &matrix), 1);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		assert_int_equal(w->m.consumers[c].allowed, 0);
}

/* Consumers that nobody knows: by number and by name, in rules and through the interface. */
static void consumers_nobody_knows(void **state)
{
	struct world *w = *state;

	judged(w);
	for (int32_t c = -70000; c <= 70000; c++) {
		int32_t known = c >= P2PSAFE_CONSUMER_NCCL_P2P && c <= P2PSAFE_CONSUMER_PEER_COPIES;

		assert_int_equal(p2s_rules_consumer(&w->m.pairs[0], c, NULL, NULL),
		                 known ? P2PSAFE_VERDICT_OK : P2PSAFE_VERDICT_UNTESTED);
		assert_int_equal(p2psafe_report_allows(NULL, c), 0);
	}
	assert_int_equal(p2psafe_consumer_from_name("nccl_p2p2"), 0);
	assert_int_equal(p2psafe_consumer_from_name(""), 0);
	assert_int_equal(p2psafe_consumer_from_name(NULL), 0);
	assert_int_equal(p2psafe_report_exit_code(NULL), 4);
}

/* No word but its own becomes a value, and no number but a known one becomes a word. */
static void words_nobody_knows(void **state)
{
	static const char *const spoilt[] = {"", " ", "ok", "Ok", "OK ", " OK", "OKAY", "O", "1", "true", "unknown"};

	(void)state;
	for (size_t i = 0; i < COUNT(spoilt); i++)
		assert_int_equal(p2s_word_value(P2S_GROUP_VERDICT, spoilt[i]), 0);
	assert_int_equal(p2s_word_value(P2S_GROUP_VERDICT, NULL), 0);
	assert_int_equal(p2s_word_value(P2S_GROUP_VERDICT, "OK"), P2PSAFE_VERDICT_OK);
	for (int group = P2S_GROUP_VERDICT; group <= P2S_GROUP_FORMAT; group++) {
		for (int32_t value = -1000; value < 70000; value += value < 300 ? 1 : 997) {
			const char *word = p2s_word_name((enum p2s_word_group)group, value);

			assert_non_null(word);
			if (strcmp(word, "unknown") != 0)
				assert_int_equal(p2s_word_value((enum p2s_word_group)group, word), value);
			else
				assert_true(group == P2S_GROUP_DAMAGE || !p2s_word_known((enum p2s_word_group)group, word) ||
				            p2s_word_value((enum p2s_word_group)group, word) >= 0);
		}
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {T(the_second_opinion_agrees_on_health),
	                                   T(each_leg_takes_every_value),
	                                   T(any_two_legs_take_every_value),
	                                   T(whole_mappings),
	                                   T(everything_at_once),
	                                   T(paths_nobody_knows),
	                                   T(absent_pairs),
	                                   T(the_staged_path_takes_every_value),
	                                   T(every_byte_of_a_kept_matrix),
	                                   T(consumers_nobody_knows),
	                                   T(words_nobody_knows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
