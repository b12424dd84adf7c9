/* What all legs share: a lane (directed pair over one mapping), a trial (one leg being run), and the steps that legs are made
 * of. Every step returns 1 to go on and 0 when the trial is over; the verdict is then in trial->out. */
#ifndef P2S_HELPER_LEGS_H
#define P2S_HELPER_LEGS_H

#include "helper/conductor.h"

struct p2s_lane {
	struct p2s_run *run;
	uint32_t a; /* accessor */
	uint32_t b; /* owner */
	int m;
	struct p2s_chan *acc;
	struct p2s_chan *own;
	uint32_t win_acc; /* the window as the accessor names it */
	uint32_t win_own; /* the same memory as its owner names it */
	uint32_t loc_acc; /* local memory of the accessor */
	uint64_t bytes;
	int kernels; /* both have them; else only copy engines can be tested */
};

#define P2S_SPANS 16

struct p2s_span { /* bytes of the window that were moved and checked */
	uint64_t begin;
	uint64_t end;
};

struct p2s_trial {
	const struct p2s_lane *lane;
	struct p2s_span span[P2S_SPANS]; /* apart from each other */
	size_t spans;
	uint64_t reach; /* the largest count of bytes that one variant touched, where pieces are too many to list */
	struct p2s_lib_leg out;
	uint64_t key;
	uint64_t poison;    /* seed */
	uint32_t epoch;     /* of the last transfer */
	uint64_t device_ns; /* of the last transfer */
	uint64_t wall_ns;
	int over;
	int quiet; /* first contact: only a failure is reported, for a pass means little */
	int unheard; /* nobody is told its verdict, so it does not tell what ended a worker in it; only the accessor works in it */
};

/* How bytes are moved. */
enum p2s_engine {
	P2S_BY_STORE,         /* p2s_fill through the window */
	P2S_BY_CE_WRITE,      /* cuMemcpyAsync, local to window */
	P2S_BY_CE_WRITE_PEER, /* cuMemcpyPeerAsync */
	P2S_BY_LOAD,          /* p2s_load mode 0: plain 16-byte loads */
	P2S_BY_LOAD_RELAXED,  /* mode 1 */
	P2S_BY_LOAD_ACQUIRE,  /* mode 2 */
	P2S_BY_CE_READ,
	P2S_BY_CE_READ_PEER
};

static inline int p2s_engine_reads(enum p2s_engine e)
{
	return e >= P2S_BY_LOAD;
}

static inline int p2s_lane_can(const struct p2s_lane *lane, enum p2s_engine by)
{
	return lane->kernels || by == P2S_BY_CE_WRITE || by == P2S_BY_CE_WRITE_PEER || by == P2S_BY_CE_READ ||
	       by == P2S_BY_CE_READ_PEER;
}

/* 1 if the mapping can be used a>b and both GPUs still take part. */
int p2s_lane_open(struct p2s_run *run, uint32_t a, uint32_t b, int m, struct p2s_lane *lane);
int p2s_lane_alive(const struct p2s_lane *lane);
/* 1 if another leg may start now: not stopped, time left. */
int p2s_run_may_start(struct p2s_run *run);

/* 1 if the legs after first contact may run a>b now: its own first contact was clean, and, unless asked to keep going, so was
 * the way back, no leg of either failed, and no pair on this host was CORRUPT (pairs on NVLink do not care about others). */
int p2s_run_may_test(struct p2s_run *run, uint32_t a, uint32_t b);

/* A new key for this leg; the verdict is UNTESTED until a step says otherwise. */
void p2s_trial_begin(struct p2s_trial *t, const struct p2s_lane *lane, int32_t leg);
void p2s_trial_rekey(struct p2s_trial *t); /* the same with what was counted so far */
uint64_t p2s_trial_seed(struct p2s_trial *t); /* seed of the next epoch */
/* Judges a call that did not answer OK. Always returns 0. */
int p2s_trial_fail(struct p2s_trial *t, struct p2s_chan *chan, const struct p2s_op_answer *answer);
/* Takes over a judgement that is not OK. Returns 1 if it is OK. */
int p2s_trial_judged(struct p2s_trial *t, const struct p2s_judgement *j);
/* Sends the result: OK if no step ended the trial. Returns 1 if OK. */
int p2s_trial_end(struct p2s_trial *t);
void p2s_trial_expect(const struct p2s_trial *t, uint64_t seed, uint64_t in_off, uint64_t in_len, int poisoned,
                      struct p2s_expect *e);

int p2s_step_fill(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed);
/* Two fills at once on the two channels of the lane. len 0: none there. */
int p2s_step_prepare(struct p2s_trial *t, uint32_t own_buf, uint64_t own_off, uint64_t own_len, uint64_t own_seed,
                     uint32_t acc_buf, uint64_t acc_off, uint64_t acc_len, uint64_t acc_seed);
/* Judges the answer of a check of [off, off + len) of buf, after closer looks where something is wrong. */
int p2s_step_judge(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                   const struct p2s_op_answer *answer, const struct p2s_expect *e);
int p2s_step_check(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                   const struct p2s_expect *e);
/* Moves [off, off+len) by the engine; seed is what P2S_BY_STORE stores. */
int p2s_step_move(struct p2s_trial *t, enum p2s_engine by, uint64_t off, uint64_t len, uint64_t seed);
/* Counts [off, off + len) as covered, once. More pieces than P2S_SPANS are not claimed. */
void p2s_trial_cover(struct p2s_trial *t, uint64_t off, uint64_t len);
/* One whole transfer of [in_off, in_off+in_len) with the next epoch: prepare, move, check of [off, off+len). poison 0: the
 * destination keeps what the transfer before left there. */
int p2s_step_transfer(struct p2s_trial *t, enum p2s_engine by, uint64_t off, uint64_t len, uint64_t in_off, uint64_t in_len,
                      int poison);
/* The whole window [0, len) by stores or copies of the accessor, some times over, with fresh poison, in chunks: while one moves, the
 * owner checks the one before and poisons the next. legs_stream.c. */
int p2s_step_stream(struct p2s_trial *t, enum p2s_engine by, uint64_t len);
/* 1 if the engine can do that, and len bytes are more than one chunk. */
int p2s_stream_pays(const struct p2s_lane *lane, enum p2s_engine by, uint64_t len);
/* Hands win_own of len bytes to the accessor, which maps it as win_acc. Returns NULL, or the channel that failed, with its
 * answer. legs_again.c. */
struct p2s_chan *p2s_lane_take(const struct p2s_lane *lane, uint64_t len, struct p2s_op_answer *answer);
/* 1 if an allocation or a mapping found no room: memory, or an aperture, that others use. It may be there again when a framework
 * asks, and is nobody's fault. */
int p2s_no_room(const struct p2s_op_answer *answer);
/* Frees or unmaps a buffer; a worker that is gone has none. */
void p2s_chan_release(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf);
/* Memory of its own for the trial, freed, made again, and used each time: legs_again.c. */
int p2s_step_again(struct p2s_trial *t);
/* Remembers what a window held. */
void p2s_lane_remember(const struct p2s_lane *lane, uint64_t key, uint64_t seed);

/* Runs waiting kernels on up to two channels: arm, post, wait for ready (mask bits per channel), go. Posts extra (may be NULL)
 * on extra_chan after go. Fills answers. Returns 1 when all were resident, 0 when not (then they were told to stop). */
struct p2s_duo {
	struct p2s_chan *chan[2];
	struct p2s_op_request req[2];
	struct p2s_op_answer answer[2];
	unsigned mask[2];
	int count;
	struct p2s_chan *extra_chan;
	struct p2s_op_request extra;
	struct p2s_op_answer extra_answer;
};
int p2s_duo_run(struct p2s_run *run, struct p2s_duo *duo);
const struct p2s_role_result *p2s_duo_role(const struct p2s_op_answer *answer, int role, struct p2s_role_result *out);

/* A GPU whose engine did not come back: nothing more runs on it, its worker is killed. */
void p2s_run_wedged(struct p2s_run *run, const struct p2s_chan *chan, uint32_t a, uint32_t b, const char *what);
/* CUresults after which the device, not only a context, is in doubt. */
int p2s_run_is_lost(int32_t cuda_error);
/* A GPU that failed at work on its own memory, without a peer: the channel is asked for nothing more; a lost device or an
 * engine that did not come back ends the GPU. */
void p2s_run_own_failed(struct p2s_run *run, struct p2s_chan *chan, const struct p2s_op_answer *answer);
/* A GPU whose own way to or from host memory gave an error: is the device lost, or the context? Else it is no more than that. */
void p2s_run_link_failed(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf, const struct p2s_op_answer *answer);
/* Takes a GPU out of the run. Returns 0 if it was out already: the first reason stays. state 0: nothing is known to be wrong
 * with it. */
int p2s_run_drop_gpu(struct p2s_run *run, uint32_t gpu, int32_t state, const char *error);
/* How many bytes of cap the engine moves in budget_ns, from the time of the trial's last transfer of `probe` bytes. At least
 * 1 MiB where cap allows, a multiple of 64 KiB. */
uint64_t p2s_trial_bytes(const struct p2s_trial *t, uint64_t probe, uint64_t budget_ns, uint64_t cap);
uint64_t p2s_run_key(struct p2s_run *run, uint32_t a, uint32_t b, int32_t leg, int m);
#define P2S_WAIT_NS (200 * P2S_MS)  /* longest wait of a kernel from go on */
#define P2S_FIRST_NS (100 * P2S_MS) /* likewise when there is one message */
/* How long the engine has for a kernel that waits at most wait_ns. */
uint64_t p2s_run_engine_ns(const struct p2s_run *run, uint64_t wait_ns);

/* legs_message.c, also used by first contact. dirs: bit 0 a>b, bit 1 b>a, both resident at once. */
enum {
	P2S_MESSAGE_ALL = 0,  /* every form */
	P2S_MESSAGE_ONE = 1,  /* one message */
	P2S_MESSAGE_QUIET = 2 /* one, and only a failure is told */
};
int p2s_leg_message(struct p2s_run *run, uint32_t a, uint32_t b, int m, unsigned dirs, int pull, int first);
int p2s_leg_atomics(struct p2s_run *run, uint32_t a, uint32_t b, int m, uint32_t count, int quiet);
/* Reports legs that did not run. */
void p2s_legs_untested(struct p2s_run *run, uint32_t a, uint32_t b, int m, int32_t leg, int32_t verdict, int32_t cuda_error,
                       const char *note);

#endif
