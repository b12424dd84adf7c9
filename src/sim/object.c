/* Allocations of the simulated GPUs, counted per process, so that memory of killed processes comes back as it does with
 * a driver. */
#include <string.h>
#include <unistd.h>

#include "sim/host.h"
#include "sim/lock.h"
#include "sim/ring.h"

#define FIRST_BYTE (UINT64_C(16) << 20) /* the driver's own */

static int in_use(const struct sim_object *o)
{
	return o->generation & 1;
}

/* Under the lock. */
static void release(struct sim_host *h, struct sim_object *o)
{
	int s;

	/* What a killed writer had on its way must not land in the next owner's memory. */
	sim_ring_settle(h, o->gpu);
	sim_store_scrub(&h->memory[o->gpu], o->phys, o->bytes);
	for (s = 0; s < h->config.gpu_count; s++) {
		struct sim_store *m = &h->mirrors[sim_pair(h, s, o->gpu)];

		if (m->chunks)
			sim_store_scrub(m, o->phys, o->bytes);
	}
	memset(o->users, 0, sizeof(o->users));
	__atomic_add_fetch(&o->generation, 1, __ATOMIC_RELEASE);
}

/* Under the lock: forgets users that have died. */
static void reap(struct sim_host *h)
{
	int i, u;

	for (i = 0; i < SIM_OBJECTS; i++) {
		struct sim_object *o = &h->shared->objects[i];
		int left = 0;

		if (!in_use(o))
			continue;
		for (u = 0; u < SIM_USERS; u++) {
			if (o->users[u].pid && !sim_alive(o->users[u].pid))
				o->users[u] = (struct sim_user){ 0, 0 };
			left |= o->users[u].pid != 0;
		}
		if (!left)
			release(h, o);
	}
}

static struct sim_user *user_of(struct sim_object *o, uint32_t pid)
{
	int u;

	for (u = 0; u < SIM_USERS; u++)
		if (o->users[u].pid == pid)
			return &o->users[u];
	return NULL;
}

static uint64_t used_bytes(const struct sim_host *h, int gpu)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < SIM_OBJECTS; i++) {
		const struct sim_object *o = &h->shared->objects[i];

		if (in_use(o) && o->gpu == gpu)
			sum += o->bytes;
	}
	return sum;
}

/* First fit: the same calls give the same addresses on every GPU, so that a misdirected write meets a canary. */
static uint64_t find_room(const struct sim_host *h, int gpu, uint64_t bytes, uint64_t align)
{
	uint64_t at = FIRST_BYTE;
	int i, moved;

	do {
		moved = 0;
		at = (at + align - 1) / align * align;
		for (i = 0; i < SIM_OBJECTS; i++) {
			const struct sim_object *o = &h->shared->objects[i];

			if (in_use(o) && o->gpu == gpu && at < o->phys + o->bytes && o->phys < at + bytes) {
				at = o->phys + o->bytes;
				moved = 1;
			}
		}
	} while (moved);
	return at + bytes <= h->memory[gpu].bytes ? at : 0;
}

static int try_new(struct sim_host *h, int gpu, uint64_t bytes, uint64_t align)
{
	uint64_t at, limit = (uint64_t)h->config.gpus[gpu].free_bytes;
	int i;

	if (bytes > limit || used_bytes(h, gpu) + bytes > limit)
		return -1;
	at = find_room(h, gpu, bytes, align);
	if (!at)
		return -1;
	for (i = 0; i < SIM_OBJECTS; i++) {
		struct sim_object *o = &h->shared->objects[i];

		if (in_use(o))
			continue;
		o->gpu = gpu;
		o->phys = at;
		o->bytes = bytes;
		o->users[0] = (struct sim_user){ (uint32_t)getpid(), 1 };
		__atomic_add_fetch(&o->generation, 1, __ATOMIC_RELEASE);
		/* A misdirected write may have met this place while nobody owned it. */
		sim_store_scrub(&h->memory[gpu], at, bytes);
		return i;
	}
	return -1;
}

int sim_object_new(struct sim_host *h, int gpu, uint64_t bytes, uint64_t align)
{
	int index;

	if (bytes > UINT64_MAX - SIM_CHUNK)
		return -1;
	bytes = (bytes + SIM_CHUNK - 1) / SIM_CHUNK * SIM_CHUNK;
	sim_lock(&h->shared->lock);
	index = try_new(h, gpu, bytes, align);
	if (index < 0) {
		reap(h);
		index = try_new(h, gpu, bytes, align);
	}
	sim_unlock(&h->shared->lock);
	return index;
}

int sim_object_hold(struct sim_host *h, int index, uint32_t generation)
{
	struct sim_object *o;
	struct sim_user *u;
	int ok = 0;

	if (index < 0 || index >= SIM_OBJECTS)
		return 0;
	o = &h->shared->objects[index];
	sim_lock(&h->shared->lock);
	if (in_use(o) && o->generation == generation) {
		u = user_of(o, (uint32_t)getpid());
		if (!u)
			u = user_of(o, 0);
		if (u) {
			u->pid = (uint32_t)getpid();
			u->count++;
			ok = 1;
		}
	}
	sim_unlock(&h->shared->lock);
	return ok;
}

void sim_object_drop(struct sim_host *h, int index)
{
	struct sim_object *o = &h->shared->objects[index];
	struct sim_user *u;
	int i, left = 0;

	sim_lock(&h->shared->lock);
	u = user_of(o, (uint32_t)getpid());
	if (in_use(o) && u && u->count && !--u->count) {
		u->pid = 0;
		for (i = 0; i < SIM_USERS; i++)
			left |= o->users[i].pid != 0;
		if (!left)
			release(h, o);
	}
	sim_unlock(&h->shared->lock);
}

uint64_t sim_object_free_bytes(struct sim_host *h, int gpu)
{
	uint64_t used, limit = (uint64_t)h->config.gpus[gpu].free_bytes;

	sim_lock(&h->shared->lock);
	reap(h);
	used = used_bytes(h, gpu);
	sim_unlock(&h->shared->lock);
	return used < limit ? limit - used : 0;
}

int sim_gpu_enter(struct sim_host *h, int gpu, int exclusive)
{
	uint32_t *ids = h->shared->gpus[gpu].contexts, me = (uint32_t)getpid();
	int i, slot = -1, other = 0;

	sim_lock(&h->shared->lock);
	for (i = 0; i < SIM_USERS; i++) {
		if (ids[i] && ids[i] != me && !sim_alive(ids[i]))
			ids[i] = 0;
		if (ids[i] && ids[i] != me)
			other = 1;
		if ((!ids[i] && slot < 0) || ids[i] == me)
			slot = i;
	}
	if (slot >= 0 && !(exclusive && other))
		ids[slot] = me;
	sim_unlock(&h->shared->lock);
	return !(exclusive && other);
}

void sim_gpu_leave(struct sim_host *h, int gpu)
{
	uint32_t *ids = h->shared->gpus[gpu].contexts;
	int i;

	sim_lock(&h->shared->lock);
	for (i = 0; i < SIM_USERS; i++)
		if (ids[i] == (uint32_t)getpid())
			ids[i] = 0;
	sim_unlock(&h->shared->lock);
}
