/* Every address that idle GPUs can spare: all their free memory but a rest is held in blocks at once, so that no two of them
 * are one place. All blocks are written through the window before the first is looked at by its owner: an address bit that is lost
 * anywhere shows bytes of another block. Then the accessor reads all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs.h"

#define BLOCK (256 * P2S_MIB)
#define BLOCK_SMALL (32 * P2S_MIB) /* where less than SMALL can be held */
#define SMALL (2048 * P2S_MIB)
#define BLOCKS_MAX 1000 /* their ids, and one epoch each */
#define PART_NS (250 * P2S_MS) /* of one move: blocks are large, links may be narrow, and an engine has 2 s */
#define REST (2048 * P2S_MIB)
#define REST_PART 10 /* or a tenth of the memory, if that is more */
#define CONTEXTS (2048 * P2S_MIB) /* what contexts of this test take besides buffers, at most */

struct held {
	uint32_t blocks;
	int m;           /* the mapping they are made for */
	const char *why; /* none; or why there are no more */
};

struct sweep {
	uint64_t block; /* bytes of each */
	struct held gpu[P2S_MAX_GPUS];
};

static struct sweep *sweep_of; /* one run per process, one sweep at a time */

static uint64_t rest(const struct p2s_run *run, uint32_t g)
{
	uint64_t part = run->gpu[g].info[P2S_CHAN_GPU].memory_bytes / REST_PART;

	return part > REST ? part : REST;
}

static uint64_t free_now(struct p2s_run *run, uint32_t g)
{
	struct p2s_op_request req = {.op = P2S_OP_MEM_INFO};
	struct p2s_op_answer answer;

	return p2s_chan_call(run, &run->gpu[g].chan[P2S_CHAN_GPU], &req, &answer) == P2S_RC_OK ? answer.value : 0;
}

/* Why all memory of a GPU must not be taken: somebody may need it. NULL if nobody is there; unread is no "nobody". */
static const char *in_use(const struct p2s_run *run, uint32_t g)
{
	const struct p2s_device *d = &run->gpu[g];
	const struct p2s_op_device *info = &d->info[P2S_CHAN_GPU];

	if (d->fact[P2S_GPU_FACT_BUSY_PROCESS] == P2S_UNREAD || d->fact[P2S_GPU_FACT_OTHER_PROCESS] == P2S_UNREAD)
		return "not known whether other programs use a GPU of this pair";
	if (d->fact[P2S_GPU_FACT_BUSY_PROCESS] != P2S_NO || d->fact[P2S_GPU_FACT_OTHER_PROCESS] != P2S_NO)
		return "another program uses a GPU of this pair";
	if (info->free_bytes > info->memory_bytes || info->memory_bytes - info->free_bytes > rest(run, g))
		return "much memory of a GPU of this pair is in use";
	return NULL;
}

/* Since the run began only its own buffers and contexts may have been added. */
static int grew(const struct p2s_run *run, uint32_t g, uint64_t now)
{
	const struct p2s_device *d = &run->gpu[g];
	uint64_t own = CONTEXTS;

	for (uint32_t n = P2S_B_CUMEM; n <= P2S_B_PEER; n++)
		own += d->handle_bytes[n];
	return now + own < d->info[P2S_CHAN_GPU].free_bytes;
}

static void hold(struct p2s_run *run, uint32_t g, int kind)
{
	struct p2s_device *d = &run->gpu[g];
	struct held *h = &sweep_of->gpu[g];
	uint64_t room = 0;

	if (kind != P2S_CHAN_GPU)
		return;
	h->m = d->mapping_ready[P2S_M_CUMEM] ? P2S_M_CUMEM : P2S_M_IPC;
	h->why = d->mapping_ready[h->m] ? in_use(run, g) : "no mapping between processes";
	if (h->why == NULL) {
		uint64_t now = free_now(run, g);

		room = now > rest(run, g) ? now - rest(run, g) : 0;
		if (grew(run, g, now))
			h->why = "another program took memory of a GPU of this pair meanwhile";
	}
	if (h->why != NULL)
		return;
	h->why = "little memory of a GPU of this pair is free";
	while (h->blocks < BLOCKS_MAX && room >= sweep_of->block) {
		struct p2s_op_request req = {.op = P2S_OP_ALLOC,
		                             .buf = P2S_BUF(g, P2S_B_SWEEP + h->blocks),
		                             .len = sweep_of->block,
		                             .mode = h->m == P2S_M_CUMEM ? P2S_ALLOC_CUMEM : P2S_ALLOC_PLAIN,
		                             .timeout_ns = 5 * P2S_SEC};
		struct p2s_op_answer answer;

		if (!p2s_run_may_start(run))
			break;
		if (p2s_chan_call(run, &d->chan[P2S_CHAN_GPU], &req, &answer) != P2S_RC_OK) {
			if (answer.rc == P2S_RC_STUCK)
				p2s_run_own_failed(run, &d->chan[P2S_CHAN_GPU], &answer);
			break; /* no more memory, as a rule */
		}
		h->blocks++;
		room -= sweep_of->block;
	}
}

static void let_go(struct p2s_run *run, uint32_t g, int kind)
{
	struct held *h = &sweep_of->gpu[g];

	for (; kind == P2S_CHAN_GPU && h->blocks > 0; h->blocks--)
		p2s_chan_release(run, &run->gpu[g].chan[P2S_CHAN_GPU], P2S_BUF(g, P2S_B_SWEEP + h->blocks - 1));
}

static uint64_t block_bytes(const struct p2s_run *run)
{
	uint64_t most = 0;
	uint64_t block = BLOCK;

	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint64_t bytes = run->gpu[run->tested[i]].info[P2S_CHAN_GPU].free_bytes;

		most = bytes > most ? bytes : most;
	}
	if (most < SMALL)
		block = BLOCK_SMALL;
	while (most / block >= BLOCKS_MAX)
		block *= 2;
	return block;
}

/* ---- one direction ---- */

struct walk {
	struct p2s_trial t;
	struct p2s_lane lane;
	uint32_t blocks; /* as many as are tried */
	uint32_t moved;  /* as many as the last pass got through */
	uint64_t part;   /* of a block, for the next move */
};

static uint64_t seed_of(const struct p2s_trial *t, uint32_t k)
{
	return p2s_seed(t->key, t->lane->a, t->lane->b, P2PSAFE_LEG_SWEEP, k + 1);
}

/* Block k becomes the window. Returns 1 if it is mapped. 0: no more than that can be mapped or the trial is over. */
static int turn_to(struct walk *w, uint32_t k)
{
	struct p2s_op_answer answer;
	struct p2s_chan *who;

	w->lane.win_own = P2S_BUF(w->lane.b, P2S_B_SWEEP + k);
	if (w->t.over || !p2s_run_may_start(w->lane.run))
		return 0;
	who = p2s_lane_take(&w->lane, sweep_of->block, &answer);
	if (who == NULL)
		return 1;
	/* An aperture or memory that is used up is no fault of the pair: the rest is not covered. */
	if (!p2s_no_room(&answer))
		p2s_trial_fail(&w->t, who, &answer);
	return 0;
}

/* A whole block. Returns 1 if all of it was moved; 0 also when there is no time for more. */
static int move_block(struct walk *w, enum p2s_engine by, uint64_t seed)
{
	const uint64_t len = sweep_of->block;

	for (uint64_t off = 0; off < len;) {
		uint64_t n = w->part < len - off ? w->part : len - off;

		if ((off > 0 && !p2s_run_may_start(w->lane.run)) || !p2s_step_move(&w->t, by, off, n, seed))
			return 0;
		w->part = p2s_trial_bytes(&w->t, n, PART_NS, len);
		off += n;
	}
	return 1;
}

/* All blocks through the window, by stores or copies of the accessor. */
static void write_all(struct walk *w, enum p2s_engine by)
{
	const uint64_t len = sweep_of->block;
	uint32_t k;

	w->part = P2S_MIB;
	for (k = 0; k < w->blocks && turn_to(w, k); k++) {
		uint64_t seed = seed_of(&w->t, k);
		int ok = (by == P2S_BY_STORE || p2s_step_fill(&w->t, w->lane.acc, w->lane.loc_acc, 0, len, seed)) &&
		         move_block(w, by, seed);

		p2s_chan_release(w->lane.run, w->lane.acc, w->lane.win_acc);
		if (!ok)
			break;
	}
	w->moved = k;
}

/* A word of another block in this one: the two are one place, seen from there. */
static void name_other_block(struct p2s_trial *t, uint32_t k)
{
	struct p2s_tag tag;

	if (t->out.verdict != P2PSAFE_VERDICT_CORRUPT || !t->out.has_detail ||
	    !p2s_word_decode(t->out.found, t->key, sweep_of->block / 8, t->lane->run->n, &tag) || tag.leg != P2PSAFE_LEG_SWEEP ||
	    tag.src != t->lane->a || tag.dst != t->lane->b || tag.epoch == k + 1 || tag.epoch == 0)
		return;
	t->out.damage = P2PSAFE_DAMAGE_ALIASED;
	snprintf(t->out.note, sizeof t->out.note, "bytes meant for block %u of the sweep lie in block %u", tag.epoch - 1, k);
}

static void check_all(struct walk *w)
{
	for (uint32_t k = 0; k < w->moved && !w->t.over; k++) {
		struct p2s_expect e;

		w->lane.win_own = P2S_BUF(w->lane.b, P2S_B_SWEEP + k);
		p2s_trial_expect(&w->t, seed_of(&w->t, k), 0, sweep_of->block, 1, &e);
		if (!p2s_step_check(&w->t, w->lane.own, w->lane.win_own, 0, sweep_of->block, &e))
			name_other_block(&w->t, k);
	}
}

static void read_all(struct walk *w, enum p2s_engine by)
{
	const uint64_t len = sweep_of->block;
	uint32_t k;

	w->part = P2S_MIB;
	for (k = 0; k < w->moved && turn_to(w, k); k++) {
		struct p2s_expect e;
		int ok = p2s_step_fill(&w->t, w->lane.acc, w->lane.loc_acc, 0, len, w->t.poison) &&
		         move_block(w, by, 0);

		p2s_chan_release(w->lane.run, w->lane.acc, w->lane.win_acc);
		p2s_trial_expect(&w->t, seed_of(&w->t, k), 0, len, 1, &e);
		if (!ok || !p2s_step_check(&w->t, w->lane.acc, w->lane.loc_acc, 0, len, &e)) {
			name_other_block(&w->t, k);
			break;
		}
	}
	w->moved = k;
}

static void poison_all(struct walk *w)
{
	for (uint32_t k = 0; k < w->blocks; k++)
		if (!p2s_step_fill(&w->t, w->lane.own, P2S_BUF(w->lane.b, P2S_B_SWEEP + k), 0, sweep_of->block, w->t.poison))
			return;
}

static void sweep_way(struct p2s_run *run, uint32_t a, uint32_t b)
{
	static const enum p2s_engine engines[][2] = {{P2S_BY_STORE, P2S_BY_LOAD}, {P2S_BY_CE_WRITE, P2S_BY_CE_READ}};
	static const struct p2s_judgement none = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "no block could be mapped"};
	const struct held *h = &sweep_of->gpu[b];
	struct walk w;
	uint32_t done[2] = {0};

	memset(&w, 0, sizeof w);
	if (!p2s_lane_open(run, a, b, h->m, &w.lane))
		return;
	w.lane.win_acc = P2S_BUF(b, P2S_B_IN_SWEEP);
	w.lane.loc_acc = P2S_BUF(a, P2S_B_SWEEP);
	w.lane.bytes = sweep_of->block;
	w.blocks = h->blocks;
	p2s_trial_begin(&w.t, &w.lane, P2PSAFE_LEG_SWEEP);
	w.t.out.coverage_of_bytes = run->gpu[b].info[P2S_CHAN_GPU].memory_bytes;
	for (size_t i = 0; i < sizeof engines / sizeof engines[0] && !w.t.over; i++) {
		p2s_trial_rekey(&w.t);
		poison_all(&w);
		write_all(&w, engines[i][0]);
		check_all(&w);
		read_all(&w, engines[i][1]);
		done[i] = w.moved;
	}
	if (done[0] == 0)
		p2s_trial_judged(&w.t, &none);
	else if (!w.t.over && (done[0] < w.blocks || done[1] < w.blocks))
		snprintf(w.t.out.note, sizeof w.t.out.note, "%u of %u blocks, %u by copies: no time or room for more", done[0],
		         w.blocks, done[1]);
	w.t.out.coverage_bytes = done[0] * sweep_of->block;
	p2s_trial_end(&w.t);
}

static void sweep_pair(struct p2s_run *run, uint32_t a, uint32_t b)
{
	/* Asked before either way runs: what one way does wrong does not hide the other. */
	int may[2] = {p2s_run_may_test(run, a, b), p2s_run_may_test(run, b, a)};

	for (int back = 0; back < 2; back++) {
		uint32_t src = back ? b : a;
		uint32_t dst = back ? a : b;
		const struct held *mine = &sweep_of->gpu[src];
		const struct held *theirs = &sweep_of->gpu[dst];
		const struct p2s_way *way = p2s_run_way(run, src, dst);

		if (!may[back] || way->map[theirs->m] != P2S_MAP_READY)
			continue;
		if (mine->blocks == 0 || theirs->blocks == 0)
			p2s_legs_untested(run, src, dst, theirs->m, P2PSAFE_LEG_SWEEP, P2PSAFE_VERDICT_UNTESTED, 0,
			                  theirs->blocks == 0 ? theirs->why : mine->why);
		else if (way->verdict[P2PSAFE_LEG_SM_STORE][theirs->m] == P2PSAFE_VERDICT_OK &&
		         way->verdict[P2PSAFE_LEG_SM_LOAD][theirs->m] == P2PSAFE_VERDICT_OK)
			sweep_way(run, src, dst);
	}
	p2s_link_progress(run);
}

static int any_pair(struct p2s_run *run)
{
	for (uint32_t i = 0; i < run->tested_count; i++)
		for (uint32_t j = 0; j < run->tested_count; j++)
			if (i != j && p2s_run_may_test(run, run->tested[i], run->tested[j]))
				return 1;
	return 0;
}

void p2s_sweep_run(struct p2s_run *run)
{
	static struct sweep s;

	if (!any_pair(run))
		return;
	memset(&s, 0, sizeof s);
	s.block = block_bytes(run);
	sweep_of = &s;
	p2s_run_each(run, 1, hold);
	p2s_run_rounds(run, sweep_pair);
	p2s_run_each(run, 1, let_go);
}
