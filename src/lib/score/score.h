/* Numbers into judgements. Pure, integers only: the same numbers give the same answer, in whatever order they came. */
#ifndef P2S_SCORE_SCORE_H
#define P2S_SCORE_SCORE_H

#include <stdint.h>

#include "core/model.h"

/* ---- limits, limit.c: bytes/s in one direction ---- */

struct p2s_limit {
	uint64_t most; /* nothing can be faster: the narrowest hop at its maximum, without packet headers. 0: a hop was not read */
	uint64_t under_load; /* what writes can reach at the speed and width that every hop had while transfers ran. 0: one did not
							tell */
};

/* Between the GPUs of a pair. Over NVLink both are NVML's count and speed of links (pair->limit_bytes_per_s). */
void p2s_score_limit(const struct p2s_model *m, const struct p2s_pair *pair, struct p2s_limit *out);
/* The narrowest hop of one GPU at its maximum, from the root port to the GPU, without packet headers; own: of its own link
 * only. 0 unread. */
uint64_t p2s_score_host_limit(const struct p2s_gpu_facts *f);
uint64_t p2s_score_own_link(const struct p2s_gpu_facts *f);

/* ---- speeds ---- */

/* The faster of the two ways in which the accessor writes: a pair is as slow as its best engine. 0 not measured. */
uint64_t p2s_score_writes(const struct p2s_pair *pair);
/* Staging in the direction src to dst; where only the other direction was measured, that one. staged may be NULL. 0 not
 * measured. */
uint64_t p2s_score_staged(const struct p2s_pair *pair, const struct p2s_staged *staged);
/* 1 if the pair was measured and is no faster than staging through host memory. staged may be NULL. */
int32_t p2s_score_degraded(const struct p2s_pair *pair, const struct p2s_staged *staged);
/* 1 if NVML calls it NVLink and writes, measured, stay below what the PCIe link of its GPUs can carry: the name is not proven.
 */
int32_t p2s_score_not_nvlink(const struct p2s_model *m, const struct p2s_pair *pair);
/* Writes in thousandths of what their path can carry at the speed read under load, else at its maximum; -1 unknown. */
int32_t p2s_score_efficiency(const struct p2s_pair *pair, uint64_t limit_under_load);

/* The smallest size of the pair's table from which one transfer to the peer is sooner there than one through host memory, for
 * that size and every larger one that has both numbers. Where times are missing bytes per second count. 0: none. */
uint64_t p2s_score_wins_from(const struct p2s_pair *pair);

/* ---- score ----
 * Parts in thousandths; a number that was not measured adds nothing. */
#define P2S_SCORE_WRITE 400        /* best write, of the limit */
#define P2S_SCORE_READ 150         /* best read, of the limit */
#define P2S_SCORE_LOADED 150       /* write while all pairs write both ways, of the limit */
#define P2S_SCORE_GAIN 200         /* best write above staging: all of it at twice the speed */
#define P2S_SCORE_LATENCY 100      /* store and flag seen sooner than staging would deliver */
#define P2S_SCORE_DEGRADED_MAX 100 /* 1..100 no better than staging, 101..1000 OK */

/* 0: a required leg is not OK. 1..1000 as above: never higher for a worse number or verdict. -1: not measured (and not known to
 * be wrong). Uses pair->verdict and pair->limit_bytes_per_s; without a limit twice the staged speed stands for it. staged may
 * be NULL. */
int32_t p2s_score_pair(const struct p2s_pair *pair, const struct p2s_staged *staged);

#endif
