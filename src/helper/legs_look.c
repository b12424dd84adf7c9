/* The judgement of one check. Where more is wrong than a check samples, other places of the range are looked at too, so that
 * the name of the damage does not hang on its first words. On a clean transfer nothing is added. */
#include <string.h>

#include "helper/legs.h"

#define LOOKS 16         /* looks whose samples are kept */
#define LEAST_BYTES 1024 /* the first look begins so far behind the first wrong word */
#define GROWTH 4
#define ALIAS_BYTES 256

struct look {
	struct p2s_sample samples[(LOOKS + 1) * P2S_SAMPLES];
	size_t count;
};

static void take(struct look *l, const struct p2s_op_answer *answer)
{
	size_t n = answer->samples_len / sizeof l->samples[0];

	if (n > P2S_SAMPLES)
		n = P2S_SAMPLES;
	if (l->count + n > sizeof l->samples / sizeof l->samples[0])
		return;
	memcpy(l->samples + l->count, answer->samples, n * sizeof l->samples[0]);
	l->count += n;
}

/* Checks [at, at + len) again. The first judgement stands whatever comes: a failing look adds nothing. */
static void look_at(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t at, uint64_t len,
                    const struct p2s_expect *e, struct look *l)
{
	struct p2s_op_request req = {.op = P2S_OP_CHECK,
	                             .buf = buf,
	                             .off = at,
	                             .len = len,
	                             .in_off = e->in_begin,
	                             .in_len = e->in_end - e->in_begin,
	                             .seed = e->want.seed,
	                             .seed2 = e->outside};
	struct p2s_op_answer answer;

	if (p2s_chan_call(t->lane->run, chan, &req, &answer) == P2S_RC_OK && answer.bad_words > 0)
		take(l, &answer);
}

/* Words that lie a power of two from where they belong: moved as a whole, or an address bit lost? One step further shows. */
static void tell_alias(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                       const struct p2s_expect *e, struct look *l, const struct p2s_judgement *j)
{
	uint64_t step = (uint64_t)(j->moved < 0 ? -j->moved : j->moved);
	uint64_t at = l->samples[0].offset;

	for (size_t i = 1; i < l->count; i++)
		if (l->samples[i].offset < at)
			at = l->samples[i].offset;
	at += step;
	if (at >= off && at + ALIAS_BYTES <= off + len)
		look_at(t, chan, buf, at, ALIAS_BYTES, e, l);
}

int p2s_step_judge(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                   const struct p2s_op_answer *answer, const struct p2s_expect *e)
{
	struct p2s_judgement j;
	struct look l = {.count = 0};

	if (answer->rc != P2S_RC_OK)
		return p2s_trial_fail(t, chan, answer);
	if (answer->bad_words > 0)
		take(&l, answer);
	/* From the first wrong word on, in stretches that grow: what is near and what is far. */
	for (uint64_t near = LEAST_BYTES; answer->bad_words > l.count && l.count > 0 && !t->over; near *= GROWTH) {
		uint64_t at = (answer->first_bad & ~UINT64_C(7)) + near;
		uint64_t room = at < off + len ? off + len - at : 0;

		if (room < 8)
			break;
		look_at(t, chan, buf, at, (GROWTH - 1) * near < room ? (GROWTH - 1) * near : room / 8 * 8, e, &l);
	}
	p2s_judge_check(e, answer->bad_words, answer->first_bad, l.samples, l.count, &j);
	if (j.damage == P2PSAFE_DAMAGE_ALIASED && !t->over) {
		tell_alias(t, chan, buf, off, len, e, &l, &j);
		p2s_judge_check(e, answer->bad_words, answer->first_bad, l.samples, l.count, &j);
	}
	return p2s_trial_judged(t, &j);
}
