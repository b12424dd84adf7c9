/* Do aligned words arrive whole? Eight bytes must; a line of 128 bytes may, and who counts on it is told. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define TEAR_WORDS 64u
#define LINE_WORDS 64u /* four lines, one store instruction of a warp */
#define ATTEMPTS 3

int p2s_tear_begin(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, struct p2s_both *x)
{
	return p2s_both_open(run, a, b, m, dirs, P2PSAFE_LEG_TEARING_8, x);
}

/* One run of the kernels. Returns directions whose reader saw only one of the patterns: that proved nothing. */
static unsigned tear_once(struct p2s_both *x, int pull, uint32_t iters, int last)
{
	uint64_t len = (TEAR_WORDS + 1) * 8;
	uint64_t seed_a, seed_b;
	unsigned powerless = 0;

	p2s_both_rekey(x);
	seed_a = p2s_seed(x->trial[0].key, x->lane[0].a, x->lane[0].b, P2PSAFE_LEG_TEARING_8, 1);
	seed_b = p2s_seed(x->trial[0].key, x->lane[0].a, x->lane[0].b, P2PSAFE_LEG_TEARING_8, 2);
	memset(x->duo.req, 0, sizeof x->duo.req);
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request *writer = &x->duo.req[pull ? 1 - i : i];
		struct p2s_op_request *reader = &x->duo.req[pull ? i : 1 - i];

		x->trial[i].poison = seed_a ^ seed_b ^ P2S_TEAR_POISON;
		x->duo.req[i].op = P2S_OP_TEAR;
		x->duo.req[i].words = TEAR_WORDS;
		x->duo.req[i].rounds = iters;
		x->duo.req[i].seed = seed_a;
		x->duo.req[i].seed2 = seed_b;
		if (!(p2s_both_going(x) & 1u << i))
			continue;
		writer->buf = pull ? x->lane[i].win_own : x->lane[i].win_acc;
		reader->buf2 = pull ? x->lane[i].win_acc : x->lane[i].win_own;
	}
	if (!p2s_both_poison(x, 0, len) || !p2s_both_run(x))
		return 0;
	for (int i = 0; i < 2; i++) {
		struct p2s_role_result writer, reader;
		struct p2s_judgement j;

		if (!(p2s_both_going(x) & 1u << i))
			continue;
		p2s_duo_role(&x->duo.answer[pull ? 1 - i : i], 0, &writer);
		p2s_duo_role(&x->duo.answer[pull ? i : 1 - i], 1, &reader);
		p2s_judge_tear(seed_a, seed_b, &writer, &reader, &j);
		x->trial[i].out.rounds += iters;
		x->trial[i].out.bytes += (uint64_t)iters * TEAR_WORDS * 8;
		p2s_trial_cover(&x->trial[i], 0, len);
		if (j.verdict == P2PSAFE_VERDICT_UNTESTED && reader.status == P2S_ROLE_DONE && !last)
			powerless |= 1u << i;
		else
			p2s_trial_judged(&x->trial[i], &j);
	}
	return powerless;
}

void p2s_tear_form(struct p2s_both *x, int pull, uint32_t iters)
{
	for (int attempt = 0; attempt < ATTEMPTS && p2s_both_going(x) != 0; attempt++, iters *= 2) {
		int last = attempt == ATTEMPTS - 1 || !p2s_run_may_start(x->lane[0].run);

		if (tear_once(x, pull, iters, last) == 0)
			return;
	}
}

void p2s_tear_line(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs)
{
	uint32_t rounds = p2s_both_slow(run) ? 64 : 1024;
	struct p2s_mp_shape shape = {
		.rounds = rounds, .words = LINE_WORDS, .slot_bytes = LINE_WORDS * 8, .own_flags = 1, .mode = P2S_LL_LINE};
	struct p2s_both x;

	if (!p2s_both_open(run, a, b, m, dirs, P2PSAFE_LEG_TEARING_128, &x))
		return;
	for (int i = 0; i < 2; i++) {
		x.duo.req[i].op = P2S_OP_LL;
		x.duo.req[i].mode = P2S_LL_LINE;
		x.duo.req[i].rounds = rounds;
		x.duo.req[i].words = LINE_WORDS;
		x.duo.req[i].slot_bytes = LINE_WORDS * 8;
	}
	for (int i = 0; i < 2; i++) {
		if (!(x.dirs & 1u << i))
			continue;
		x.duo.req[i].buf = x.lane[i].win_acc;
		x.duo.req[i].seed = x.seed[i];
		x.duo.req[1 - i].buf2 = x.lane[i].win_own;
		x.duo.req[1 - i].seed2 = x.seed[i];
	}
	if (p2s_both_poison(&x, 0, (uint64_t)rounds * shape.slot_bytes) && p2s_both_run(&x))
		for (int i = 0; i < 2; i++)
			if (x.dirs & 1u << i)
				p2s_both_judge(&x, i, &shape, &x.duo.answer[1 - i], &x.duo.answer[i]);
	for (int i = 0; i < 2; i++)
		if ((x.dirs & 1u << i) && x.trial[i].out.verdict == P2PSAFE_VERDICT_CORRUPT)
			p2s_link_fact(run, "TEARING_128", P2PSAFE_SEVERITY_WARNING, (int32_t)x.lane[i].a, (int32_t)x.lane[i].b, "test",
			              "lines of 128 bytes do not arrive whole: NCCL's LL128 protocol counts on it");
	p2s_both_end(&x);
}
