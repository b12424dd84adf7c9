/* Legs whose kernels on two GPUs wait for each other: message passing, tearing, copy then flag, atomics. Both kernels are
 * resident before either may start; a direction that is alone has an idle role on the other side. */
#include <stdio.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs.h"

#define SLOT_BYTES 4096u
#define FLAG_OFF 2048u
#define MESSAGE_WORDS 128u /* 1 KiB of payload */
#define PACE_NS 2000       /* so that the reader is waiting when a message comes, not behind it */
#define TEAR_WORDS 64u
#define KERNELS_ALL 3u /* both roles of a grid report ready */

/* Simulated GPUs are threads: their message passing takes a thousand times longer and proves nothing about rates. */
static int is_slow(const struct p2s_run *run)
{
	return run->ask.host_dir[0] != '\0';
}

/* Up to two directions of one leg, whose kernels run together. trial[i] and lane[i] for i = 0: a>b, 1: b>a. */
struct both {
	struct p2s_lane lane[2];
	struct p2s_trial trial[2];
	uint64_t seed[2];
	unsigned dirs;
	struct p2s_duo duo; /* chan[0] is a's, chan[1] is b's */
};

static int open_both(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int32_t leg, struct both *x)
{
	memset(x, 0, sizeof *x);
	x->dirs = dirs;
	for (int i = 0; i < 2; i++) {
		int open = p2s_lane_open(run, i == 0 ? a : b, i == 0 ? b : a, m, &x->lane[i]);

		if (!open)
			x->dirs &= ~(1u << i);
		p2s_trial_begin(&x->trial[i], &x->lane[i], leg);
		x->seed[i] = p2s_seed(x->trial[i].key, x->lane[i].a, x->lane[i].b, (uint32_t)leg, 0);
	}
	x->duo.count = 2;
	for (int i = 0; i < 2; i++) {
		x->duo.chan[i] = x->lane[i].acc;
		x->duo.mask[i] = KERNELS_ALL;
		x->duo.req[i].timeout_ns = p2s_run_engine_ns(run, P2S_WAIT_NS);
		x->duo.req[i].max_ns = P2S_WAIT_NS;
	}
	return x->dirs != 0 && p2s_lane_alive(&x->lane[0]);
}

/* The windows of all directions poisoned by their owners, both at once. */
static int poison_both(struct both *x, uint64_t len)
{
	int ok = 1;

	for (int i = 0; i < 2; i++)
		if (x->dirs & 1u << i)
			ok &= p2s_step_fill(&x->trial[i], x->lane[i].own, x->lane[i].win_own, 0, len, x->trial[i].poison);
	return ok;
}

/* Returns 1 if all directions were OK. */
static int end_both(struct both *x)
{
	int ok = 1;

	for (int i = 0; i < 2; i++)
		if (x->dirs & 1u << i)
			ok &= p2s_trial_end(&x->trial[i]);
	return ok;
}

/* After a run of kernels: engines that did not come back, errors. Returns 1 if both answers are there. */
static int settle(struct both *x, int resident)
{
	int ok = 1;

	for (int side = 0; side < 2; side++) {
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

			p2s_trial_judged(&x->trial[i], &j);
		}
	}
	return ok && resident;
}

/* After a reader gave up: does the memory itself hold the round? -1: not known. */
static int owner_holds(const struct both *x, int i, const struct p2s_mp_shape *shape, uint64_t round)
{
	const struct p2s_lane *lane = &x->lane[i];
	uint64_t at = round * shape->slot_bytes;
	uint64_t seed = p2s_seed_epoch(x->seed[i], round + 1);
	struct p2s_op_request payload = {.op = P2S_OP_CHECK,
	                                 .buf = lane->win_own,
	                                 .off = at,
	                                 .len = shape->words * 8,
	                                 .in_off = at,
	                                 .in_len = shape->words * 8,
	                                 .seed = seed,
	                                 .seed2 = seed};
	struct p2s_op_request flag = {.op = P2S_OP_CHECK,
	                              .buf = lane->win_own,
	                              .off = at + shape->flag_off,
	                              .len = 8,
	                              .in_off = at + shape->flag_off,
	                              .in_len = 8,
	                              .seed = seed,
	                              .seed2 = seed};
	struct p2s_op_answer answer;
	uint64_t bad;

	if (p2s_chan_call(lane->run, lane->own, &payload, &answer) != P2S_RC_OK)
		return -1;
	bad = answer.bad_words;
	if (p2s_chan_call(lane->run, lane->own, &flag, &answer) != P2S_RC_OK)
		return -1;
	return bad + answer.bad_words == 0;
}

static void judge_reader(struct both *x, int i, struct p2s_mp_shape *shape, const struct p2s_op_answer *reader_answer,
                         const struct p2s_op_answer *writer_answer)
{
	struct p2s_trial *t = &x->trial[i];
	struct p2s_role_result reader, writer;
	struct p2s_judgement j;
	struct p2s_expect e;

	p2s_duo_role(reader_answer, 1, &reader);
	if (writer_answer != NULL)
		p2s_duo_role(writer_answer, 0, &writer);
	p2s_trial_expect(t, x->seed[i], 0, shape->rounds * shape->slot_bytes, 1, &e);
	shape->owner_good = -1;
	if (reader.status == P2S_ROLE_TIMEOUT && reader.bad_words == 0)
		shape->owner_good = owner_holds(x, i, shape, reader.rounds_done);
	p2s_judge_mp(&e, shape, writer_answer != NULL ? &writer : NULL, &reader, &j);
	t->out.rounds = reader.rounds_done;
	t->out.bytes = reader.rounds_done * (shape->words + 1) * 8;
	t->out.coverage_bytes = reader.rounds_done * shape->slot_bytes;
	p2s_trial_judged(t, &j);
}

int p2s_leg_message(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int pull, uint32_t rounds, int quiet)
{
	int32_t leg = pull ? P2PSAFE_LEG_MP_PULL : P2PSAFE_LEG_MP_PUSH;
	struct p2s_mp_shape shape = {
		.rounds = rounds, .words = MESSAGE_WORDS, .slot_bytes = SLOT_BYTES, .flag_off = FLAG_OFF, .pull = pull};
	struct both x;

	if (!open_both(run, a, b, m, dirs, leg, &x))
		return 0;
	for (int i = 0; i < 2; i++) {
		struct p2s_op_request *req = &x.duo.req[i];

		req->op = P2S_OP_MP;
		req->rounds = rounds;
		req->words = MESSAGE_WORDS;
		x.trial[i].quiet = quiet;
		req->slot_bytes = SLOT_BYTES;
		req->flag_off = FLAG_OFF;
		req->idiom = 3;
		if (rounds == 1) {
			req->max_ns = P2S_FIRST_NS;
			req->timeout_ns = p2s_run_engine_ns(run, P2S_FIRST_NS);
		}
		req->pace_ns = PACE_NS;
	}
	for (int i = 0; i < 2; i++) {
		/* Push: the accessor writes into the owner's window, the owner polls its own memory. Pull: the owner writes locally,
		 * the accessor polls through the window. */
		struct p2s_op_request *writer = &x.duo.req[pull ? 1 - i : i];
		struct p2s_op_request *reader = &x.duo.req[pull ? i : 1 - i];

		if (!(x.dirs & 1u << i))
			continue;
		writer->buf = pull ? x.lane[i].win_own : x.lane[i].win_acc;
		writer->seed = x.seed[i];
		reader->buf2 = pull ? x.lane[i].win_acc : x.lane[i].win_own;
		reader->seed2 = x.seed[i];
	}
	if (poison_both(&x, (uint64_t)rounds * SLOT_BYTES) && settle(&x, p2s_duo_run(run, &x.duo))) {
		for (int i = 0; i < 2; i++)
			if (x.dirs & 1u << i)
				judge_reader(&x, i, &shape, &x.duo.answer[pull ? i : 1 - i], &x.duo.answer[pull ? 1 - i : i]);
	}
	return end_both(&x);
}

static void tear_leg(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs)
{
	uint32_t iters = run->ask.level == P2PSAFE_LEVEL_QUICK || is_slow(run) ? 500 : 2000;
	uint64_t len = (TEAR_WORDS + 1) * 8;
	struct both x;
	uint64_t seed_a, seed_b;

	if (!open_both(run, a, b, m, dirs, P2PSAFE_LEG_TEARING_8, &x))
		return;
	/* A direction whose reader saw only one of the patterns proved nothing: again, longer. */
	for (int attempt = 0; attempt < 3; attempt++, iters *= 2) {
		int powerless = 0;

		seed_a = p2s_seed(x.trial[0].key, a, b, P2PSAFE_LEG_TEARING_8, (uint32_t)(4 * attempt + 1));
		seed_b = p2s_seed(x.trial[0].key, a, b, P2PSAFE_LEG_TEARING_8, (uint32_t)(4 * attempt + 2));
		for (int i = 0; i < 2; i++) {
			struct p2s_op_request *writer = &x.duo.req[i];
			struct p2s_op_request *reader = &x.duo.req[1 - i];

			x.trial[i].poison = seed_a ^ seed_b ^ P2S_TEAR_POISON;
			x.duo.req[i].op = P2S_OP_TEAR;
			x.duo.req[i].words = TEAR_WORDS;
			x.duo.req[i].rounds = iters;
			x.duo.req[i].seed = seed_a;
			x.duo.req[i].seed2 = seed_b;
			if (!(x.dirs & 1u << i))
				continue;
			writer->buf = x.lane[i].win_acc;
			reader->buf2 = x.lane[i].win_own;
		}
		if (!poison_both(&x, len) || !settle(&x, p2s_duo_run(run, &x.duo)))
			break;
		for (int i = 0; i < 2; i++) {
			struct p2s_role_result writer, reader;
			struct p2s_judgement j;

			if (!(x.dirs & 1u << i))
				continue;
			p2s_duo_role(&x.duo.answer[i], 0, &writer);
			p2s_duo_role(&x.duo.answer[1 - i], 1, &reader);
			p2s_judge_tear(seed_a, seed_b, &writer, &reader, &j);
			x.trial[i].out.rounds += iters;
			x.trial[i].out.bytes += (uint64_t)iters * TEAR_WORDS * 8;
			x.trial[i].out.coverage_bytes = len;
			if (j.verdict == P2PSAFE_VERDICT_UNTESTED && reader.status == P2S_ROLE_DONE && attempt < 2)
				powerless = 1;
			else
				p2s_trial_judged(&x.trial[i], &j);
		}
		if (!powerless || x.trial[0].over || x.trial[1].over || !p2s_run_may_start(run))
			break;
	}
	end_both(&x);
}

/* The accessor's copy engine writes payload and then flag in stream order; a kernel of the owner waits for it. */
static void ce_flag_leg(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	uint32_t rounds = run->ask.level == P2PSAFE_LEVEL_QUICK ? 64 : 256;
	struct p2s_mp_shape shape = {.rounds = rounds, .words = MESSAGE_WORDS, .slot_bytes = SLOT_BYTES, .flag_off = FLAG_OFF};
	struct p2s_op_request slots = {
		.op = P2S_OP_FILL_SLOTS, .rounds = rounds, .words = MESSAGE_WORDS, .slot_bytes = SLOT_BYTES, .flag_off = FLAG_OFF};
	struct p2s_op_answer answer;
	struct both x;

	if (!open_both(run, a, b, m, 1, P2PSAFE_LEG_CE_FLAG, &x))
		return;
	slots.buf = x.lane[0].loc_acc;
	slots.seed = x.seed[0];
	x.duo.count = 1;
	x.duo.chan[0] = x.lane[0].own;
	x.duo.req[0].op = P2S_OP_MP;
	x.duo.req[0].rounds = rounds;
	x.duo.req[0].words = MESSAGE_WORDS;
	x.duo.req[0].slot_bytes = SLOT_BYTES;
	x.duo.req[0].flag_off = FLAG_OFF;
	x.duo.req[0].buf2 = x.lane[0].win_own;
	x.duo.req[0].seed2 = x.seed[0];
	x.duo.extra_chan = x.lane[0].acc;
	x.duo.extra = slots;
	x.duo.extra.op = P2S_OP_CE_FLAG;
	x.duo.extra.buf = x.lane[0].win_acc;
	x.duo.extra.buf2 = x.lane[0].loc_acc;
	if (!poison_both(&x, (uint64_t)rounds * SLOT_BYTES)) {
		p2s_trial_end(&x.trial[0]);
		return;
	}
	if (p2s_chan_call(run, x.lane[0].acc, &slots, &answer) != P2S_RC_OK) {
		p2s_trial_fail(&x.trial[0], x.lane[0].acc, &answer);
		p2s_trial_end(&x.trial[0]);
		return;
	}
	if (settle(&x, p2s_duo_run(run, &x.duo))) {
		if (x.duo.extra_answer.rc != P2S_RC_OK)
			p2s_trial_fail(&x.trial[0], x.lane[0].acc, &x.duo.extra_answer);
		else
			judge_reader(&x, 0, &shape, &x.duo.answer[0], NULL);
	}
	p2s_trial_end(&x.trial[0]);
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
	struct both x;

	if (p2s_run_way(run, a, b)->native_atomics == 0) {
		p2s_legs_untested(run, a, b, m, P2PSAFE_LEG_ATOMICS, P2PSAFE_VERDICT_UNSUPPORTED, 0, "no native atomics on this path");
		return 1;
	}
	if (!open_both(run, a, b, m, 1, P2PSAFE_LEG_ATOMICS, &x))
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
	if (poison_both(&x, 4096) && settle(&x, p2s_duo_run(run, &x.duo)) && peek_counters(&x.trial[0], end)) {
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
		x.trial[0].out.coverage_bytes = 16;
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

static int may_go_on(struct p2s_run *run, uint32_t a, uint32_t b)
{
	return p2s_run_may_start(run) && !atomic_load(&run->gpu[a].out) && !atomic_load(&run->gpu[b].out);
}

static void order_mapping(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs)
{
	uint32_t rounds = run->ask.level == P2PSAFE_LEVEL_QUICK ? 256 : is_slow(run) ? 512 : 2048;
	struct p2s_lane lane;
	unsigned posted;

	(void)p2s_lane_open(run, a, b, m, &lane);
	if (rounds > lane.bytes / SLOT_BYTES)
		rounds = (uint32_t)(lane.bytes / SLOT_BYTES);
	if (rounds == 0)
		return;
	p2s_leg_message(run, a, b, m, dirs, 0, rounds, 0);
	if (!p2s_run_keeps_going(run))
		dirs &= passed(run, a, b, m, P2PSAFE_LEG_MP_PUSH);
	if (dirs != 0 && may_go_on(run, a, b))
		tear_leg(run, a, b, m, dirs);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t src = i == 0 ? a : b;
		uint32_t dst = i == 0 ? b : a;

		if (!(dirs & 1u << i))
			continue;
		if (may_go_on(run, a, b))
			ce_flag_leg(run, src, dst, m);
		if (may_go_on(run, a, b))
			p2s_leg_atomics(run, src, dst, m, 64, 0);
	}
	/* Pull kernels poll through the window: only where posted messages came through. Both ways, or, when asked to keep going, a
	 * direction alone. */
	posted = passed(run, a, b, m, P2PSAFE_LEG_MP_PUSH) & passed(run, a, b, m, P2PSAFE_LEG_SM_LOAD) & dirs;
	if (may_go_on(run, a, b) && (posted == 3 || (posted != 0 && p2s_run_keeps_going(run))))
		p2s_leg_message(run, a, b, m, posted, 1, rounds, 0);
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
