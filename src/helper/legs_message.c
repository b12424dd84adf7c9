/* Message passing in all its forms: which of them run, how fast, and how often. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define SLOT_BYTES 4096u
#define FLAG_OFF 2048u
#define MESSAGE_WORDS 128u /* 1 KiB of payload */
#define SEND_NS (P2S_WAIT_NS / 4) /* of all messages of a form, whatever the pace: a writer that needs longer was late */
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

/* How a form is run, and what it came to. */
struct turn {
	uint32_t rounds;
	uint64_t pace_ns;
	unsigned late;      /* directions that may say something else once more */
	unsigned behind;    /* directions whose reader was too slow for that pace */
	uint64_t reader_ns; /* of those: the longest time for a message */
};

static void ask_form(struct p2s_both *x, const struct form *f, int pull, const struct turn *turn)
{
	memset(x->duo.req, 0, sizeof x->duo.req);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request *req = &x->duo.req[i];

		req->op = f->own_flags ? P2S_OP_LL : P2S_OP_MP;
		req->rounds = turn->rounds;
		req->words = f->words;
		req->slot_bytes = f->slot_bytes;
		req->flag_off = f->flag_off;
		req->idiom = f->idiom;
		req->mode = f->own_flags ? f->mode : f->threads;
		req->pace_ns = turn->pace_ns;
		req->max_ns = turn->rounds == 1 ? P2S_FIRST_NS : P2S_WAIT_NS;
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
static int run_form(struct p2s_both *x, const struct form *f, int pull, const struct turn *turn)
{
	p2s_both_rekey(x);
	if (!p2s_both_poison(x, 0, (uint64_t)turn->rounds * f->slot_bytes))
		return 0;
	ask_form(x, f, pull, turn); /* of the directions that still go on */
	return p2s_both_run(x);
}

static void message_once(struct p2s_both *x, const struct form *f, int pull, struct turn *turn)
{
	unsigned going = p2s_both_going(x);
	struct p2s_mp_shape shape = {.rounds = turn->rounds,
	                             .words = f->words,
	                             .slot_bytes = f->slot_bytes,
	                             .flag_off = f->flag_off,
	                             .pull = pull,
	                             .own_flags = f->own_flags,
	                             .mode = f->mode};

	turn->late = turn->behind = 0;
	if (turn->rounds == 0 || going == 0 || !run_form(x, f, pull, turn))
		return;
	for (int i = 0; i < 2; i++) {
		const struct p2s_op_answer *answer = &x->duo.answer[pull ? i : 1 - i];
		struct p2s_role_result reader;
		int again;

		if (!(going & 1u << i))
			continue;
		again = p2s_both_judge(x, i, &shape, answer, &x->duo.answer[pull ? 1 - i : i]);
		if (again == P2S_BOTH_LATE)
			turn->late |= 1u << i;
		if (again != P2S_BOTH_BEHIND)
			continue;
		turn->behind |= 1u << i;
		p2s_duo_role(answer, 1, &reader);
		if (reader.elapsed_ns / turn->rounds > turn->reader_ns)
			turn->reader_ns = reader.elapsed_ns / turn->rounds;
	}
}

/* Twice the time that the reader needs, and fewer messages where that takes too long for all of them. A reader may have been
 * without its GPU for any time: what would leave too few of them is no pace. */
static void slow_down(struct turn *turn)
{
	turn->pace_ns *= 2;
	if (turn->pace_ns < 2 * turn->reader_ns)
		turn->pace_ns = 2 * turn->reader_ns;
	if (turn->pace_ns > SEND_NS / P2S_JUDGE_FEW)
		turn->pace_ns = SEND_NS / P2S_JUDGE_FEW;
	if (turn->rounds > SEND_NS / turn->pace_ns)
		turn->rounds = (uint32_t)(SEND_NS / turn->pace_ns);
}

static void message_form(struct p2s_both *x, const struct form *f, int pull, uint32_t rounds)
{
	struct turn turn = {.rounds = rounds, .pace_ns = P2S_PACE_NS};
	const unsigned dirs = x->dirs;
	struct p2s_trial before[2];
	int left = P2S_LATE_TRIES;
	unsigned passed = 0;

	for (;;) {
		passed |= turn.behind;
		memcpy(before, x->trial, sizeof before);
		message_once(x, f, pull, &turn);
		p2s_both_keep(x, before, passed);
		if (!p2s_both_once_more(x, turn.late | turn.behind, &left))
			break;
		if (turn.behind != 0)
			slow_down(&turn);
	}
	for (int i = 0; i < 2; i++)
		if ((turn.behind & 1u << i) && x->trial[i].out.note[0] == '\0')
			snprintf(x->trial[i].out.note, sizeof x->trial[i].out.note,
			         "messages of %u words lay there before they were looked for", f->words);
	x->dirs = dirs;
}

/* What the control shows is told with the leg and changes nothing; nor does a control that could not be had. */
static void message_control(struct p2s_both *x)
{
	const struct turn turn = {.rounds = rounds_of(&x->lane[0], &control), .pace_ns = P2S_PACE_NS};
	struct p2s_trial before[2];

	memcpy(before, x->trial, sizeof before);
	if (turn.rounds == 0 || p2s_both_going(x) == 0)
		return;
	if (!run_form(x, &control, 0, &turn)) {
		p2s_both_keep(x, before, 3);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result reader;

		p2s_duo_role(&x->duo.answer[1 - i], 1, &reader);
		if (reader.status != P2S_ROLE_IDLE && x->trial[i].out.note[0] == '\0')
			snprintf(x->trial[i].out.note, sizeof x->trial[i].out.note, "control without fences: %llu words late in %u rounds",
			         (unsigned long long)reader.bad_words, turn.rounds);
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
