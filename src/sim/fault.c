#include "sim/fault.h"

#include <signal.h>
#include <unistd.h>

#include "core/word.h"
#include "sim/kmsg.h"

static int matches(const struct sim_fault *f, const struct sim_transfer *t)
{
	uint64_t from = (uint64_t)f->from, to = f->to ? (uint64_t)f->to : UINT64_MAX;

	if (!(f->ops & t->op) || (t->mapping && !(f->mappings & t->mapping)))
		return 0;
	/* Copies through host memory have no mapping: a plan that names mappings does not mean them. */
	if (!t->mapping && f->mappings != SIM_MAP_ALL)
		return 0;
	if ((f->src != SIM_ANY && t->src != SIM_ANY && f->src != t->src) ||
	    (f->dst != SIM_ANY && t->dst != SIM_ANY && f->dst != t->dst))
		return 0;
	if (t->bytes < (uint64_t)f->min_bytes || (f->max_bytes && t->bytes > (uint64_t)f->max_bytes))
		return 0;
	return !t->bytes || (t->offset < to && t->offset + t->bytes > from);
}

static uint32_t *counter(struct sim_host *h, int index, const struct sim_transfer *t)
{
	int gpus = h->config.gpu_count, src = t->src < 0 ? 0 : t->src, dst = t->dst < 0 ? 0 : t->dst;

	return &h->fault_counts[index * gpus * gpus + sim_pair(h, src, dst)];
}

struct sim_hit sim_fault_find(struct sim_host *h, const struct sim_transfer *t)
{
	struct sim_hit hit = { NULL, 0, 8 };
	int i;

	for (i = 0; i < h->config.fault_count; i++) {
		const struct sim_fault *f = &h->config.faults[i];
		uint64_t n;

		if (!matches(f, t))
			continue;
		n = __atomic_fetch_add(counter(h, i, t), 1, __ATOMIC_RELAXED);
		if (n < (uint64_t)f->after || (f->count && n >= (uint64_t)f->after + (uint64_t)f->count))
			continue;
		if (f->kmsg[0])
			sim_kmsg_write(h, i, t->src, t->dst);
		if (f->effect == SIM_LOG)
			continue; /* what else is planned happens all the same */
		hit.fault = f;
		hit.salt = p2s_mix((uint64_t)h->config.seed ^ n << 32 ^ (uint64_t)(unsigned)i << 16 ^
		                   (uint64_t)(unsigned)(t->src * 64 + t->dst));
		if (t->src >= 0 && t->dst >= 0)
			hit.granularity = (uint64_t)h->config.links[t->src][t->dst].granularity;
		break;
	}
	return hit;
}

int sim_fault_peek(const struct sim_host *h, const struct sim_transfer *t)
{
	int i;

	for (i = 0; i < h->config.fault_count; i++)
		if (h->config.faults[i].effect != SIM_LOG && matches(&h->config.faults[i], t))
			return h->config.faults[i].effect;
	return SIM_NONE;
}

int sim_hit_at(const struct sim_hit *hit, uint64_t offset)
{
	const struct sim_fault *f = hit->fault;

	if (!f || offset < (uint64_t)f->from || (f->to && offset >= (uint64_t)f->to))
		return 0;
	if (f->rate == 1000000)
		return 1;
	return p2s_mix(hit->salt ^ offset / hit->granularity) % 1000000 < (uint64_t)f->rate;
}

int sim_hit_whole(const struct sim_hit *hit)
{
	return hit->fault->rate == 1000000;
}

int sim_fault_plans(const struct sim_config *c, int effect, int src, int dst)
{
	int i;

	for (i = 0; i < c->fault_count; i++) {
		const struct sim_fault *f = &c->faults[i];

		if (f->effect == effect && (f->src == SIM_ANY || f->src == src) && (f->dst == SIM_ANY || f->dst == dst))
			return 1;
	}
	return 0;
}

void sim_fault_crash(void)
{
	sigset_t set;

	signal(SIGSEGV, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGSEGV);
	_exit(139);
}

void sim_fault_park(void)
{
	for (;;)
		pause();
}

int sim_fault_call(struct sim_host *h, const struct sim_transfer *t)
{
	struct sim_hit hit = sim_fault_find(h, t);

	if (!hit.fault)
		return 0;
	if (hit.fault->effect == SIM_CRASH)
		sim_fault_crash();
	if (hit.fault->effect == SIM_HANG || hit.fault->effect == SIM_WEDGE)
		sim_fault_park();
	return (int)hit.fault->error;
}
