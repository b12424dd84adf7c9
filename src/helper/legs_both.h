/* Legs whose kernels on two GPUs wait for each other: both kernels are resident before either may start; a direction that is
 * alone has an idle role on the other side. */
#ifndef P2S_HELPER_LEGS_BOTH_H
#define P2S_HELPER_LEGS_BOTH_H

#include "helper/legs.h"

#define P2S_PACE_NS 2000 /* between two messages, so that the reader is waiting when one comes, not behind it */
#define P2S_LATE_TRIES 3 /* what came too late proves nothing, and a busy machine is no damage: again, so many times */

/* Up to two directions of one leg, whose kernels run together. trial[i] and lane[i] for i = 0: a>b, 1: b>a. */
struct p2s_both {
	struct p2s_lane lane[2];
	struct p2s_trial trial[2];
	uint64_t seed[2];
	unsigned dirs; /* bit i: that direction takes part */
	struct p2s_duo duo; /* chan[0] is a's, chan[1] is b's */
};

/* Simulated GPUs are threads: their message passing takes a thousand times longer and proves nothing about rates. */
int p2s_both_slow(const struct p2s_run *run);
/* 0: nothing can run. */
int p2s_both_open(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int32_t leg, struct p2s_both *x);
/* New keys, poison and seeds for the next variant of the leg. */
void p2s_both_rekey(struct p2s_both *x);
/* After a step that may have ended a direction: what ended one keeps nothing from being looked at in the other, unless a GPU is gone.
 * Returns 1 if any goes on. */
int p2s_both_goes_on(struct p2s_both *x);
/* The windows of all directions that go on poisoned by their owners. Returns 1 if any still goes on. */
int p2s_both_poison(struct p2s_both *x, uint64_t off, uint64_t len);
/* Runs the kernels. Returns 1 if both answers are there; else the trials are over. */
int p2s_both_run(struct p2s_both *x);
/* Directions whose trial still goes on. */
unsigned p2s_both_going(const struct p2s_both *x);
/* What passed outlives a further run of these directions that came to nothing (not resident together, out of time): before holds
 * the trials as they were. Damage, errors and GPUs that failed count. */
void p2s_both_keep(struct p2s_both *x, const struct p2s_trial before[2], unsigned dirs);
/* Sends the results. Returns 1 if all directions were OK. */
int p2s_both_end(struct p2s_both *x);

/* Bytes [at, at + len) of the window as its owner sees them now: wrong words under seed. -1: not known. */
int64_t p2s_both_misses(const struct p2s_lane *lane, uint64_t at, uint64_t len, uint64_t seed);
enum {
	P2S_BOTH_LATE = 1,  /* the trial is over only because its writer was late (p2s_judge_mp_late) */
	P2S_BOTH_BEHIND = 2 /* it goes on, but its reader came behind its writer (p2s_judge_mp_behind): one round counts */
};
/* Judges the reader of direction i against the slots of shape, asks the owner where that names the damage, and counts. writer may
 * be NULL (a copy engine wrote). Returns P2S_BOTH_* where more can be had. */
int p2s_both_judge(struct p2s_both *x, int i, struct p2s_mp_shape *shape, const struct p2s_op_answer *reader,
                   const struct p2s_op_answer *writer);
/* Opens directions (bits) once more, and only these take part from then on. Returns 0, and leaves them as they are, when
 * there are none, *left has come to 0 (begin with P2S_LATE_TRIES) or nothing may start any more. */
int p2s_both_once_more(struct p2s_both *x, unsigned late, int *left);

/* legs_message.c: messages both ways, pushed and pulled, for whoever opened the trials. */
void p2s_message_under_load(struct p2s_both *x);

/* legs_word.c: tearing, in two forms: the accessor stores and the owner looks; the owner stores and the accessor looks through the
 * window. Begin, one or both forms, end. */
int p2s_tear_begin(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, struct p2s_both *x);
void p2s_tear_form(struct p2s_both *x, int pull, uint32_t iters);
/* Many words, at the end of the window. Damage counts; a reader that was too slow to see both patterns takes nothing back from
 * what the form with few words showed. */
void p2s_tear_wide(struct p2s_both *x, int pull, uint32_t iters);
void p2s_tear_line(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs); /* 128 bytes, told only */
/* legs_flag.c */
void p2s_leg_ce_flag(struct p2s_run *run, uint32_t a, uint32_t b, int m);

#endif
