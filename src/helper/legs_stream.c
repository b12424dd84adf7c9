/* A large transfer as consumers make it, and verified about as fast as it moves: in chunks, the next one poisoned and the one
 * before checked by the owner while the accessor moves the one between. */
#include "core/word.h"
#include "helper/legs.h"

#define CHUNKS_MOST 8
#define CHUNK_LEAST (64 * P2S_MIB) /* moves for longer than the owner needs to check and poison as much */
#define CHUNK_PLAYED P2S_MIB       /* of simulated GPUs, whose buffers are small */

struct stream {
	struct p2s_trial *t;
	enum p2s_engine by;
	uint64_t seed;
	uint64_t len;
	uint64_t chunk;
	int failed; /* a call */
	int bad;    /* the owner did not find what was moved: first answer, and where */
	struct p2s_op_answer answer;
	uint64_t bad_off;
	uint64_t bad_len;
};

static uint64_t least(const struct p2s_lane *lane)
{
	return lane->run->ask.host_dir[0] != '\0' ? CHUNK_PLAYED : CHUNK_LEAST;
}

int p2s_stream_pays(const struct p2s_lane *lane, uint64_t len)
{
	return len >= 2 * least(lane);
}

static uint64_t at_most(const struct stream *s, uint64_t off)
{
	return s->len - off < s->chunk ? s->len - off : s->chunk;
}

static void expect(const struct stream *s, uint64_t off, uint64_t len, struct p2s_expect *e)
{
	p2s_trial_expect(s->t, s->seed, off, len, 1, e);
}

/* What the owner does with one chunk. */
static void own(struct stream *s, uint32_t op, uint64_t off)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_op_request req = {.op = op, .buf = lane->win_own, .off = off, .len = at_most(s, off)};
	struct p2s_op_answer answer;

	req.seed = op == P2S_OP_FILL ? s->t->poison : s->seed;
	if (op == P2S_OP_CHECK) {
		req.in_off = off;
		req.in_len = req.len;
		req.seed2 = s->t->poison;
	}
	if (p2s_chan_call(lane->run, lane->own, &req, &answer) != P2S_RC_OK) {
		s->failed = 1;
		p2s_trial_fail(s->t, lane->own, &answer);
	} else if (op == P2S_OP_CHECK && answer.bad_words != 0 && !s->bad) {
		s->bad = 1;
		s->answer = answer;
		s->bad_off = off;
		s->bad_len = req.len;
	}
}

static void post_move(struct stream *s, uint64_t off)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = lane->win_acc, .off = off, .len = at_most(s, off), .seed = s->seed};

	if (s->by != P2S_BY_STORE) {
		req.op = P2S_OP_COPY;
		req.buf2 = lane->loc_acc;
		req.off2 = off;
		req.mode = P2S_COPY_ASYNC;
	}
	p2s_chan_post(lane->run, lane->acc, &req, -1);
}

static void wait_move(struct stream *s, uint64_t off)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_op_answer answer;

	if (p2s_chan_wait(lane->run, lane->acc, &answer, NULL) != P2S_RC_OK) {
		s->failed = 1;
		p2s_trial_fail(s->t, lane->acc, &answer);
		return;
	}
	s->t->device_ns += answer.device_ns;
	s->t->out.bytes += at_most(s, off);
}

static void move_all(struct stream *s)
{
	for (uint64_t off = 0; off < s->len && !s->failed; off += s->chunk) {
		post_move(s, off);
		/* Once something is wrong all of it is looked at in the end, when everything has been moved. */
		if (off > 0 && !s->bad)
			own(s, P2S_OP_CHECK, off - s->chunk);
		if (off + s->chunk < s->len && !s->failed)
			own(s, P2S_OP_FILL, off + s->chunk);
		wait_move(s, off);
	}
}

/* Where a chunk was wrong, the whole window says more: what is missing here may lie there. What only the first look saw, for
 * it came late, is judged by that. */
static int judge(struct stream *s)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_expect e;

	expect(s, 0, s->len, &e);
	if (!p2s_step_check(s->t, lane->own, lane->win_own, 0, s->len, &e))
		return 0;
	expect(s, s->bad_off, s->bad_len, &e);
	return p2s_step_judge(s->t, lane->own, lane->win_own, s->bad_off, s->bad_len, &s->answer, &e);
}

int p2s_step_stream(struct p2s_trial *t, enum p2s_engine by, uint64_t len)
{
	const struct p2s_lane *lane = t->lane;
	struct stream s = {.t = t, .by = by, .len = len, .seed = p2s_trial_seed(t)};
	uint64_t start = p2s_now_ns();
	uint64_t took;

	s.chunk = (len / CHUNKS_MOST + P2S_MIB - 1) / P2S_MIB * P2S_MIB;
	s.chunk = s.chunk < least(lane) ? least(lane) : s.chunk;
	t->device_ns = 0;
	if (!p2s_step_prepare(t, lane->win_own, 0, at_most(&s, 0), t->poison, lane->loc_acc, 0, by == P2S_BY_STORE ? 0 : len, s.seed))
		return 0;
	move_all(&s);
	if (!s.failed && !s.bad)
		own(&s, P2S_OP_CHECK, (len - 1) / s.chunk * s.chunk);
	took = p2s_now_ns() - start;
	t->wall_ns = took;
	if (s.failed || (s.bad && !judge(&s)))
		return 0;
	t->out.rounds++;
	p2s_trial_cover(t, 0, len);
	p2s_lane_remember(lane, t->key, s.seed);
	if (took > 0)
		t->out.verified_bytes_per_s = (uint64_t)((double)len * 1e9 / (double)took);
	return 1;
}
