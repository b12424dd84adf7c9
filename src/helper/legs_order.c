/* Messages, tearing, copy then flag, atomics: in which order they run. Atomics themselves. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

static int peek_counters(struct p2s_trial *t, uint64_t out[2])
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_request req = {.op = P2S_OP_PEEK, .buf = lane->win_own, .len = 16};
	struct p2s_op_answer answer;

	if (t->over)
		return 0;
	if (p2s_chan_call(lane->run, lane->own, &req, &answer) != P2S_RC_OK)
		return p2s_trial_fail(t, lane->own, &answer);
	memcpy(out, answer.samples, 16);
	return 1;
}

int p2s_leg_atomics(struct p2s_run *run, uint32_t a, uint32_t b, int m, uint32_t count, int quiet)
{
	uint64_t start[2], end[2];
	struct p2s_both x;

	if (p2s_run_way(run, a, b)->native_atomics == 0) {
		p2s_legs_untested(run, a, b, m, P2PSAFE_LEG_ATOMICS, P2PSAFE_VERDICT_UNSUPPORTED, 0, "no native atomics on this path");
		return 1;
	}
	if (p2s_run_way(run, a, b)->native_atomics < 0) {
		/* Where there are none, increments get lost: that must not pass for damage. */
		if (!quiet)
			p2s_legs_untested(run, a, b, m, P2PSAFE_LEG_ATOMICS, P2PSAFE_VERDICT_UNTESTED, 0,
			                  "not known whether this path has native atomics");
		return 1;
	}
	if (!p2s_both_open(run, a, b, m, 1, P2PSAFE_LEG_ATOMICS, &x))
		return 0;
	for (int i = 0; i < 2; i++) { /* the accessor through the window, the owner in its own memory, at once */
		x.duo.req[i].op = P2S_OP_ATOMIC;
		x.duo.req[i].rounds = count;
		x.duo.req[i].buf = i == 0 ? x.lane[0].win_acc : x.lane[0].win_own;
		x.duo.mask[i] = 1;
	}
	x.trial[0].quiet = quiet;
	x.duo.chan[1] = x.lane[0].own;
	/* The counters start from two words of the poison pattern: not zero, and known. */
	start[0] = p2s_word(x.trial[0].poison, 0);
	start[1] = p2s_word(x.trial[0].poison, 1);
	if (p2s_both_poison(&x, 0, 4096) && p2s_both_run(&x) && peek_counters(&x.trial[0], end)) {
		uint64_t done[2][2] = {{0}};
		struct p2s_judgement j;

		for (int i = 0; i < 2; i++) {
			struct p2s_role_result role;

			p2s_duo_role(&x.duo.answer[i], 0, &role);
			done[i][0] = role.rounds_done;
			done[i][1] = role.cas_done;
			if (role.status != P2S_ROLE_DONE) {
				memset(&j, 0, sizeof j);
				j.verdict = P2PSAFE_VERDICT_UNTESTED;
				j.note = "the kernel was cut short";
				p2s_trial_judged(&x.trial[0], &j);
			}
		}
		p2s_judge_atomic(start, end, done[0], done[1], 0, &j);
		x.trial[0].out.rounds = done[0][0] + done[0][1];
		x.trial[0].out.bytes = 8 * x.trial[0].out.rounds;
		p2s_trial_cover(&x.trial[0], 0, 16);
		p2s_trial_judged(&x.trial[0], &j);
	}
	return p2s_trial_end(&x.trial[0]);
}

/* Directions in which leg was OK over m. */
static unsigned passed(struct p2s_run *run, uint32_t a, uint32_t b, int m, int32_t leg)
{
	return (p2s_run_way(run, a, b)->verdict[leg][m] == P2PSAFE_VERDICT_OK ? 1u : 0u) |
	       (p2s_run_way(run, b, a)->verdict[leg][m] == P2PSAFE_VERDICT_OK ? 2u : 0u);
}

/* Directions that have the mapping. */
static unsigned mapped(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	return (p2s_run_way(run, a, b)->map[m] == P2S_MAP_READY ? 1u : 0u) |
	       (p2s_run_way(run, b, a)->map[m] == P2S_MAP_READY ? 2u : 0u);
}

static int may_go_on(struct p2s_run *run, uint32_t a, uint32_t b)
{
	return p2s_run_may_start(run) && !atomic_load(&run->gpu[a].out) && !atomic_load(&run->gpu[b].out);
}

static uint32_t wide_iters(const struct p2s_run *run)
{
	return p2s_both_slow(run) ? 2 : run->ask.level == P2PSAFE_LEVEL_QUICK ? 25 : 100;
}

/* The second form of tearing, and the verdict over both: what was only looked at from one side is not OK. */
static void finish_tearing(struct p2s_run *run, uint32_t a, uint32_t b, unsigned posted, uint32_t iters, struct p2s_both *tear)
{
	static const struct p2s_judgement half = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "loads through the window were not tried"};

	for (int i = 0; i < 2; i++)
		if (!(posted & 1u << i) || !may_go_on(run, a, b))
			p2s_trial_judged(&tear->trial[i], &half);
	if (p2s_both_going(tear) != 0)
		p2s_tear_form(tear, 1, iters);
	p2s_tear_wide(tear, 1, wide_iters(run));
	p2s_both_end(tear);
}

static void order_mapping(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs)
{
	uint32_t iters = p2s_both_slow(run) ? 500 : run->ask.level == P2PSAFE_LEVEL_QUICK ? 2000 : 8000;
	unsigned posted;
	struct p2s_both tear;
	int tearing = 0;

	p2s_leg_message(run, a, b, m, dirs, 0, P2S_MESSAGE_ALL);
	if (!p2s_run_keeps_going(run))
		dirs &= passed(run, a, b, m, P2PSAFE_LEG_MP_PUSH);
	if (dirs != 0 && may_go_on(run, a, b))
		tearing = p2s_tear_begin(run, a, b, m, dirs, &tear);
	if (tearing)
		p2s_tear_form(&tear, 0, iters);
	if (tearing)
		p2s_tear_wide(&tear, 0, wide_iters(run));
	for (unsigned i = 0; i < 2; i++) {
		uint32_t src = i == 0 ? a : b;
		uint32_t dst = i == 0 ? b : a;

		if (!(dirs & 1u << i))
			continue;
		if (may_go_on(run, a, b))
			p2s_leg_ce_flag(run, src, dst, m);
		if (may_go_on(run, a, b))
			p2s_leg_atomics(run, src, dst, m, 64, 0);
	}
	/* Pull kernels poll through the window: only where posted messages came through. Both ways, unless asked to keep going or
	 * the other way has no such mapping. */
	posted = passed(run, a, b, m, P2PSAFE_LEG_MP_PUSH) & passed(run, a, b, m, P2PSAFE_LEG_SM_LOAD) & dirs;
	if (posted != mapped(run, a, b, m) && !p2s_run_keeps_going(run))
		posted = 0;
	if (posted != 0 && may_go_on(run, a, b))
		p2s_leg_message(run, a, b, m, posted, 1, P2S_MESSAGE_ALL);
	if (tearing)
		finish_tearing(run, a, b, posted, iters, &tear);
	if (dirs != 0 && p2s_run_path(run, a, b) == P2PSAFE_PATH_NVL && may_go_on(run, a, b))
		p2s_tear_line(run, a, b, m, dirs);
}

void p2s_order_pair(struct p2s_run *run, uint32_t a, uint32_t b)
{
	for (int m = 0; m < P2S_M_COUNT; m++) {
		unsigned dirs = passed(run, a, b, m, P2PSAFE_LEG_SM_STORE);

		if (!p2s_run_may_test(run, a, b))
			dirs &= ~1u;
		if (!p2s_run_may_test(run, b, a))
			dirs &= ~2u;
		if (dirs != 0 && may_go_on(run, a, b))
			order_mapping(run, a, b, m, dirs);
	}
	p2s_link_progress(run);
}
