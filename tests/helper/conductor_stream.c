/* Streaming a large buffer: two GPUs that are arrays, and a way between them that goes wrong in one move of one pass. Whatever
 * it does, and in whichever pass, the bytes are CORRUPT and the damage has its name. No process, no clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/word.h"
#include "helper/legs.h"

#define CHUNK P2S_MIB /* of a simulated machine, in buffers of 8 MiB and less */
#define HALF (CHUNK / 2)
#define MOST (4 * CHUNK)
#define PASSES 4

/* What goes wrong with one move. */
enum effect {
	NOTHING,
	DROP,
	DROP_HALF,   /* its second half */
	ZEROS,       /* 256 bytes in its middle */
	BIT,         /* bit 4 of 64 words, far apart */
	SHIFT,       /* everything arrives 4 KiB further, as far as the chunk reaches */
	ALIAS,       /* the address bit of half a chunk is lost: both halves meet at one place */
	SWAP,        /* the two halves change places */
	ELSEWHERE,   /* it lands in the other chunk of two, and what was there comes here */
	STALE,       /* what was here before this pass is here again: poison included, nothing was written */
	TORN,        /* the upper half of each word in its middle is still the old one */
	EFFECTS
};

#define QUEUED 4

struct asked {
	struct p2s_chan *chan; /* NULL: none */
	struct p2s_op_request req;
	struct p2s_op_answer answer;
};

static struct {
	struct p2s_run run;
	struct p2s_device gpu[2];
	struct p2s_way way[4];
	struct p2s_lane lane;
	uint64_t *window; /* memory of GPU 1 */
	uint64_t *source; /* of GPU 0 */
	uint64_t *before; /* each place of the window as it was when it was poisoned last */
	uint64_t len;
	enum effect effect;
	uint32_t first, last; /* the moves that go wrong, counted from 0 */
	uint32_t moves;
	uint32_t failing; /* its worker does not live through this move, counted from 1; 0 none */
	int wedges;       /* told of, where that is expected: from 1 on */
	int late; /* moves are carried out when they are waited for, else when they are asked for */
	struct asked asked[QUEUED];
	uint32_t next;
	struct p2s_lib_leg leg;
} w;

/* ---- what the conductor would do ---- */

const int32_t p2s_mapping_word[P2S_M_COUNT] = {P2PSAFE_MAPPING_CUMEM, P2PSAFE_MAPPING_IPC, P2PSAFE_MAPPING_PEER};

void p2s_klog_drain(struct p2s_run *run)
{
	(void)run;
}

void p2s_link_fact(struct p2s_run *run, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
                   const char *text)
{
	(void)run, (void)severity, (void)src, (void)dst, (void)source;
	if (w.wedges == 0)
		fail_msg("%s", text);
	assert_string_equal(code, "GPU_WEDGED");
	w.wedges++;
}

void p2s_link_gpu(struct p2s_run *run, uint32_t gpu)
{
	(void)run;
	if (w.wedges == 0)
		fail_msg("GPU %u is told of", gpu);
}

void p2s_link_leg(struct p2s_run *run, const struct p2s_lib_leg *leg)
{
	(void)run;
	w.leg = *leg;
}

void p2s_workers_kill(struct p2s_run *run, struct p2s_proc *proc)
{
	(void)run, (void)proc;
	if (w.wedges == 0)
		fail_msg("a worker is killed");
}

void p2s_chan_arm(struct p2s_chan *chan)
{
	(void)chan;
}

int p2s_chan_ready(struct p2s_run *run, struct p2s_chan *chan, unsigned mask, uint64_t until_ns)
{
	(void)run, (void)chan, (void)mask, (void)until_ns;
	return 0;
}

void p2s_chan_go(struct p2s_chan *chan)
{
	(void)chan;
}

void p2s_chan_abort(struct p2s_chan *chan)
{
	(void)chan;
}

/* ---- what the GPUs do ---- */

static void fill(uint64_t *to, uint64_t off, uint64_t len, uint64_t seed)
{
	for (uint64_t i = off / 8; i < (off + len) / 8; i++)
		to[i] = p2s_word(seed, i);
}

static void check(const struct p2s_op_request *q, struct p2s_op_answer *a)
{
	struct p2s_sample sample[P2S_SAMPLES];

	assert_true(q->off % 8 == 0 && q->len % 8 == 0 && q->in_off % 8 == 0 && q->in_len % 8 == 0);
	a->first_bad = UINT64_MAX;
	for (uint64_t i = q->off / 8; i < (q->off + q->len) / 8; i++) {
		int inside = i * 8 >= q->in_off && i * 8 < q->in_off + q->in_len;

		if (w.window[i] == p2s_word(inside ? q->seed : q->seed2, i))
			continue;
		if (a->bad_words == 0)
			a->first_bad = i * 8;
		if (a->bad_words < P2S_SAMPLES)
			sample[a->bad_words] = (struct p2s_sample){i * 8, w.window[i]};
		a->bad_words++;
	}
	a->value = a->bad_words;
	a->samples_len = (uint32_t)(a->bad_words < P2S_SAMPLES ? a->bad_words : P2S_SAMPLES) * (uint32_t)sizeof sample[0];
	memcpy(a->samples, sample, a->samples_len);
}

static void swap(uint64_t one, uint64_t other, uint64_t len)
{
	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t word = w.window[one / 8 + i];

		w.window[one / 8 + i] = w.window[other / 8 + i];
		w.window[other / 8 + i] = word;
	}
}

/* old: what the chunk held before the move. */
static void damage(uint64_t off, const uint64_t *old)
{
	uint64_t *at = w.window + off / 8;
	const uint64_t middle = (HALF - 128) / 8;

	switch (w.effect) {
	case DROP:
		memcpy(at, old, CHUNK);
		break;
	case DROP_HALF:
		memcpy(at + HALF / 8, old + HALF / 8, HALF);
		break;
	case ZEROS:
		memset(at + middle, 0, 256);
		break;
	case BIT:
		for (uint64_t i = 0; i < 64; i++)
			at[i * CHUNK / 8 / 64] ^= 16;
		break;
	case SHIFT:
		memmove(at + 512, at, CHUNK - 4096);
		memcpy(at, old, 4096);
		break;
	case ALIAS:
		memcpy(at, at + HALF / 8, HALF);
		memcpy(at + HALF / 8, old + HALF / 8, HALF);
		break;
	case SWAP:
		swap(off, off + HALF, HALF);
		break;
	case ELSEWHERE:
		swap(off, off ^ CHUNK, CHUNK);
		break;
	case STALE:
		memcpy(at, w.before + off / 8, CHUNK);
		break;
	case TORN:
		for (uint64_t i = 0; i < 32; i++)
			at[middle + i] = (at[middle + i] & UINT32_MAX) | (old[middle + i] >> 32 << 32);
		break;
	default:
		fail_msg("no such damage");
	}
}

static void move(const struct p2s_op_request *q)
{
	static uint64_t old[CHUNK / 8];
	uint32_t nth = w.moves++;
	uint64_t at = q->off / 8;

	assert_int_equal(q->len, CHUNK);
	assert_int_equal(q->buf, w.lane.win_acc);
	memcpy(old, w.window + at, CHUNK);
	if (q->op == P2S_OP_FILL) {
		fill(w.window, q->off, q->len, q->seed);
	} else {
		uint64_t swapped = q->mode == P2S_COPY_HALVES ? HALF : 0;

		assert_true(q->op == P2S_OP_COPY && q->buf2 == w.lane.loc_acc && q->off2 <= w.len - CHUNK);
		for (uint64_t half = 0; half < CHUNK; half += HALF)
			memcpy(w.window + at + half / 8, w.source + q->off2 / 8 + (half ^ swapped) / 8, HALF);
	}
	if (w.effect != NOTHING && nth >= w.first && nth <= w.last)
		damage(q->off, old);
}

static void carry_out(const struct p2s_chan *chan, const struct p2s_op_request *q, struct p2s_op_answer *a)
{
	memset(a, 0, sizeof *a);
	a->device_ns = 1;
	if (q->op == P2S_OP_CHECK) {
		assert_true(chan == w.lane.own && q->buf == w.lane.win_own);
		check(q, a);
	} else if (chan == w.lane.acc && q->buf == w.lane.win_acc) {
		move(q);
		a->rc = w.moves == w.failing ? P2S_RC_GONE : P2S_RC_OK;
	} else if (chan == w.lane.acc) {
		assert_true(q->op == P2S_OP_FILL && q->buf == w.lane.loc_acc);
		fill(w.source, q->off, q->len, q->seed);
	} else {
		assert_true(q->op == P2S_OP_FILL && q->buf == w.lane.win_own);
		memcpy(w.before + q->off / 8, w.window + q->off / 8, q->len);
		fill(w.window, q->off, q->len, q->seed);
	}
}

/* ---- channels: what is asked for is carried out at once, or only when it is waited for ---- */

static void take(struct p2s_chan *chan, const struct p2s_op_request *req)
{
	struct asked *one = &w.asked[w.next++ % QUEUED];

	assert_null(one->chan);
	*one = (struct asked){.chan = chan, .req = *req};
	if (!w.late)
		carry_out(chan, req, &one->answer);
}

void p2s_chan_post(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, int fd)
{
	(void)run;
	assert_int_equal(fd, -1);
	for (uint32_t i = 0; i < QUEUED; i++)
		assert_ptr_not_equal(w.asked[i].chan, chan); /* else it follows */
	take(chan, req);
}

void p2s_chan_follow(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req)
{
	uint32_t before = 0;

	(void)run;
	for (uint32_t i = 0; i < QUEUED; i++)
		before += w.asked[i].chan == chan;
	assert_int_equal(before, 1);
	take(chan, req);
}

int p2s_chan_wait(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd)
{
	(void)run;
	assert_null(fd);
	for (uint32_t i = 0; i < QUEUED; i++) { /* the oldest of this channel */
		struct asked *one = &w.asked[(w.next + i) % QUEUED];

		if (one->chan != chan)
			continue;
		if (w.late)
			carry_out(chan, &one->req, &one->answer);
		*answer = one->answer;
		one->chan = NULL;
		return one->answer.rc;
	}
	fail_msg("nothing to wait for");
	return P2S_RC_GONE;
}

int p2s_chan_call(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	(void)run;
	carry_out(chan, req, answer); /* what was asked of the other GPU before may still be on its way */
	return P2S_RC_OK;
}

/* ---- the tests ---- */

static void machine(uint64_t len)
{
	memset(&w, 0, sizeof w);
	w.len = len;
	w.run.n = 2;
	w.run.gpu = w.gpu;
	w.run.way = w.way;
	strcpy(w.run.ask.host_dir, "played");
	for (uint32_t i = 0; i < 2; i++) {
		w.gpu[i].bytes[P2S_B_CUMEM] = len;
		w.gpu[i].info[P2S_CHAN_GPU].module = 1;
		w.gpu[i].chan[P2S_CHAN_GPU].gpu = i;
	}
	w.way[1].map[P2S_M_CUMEM] = P2S_MAP_READY;
	assert_true(p2s_lane_open(&w.run, 0, 1, P2S_M_CUMEM, &w.lane));
	w.window = calloc(3, MOST);
	assert_non_null(w.window);
	w.source = w.window + MOST / 8;
	w.before = w.source + MOST / 8;
}

/* Moves first..last go wrong. Returns the verdict; more is in w.leg. */
static int32_t stream(enum p2s_engine by, enum effect effect, uint32_t first, uint32_t last, int late)
{
	struct p2s_trial t;

	w.effect = effect;
	w.first = first;
	w.last = last;
	w.late = late;
	w.moves = 0;
	memset(&w.leg, 0, sizeof w.leg);
	assert_true(p2s_stream_pays(&w.lane, by, w.len));
	p2s_trial_begin(&t, &w.lane, by == P2S_BY_STORE ? P2PSAFE_LEG_SM_STORE : P2PSAFE_LEG_CE_WRITE);
	p2s_step_stream(&t, by, w.len);
	p2s_trial_end(&t);
	for (uint32_t i = 0; i < QUEUED; i++)
		assert_null(w.asked[i].chan);
	return w.leg.verdict;
}

static const enum p2s_engine engines[] = {P2S_BY_STORE, P2S_BY_CE_WRITE};

static void every_pass_of_a_way_in_order_is_right(void **state)
{
	(void)state;
	for (uint64_t chunks = 2; chunks <= MOST / CHUNK; chunks++) {
		for (int i = 0; i < 4; i++) {
			/* Copies need a power of two of chunks to take them from other places. */
			uint32_t passes = engines[i / 2] == P2S_BY_STORE || chunks != 3 ? PASSES : 1;

			machine(chunks * CHUNK);
			assert_int_equal(stream(engines[i / 2], NOTHING, 0, 0, i % 2), P2PSAFE_VERDICT_OK);
			assert_int_equal(w.moves, passes * chunks);
			assert_int_equal(w.leg.rounds, passes);
			assert_int_equal(w.leg.bytes, passes * chunks * CHUNK);
			assert_int_equal(w.leg.coverage_bytes, chunks * CHUNK);
			free(w.window);
		}
	}
}

#define NAME(damage) (1u << P2PSAFE_DAMAGE_##damage)

/* later: what it may also be called from the second pass on: where halves changed places lie the words of the pass before. */
static const struct {
	enum effect effect;
	unsigned names, later;
} names[] = {{DROP, NAME(DROPPED), 0},
             {DROP_HALF, NAME(DROPPED), 0},
             {ZEROS, NAME(ZEROS), 0},
             {BIT, NAME(BIT_ERROR), 0},
             {SHIFT, NAME(SHIFTED), 0},
             {ALIAS, NAME(ALIASED), NAME(STALE)},
             {SWAP, NAME(SHIFTED), NAME(STALE)},
             {ELSEWHERE, NAME(SHIFTED) | NAME(ALIASED) | NAME(DROPPED), NAME(STALE)},
             {STALE, NAME(STALE), 0},
             {TORN, NAME(TORN), 0}};

static void whatever_one_move_does_is_named(void **state)
{
	(void)state;
	assert_int_equal(sizeof names / sizeof names[0], EFFECTS - 1);
	machine(2 * CHUNK);
	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
		for (uint32_t i = 0; i < 2 * PASSES + 2; i++) {
			/* Copies of every pass; stores are the same in all: the end of one, the start of another. */
			enum p2s_engine by = i < 2 * PASSES ? P2S_BY_CE_WRITE : P2S_BY_STORE;
			uint32_t nth = i < 2 * PASSES ? i : i % 2 == 0 ? 1 : 6;
			int32_t verdict = stream(by, names[k].effect, nth, nth, (int)(nth / 2 + k) % 2);
			unsigned may = names[k].names | (nth >= 2 ? names[k].later : 0);

			if (verdict != P2PSAFE_VERDICT_CORRUPT || (may >> w.leg.damage & 1) == 0)
				fail_msg("effect %d of move %u by engine %d: verdict %d, damage %d: %s", (int)names[k].effect, nth, (int)by,
				         (int)verdict, (int)w.leg.damage, w.leg.note);
			assert_true(w.leg.has_detail && w.leg.offset < w.len);
			if (names[k].effect == SHIFT)
				assert_string_equal(w.leg.note, "arrived 4096 bytes behind its place");
		}
	}
	free(w.window);
}

/* From one move on nothing is right any more. */
static void what_goes_on_going_wrong_is_named(void **state)
{
	(void)state;
	machine(4 * CHUNK);
	for (uint32_t nth = 0; nth < 4 * PASSES; nth += 5) {
		for (int by = 0; by < 2; by++) {
			assert_int_equal(stream(engines[by], BIT, nth, UINT32_MAX, by), P2PSAFE_VERDICT_CORRUPT);
			assert_int_equal(w.leg.damage, P2PSAFE_DAMAGE_BIT_ERROR);
			assert_string_equal(w.leg.note, "bit 4 of the 8-byte words");
			assert_int_equal(stream(engines[by], DROP, nth, UINT32_MAX, 1 - by), P2PSAFE_VERDICT_CORRUPT);
			assert_int_equal(w.leg.damage, P2PSAFE_DAMAGE_DROPPED);
		}
	}
	free(w.window);
}

/* Damage that was seen stays damage when a worker dies behind it. */
static void what_fails_later_hides_no_damage(void **state)
{
	(void)state;
	machine(4 * CHUNK);
	for (uint32_t nth = 3; nth <= 4; nth++) {
		for (int i = 0; i < 4; i++) {
			w.failing = nth;
			assert_int_equal(stream(engines[i / 2], BIT, 0, 0, i % 2), P2PSAFE_VERDICT_CORRUPT);
			assert_int_equal(w.leg.damage, P2PSAFE_DAMAGE_BIT_ERROR);
			assert_int_equal(stream(engines[i / 2], NOTHING, 0, 0, i % 2), P2PSAFE_VERDICT_ERROR);
		}
	}
	free(w.window);
}

/* Of two that were asked at once one saw damage, and the other did not come back: nothing more runs on it. */
static void a_leg_that_is_over_hides_no_wedge(void **state)
{
	static const struct p2s_judgement bad = {.verdict = P2PSAFE_VERDICT_CORRUPT, .damage = P2PSAFE_DAMAGE_ZEROS};
	static const struct p2s_op_answer late = {.rc = P2S_RC_TIMEOUT};
	struct p2s_trial t;

	(void)state;
	machine(2 * CHUNK);
	w.wedges = 1;
	p2s_trial_begin(&t, &w.lane, P2PSAFE_LEG_SM_LOAD);
	assert_int_equal(p2s_trial_judged(&t, &bad), 0);
	assert_int_equal(p2s_trial_fail(&t, w.lane.own, &late), 0);
	p2s_trial_end(&t);
	assert_int_equal(w.leg.verdict, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(w.leg.damage, P2PSAFE_DAMAGE_ZEROS);
	assert_int_equal(w.wedges, 2);
	assert_int_equal(w.gpu[1].state, P2PSAFE_GPU_STATE_WEDGED);
	assert_true(w.gpu[0].out && w.gpu[1].out);
	free(w.window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pass_of_a_way_in_order_is_right),
		cmocka_unit_test(whatever_one_move_does_is_named),
		cmocka_unit_test(what_goes_on_going_wrong_is_named),
		cmocka_unit_test(what_fails_later_hides_no_damage),
		cmocka_unit_test(a_leg_that_is_over_hides_no_wedge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
