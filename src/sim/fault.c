#include "sim/fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/word.h"
#include "sim/kmsg.h"
#include "sim/active.h"
#include "sim/context.h"
#include "sim/lock.h"

static int matches(const struct sim_fault *f, const struct sim_transfer *t)
{
	uint64_t from = (uint64_t)f->from, to = f->to ? (uint64_t)f->to : UINT64_MAX;

	if (t->op == SIM_OP_CALL && strcmp(f->name, "*") != 0 && strcmp(f->name, t->name) != 0)
		return 0;
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

		if (!matches(f, t) || (f->min_active && sim_active_others(h) < f->min_active))
			continue;
		n = __atomic_fetch_add(counter(h, i, t), 1, __ATOMIC_RELAXED);
		if (n < (uint64_t)f->after || (f->count && n >= (uint64_t)f->after + (uint64_t)f->count))
			continue;
		if ((n - (uint64_t)f->after) % (uint64_t)f->every)
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

int sim_fault_by_load(const struct sim_host *h, const struct sim_transfer *t)
{
	int i;

	for (i = 0; i < h->config.fault_count; i++)
		if (h->config.faults[i].min_active && matches(&h->config.faults[i], t))
			return 1;
	return 0;
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

uint64_t sim_fault_time(const struct sim_host *h, const struct sim_transfer *t, uint64_t ns)
{
	int i;

	for (i = 0; i < h->config.fault_count; i++) {
		const struct sim_fault *f = &h->config.faults[i];

		if ((f->effect != SIM_SLOW && f->effect != SIM_FAST) || !matches(f, t))
			continue;
		return f->effect == SIM_SLOW ? ns * (uint64_t)f->factor : ns / (uint64_t)f->factor;
	}
	return ns;
}

int sim_fault_stop(struct sim_host *h, const struct sim_fault *f, int gpu)
{
	switch (f ? f->effect : SIM_NONE) {
	case SIM_CRASH:
		sim_fault_crash();
	case SIM_ERROR:
		return (int)f->error;
	case SIM_WEDGE:
		return SIM_FAULT_WEDGED;
	case SIM_LATE_ERROR:
		if (gpu >= 0)
			sim_context_fail_late(sim_context_of(gpu), (int)f->error, f->calls);
		return 0;
	case SIM_LOST:
		if (gpu >= 0)
			__atomic_store_n(&h->shared->gpus[gpu].lost, (int32_t)f->error, __ATOMIC_RELEASE);
		return (int)f->error;
	default:
		return 0;
	}
}

/* What a call or a fence does under a fault: as sim_fault_stop, and it may take its time. */
static int obey(struct sim_host *h, const struct sim_fault *f, int gpu)
{
	int stop = sim_fault_stop(h, f, gpu);

	if (stop)
		return stop;
	if (f && f->effect == SIM_HANG)
		return SIM_FAULT_WEDGED;
	if (f && f->effect == SIM_DROP)
		return SIM_FAULT_DROPPED;
	if (f && f->effect == SIM_BLOCK)
		sim_sleep_ns((uint64_t)f->ms * 1000000);
	return 0;
}

int sim_fault_fence(struct sim_host *h, int src, int dst, uint32_t mapping)
{
	struct sim_transfer t = { src, dst, SIM_OP_FENCE, mapping, 0, 0, NULL };

	return src == dst ? 0 : obey(h, sim_fault_find(h, &t).fault, src);
}

int sim_fault_enter(const char *name)
{
	const struct sim_config *c = sim_host_config();
	struct sim_transfer t = { SIM_NOBODY, SIM_ANY, SIM_OP_CALL, SIM_MAP_ALL, 0, 0, name };
	struct sim_host *h;
	int rc;

	if (!c || !c->has_calls)
		return 0;
	h = sim_host();
	if (!h)
		return 0;
	t.src = sim_context_gpu();
	rc = obey(h, sim_fault_find(h, &t).fault, t.src);
	if (rc == SIM_FAULT_WEDGED)
		sim_fault_park();
	return rc;
}

int sim_fault_call(struct sim_host *h, const struct sim_transfer *t)
{
	int rc = obey(h, sim_fault_find(h, t).fault, t->src >= 0 ? t->src : t->dst);

	if (rc == SIM_FAULT_WEDGED)
		sim_fault_park();
	return rc;
}
