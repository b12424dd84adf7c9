/* A large buffer, verified about as fast as it moves: in chunks, several times over. While the accessor moves one, the owner
 * checks the one before and poisons the next, and the request for that is on its way to the accessor already. */
#include "core/word.h"
#include "helper/legs.h"

#define CHUNK (128 * P2S_MIB) /* moves for longer than the owner needs to check and poison as much; starts and ends cost little */
#define PASSES 4              /* what the very start and the end cost then counts little: three milliseconds at 370 GB/s */
/* Of simulated GPUs, whose copies cost the time of the machine that they run on. */
#define CHUNK_PLAYED P2S_MIB
#define CHUNKS_PLAYED 8
#define PASSES_PLAYED_MOST (64 * P2S_MIB) /* larger buffers once */

struct stream {
	struct p2s_trial *t;
	enum p2s_engine by;
	uint64_t chunk;           /* a power of two */
	uint32_t chunks;          /* of the buffer */
	uint32_t steps;           /* of all passes */
	uint64_t last;            /* bytes of the buffer's last chunk */
	uint64_t seed[PASSES];
	struct p2s_chan *failed; /* a call of this one; judged when nothing is on its way any more, for that asks both */
	struct p2s_op_answer failure;
	int bad; /* the owner did not find what was moved in this step: */
	uint32_t bad_step;
	struct p2s_op_answer answer;
};

static uint64_t chunk_of(const struct p2s_lane *lane, uint64_t len)
{
	uint64_t chunk = CHUNK_PLAYED;

	if (lane->run->ask.host_dir[0] == '\0')
		return CHUNK;
	while (chunk * CHUNKS_PLAYED < len)
		chunk *= 2;
	return chunk;
}

int p2s_stream_pays(const struct p2s_lane *lane, enum p2s_engine by, uint64_t len)
{
	return (by == P2S_BY_STORE || by == P2S_BY_CE_WRITE) && len >= 2 * chunk_of(lane, len);
}

static uint64_t offset(const struct stream *s, uint32_t step)
{
	return step % s->chunks * s->chunk;
}

static uint64_t length(const struct stream *s, uint32_t step)
{
	return step % s->chunks == s->chunks - 1 ? s->last : s->chunk;
}

static uint64_t seed(const struct stream *s, uint32_t step)
{
	return s->seed[step / s->chunks];
}

static void fails(struct stream *s, struct p2s_chan *chan, const struct p2s_op_answer *answer)
{
	if (s->failed == NULL) {
		s->failed = chan;
		s->failure = *answer;
	}
}

/* What the owner does with one chunk. */
static void own(struct stream *s, uint32_t op, uint32_t step)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_op_request req = {.op = op, .buf = lane->win_own, .off = offset(s, step), .len = length(s, step)};
	struct p2s_op_answer answer;

	req.seed = op == P2S_OP_FILL ? s->t->poison : seed(s, step);
	if (op == P2S_OP_CHECK) {
		req.in_off = req.off;
		req.in_len = req.len;
		req.seed2 = s->t->poison;
	}
	if (p2s_chan_call(lane->run, lane->own, &req, &answer) != P2S_RC_OK) {
		fails(s, lane->own, &answer);
	} else if (op == P2S_OP_CHECK && answer.bad_words != 0) {
		s->bad = 1;
		s->bad_step = step;
		s->answer = answer;
	}
}

/* Copies of a later pass take each half of a chunk from another place of the source: its words are then those of another seed,
 * the same for the whole buffer, and no place ever gets the words that it had. */
static struct p2s_op_request move(const struct stream *s, uint32_t step)
{
	const struct p2s_lane *lane = s->t->lane;
	uint32_t pass = step / s->chunks;
	struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = lane->win_acc, .off = offset(s, step), .len = length(s, step)};

	req.seed = seed(s, step);
	if (s->by != P2S_BY_STORE) {
		req.op = P2S_OP_COPY;
		req.buf2 = lane->loc_acc;
		req.off2 = ((step % s->chunks) ^ pass / 2) * s->chunk;
		req.mode = pass % 2 != 0 ? P2S_COPY_HALVES : P2S_COPY_ASYNC;
	}
	return req;
}

static void wait_move(struct stream *s, uint32_t step)
{
	const struct p2s_lane *lane = s->t->lane;
	struct p2s_op_answer answer;

	if (p2s_chan_wait(lane->run, lane->acc, &answer, NULL) != P2S_RC_OK) {
		fails(s, lane->acc, &answer);
		return;
	}
	s->t->device_ns += answer.device_ns;
	s->t->out.bytes += length(s, step);
}

/* Once something is wrong the rest of its pass is still moved, and nothing after it, which would be taken for damage. */
static int goes_on(const struct stream *s, uint32_t step)
{
	return step + 1 < s->steps && s->failed == NULL && (!s->bad || (step + 1) / s->chunks == s->bad_step / s->chunks);
}

static void run(struct stream *s)
{
	struct p2s_op_request req = move(s, 0);
	struct p2s_chan *acc = s->t->lane->acc;
	int more = 1;

	p2s_chan_post(s->t->lane->run, acc, &req, -1);
	for (uint32_t step = 0; more; step++) {
		if (step > 0 && !s->bad && s->failed == NULL)
			own(s, P2S_OP_CHECK, step - 1);
		if (goes_on(s, step))
			own(s, P2S_OP_FILL, step + 1);
		more = goes_on(s, step);
		if (more) {
			req = move(s, step + 1);
			p2s_chan_follow(s->t->lane->run, acc, &req);
		}
		wait_move(s, step);
		if (!more && !s->bad && s->failed == NULL)
			own(s, P2S_OP_CHECK, step);
	}
}

/* Where a chunk was wrong the whole buffer says more: what is missing here may lie there. What only the first look saw, for it
 * came late, or what the next pass has begun to overwrite, is judged by that. */
static int judge(struct stream *s)
{
	const struct p2s_lane *lane = s->t->lane;
	uint64_t len = (s->chunks - 1) * s->chunk + s->last;
	struct p2s_expect e;

	if (s->failed == NULL && (s->bad_step % s->chunks != s->chunks - 1 || s->bad_step == s->steps - 1)) {
		p2s_trial_expect(s->t, seed(s, s->bad_step), 0, len, 1, &e);
		if (!p2s_step_check(s->t, lane->own, lane->win_own, 0, len, &e))
			return 0;
	}
	p2s_trial_expect(s->t, seed(s, s->bad_step), offset(s, s->bad_step), length(s, s->bad_step), 1, &e);
	return p2s_step_judge(s->t, lane->own, lane->win_own, offset(s, s->bad_step), length(s, s->bad_step), &s->answer, &e);
}

static void set_passes(struct stream *s)
{
	int whole = s->last == s->chunk && (s->chunks & (s->chunks - 1)) == 0; /* two chunks or more: four halves */
	int once = s->t->lane->run->ask.host_dir[0] != '\0' && s->chunks * s->chunk > PASSES_PLAYED_MOST;
	uint32_t passes = !once && (s->by == P2S_BY_STORE || whole) ? PASSES : 1;

	s->steps = passes * s->chunks;
	for (uint32_t i = 0; i < passes; i++)
		s->seed[i] = s->by == P2S_BY_STORE || i == 0 ? p2s_trial_seed(s->t) : s->seed[0] ^ (i * (s->chunk / 2) / 8);
}

/* Passes from..to - 1 are what a window held earlier. The judge must not hear of one that was not there yet. */
static void remember(const struct stream *s, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		p2s_lane_remember(s->t->lane, s->t->key, s->seed[i]);
}

int p2s_step_stream(struct p2s_trial *t, enum p2s_engine by, uint64_t len)
{
	const struct p2s_lane *lane = t->lane;
	struct stream s = {.t = t, .by = by, .chunk = chunk_of(lane, len)};
	uint64_t start, moved;
	uint32_t passes;
	int right;

	s.chunks = (uint32_t)((len + s.chunk - 1) / s.chunk);
	s.last = len - (s.chunks - 1) * s.chunk;
	set_passes(&s);
	passes = s.steps / s.chunks;
	t->device_ns = 0;
	if (by != P2S_BY_STORE && !p2s_step_fill(t, lane->acc, lane->loc_acc, 0, len, s.seed[0]))
		return 0;
	start = p2s_now_ns();
	own(&s, P2S_OP_FILL, 0);
	if (s.failed == NULL)
		run(&s);
	t->wall_ns = p2s_now_ns() - start;
	remember(&s, 0, s.bad ? s.bad_step / s.chunks : passes);
	right = !s.bad || judge(&s);
	if (s.bad)
		remember(&s, s.bad_step / s.chunks, passes);
	if (s.failed != NULL)
		return p2s_trial_fail(t, s.failed, &s.failure);
	if (!right)
		return 0;
	t->out.rounds += passes;
	p2s_trial_cover(t, 0, len);
	moved = passes * len;
	if (t->wall_ns > 0)
		t->out.verified_bytes_per_s = (uint64_t)((double)moved * 1e9 / (double)t->wall_ns);
	return 1;
}
