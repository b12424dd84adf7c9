/* Operations whose kernels wait for another GPU: message passing, tearing, atomics. Before each the conductor clears ready, go
 * and abort of the control page; the worker clears ready once more, and takes back only an abort that it raised itself. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <string.h>

#define ROLES_BYTES (2 * sizeof(struct p2s_role_result))
#define POLLS_LEAST (UINT64_C(1) << 20)
#define CAS_PER_SWAP 256 /* the other GPU may win many times in a row, but it stops after its own count */
#define CAS_LEAST 65536
#define WARP 32u
#define MOST_THREADS 1024u
#define LINE_BYTES 128u

int p2s_channel_slots(const struct p2s_channel *c, const struct p2s_buffer *b, uint64_t off, const struct p2s_op_request *q,
					  int local)
{
	uint64_t len;

	if (q->rounds == 0 || q->words == 0 || q->slot_bytes % 8 != 0 || q->flag_off % 8 != 0 || off % 8 != 0 ||
		q->flag_off < (uint64_t)q->words * 8 || q->slot_bytes < (uint64_t)q->flag_off + 8)
		return 0;
	len = (uint64_t)(q->rounds - 1) * q->slot_bytes + q->flag_off + 8;
	return p2s_channel_reach(c, b, off, len, local);
}

/* A poll takes more than a nanosecond, so this bound bites only if the GPU's timer does not count. */
uint64_t p2s_channel_most_polls(uint64_t max_ns)
{
	return max_ns > POLLS_LEAST ? max_ns : POLLS_LEAST;
}

void p2s_channel_roles(struct p2s_channel *c, struct p2s_op_answer *a, int kernel, uint32_t grid, uint32_t block,
					   const uint64_t *args, size_t count, uint64_t timeout_ns)
{
	const uint64_t res = c->scratch + P2S_SCRATCH_ROLES;
	const uint64_t mark = ++c->serial;
	uint64_t found;

	c->control->ready[0].word = 0;
	c->control->ready[1].word = 0;
	c->control->polls.word = 0;
	memcpy(c->pinned + P2S_SCRATCH_ZERO + ROLES_BYTES, &mark, sizeof mark);
	atomic_thread_fence(memory_order_seq_cst);
	if (!P2S_CU(c, a, cuMemcpyHtoDAsync_v2, res, c->pinned + P2S_SCRATCH_ZERO, ROLES_BYTES + sizeof mark, c->stream) ||
		!P2S_CU(c, a, cuEventRecord, c->begin, c->stream) || !p2s_channel_launch(c, a, kernel, grid, block, args, count) ||
		!P2S_CU(c, a, cuEventRecord, c->end, c->stream) ||
		!P2S_CU(c, a, cuMemcpyDtoHAsync_v2, c->pinned + P2S_SCRATCH_ROLES, res, ROLES_BYTES + sizeof mark, c->stream) ||
		!p2s_channel_wait(c, a, timeout_ns))
		return;
	/* What the mark does not stand behind are results of the time before. */
	memcpy(&found, c->pinned + P2S_SCRATCH_ROLES + ROLES_BYTES, sizeof found);
	if (found != mark) {
		a->cuda_error = P2S_CU_ERROR_UNKNOWN;
		p2s_channel_refuse(a, P2S_RC_ERROR, "results were not brought back");
		return;
	}
	a->device_ns = p2s_channel_elapsed(c);
	a->roles_len = ROLES_BYTES;
	memcpy(a->roles, c->pinned + P2S_SCRATCH_ROLES, ROLES_BYTES);
}

void p2s_op_mp(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *w = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *r = p2s_buffers_pin(&c->worker->buffers, q->buf2);

	if ((q->buf == 0 && q->buf2 == 0) || (q->buf != 0 && !p2s_channel_slots(c, w, q->off, q, 0)) ||
		(q->buf2 != 0 && !p2s_channel_slots(c, r, q->off2, q, 0)) || q->mode % WARP != 0 || q->mode > MOST_THREADS ||
		q->idiom > (q->mode == 0 ? 3 : 15) || q->max_ns == 0)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "MP");
	else if (!c->kernels)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, q->mode == 0 ? "p2s_mp" : "p2s_wide");
	else
		p2s_channel_roles(c, a, q->mode == 0 ? P2S_KERNEL_mp : P2S_KERNEL_wide, 2, q->mode == 0 ? WARP : q->mode,
				  (uint64_t[]){c->control_dev, c->scratch + P2S_SCRATCH_ROLES, w != NULL ? w->ptr + q->off : 0,
							   r != NULL ? r->ptr + q->off2 : 0, q->seed, q->seed2, q->rounds, q->words, q->slot_bytes,
							   q->flag_off, q->idiom, q->pace_ns, q->max_ns, p2s_channel_most_polls(q->max_ns)},
				  14, q->timeout_ns);
	p2s_buffers_unpin(&c->worker->buffers, r);
	p2s_buffers_unpin(&c->worker->buffers, w);
}

void p2s_op_tear(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *w = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *r = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	uint64_t len = ((uint64_t)q->words + 1) * 8;

	if ((q->buf == 0 && q->buf2 == 0) || q->words == 0 || (q->off | q->off2) % 8 != 0 ||
		(q->buf != 0 && !p2s_channel_reach(c, w, q->off, len, 0)) ||
		(q->buf2 != 0 && !p2s_channel_reach(c, r, q->off2, len, 0)) || q->rounds == 0 || q->max_ns == 0)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "TEAR");
	else if (!c->kernels)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_tear");
	else
		p2s_channel_roles(c, a, P2S_KERNEL_tear, 2, WARP,
				  (uint64_t[]){c->control_dev, c->scratch + P2S_SCRATCH_ROLES, w != NULL ? w->ptr + q->off : 0,
							   r != NULL ? r->ptr + q->off2 : 0, q->words, q->seed, q->seed2, q->rounds, q->max_ns,
							   p2s_channel_most_polls(q->max_ns)},
				  10, q->timeout_ns);
	p2s_buffers_unpin(&c->worker->buffers, r);
	p2s_buffers_unpin(&c->worker->buffers, w);
}

void p2s_op_ll(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *w = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *r = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	uint32_t unit = q->mode == P2S_LL_LINE ? LINE_BYTES : 16;
	uint64_t words = (uint64_t)q->words * 8;
	uint64_t len = (uint64_t)(q->rounds - 1) * q->slot_bytes + words;

	if ((q->buf == 0 && q->buf2 == 0) || q->mode > P2S_LL_LINE || q->rounds == 0 || words == 0 || words % unit != 0 ||
		q->slot_bytes % unit != 0 || q->slot_bytes < words || (q->off | q->off2) % unit != 0 || q->max_ns == 0 ||
		(q->buf != 0 && !p2s_channel_reach(c, w, q->off, len, 0)) || (q->buf2 != 0 && !p2s_channel_reach(c, r, q->off2, len, 0)))
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "LL");
	else if (!c->kernels)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_ll");
	else
		p2s_channel_roles(c, a, P2S_KERNEL_ll, 2, WARP,
				  (uint64_t[]){c->control_dev, c->scratch + P2S_SCRATCH_ROLES, w != NULL ? w->ptr + q->off : 0,
							   r != NULL ? r->ptr + q->off2 : 0, q->seed, q->seed2, q->rounds, q->words, q->slot_bytes, q->mode,
							   q->pace_ns, q->max_ns, p2s_channel_most_polls(q->max_ns)},
				  13, q->timeout_ns);
	p2s_buffers_unpin(&c->worker->buffers, r);
	p2s_buffers_unpin(&c->worker->buffers, w);
}

void p2s_op_atomic(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);

	if (!p2s_channel_reach(c, b, q->off, 16, 0) || q->off % 8 != 0 || q->rounds == 0)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "ATOMIC");
	else if (!c->kernels)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_atomic");
	else
		p2s_channel_roles(c, a, P2S_KERNEL_atomic, 1, WARP,
				  (uint64_t[]){c->control_dev, c->scratch + P2S_SCRATCH_ROLES, b->ptr + q->off, q->rounds,
							   (uint64_t)q->rounds * CAS_PER_SWAP + CAS_LEAST},
				  5, q->timeout_ns);
	p2s_buffers_unpin(&c->worker->buffers, b);
}

void p2s_op_fill_slots(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	uint64_t max_ns = q->timeout_ns != 0 ? q->timeout_ns : P2S_DEFAULT_NS;

	if (!p2s_channel_slots(c, b, q->off, q, 1)) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "FILL_SLOTS");
	} else if (!c->kernels) {
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_mp");
	} else {
		/* p2s_mp's writer alone, on a control page of our own where go is always up. */
		const struct p2s_role_result *r = (const void *)a->roles;
		struct p2s_role_result role;

		p2s_channel_roles(c, a, P2S_KERNEL_mp, 2, WARP,
				  (uint64_t[]){c->pinned_dev + P2S_SCRATCH_CONTROL, c->scratch + P2S_SCRATCH_ROLES, b->ptr + q->off, 0, q->seed,
							   0, q->rounds, q->words, q->slot_bytes, q->flag_off, 1, 0, max_ns, p2s_channel_most_polls(max_ns)},
				  14, q->timeout_ns);
		memcpy(&role, r, sizeof role);
		if (a->rc == P2S_RC_OK && (role.status != P2S_ROLE_DONE || role.rounds_done != q->rounds))
			p2s_channel_refuse(a, P2S_RC_TIMEOUT, "p2s_mp");
	}
	p2s_buffers_unpin(&c->worker->buffers, b);
}
