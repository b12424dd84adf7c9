/* Workers that ended before they were told to. In the middle of a leg that is the leg's verdict, and what could not run any more is
 * untested. But where no leg runs (host memory is shared, a host link is measured, memory is held, nothing is asked at all) a pair
 * may have passed everything that it needs, by a GPU and a driver that did not live to the end of the test. */
#include <stdio.h>

#include "helper/legs.h"

/* Has the pair passed all its legs over this mapping? Of another one nobody would take it for OK. */
static int passed(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);
	int kind = m == P2S_M_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU;
	int kernels = run->gpu[a].info[kind].module != 0 && run->gpu[b].info[kind].module != 0;

	return !atomic_load(&way->bad) && way->verdict[P2PSAFE_LEG_SIZES][m] == P2PSAFE_VERDICT_OK &&
	       (!kernels || way->verdict[P2PSAFE_LEG_TEARING_8][m] == P2PSAFE_VERDICT_OK);
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

/* All pairs of a GPU. The process that works on it alone speaks for the GPU, however a pair was reached; the one that works on all
 * of them only for what it served. */
static void pairs_of(struct p2s_run *run, const struct p2s_chan *chan, int kind)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t o = run->tested[i];

		for (int m = 0; m < P2S_M_COUNT && o != chan->gpu; m++) {
			if (kind == P2S_CHAN_PEER && m != P2S_M_PEER)
				continue;
			take_back(run, chan->gpu, o, m, chan);
			take_back(run, o, chan->gpu, m, chan);
		}
	}
}

/* One process serves all GPUs there: has a pair been blamed for its end? */
static int blamed(struct p2s_run *run)
{
	for (size_t i = 0; i < (size_t)run->n * run->n; i++)
		for (int32_t leg = 1; leg < 16; leg++)
			if (run->way[i].verdict[leg][P2S_M_PEER] == P2PSAFE_VERDICT_ERROR ||
			    run->way[i].verdict[leg][P2S_M_PEER] == P2PSAFE_VERDICT_HANG)
				return 1;
	return 0;
}

void p2s_dead_tell(struct p2s_run *run)
{
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++) {
		int excused = kind == P2S_CHAN_PEER && blamed(run);

		for (uint32_t i = 0; i < run->tested_count; i++) {
			struct p2s_device *d = &run->gpu[run->tested[i]];
			struct p2s_chan *chan = &d->chan[kind];

			if (!d->inited[kind])
				continue;
			p2s_chan_look(run, chan);
			/* A wedged GPU takes its pairs along; its worker was killed. */
			if (!excused && d->state != P2PSAFE_GPU_STATE_WEDGED && atomic_load(&chan->end) != P2S_END_NONE)
				pairs_of(run, chan, kind);
		}
	}
}
