#include "choose/groups.h"

#include <string.h>

#include "rules/rules.h"

#define BIT(i) (UINT64_C(1) << (i))
#define FIRST(set) __builtin_ctzll(set)
#define COUNT(set) __builtin_popcountll(set)

/* Above every score, so that the slowest NVLink is preferred to the fastest PCIe. */
#define NVLINK_VALUE 2000

static int32_t permitted(const struct p2s_pair *p, int32_t consumer)
{
	return (consumer == P2PSAFE_CONSUMER_UNKNOWN ? p->verdict : p->permits[consumer]) == P2PSAFE_VERDICT_OK;
}

static int32_t pair_value(const struct p2s_pair *p)
{
	int32_t nvlink = p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C;

	return (nvlink ? NVLINK_VALUE : 0) + (p->score >= 0 ? p->score + 2 : 1);
}

void p2s_groups_bonds(const struct p2s_model *m, int32_t consumer, struct p2s_bonds *b)
{
	uint64_t to[P2S_MAX_GPUS] = {0};

	memset(b, 0, sizeof *b);
	for (size_t i = 0; i < m->gpu_count; i++) {
		if (!m->gpus[i].in_group)
			continue;
		b->group |= BIT(i);
		for (size_t k = 0; k < m->gpu_count; k++)
			if (k != i && m->gpus[k].numa_node == m->gpus[i].numa_node)
				b->near[i] |= BIT(k);
	}
	if (consumer < 0 || consumer >= P2S_CONSUMERS || m->nothing_tested)
		return;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];
		uint16_t value = (uint16_t)pair_value(p);

		if (!permitted(p, consumer))
			continue;
		to[p->src] |= BIT(p->dst);
		/* a pair is as good as its weaker direction */
		if (b->value[p->dst][p->src] == 0 || value < b->value[p->dst][p->src])
			b->value[p->src][p->dst] = b->value[p->dst][p->src] = value;
	}
	for (int32_t a = 0; a < P2S_MAX_GPUS; a++) {
		for (int32_t c = 0; c < P2S_MAX_GPUS; c++) {
			if (to[a] & BIT(c) && to[c] & BIT(a) && b->group & BIT(a) && b->group & BIT(c))
				b->safe[a] |= BIT(c);
			else
				b->value[a][c] = 0;
		}
	}
}

void p2s_groups_filter(struct p2s_bonds *b, int32_t (*keep)(const void *user, int32_t a, int32_t b), const void *user)
{
	for (int32_t a = 0; a < P2S_MAX_GPUS; a++) {
		for (uint64_t left = b->safe[a]; left != 0; left &= left - 1) {
			int32_t c = FIRST(left);

			if (keep(user, a, c) && keep(user, c, a))
				continue;
			b->safe[a] &= ~BIT(c);
			b->safe[c] &= ~BIT(a);
			b->value[a][c] = b->value[c][a] = 0;
		}
	}
}

/* How one more member is connected to a set. */
static int64_t sum_to(const struct p2s_bonds *b, int32_t v, uint64_t set)
{
	int64_t sum = 0;

	for (; set != 0; set &= set - 1)
		sum += b->value[v][FIRST(set)];
	return sum;
}

static int32_t across_to(const struct p2s_bonds *b, int32_t v, uint64_t set)
{
	return COUNT(set & ~b->near[v]);
}

/* Of open, who fits best to the members: fewest pairs across nodes, highest sum, first in PCI order. */
static int32_t best_partner(const struct p2s_bonds *b, uint64_t members, uint64_t open)
{
	int32_t best = -1;
	int32_t best_across = 0;
	int64_t best_sum = 0;

	for (uint64_t left = open; left != 0; left &= left - 1) {
		int32_t v = FIRST(left);
		int32_t across = across_to(b, v, members);
		int64_t sum = sum_to(b, v, members);

		if (best >= 0 && (sum < best_sum || (sum == best_sum && across >= best_across)))
			continue;
		best = v;
		best_across = across;
		best_sum = sum;
	}
	return best;
}

/* 1 if set x comes before y: the first GPU that only one of them holds decides. */
static int32_t before(uint64_t x, uint64_t y)
{
	uint64_t differ = x ^ y;

	return differ != 0 && (x & (differ & (~differ + 1))) != 0;
}

/* ---- best group ---- */

struct best {
	const struct p2s_bonds *b;
	uint64_t graph[P2S_MAX_GPUS]; /* pairs that are at least as good as the threshold */
	int32_t count;
	int32_t any; /* stop at the first */
	int32_t work;
	uint64_t found;
	int32_t across;
	int64_t sum;
	int64_t top; /* no sum can be higher */
};

static void offer(struct best *s, uint64_t set, int32_t across, int64_t sum)
{
	if (s->found != 0 && (across > s->across || (across == s->across && sum < s->sum) ||
	                      (across == s->across && sum == s->sum && !before(set, s->found))))
		return;
	s->found = set;
	s->across = across;
	s->sum = sum;
}

static int32_t enough(const struct best *s)
{
	return s->work <= 0 || (s->found != 0 && (s->any || (s->across == 0 && s->sum == s->top)));
}

static void extend(struct best *s, uint64_t set, uint64_t open, int32_t across, int64_t sum)
{
	int32_t need = s->count - COUNT(set);

	s->work--;
	if (need == 0) {
		offer(s, set, across, sum);
		return;
	}
	while (COUNT(open) >= need && !enough(s)) {
		int32_t v = FIRST(open);
		int32_t more = across + across_to(s->b, v, set);

		open &= ~BIT(v);
		if (s->found == 0 || more <= s->across)
			extend(s, set | BIT(v), open & s->graph[v], more, sum + sum_to(s->b, v, set));
	}
}

/* One good group from every start, so that the search has something to beat. */
static void greedy(struct best *s, uint64_t open)
{
	for (uint64_t starts = open; starts != 0 && !enough(s); starts &= starts - 1) {
		int32_t v = FIRST(starts);
		uint64_t set = BIT(v);
		uint64_t left = open & s->graph[v];
		int32_t across = 0;
		int64_t sum = 0;

		while (left != 0 && COUNT(set) < s->count) {
			/* nodes count more than sums here: the weakest pair is decided already */
			uint64_t here = left & s->b->near[v];

			v = best_partner(s->b, set, here != 0 ? here : left);
			across += across_to(s->b, v, set);
			sum += sum_to(s->b, v, set);
			set |= BIT(v);
			left &= s->graph[v];
		}
		if (COUNT(set) == s->count)
			offer(s, set, across, sum);
	}
}

/* Searches groups whose pairs all reach the threshold. Returns 1 if there is one. */
static int32_t search(struct best *s, int32_t threshold, int32_t any)
{
	uint64_t open = s->b->group;
	uint64_t old;

	for (int32_t a = 0; a < P2S_MAX_GPUS; a++) {
		s->graph[a] = 0;
		for (uint64_t left = s->b->safe[a]; left != 0; left &= left - 1)
			if (s->b->value[a][FIRST(left)] >= threshold)
				s->graph[a] |= BIT(FIRST(left));
	}
	do { /* who has too few partners is in no group */
		old = open;
		for (uint64_t left = old; left != 0; left &= left - 1)
			if (COUNT(s->graph[FIRST(left)] & open) < s->count - 1)
				open &= ~BIT(FIRST(left));
	} while (open != old);
	s->any = any;
	s->work = P2S_GROUPS_WORK;
	s->found = 0;
	greedy(s, open);
	if (!enough(s))
		extend(s, 0, open, 0, 0);
	return s->found != 0;
}

static int32_t thresholds(const struct p2s_bonds *b, uint16_t *list)
{
	static const int32_t max = NVLINK_VALUE + 1003;
	unsigned char seen[NVLINK_VALUE + 1003] = {0};
	int32_t n = 0;

	for (int32_t a = 0; a < P2S_MAX_GPUS; a++)
		for (uint64_t left = b->safe[a]; left != 0; left &= left - 1)
			if (b->value[a][FIRST(left)] < max)
				seen[b->value[a][FIRST(left)]] = 1;
	for (int32_t v = max - 1; v > 0; v--)
		if (seen[v])
			list[n++] = (uint16_t)v;
	return n; /* best first */
}

uint64_t p2s_groups_best(const struct p2s_bonds *b, int32_t count, int32_t *exact)
{
	uint16_t list[NVLINK_VALUE + 1003];
	struct best s = {.b = b, .count = count};
	int32_t low = 0;
	int32_t high = thresholds(b, list) - 1;

	*exact = 1;
	if (count < 2 || count > COUNT(b->group) || high < 0)
		return 0;
	s.top = (int64_t)list[0] * count * (count - 1) / 2;
	if (!search(&s, list[high], 1)) {
		*exact = s.work > 0;
		return 0;
	}
	while (low < high) { /* the highest threshold that still has a group */
		int32_t middle = low + (high - low) / 2;

		if (search(&s, list[middle], 1)) {
			high = middle;
		} else {
			*exact &= s.work > 0;
			low = middle + 1;
		}
	}
	search(&s, list[high], 0);
	*exact &= s.work > 0;
	return s.found;
}

/* ---- partition ---- */

struct parts {
	const struct p2s_bonds *b;
	int32_t work;
	uint64_t now[P2S_MAX_GPUS];
	int32_t depth;
	uint64_t best[P2S_MAX_GPUS];
	int32_t best_count; /* 0: none yet */
	int32_t best_pairs;
	int64_t best_sum;
	int32_t best_across;
	int32_t all_pairs; /* of the component */
};

static int32_t pairs_in(const struct p2s_bonds *b, uint64_t set)
{
	int32_t twice = 0;

	for (uint64_t left = set; left != 0; left &= left - 1)
		twice += COUNT(b->safe[FIRST(left)] & set);
	return twice / 2;
}

static void weigh(struct parts *s, int32_t pairs)
{
	int64_t sum = 0;
	int32_t across = 0;

	for (int32_t i = 0; i < s->depth; i++) {
		for (uint64_t left = s->now[i]; left != 0; left &= left - 1) {
			sum += sum_to(s->b, FIRST(left), left & (left - 1));
			across += across_to(s->b, FIRST(left), left & (left - 1));
		}
	}
	if (s->best_count != 0 && (pairs < s->best_pairs || (pairs == s->best_pairs && sum < s->best_sum) ||
	                           (pairs == s->best_pairs && sum == s->best_sum && across >= s->best_across)))
		return;
	memcpy(s->best, s->now, (size_t)s->depth * sizeof s->now[0]);
	s->best_count = s->depth;
	s->best_pairs = pairs;
	s->best_sum = sum;
	s->best_across = across;
}

static int32_t parts_done(const struct parts *s)
{
	return s->best_count != 0 && (s->work <= 0 || s->best_pairs == s->all_pairs);
}

static void next_island(struct parts *s, uint64_t rest, int32_t pairs);

/* All cliques of the island's first GPU, large ones first: who is open is taken, then left out. */
static void grow_island(struct parts *s, uint64_t island, uint64_t open, uint64_t rest, int32_t pairs)
{
	int32_t v;

	if (parts_done(s))
		return;
	s->work--;
	if (open == 0) {
		s->now[s->depth++] = island;
		next_island(s, rest & ~island, pairs);
		s->depth--;
		return;
	}
	v = best_partner(s->b, island, open);
	grow_island(s, island | BIT(v), open & s->b->safe[v], rest, pairs + COUNT(island));
	grow_island(s, island, open & ~BIT(v), rest, pairs);
}

static void next_island(struct parts *s, uint64_t rest, int32_t pairs)
{
	if (rest == 0) {
		weigh(s, pairs);
		return;
	}
	if (parts_done(s) || (s->best_count != 0 && pairs + pairs_in(s->b, rest) < s->best_pairs))
		return;
	grow_island(s, BIT(FIRST(rest)), s->b->safe[FIRST(rest)] & rest, rest, pairs);
}

static uint64_t component(const struct p2s_bonds *b, int32_t first)
{
	uint64_t set = BIT(first);
	uint64_t old;

	do {
		old = set;
		for (uint64_t left = old; left != 0; left &= left - 1)
			set |= b->safe[FIRST(left)];
	} while (set != old);
	return set;
}

int32_t p2s_groups_partition(const struct p2s_bonds *b, uint64_t islands[P2S_MAX_GPUS], int32_t *exact)
{
	int32_t n = 0;

	*exact = 1;
	for (uint64_t rest = b->group; rest != 0;) {
		uint64_t set = component(b, FIRST(rest));
		struct parts s = {.b = b, .work = P2S_GROUPS_WORK, .all_pairs = pairs_in(b, set)};

		next_island(&s, set, 0);
		*exact &= s.work > 0 || s.best_pairs == s.all_pairs;
		memcpy(islands + n, s.best, (size_t)s.best_count * sizeof s.best[0]);
		n += s.best_count;
		rest &= ~set;
	}
	for (int32_t i = 1; i < n; i++) { /* few: largest first, then by the first GPU */
		uint64_t moving = islands[i];
		int32_t k = i;

		for (; k > 0 && (COUNT(islands[k - 1]) < COUNT(moving) ||
		                 (COUNT(islands[k - 1]) == COUNT(moving) && FIRST(islands[k - 1]) > FIRST(moving)));
		     k--)
			islands[k] = islands[k - 1];
		islands[k] = moving;
	}
	return n;
}

/* ---- order ---- */

struct pack {
	const struct p2s_bonds *b;
	int32_t count;
	int32_t work;
	uint64_t now[P2S_MAX_GPUS];
	int32_t depth;
	uint64_t best[P2S_MAX_GPUS];
	int32_t best_depth;
	int32_t bound;
};

static int32_t packed(const struct pack *s)
{
	return s->work <= 0 || s->best_depth == s->bound;
}

static void next_pack(struct pack *s, uint64_t rest);

static void grow_pack(struct pack *s, uint64_t set, uint64_t open, uint64_t rest)
{
	int32_t v;

	if (packed(s))
		return;
	s->work--;
	if (COUNT(set) == s->count) {
		s->now[s->depth++] = set;
		next_pack(s, rest & ~set);
		s->depth--;
		return;
	}
	if (COUNT(set) + COUNT(open) < s->count)
		return;
	v = best_partner(s->b, set, open);
	grow_pack(s, set | BIT(v), open & s->b->safe[v], rest);
	grow_pack(s, set, open & ~BIT(v), rest);
}

static void next_pack(struct pack *s, uint64_t rest)
{
	if (s->depth > s->best_depth) {
		memcpy(s->best, s->now, sizeof s->best);
		s->best_depth = s->depth;
	}
	if (packed(s) || s->depth + COUNT(rest) / s->count <= s->best_depth)
		return;
	s->work--;
	grow_pack(s, BIT(FIRST(rest)), s->b->safe[FIRST(rest)] & rest, rest);
	next_pack(s, rest & (rest - 1)); /* without its first */
}

/* Appends a set. Halves of it that belong together more than others stay side by side. */
static int32_t append(const struct p2s_bonds *b, uint64_t set, int32_t *order, int32_t n)
{
	while (set != 0) {
		int32_t first = FIRST(set);

		order[n++] = first;
		set &= ~BIT(first);
		if (set != 0 && COUNT(set) > 1) {
			int32_t second = best_partner(b, BIT(first), set);

			order[n++] = second;
			set &= ~BIT(second);
		}
	}
	return n;
}

int32_t p2s_groups_order(const struct p2s_bonds *b, int32_t count, int32_t order[P2S_MAX_GPUS], int32_t *exact)
{
	struct pack s = {.b = b, .count = count, .work = P2S_GROUPS_WORK};
	uint64_t rest = b->group;
	int32_t n = 0;

	*exact = 1;
	if (count >= 2) {
		s.bound = COUNT(b->group) / count;
		next_pack(&s, b->group);
		*exact = s.work > 0 || s.best_depth == s.bound;
	}
	for (int32_t i = 0; i < s.best_depth; i++) {
		n = append(b, s.best[i], order, n);
		rest &= ~s.best[i];
	}
	append(b, rest, order, n);
	return s.best_depth;
}

/* ---- any set ---- */

static int32_t worst_transport(int32_t a, int32_t b)
{
	return a > b ? a : b; /* the constants are in order, best first */
}

int32_t p2s_groups_facts(const struct p2s_model *m, uint64_t set, struct p2s_group_facts *out)
{
	int32_t measured = 1;

	out->verdict = P2PSAFE_VERDICT_OK;
	out->transport = P2PSAFE_TRANSPORT_UNKNOWN;
	out->score = -1;
	if (COUNT(set) < 2)
		return 0;
	for (uint64_t left = set; left != 0; left &= left - 1)
		if ((size_t)FIRST(left) >= m->gpu_count || !m->gpus[FIRST(left)].in_group)
			return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (!(set & BIT(p->src)) || !(set & BIT(p->dst)))
			continue;
		out->verdict = p2s_rules_worse(out->verdict, p->verdict);
		out->transport = worst_transport(out->transport, p->transport);
		measured &= p->score >= 0;
		if (out->score < 0 || p->score < out->score)
			out->score = p->score;
	}
	if (m->nothing_tested)
		out->verdict = p2s_rules_worse(out->verdict, P2PSAFE_VERDICT_UNTESTED);
	if (out->transport == P2PSAFE_TRANSPORT_UNKNOWN)
		out->transport = P2PSAFE_TRANSPORT_NONE;
	if (!measured)
		out->score = -1;
	return 1;
}

int32_t p2s_groups_allow(const struct p2s_model *m, uint64_t set, int32_t consumer)
{
	struct p2s_group_facts facts;
	int32_t pairs = 0;

	if (consumer <= 0 || consumer >= P2S_CONSUMERS || m->nothing_tested || !p2s_groups_facts(m, set, &facts))
		return 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (!(set & BIT(p->src)) || !(set & BIT(p->dst)))
			continue;
		if (!permitted(p, consumer))
			return 0;
		pairs++;
	}
	return pairs == COUNT(set) * (COUNT(set) - 1); /* both directions of every pair were judged */
}
