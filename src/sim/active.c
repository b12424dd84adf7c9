#include "sim/active.h"

#include <unistd.h>

#include "sim/lock.h"

static __thread uint32_t job; /* thread id of the engine that runs it */
static __thread int slot = -1;

void sim_active_enter(struct sim_host *h)
{
	int i;

	job = (uint32_t)gettid();
	for (i = 0; i < SIM_ACTIVE && slot < 0; i++)
		if (sim_trylock(&h->shared->active[i]))
			slot = i;
}

void sim_active_leave(struct sim_host *h)
{
	if (slot >= 0)
		sim_unlock(&h->shared->active[slot]);
	slot = -1;
	job = 0;
}

uint32_t sim_active_job(void)
{
	return job;
}

void sim_active_join(uint32_t other)
{
	job = other;
}

int sim_active_others(struct sim_host *h)
{
	int i, n = 0;

	for (i = 0; i < SIM_ACTIVE; i++) {
		uint32_t id = __atomic_load_n(&h->shared->active[i], __ATOMIC_RELAXED);

		n += id && id != job && sim_alive(id);
	}
	return n;
}
