/* What runs on many channels at once. */
#include <stdio.h>
#include <string.h>

#include "helper/measure.h"

struct p2s_crowd_item *p2s_crowd_add(struct p2s_crowd *crowd, struct p2s_chan *chan, uint32_t op)
{
	struct p2s_crowd_item *item;

	if (crowd->count == P2S_CROWD)
		return NULL;
	item = &crowd->item[crowd->count++];
	memset(&item->req, 0, sizeof item->req);
	item->chan = chan;
	item->req.op = op;
	item->answer.rc = P2S_RC_LATE;
	return item;
}

static uint64_t patience(const struct p2s_measure *m)
{
	return m->played ? P2S_SIM_GO_NS : P2S_GO_NS;
}

int p2s_crowd_run(struct p2s_measure *m, struct p2s_crowd *crowd)
{
	uint64_t until = p2s_now_ns() + patience(m) - 500 * P2S_MS;
	uint64_t longest = 0;
	int open = 1;

	m->party++;
	for (uint32_t i = 0; i < crowd->count; i++) {
		struct p2s_crowd_item *item = &crowd->item[i];

		p2s_chan_arm(item->chan); /* also takes back an abort of before */
		/* Played engines are threads of a machine that may be busy: nothing hangs because it is slow. */
		if (m->played && item->req.timeout_ns == 0 && crowd->ready == 0)
			item->req.timeout_ns = p2s_run_engine_ns(m->run, P2S_SEC);
		if (crowd->ready == 0)
			continue;
		item->req.idiom = m->party;
		if (item->req.max_ns == 0)
			item->req.max_ns = patience(m);
		if (item->req.timeout_ns == 0)
			item->req.timeout_ns = patience(m) + p2s_run_engine_ns(m->run, P2S_WAIT_NS);
	}
	for (uint32_t i = 0; i < crowd->count; i++)
		p2s_chan_post(m->run, crowd->item[i].chan, &crowd->item[i].req, -1);
	for (uint32_t i = 0; i < crowd->count && crowd->ready != 0; i++)
		open = open && p2s_chan_ready(m->run, crowd->item[i].chan, crowd->ready, until);
	for (uint32_t i = 0; i < crowd->count && crowd->ready != 0; i++) {
		if (open)
			p2s_chan_go(crowd->item[i].chan);
		else
			p2s_chan_abort(crowd->item[i].chan);
	}
	if (open && crowd->meanwhile != NULL)
		crowd->meanwhile(m->run);
	for (uint32_t i = 0; i < crowd->count; i++) {
		struct p2s_crowd_item *item = &crowd->item[i];

		p2s_chan_wait(m->run, item->chan, &item->answer, NULL);
		if (item->answer.device_ns > longest)
			longest = item->answer.device_ns;
	}
	m->model_ns += longest;
	return open;
}

int p2s_measure_may(struct p2s_measure *m)
{
	uint64_t now = p2s_now_ns();

	return now < m->end_ns && now < m->part_ns && p2s_run_may_start(m->run);
}

void p2s_measure_tell(struct p2s_measure *m, uint32_t src, uint32_t dst, int32_t kind, uint64_t value, uint64_t bytes)
{
	struct p2s_lib_measure out = {.src = src, .dst = dst, .kind = kind, .value = value, .bytes = bytes};

	if (value != 0)
		p2s_link_send(m->run, p2s_id_lib_measure, &out, -1);
}

void p2s_measure_init(struct p2s_measure *m, int kind)
{
	static struct p2s_crowd crowd;

	crowd.count = crowd.ready = 0;
	for (uint32_t i = 0; i < m->n; i++) {
		struct p2s_device *d = &m->run->gpu[m->gpu[i]];
		struct p2s_crowd_item *item;

		if (!d->inited[kind] || atomic_load(&d->chan[kind].dead))
			continue;
		item = p2s_crowd_add(&crowd, &d->chan[kind], P2S_OP_SPEED_INIT);
		/* Where the driver compiles, the second module takes what the first one took, or a few times as long when all compile at
		 * once on few CPUs. A worker that is slow at that hangs no more than it did before, when it had most of the run for it. */
		item->req.timeout_ns = p2s_run_engine_ns(m->run, P2S_SEC) + 4 * d->info[kind].module_ns;
	}
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < crowd.count; i++) {
		const struct p2s_op_answer *a = &crowd.item[i].answer;
		struct p2s_lib_gpu_fact out = {.gpu = crowd.item[i].chan->gpu, .which = P2S_GPU_FACT_HOST_NODE, .value = a->value - 1};

		m->inited[kind][out.gpu] = a->rc == P2S_RC_OK;
		/* Not measured is no harm; a lost device is. */
		if (a->rc != P2S_RC_OK && p2s_run_is_lost(a->cuda_error))
			p2s_run_link_failed(m->run, crowd.item[i].chan, 0, a);
		if (a->rc == P2S_RC_OK && kind == P2S_CHAN_GPU)
			p2s_link_send(m->run, p2s_id_lib_gpu_fact, &out, -1);
	}
}

struct p2s_mlane *p2s_measure_lane(struct p2s_measure *m, uint32_t from, uint32_t to)
{
	struct p2s_mlane *l = &m->lanes[(size_t)from * m->n + to];

	return from != to && l->ok && p2s_lane_alive(&l->lane) ? l : NULL;
}

void p2s_measure_spoilt(struct p2s_mlane *l)
{
	if (!l->ok)
		return;
	l->ok = 0;
	/* Too little time, or a request refused, says nothing about the pair. */
	if (l->trial.out.verdict != P2PSAFE_VERDICT_UNTESTED && l->trial.out.verdict != P2PSAFE_VERDICT_UNSUPPORTED)
		p2s_trial_end(&l->trial);
}
