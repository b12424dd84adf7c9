/* GPUs and workers that ended before they were told to, or were silent when the deadline came. In the middle of a leg that is the
 * leg's verdict, and what could not run any more is untested. But where no leg runs (host memory is shared, a host link is measured,
 * memory is held, nothing is asked at all) a pair may have passed everything that it needs, by a GPU and a driver that did not live
 * to the end of the test. */
#include <stdio.h>

#include "helper/legs.h"

#define LATE_NS (100 * P2S_MS) /* what is left behind it is for the workers to end and for the last message */

/* Has the pair passed over this mapping what every consumer asks for? Else nobody would take it for OK. */
static int passed(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);

	return !atomic_load(&way->bad) && way->verdict[P2PSAFE_LEG_STALE][m] == P2PSAFE_VERDICT_OK;
}

/* The last leg that a test runs is the one that is taken back. Of a GPU that was asked and had not answered when the deadline came
 * nobody knows more: then it is the one that all consumers need, which nobody passes without. */
static void take_back(struct p2s_run *run, uint32_t a, uint32_t b, int m, const struct p2s_chan *chan)
{
	int end = atomic_load(&chan->end);
	struct p2s_lib_leg out = {.src = a,
	                          .dst = b,
	                          .leg = end == P2S_END_LATE ? P2PSAFE_LEG_STALE : P2PSAFE_LEG_LOAD,
	                          .mapping = p2s_mapping_word[m],
	                          .initiator = a,
	                          .verdict = end == P2S_END_LATE    ? P2PSAFE_VERDICT_UNTESTED
	                                     : end == P2S_END_STUCK ? P2PSAFE_VERDICT_HANG
	                                                            : P2PSAFE_VERDICT_ERROR};

	if (!passed(run, a, b, m))
		return;
	if (end == P2S_END_LATE)
		snprintf(out.note, sizeof out.note, "GPU %s had not answered when the deadline came", run->gpu[chan->gpu].address);
	else
		snprintf(out.note, sizeof out.note, "%s", chan->why);
	p2s_link_leg(run, &out);
}

/* All pairs of a GPU over the mappings that the worker served. The process that works on one GPU alone speaks for it however a pair
 * was reached, unless it ended in the middle of a leg with another; and so does an engine that may hang, as one that does. */
static void pairs_of(struct p2s_run *run, const struct p2s_chan *chan, int kind, int in_leg)
{
	int all = atomic_load(&chan->end) == P2S_END_LATE;

	for (uint32_t i = 0; i < run->tested_count; i++) {
		uint32_t o = run->tested[i];

		for (int m = 0; m < P2S_M_COUNT && o != chan->gpu; m++) {
			if (!all && (kind == P2S_CHAN_PEER ? m != P2S_M_PEER : in_leg && m == P2S_M_PEER))
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
	int end;

	p2s_chan_look(run, chan);
	end = atomic_load(&chan->end);
	pthread_mutex_lock(&run->table_lock);
	state = run->gpu[g].state;
	pthread_mutex_unlock(&run->table_lock);
	if (state == P2PSAFE_GPU_STATE_WEDGED) /* it takes its pairs along; its worker was killed */
		return;
	if (end == P2S_END_LATE || (end != P2S_END_NONE && !(in_leg && kind == P2S_CHAN_PEER)))
		pairs_of(run, chan, kind, in_leg);
}

/* Memory of its own that the GPU has to the end. 0: none; then nothing passed by this worker. */
static uint32_t memory_of(const struct p2s_device *d, uint32_t gpu, int kind)
{
	uint32_t number = kind == P2S_CHAN_PEER ? P2S_B_PEER : d->bytes[P2S_B_PLAIN] != 0 ? P2S_B_PLAIN : P2S_B_CUMEM;

	return d->bytes[number] != 0 ? P2S_BUF(gpu, number) : 0;
}

/* Posts a look at some bytes of its own memory. Returns 0 if nothing is to be asked: what ended this GPU is known. */
static int ask(struct p2s_run *run, uint32_t g, int kind)
{
	struct p2s_device *d = &run->gpu[g];
	struct p2s_op_request req = {
		.op = P2S_OP_PEEK, .buf = memory_of(d, g, kind), .len = 64, .timeout_ns = p2s_run_engine_ns(run, P2S_SEC)};
	int32_t state;

	pthread_mutex_lock(&run->table_lock);
	state = d->state;
	pthread_mutex_unlock(&run->table_lock);
	if (state > P2PSAFE_GPU_STATE_READY || !d->inited[kind] || req.buf == 0 || atomic_load(&d->chan[kind].dead))
		return 0;
	p2s_chan_post(run, &d->chan[kind], &req, -1);
	return 1;
}

static void take_answer(struct p2s_run *run, uint32_t g, int kind)
{
	struct p2s_chan *chan = &run->gpu[g].chan[kind];
	struct p2s_op_answer answer;

	if (p2s_chan_wait(run, chan, &answer, NULL) == P2S_RC_OK)
		return;
	p2s_run_own_failed(run, chan, &answer);
	if (answer.rc == P2S_RC_STUCK)
		atomic_store(&chan->told, 1); /* by the GPU's state: who shared the worker that was killed did nothing wrong */
	if (atomic_load(&chan->dead) && atomic_load(&chan->end) == P2S_END_NONE)
		atomic_store(&chan->end, P2S_END_DIED);
}

/* An answer that nobody took for a leg's (a GPU is made ready to be measured, a judged leg is looked at more closely) may have
 * been the last one of its GPU, which nothing touches any more from there on. So each is asked once more: all at once, as little
 * time may be left, and none when the time is over, for then nothing more can be learnt. */
static void ask_all(struct p2s_run *run)
{
	int posted[P2S_CHAN_KINDS][P2S_MAX_GPUS] = {{0}};

	if (p2s_now_ns() >= run->last_ns)
		return;
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++)
		for (uint32_t i = 0; i < run->tested_count; i++)
			posted[kind][i] = ask(run, run->tested[i], kind);
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++)
		for (uint32_t i = 0; i < run->tested_count; i++)
			if (posted[kind][i])
				take_answer(run, run->tested[i], kind);
}

/* The deadline falls in the middle of something on a healthy machine, too, which is done a moment later; an engine that hangs does
 * not come back. */
static void wait_for_late(struct p2s_run *run)
{
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++) {
		for (uint32_t i = 0; i < run->tested_count; i++) {
			struct p2s_chan *chan = &run->gpu[run->tested[i]].chan[kind];

			if (atomic_load(&chan->end) == P2S_END_LATE && p2s_chan_caught_up(chan, run->last_ns + LATE_NS))
				atomic_store(&chan->end, P2S_END_NONE);
		}
	}
}

void p2s_dead_tell(struct p2s_run *run)
{
	ask_all(run);
	wait_for_late(run);
	run->cycle = 0; /* what is told now is no repetition, which would take nothing back */
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++)
		for (uint32_t i = 0; i < run->tested_count; i++)
			if (run->gpu[run->tested[i]].inited[kind])
				look(run, run->tested[i], kind);
}
