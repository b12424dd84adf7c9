#include "helper/legs_both.h"

#include <stdio.h>
#include <string.h>

#include "core/word.h"

#define KERNELS_ALL 3u /* both roles of a grid report ready */

int p2s_both_slow(const struct p2s_run *run)
{
	return run->ask.host_dir[0] != '\0';
}

static void new_seed(struct p2s_both *x, int i)
{
	struct p2s_trial *t = &x->trial[i];

	x->seed[i] = p2s_seed(t->key, x->lane[i].a, x->lane[i].b, (uint32_t)t->out.leg, 0);
}

int p2s_both_open(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int32_t leg, struct p2s_both *x)
{
	memset(x, 0, sizeof *x);
	x->dirs = dirs;
	for (int i = 0; i < 2; i++) {
		int open = p2s_lane_open(run, i == 0 ? a : b, i == 0 ? b : a, m, &x->lane[i]);

		if (!open)
			x->dirs &= ~(1u << i);
		p2s_trial_begin(&x->trial[i], &x->lane[i], leg);
		new_seed(x, i);
	}
	x->duo.count = 2;
	for (int i = 0; i < 2; i++) {
		x->duo.chan[i] = x->lane[i].acc;
		x->duo.mask[i] = KERNELS_ALL;
	}
	return x->dirs != 0 && p2s_lane_alive(&x->lane[0]);
}

void p2s_both_rekey(struct p2s_both *x)
{
	for (int i = 0; i < 2; i++) {
		p2s_trial_rekey(&x->trial[i]);
		new_seed(x, i);
	}
}

int p2s_both_goes_on(struct p2s_both *x)
{
	static const struct p2s_judgement other = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "a GPU of this pair failed meanwhile"};

	if (!p2s_lane_alive(&x->lane[0]))
		for (int i = 0; i < 2; i++)
			p2s_trial_judged(&x->trial[i], &other);
	return p2s_both_going(x) != 0;
}

int p2s_both_poison(struct p2s_both *x, uint64_t off, uint64_t len)
{
	for (int i = 0; i < 2; i++)
		if (p2s_both_going(x) & 1u << i)
			p2s_step_fill(&x->trial[i], x->lane[i].own, x->lane[i].win_own, off, len, x->trial[i].poison);
	return p2s_both_goes_on(x);
}

unsigned p2s_both_going(const struct p2s_both *x)
{
	return x->dirs & ((x->trial[0].over ? 0u : 1u) | (x->trial[1].over ? 0u : 2u));
}

int p2s_both_once_more(struct p2s_both *x, unsigned late, int *left)
{
	if (late == 0 || *left == 0 || !p2s_run_may_start(x->lane[0].run) || !p2s_lane_alive(&x->lane[0]))
		return 0;
	--*left;
	x->dirs = late;
	for (int i = 0; i < 2; i++) {
		if ((late & 1u << i) && x->trial[i].over) {
			x->trial[i].over = 0;
			x->trial[i].out.note[0] = '\0';
		}
	}
	return 1;
}

void p2s_both_keep(struct p2s_both *x, const struct p2s_trial before[2], unsigned dirs)
{
	for (int i = 0; i < 2; i++) {
		struct p2s_trial *t = &x->trial[i];

		if (!(dirs & 1u << i) || before[i].over || !t->over || t->out.verdict != P2PSAFE_VERDICT_UNTESTED ||
		    !p2s_lane_alive(&x->lane[0]))
			continue;
		t->over = 0;
		t->out = before[i].out;
	}
}

int p2s_both_end(struct p2s_both *x)
{
	int ok = 1;

	for (int i = 0; i < 2; i++)
		if (x->dirs & 1u << i)
			ok &= p2s_trial_end(&x->trial[i]);
	return ok;
}

/* After a run of kernels: engines that did not come back, errors. Returns 1 if both answers are there. */
static int settle(struct p2s_both *x, int resident)
{
	int ok = 1;

	for (int side = 0; side < x->duo.count; side++) {
		const struct p2s_op_answer *answer = &x->duo.answer[side];

		if (answer->rc == P2S_RC_OK)
			continue;
		ok = 0;
		for (int i = 0; i < 2; i++)
			if (x->dirs & 1u << i)
				p2s_trial_fail(&x->trial[i], x->duo.chan[side], answer);
	}
	if (ok && !resident) {
		for (int i = 0; i < 2; i++) {
			struct p2s_judgement j = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "kernels were not resident together"};

			if (x->dirs & 1u << i)
				p2s_trial_judged(&x->trial[i], &j);
		}
	}
	return ok && resident;
}

int p2s_both_run(struct p2s_both *x)
{
	for (int i = 0; i < x->duo.count; i++) {
		if (x->duo.req[i].max_ns == 0)
			x->duo.req[i].max_ns = P2S_WAIT_NS;
		x->duo.req[i].timeout_ns = p2s_run_engine_ns(x->lane[0].run, x->duo.req[i].max_ns);
	}
	return settle(x, p2s_duo_run(x->lane[0].run, &x->duo));
}

int64_t p2s_both_misses(const struct p2s_lane *lane, uint64_t at, uint64_t len, uint64_t seed)
{
	struct p2s_op_request req = {.op = P2S_OP_CHECK,
	                             .buf = lane->win_own,
	                             .off = at,
	                             .len = len,
	                             .in_off = at,
	                             .in_len = len,
	                             .seed = seed,
	                             .seed2 = seed};
	struct p2s_op_answer answer;

	if (p2s_chan_call(lane->run, lane->own, &req, &answer) != P2S_RC_OK)
		return -1;
	return (int64_t)answer.bad_words;
}

/* The same of words with their own flags, as far as one look goes. */
static int owner_holds_words(const struct p2s_lane *lane, const struct p2s_mp_shape *shape, uint64_t at, uint64_t seed)
{
	struct p2s_op_request req = {.op = P2S_OP_PEEK, .buf = lane->win_own, .off = at, .len = shape->words * 8};
	struct p2s_op_answer answer;

	if (req.len > sizeof answer.samples)
		req.len = sizeof answer.samples;
	if (p2s_chan_call(lane->run, lane->own, &req, &answer) != P2S_RC_OK || answer.samples_len != req.len)
		return -1;
	for (uint64_t k = 0; k < req.len; k += 8) {
		const uint64_t want = p2s_judge_own_flag(shape, seed, at + k);

		if (memcmp(answer.samples + k, &want, sizeof want) != 0)
			return 0;
	}
	return 1;
}

/* After a reader gave up: does the memory itself hold the round? -1: not known. */
static int owner_holds(const struct p2s_both *x, int i, const struct p2s_mp_shape *shape, uint64_t round)
{
	uint64_t at = round * shape->slot_bytes;
	uint64_t seed = p2s_seed_epoch(x->seed[i], round + 1);
	int64_t payload;
	int64_t flag;

	if (shape->own_flags)
		return owner_holds_words(&x->lane[i], shape, at, seed);
	payload = p2s_both_misses(&x->lane[i], at, shape->words * 8, seed);
	flag = p2s_both_misses(&x->lane[i], at + shape->flag_off, 8, seed);

	return payload < 0 || flag < 0 ? -1 : payload + flag == 0;
}

/* After a payload was not there with its flag: has it come since, as the writer's kernel is over? Only a name hangs on it. */
static int payload_came(const struct p2s_both *x, int i, const struct p2s_mp_shape *shape, const struct p2s_role_result *reader)
{
	size_t count = reader->samples < P2S_SAMPLES ? (size_t)reader->samples : P2S_SAMPLES;
	int came = -1;

	for (size_t s = 0; s < count && s < P2S_JUDGE_AGREE; s++) {
		uint64_t off = reader->sample[s].offset;
		int64_t miss = p2s_both_misses(&x->lane[i], off / 8 * 8, 8, p2s_seed_epoch(x->seed[i], off / shape->slot_bytes + 1));

		if (miss < 0)
			return -1;
		if (miss > 0)
			return 0;
		came = 1;
	}
	return came;
}

int p2s_both_judge(struct p2s_both *x, int i, struct p2s_mp_shape *shape, const struct p2s_op_answer *reader_answer,
                   const struct p2s_op_answer *writer_answer)
{
	struct p2s_trial *t = &x->trial[i];
	struct p2s_role_result reader, writer;
	struct p2s_judgement j;
	struct p2s_expect e;
	uint64_t touched;
	int again = 0;

	p2s_duo_role(reader_answer, 1, &reader);
	if (writer_answer != NULL)
		p2s_duo_role(writer_answer, 0, &writer);
	p2s_trial_expect(t, x->seed[i], 0, shape->rounds * shape->slot_bytes, 1, &e);
	shape->owner_good = -1;
	if (reader.status == P2S_ROLE_TIMEOUT && reader.bad_words == 0)
		shape->owner_good = owner_holds(x, i, shape, reader.rounds_done);
	else if (!shape->own_flags && reader.bad_words > 0)
		shape->owner_good = payload_came(x, i, shape, &reader);
	p2s_judge_mp(&e, shape, writer_answer != NULL ? &writer : NULL, &reader, &j);
	if (writer_answer != NULL && !t->over) {
		if (p2s_judge_mp_late(shape, &writer, &reader))
			again = P2S_BOTH_LATE;
		else if (j.verdict == P2PSAFE_VERDICT_OK && !p2s_both_slow(t->lane->run) &&
		         p2s_judge_mp_behind(shape->rounds, &writer, &reader))
			again = P2S_BOTH_BEHIND;
	}
	t->out.rounds += again == P2S_BOTH_BEHIND ? 1 : reader.rounds_done;
	touched = reader.rounds_done * (shape->words + (shape->own_flags ? 0 : 1)) * 8;
	t->out.bytes += touched;
	/* Slots of several forms lie over each other: what the largest of them touched. */
	t->reach = touched > t->reach ? touched : t->reach;
	if (t->out.coverage_bytes < t->reach)
		t->out.coverage_bytes = t->reach;
	p2s_trial_judged(t, &j);
	return again;
}
