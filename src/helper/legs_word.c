/* Do aligned words arrive whole? Eight bytes must; a line of 128 bytes may, and who counts on it is told. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define TEAR_WORDS 64u
#define TEAR_WIDE 32768u /* 256 KiB: what goes wrong only in large transfers, or here and there */
#define TEAR_ALIGN 4096          /* above the words of each form and their end mark */
#define TEAR_WIDE_ALIGN (512 * P2S_KIB)
#define LINE_WORDS 64u /* four lines, one store instruction of a warp */
#define ATTEMPTS 3

int p2s_tear_begin(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, struct p2s_both *x)
{
	return p2s_both_open(run, a, b, m, dirs, P2PSAFE_LEG_TEARING_8, x);
}

/* Runs the kernels over that many words from off on. Returns 1 if they ran. */
static int tear_run(struct p2s_both *x, int pull, uint32_t words, uint64_t off, uint32_t iters, uint64_t seed[2])
{
	p2s_both_rekey(x);
	for (uint32_t i = 0; i < 2; i++)
		seed[i] = p2s_seed(x->trial[0].key, x->lane[0].a, x->lane[0].b, P2PSAFE_LEG_TEARING_8, i + 1);
	/* The kernel counts words from off on: as off is a multiple of a power of two above all of them, this seed makes the fill
	 * agree. */
	for (int i = 0; i < 2; i++) {
		x->trial[i].poison = seed[0] ^ seed[1] ^ P2S_TEAR_POISON;
		if (p2s_both_going(x) & 1u << i)
			p2s_step_fill(&x->trial[i], x->lane[i].own, x->lane[i].win_own, off, ((uint64_t)words + 1) * 8,
			              x->trial[i].poison ^ off / 8);
	}
	if (!p2s_both_goes_on(x))
		return 0;
	memset(x->duo.req, 0, sizeof x->duo.req);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request *writer = &x->duo.req[pull ? 1 - i : i];
		struct p2s_op_request *reader = &x->duo.req[pull ? i : 1 - i];

		x->duo.req[i].op = P2S_OP_TEAR;
		x->duo.req[i].off = x->duo.req[i].off2 = off;
		x->duo.req[i].words = words;
		x->duo.req[i].rounds = iters;
		x->duo.req[i].seed = seed[0];
		x->duo.req[i].seed2 = seed[1];
		if (!(p2s_both_going(x) & 1u << i))
			continue;
		writer->buf = pull ? x->lane[i].win_own : x->lane[i].win_acc;
		reader->buf2 = pull ? x->lane[i].win_acc : x->lane[i].win_own;
	}
	return p2s_both_run(x);
}

/* A lost end mark is damage however late its writer was: it is not where its owner looks after all is over. 0 also when that is not
 * known, and when the owner stored it itself: what a load does not see is no less there. */
static int mark_is_lost(const struct p2s_both *x, int i, int pull, uint64_t at, uint64_t seed)
{
	return !pull && p2s_both_misses(&x->lane[i], at, 8, seed) > 0;
}

/* What the reader of direction i saw. Returns 1 if it should look once more; *looks: how often it looked at all words while they
 * changed. */
static int tear_judge(const struct p2s_both *x, int i, int pull, uint32_t words, uint64_t off, const uint64_t seed[2],
                      struct p2s_judgement *j, uint64_t *looks)
{
	struct p2s_role_result writer, reader;

	p2s_duo_role(&x->duo.answer[pull ? 1 - i : i], 0, &writer);
	p2s_duo_role(&x->duo.answer[pull ? i : 1 - i], 1, &reader);
	p2s_judge_tear(seed[0], seed[1], &writer, &reader, j);
	*looks = reader.rounds_done < writer.rounds_done ? reader.rounds_done : writer.rounds_done;
	if (!p2s_judge_tear_again(&writer, &reader, j))
		return 0;
	return j->verdict != P2PSAFE_VERDICT_CORRUPT || !mark_is_lost(x, i, pull, off + (uint64_t)words * 8, seed[0] ^ off / 8);
}

/* A store that nobody looked at proves nothing: looks are the rounds that the error bound rests on. */
static void tear_count(struct p2s_both *x, int i, uint32_t words, uint64_t off, uint32_t iters, uint64_t looks)
{
	x->trial[i].out.rounds += looks;
	x->trial[i].out.bytes += (uint64_t)iters * words * 8;
	p2s_trial_cover(&x->trial[i], off, ((uint64_t)words + 1) * 8);
}

/* Damage that no later look took back stays damage, also where that look could not be had or said nothing. */
static void keep_damage(struct p2s_both *x, const struct p2s_judgement seen[2])
{
	for (int i = 0; i < 2; i++) {
		struct p2s_trial *t = &x->trial[i];

		if (seen[i].verdict != P2PSAFE_VERDICT_CORRUPT)
			continue;
		if (t->out.verdict == P2PSAFE_VERDICT_UNTESTED)
			t->over = 0;
		p2s_trial_judged(t, &seen[i]);
	}
}

/* Few words often. Returns directions whose reader proved nothing; seen: the last look of each that said anything. */
static unsigned tear_once(struct p2s_both *x, int pull, uint32_t iters, int last, struct p2s_judgement seen[2])
{
	/* Loads look at another place than stores: somewhere inside. */
	uint64_t off = pull ? x->lane[0].bytes / 2 / TEAR_ALIGN * TEAR_ALIGN : 0;
	unsigned powerless = 0;
	uint64_t seed[2];

	if (!tear_run(x, pull, TEAR_WORDS, off, iters, seed))
		return 0;
	for (int i = 0; i < 2; i++) {
		struct p2s_judgement j;
		uint64_t looks;
		int again;

		if (!(p2s_both_going(x) & 1u << i))
			continue;
		again = tear_judge(x, i, pull, TEAR_WORDS, off, seed, &j, &looks);
		tear_count(x, i, TEAR_WORDS, off, iters, looks);
		/* Looked once more for the other's sake only, and saw less of what it had seen whole. */
		if (again && j.verdict == P2PSAFE_VERDICT_UNTESTED && seen[i].verdict == P2PSAFE_VERDICT_OK)
			continue;
		if (j.verdict == P2PSAFE_VERDICT_CORRUPT || j.verdict == P2PSAFE_VERDICT_OK)
			seen[i] = j;
		if (again && !last)
			powerless |= 1u << i;
		else
			p2s_trial_judged(&x->trial[i], &j);
	}
	return powerless;
}

void p2s_tear_wide(struct p2s_both *x, int pull, uint32_t iters)
{
	uint64_t off = (x->lane[0].bytes / TEAR_WIDE_ALIGN - 1) * TEAR_WIDE_ALIGN;
	struct p2s_judgement seen[2] = {{0}}; /* CORRUPT: not taken back yet */
	uint64_t seed[2];
	unsigned more = 3;

	for (int attempt = 0; attempt < ATTEMPTS && more != 0; attempt++) {
		if (p2s_both_going(x) == 0 || !tear_run(x, pull, TEAR_WIDE, off, iters, seed))
			break;
		more = 0;
		for (int i = 0; i < 2; i++) {
			struct p2s_judgement j;
			uint64_t looks;
			int again;

			if (!(p2s_both_going(x) & 1u << i))
				continue;
			again = tear_judge(x, i, pull, TEAR_WIDE, off, seed, &j, &looks);
			if (j.verdict == P2PSAFE_VERDICT_OK)
				tear_count(x, i, TEAR_WIDE, off, iters, looks);
			/* Only a look that sees all of it takes back what an earlier one said. */
			if (j.verdict == P2PSAFE_VERDICT_CORRUPT || j.verdict == P2PSAFE_VERDICT_OK)
				seen[i] = j;
			if (j.verdict == P2PSAFE_VERDICT_CORRUPT && !again)
				p2s_trial_judged(&x->trial[i], &j);
			else if (seen[i].verdict == P2PSAFE_VERDICT_CORRUPT)
				more |= 1u << i;
		}
	}
	keep_damage(x, seen);
}

void p2s_tear_form(struct p2s_both *x, int pull, uint32_t iters)
{
	struct p2s_judgement seen[2] = {{0}};
	unsigned more = 3;

	for (int attempt = 0; attempt < ATTEMPTS && more != 0 && p2s_both_going(x) != 0; attempt++, iters *= 2) {
		int last = attempt == ATTEMPTS - 1 || !p2s_run_may_start(x->lane[0].run);

		more = tear_once(x, pull, iters, last, seen);
	}
	keep_damage(x, seen);
}

/* Returns directions whose writer was late. */
static unsigned line_once(struct p2s_both *x, uint32_t rounds)
{
	struct p2s_mp_shape shape = {
		.rounds = rounds, .words = LINE_WORDS, .slot_bytes = LINE_WORDS * 8, .own_flags = 1, .mode = P2S_LL_LINE};
	unsigned late = 0;

	memset(x->duo.req, 0, sizeof x->duo.req);
	for (int i = 0; i < 2; i++) {
		x->duo.req[i].op = P2S_OP_LL;
		x->duo.req[i].mode = P2S_LL_LINE;
		x->duo.req[i].rounds = rounds;
		x->duo.req[i].words = LINE_WORDS;
		x->duo.req[i].slot_bytes = LINE_WORDS * 8;
		x->duo.req[i].pace_ns = P2S_PACE_NS;
	}
	for (int i = 0; i < 2; i++) {
		if (!(x->dirs & 1u << i))
			continue;
		x->duo.req[i].buf = x->lane[i].win_acc;
		x->duo.req[i].seed = x->seed[i];
		x->duo.req[1 - i].buf2 = x->lane[i].win_own;
		x->duo.req[1 - i].seed2 = x->seed[i];
	}
	if (!p2s_both_poison(x, 0, (uint64_t)rounds * shape.slot_bytes) || !p2s_both_run(x))
		return 0;
	for (int i = 0; i < 2; i++)
		if ((x->dirs & 1u << i) && p2s_both_judge(x, i, &shape, &x->duo.answer[1 - i], &x->duo.answer[i]) == P2S_BOTH_LATE)
			late |= 1u << i;
	return late;
}

void p2s_tear_line(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs)
{
	uint32_t rounds = p2s_both_slow(run) ? 64 : run->ask.level == P2PSAFE_LEVEL_QUICK ? 256 : 1024;
	int left = P2S_LATE_TRIES;
	struct p2s_both x;

	if (!p2s_both_open(run, a, b, m, dirs, P2PSAFE_LEG_TEARING_128, &x))
		return;
	dirs = x.dirs;
	while (p2s_both_once_more(&x, line_once(&x, rounds), &left))
		p2s_both_rekey(&x);
	x.dirs = dirs;
	for (int i = 0; i < 2; i++)
		if ((x.dirs & 1u << i) && x.trial[i].out.verdict == P2PSAFE_VERDICT_CORRUPT)
			p2s_link_fact(run, "TEARING_128", P2PSAFE_SEVERITY_WARNING, (int32_t)x.lane[i].a, (int32_t)x.lane[i].b, "test",
			              "lines of 128 bytes do not arrive whole: NCCL's LL128 protocol counts on it");
	p2s_both_end(&x);
}
