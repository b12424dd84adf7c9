/* Device addresses of this process. Every mapping has a range of its own that is never used again, so that a stale pointer is
 * caught, and lies outside of what a host pointer can be. */
#ifndef P2S_SIM_MAP_H
#define P2S_SIM_MAP_H

#include "sim/context.h"

enum sim_map_kind { SIM_KIND_PLAIN = 0, SIM_KIND_IPC, SIM_KIND_CUMEM, SIM_KIND_RESERVED };

struct sim_map {
	uint64_t at;
	uint64_t bytes;
	int kind;
	int object; /* index; -1 for a reservation */
	uint32_t generation;
	uint64_t object_offset;
	int owner;       /* GPU */
	uint64_t access; /* bit per GPU: IPC the opener, CUMEM as set */
};

enum sim_resolve { SIM_RESOLVED = 0, SIM_UNMAPPED, SIM_NO_ACCESS };

/* A fresh address range. gpu -1: any. */
uint64_t sim_map_range(int gpu, int kind, uint64_t bytes, uint64_t align);
/* 1, or 0 out of memory. */
int sim_map_add(const struct sim_map *m);
/* Removes the mapping that starts at `at` and has one of the kinds (bit mask 1 << kind): 1 and *out, else 0. */
int sim_map_remove(uint64_t at, unsigned kinds, struct sim_map *out);
/* The mapping around an address; reservations only when nothing else is there. */
int sim_map_find(uint64_t at, struct sim_map *out);
/* Grants a GPU access to cuMem mappings inside [at, at + bytes); number of mappings met. */
int sim_map_grant(uint64_t at, uint64_t bytes, int gpu, int on);

/* Host memory known to the driver. 1, or 0: already known (add), unknown (remove). */
int sim_map_host_add(void *at, uint64_t bytes, int own);
int sim_map_host_remove(void *at, int own, uint64_t *bytes);
int sim_map_host_find(const void *at, uint64_t *left);

/* 1 if the address is in the range of device addresses. */
int sim_map_is_device(uint64_t at);
/* The view that the context's GPU has of [at, at + bytes). Host memory gives a host view. */
enum sim_resolve sim_map_view(struct sim_context *ctx, uint64_t at, uint64_t bytes, struct sim_view *out);

#endif
