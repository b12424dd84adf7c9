/* Rounds of disjoint pairs: a round-robin tournament (circle method), and how they share a time. Pure. */
#ifndef P2S_HELPER_SCHEDULE_H
#define P2S_HELPER_SCHEDULE_H

#include <stdint.h>

/* Rounds needed so that every unordered pair of n meets once: n-1 for even n, n for odd n (one rests), 0 below 2. */
uint32_t p2s_schedule_rounds(uint32_t n);
/* Pair number i (0 .. n/2-1) of a round, a < b < n. Returns 1, or 0 when there is no such pair (the resting one). */
int p2s_schedule_pair(uint32_t n, uint32_t round, uint32_t i, uint32_t *a, uint32_t *b);
/* When the first of `parts` that are still to come should end, so that what is left until end_ns is split evenly: what it does
 * not use is for those behind it. */
uint64_t p2s_schedule_until(uint64_t now_ns, uint64_t end_ns, uint32_t parts);

#endif
