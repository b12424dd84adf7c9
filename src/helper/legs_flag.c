/* Copy then flag: the accessor's copy engine writes a payload, and then in stream order a flag comes by copy, by kernel, or by the
 * stream's own write; a kernel of the owner waits for it. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define SLOT_BYTES 4096u
#define FLAG_OFF 2048u
#define MESSAGE_WORDS 128u
#define CU_INVALID_VALUE 1
#define CU_NOT_SUPPORTED 801

/* The stream's own write is an optional call, and some addresses are not for it: refused before a byte moved, it is told. */
static int refused(uint32_t mode, const struct p2s_op_answer *answer)
{
	return mode == P2S_FLAG_WRITE &&
	       (answer->rc == P2S_RC_UNSUPPORTED || (answer->rc == P2S_RC_ERROR && (answer->cuda_error == CU_NOT_SUPPORTED ||
	                                                                            answer->cuda_error == CU_INVALID_VALUE)));
}

/* Returns 1 if the leg goes on. */
static int one_mode(struct p2s_both *x, uint32_t mode, uint32_t rounds)
{
	struct p2s_run *run = x->lane[0].run;
	struct p2s_trial *t = &x->trial[0];
	struct p2s_mp_shape shape = {.rounds = rounds, .words = MESSAGE_WORDS, .slot_bytes = SLOT_BYTES, .flag_off = FLAG_OFF};
	struct p2s_op_request slots = {
		.op = P2S_OP_FILL_SLOTS, .rounds = rounds, .words = MESSAGE_WORDS, .slot_bytes = SLOT_BYTES, .flag_off = FLAG_OFF};
	struct p2s_op_answer answer;

	p2s_both_rekey(x);
	memset(x->duo.req, 0, sizeof x->duo.req);
	slots.buf = x->lane[0].loc_acc;
	slots.seed = x->seed[0];
	x->duo.req[0] = slots;
	x->duo.req[0].op = P2S_OP_MP;
	x->duo.req[0].buf = 0;
	x->duo.req[0].seed = 0;
	x->duo.req[0].buf2 = x->lane[0].win_own;
	x->duo.req[0].seed2 = x->seed[0];
	x->duo.extra = slots;
	x->duo.extra.op = P2S_OP_CE_FLAG;
	x->duo.extra.mode = mode;
	x->duo.extra.buf = x->lane[0].win_acc;
	x->duo.extra.buf2 = x->lane[0].loc_acc;
	if (!p2s_both_poison(x, 0, (uint64_t)rounds * SLOT_BYTES))
		return 0;
	if (p2s_chan_call(run, x->lane[0].acc, &slots, &answer) != P2S_RC_OK)
		return p2s_trial_fail(t, x->lane[0].acc, &answer);
	if (!p2s_both_run(x))
		return 0;
	if (refused(mode, &x->duo.extra_answer))
		snprintf(t->out.note, sizeof t->out.note, "flags by copy and by kernel; %s refused", x->duo.extra_answer.where);
	else if (x->duo.extra_answer.rc != P2S_RC_OK)
		return p2s_trial_fail(t, x->lane[0].acc, &x->duo.extra_answer);
	else
		p2s_both_judge(x, 0, &shape, &x->duo.answer[0], NULL);
	return !t->over;
}

static int one_mode_again(struct p2s_both *x, uint32_t mode, uint32_t rounds)
{
	const struct p2s_trial *t = &x->trial[0];
	int left = P2S_LATE_TRIES;

	while (!one_mode(x, mode, rounds))
		if (!p2s_both_once_more(x, t->over && t->out.verdict == P2PSAFE_VERDICT_UNTESTED, &left))
			return 0;
	return 1;
}

void p2s_leg_ce_flag(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	uint32_t rounds = run->ask.level == P2PSAFE_LEVEL_QUICK || p2s_both_slow(run) ? 32 : 96;
	struct p2s_both x;

	if (!p2s_both_open(run, a, b, m, 1, P2PSAFE_LEG_CE_FLAG, &x))
		return;
	if (rounds > x.lane[0].bytes / SLOT_BYTES)
		rounds = (uint32_t)(x.lane[0].bytes / SLOT_BYTES);
	x.duo.count = 1;
	x.duo.chan[0] = x.lane[0].own;
	x.duo.extra_chan = x.lane[0].acc;
	for (uint32_t mode = P2S_FLAG_COPY; mode <= P2S_FLAG_WRITE; mode++)
		if (!one_mode_again(&x, mode, rounds))
			break;
	p2s_both_end(&x);
}
