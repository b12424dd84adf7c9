/* Memory that is unmapped, freed, allocated again and mapped again: whoever keeps a translation or a line of what was there
 * before shows it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/word.h"
#include "helper/legs.h"

#define AGAIN_BYTES (2 * P2S_MIB)
#define MOVED P2S_MIB
#define CU_OUT_OF_MEMORY 2
#define CU_MAP_FAILED 205

struct handle {
	int made;
	int taken;
};

int p2s_no_room(const struct p2s_op_answer *answer)
{
	return answer->rc == P2S_RC_ERROR && (answer->cuda_error == CU_OUT_OF_MEMORY || answer->cuda_error == CU_MAP_FAILED);
}

struct p2s_chan *p2s_lane_take(const struct p2s_lane *lane, uint64_t len, struct p2s_op_answer *answer)
{
	struct p2s_op_request export = {
		.op = P2S_OP_EXPORT, .buf = lane->win_own, .mode = (uint32_t)p2s_mapping_word[lane->m]};
	struct p2s_op_request import = {.op = P2S_OP_IMPORT, .buf = lane->win_acc, .mode = export.mode, .len = len};
	int fd = -1;

	p2s_chan_post(lane->run, lane->own, &export, -1);
	if (p2s_chan_wait(lane->run, lane->own, answer, &fd) != P2S_RC_OK)
		return lane->own;
	import.handle_len = answer->handle_len;
	memcpy(import.handle, answer->handle, sizeof import.handle);
	p2s_chan_post(lane->run, lane->acc, &import, fd);
	p2s_chan_wait(lane->run, lane->acc, answer, NULL);
	if (fd >= 0)
		close(fd);
	return answer->rc == P2S_RC_OK ? NULL : lane->acc;
}

void p2s_chan_release(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf)
{
	struct p2s_op_request req = {.op = P2S_OP_RELEASE, .buf = buf};
	struct p2s_op_answer answer;

	if (!atomic_load(&chan->dead))
		p2s_chan_call(run, chan, &req, &answer);
}

/* As p2s_chan_release; memory that was not given back is not made anew by the next cycle. */
static void give_back(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf)
{
	struct p2s_op_request req = {.op = P2S_OP_RELEASE, .buf = buf};
	struct p2s_op_answer answer;

	if (!atomic_load(&chan->dead) && p2s_chan_call(t->lane->run, chan, &req, &answer) != P2S_RC_OK)
		p2s_trial_fail(t, chan, &answer);
}

/* Allocates at the owner and maps at the accessor. Returns 1, or 0 with the trial over. */
static int make(struct p2s_trial *t, struct p2s_lane *lane, struct handle *h)
{
	struct p2s_run *run = lane->run;
	struct p2s_op_request alloc = {.op = P2S_OP_ALLOC,
	                               .buf = lane->win_own,
	                               .len = AGAIN_BYTES,
	                               .mode = lane->m == P2S_M_CUMEM ? P2S_ALLOC_CUMEM : P2S_ALLOC_PLAIN};
	static const struct p2s_judgement full = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "no memory for a handle of its own"};
	struct p2s_op_answer answer;
	struct p2s_chan *who;

	if (p2s_chan_call(run, lane->own, &alloc, &answer) != P2S_RC_OK)
		return p2s_no_room(&answer) ? p2s_trial_judged(t, &full) : p2s_trial_fail(t, lane->own, &answer);
	h->made = 1;
	if (lane->m == P2S_M_PEER)
		return 1;
	who = p2s_lane_take(lane, answer.value, &answer);
	if (who != NULL)
		return p2s_no_room(&answer) ? p2s_trial_judged(t, &full) : p2s_trial_fail(t, who, &answer);
	h->taken = 1;
	return 1;
}

int p2s_step_again(struct p2s_trial *t)
{
	static const enum p2s_engine engines[] = {P2S_BY_STORE, P2S_BY_LOAD, P2S_BY_CE_WRITE, P2S_BY_CE_READ};
	const size_t first = t->lane->kernels ? 0 : 2;
	const struct p2s_lane *whole = t->lane;
	struct p2s_lane lane = *whole;
	/* The second handle is the one that gets what the first gave back. */
	const int cycles = 2;

	lane.win_own = P2S_BUF(lane.b, P2S_B_AGAIN);
	lane.win_acc = lane.m == P2S_M_PEER ? lane.win_own : P2S_BUF(lane.b, P2S_B_IN_AGAIN);
	lane.bytes = AGAIN_BYTES;
	if (lane.own == lane.acc)
		return 1;
	t->lane = &lane;
	for (int cycle = 0; cycle < cycles && !t->over; cycle++) {
		struct handle h = {0};

		if (make(t, &lane, &h))
			for (size_t i = first; i < sizeof engines / sizeof engines[0]; i++)
				if (!p2s_step_transfer(t, engines[i], 0, MOVED, 0, MOVED, i == first))
					break;
		if (h.taken)
			give_back(t, lane.acc, lane.win_acc);
		if (h.made)
			give_back(t, lane.own, lane.win_own);
	}
	t->lane = whole;
	return !t->over;
}
