/* First contact: one directed pair at a time on the whole host, a few bytes, everything else poisoned and looked at. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "helper/legs_canary.h"

#define FIRST_OFF (8 * P2S_KIB)
#define FIRST_BYTES 128 /* one warp */
#define SETTLE_NS 150000000 /* 5 times what the latest writes of the shadow window take */
#define SECOND_OFF (16 * P2S_KIB)
#define SECOND_BYTES (4 * P2S_KIB)
#define AREA P2S_CANARY_BYTES /* poisoned and checked around the first bytes */

/* Bytes of a damaged direction may be on their way for a while after everything was reported done: the next direction that uses
 * the same memory must not be blamed for them. */
static void settle(void)
{
	struct timespec ts = {.tv_nsec = SETTLE_NS};

	nanosleep(&ts, NULL);
}

/* The accessor reads back through the window what it stored there while the owner does not have it: this names a mirror, it
 * never clears one. */
static void name_mirror(struct p2s_trial *t, uint64_t seed, uint64_t off, uint64_t len)
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_request load = {.op = P2S_OP_LOAD, .buf = lane->loc_acc, .buf2 = lane->win_acc, .off = off, .len = len};
	struct p2s_op_request check = {.op = P2S_OP_CHECK,
	                               .buf = lane->loc_acc,
	                               .off = off,
	                               .len = len,
	                               .in_off = off,
	                               .in_len = len,
	                               .seed = seed,
	                               .seed2 = seed};
	struct p2s_op_answer answer;

	if (!lane->kernels || !p2s_lane_alive(lane))
		return;
	if (p2s_chan_call(lane->run, lane->acc, &load, &answer) != P2S_RC_OK ||
	    p2s_chan_call(lane->run, lane->acc, &check, &answer) != P2S_RC_OK || answer.bad_words != 0)
		return;
	/* The window shows them. So it does when they came after the owner had looked: a mirror is what the owner never gets. */
	check.buf = lane->win_own;
	if (!p2s_lane_alive(lane) || p2s_chan_call(lane->run, lane->own, &check, &answer) != P2S_RC_OK)
		return;
	if (answer.bad_words != 0)
		t->out.damage = P2PSAFE_DAMAGE_MIRROR;
	else
		snprintf(t->out.note, sizeof t->out.note, "the bytes came after the store was reported done");
}

static int32_t first_leg(const struct p2s_lane *lane)
{
	return lane->kernels ? P2PSAFE_LEG_SM_STORE : P2PSAFE_LEG_CE_WRITE;
}

/* One warp stores; without kernels the copy engine writes. around: also when the bytes arrived, memory of the workers at work
 * that they were not meant for is looked at before anything else is tried. Returns 1 if clean. */
static int first_store(const struct p2s_lane *lane, int around, struct p2s_canary_later *later)
{
	int copied = !lane->kernels;
	struct p2s_trial t;
	uint64_t seed;
	struct p2s_expect e;
	int stored;

	p2s_trial_begin(&t, lane, first_leg(lane));
	t.quiet = 1;
	p2s_canary_note(later, &t);
	seed = p2s_trial_seed(&t);
	stored = p2s_step_fill(&t, lane->own, lane->win_own, 0, AREA, t.poison) &&
	         (!copied || p2s_step_fill(&t, lane->acc, lane->loc_acc, FIRST_OFF, FIRST_BYTES, seed)) &&
	         p2s_step_move(&t, copied ? P2S_BY_CE_WRITE : P2S_BY_STORE, FIRST_OFF, FIRST_BYTES, seed);
	p2s_trial_expect(&t, seed, FIRST_OFF, FIRST_BYTES, 1, &e);
	if (stored && p2s_step_check(&t, lane->own, lane->win_own, 0, AREA, &e)) {
		if (around)
			p2s_canary_look(&t, copied, p2s_canary_buffer(lane->m) == P2S_B_PEER ? P2S_CANARY_ALL : P2S_CANARY_GPU, NULL);
	} else if (stored && t.out.verdict == P2PSAFE_VERDICT_CORRUPT && p2s_canary_look(&t, copied, P2S_CANARY_ALL, NULL)) {
		name_mirror(&t, seed, FIRST_OFF, FIRST_BYTES);
	}
	return p2s_trial_end(&t);
}

/* Did the step before make an IOMMU complain? That is as bad as wrong bytes, also where the bytes are right. */
static int fault_logged(const struct p2s_lane *lane)
{
	p2s_klog_drain(lane->run);
	return atomic_load(&p2s_run_way(lane->run, lane->a, lane->b)->fault);
}

static int small_leg(const struct p2s_lane *lane, int32_t leg, enum p2s_engine by, uint64_t bytes,
                     struct p2s_canary_later *later)
{
	struct p2s_trial t;

	p2s_trial_begin(&t, lane, leg);
	t.quiet = 1;
	if (!p2s_engine_reads(by))
		p2s_canary_note(later, &t);
	p2s_step_transfer(&t, by, 0, AREA, SECOND_OFF, bytes, 1);
	/* What did not arrive may have arrived elsewhere. */
	if (t.out.damage == P2PSAFE_DAMAGE_DROPPED && !p2s_engine_reads(by))
		p2s_canary_look(&t, by != P2S_BY_STORE, P2S_CANARY_ALL, NULL);
	return p2s_trial_end(&t) && !fault_logged(lane);
}

/* All of first contact over the first mapping. Returns 1 if clean. */
static int whole_contact(const struct p2s_lane *lane, struct p2s_canary_later *later)
{
	struct p2s_run *run = lane->run;

	int clean = first_store(lane, 1, later);
	int fault = fault_logged(lane);

	if (!clean || fault) {
		/* One message more, to name the damage: does a flag come through at all? */
		if ((fault ||
		     p2s_run_way(run, lane->a, lane->b)->verdict[P2PSAFE_LEG_SM_STORE][lane->m] == P2PSAFE_VERDICT_CORRUPT) &&
		    lane->kernels && p2s_run_may_start(run) && p2s_lane_alive(lane))
			p2s_leg_message(run, lane->a, lane->b, lane->m, 1, 0, P2S_MESSAGE_ONE);
		return 0;
	}
	if (!lane->kernels)
		return small_leg(lane, P2PSAFE_LEG_CE_WRITE, P2S_BY_CE_WRITE, SECOND_BYTES, later) &&
		       small_leg(lane, P2PSAFE_LEG_CE_READ, P2S_BY_CE_READ, SECOND_BYTES, later);
	return small_leg(lane, P2PSAFE_LEG_SM_STORE, P2S_BY_STORE, SECOND_BYTES, later) &&
	       p2s_leg_message(run, lane->a, lane->b, lane->m, 1, 0, P2S_MESSAGE_QUIET) && !fault_logged(lane) &&
	       small_leg(lane, P2PSAFE_LEG_CE_WRITE, P2S_BY_CE_WRITE, SECOND_BYTES, later) &&
	       small_leg(lane, P2PSAFE_LEG_SM_LOAD, P2S_BY_LOAD, 16, later) &&
	       small_leg(lane, P2PSAFE_LEG_CE_READ, P2S_BY_CE_READ, SECOND_BYTES, later) &&
	       p2s_leg_atomics(run, lane->a, lane->b, lane->m, 1, 1);
}

/* After a mapping's first contact: memory that others look at is as it was. */
static void tidy(struct p2s_run *run, uint32_t a, uint32_t b, int m, int clean, int only_store)
{
	if (clean) {
		p2s_canary_restore(run, a, b, p2s_canary_buffer(m));
		return;
	}
	if (!only_store)
		settle();
	p2s_canary_renew(run);
}

/* The end of a contact, when nothing of it is under way any more. The contexts at work come first: others wait for a change
 * that the next contact needs anyway. Returns 1 if nothing was found. */
static int look_around(const struct p2s_canary_later *later, int only_store)
{
	return p2s_canary_look_later(later, P2S_CANARY_PEER) && (only_store || p2s_canary_look_later(later, P2S_CANARY_GPU));
}

static void contact(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_way *way = p2s_run_way(run, a, b);
	/* Once a pair was CORRUPT, others on PCIe get the first store and no more. */
	int only_store = atomic_load(&run->corrupt) && !p2s_run_keeps_going(run) && p2s_run_path(run, a, b) != P2PSAFE_PATH_NVL;
	struct p2s_canary_later later = {.count = 0};
	int done = 0;
	int clean = 1;
	int looked;

	for (int m = 0; m < P2S_M_COUNT && clean && !(only_store && done); m++) {
		struct p2s_lane lane;

		if (!p2s_lane_open(run, a, b, m, &lane) || !p2s_run_may_start(run))
			continue;
		int go = done ? P2S_RISK_GO : p2s_link_risk(run, a, b, first_leg(&lane));
		if (go != P2S_RISK_GO) {
			if (go == P2S_RISK_STOP && p2s_run_may_start(run)) /* else it was only too late */
				atomic_store(&run->stopped, 1);
			way->refused = go == P2S_RISK_SKIP;
			return;
		}
		p2s_klog_contact(run, a, b);
		clean = p2s_canary_buffer(m) != P2S_B_PEER || p2s_canary_look_later(&later, P2S_CANARY_PEER);
		if (clean)
			clean = done || only_store ? first_store(&lane, !done, &later) : whole_contact(&lane, &later);
		clean = clean && !fault_logged(&lane);
		done = way->first_done = 1;
		tidy(run, a, b, m, clean, only_store);
	}
	looked = clean && done && p2s_run_may_start(run);
	if (looked && !look_around(&later, only_store)) {
		clean = 0;
		tidy(run, a, b, 0, clean, only_store);
	}
	p2s_klog_contact(run, a, a);
	way->clean = looked && clean && !only_store;
}

static void rank(struct p2s_run *run, int nvlink)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		for (uint32_t j = 0; j < run->tested_count; j++) {
			uint32_t a = run->tested[i];
			uint32_t b = run->tested[j];

			if (i == j || (p2s_run_path(run, a, b) == P2PSAFE_PATH_NVL) != nvlink)
				continue;
			if (p2s_run_may_start(run) && !atomic_load(&run->gpu[a].out) && !atomic_load(&run->gpu[b].out))
				contact(run, a, b);
			p2s_link_progress(run);
		}
	}
}

void p2s_first_contact_run(struct p2s_run *run)
{
	p2s_link_phase(run, "first_contact", run->tested_count * (run->tested_count - 1));
	p2s_canary_set(run);
	rank(run, 1);
	rank(run, 0);
}
