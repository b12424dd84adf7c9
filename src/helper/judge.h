/* From what a checker counted and sampled to a verdict and the name of the damage. Pure: no clock, no I/O, no driver. A name is
 * given only when at least eight words agree (or all, where fewer were hit); else the damage is `unknown`. */
#ifndef P2S_HELPER_JUDGE_H
#define P2S_HELPER_JUDGE_H

#include <stddef.h>
#include <stdint.h>

#include "core/word.h"
#include "helper/kernels.h"

#define P2S_JUDGE_AGREE 8
#define P2S_JUDGE_FEW 16 /* of so few rounds nobody can say who was faster */

/* A pattern that a piece of memory held at some time. */
struct p2s_pattern {
	uint64_t key;
	uint64_t seed;
};

/* What should be in the checked memory and what else might be. Offsets are bytes from the start of the handle. */
struct p2s_expect {
	struct p2s_pattern want; /* inside [in_begin, in_end) */
	uint64_t outside;        /* seed outside; also what was there before the transfer */
	int has_before;          /* 1: `outside` was stored everywhere before (poison); 0: `earlier` says what was there */
	uint64_t in_begin;
	uint64_t in_end;
	uint32_t src; /* accessor */
	uint32_t dst; /* owner */
	uint32_t leg;
	uint32_t gpus;
	uint64_t bytes;                    /* of the handle: decoded offsets beyond it are noise */
	const struct p2s_pattern *earlier; /* newest first; may be NULL */
	size_t earlier_count;
};

struct p2s_judgement {
	int32_t verdict; /* P2PSAFE_VERDICT_* */
	int32_t damage;  /* P2PSAFE_DAMAGE_* */
	int32_t has_detail;
	uint64_t offset;
	uint64_t expected;
	uint64_t found;
	const char *note; /* a short remark or "" */
	int64_t moved;    /* shifted, aliased: bytes from where words belong to where they lie */
	uint64_t bits;    /* bit_error: all bits that were wrong in some word */
	char said[96];    /* what the samples say beyond the name; "": nothing, then note counts */
};

/* The word that belongs at byte offset off (multiple of 8), borders included. */
uint64_t p2s_judge_word(const struct p2s_expect *e, uint64_t off);
/* As p2s_word_decode, for the words of this transfer: where it takes them from another place of its source, their offsets are
 * those of their places in the target. */
int p2s_judge_decode(const struct p2s_expect *e, uint64_t found, struct p2s_tag *tag);
/* One wrong word. */
int32_t p2s_judge_name(const struct p2s_expect *e, uint64_t off, uint64_t found);
/* The answer of CHECK, and of closer looks at other places of the same range. samples holds count entries. */
void p2s_judge_check(const struct p2s_expect *e, uint64_t bad_words, uint64_t first_bad, const struct p2s_sample *samples,
                     size_t count, struct p2s_judgement *out);

/* By how much, at which power of two, which bits: makes `aliased` of `shifted` where it must, and fills said. judge.c calls it. */
void p2s_judge_say(const struct p2s_expect *e, const struct p2s_sample *samples, size_t count, struct p2s_judgement *out);

/* A message-passing reader. */
struct p2s_mp_shape {
	uint64_t rounds;
	uint64_t words;
	uint64_t slot_bytes;
	uint64_t flag_off;
	int pull;       /* the reader looked through the window */
	int own_flags;  /* p2s_ll: words carry their flags, flag_off means nothing */
	uint32_t mode;  /* P2S_LL_* */
	int owner_good; /* after a time-out: 1 the memory itself holds payload and flag of the round that stalled (words with
	                   their own flags: the first of them), 0 not, -1 not known. After a wrong payload: 1 it came in the
	                   end, 0 never, -1 not known */
};

/* e->want.seed has epoch 0; e->outside is the poison the slots held before. writer may be NULL (a copy engine wrote). */
void p2s_judge_mp(const struct p2s_expect *e, const struct p2s_mp_shape *shape, const struct p2s_role_result *writer,
                  const struct p2s_role_result *reader, struct p2s_judgement *out);
/* 1 if the reader may have given up before its writer got its GPU: what it waited for is there now. Proves nothing; once more
 * may. */
int p2s_judge_mp_late(const struct p2s_mp_shape *shape, const struct p2s_role_result *writer,
                      const struct p2s_role_result *reader);
/* 1 if the reader came behind its writer: most of its messages lay there before it looked, which proves less of their order. */
int p2s_judge_mp_behind(uint64_t rounds, const struct p2s_role_result *writer, const struct p2s_role_result *reader);
/* What p2s_ll stores under seed (with the round's epoch) at byte offset off of the slots. */
uint64_t p2s_judge_own_flag(const struct p2s_mp_shape *shape, uint64_t seed, uint64_t off);
/* A tearing reader: words 0..words-1 alternate between seed_a and seed_b. */
void p2s_judge_tear(uint64_t seed_a, uint64_t seed_b, const struct p2s_role_result *writer,
                    const struct p2s_role_result *reader, struct p2s_judgement *out);
/* 1 if once more may say something else: the reader saw one pattern only, or may have given up before the writer ended. What the
 * last look said counts. */
int p2s_judge_tear_again(const struct p2s_role_result *writer, const struct p2s_role_result *reader,
                         const struct p2s_judgement *j);
/* Two counters that two GPUs incremented at once, the first by adding, the second by compare-and-swap. start, end: the words
 * before and after; far, near: how many increments the accessor and the owner report. */
void p2s_judge_atomic(const uint64_t start[2], const uint64_t end[2], const uint64_t far[2], const uint64_t near[2],
                      uint64_t off, struct p2s_judgement *out);
/* 95% upper bound of the error rate after that many clean independent rounds, in parts per 10^9 (rule of three), rounded up. */
uint64_t p2s_judge_bound_ppb(uint64_t rounds);

#endif
