/* Canaries of first contact: the first bytes of every buffer, while nobody uses it. legs_canary.c. */
#ifndef P2S_HELPER_LEGS_CANARY_H
#define P2S_HELPER_LEGS_CANARY_H

#include "helper/legs.h"

#define P2S_CANARY_BYTES (64 * P2S_KIB)
/* Which buffers, as bits. */
#define P2S_CANARY_PEER (1u << P2S_B_PEER)
#define P2S_CANARY_GPU (1u << P2S_B_CUMEM | 1u << P2S_B_PLAIN)
#define P2S_CANARY_ALL (P2S_CANARY_GPU | P2S_CANARY_PEER)
#define P2S_CANARY_TRACES 8

/* A leg of this contact that stored into a window, and its key. */
struct p2s_canary_trace {
	struct p2s_lane lane;
	int32_t leg;
	uint64_t key;
};

/* What a contact leaves to be looked at when it is over, or before memory is used again: where else did its bytes arrive?
 * Memory of the peer workers belongs to other contexts, and a GPU takes 150 to 300 us to change between two (measured on 2x
 * H200), so it is looked at when they have their turn. */
struct p2s_canary_later {
	struct p2s_canary_trace trace[P2S_CANARY_TRACES];
	size_t count;
};

/* The number of the buffers that mapping m is tested with. */
uint32_t p2s_canary_buffer(int m);
/* Of all buffers. */
void p2s_canary_set(struct p2s_run *run);
/* What a lane used on both its GPUs, both at once. */
void p2s_canary_restore(struct p2s_run *run, uint32_t a, uint32_t b, uint32_t number);
/* After damage, on all GPUs. */
void p2s_canary_renew(struct p2s_run *run);
/* copied: by an engine, from memory of the accessor. numbers: of the buffers, as bits. later: whose bytes they may be, and
 * memory that nobody uses now; NULL: the trial's.
 * Looks for bytes of the leg in memory that it was not meant for. All GPUs look at once. Returns 1 if all canaries are well;
 * else the trial is CORRUPT, misdirected when the stray words say so, or UNTESTED when a GPU could not look. */
int p2s_canary_look(struct p2s_trial *t, int copied, unsigned numbers, const struct p2s_canary_later *later);
/* The trial is one of those whose bytes are looked for later. later may be NULL. */
void p2s_canary_note(struct p2s_canary_later *later, const struct p2s_trial *t);
/* Looks at these buffers of all GPUs, none of which is in use now. Returns 1 if nothing was found. */
int p2s_canary_look_later(const struct p2s_canary_later *later, unsigned numbers);

#endif
