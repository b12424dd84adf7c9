#include "sim/ring.h"

#include <errno.h>
#include <signal.h>

#include "sim/lock.h"

#define PIECE 16  /* most stores of 8 bytes in one piece */
#define WINDOW 32 /* how many of the oldest may overtake each other */
/* The second half of a torn word waits until a whole look at the memory lay between the halves: on few CPUs it would hang on luck
 * whether anybody looks meanwhile. Not for ever, and not for every word of a kernel. */
#define HOLDS 64
#define HOLD_NS UINT64_C(2000000)

static uint32_t next_random(struct sim_ring *r)
{
	uint32_t x = r->random ? r->random : 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return r->random = x;
}

static struct sim_posted *entry(struct sim_ring *r, uint32_t i)
{
	return &r->posted[(r->head + i) % SIM_RING];
}

/* Takes entry i out; the order of the others stays. */
static void take_out(struct sim_ring *r, uint32_t i)
{
	for (; i > 0; i--)
		*entry(r, i) = *entry(r, i - 1);
	r->head = (r->head + 1) % SIM_RING;
	__atomic_store_n(&r->count, r->count - 1, __ATOMIC_RELEASE);
}

static void land(struct sim_host *h, int dst, const struct sim_posted *p)
{
	sim_store_put(&h->memory[dst], p->phys, p->value, p->bytes);
}

static int due(const struct sim_host *h, struct sim_ring *r, int dst, struct sim_posted *p, uint64_t now)
{
	const struct sim_gpu_state *g = &h->shared->gpus[dst];
	uint32_t readers = __atomic_load_n(&g->readers, __ATOMIC_RELAXED), passes = __atomic_load_n(&g->passes, __ATOMIC_RELAXED);

	if (p->look)
		return now >= p->due_ns || !readers || (int32_t)(passes - p->look) >= 0;
	if (p->due_ns > now)
		return 0;
	if (!p->due_ns || p->bytes == 8 || !readers || !r->holds)
		return 1;
	r->holds--;
	p->due_ns = now + HOLD_NS;
	p->look = passes + 2 ? passes + 2 : 1; /* the one that is going on may have passed this word already */
	return 0;
}

/* Delivers one piece (granularity bytes) of the oldest epoch. The same address never goes back in time: of one piece,
 * stores land in the order they were made, and none passes one that is not due yet. Returns 0 when nothing is due. */
static int deliver(struct sim_host *h, struct sim_ring *r, int src, int dst, uint64_t now)
{
	const struct sim_link *link = &h->config.links[src][dst];
	uint64_t granule, mask = ~((uint64_t)link->granularity - 1);
	uint32_t epoch, i, n, pick, tries;

	if (!r->count)
		return 0;
	epoch = entry(r, 0)->epoch;
	for (n = 1; n < r->count && n < WINDOW && entry(r, n)->epoch == epoch; n++)
		;
	pick = link->reorder ? next_random(r) % n : 0;
	for (tries = 0; tries < n; tries++, pick = (pick + 1) % n) {
		int landed = 0;

		granule = entry(r, pick)->phys & mask;
		/* A piece arrives whole, also where it reaches beyond the window. */
		for (i = 0; i < r->count && i < n + PIECE; i++) {
			struct sim_posted *p = entry(r, i);

			if (p->epoch != epoch)
				break;
			if ((p->phys & mask) != granule)
				continue;
			if (!due(h, r, dst, p, now))
				break;
			land(h, dst, p);
			take_out(r, i);
			landed = 1;
			if (i < n)
				n--;
			i--;
		}
		if (landed)
			return 1;
		if (!link->reorder)
			return 0;
	}
	return 0;
}

/* Lands up to max of the oldest in the order they were made, which is always allowed. Returns how many. */
static uint32_t flush(struct sim_host *h, struct sim_ring *r, int dst, uint32_t max)
{
	uint64_t now = sim_now();
	uint32_t n;

	for (n = 0; n < max && r->count; n++) {
		if (!due(h, r, dst, entry(r, 0), now))
			break;
		land(h, dst, entry(r, 0));
		take_out(r, 0);
	}
	return n;
}

/* Under the lock. */
static void post(struct sim_host *h, struct sim_ring *r, int dst, const struct sim_posted *one)
{
	while (r->count >= SIM_RING - 1) {
		if (!flush(h, r, dst, SIM_RING / 2)) {
			sim_unlock(&r->lock);
			sim_sleep_ns(20000);
			sim_lock(&r->lock);
		}
	}
	*entry(r, r->count) = *one;
	__atomic_store_n(&r->count, r->count + 1, __ATOMIC_RELEASE);
}

void sim_ring_post_run(struct sim_host *h, int src, int dst, uint64_t phys, const uint64_t *words, uint32_t count)
{
	struct sim_ring *r = &h->rings[sim_pair(h, src, dst)];
	uint32_t i;

	sim_lock(&r->lock);
	for (i = 0; i < count; i++) {
		struct sim_posted p = { phys + i * 8, words[i], 0, 0, r->epoch, 8, (uint16_t)src };

		post(h, r, dst, &p);
	}
	sim_unlock(&r->lock);
}

void sim_ring_post(struct sim_host *h, int src, int dst, uint64_t phys, uint64_t value, unsigned bytes, uint64_t due_ns)
{
	struct sim_ring *r = &h->rings[sim_pair(h, src, dst)];
	struct sim_posted p = { phys, value, due_ns, 0, 0, (uint16_t)bytes, (uint16_t)src };

	sim_lock(&r->lock);
	p.epoch = r->epoch;
	post(h, r, dst, &p);
	sim_unlock(&r->lock);
}

void sim_ring_fence(struct sim_host *h, int src, int dst)
{
	struct sim_ring *r = &h->rings[sim_pair(h, src, dst)];

	sim_lock(&r->lock);
	r->epoch++;
	sim_unlock(&r->lock);
}

static uint32_t waiting(const struct sim_ring *r)
{
	return __atomic_load_n(&r->count, __ATOMIC_ACQUIRE);
}

void sim_ring_pump(struct sim_host *h, int dst)
{
	int s;

	for (s = 0; s < h->config.gpu_count; s++) {
		struct sim_ring *r = &h->rings[sim_pair(h, s, dst)];
		uint32_t n;
		uint64_t now;

		if (!waiting(r) || !sim_trylock(&r->lock))
			continue;
		now = sim_now();
		for (n = next_random(r) % 24; n > 0 && deliver(h, r, s, dst, now); n--)
			;
		sim_unlock(&r->lock);
	}
}

void sim_ring_settle(struct sim_host *h, int dst)
{
	int s;

	for (s = 0; s < h->config.gpu_count; s++) {
		struct sim_ring *r = &h->rings[sim_pair(h, s, dst)];

		if (!waiting(r))
			continue;
		sim_lock(&r->lock);
		flush(h, r, dst, SIM_RING);
		sim_unlock(&r->lock);
	}
}

void sim_ring_drain(struct sim_host *h, int src, int dst)
{
	struct sim_ring *r = &h->rings[sim_pair(h, src, dst)];

	while (waiting(r)) {
		uint32_t any;

		sim_lock(&r->lock);
		any = flush(h, r, dst, SIM_RING);
		sim_unlock(&r->lock);
		if (!any)
			sim_sleep_ns(20000);
	}
}

void sim_ring_enter(struct sim_host *h, int src, int dst)
{
	struct sim_ring *r = &h->rings[sim_pair(h, src, dst)];
	int i;

	__atomic_store_n(&r->holds, HOLDS, __ATOMIC_RELAXED);
	for (i = 0; i < SIM_WRITERS && !sim_trylock(&r->writers[i]); i++)
		;
}

void sim_ring_leave(struct sim_host *h, int src, int dst)
{
	uint32_t *ids = h->rings[sim_pair(h, src, dst)].writers;
	int i;

	for (i = 0; i < SIM_WRITERS; i++)
		sim_unlock(&ids[i]);
}

int sim_ring_busy(struct sim_host *h, int dst)
{
	int s, i;

	for (s = 0; s < h->config.gpu_count; s++) {
		struct sim_ring *r = &h->rings[sim_pair(h, s, dst)];

		if (waiting(r))
			return 1;
		for (i = 0; i < SIM_WRITERS; i++) {
			uint32_t id = __atomic_load_n(&r->writers[i], __ATOMIC_RELAXED);

			if (id && !(kill((pid_t)id, 0) && errno == ESRCH)) /* a thread: gone without a trace when it dies */
				return 1;
			if (id)
				__atomic_compare_exchange_n(&r->writers[i], &id, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		}
	}
	return 0;
}
