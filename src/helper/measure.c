/* The order of the measuring: host links, then rounds of disjoint pairs, then all to one. How it is measured: measure.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helper/measure.h"
#include "helper/schedule.h"

/* What the measuring may take in all: this, so much more per round, and never more than half of what is left of the run. What is
 * left when a round begins is split evenly, so that slow pairs take no numbers from those that come later. */
#define BASE_NS P2S_SEC
#define ROUND_NS (1500 * P2S_MS)
/* Getting the one process of all GPUs ready takes as long as the slowest of the others took, for each GPU: where a driver
 * compiles the kernels that is too much of the above for a second look at one number. */
#define INSIDE_NS (500 * P2S_MS)

/* The legs that one mapping must have passed: those of every consumer that moves bulk data, and the engines that are timed. */
static const int32_t needed[] = {P2PSAFE_LEG_SM_STORE, P2PSAFE_LEG_SM_LOAD, P2PSAFE_LEG_CE_WRITE,
								 P2PSAFE_LEG_CE_READ,  P2PSAFE_LEG_SIZES,   P2PSAFE_LEG_STALE,
								 P2PSAFE_LEG_MP_PUSH,  P2PSAFE_LEG_MP_PULL, P2PSAFE_LEG_TEARING_8};

static int verified(struct p2s_run *run, uint32_t a, uint32_t b, int m)
{
	const struct p2s_way *way = p2s_run_way(run, a, b);
	int32_t load = way->verdict[P2PSAFE_LEG_LOAD][m];

	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
		if (way->verdict[needed[i]][m] != P2PSAFE_VERDICT_OK)
			return 0;
	return !atomic_load(&way->bad) && (load == 0 || load == P2PSAFE_VERDICT_OK || load == P2PSAFE_VERDICT_UNTESTED);
}

/* The lane from..to over one mapping, if it may be measured. */
static int open_lane(struct p2s_measure *m, struct p2s_mlane *l, uint32_t from, uint32_t to, int map)
{
	int kind = map == P2S_M_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU;
	uint32_t a = m->gpu[from];
	uint32_t b = m->gpu[to];

	if (!p2s_run_may_test(m->run, a, b) || !verified(m->run, a, b, map) || !p2s_lane_open(m->run, a, b, map, &l->lane))
		return 0;
	if (kind == P2S_CHAN_PEER && !m->peers) {
		m->peers = 1;
		p2s_measure_init(m, kind);
	}
	l->ok = m->inited[kind][a] && m->inited[kind][b];
	if (!l->ok)
		return 0;
	p2s_trial_begin(&l->trial, &l->lane, P2PSAFE_LEG_LOAD);
	l->trial.quiet = 1; /* what is right was told by the legs before */
	return 1;
}

/* Frameworks' way, process to process, in the order in which mappings are tested; and the other, or only that. */
static void open_lanes(struct p2s_measure *m, uint32_t from, uint32_t to)
{
	size_t at = (size_t)from * m->n + to;
	int open = 0;

	for (int map = 0; map < P2S_M_PEER && !open; map++)
		open = open_lane(m, &m->lanes[at], from, to, map);
	if (!open || m->played || m->ready_ns * m->n < INSIDE_NS)
		open_lane(m, open ? &m->inside[at] : &m->lanes[at], from, to, P2S_M_PEER);
}

static void tell(struct p2s_measure *m, const struct p2s_mlane *l)
{
	static const int32_t kinds[P2S_WAY_KINDS] = {P2S_MEASURE_CE_WRITE, P2S_MEASURE_CE_READ, P2S_MEASURE_SM_STORE,
												 P2S_MEASURE_SM_LOAD};

	for (int k = 0; k < P2S_WAY_KINDS; k++)
		p2s_measure_tell(m, l->lane.a, l->lane.b, kinds[k], l->way[k], 0);
	p2s_measure_tell(m, l->lane.a, l->lane.b, P2S_MEASURE_LOADED, l->loaded, 0);
}

/* lanes: those of the round, a pair's two directions behind each other. */
static void measure_round(struct p2s_measure *m, struct p2s_mlane **lanes, uint32_t count)
{
	struct p2s_mlane *way[2][P2S_MAX_GPUS];
	struct p2s_mlane *pairs[P2S_CROWD];
	uint32_t n[2] = {0, 0};
	uint32_t both = 0;

	for (uint32_t i = 0; i < count; i++) {
		int back = lanes[i]->lane.a > lanes[i]->lane.b;

		way[back][n[back]++] = lanes[i];
		if (i + 1 < count && lanes[i + 1]->lane.a == lanes[i]->lane.b && lanes[i + 1]->lane.b == lanes[i]->lane.a) {
			pairs[both++] = lanes[i];
			pairs[both++] = lanes[i + 1];
		}
	}
	for (int back = 0; back < 2; back++) {
		p2s_measure_speeds(m, way[back], n[back]);
		if (n[back] > 1)
			p2s_measure_apart(m, way[back], n[back]);
	}
	p2s_measure_loaded(m, lanes, count);
	for (int back = 0; back < 2; back++)
		p2s_measure_latencies(m, way[back], n[back]);
	p2s_measure_pongs(m, pairs, both);
}

/* Last, as they take longest: a pair without them is still known to be faster than staging, or not. */
static void sizes_round(struct p2s_measure *m, struct p2s_mlane **lanes, uint32_t count)
{
	struct p2s_mlane *way[2][P2S_MAX_GPUS];
	uint32_t n[2] = {0, 0};

	for (uint32_t i = 0; i < count; i++) {
		int back = lanes[i]->lane.a > lanes[i]->lane.b;

		way[back][n[back]++] = lanes[i];
	}
	for (int back = 0; back < 2; back++)
		p2s_measure_rows(m, way[back], n[back]);
}

static void one_round(struct p2s_measure *m, uint32_t round)
{
	struct p2s_mlane *lanes[P2S_CROWD];
	uint32_t pair[P2S_CROWD] = {0};
	uint32_t pairs = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < (m->n + 1) / 2; i++) {
		uint32_t x, y;

		if (!p2s_schedule_pair(m->n, round, i, &x, &y))
			continue;
		pair[2 * pairs] = x;
		pair[2 * pairs++ + 1] = y;
		for (int back = 0; back < 2; back++) {
			struct p2s_mlane *l = p2s_measure_lane(m, back ? y : x, back ? x : y);

			if (l != NULL)
				lanes[count++] = l;
		}
	}
	for (uint32_t i = 0; i < pairs; i++)
		p2s_klog_round(m->run, m->gpu[pair[2 * i]], m->gpu[pair[2 * i + 1]], 1);
	if (count > 0 && p2s_measure_may(m))
		measure_round(m, lanes, count);
	p2s_measure_staged(m, pair, pairs);
	if (count > 0)
		sizes_round(m, lanes, count);
	for (uint32_t i = 0; i < count; i++)
		if (lanes[i]->ok)
			tell(m, lanes[i]);
	for (uint32_t i = 0; i < pairs; i++) {
		p2s_klog_round(m->run, m->gpu[pair[2 * i]], m->gpu[pair[2 * i + 1]], 0);
		p2s_link_progress(m->run);
	}
}

void p2s_measure_run(struct p2s_run *run)
{
	static struct p2s_measure m; /* one run per process */
	uint64_t now = p2s_now_ns();
	uint64_t left = run->stop_ns > now ? run->stop_ns - now : 0;
	uint64_t most;

	if ((run->ask.flags & P2PSAFE_FLAG_MEASURE) == 0 || !p2s_run_may_start(run))
		return;
	m.run = run;
	m.played = run->ask.host_dir[0] != '\0';
	for (uint32_t i = 0; i < P2S_MAX_GPUS; i++)
		m.ring_fd[i] = -1;
	for (uint32_t i = 0; i < run->tested_count; i++)
		if (!atomic_load(&run->gpu[run->tested[i]].out))
			m.gpu[m.n++] = run->tested[i];
	most = BASE_NS + p2s_schedule_rounds(m.n) * ROUND_NS;
	m.end_ns = now + (m.played || most > left / 2 ? left / 2 : most);
	m.part_ns = m.end_ns;
	m.lanes = calloc((size_t)m.n * m.n + 1, 2 * sizeof *m.lanes);
	if (m.n < 2 || m.lanes == NULL) {
		free(m.lanes);
		return;
	}
	m.inside = m.lanes + (size_t)m.n * m.n;
	p2s_link_phase(run, "measure", m.n * (m.n - 1) / 2);
	now = p2s_now_ns();
	p2s_measure_init(&m, P2S_CHAN_GPU);
	m.ready_ns = p2s_now_ns() - now;
	for (uint32_t i = 0; i < m.n; i++)
		for (uint32_t j = 0; j < m.n; j++)
			if (i != j && p2s_measure_may(&m))
				open_lanes(&m, i, j);
	p2s_measure_host_links(&m);
	for (uint32_t round = 0; round < p2s_schedule_rounds(m.n); round++) {
		m.part_ns = p2s_schedule_until(p2s_now_ns(), m.end_ns, p2s_schedule_rounds(m.n) - round + (m.n > 2 ? 1 : 0));
		one_round(&m, round);
	}
	m.part_ns = m.end_ns;
	for (uint32_t i = 0; i < m.n; i++)
		if (p2s_measure_may(&m))
			p2s_measure_star(&m, i);
	p2s_measure_host_end(&m);
	p2s_link_timing_ns(run, "measure_device", m.model_ns);
	free(m.lanes);
}
