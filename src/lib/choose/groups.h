/* Groups of GPUs: which sets are safe, the best of a size, a partition into safe islands, an order. Pure.
 *
 * A group is safe when every pair of it is proven both ways. Everything here is exact while the work stays below P2S_GROUPS_WORK
 * steps, counted and not timed, so the same input always gives the same answer; eight GPUs never come near it. Beyond that the
 * best answer found so far is given, and exact is 0. Ties are broken in this order:
 *
 *   best group   the weakest pair (NVLink before PCIe, then score), fewest pairs across NUMA nodes, sum of the pairs, PCI order
 *   partition    most pairs inside islands, then sum of these pairs, fewest of them across NUMA nodes, PCI order
 *   order        most whole groups; each takes the partners best connected to its first GPU among those left
 */
#ifndef P2S_CHOOSE_GROUPS_H
#define P2S_CHOOSE_GROUPS_H

#include <stdint.h>

#include "core/model.h"

#define P2S_GROUPS_WORK 20000

/* What joins the GPUs of the group, as one consumer sees it. Bit i of a set is gpus[i] of the model. */
struct p2s_bonds {
	uint64_t group;                             /* everybody who is judged */
	uint64_t safe[P2S_MAX_GPUS];                /* bit b of safe[a]: proven both ways */
	uint64_t near[P2S_MAX_GPUS];                /* the same NUMA node */
	uint16_t value[P2S_MAX_GPUS][P2S_MAX_GPUS]; /* of a safe pair: higher is better; 0 not safe */
};

/* consumer 0: safe by the verdict of the pair. */
void p2s_groups_bonds(const struct p2s_model *m, int32_t consumer, struct p2s_bonds *b);
/* The same bonds with an edge only where keep(user, a, b) says 1. */
void p2s_groups_filter(struct p2s_bonds *b, int32_t (*keep)(const void *user, int32_t a, int32_t b), const void *user);
/* The best safe group of count (two or more) GPUs as a set, 0 if there is none. */
uint64_t p2s_groups_best(const struct p2s_bonds *b, int32_t count, int32_t *exact);
/* Disjoint safe islands that hold everybody, largest first, then by PCI order. Returns how many. */
int32_t p2s_groups_partition(const struct p2s_bonds *b, uint64_t islands[P2S_MAX_GPUS], int32_t *exact);
/* Everybody, so that each of the first n times count is a safe group of count; returns n. */
int32_t p2s_groups_order(const struct p2s_bonds *b, int32_t count, int32_t order[P2S_MAX_GPUS], int32_t *exact);

/* What is known about a set of two or more GPUs of the group: worst verdict, worst transport, score of the weakest pair (-1 not
 * measured). Returns 0 when the set is no part of the group. */
struct p2s_group_facts {
	int32_t verdict;
	int32_t transport;
	int32_t score;
};
int32_t p2s_groups_facts(const struct p2s_model *m, uint64_t set, struct p2s_group_facts *out);
/* 1 only if every pair of the set is proven both ways for this consumer. */
int32_t p2s_groups_allow(const struct p2s_model *m, uint64_t set, int32_t consumer);

#endif
