/* Speeds and latencies of directed pairs. */
#include <string.h>

#include "core/word.h"
#include "helper/measure.h"

#define COPY_NS UINT64_C(1400000)    /* one transfer, or the whole buffer: its start and end do not count then */
#define COPY_PLAYED_NS UINT64_C(700000) /* simulated GPUs move bytes in the time of the machine that they run on */
#define SAMPLE_CE_NS UINT64_C(10000000) /* one sample */
#define SAMPLE_SM_NS UINT64_C(30000000) /* what the last blocks of a kernel take alone, some 50 us, is little of it */
#define SAMPLES 3
#define WARM 8 /* transfers before the first sample; no more than a sample has */
#define ROUNDS_MOST 40
#define LEAST (64 * P2S_KIB)
#define PLAYED_BYTES (64 * P2S_MIB)
#define ROW_NS (50 * P2S_MS) /* a transfer that takes longer is no row */
#define ROW_SHARE_NS UINT64_C(300000)
#define ROW_MOST 16
#define SHARED_PERCENT 95          /* of what such a pair does alone: below it others were in the way */
#define BOTH_PERCENT 90            /* of both ways' sum: above it nobody was in the way */
#define CHASE_REGION (2 * P2S_MIB) /* 2 MiB in strides of 128 bytes, as the usual tool chases */
#define CHASE_STRIDE 128
#define CHASE_LOADS 512
#define CHASE_SMS 16
#define ISSUE_STORES 4096
#define ISSUE_ROUNDS 8
#define PONG_ROUNDS 264
#define PONG_WARM 8

/* One transfer to be timed: len bytes between win_off of the window and loc_off of the local memory. Equal, or one of them 0
 * and the other a multiple of a power of two that is no less than len: then the pattern at one place is that of the other with
 * another seed. */
struct step {
	struct p2s_mlane *l;
	uint32_t mode;
	int reads;
	uint64_t win_off;
	uint64_t loc_off;
	uint64_t len;
	uint32_t rounds;
	uint32_t samples;
	uint32_t warm;
	uint64_t seed;
	uint64_t rate; /* bytes/s; 0 not measured */
};

/* Nothing went wrong with it, nor meanwhile with one of its GPUs: for what something else did to them it is not to blame, and
 * what it was measured at stays. */
static int usable(const struct p2s_mlane *l)
{
	return l->ok && p2s_lane_alive(&l->lane);
}

static void aim(struct p2s_crowd_item *item, const struct step *s)
{
	const struct p2s_lane *lane = &s->l->lane;

	item->req.buf = s->reads ? lane->loc_acc : lane->win_acc;
	item->req.off = s->reads ? s->loc_off : s->win_off;
	item->req.buf2 = s->reads ? lane->win_acc : lane->loc_acc;
	item->req.off2 = s->reads ? s->win_off : s->loc_off;
	item->req.len = s->len;
	item->req.mode = s->mode;
}

/* Sources: writes take from the accessor's own memory, reads from the owner's. Those who read the same memory share its
 * content. */
static void fill(struct p2s_measure *m, struct step *steps, uint32_t count)
{
	static struct p2s_crowd crowd;
	uint32_t of[P2S_CROWD];   /* item -> step */
	uint32_t from[P2S_CROWD]; /* step -> item */

	crowd.count = crowd.ready = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct step *s = &steps[i];
		const struct p2s_lane *lane = &s->l->lane;
		struct p2s_chan *chan = s->reads ? lane->own : lane->acc;
		struct p2s_crowd_item *item;
		uint32_t same = 0;

		while (same < crowd.count && crowd.item[same].chan != chan)
			same++;
		from[i] = same;
		if (same < crowd.count) {
			/* From the same place on, and as far as the longest of them reaches. */
			s->seed = steps[of[same]].seed;
			if (s->len > crowd.item[same].req.len)
				crowd.item[same].req.len = s->len;
			continue;
		}
		of[crowd.count] = i;
		item = p2s_crowd_add(&crowd, chan, P2S_OP_FILL);
		s->seed = p2s_trial_seed(&s->l->trial);
		item->req.buf = s->reads ? lane->win_own : lane->loc_acc;
		item->req.off = s->reads ? s->win_off : s->loc_off;
		item->req.len = s->len;
		item->req.seed = s->seed;
	}
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < count; i++) {
		const struct p2s_crowd_item *item = &crowd.item[from[i]];

		if (item->answer.rc == P2S_RC_OK)
			continue;
		/* What was not stored is missing to everyone who reads it: one of them tells, and nobody takes it for damage. */
		if (of[from[i]] == i)
			p2s_trial_fail(&steps[i].l->trial, item->chan, &item->answer);
		p2s_measure_spoilt(steps[i].l);
	}
}

static void check_one(struct step *s, struct p2s_crowd_item *item)
{
	const struct p2s_lane *lane = &s->l->lane;

	item->req.buf = s->reads ? lane->loc_acc : lane->win_own;
	item->req.off = item->req.in_off = s->reads ? s->loc_off : s->win_off;
	item->req.len = item->req.in_len = s->len;
	item->req.seed = item->req.seed2 = s->seed ^ (s->win_off ^ s->loc_off) / 8;
}

static void judge(struct step *s, const struct p2s_crowd_item *item)
{
	struct p2s_expect e;

	p2s_trial_expect(&s->l->trial, item->req.seed, item->req.off, item->req.len, 0, &e);
	if (!p2s_step_judge(&s->l->trial, item->chan, item->req.buf, item->req.off, item->req.len, &item->answer, &e)) {
		s->rate = 0;
		p2s_measure_spoilt(s->l);
	}
}

/* What was moved last is where it should be: seen by the memory's owner. Checks on one channel go one after the other. */
static void check(struct p2s_measure *m, struct step *steps, uint32_t count)
{
	static struct p2s_crowd crowd;

	for (uint32_t first = 0, next; first < count; first = next) {
		crowd.count = crowd.ready = 0;
		for (next = first; next < count; next++) {
			const struct p2s_lane *lane = &steps[next].l->lane;
			struct p2s_chan *chan = steps[next].reads ? lane->acc : lane->own;
			uint32_t busy = 0;

			while (busy < crowd.count && crowd.item[busy].chan != chan)
				busy++;
			if (busy < crowd.count)
				break;
			check_one(&steps[next], p2s_crowd_add(&crowd, chan, P2S_OP_CHECK));
		}
		p2s_crowd_run(m, &crowd);
		for (uint32_t i = first; i < next; i++)
			judge(&steps[i], &crowd.item[i - first]);
	}
}

static uint32_t still_ok(struct step *steps, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (usable(steps[i].l))
			steps[kept++] = steps[i];
	return kept;
}

/* Fills, moves all at once, checks. Steps whose lane went wrong fall out. Returns how many are left. */
static uint32_t run_steps(struct p2s_measure *m, struct step *steps, uint32_t count)
{
	static struct p2s_crowd crowd;

	count = still_ok(steps, count);
	if (count == 0 || !p2s_measure_may(m))
		return 0;
	fill(m, steps, count);
	count = still_ok(steps, count);
	crowd.count = 0;
	crowd.ready = 3;
	for (uint32_t i = 0; i < count; i++) {
		struct p2s_crowd_item *item = p2s_crowd_add(&crowd, steps[i].l->lane.acc, P2S_OP_SPEED);

		aim(item, &steps[i]);
		item->req.rounds = steps[i].rounds;
		item->req.words = steps[i].samples;
		item->req.flag_off = steps[i].warm;
	}
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < count; i++) {
		const struct p2s_op_answer *a = &crowd.item[i].answer;
		struct step *s = &steps[i];

		s->rate = 0;
		if (a->rc != P2S_RC_OK && !p2s_trial_fail(&s->l->trial, crowd.item[i].chan, a))
			p2s_measure_spoilt(s->l);
		else if (a->value == m->party && a->device_ns != 0)
			s->rate = (uint64_t)((double)s->len * s->rounds * 1e9 / (double)a->device_ns);
	}
	count = still_ok(steps, count);
	check(m, steps, count);
	return still_ok(steps, count);
}

/* How much is moved, so that a sample takes its time and no more on whatever link. */
static void size_step(const struct p2s_measure *m, struct step *s, uint64_t cap)
{
	uint64_t sample_ns = s->mode == P2S_SPEED_PUMP ? SAMPLE_SM_NS : SAMPLE_CE_NS;
	uint64_t len = (uint64_t)((double)s->l->rate * (double)(m->played ? COPY_PLAYED_NS : COPY_NS) / 1e9);
	double rounds;

	len = len < LEAST ? LEAST : len - len % LEAST;
	if (m->played && cap > PLAYED_BYTES)
		cap = PLAYED_BYTES;
	s->len = len < cap ? len : cap;
	rounds = (double)s->l->rate * (double)sample_ns / 1e9 / (double)s->len;
	s->rounds = m->played || rounds < 1 ? 1 : rounds > ROUNDS_MOST ? ROUNDS_MOST : (uint32_t)rounds;
	s->samples = m->played ? 1 : SAMPLES;
	s->warm = m->played ? 0 : s->rounds < WARM ? s->rounds : WARM;
}

/* Likewise for all. What no look told anything of falls out: moved in pieces of no sense it would have a number of no sense. */
static uint32_t size_steps(const struct p2s_measure *m, struct step *steps, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (steps[i].l->rate == 0)
			continue;
		size_step(m, &steps[i], steps[i].l->lane.bytes);
		steps[kept++] = steps[i];
	}
	return kept;
}

static const struct {
	int32_t kind;
	uint32_t mode;
	int reads;
} kinds[P2S_WAY_KINDS] = {[P2S_WAY_CE_WRITE] = {P2S_MEASURE_CE_WRITE, P2S_SPEED_COPY, 0},
						  [P2S_WAY_CE_READ] = {P2S_MEASURE_CE_READ, P2S_SPEED_COPY, 1},
						  [P2S_WAY_SM_STORE] = {P2S_MEASURE_SM_STORE, P2S_SPEED_PUMP, 0},
						  [P2S_WAY_SM_LOAD] = {P2S_MEASURE_SM_LOAD, P2S_SPEED_PUMP, 1}};

static uint32_t look(struct p2s_measure *m, struct step *steps, uint32_t n)
{
	n = run_steps(m, steps, n);
	for (uint32_t i = 0; i < n; i++)
		steps[i].l->rate = steps[i].rate;
	return n;
}

/* One kind of all lanes at once; the better of this and what was known before. */
static void one_kind(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count, int kind)
{
	struct step steps[P2S_CROWD];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (usable(lanes[i]))
			steps[n++] = (struct step){.l = lanes[i],
									   .mode = kinds[kind].mode,
									   .reads = kinds[kind].reads,
									   .len = P2S_MIB < lanes[i]->lane.bytes ? P2S_MIB : lanes[i]->lane.bytes,
									   .rounds = 1,
									   .samples = 1,
									   .warm = m->played ? 0 : 1};
	/* A look at how fast it is, and one at as much as that says, for a small transfer is mostly its start and end. A modelled
	 * machine is as fast as it was. */
	if (!m->played || kind == P2S_WAY_CE_WRITE)
		n = look(m, steps, n);
	n = size_steps(m, steps, n);
	if (!m->played) {
		for (uint32_t i = 0; i < n; i++)
			steps[i].rounds = steps[i].samples = steps[i].warm = 1;
		n = look(m, steps, n);
		n = size_steps(m, steps, n);
	}
	n = run_steps(m, steps, n);
	for (uint32_t i = 0; i < n; i++) {
		struct p2s_mlane *l = steps[i].l;

		if (steps[i].rate > l->way[kind])
			l->way[kind] = steps[i].rate;
		if (steps[i].rate != 0)
			l->rate = steps[i].rate;
	}
}

/* Loads within one process, as the usual tool measures them: through a window from another process they take 0.2 to 0.3% longer
 * (376.6 against 375.9 and 375.5 GB/s, measured on 2x H200); stores do not. */
static void loads_inside(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	struct p2s_mlane *inside[P2S_CROWD] = {NULL};
	uint32_t of[P2S_CROWD];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct p2s_mlane *l = &m->inside[lanes[i] - m->lanes];

		if (!usable(lanes[i]) || !usable(l))
			continue;
		l->rate = lanes[i]->rate;
		of[n] = i;
		inside[n++] = l;
	}
	one_kind(m, inside, n, P2S_WAY_SM_LOAD);
	for (uint32_t i = 0; i < n; i++) {
		struct p2s_mlane *l = lanes[of[i]];

		/* What is wrong there is the pair's: nothing more is tried on it. */
		if (!inside[i]->ok && atomic_load(&p2s_run_way(m->run, l->lane.a, l->lane.b)->bad))
			l->ok = 0;
		if (inside[i]->way[P2S_WAY_SM_LOAD] > l->way[P2S_WAY_SM_LOAD])
			l->way[P2S_WAY_SM_LOAD] = inside[i]->way[P2S_WAY_SM_LOAD];
	}
}

void p2s_measure_speeds(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	for (int k = 0; k < P2S_WAY_KINDS; k++)
		one_kind(m, lanes, count, k);
	loads_inside(m, lanes, count);
}

void p2s_measure_apart(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct p2s_mlane *l = lanes[i];
		uint64_t *alone = &m->alone[p2s_run_path(m->run, l->lane.a, l->lane.b)];
		uint64_t beside = l->way[P2S_WAY_CE_WRITE];

		if (!l->ok)
			continue;
		if (*alone == 0) {
			one_kind(m, &l, 1, P2S_WAY_CE_WRITE);
			*alone = l->way[P2S_WAY_CE_WRITE];
		}
		/* Whom others slowed down was not measured yet; what it gave beside them is at least what it has. */
		if (beside < *alone / 100 * SHARED_PERCENT) {
			l->shared = 1;
			p2s_measure_speeds(m, &l, 1);
		}
	}
}

/* Both directions use the lower half of each memory as source and the upper as target. */
static uint64_t half(uint64_t bytes)
{
	uint64_t h = LEAST;

	while (h * 2 <= bytes / 2)
		h *= 2;
	return h;
}

static uint32_t both_steps(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count, struct step *steps)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct step s = {.l = lanes[i], .mode = P2S_SPEED_COPY, .win_off = half(lanes[i]->lane.bytes)};

		if (!usable(lanes[i]) || lanes[i]->way[P2S_WAY_CE_WRITE] == 0)
			continue;
		s.l->rate = lanes[i]->way[P2S_WAY_CE_WRITE];
		size_step(m, &s, s.win_off);
		steps[n++] = s;
	}
	return run_steps(m, steps, n);
}

static void tell_both(struct p2s_measure *m, const struct p2s_mlane *l, const struct p2s_mlane *back, uint64_t sum)
{
	p2s_measure_tell(m, l->lane.a, l->lane.b, P2S_MEASURE_BOTH_WAYS, sum, 0);
	p2s_measure_tell(m, back->lane.a, back->lane.b, P2S_MEASURE_BOTH_WAYS, sum, 0);
}

void p2s_measure_loaded(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	struct step steps[P2S_CROWD];
	uint32_t n = both_steps(m, lanes, count, steps);

	for (uint32_t i = 0; i < n; i++)
		steps[i].l->loaded = steps[i].rate;
	for (uint32_t i = 0; i + 1 < count; i++) {
		struct p2s_mlane *l = lanes[i];
		struct p2s_mlane *back = lanes[i + 1];
		uint64_t sum = l->loaded + back->loaded;
		uint64_t most = l->way[P2S_WAY_CE_WRITE] + back->way[P2S_WAY_CE_WRITE];

		if (l->lane.a != back->lane.b || l->lane.b != back->lane.a)
			continue;
		i++;
		if (!l->ok || !back->ok || l->loaded == 0 || back->loaded == 0)
			continue;
		if (count > 2 && sum < most / 100 * BOTH_PERCENT) {
			struct p2s_mlane *two[2] = {l, back};

			sum = both_steps(m, two, 2, steps) == 2 && steps[0].rate != 0 && steps[1].rate != 0 ? steps[0].rate + steps[1].rate
																								: 0;
		}
		if (l->ok && back->ok)
			tell_both(m, l, back, sum);
	}
}

/* ---- latencies ---- */

static void latency(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count, uint32_t mode)
{
	static struct p2s_crowd crowd;

	crowd.count = crowd.ready = 0;
	for (uint32_t i = 0; i < count && p2s_measure_may(m); i++) {
		const struct p2s_lane *lane = &lanes[i]->lane;
		struct p2s_crowd_item *item = p2s_crowd_add(&crowd, lane->acc, P2S_OP_LATENCY);

		item->req.mode = mode;
		item->req.buf = lane->win_acc;
		if (mode == P2S_LATENCY_CHASE) {
			item->req.len = lane->bytes >= CHASE_REGION ? CHASE_REGION : P2S_MIB;
			item->req.slot_bytes = CHASE_STRIDE;
			item->req.rounds = CHASE_LOADS;
			item->req.words = m->played ? 1 : CHASE_SMS;
		} else {
			item->req.slot_bytes = ISSUE_STORES;
			item->req.rounds = m->played ? 1 : ISSUE_ROUNDS;
		}
	}
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < crowd.count; i++) {
		const struct p2s_op_answer *a = &crowd.item[i].answer;

		if (a->rc != P2S_RC_OK && !p2s_trial_fail(&lanes[i]->trial, crowd.item[i].chan, a))
			p2s_measure_spoilt(lanes[i]);
		else /* to the nearest nanosecond; below one is one */
			p2s_measure_tell(m, lanes[i]->lane.a, lanes[i]->lane.b,
							 mode == P2S_LATENCY_CHASE ? P2S_MEASURE_LOAD_NS : P2S_MEASURE_WRITE_ISSUE_NS,
							 a->value == 0     ? 0
							 : a->value < 1000 ? 1
											   : (a->value + 500) / 1000,
							 0);
	}
}

void p2s_measure_latencies(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	struct p2s_mlane *good[P2S_CROWD];

	for (uint32_t mode = P2S_LATENCY_CHASE; mode <= P2S_LATENCY_ISSUE; mode++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < count; i++)
			if (usable(lanes[i]))
				good[n++] = lanes[i];
		latency(m, good, n, mode);
	}
}

/* Two answers of one pair. A payload that was not there with its flag is what mp_push looks for: no number, but a verdict. */
static void pong_pair(struct p2s_measure *m, struct p2s_mlane *const *two, const struct p2s_crowd_item *item)
{
	struct p2s_role_result role[2];
	struct p2s_judgement late = {.verdict = P2PSAFE_VERDICT_CORRUPT,
								 .damage = P2PSAFE_DAMAGE_STALE,
								 .note = "while it was timed, a message's payload was not there with its flag"};
	uint64_t trips;

	for (int i = 0; i < 2; i++) {
		if (item[i].answer.rc != P2S_RC_OK) {
			if (!p2s_trial_fail(&two[i]->trial, item[i].chan, &item[i].answer))
				p2s_measure_spoilt(two[i]);
			return;
		}
		p2s_duo_role(&item[i].answer, 0, &role[i]);
		/* Channel i reads what the other wrote. */
		if (role[i].bad_words != 0 && !p2s_trial_judged(&two[1 - i]->trial, &late))
			p2s_measure_spoilt(two[1 - i]);
	}
	if (role[0].status != P2S_ROLE_DONE || role[1].status != P2S_ROLE_DONE || !two[0]->ok || !two[1]->ok ||
		role[0].rounds_done <= item[0].req.words)
		return;
	trips = 2 * (role[0].rounds_done - item[0].req.words);
	for (int i = 0; i < 2; i++)
		p2s_measure_tell(m, two[i]->lane.a, two[i]->lane.b, P2S_MEASURE_STORE_FLAG_NS, (role[0].elapsed_ns + trips / 2) / trips,
						 0);
}

void p2s_measure_pongs(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	static struct p2s_crowd crowd;
	struct p2s_mlane *two[P2S_CROWD];
	struct step steps[P2S_CROWD];
	uint32_t n = 0;

	for (uint32_t i = 0; i + 1 < count; i += 2) {
		/* Each polls the memory that the other's window shows: both must be of one mapping. */
		if (!usable(lanes[i]) || !usable(lanes[i + 1]) || lanes[i]->lane.m != lanes[i + 1]->lane.m)
			continue;
		two[n] = lanes[i];
		two[n + 1] = lanes[i + 1];
		n += 2;
	}
	if (n == 0 || !p2s_measure_may(m))
		return;
	/* No flag of before may look like one of now: both memories get fresh words where the messages will lie. */
	for (uint32_t i = 0; i < n; i++)
		steps[i] = (struct step){.l = two[i], .len = 512};
	fill(m, steps, n);
	crowd.count = 0;
	crowd.ready = 1;
	for (uint32_t i = 0; i < n; i++) {
		const struct p2s_lane *lane = &two[i]->lane;
		struct p2s_crowd_item *item = p2s_crowd_add(&crowd, lane->acc, P2S_OP_PONG);

		item->req.buf = lane->win_acc;
		item->req.buf2 = lane->loc_acc;
		item->req.seed = steps[i & ~1u].seed;
		item->req.rounds = m->played ? 2 : PONG_ROUNDS;
		item->req.words = m->played ? 1 : PONG_WARM;
		item->req.mode = i % 2 == 0;
		item->req.max_ns = P2S_WAIT_NS;
	}
	p2s_crowd_run(m, &crowd); /* kernels that were not let go have no number; one that failed is still the pair's */
	for (uint32_t i = 0; i < n; i += 2)
		pong_pair(m, &two[i], &crowd.item[i]);
}

/* ---- sizes ---- */

static void rows_of(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	static struct p2s_crowd crowd;
	struct step steps[P2S_CROWD];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (usable(lanes[i]) && lanes[i]->way[P2S_WAY_CE_WRITE] != 0)
			steps[n++] = (struct step){.l = lanes[i], .mode = P2S_SPEED_COPY};
	if (n == 0 || !p2s_measure_may(m))
		return;
	crowd.count = 0;
	crowd.ready = 3;
	for (uint32_t i = 0; i < n; i++) {
		struct p2s_mlane *l = steps[i].l;
		struct p2s_crowd_item *item = p2s_crowd_add(&crowd, l->lane.acc, P2S_OP_ROWS);

		for (unsigned r = 0; r < P2S_ROWS; r++) {
			uint64_t bytes = p2s_row_bytes(r);
			double ns = (double)bytes * 1e9 / (double)l->way[P2S_WAY_CE_WRITE];
			double many = ROW_SHARE_NS / ns;

			if (bytes > l->lane.bytes || ns > (double)ROW_NS)
				break;
			item->req.handle[r] = m->played || many < 1 ? 1 : many > ROW_MOST ? ROW_MOST : (unsigned char)many;
			item->req.handle_len = r + 1;
			steps[i].len = bytes;
		}
		aim(item, &steps[i]);
	}
	fill(m, steps, n);
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < n; i++) {
		const struct p2s_op_answer *a = &crowd.item[i].answer;
		struct p2s_mlane *l = steps[i].l;
		struct p2s_row row[P2S_ROWS];

		if (!l->ok)
			continue;
		if (a->rc != P2S_RC_OK && !p2s_trial_fail(&l->trial, crowd.item[i].chan, a))
			p2s_measure_spoilt(l);
		if (!l->ok || a->value != m->party || a->samples_len != sizeof row)
			continue;
		memcpy(row, a->samples, sizeof row);
		for (unsigned r = 0; r < P2S_ROWS; r++) {
			if (row[r].each_ns == 0)
				continue;
			p2s_measure_tell(m, l->lane.a, l->lane.b, P2S_MEASURE_SIZE,
							 (uint64_t)((double)p2s_row_bytes(r) * 1e9 / (double)row[r].each_ns), p2s_row_bytes(r));
			p2s_measure_tell(m, l->lane.a, l->lane.b, P2S_MEASURE_SIZE_NS, row[r].alone_ns, p2s_row_bytes(r));
		}
	}
	n = still_ok(steps, n);
	check(m, steps, n);
}

void p2s_measure_rows(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count)
{
	struct p2s_mlane *together[P2S_CROWD];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (lanes[i]->shared)
			rows_of(m, &lanes[i], 1);
		else
			together[n++] = lanes[i];
	}
	rows_of(m, together, n);
}

/* ---- all to one, one to all ---- */

static void star(struct p2s_measure *m, uint32_t index, int reads)
{
	struct step steps[P2S_CROWD];
	struct p2s_lib_gpu_fact out = {.gpu = m->gpu[index], .which = reads ? P2S_GPU_FACT_ONE_TO_ALL : P2S_GPU_FACT_ALL_TO_ONE};
	uint64_t least = UINT64_MAX;
	uint64_t slice;
	uint32_t n = 0;
	uint32_t measured = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		struct p2s_mlane *l = p2s_measure_lane(m, i, index);

		/* Of one mapping: they share this GPU's memory, in slices or as one content. */
		if (l != NULL && l->way[P2S_WAY_CE_WRITE] != 0 && (n == 0 || l->lane.m == steps[0].l->lane.m))
			steps[n++] = (struct step){.l = l, .mode = P2S_SPEED_COPY, .reads = reads};
	}
	if (n < 2 || n != m->n - 1)
		return; /* a number for all others, or none */
	/* One size of slice for all, of the smallest window: else they would lie over each other. */
	for (uint32_t i = 0; i < n; i++)
		least = steps[i].l->lane.bytes < least ? steps[i].l->lane.bytes : least;
	for (slice = LEAST; slice * 2 * n <= least;)
		slice *= 2;
	for (uint32_t i = 0; i < n; i++) {
		struct p2s_mlane *l = steps[i].l;

		l->rate = l->way[P2S_WAY_CE_WRITE] / n;
		size_step(m, &steps[i], slice);
		/* Everyone writes to a place of its own; reading, all may look at the same. */
		steps[i].win_off = reads ? 0 : i * slice;
	}
	measured = run_steps(m, steps, n);
	for (uint32_t i = 0; i < measured; i++) {
		if (steps[i].rate == 0)
			return;
		out.value += steps[i].rate;
	}
	if (measured == n)
		p2s_link_send(m->run, p2s_id_lib_gpu_fact, &out, -1);
}

void p2s_measure_star(struct p2s_measure *m, uint32_t index)
{
	if (m->n < 3)
		return;
	star(m, index, 0);
	star(m, index, 1);
}
