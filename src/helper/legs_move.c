/* Bulk legs: every byte that is moved is checked by the GPU that owns the memory it was moved to. */
#include <stdio.h>

#include "core/word.h"
#include "helper/legs.h"

/* What the transfers of one engine may take, all together, and the largest one of `sizes`: eight engines and two such over three
 * mappings both ways are then less than a quarter of a second for each round, on whatever link. On NVLink all of the memory fits. */
#define BULK_NS (3 * P2S_MS)
#define SIZES_NS (3 * P2S_MS) /* and as much again for all sizes below it */
#define STALE_BYTES P2S_MIB
#define ACQUIRE_BYTES (64 * P2S_KIB) /* one load after the other */
#define SIZES_AREA (8 * P2S_KIB) /* room of one small transfer, guards included */
#define MIDDLE_LEAST (8 * P2S_KIB)
#define MIDDLE_COUNT 6 /* each twice the one before; all of them with as much room around them are less than 1 MiB */

static int piece(struct p2s_trial *t, enum p2s_engine by, uint64_t off, uint64_t len)
{
	return p2s_step_transfer(t, by, off, len, off, len, 1);
}

/* By one engine: 1 MiB, whose time says how much fits; then the whole window, or pieces at its start, its middle and its end, so
 * that the last bytes are met however slow the way is. A small transfer measures mostly the calls around it, so a second one
 * may say that more fits. */
static int by_engine(struct p2s_trial *t, enum p2s_engine by, uint64_t cap)
{
	uint64_t most = by == P2S_BY_LOAD_ACQUIRE ? ACQUIRE_BYTES : cap;
	uint64_t n, middle;

	if (!piece(t, by, 0, P2S_MIB < most ? P2S_MIB : most))
		return 0;
	if (most <= P2S_MIB)
		return cap <= most || piece(t, by, cap - most, most);
	n = p2s_trial_bytes(t, P2S_MIB, BULK_NS / 3, cap);
	if (n < cap) {
		if (!piece(t, by, 0, n))
			return 0;
		if (p2s_trial_bytes(t, n, BULK_NS / 3 * 2, cap) == cap)
			n = cap;
	}
	if (n == cap)
		return p2s_stream_pays(t->lane, by, cap) ? p2s_step_stream(t, by, cap) : piece(t, by, 0, cap);
	middle = (cap - n) / 2 / (64 * P2S_KIB) * (64 * P2S_KIB);
	return piece(t, by, middle, n) && piece(t, by, cap - n, n);
}

/* One leg: by each engine in turn, with fresh poison every time. */
static int bulk_leg(const struct p2s_lane *lane, int32_t leg, const enum p2s_engine *engines, size_t count, uint64_t cap)
{
	/* A driver without cuMemcpyPeerAsync cannot be asked for it, by nobody. */
	int no_peer_calls = (lane->run->gpu[lane->a].info[P2S_CHAN_GPU].missing & P2S_FEATURE_PEER) != 0;
	struct p2s_trial t;

	p2s_trial_begin(&t, lane, leg);
	for (size_t i = 0; i < count; i++) {
		if ((engines[i] == P2S_BY_CE_WRITE_PEER || engines[i] == P2S_BY_CE_READ_PEER) && no_peer_calls)
			continue;
		if (!by_engine(&t, engines[i], cap))
			break;
	}
	return p2s_trial_end(&t);
}

/* A small transfer with guard bytes around it, at an odd place. The area was poisoned (or, for reads, filled) before. */
static int small_transfer(struct p2s_trial *t, enum p2s_engine by, uint64_t area, uint64_t room, uint64_t off, uint64_t size,
                          uint64_t seed)
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_expect e;

	p2s_trial_expect(t, seed, off, size, 1, &e);
	if (!p2s_step_move(t, by, off, size, seed))
		return 0;
	if (p2s_engine_reads(by))
		return p2s_step_check(t, lane->acc, lane->loc_acc, area, room, &e);
	return p2s_step_check(t, lane->own, lane->win_own, area, room, &e);
}

/* All small sizes by one engine: one poison, one fill, then each transfer in an area of its own. */
static int small_sizes(struct p2s_trial *t, enum p2s_engine by, int few)
{
	static const struct {
		uint16_t size;
		uint16_t shift;
		int always;
	} list[] = {{1, 0, 1},   {3, 3, 1},   {4, 4, 0},    {8, 8, 0},    {12, 4, 0},   {16, 0, 1},   {31, 1, 1},
	            {63, 7, 0},  {64, 32, 0}, {65, 3, 1},   {127, 1, 0},  {128, 0, 1},  {129, 5, 0},  {255, 1, 0},
	            {257, 9, 1}, {511, 3, 0}, {1023, 1, 0}, {1025, 0, 0}, {2048, 2, 0}, {4096, 1, 0}, {4097, 13, 1}};
	const struct p2s_lane *lane = t->lane;
	size_t count = sizeof list / sizeof list[0];
	uint64_t len = count * SIZES_AREA;
	uint64_t seed = p2s_trial_seed(t);
	struct p2s_expect e;
	int reads = p2s_engine_reads(by);

	if (!p2s_step_prepare(t, lane->win_own, 0, len, reads ? seed : t->poison, lane->loc_acc, 0, by == P2S_BY_STORE ? 0 : len,
	                      reads ? t->poison : seed))
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (few && !list[i].always)
			continue;
		if (!small_transfer(t, by, i * SIZES_AREA, SIZES_AREA, i * SIZES_AREA + 1024 + list[i].shift, list[i].size, seed))
			return 0;
	}
	if (!reads)
		return 1;
	p2s_trial_expect(t, seed, 0, len, 0, &e);
	return p2s_step_check(t, lane->own, lane->win_own, 0, len, &e);
}

/* Sizes between the small ones and 1 MiB, likewise: what goes wrong only there must not slip through between two others. */
static int middle_sizes(struct p2s_trial *t, enum p2s_engine by)
{
	const struct p2s_lane *lane = t->lane;
	const uint64_t len = 2 * MIDDLE_LEAST * ((1u << MIDDLE_COUNT) - 1);
	uint64_t seed = p2s_trial_seed(t);
	struct p2s_expect e;
	int reads = p2s_engine_reads(by);

	if (!p2s_step_prepare(t, lane->win_own, 0, len, reads ? seed : t->poison, lane->loc_acc, 0, by == P2S_BY_STORE ? 0 : len,
	                      reads ? t->poison : seed))
		return 0;
	for (uint64_t i = 0; i < MIDDLE_COUNT; i++) {
		uint64_t size = MIDDLE_LEAST << i;
		uint64_t area = 2 * MIDDLE_LEAST * ((1u << i) - 1);

		/* From an odd place, from one of a line, and so on. */
		if (!small_transfer(t, by, area, 2 * size, area + size / 2 + (i % 2 == 0 ? 3 : 128), size, seed))
			return 0;
	}
	if (!reads)
		return 1;
	p2s_trial_expect(t, seed, 0, len, 0, &e);
	return p2s_step_check(t, lane->own, lane->win_own, 0, len, &e);
}

/* Copies from 1 MiB on, each twice the one before, up to the largest that time allows. */
static int large_sizes(struct p2s_trial *t, enum p2s_engine by, uint64_t cap)
{
	const uint64_t odd = 64 * P2S_KIB + 1;
	uint64_t most;

	if (!p2s_step_transfer(t, by, 0, 128 * P2S_KIB, 4099, odd, 1) || !p2s_step_transfer(t, by, 0, P2S_MIB, 0, P2S_MIB, 1))
		return 0;
	most = p2s_trial_bytes(t, P2S_MIB, SIZES_NS, cap);
	for (uint64_t bytes = 2 * P2S_MIB; bytes <= most / 2; bytes *= 2)
		if (!p2s_step_transfer(t, by, 0, bytes, 0, bytes, 1))
			return 0;
	return most <= P2S_MIB || p2s_step_transfer(t, by, 0, most, 0, most, 1);
}

static int by_kernel(enum p2s_engine by)
{
	return by == P2S_BY_STORE || by == P2S_BY_LOAD;
}

static int sizes_leg(const struct p2s_lane *lane, uint64_t cap)
{
	static const enum p2s_engine engines[] = {P2S_BY_CE_WRITE, P2S_BY_STORE, P2S_BY_CE_READ, P2S_BY_LOAD};
	static const enum p2s_engine large[] = {P2S_BY_CE_WRITE, P2S_BY_CE_READ};
	int quick = lane->run->ask.level == P2PSAFE_LEVEL_QUICK;
	struct p2s_trial t;

	p2s_trial_begin(&t, lane, P2PSAFE_LEG_SIZES);
	if (!lane->kernels)
		snprintf(t.out.note, sizeof t.out.note, "by copies only: test kernels are not loaded");
	for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
		if (p2s_lane_can(lane, engines[i]) && !small_sizes(&t, engines[i], quick))
			return p2s_trial_end(&t);
	for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
		if (p2s_lane_can(lane, engines[i]) && !(quick && by_kernel(engines[i])) && !middle_sizes(&t, engines[i]))
			return p2s_trial_end(&t);
	for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
		if (!large_sizes(&t, large[i], cap))
			break;
	return p2s_trial_end(&t);
}

/* Unmaps the window and maps it again. */
static int remap(struct p2s_trial *t)
{
	static const struct p2s_judgement full = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "no room to map the memory again"};
	const struct p2s_lane *lane = t->lane;
	struct p2s_run *run = lane->run;
	struct p2s_device *owner = &run->gpu[lane->b];
	struct p2s_op_request release = {.op = P2S_OP_RELEASE, .buf = lane->win_acc};
	struct p2s_op_request import = {.op = P2S_OP_IMPORT, .buf = lane->win_acc, .mode = (uint32_t)p2s_mapping_word[lane->m]};
	struct p2s_op_answer answer;

	if (p2s_chan_call(run, lane->acc, &release, &answer) != P2S_RC_OK)
		return p2s_trial_fail(t, lane->acc, &answer);
	if (lane->m == P2S_M_CUMEM) {
		import.len = owner->handle_bytes[P2S_B_CUMEM];
		p2s_chan_post(run, lane->acc, &import, owner->export_fd);
	} else {
		import.len = owner->handle_bytes[P2S_B_PLAIN];
		import.handle_len = owner->ipc_len;
		for (uint32_t i = 0; i < owner->ipc_len; i++)
			import.handle[i] = owner->ipc_handle[i];
		p2s_chan_post(run, lane->acc, &import, -1);
	}
	if (p2s_chan_wait(run, lane->acc, &answer, NULL) == P2S_RC_OK)
		return 1;
	p2s_run_way(run, lane->a, lane->b)->map[lane->m] = P2S_MAP_FAILED;
	return p2s_no_room(&answer) ? p2s_trial_judged(t, &full) : p2s_trial_fail(t, lane->acc, &answer);
}

/* The same memory again and again without poison: whoever keeps an old copy anywhere shows the epoch before. */
static int stale_leg(const struct p2s_lane *lane)
{
	static const enum p2s_engine engines[] = {P2S_BY_STORE, P2S_BY_LOAD, P2S_BY_CE_WRITE, P2S_BY_CE_READ};
	const size_t count = sizeof engines / sizeof engines[0];
	const size_t first = lane->kernels ? 0 : 2;
	struct p2s_trial t;
	int rounds = 3;

	p2s_trial_begin(&t, lane, P2PSAFE_LEG_STALE);
	if (!lane->kernels)
		snprintf(t.out.note, sizeof t.out.note, "by copies only: test kernels are not loaded");
	for (size_t i = first; i < count; i++)
		for (int round = 0; round < rounds; round++)
			if (!p2s_step_transfer(&t, engines[i], 0, STALE_BYTES, 0, STALE_BYTES, i == first && round == 0))
				return p2s_trial_end(&t);
	for (int again = 0; lane->m != P2S_M_PEER && again < 2; again++) {
		if (!remap(&t) || !p2s_step_transfer(&t, engines[first], 0, STALE_BYTES, 0, STALE_BYTES, 0) ||
		    !p2s_step_transfer(&t, engines[first + 1], 0, STALE_BYTES, 0, STALE_BYTES, 0))
			break;
	}
	if (!t.over)
		p2s_step_again(&t);
	return p2s_trial_end(&t);
}

/* All bulk legs of one direction over one mapping. A leg that fails does not keep the others from being known. */
static void bulk_lane(const struct p2s_lane *lane)
{
	static const enum p2s_engine store[] = {P2S_BY_STORE};
	static const enum p2s_engine load[] = {P2S_BY_LOAD, P2S_BY_LOAD_RELAXED, P2S_BY_LOAD_ACQUIRE};
	static const enum p2s_engine write[] = {P2S_BY_CE_WRITE, P2S_BY_CE_WRITE_PEER};
	static const enum p2s_engine read[] = {P2S_BY_CE_READ, P2S_BY_CE_READ_PEER};
	static const struct {
		int32_t leg;
		const enum p2s_engine *engines;
		size_t count;
	} legs[] = {{P2PSAFE_LEG_SM_STORE, store, 1}, {P2PSAFE_LEG_CE_WRITE, write, 2}, {P2PSAFE_LEG_SM_LOAD, load, 3},
	            {P2PSAFE_LEG_CE_READ, read, 2},   {P2PSAFE_LEG_SIZES, NULL, 0},     {P2PSAFE_LEG_STALE, NULL, 0}};
	uint64_t cap = lane->run->ask.level == P2PSAFE_LEVEL_QUICK ? P2S_MIB : lane->bytes;

	for (size_t i = 0; i < sizeof legs / sizeof legs[0]; i++) {
		if (!p2s_run_may_start(lane->run) || !p2s_lane_alive(lane))
			return;
		if (legs[i].leg == P2PSAFE_LEG_SIZES)
			sizes_leg(lane, cap);
		else if (legs[i].leg == P2PSAFE_LEG_STALE)
			stale_leg(lane);
		else if (p2s_lane_can(lane, legs[i].engines[0]))
			bulk_leg(lane, legs[i].leg, legs[i].engines, legs[i].count, cap);
	}
}

void p2s_bulk_pair(struct p2s_run *run, uint32_t a, uint32_t b)
{
	for (int m = 0; m < P2S_M_COUNT; m++) {
		/* Asked before either way runs: what one way does wrong does not hide the other. */
		int may[2] = {p2s_run_may_test(run, a, b), p2s_run_may_test(run, b, a)};

		for (int back = 0; back < 2; back++) {
			struct p2s_lane lane;

			if (may[back] && p2s_lane_open(run, back ? b : a, back ? a : b, m, &lane))
				bulk_lane(&lane);
		}
	}
	p2s_link_progress(run);
}
