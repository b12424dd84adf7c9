#include "sim/map.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_BASE (UINT64_C(1) << 48) /* above every address of user space */
#define RANGE_SHIFT 42                  /* 4 TiB of addresses for each GPU and kind */
#define KINDS 4

struct host_range {
	unsigned char *at;
	uint64_t bytes;
	int own;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct sim_map *maps;
static size_t map_count, map_cap;
static struct host_range *hosts;
static size_t host_count, host_cap;
static uint64_t next_free[(P2S_MAX_GPUS + 1) * KINDS];

int sim_map_is_device(uint64_t at)
{
	return at >= DEVICE_BASE;
}

uint64_t sim_map_range(int gpu, int kind, uint64_t bytes, uint64_t align)
{
	int slot = (gpu + 1) * KINDS + kind;
	uint64_t base = DEVICE_BASE + ((uint64_t)slot << RANGE_SHIFT), at;

	pthread_mutex_lock(&guard);
	at = (next_free[slot] + align - 1) / align * align;
	next_free[slot] = at + bytes + SIM_CHUNK; /* a hole: one past the end is never the next allocation */
	pthread_mutex_unlock(&guard);
	return base + at;
}

int sim_map_add(const struct sim_map *m)
{
	int ok = 1;

	pthread_mutex_lock(&guard);
	if (map_count == map_cap) {
		size_t cap = map_cap ? map_cap * 2 : 64;
		struct sim_map *more = realloc(maps, cap * sizeof(*more));

		if (more) {
			maps = more;
			map_cap = cap;
		}
		ok = more != NULL;
	}
	if (ok)
		maps[map_count++] = *m;
	pthread_mutex_unlock(&guard);
	return ok;
}

int sim_map_remove(uint64_t at, unsigned kinds, struct sim_map *out)
{
	size_t i;
	int ok = 0;

	pthread_mutex_lock(&guard);
	for (i = 0; i < map_count && !ok; i++) {
		if (maps[i].at != at || !(1u << maps[i].kind & kinds))
			continue;
		*out = maps[i];
		maps[i] = maps[--map_count];
		ok = 1;
	}
	pthread_mutex_unlock(&guard);
	return ok;
}

int sim_map_find(uint64_t at, struct sim_map *out)
{
	size_t i;
	int found = 0;

	pthread_mutex_lock(&guard);
	for (i = 0; i < map_count; i++) {
		if (at < maps[i].at || at - maps[i].at >= maps[i].bytes)
			continue;
		if (found && maps[i].kind == SIM_KIND_RESERVED)
			continue;
		*out = maps[i];
		found = 1;
		if (maps[i].kind != SIM_KIND_RESERVED)
			break;
	}
	pthread_mutex_unlock(&guard);
	return found;
}

int sim_map_grant(uint64_t at, uint64_t bytes, int gpu, int on)
{
	size_t i;
	int n = 0;

	pthread_mutex_lock(&guard);
	for (i = 0; i < map_count; i++) {
		if (maps[i].kind != SIM_KIND_CUMEM || maps[i].at < at || maps[i].at + maps[i].bytes > at + bytes)
			continue;
		if (on)
			maps[i].access |= UINT64_C(1) << gpu;
		else
			maps[i].access &= ~(UINT64_C(1) << gpu);
		n++;
	}
	pthread_mutex_unlock(&guard);
	return n;
}

int sim_map_host_add(void *at, uint64_t bytes, int own)
{
	unsigned char *start = at;
	size_t i;
	int ok = 1;

	pthread_mutex_lock(&guard);
	for (i = 0; i < host_count; i++)
		if (start < hosts[i].at + hosts[i].bytes && hosts[i].at < start + bytes)
			ok = 0;
	if (ok && host_count == host_cap) {
		size_t cap = host_cap ? host_cap * 2 : 16;
		struct host_range *more = realloc(hosts, cap * sizeof(*more));

		if (more) {
			hosts = more;
			host_cap = cap;
		}
		ok = more != NULL;
	}
	if (ok)
		hosts[host_count++] = (struct host_range){ start, bytes, own };
	pthread_mutex_unlock(&guard);
	return ok;
}

int sim_map_host_remove(void *at, int own, uint64_t *bytes)
{
	size_t i;
	int ok = 0;

	pthread_mutex_lock(&guard);
	for (i = 0; i < host_count && !ok; i++) {
		if (hosts[i].at != (unsigned char *)at || hosts[i].own != own)
			continue;
		*bytes = hosts[i].bytes;
		hosts[i] = hosts[--host_count];
		ok = 1;
	}
	pthread_mutex_unlock(&guard);
	return ok;
}

int sim_map_host_find(const void *at, uint64_t *left)
{
	const unsigned char *p = at;
	size_t i;
	int ok = 0;

	pthread_mutex_lock(&guard);
	for (i = 0; i < host_count && !ok; i++) {
		if (p < hosts[i].at || p >= hosts[i].at + hosts[i].bytes)
			continue;
		*left = (uint64_t)(hosts[i].at + hosts[i].bytes - p);
		ok = 1;
	}
	pthread_mutex_unlock(&guard);
	return ok;
}

/* The mapping that a GPU uses for this memory, and whether it may. */
static int may_access(const struct sim_context *ctx, const struct sim_map *m, uint32_t *mapping)
{
	switch (m->kind) {
	case SIM_KIND_PLAIN:
		*mapping = m->owner == ctx->gpu ? 0 : SIM_MAP_PEER;
		return m->owner == ctx->gpu || ctx->peers >> m->owner & 1;
	case SIM_KIND_IPC:
		*mapping = m->owner == ctx->gpu ? 0 : SIM_MAP_IPC;
		return (int)(m->access >> ctx->gpu & 1);
	case SIM_KIND_CUMEM:
		*mapping = m->owner == ctx->gpu ? 0 : SIM_MAP_CUMEM;
		return (int)(m->access >> ctx->gpu & 1);
	default:
		return 0;
	}
}

enum sim_resolve sim_map_view(struct sim_context *ctx, uint64_t at, uint64_t bytes, struct sim_view *out)
{
	struct sim_host *h = sim_host();
	struct sim_map m;
	uint64_t in;

	memset(out, 0, sizeof(*out));
	out->host = h;
	if (!sim_map_is_device(at)) {
		/* Copies may name any host memory; who needs pinned memory asks sim_map_host_find. */
		out->host_bytes = (unsigned char *)(uintptr_t)at;
		out->bytes = bytes;
		out->accessor = out->owner = ctx->gpu;
		return at ? SIM_RESOLVED : SIM_UNMAPPED;
	}
	if (!sim_map_find(at, &m) || m.object < 0)
		return SIM_UNMAPPED;
	in = at - m.at;
	if (bytes > m.bytes - in)
		return SIM_UNMAPPED;
	out->accessor = ctx->gpu;
	out->owner = m.owner;
	out->offset = m.object_offset + in;
	out->phys = h->shared->objects[m.object].phys + out->offset;
	out->bytes = m.bytes - in;
	return may_access(ctx, &m, &out->mapping) ? SIM_RESOLVED : SIM_NO_ACCESS;
}
