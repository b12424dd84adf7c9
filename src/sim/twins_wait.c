#include "sim/twins_wait.h"

#include <signal.h>
#include <string.h>

#include "sim/active.h"
#include "sim/lock.h"
#include "sim/ring.h"

#define TURN_NS UINT64_C(100000) /* a turn counts at most this long: the CPU may have been elsewhere */
#define ACTIVE_FACTOR 20         /* patience while the other side is known to be at work */
#define AWAIT_NS UINT64_C(500000000)
#define MEET_NS UINT64_C(2000000)

int sim_role_open(struct sim_role *r, struct sim_kernel *k, int block, uint64_t ctl, uint64_t res)
{
	uint64_t left;
	int rc;

	memset(r, 0, sizeof(*r));
	r->kernel = k;
	r->block = block;
	if (ctl % 128 || sim_map_is_device(ctl) || !sim_map_host_find((const void *)(uintptr_t)ctl, &left) ||
	    left < sizeof(struct p2s_control))
		return CU_ILLEGAL_ADDRESS;
	r->ctl = (struct p2s_control *)(uintptr_t)ctl;
	rc = sim_kernel_view(k, res + (uint64_t)block * sizeof(r->result), sizeof(r->result), &r->res);
	return rc;
}

int sim_role_aborted(struct sim_role *r)
{
	if (!__atomic_load_n(&r->ctl->abort.word, __ATOMIC_ACQUIRE))
		return 0;
	r->result.status = P2S_ROLE_ABORTED;
	return 1;
}

int sim_role_go(struct sim_role *r)
{
	uint64_t start = sim_now();
	uint32_t turns = 0;

	__atomic_store_n(&r->ctl->ready[r->block].word, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&r->ctl->go.word, __ATOMIC_ACQUIRE)) {
		if (sim_role_aborted(r))
			return 0;
		if (sim_now() - start > P2S_SIM_GO_NS) {
			r->result.status = P2S_ROLE_NO_GO;
			return 0;
		}
		sim_relax(&turns);
	}
	r->go_ns = r->seen_ns = sim_now();
	return 1;
}

static struct sim_gpu_state *owner_state(const struct sim_role *r)
{
	return &r->view.host->shared->gpus[r->view.owner];
}

void sim_role_looks(struct sim_role *r, int on)
{
	if (on)
		__atomic_add_fetch(&owner_state(r)->readers, 1, __ATOMIC_RELAXED);
	else
		__atomic_sub_fetch(&owner_state(r)->readers, 1, __ATOMIC_RELAXED);
}

uint32_t sim_role_await(struct sim_role *r, uint64_t round)
{
	uint64_t start = sim_now();
	uint32_t turns = 0;

	while (!round && !__atomic_load_n(&owner_state(r)->readers, __ATOMIC_RELAXED) && sim_now() - start < AWAIT_NS &&
	       !sim_role_aborted(r))
		sim_relax(&turns);
	return __atomic_load_n(&owner_state(r)->passes, __ATOMIC_RELAXED);
}

void sim_role_meet(struct sim_role *r, uint32_t looks)
{
	uint64_t start = sim_now();
	uint32_t turns = 0;

	while (__atomic_load_n(&owner_state(r)->readers, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&owner_state(r)->passes, __ATOMIC_RELAXED) == looks && sim_now() - start < MEET_NS)
		sim_relax(&turns);
}

int sim_role_turn(struct sim_role *r)
{
	uint64_t now, step;

	r->result.polls++;
	__atomic_add_fetch(&owner_state(r)->passes, 1, __ATOMIC_RELAXED);
	if (r->result.polls % 16 == 1)
		r->active = sim_ring_busy(r->view.host, r->view.owner);
	if ((r->result.polls & 63) == 0)
		__atomic_store_n(&r->ctl->polls.word, r->result.polls, __ATOMIC_RELAXED);
	if (sim_role_aborted(r))
		return 0;
	now = sim_now();
	step = now - r->seen_ns;
	r->seen_ns = now;
	r->used_ns += step < TURN_NS ? step : TURN_NS;
	if (r->result.polls > r->max_iters || r->used_ns > (r->active ? r->max_ns * ACTIVE_FACTOR : r->max_ns)) {
		r->result.status = P2S_ROLE_TIMEOUT;
		return 0;
	}
	sim_relax(&r->turns);
	return 1;
}

int sim_role_stopped(struct sim_role *r, const struct sim_hit *hit)
{
	r->rc = sim_fault_stop(r->view.host, hit->fault, r->view.accessor);
	return r->rc != CU_OK;
}

int sim_role_fence(struct sim_role *r)
{
	sim_ring_fence(r->view.host, r->view.accessor, r->view.owner);
	r->rc = sim_fault_fence(r->view.host, r->view.accessor, r->view.owner, r->view.mapping);
	return r->rc != CU_OK;
}

void sim_role_bad(struct sim_role *r, uint64_t offset, uint64_t found)
{
	r->result.bad_words++;
	if (r->result.samples < P2S_SAMPLES)
		r->result.sample[r->result.samples] = (struct p2s_sample){ offset, found };
	r->result.samples++;
}

void sim_role_end(struct sim_role *r)
{
	uint64_t now = sim_now();

	__atomic_store_n(&r->ctl->polls.word, r->result.polls, __ATOMIC_RELAXED);
	r->result.elapsed_ns = r->go_ns ? now - r->go_ns : 0;
	sim_store_write(sim_view_store(&r->res), r->res.phys, &r->result, sizeof(r->result));
}

struct thread_arg {
	struct sim_role *role;
	void (*body)(struct sim_role *);
	uint32_t job;
};

static void run_role(struct sim_role *r, void (*body)(struct sim_role *))
{
	if (sim_role_go(r)) {
		r->result.status = r->idle ? P2S_ROLE_IDLE : P2S_ROLE_DONE;
		if (!r->idle)
			body(r);
	}
	if (r->rc == CU_OK)
		sim_role_end(r);
}

static void *role_thread(void *p)
{
	struct thread_arg *a = p;

	sim_active_join(a->job);
	run_role(a->role, a->body);
	return NULL;
}

int sim_roles_run(struct sim_role *roles, int count, void (*body)(struct sim_role *))
{
	struct thread_arg arg = { &roles[count - 1], body, sim_active_job() };
	pthread_t thread;
	int i, second = 0;

	if (count == 2) {
		/* Signals stay blocked: the engine's thread has them blocked, and threads inherit that. */
		second = !pthread_create(&thread, NULL, role_thread, &arg);
		if (!second)
			return CU_OUT_OF_MEMORY;
	}
	run_role(&roles[0], body);
	if (second)
		pthread_join(thread, NULL);
	for (i = 0; i < count; i++)
		if (roles[i].rc)
			return roles[i].rc;
	return CU_OK;
}
