/* A range of memory as one engine of one GPU sees it: the own memory, or a peer's through a mapping. Every access of copies and
 * kernels goes through a view, and meets the fault plan there. */
#ifndef P2S_SIM_VIEW_H
#define P2S_SIM_VIEW_H

#include "sim/fault.h"
#include "sim/host.h"

#define SIM_LINE 128
#define SIM_LINES 64

/* Lines that plain loads of a remote address left in the cache of the SM. Coherent with nobody: good until an acquire. */
struct sim_cache {
	uint64_t tag[SIM_LINES]; /* physical address + 1 of the line; 0 empty */
	unsigned char data[SIM_LINES][SIM_LINE];
};

struct sim_view {
	struct sim_host *host;
	int accessor;
	int owner;
	uint32_t mapping; /* SIM_MAP_*; 0 for own memory */
	uint64_t phys;    /* of the first byte */
	uint64_t offset;  /* of the first byte in the owner's allocation */
	uint64_t bytes;   /* up to the end of the mapping */
	unsigned char *host_bytes; /* pinned host memory: nothing else is set */
};

/* How an access ended. WEDGE: the caller must park; ERROR: *error is the CUresult. */
enum sim_outcome { SIM_OK = 0, SIM_FAILED, SIM_WEDGED };

static inline int sim_view_remote(const struct sim_view *v)
{
	return !v->host_bytes && v->accessor != v->owner;
}

/* The store behind a view: the owner's memory. */
static inline struct sim_store *sim_view_store(const struct sim_view *v)
{
	return &v->host->memory[v->owner];
}

/* What is about to happen to `bytes` at `at` of the view. */
struct sim_transfer sim_view_transfer(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes);

/* The fault that a copy meets, found (and counted) once, when the copy is asked for. Exactly one of the views may be remote, or
 * both for a copy between two peers: then the write counts. */
struct sim_hit sim_view_copy_hit(const struct sim_view *to, const struct sim_view *from, uint64_t bytes);
/* The copy under that hit. */
enum sim_outcome sim_view_copy(const struct sim_view *to, const struct sim_view *from, uint64_t bytes,
	const struct sim_hit *hit, int *error);
/* Bulk accesses of kernels: they find the fault and obey it. */
/* The pattern of seed at byte offsets [begin, end) of the view. */
enum sim_outcome sim_view_fill(const struct sim_view *v, uint64_t begin, uint64_t end, uint64_t seed, int *error);
/* p2s_load: copies [begin, end) of `from` to the same offsets of `to`. */
enum sim_outcome sim_view_load(const struct sim_view *to, const struct sim_view *from, uint64_t begin, uint64_t end,
	int *error);
enum sim_outcome sim_view_set(const struct sim_view *v, uint64_t bytes, unsigned char value, int *error);

/* Fine: one word at a time, under a hit found once (op as in the plan). */

/* A store: posted, lands later. due_ns: not before; 0. */
void sim_view_post(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, uint64_t value, uint64_t due_ns);
/* `count` stores that follow each other, any time. */
void sim_view_post_run(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, const uint64_t *words, uint32_t count);
/* A load of what has arrived. */
uint64_t sim_view_word(const struct sim_view *v, const struct sim_hit *hit, uint64_t at);
/* The same as a plain load through the cache. */
uint64_t sim_view_cached(const struct sim_view *v, const struct sim_hit *hit, uint64_t at, struct sim_cache *cache);
void sim_cache_drop(struct sim_cache *cache);

#endif
