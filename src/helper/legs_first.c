/* First contact: one directed pair at a time on the whole host, a few bytes, everything else poisoned and looked at. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/word.h"
#include "helper/legs.h"

#define AREA (64 * P2S_KIB) /* poisoned and checked around the first bytes, and looked at on every other GPU */
#define FIRST_OFF (8 * P2S_KIB)
#define FIRST_BYTES 128 /* one warp */
#define SETTLE_NS 150000000 /* 5 times what the latest writes of the shadow window take */
#define SECOND_OFF (16 * P2S_KIB)
#define SECOND_BYTES (4 * P2S_KIB)
#define BUFFERS_PEER (1u << P2S_B_PEER)
#define BUFFERS_GPU (1u << P2S_B_CUMEM | 1u << P2S_B_PLAIN)
#define BUFFERS_ALL (BUFFERS_GPU | BUFFERS_PEER)

/* What lies in the first AREA of every buffer while nobody uses it. */
static uint64_t canary_seed(const struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return p2s_seed(p2s_mix(run->ask.nonce ^ 0xca), gpu, gpu, 0, number);
}

static uint32_t number_of(int m)
{
	return m == P2S_M_CUMEM ? P2S_B_CUMEM : m == P2S_M_IPC ? P2S_B_PLAIN : P2S_B_PEER;
}

static struct p2s_chan *channel_of(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return &run->gpu[gpu].chan[number == P2S_B_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU];
}

static int has_buffer(const struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return run->gpu[gpu].bytes[number] >= AREA && !atomic_load(&run->gpu[gpu].out);
}

static void set_canary(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = P2S_BUF(gpu, number), .len = AREA};
	struct p2s_op_answer answer;

	req.seed = canary_seed(run, gpu, number);
	if (has_buffer(run, gpu, number))
		p2s_chan_call(run, channel_of(run, gpu, number), &req, &answer);
}

/* What a lane used on both its GPUs, both at once. */
static void restore_canaries(struct p2s_run *run, uint32_t a, uint32_t b, uint32_t number)
{
	uint32_t gpus[2] = {a, b};
	struct p2s_op_answer answer;
	int posted[2] = {0};

	for (int i = 0; i < 2; i++) {
		struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = P2S_BUF(gpus[i], number), .len = AREA};

		req.seed = canary_seed(run, gpus[i], number);
		posted[i] = has_buffer(run, gpus[i], number);
		if (posted[i])
			p2s_chan_post(run, channel_of(run, gpus[i], number), &req, -1);
	}
	for (int i = 0; i < 2; i++)
		if (posted[i])
			p2s_chan_wait(run, channel_of(run, gpus[i], number), &answer, NULL);
}

static void set_canaries_task(struct p2s_run *run, uint32_t gpu, int kind)
{
	if (kind == P2S_CHAN_PEER) {
		set_canary(run, gpu, P2S_B_PEER);
		return;
	}
	set_canary(run, gpu, P2S_B_CUMEM);
	set_canary(run, gpu, P2S_B_PLAIN);
}

/* After damage: what went astray may lie on any GPU, or still be on its way there. Looking first makes it land before the fill,
 * so that the next pair is not blamed for it. */
static void renew_canary(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	struct p2s_op_request req = {.op = P2S_OP_CHECK, .buf = P2S_BUF(gpu, number), .len = AREA, .in_len = AREA};
	struct p2s_op_answer answer;

	req.seed = req.seed2 = canary_seed(run, gpu, number);
	if (has_buffer(run, gpu, number))
		p2s_chan_call(run, channel_of(run, gpu, number), &req, &answer);
	set_canary(run, gpu, number);
}

/* Bytes of a damaged direction may be on their way for a while after everything was reported done: the next direction that uses the
 * same memory must not be blamed for them. */
static void settle(void)
{
	struct timespec ts = {.tv_nsec = SETTLE_NS};

	nanosleep(&ts, NULL);
}

static void renew_canaries_task(struct p2s_run *run, uint32_t gpu, int kind)
{
	if (kind == P2S_CHAN_PEER) {
		renew_canary(run, gpu, P2S_B_PEER);
		return;
	}
	renew_canary(run, gpu, P2S_B_CUMEM);
	renew_canary(run, gpu, P2S_B_PLAIN);
}

/* A leg of this contact that stored into a window, and its key. */
struct trace {
	struct p2s_lane lane;
	int32_t leg;
	uint64_t key;
};

#define TRACES 8

/* What a contact leaves to be looked at when it is over, or before memory is used again: where else did its bytes arrive? Memory
 * of the peer workers belongs to other contexts, and a GPU takes 150 to 300 us to change between two (measured on 2x H200), so it
 * is looked at when they have their turn. */
struct later {
	struct trace trace[TRACES];
	size_t count;
};

static void note_trace(struct later *later, const struct p2s_trial *t)
{
	if (later != NULL && later->count < TRACES)
		later->trace[later->count++] = (struct trace){.lane = *t->lane, .leg = t->out.leg, .key = t->key};
}

/* How many of the samples are words under this key; *move: how far the first of them is from its place. */
static size_t words_of(const struct p2s_run *run, const struct p2s_lane *lane, uint64_t key, const struct p2s_sample *samples,
                       size_t count, int64_t *move)
{
	size_t agree = 0;

	for (size_t i = 0; i < count; i++) {
		struct p2s_tag tag;

		if (!p2s_word_decode(samples[i].found, key, lane->bytes / 8, run->n, &tag))
			continue;
		*move = agree == 0 ? (int64_t)(samples[i].offset - tag.offset * 8) : *move;
		agree++;
	}
	return agree;
}

/* later: not NULL: several legs may have done it. The trial becomes that of the one whose words they are. */
static void blame(struct p2s_trial *t, const struct later *later, const struct p2s_sample *samples, size_t count)
{
	const struct p2s_run *run = t->lane->run;
	int64_t move = 0;

	for (size_t i = 0; later != NULL && i < later->count; i++) {
		const struct trace *trace = &later->trace[i];

		if (words_of(run, &trace->lane, trace->key, samples, count, &move) == 0)
			continue;
		p2s_trial_begin(t, &trace->lane, trace->leg);
		t->quiet = 1;
		t->key = trace->key;
		return;
	}
}

/* What lies in the memory of GPU g where it does not belong: bytes of this transfer when at least eight words say so. */
static void stray(struct p2s_trial *t, uint32_t g, uint32_t number, const struct p2s_sample *samples, size_t count)
{
	const struct p2s_run *run = t->lane->run;
	int64_t move = 0;
	size_t agree = words_of(run, t->lane, t->key, samples, count, &move);

	t->over = 1;
	t->out.verdict = P2PSAFE_VERDICT_CORRUPT;
	t->out.damage = agree > 0 && agree >= (count < P2S_JUDGE_AGREE ? count : P2S_JUDGE_AGREE) ? P2PSAFE_DAMAGE_MISDIRECTED
	                                                                                          : P2PSAFE_DAMAGE_UNKNOWN;
	if (count > 0) {
		t->out.has_detail = 1;
		t->out.offset = samples[0].offset;
		t->out.expected = p2s_word(canary_seed(run, g, number), samples[0].offset / 8);
		t->out.found = samples[0].found;
	}
	if (move != 0)
		snprintf(t->out.note, sizeof t->out.note, "bytes appeared in memory of %s, %lld bytes %s", run->gpu[g].address,
		         (long long)(move < 0 ? -move : move), move < 0 ? "before their place" : "behind their place");
	else
		snprintf(t->out.note, sizeof t->out.note, "bytes appeared in memory of %s", run->gpu[g].address);
}

/* copied: by an engine, from memory of the accessor. numbers: of the buffers, as bits. later: whose bytes they may be, and memory
 * that nobody uses now; NULL: the trial's.
 * Looks for bytes of the leg in memory that it was not meant for. All GPUs look at once. Returns 1 if all canaries are well;
 * else the trial is CORRUPT, misdirected when the stray words say so. */
static int canaries_well(struct p2s_trial *t, int copied, unsigned numbers, const struct later *later)
{
	struct p2s_run *run = t->lane->run;
	int well = 1;

	for (uint32_t number = P2S_B_CUMEM; number <= P2S_B_PEER; number++) {
		int posted[P2S_MAX_GPUS] = {0};

		for (uint32_t i = 0; i < run->tested_count; i++) {
			uint32_t g = run->tested[i];
			struct p2s_op_request req = {.op = P2S_OP_CHECK, .buf = P2S_BUF(g, number), .len = AREA, .in_len = AREA};

			if ((numbers & 1u << number) == 0 || !has_buffer(run, g, number) ||
			    (later == NULL && g == t->lane->b && number == number_of(t->lane->m)) ||
			    (later == NULL && copied && g == t->lane->a && number == number_of(t->lane->m)))
				continue;
			req.seed = req.seed2 = canary_seed(run, g, number);
			p2s_chan_post(run, channel_of(run, g, number), &req, -1);
			posted[g] = 1;
		}
		for (uint32_t i = 0; i < run->tested_count; i++) {
			uint32_t g = run->tested[i];
			struct p2s_op_answer answer;
			struct p2s_sample samples[P2S_SAMPLES];
			size_t count;

			if (!posted[g] || p2s_chan_wait(run, channel_of(run, g, number), &answer, NULL) != P2S_RC_OK ||
			    answer.bad_words == 0)
				continue;
			if (!well) { /* the first one names it */
				set_canary(run, g, number);
				continue;
			}
			well = 0;
			count = answer.samples_len / sizeof samples[0];
			count = count < P2S_SAMPLES ? count : P2S_SAMPLES;
			memcpy(samples, answer.samples, count * sizeof samples[0]);
			blame(t, later, samples, count);
			stray(t, g, number, samples, count);
			set_canary(run, g, number);
		}
	}
	return well;
}

/* The accessor reads back through the window what it stored there while the owner does not have it: this names a mirror, it
 * never clears one. */
static void name_mirror(struct p2s_trial *t, uint64_t seed, uint64_t off, uint64_t len)
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_request load = {.op = P2S_OP_LOAD, .buf = lane->loc_acc, .buf2 = lane->win_acc, .off = off, .len = len};
	struct p2s_op_request check = {.op = P2S_OP_CHECK,
	                               .buf = lane->loc_acc,
	                               .off = off,
	                               .len = len,
	                               .in_off = off,
	                               .in_len = len,
	                               .seed = seed,
	                               .seed2 = seed};
	struct p2s_op_answer answer;

	if (!lane->kernels || !p2s_lane_alive(lane))
		return;
	if (p2s_chan_call(lane->run, lane->acc, &load, &answer) != P2S_RC_OK ||
	    p2s_chan_call(lane->run, lane->acc, &check, &answer) != P2S_RC_OK || answer.bad_words != 0)
		return;
	/* The window shows them. So it does when they came after the owner had looked: a mirror is what the owner never gets. */
	check.buf = lane->win_own;
	if (!p2s_lane_alive(lane) || p2s_chan_call(lane->run, lane->own, &check, &answer) != P2S_RC_OK)
		return;
	if (answer.bad_words != 0)
		t->out.damage = P2PSAFE_DAMAGE_MIRROR;
	else
		snprintf(t->out.note, sizeof t->out.note, "the bytes came after the store was reported done");
}

static int32_t first_leg(const struct p2s_lane *lane)
{
	return lane->kernels ? P2PSAFE_LEG_SM_STORE : P2PSAFE_LEG_CE_WRITE;
}

/* Looks at these buffers of all GPUs, none of which is in use now. Returns 1 if nothing was found. */
static int look_later(const struct later *later, unsigned numbers)
{
	struct p2s_trial t;

	if (later->count == 0)
		return 1;
	p2s_trial_begin(&t, &later->trace[0].lane, later->trace[0].leg);
	t.quiet = 1;
	t.key = later->trace[0].key;
	canaries_well(&t, 0, numbers, later);
	return p2s_trial_end(&t);
}

/* One warp stores; without kernels the copy engine writes. around: also when the bytes arrived, memory of the workers at work that
 * they were not meant for is looked at before anything else is tried. Returns 1 if clean. */
static int first_store(const struct p2s_lane *lane, int around, struct later *later)
{
	int copied = !lane->kernels;
	struct p2s_trial t;
	uint64_t seed;
	struct p2s_expect e;
	int stored;

	p2s_trial_begin(&t, lane, first_leg(lane));
	t.quiet = 1;
	note_trace(later, &t);
	seed = p2s_trial_seed(&t);
	stored = p2s_step_fill(&t, lane->own, lane->win_own, 0, AREA, t.poison) &&
	         (!copied || p2s_step_fill(&t, lane->acc, lane->loc_acc, FIRST_OFF, FIRST_BYTES, seed)) &&
	         p2s_step_move(&t, copied ? P2S_BY_CE_WRITE : P2S_BY_STORE, FIRST_OFF, FIRST_BYTES, seed);
	p2s_trial_expect(&t, seed, FIRST_OFF, FIRST_BYTES, 1, &e);
	if (stored && p2s_step_check(&t, lane->own, lane->win_own, 0, AREA, &e)) {
		if (around)
			canaries_well(&t, copied, number_of(lane->m) == P2S_B_PEER ? BUFFERS_ALL : BUFFERS_GPU, NULL);
	} else if (stored && t.out.verdict == P2PSAFE_VERDICT_CORRUPT && canaries_well(&t, copied, BUFFERS_ALL, NULL)) {
		name_mirror(&t, seed, FIRST_OFF, FIRST_BYTES);
	}
	return p2s_trial_end(&t);
}

/* Did the step before make an IOMMU complain? That is as bad as wrong bytes, also where the bytes are right. */
static int fault_logged(const struct p2s_lane *lane)
{
	p2s_klog_drain(lane->run);
	return atomic_load(&p2s_run_way(lane->run, lane->a, lane->b)->fault);
}

static int small_leg(const struct p2s_lane *lane, int32_t leg, enum p2s_engine by, uint64_t bytes, struct later *later)
{
	struct p2s_trial t;

	p2s_trial_begin(&t, lane, leg);
	t.quiet = 1;
	if (!p2s_engine_reads(by))
		note_trace(later, &t);
	p2s_step_transfer(&t, by, 0, AREA, SECOND_OFF, bytes, 1);
	/* What did not arrive may have arrived elsewhere. */
	if (t.out.damage == P2PSAFE_DAMAGE_DROPPED && !p2s_engine_reads(by))
		canaries_well(&t, by != P2S_BY_STORE, BUFFERS_ALL, NULL);
	return p2s_trial_end(&t) && !fault_logged(lane);
}

/* All of first contact over the first mapping. Returns 1 if clean. */
static int whole_contact(const struct p2s_lane *lane, struct later *later)
{
	struct p2s_run *run = lane->run;

	int clean = first_store(lane, 1, later);
	int fault = fault_logged(lane);

	if (!clean || fault) {
		/* One message more, to name the damage: does a flag come through at all? */
		if ((fault ||
		     p2s_run_way(run, lane->a, lane->b)->verdict[P2PSAFE_LEG_SM_STORE][lane->m] == P2PSAFE_VERDICT_CORRUPT) &&
		    lane->kernels && p2s_run_may_start(run) && p2s_lane_alive(lane))
			p2s_leg_message(run, lane->a, lane->b, lane->m, 1, 0, P2S_MESSAGE_ONE);
		return 0;
	}
	if (!lane->kernels)
		return small_leg(lane, P2PSAFE_LEG_CE_WRITE, P2S_BY_CE_WRITE, SECOND_BYTES, later) &&
		       small_leg(lane, P2PSAFE_LEG_CE_READ, P2S_BY_CE_READ, SECOND_BYTES, later);
	return small_leg(lane, P2PSAFE_LEG_SM_STORE, P2S_BY_STORE, SECOND_BYTES, later) &&
	       p2s_leg_message(run, lane->a, lane->b, lane->m, 1, 0, P2S_MESSAGE_QUIET) && !fault_logged(lane) &&
	       small_leg(lane, P2PSAFE_LEG_CE_WRITE, P2S_BY_CE_WRITE, SECOND_BYTES, later) &&
	       small_leg(lane, P2PSAFE_LEG_SM_LOAD, P2S_BY_LOAD, 16, later) &&
	       small_leg(lane, P2PSAFE_LEG_CE_READ, P2S_BY_CE_READ, SECOND_BYTES, later) &&
	       p2s_leg_atomics(run, lane->a, lane->b, lane->m, 1, 1);
}

/* After a mapping's first contact: memory that others look at is as it was. */
static void tidy(struct p2s_run *run, uint32_t a, uint32_t b, int m, int clean, int only_store)
{
	if (clean) {
		restore_canaries(run, a, b, number_of(m));
		return;
	}
	if (!only_store)
		settle();
	p2s_run_each(run, P2S_CHAN_KINDS, renew_canaries_task);
}

/* The end of a contact, when nothing of it is under way any more. The contexts at work come first: others wait for a change that
 * the next contact needs anyway. Returns 1 if nothing was found. */
static int look_around(const struct later *later, int only_store)
{
	return look_later(later, BUFFERS_PEER) && (only_store || look_later(later, BUFFERS_GPU));
}

static void contact(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_way *way = p2s_run_way(run, a, b);
	/* Once a pair was CORRUPT, others on PCIe get the first store and no more. */
	int only_store = atomic_load(&run->corrupt) && !p2s_run_keeps_going(run) && p2s_run_path(run, a, b) != P2PSAFE_PATH_NVL;
	struct later later = {.count = 0};
	int done = 0;
	int clean = 1;
	int looked;

	for (int m = 0; m < P2S_M_COUNT && clean && !(only_store && done); m++) {
		struct p2s_lane lane;

		if (!p2s_lane_open(run, a, b, m, &lane) || !p2s_run_may_start(run))
			continue;
		int go = done ? P2S_RISK_GO : p2s_link_risk(run, a, b, first_leg(&lane));
		if (go != P2S_RISK_GO) {
			if (go == P2S_RISK_STOP && p2s_run_may_start(run)) /* else it was only too late */
				atomic_store(&run->stopped, 1);
			return;
		}
		p2s_klog_contact(run, a, b);
		clean = number_of(m) != P2S_B_PEER || look_later(&later, BUFFERS_PEER);
		if (clean)
			clean = done || only_store ? first_store(&lane, !done, &later) : whole_contact(&lane, &later);
		clean = clean && !fault_logged(&lane);
		done = 1;
		tidy(run, a, b, m, clean, only_store);
	}
	looked = clean && done && p2s_run_may_start(run);
	if (looked && !look_around(&later, only_store)) {
		clean = 0;
		tidy(run, a, b, 0, clean, only_store);
	}
	p2s_klog_contact(run, a, a);
	way->clean = looked && clean && !only_store;
}

static void rank(struct p2s_run *run, int nvlink)
{
	for (uint32_t i = 0; i < run->tested_count; i++) {
		for (uint32_t j = 0; j < run->tested_count; j++) {
			uint32_t a = run->tested[i];
			uint32_t b = run->tested[j];

			if (i == j || (p2s_run_path(run, a, b) == P2PSAFE_PATH_NVL) != nvlink)
				continue;
			if (p2s_run_may_start(run) && !atomic_load(&run->gpu[a].out) && !atomic_load(&run->gpu[b].out))
				contact(run, a, b);
			p2s_link_progress(run);
		}
	}
}

void p2s_first_contact_run(struct p2s_run *run)
{
	p2s_link_phase(run, "first_contact", run->tested_count * (run->tested_count - 1));
	p2s_run_each(run, P2S_CHAN_KINDS, set_canaries_task);
	rank(run, 1);
	rank(run, 0);
}
