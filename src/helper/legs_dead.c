/* Workers that ended before they were told to. In the middle of a leg that is the leg's verdict, and what could not run any more is
 * untested. But where no leg runs (host memory is shared, a host link is measured, memory is held, nothing is asked at all) a pair
 * may have passed everything that it needs, by a GPU and a driver that did not live to the end of the test. */
#include <stdio.h>

#include "helper/legs.h"

/* Has the pair passed over this mapping what every consumer asks for? Else nobody would take it for OK. */
static int passed(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);

	return !atomic_load(&way->bad) && way->verdict[P2PSAFE_LEG_STALE][m] == P2PSAFE_VERDICT_OK;
}

/* The last leg that a test runs is the one that is taken back. */
static void take_back(struct p2s_run *run, uint32_t a, uint32_t b, int m, const struct p2s_chan *chan)
{
	struct p2s_lib_leg out = {.src = a,
	                          .dst = b,
	                          .leg = P2PSAFE_LEG_LOAD,
	                          .mapping = p2s_mapping_word[m],
	                          .initiator = a,
	                          .verdict = atomic_load(&chan->end) == P2S_END_STUCK ? P2PSAFE_VERDICT_HANG
	                                                                              : P2PSAFE_VERDICT_ERROR};

	if (!passed(run, a, b, m))
		return;
	snprintf(out.note, sizeof out.note, "%s", chan->why);
	p2s_link_leg(run, &out);
}

/* All pairs of a GPU over the mappings that the worker served. The process that works on one GPU alone speaks for it however a pair
 * was reached, unless it ended in the middle of a leg with another. */
static void pairs_of(struct p2s_run *run, const struct p2s_chan *chan, int kind, int in_leg)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t o = run->tested[i];

		for (int m = 0; m < P2S_M_COUNT && o != chan->gpu; m++) {
			if (kind == P2S_CHAN_PEER ? m != P2S_M_PEER : in_leg && m == P2S_M_PEER)
				continue;
			take_back(run, chan->gpu, o, m, chan);
			take_back(run, o, chan->gpu, m, chan);
		}
	}
}

/* Did it end in the middle of a leg, whose verdict that is? Of the one process that serves all GPUs one leg speaks for all. */
static int told(struct p2s_run *run, const struct p2s_chan *chan, int kind)
{
	int any = atomic_load(&chan->told);

	for (uint32_t i = 0; i < run->tested_count && kind == P2S_CHAN_PEER; i++)
		any |= atomic_load(&run->gpu[run->tested[i]].chan[kind].told);
	return any;
}

static void look(struct p2s_run *run, uint32_t g, int kind)
{
	struct p2s_chan *chan = &run->gpu[g].chan[kind];
	int in_leg = told(run, chan, kind);
	int32_t state;

	p2s_chan_look(run, chan);
	pthread_mutex_lock(&run->table_lock);
	state = run->gpu[g].state;
	pthread_mutex_unlock(&run->table_lock);
	if (state == P2PSAFE_GPU_STATE_WEDGED) /* it takes its pairs along; its worker was killed */
		return;
	if (atomic_load(&chan->end) != P2S_END_NONE && !(in_leg && kind == P2S_CHAN_PEER))
		pairs_of(run, chan, kind, in_leg);
}

void p2s_dead_tell(struct p2s_run *run)
{
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++)
		for (uint32_t i = 0; i < run->tested_count; i++)
			if (run->gpu[run->tested[i]].inited[kind])
				look(run, run->tested[i], kind);
}
