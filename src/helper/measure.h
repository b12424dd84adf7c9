/* Measuring, the last phase: only directed pairs whose legs were all OK, round by round of disjoint pairs. Each number
 * comes from transfers whose last payload was checked; what is wrong there vetoes the pair like any leg under load.
 *
 * measure.c has the order of things, measure_crowd.c what runs on many channels at once, measure_way.c speeds and latencies of
 * directed pairs, measure_host.c host links and the staged path. */
#ifndef P2S_HELPER_MEASURE_H
#define P2S_HELPER_MEASURE_H

#include "helper/legs.h"

#define P2S_CROWD (2 * P2S_MAX_GPUS)

enum { P2S_WAY_CE_WRITE, P2S_WAY_CE_READ, P2S_WAY_SM_STORE, P2S_WAY_SM_LOAD, P2S_WAY_KINDS };

/* A directed pair that may be measured. */
struct p2s_mlane {
	struct p2s_lane lane;
	struct p2s_trial trial;
	int ok;             /* its legs were OK, and nothing went wrong since */
	int shared;         /* slower in a round than it is alone */
	uint64_t rate;      /* bytes/s by the last look, to size what comes */
	uint64_t way[P2S_WAY_KINDS];
	uint64_t loaded;
};

struct p2s_measure {
	struct p2s_run *run;
	uint32_t gpu[P2S_MAX_GPUS]; /* run's indices of those that take part */
	uint32_t n;
	int peers;        /* the peer worker was made ready, too */
	uint64_t ready_ns; /* what it took to make the others ready */
	int played;       /* a simulated machine: its clock is a model, so one sample says all */
	uint64_t end_ns;  /* nothing is begun after this, */
	uint64_t part_ns; /* and nothing of the round at work after this */
	uint64_t model_ns; /* what the GPUs needed by their own clocks, one crowd after the other */
	uint32_t party;
	int inited[P2S_CHAN_KINDS][P2S_MAX_GPUS]; /* by run's index: ready to measure */
	int ring[P2S_MAX_GPUS];                   /* its ring is mapped */
	int ring_fd[P2S_MAX_GPUS];
	uint64_t alone[P2PSAFE_PATH_SYS + 1]; /* copy-engine writes of the first pair of this path class, alone */
	struct p2s_mlane *lanes;  /* n * n, [from * n + to] */
	struct p2s_mlane *inside; /* likewise, over memory mapped within one process; ok: there, and not what lanes has */
};

/* One request on each of many channels, at once. A channel occurs once. */
struct p2s_crowd_item {
	struct p2s_chan *chan;
	struct p2s_op_request req;
	struct p2s_op_answer answer;
};

struct p2s_crowd {
	unsigned ready; /* which ready words say that an item may be let go; 0: no gate, all just run */
	void (*meanwhile)(struct p2s_run *run); /* called while the gates are open; NULL nothing */
	uint32_t count;
	struct p2s_crowd_item item[P2S_CROWD];
};

/* A fresh item, or NULL: the crowd is full. */
struct p2s_crowd_item *p2s_crowd_add(struct p2s_crowd *crowd, struct p2s_chan *chan, uint32_t op);
/* Runs them all and waits for all. Gated ones get a party number of their own. Returns 1 when all gates were opened. */
int p2s_crowd_run(struct p2s_measure *m, struct p2s_crowd *crowd);

/* 1 if something may still be begun. */
int p2s_measure_may(struct p2s_measure *m);
void p2s_measure_tell(struct p2s_measure *m, uint32_t src, uint32_t dst, int32_t kind, uint64_t value, uint64_t bytes);
/* Makes the channels of one kind ready to measure, all at once. */
void p2s_measure_init(struct p2s_measure *m, int kind);
struct p2s_mlane *p2s_measure_lane(struct p2s_measure *m, uint32_t from, uint32_t to);
/* A lane did wrong under measuring: its trial is over. Tells the leg, and measures it no more. */
void p2s_measure_spoilt(struct p2s_mlane *l);

/* measure_way.c. lanes: of disjoint pairs, one per pair, or all of a round. */
void p2s_measure_speeds(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
/* Pairs that were slower beside the others than such a pair is alone: once more, alone. */
void p2s_measure_apart(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
/* All lanes both ways at once. */
void p2s_measure_loaded(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
void p2s_measure_latencies(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
/* lanes: one, its way back, another, ... */
void p2s_measure_pongs(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
void p2s_measure_rows(struct p2s_measure *m, struct p2s_mlane *const *lanes, uint32_t count);
/* All others to one GPU, and from it. */
void p2s_measure_star(struct p2s_measure *m, uint32_t index);

/* measure_host.c */
void p2s_measure_host_links(struct p2s_measure *m);
/* The staged path of the pairs of one round: pair[2i], pair[2i + 1] are indices of m->gpu. */
void p2s_measure_staged(struct p2s_measure *m, const uint32_t *pair, uint32_t pairs);
void p2s_measure_host_end(struct p2s_measure *m);

#endif
