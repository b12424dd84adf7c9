/* Operations that measure. Everything a sample consists of is queued behind a gate (p2s_gate) and timed between events on the
 * stream, so that what the calls cost is not in it. */
#include "helper/channel.h"

#include <string.h>

#include "helper/near.h"

/* As many threads as keep a link full: two blocks of 512 on every SM, eight 16-byte units in flight per thread. */
#define PUMP_BLOCK 512u
#define PUMP_PER_SM 1u /* as fast as two or four, and a little faster in long runs: measured on two H200 */
#define QUEUE_MOST 512 /* transfers queued at once: a full launch queue would block inside the driver */
#define TARGETS_MOST 64

static int make_marks(struct p2s_channel *c, struct p2s_op_answer *a)
{
	for (int i = 0; i < P2S_MARKS; i++)
		if (!P2S_CU(c, a, cuEventCreate, &c->mark[i], P2S_CU_EVENT_DEFAULT))
			return 0;
	for (int i = 0; i < 2 * P2S_STAGE_DEPTH; i++)
		if (!P2S_CU(c, a, cuEventCreate, &c->slot[i / P2S_STAGE_DEPTH][i % P2S_STAGE_DEPTH], P2S_CU_EVENT_DEFAULT))
			return 0;
	return P2S_CU(c, a, cuStreamCreate, &c->aside, P2S_CU_STREAM_NON_BLOCKING) &&
		   P2S_CU(c, a, cuEventCreate, &c->aside_end, P2S_CU_EVENT_DEFAULT);
}

/* Every kernel once, with nothing to do: the driver loads code and makes its queues now. */
static int first_launches(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns)
{
	const uint64_t ctl = c->pinned_dev + P2S_SCRATCH_CONTROL; /* go is always up there */
	const uint64_t res = c->scratch + P2S_SCRATCH_ROLES;
	const uint64_t words = c->scratch + P2S_SCRATCH_WORDS;

	return p2s_channel_launch(c, a, P2S_KERNEL_gate, 1, 32, (uint64_t[]){ctl, res, 0, 1000000, 1000000}, 5) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_pump, 1, 32, (uint64_t[]){words, words, 0, 0}, 4) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_chase, 1, 32, (uint64_t[]){words, res, 1024, 128, 1, 0, 0}, 7) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_issue, 1, 32, (uint64_t[]){words, res, 0, 0}, 4) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_pong, 1, 32, (uint64_t[]){ctl, res, words, words, 0, 0, 0, 0, 1000000, 1000000},
							  10) &&
		   p2s_channel_wait(c, a, timeout_ns);
}

void p2s_op_speed_init(struct p2s_channel *c, struct p2s_call *call)
{
	struct p2s_op_answer *a = call->a;
	char log[256];
	int32_t error = 0;

	if (c->measures) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "SPEED_INIT");
		return;
	}
	if (!c->kernels || !p2s_channel_module(c, 1, &error, log, sizeof log)) {
		a->cuda_error = error;
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_gate");
		return;
	}
	if (!make_marks(c, a) || !first_launches(c, a, call->q->timeout_ns))
		return;
	c->measures = 1;
	a->value = p2s_near_bind(c->numa_node) ? (uint64_t)c->numa_node + 1 : 0;
}

/* Puts the gate into the stream. */
static int shut(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q)
{
	const uint64_t res = c->scratch + P2S_SCRATCH_ROLES;

	c->control->ready[0].word = 0;
	c->control->ready[1].word = 0;
	c->control->polls.word = 0;
	atomic_thread_fence(memory_order_seq_cst);
	return P2S_CU(c, a, cuMemcpyHtoDAsync_v2, res, c->pinned + P2S_SCRATCH_ZERO, sizeof(struct p2s_role_result), c->stream) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_gate, 1, 32,
							  (uint64_t[]){c->control_dev, res, q->idiom, q->max_ns, p2s_channel_most_polls(q->max_ns)}, 5);
}

/* Says that all is queued, waits for the end of it, and learns whether the gate was opened. Whatever else went wrong, what is
 * queued must be over before the answer: the conductor raises abort when it does not see ready. */
static int opened(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns, int queued)
{
	const uint64_t res = c->scratch + P2S_SCRATCH_ROLES;
	struct p2s_role_result r;

	if (!queued || !P2S_CU(c, a, cuMemcpyDtoHAsync_v2, c->pinned + P2S_SCRATCH_ROLES, res, sizeof r, c->stream)) {
		struct p2s_op_answer rest = {.rc = P2S_RC_OK};

		c->control->abort.word = 1;
		p2s_channel_wait(c, &rest, timeout_ns);
		return 0;
	}
	c->control->ready[1].word = 1;
	if (!p2s_channel_wait(c, a, timeout_ns))
		return 0;
	memcpy(&r, c->pinned + P2S_SCRATCH_ROLES, sizeof r);
	a->value = r.status == P2S_ROLE_DONE ? r.seen_a : 0;
	return 1;
}

struct moving { /* what a sample consists of */
	uint32_t mode;
	uint32_t rounds;
	uint64_t len;
	p2s_cuptr dst;
	p2s_cuptr src;
	unsigned char *host;
};

static int pump(struct p2s_channel *c, struct p2s_op_answer *a, const struct moving *m, uint32_t rounds)
{
	uint64_t units = (m->len / 16 + PUMP_BLOCK - 1) / PUMP_BLOCK;
	uint64_t most = (uint64_t)c->sm_count * PUMP_PER_SM;
	uint32_t grid = (uint32_t)(units < most ? units : most);

	return p2s_channel_launch(c, a, P2S_KERNEL_pump, grid, PUMP_BLOCK, (uint64_t[]){m->dst, m->src, m->len, rounds}, 4);
}

/* Both directions of the host link: the second stream starts behind the gate like the first, and ends before the next event. */
static int both(struct p2s_channel *c, struct p2s_op_answer *a, const struct moving *m, uint32_t rounds)
{
	uint64_t half = m->len / 2;

	if (!P2S_CU(c, a, cuEventRecord, c->aside_end, c->stream) || !P2S_CU(c, a, cuStreamWaitEvent, c->aside, c->aside_end, 0))
		return 0;
	for (uint32_t i = 0; i < rounds; i++)
		if (!P2S_CU(c, a, cuMemcpyHtoDAsync_v2, m->dst, m->host, half, c->aside) ||
			!P2S_CU(c, a, cuMemcpyDtoHAsync_v2, m->host + half, m->dst + half, half, c->stream))
			return 0;
	return P2S_CU(c, a, cuEventRecord, c->aside_end, c->aside) && P2S_CU(c, a, cuStreamWaitEvent, c->stream, c->aside_end, 0);
}

static int move(struct p2s_channel *c, struct p2s_op_answer *a, const struct moving *m, uint32_t rounds)
{
	if (rounds == 0)
		return 1;
	if (m->mode == P2S_SPEED_PUMP)
		return pump(c, a, m, rounds);
	if (m->mode == P2S_SPEED_HOST_BOTH)
		return both(c, a, m, rounds);
	for (uint32_t i = 0; i < rounds; i++) {
		int ok = m->mode == P2S_SPEED_TO_HOST     ? P2S_CU(c, a, cuMemcpyDtoHAsync_v2, m->host, m->dst, m->len, c->stream)
				 : m->mode == P2S_SPEED_FROM_HOST ? P2S_CU(c, a, cuMemcpyHtoDAsync_v2, m->dst, m->host, m->len, c->stream)
												  : P2S_CU(c, a, cuMemcpyAsync, m->dst, m->src, m->len, c->stream);

		if (!ok)
			return 0;
	}
	return 1;
}

static uint64_t median(const uint64_t *sample, uint32_t count)
{
	uint64_t sorted[TARGETS_MOST] = {0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < count && i < TARGETS_MOST; i++) {
		uint32_t at = n++;

		for (; at > 0 && sorted[at - 1] > sample[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = sample[i];
	}
	return n == 0 ? 0 : sorted[n / 2];
}

static void speed(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, const struct moving *m)
{
	uint64_t ns[P2S_SAMPLES_MAX];
	int queued = shut(c, a, q) && move(c, a, m, q->flag_off) && P2S_CU(c, a, cuEventRecord, c->mark[0], c->stream);

	for (uint32_t i = 0; i < q->words && queued; i++)
		queued = move(c, a, m, q->rounds) && P2S_CU(c, a, cuEventRecord, c->mark[i + 1], c->stream);
	if (!opened(c, a, q->timeout_ns, queued))
		return;
	for (uint32_t i = 0; i < q->words; i++)
		ns[i] = p2s_channel_between(c, c->mark[i], c->mark[i + 1]);
	a->device_ns = median(ns, q->words);
	a->samples_len = q->words * (uint32_t)sizeof ns[0];
	memcpy(a->samples, ns, a->samples_len);
}

/* Device and host buffers where SPEED and ROWS may touch them. Returns 1, and what moves. */
static int aim(const struct p2s_channel *c, const struct p2s_op_request *q, const struct p2s_buffer *b,
			   const struct p2s_buffer *b2, uint64_t len, struct moving *m)
{
	*m = (struct moving){.mode = q->mode, .rounds = q->rounds, .len = len};
	if (len == 0 || len % 32 != 0 || (q->off | q->off2) % 16 != 0 || b == NULL || b2 == NULL || b == b2)
		return 0;
	m->dst = b->ptr + q->off;
	if (q->mode >= P2S_SPEED_TO_HOST) {
		if (b2->kind != P2S_BUFFER_HOST || q->off2 > b2->bytes || len > b2->bytes - q->off2)
			return 0;
		m->host = (unsigned char *)b2->host + q->off2;
		return p2s_channel_reach(c, b, q->off, len, 1);
	}
	m->src = b2->ptr + q->off2;
	return p2s_channel_reach(c, b, q->off, len, 0) && p2s_channel_reach(c, b2, q->off2, len, 0) && (b->ptr | b2->ptr) % 16 == 0;
}

void p2s_op_speed(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *b2 = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	struct moving m;

	if (q->mode > P2S_SPEED_HOST_BOTH || q->rounds == 0 || q->words == 0 || q->words > P2S_SAMPLES_MAX || q->max_ns == 0 ||
		(uint64_t)q->rounds * q->words + q->flag_off > QUEUE_MOST || !aim(c, q, b, b2, q->len, &m))
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "SPEED");
	else if (!c->measures)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_gate");
	else
		speed(c, a, q, &m);
	p2s_buffers_unpin(&c->worker->buffers, b2);
	p2s_buffers_unpin(&c->worker->buffers, b);
}

/* The largest row that is asked for, and how much is queued in all. 0: none. */
static uint64_t largest(const struct p2s_op_request *q, uint32_t *queued)
{
	uint64_t len = 0;

	*queued = 0;
	for (unsigned r = 0; r < P2S_ROWS && r < q->handle_len; r++) {
		if (q->handle[r] == 0)
			continue;
		len = p2s_row_bytes(r);
		*queued += q->handle[r] + 1u;
	}
	return len;
}

/* Row r has the marks 4r (begin), 4r + 1 (one is over), 4r + 2 (begin of many), 4r + 3. */
static void rows_of(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, struct moving *m)
{
	struct p2s_row row[P2S_ROWS];
	int queued = shut(c, a, q);

	memset(row, 0, sizeof row);
	for (unsigned r = 0; r < P2S_ROWS && r < q->handle_len && queued; r++) {
		m->len = p2s_row_bytes(r);
		if (q->handle[r] == 0)
			continue;
		queued = P2S_CU(c, a, cuEventRecord, c->mark[4 * r], c->stream) && move(c, a, m, 1) &&
				 P2S_CU(c, a, cuEventRecord, c->mark[4 * r + 1], c->stream) &&
				 P2S_CU(c, a, cuEventRecord, c->mark[4 * r + 2], c->stream) && move(c, a, m, q->handle[r]) &&
				 P2S_CU(c, a, cuEventRecord, c->mark[4 * r + 3], c->stream);
	}
	if (!opened(c, a, q->timeout_ns, queued))
		return;
	for (unsigned r = 0; r < P2S_ROWS && r < q->handle_len; r++) {
		if (q->handle[r] == 0)
			continue;
		row[r].alone_ns = p2s_channel_between(c, c->mark[4 * r], c->mark[4 * r + 1]);
		row[r].each_ns = p2s_channel_between(c, c->mark[4 * r + 2], c->mark[4 * r + 3]) / q->handle[r];
	}
	a->samples_len = sizeof row;
	memcpy(a->samples, row, sizeof row);
}

void p2s_op_rows(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *b2 = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	uint32_t queued;
	struct moving m;

	if (q->mode != P2S_SPEED_COPY || q->max_ns == 0 || !aim(c, q, b, b2, largest(q, &queued), &m) || queued > QUEUE_MOST)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "ROWS");
	else if (!c->measures)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_gate");
	else
		rows_of(c, a, q, &m);
	p2s_buffers_unpin(&c->worker->buffers, b2);
	p2s_buffers_unpin(&c->worker->buffers, b);
}

/* One launch, its result, and picoseconds per access; 0 unknown. */
static uint64_t one_latency(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, uint64_t ptr,
							uint32_t target)
{
	const uint64_t res = c->scratch + P2S_SCRATCH_ROLES;
	uint32_t block = (uint32_t)((uint64_t)target * (uint32_t)c->sm_count / (q->words != 0 ? q->words : 1));
	uint64_t accesses = q->mode == P2S_LATENCY_CHASE ? q->rounds : (uint64_t)q->rounds * q->slot_bytes;
	struct p2s_role_result r;

	if (q->mode == P2S_LATENCY_CHASE)
		p2s_channel_roles(c, a, P2S_KERNEL_chase, (uint32_t)c->sm_count, 32,
						  (uint64_t[]){ptr, res, q->len, q->slot_bytes, q->rounds, block, 0}, 7, q->timeout_ns);
	else
		p2s_channel_roles(c, a, P2S_KERNEL_issue, 1, 32, (uint64_t[]){ptr, res, q->slot_bytes, q->rounds}, 4, q->timeout_ns);
	if (a->rc != P2S_RC_OK || a->roles_len < sizeof r)
		return 0;
	memcpy(&r, a->roles, sizeof r);
	return r.status == P2S_ROLE_DONE ? r.elapsed_ns * 1000 / accesses : 0;
}

void p2s_op_latency(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	int chase = q->mode == P2S_LATENCY_CHASE;
	uint64_t len = chase ? q->len : (uint64_t)q->slot_bytes * 16;
	uint64_t ps[TARGETS_MOST];
	uint32_t targets = chase ? q->words : 1;

	if (q->mode > P2S_LATENCY_ISSUE || !p2s_channel_reach(c, b, q->off, len, 0) || len == 0 || (b->ptr + q->off) % 16 != 0 ||
		q->rounds == 0 || targets == 0 || targets > TARGETS_MOST ||
		(chase && ((len & (len - 1)) != 0 || q->slot_bytes < 4 || len % q->slot_bytes != 0)))
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "LATENCY");
	else if (!c->measures)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_chase");
	for (uint32_t i = 0; i < targets && a->rc == P2S_RC_OK; i++)
		ps[i] = one_latency(c, a, q, b->ptr + q->off, i);
	if (a->rc == P2S_RC_OK)
		a->value = median(ps, targets);
	p2s_buffers_unpin(&c->worker->buffers, b);
}

void p2s_op_pong(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *w = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *r = p2s_buffers_pin(&c->worker->buffers, q->buf2);

	if (!p2s_channel_reach(c, w, q->off, 256, 0) || !p2s_channel_reach(c, r, q->off2, 256, 1) ||
		(q->off | q->off2) % 128 != 0 || q->rounds == 0 || q->words >= q->rounds || q->mode > 1 || q->max_ns == 0)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "PONG");
	else if (!c->measures)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_pong");
	else
		p2s_channel_roles(c, a, P2S_KERNEL_pong, 1, 32,
						  (uint64_t[]){c->control_dev, c->scratch + P2S_SCRATCH_ROLES, w->ptr + q->off, r->ptr + q->off2,
									   q->seed, q->rounds, q->words, q->mode, q->max_ns, p2s_channel_most_polls(q->max_ns)},
						  10, q->timeout_ns);
	p2s_buffers_unpin(&c->worker->buffers, r);
	p2s_buffers_unpin(&c->worker->buffers, w);
}
