#include "sim/flow.h"

#include "sim/lock.h"

void sim_flow_gate(struct sim_stream *s, uint32_t party)
{
	s->party = party;
	s->noted = 0;
}

/* A slot for the stream, kept until its process dies: the machine is made anew for each run. */
static struct sim_flow *slot_of(struct sim_stream *s, struct sim_host *h)
{
	for (int i = 0; !s->flow && i < SIM_FLOWS; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&h->shared->flows[i].taken, &none, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			s->flow = &h->shared->flows[i];
	}
	return s->flow;
}

uint32_t sim_flow_note(struct sim_stream *s, int from, int to)
{
	struct sim_flow *f;

	/* What begins on an idle stream is not behind the gate that was there before. */
	if (s->party && sim_stream_idle(s))
		s->party = 0;
	if (!s->party || from == to)
		return 0;
	f = slot_of(s, sim_host());
	if (!f)
		return 0;
	if (!s->noted) {
		f->from = from;
		f->to = to;
		__atomic_store_n(&f->party, s->party, __ATOMIC_RELEASE);
		s->noted = 1;
	}
	return s->party;
}

static int inside(const struct sim_uplink *u, int gpu)
{
	return (u->gpus >> gpu & 1) != 0;
}

struct count { /* flows that share something with ours, ours among them */
	uint32_t way, out, in;
	uint32_t up[SIM_MAX_UPLINKS], down[SIM_MAX_UPLINKS];
};

static void add(const struct sim_config *c, struct count *n, const struct sim_flow *f, int from, int to)
{
	n->way += f->from == from && f->to == to;
	n->out += f->from == from;
	n->in += f->to == to;
	for (int i = 0; i < c->uplink_count; i++) {
		n->up[i] += inside(&c->uplinks[i], f->from) && !inside(&c->uplinks[i], f->to);
		n->down[i] += !inside(&c->uplinks[i], f->from) && inside(&c->uplinks[i], f->to);
	}
}

/* Bytes/s that each of n gets of a link. */
static double part(int64_t bytes_per_s, uint32_t n)
{
	return (double)bytes_per_s / (double)(n ? n : 1);
}

static double least(double a, double b)
{
	return b < a ? b : a;
}

/* A shared uplink that is crowded may do worse than divide: lost_percent of it is gone. */
static double of_uplink(const struct sim_uplink *u, uint32_t n)
{
	return part(n > 1 ? u->bytes_per_s / 100 * (100 - u->lost_percent) : u->bytes_per_s, n);
}

static double rate(const struct sim_config *c, const struct count *n, int src, int dst, int from, int to)
{
	double r = part(c->links[src][dst].bytes_per_s, n->way);

	r = least(r, part(c->gpus[from].port_bytes_per_s, n->out));
	r = least(r, part(c->gpus[to].port_bytes_per_s, n->in));
	for (int i = 0; i < c->uplink_count; i++) {
		const struct sim_uplink *u = &c->uplinks[i];

		if (inside(u, from) && !inside(u, to))
			r = least(r, of_uplink(u, n->up[i]));
		if (!inside(u, from) && inside(u, to))
			r = least(r, of_uplink(u, n->down[i]));
	}
	return r;
}

uint64_t sim_flow_share(struct sim_host *h, uint32_t party, int src, int dst, int from, int to)
{
	const struct sim_config *c = &h->config;
	struct count all = { 0 };

	if (!party)
		return 1000;
	for (int i = 0; i < SIM_FLOWS; i++) {
		const struct sim_flow *f = &h->shared->flows[i];

		if (__atomic_load_n(&f->party, __ATOMIC_ACQUIRE) == party)
			add(c, &all, f, from, to);
	}
	return (uint64_t)(1000.0 * (double)c->links[src][dst].bytes_per_s / rate(c, &all, src, dst, from, to));
}
