/* Message passing in all its forms, tearing, copy then flag, atomics: which of them run, and in which order. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define SLOT_BYTES 4096u
#define FLAG_OFF 2048u
#define MESSAGE_WORDS 128u /* 1 KiB of payload */
#define PACE_NS 2000       /* so that the reader is waiting when a message comes, not behind it */
#define PAGE (4u << 10)
#define BLOCK (2u << 20)
#define TURNS 3u /* idiom 3: each of the three in turn */

enum { WHEN_PUSH = 1, WHEN_PULL = 2, WHEN_BOTH = 3 };

/* A form of message passing. Rounds are counts for a real GPU at `standard`; `quick` has fewer, simulated GPUs too. */
struct form {
	unsigned when;
	uint32_t words;
	uint32_t slot_bytes;
	uint32_t flag_off;
	uint32_t idiom;
	uint32_t threads; /* 0: p2s_mp, one warp */
	uint32_t rounds;
	int own_flags; /* p2s_ll */
	uint32_t mode; /* P2S_LL_* */
};

static const struct form forms[] = {
	/* the plain one, which the error bound rests on */
	{WHEN_BOTH, MESSAGE_WORDS, SLOT_BYTES, FLAG_OFF, TURNS, 0, 1024, 0, 0},
	/* one word, flag beside it */
	{WHEN_BOTH, 1, 64, 8, TURNS, 0, 256, 0, 0},
	/* the flag in another page, in another block of 2 MiB */
	{WHEN_BOTH, 16, 2 * PAGE, PAGE + 64, TURNS, 0, 96, 0, 0},
	{WHEN_BOTH, 64, 2 * BLOCK, BLOCK, TURNS, 0, 32, 0, 0},
	/* many warps behind a barrier: 4 KiB, and 32 KiB of payload */
	{WHEN_BOTH, 512, 2 * PAGE, PAGE + 8, TURNS, 128, 96, 0, 0},
	{WHEN_BOTH, 4096, 16 * PAGE, 12 * PAGE, TURNS, 256, 48, 0, 0},
	/* the reader had the payload's lines in its cache before it was written */
	{WHEN_PULL, 64, SLOT_BYTES, FLAG_OFF, TURNS | P2S_WIDE_WARM, 64, 192, 0, 0},
	/* words that carry their flags: as single stores, and two at once */
	{WHEN_PUSH, 64, 512, 0, 0, 0, 256, 1, P2S_LL_SINGLE},
	{WHEN_PUSH, 512, 4096, 0, 0, 0, 64, 1, P2S_LL_PAIR},
};
/* without any fence: does this machine ever turn the order around? */
static const struct form control = {WHEN_PUSH, 512, 2 * PAGE, PAGE + 8, P2S_WIDE_BARE, 128, 48, 0, 0};

static uint32_t rounds_of(const struct p2s_lane *lane, const struct form *f)
{
	uint64_t room = lane->bytes / f->slot_bytes;
	uint32_t rounds = f->rounds;

	if (lane->run->ask.level == P2PSAFE_LEVEL_QUICK)
		rounds = rounds > 256 ? 256 : (rounds + 3) / 4;
	if (p2s_both_slow(lane->run))
		rounds = f == &forms[0] ? 256 : (rounds + 7) / 8;
	if (lane->run->ask.level == P2PSAFE_LEVEL_THOROUGH)
		rounds *= 2;
	return rounds < room ? rounds : (uint32_t)room;
}

static void ask_form(struct p2s_both *x, const struct form *f, int pull, uint32_t rounds)
{
	memset(x->duo.req, 0, sizeof x->duo.req);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request *req = &x->duo.req[i];

		req->op = f->own_flags ? P2S_OP_LL : P2S_OP_MP;
		req->rounds = rounds;
		req->words = f->words;
		req->slot_bytes = f->slot_bytes;
		req->flag_off = f->flag_off;
		req->idiom = f->idiom;
		req->mode = f->own_flags ? f->mode : f->threads;
		req->pace_ns = PACE_NS;
		req->max_ns = rounds == 1 ? P2S_FIRST_NS : P2S_WAIT_NS;
	}
	for (int i = 0; i < 2; i++) {
		/* Push: the accessor writes into the owner's window, the owner polls its own memory. Pull: the owner writes locally,
		 * the accessor polls through the window. */
		struct p2s_op_request *writer = &x->duo.req[pull ? 1 - i : i];
		struct p2s_op_request *reader = &x->duo.req[pull ? i : 1 - i];

		if (!(p2s_both_going(x) & 1u << i))
			continue;
		writer->buf = pull ? x->lane[i].win_own : x->lane[i].win_acc;
		writer->seed = x->seed[i];
		reader->buf2 = pull ? x->lane[i].win_acc : x->lane[i].win_own;
		reader->seed2 = x->seed[i];
	}
}

/* Returns 1 if the kernels of both sides ran. */
static int run_form(struct p2s_both *x, const struct form *f, int pull, uint32_t rounds)
{
	p2s_both_rekey(x);
	if (!p2s_both_poison(x, 0, (uint64_t)rounds * f->slot_bytes))
		return 0;
	ask_form(x, f, pull, rounds); /* of the directions that still go on */
	return p2s_both_run(x);
}

static void message_form(struct p2s_both *x, const struct form *f, int pull, uint32_t rounds)
{
	unsigned going = p2s_both_going(x);
	struct p2s_mp_shape shape = {.rounds = rounds,
	                             .words = f->words,
	                             .slot_bytes = f->slot_bytes,
	                             .flag_off = f->flag_off,
	                             .pull = pull,
	                             .own_flags = f->own_flags,
	                             .mode = f->mode};

	if (rounds == 0 || going == 0 || !run_form(x, f, pull, rounds))
		return;
	for (int i = 0; i < 2; i++)
		if (going & 1u << i)
			p2s_both_judge(x, i, &shape, &x->duo.answer[pull ? i : 1 - i], &x->duo.answer[pull ? 1 - i : i]);
}

/* What the control shows is told with the leg and changes nothing. */
static void message_control(struct p2s_both *x)
{
	uint32_t rounds = rounds_of(&x->lane[0], &control);

	if (rounds == 0 || p2s_both_going(x) == 0 || !run_form(x, &control, 0, rounds))
		return;
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result reader;

		p2s_duo_role(&x->duo.answer[1 - i], 1, &reader);
		if (reader.status != P2S_ROLE_IDLE)
			snprintf(x->trial[i].out.note, sizeof x->trial[i].out.note, "control without fences: %llu words late in %u rounds",
			         (unsigned long long)reader.bad_words, rounds);
	}
}

void p2s_message_under_load(struct p2s_both *x)
{
	static const struct form loaded[] = {
		{WHEN_BOTH, MESSAGE_WORDS, SLOT_BYTES, FLAG_OFF, TURNS, 0, 512, 0, 0},
		{WHEN_BOTH, 512, 2 * PAGE, PAGE + 8, TURNS, 128, 128, 0, 0},
		{WHEN_PUSH, 64, 512, 0, 0, 0, 256, 1, P2S_LL_SINGLE},
	};

	for (size_t i = 0; i < sizeof loaded / sizeof loaded[0]; i++)
		for (int pull = 0; pull < 2; pull++)
			if (loaded[i].when & (pull ? WHEN_PULL : WHEN_PUSH))
				message_form(x, &loaded[i], pull, rounds_of(&x->lane[0], &loaded[i]));
}

int p2s_leg_message(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int pull, int first)
{
	int32_t leg = pull ? P2PSAFE_LEG_MP_PULL : P2PSAFE_LEG_MP_PUSH;
	struct p2s_both x;

	if (!p2s_both_open(run, a, b, m, dirs, leg, &x))
		return 0;
	for (int i = 0; i < 2; i++)
		x.trial[i].quiet = first == P2S_MESSAGE_QUIET;
	if (first != P2S_MESSAGE_ALL) {
		message_form(&x, &forms[0], pull, 1);
		return p2s_both_end(&x);
	}
	for (size_t i = 0; i < sizeof forms / sizeof forms[0] && p2s_both_going(&x) != 0; i++) {
		if (!(forms[i].when & (pull ? WHEN_PULL : WHEN_PUSH)))
			continue;
		if (i > 0 && !p2s_run_may_start(run)) {
			struct p2s_judgement late = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "deadline before all forms of messages"};

			p2s_trial_judged(&x.trial[0], &late);
			p2s_trial_judged(&x.trial[1], &late);
			break;
		}
		message_form(&x, &forms[i], pull, rounds_of(&x.lane[0], &forms[i]));
	}
	if (!pull && m == P2S_M_CUMEM && run->ask.level != P2PSAFE_LEVEL_QUICK)
		message_control(&x);
	return p2s_both_end(&x);
}

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
