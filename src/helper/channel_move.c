/* Operations that move or judge bytes and never wait for another GPU. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <string.h>
#include <time.h>

#include "core/word.h"

/* Launch shapes, as measured on an H200: stores need few threads (one block of 256 on every SM fills local memory fastest
 * and a peer's as fast as any), loads need as many as fit. */
#define BLOCK 256
#define LOAD_BLOCK 512
#define FILL_PER_SM 1
#define CHECK_PER_SM 8
#define LOAD_PER_SM 4
#define UNITS_PER_THREAD 4
#define SMALL_BYTES 512  /* first contact: one warp */
#define SERIAL_SHIFT 40 /* above the words of any buffer */
#define SLOTS_QUEUED 128 /* copies are queued in batches, so that a full queue never blocks inside the driver */

/* Blocks for len bytes: enough threads for UNITS_PER_THREAD units of 16 bytes each, at most per_sm blocks on every SM. */
static void shape(const struct p2s_channel *c, uint64_t len, uint32_t bulk_block, uint32_t per_sm, uint32_t *grid,
				  uint32_t *block)
{
	uint64_t per_block = (uint64_t)bulk_block * 16 * UNITS_PER_THREAD;
	uint64_t most = (uint64_t)c->sm_count * per_sm;
	uint64_t n = (len + per_block - 1) / per_block;

	if (len <= SMALL_BYTES) {
		*grid = 1;
		*block = 32;
		return;
	}
	*grid = (uint32_t)(n < most ? n : most);
	*block = bulk_block;
}

static int begin(struct p2s_channel *c, struct p2s_op_answer *a)
{
	return P2S_CU(c, a, cuEventRecord, c->begin, c->stream);
}

static int finish(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns)
{
	if (!P2S_CU(c, a, cuEventRecord, c->end, c->stream) || !p2s_channel_wait(c, a, timeout_ns))
		return 0;
	a->device_ns = p2s_channel_elapsed(c);
	return 1;
}

void p2s_op_fill(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	uint32_t grid;
	uint32_t block;

	if (!p2s_channel_reach(c, b, q->off, q->len, 0) || q->len == 0 || b->ptr % 16 != 0) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "FILL");
	} else if (!c->kernels && !p2s_channel_reach(c, b, q->off, q->len, 1)) {
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_fill");
	} else if (!c->kernels) {
		p2s_channel_host_fill(c, a, q, b);
	} else {
		shape(c, q->len, BLOCK, FILL_PER_SM, &grid, &block);
		if (begin(c, a) &&
			p2s_channel_launch(c, a, P2S_KERNEL_fill, grid, block, (uint64_t[]){b->ptr, q->off, q->off + q->len, q->seed}, 4))
			finish(c, a, q->timeout_ns);
	}
	p2s_buffers_unpin(&c->worker->buffers, b);
}

/* A driver that reports success for what it did not do must not pass for a judge that found nothing: the words that were compared are
 * counted from a number that no check before had. Returns 1 if all of [q->off, q->off + q->len) was. */
static int whole(const struct p2s_op_request *q, struct p2s_op_answer *a, uint64_t base, uint64_t compared)
{
	if (compared == base + q->len / 8)
		return 1;
	a->cuda_error = P2S_CU_ERROR_UNKNOWN;
	return p2s_channel_refuse(a, P2S_RC_ERROR, "p2s_check was not carried out");
}

/* By the kernel. Returns 1 when *r holds what it found. */
static int kernel_check(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q,
						const struct p2s_buffer *b, struct p2s_check_result *r)
{
	const uint64_t res = c->scratch + P2S_SCRATCH_CHECK;
	uint64_t in_end = q->in_off + q->in_len;
	struct p2s_check_result *start = (struct p2s_check_result *)(void *)(c->pinned + P2S_SCRATCH_START);
	const uint64_t base = ++c->serial << SERIAL_SHIFT;
	uint32_t grid;
	uint32_t block;

	shape(c, q->len, BLOCK, CHECK_PER_SM, &grid, &block);
	start->compared = base;
	if (!P2S_CU(c, a, cuMemcpyHtoDAsync_v2, res, c->pinned + P2S_SCRATCH_START, sizeof *r, c->stream) || !begin(c, a) ||
		!p2s_channel_launch(c, a, P2S_KERNEL_check, grid, block,
							(uint64_t[]){b->ptr, q->off, q->off + q->len, q->in_off, in_end, q->seed, q->seed2, res}, 8) ||
		!P2S_CU(c, a, cuEventRecord, c->end, c->stream) ||
		!P2S_CU(c, a, cuMemcpyDtoHAsync_v2, c->pinned + P2S_SCRATCH_CHECK, res, sizeof *r, c->stream) ||
		!p2s_channel_wait(c, a, q->timeout_ns))
		return 0;
	memcpy(r, c->pinned + P2S_SCRATCH_CHECK, sizeof *r);
	a->device_ns = p2s_channel_elapsed(c);
	return whole(q, a, base, r->compared);
}

static void check(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, const struct p2s_buffer *b)
{
	struct p2s_check_result r;

	if (!(c->kernels ? kernel_check(c, a, q, b, &r) : p2s_channel_host_check(c, a, q, b, &r)))
		return;
	a->bad_words = r.bad_words;
	a->first_bad = r.first_bad;
	a->value = r.samples;
	a->samples_len = (uint32_t)(r.samples < P2S_SAMPLES ? r.samples : P2S_SAMPLES) * (uint32_t)sizeof r.sample[0];
	memcpy(a->samples, r.sample, a->samples_len);
}

void p2s_op_check(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);

	if (!p2s_channel_reach(c, b, q->off, q->len, 1) || q->len == 0 || (q->off | q->len) % 8 != 0 || b->ptr % 16 != 0 ||
		q->in_off > b->bytes || q->in_len > b->bytes - q->in_off)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "CHECK");
	else
		check(c, a, q, b);
	/* No answer without a judgement may look like a clean one. */
	if (a->rc != P2S_RC_OK)
		a->bad_words = ~UINT64_C(0);
	p2s_buffers_unpin(&c->worker->buffers, b);
}

void p2s_op_load(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *dst = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *src = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	uint32_t grid;
	uint32_t block;

	if (!p2s_channel_reach(c, dst, q->off, q->len, 1) || !p2s_channel_reach(c, src, q->off, q->len, 0) || q->len == 0 ||
		q->mode > 2 || (q->mode != 0 && (q->off | q->len) % 8 != 0) || (dst->ptr | src->ptr) % 16 != 0 || dst == src) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "LOAD");
	} else if (!c->kernels) {
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_load");
	} else {
		shape(c, q->len, LOAD_BLOCK, LOAD_PER_SM, &grid, &block);
		if (begin(c, a) && p2s_channel_launch(c, a, P2S_KERNEL_load, grid, block,
											  (uint64_t[]){dst->ptr, src->ptr, q->off, q->off + q->len, q->mode}, 5))
			finish(c, a, q->timeout_ns);
	}
	p2s_buffers_unpin(&c->worker->buffers, src);
	p2s_buffers_unpin(&c->worker->buffers, dst);
}

static int copy(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, const struct p2s_buffer *to,
				const struct p2s_buffer *from)
{
	p2s_cuptr dst = to->ptr + q->off;
	p2s_cuptr src = from->ptr + q->off2;
	uint64_t half = q->len / 2;

	if (q->mode == P2S_COPY_PEER_ASYNC)
		return P2S_CU(c, a, cuMemcpyPeerAsync, dst, c->worker->channel[to->channel].ctx, src,
					  c->worker->channel[from->channel].ctx, q->len, c->stream);
	if (q->mode == P2S_COPY_ASYNC)
		return P2S_CU(c, a, cuMemcpyAsync, dst, src, q->len, c->stream);
	return P2S_CU(c, a, cuMemcpyAsync, dst, src + half, half, c->stream) &&
		   P2S_CU(c, a, cuMemcpyAsync, dst + half, src, half, c->stream);
}

void p2s_op_copy(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_worker *w = c->worker;
	struct p2s_buffer *dst = p2s_buffers_pin(&w->buffers, q->buf);
	struct p2s_buffer *src = p2s_buffers_pin(&w->buffers, q->buf2);

	if (!p2s_channel_reach(c, dst, q->off, q->len, 0) || !p2s_channel_reach(c, src, q->off2, q->len, 0) || q->len == 0 ||
		q->mode > P2S_COPY_HALVES || (q->mode == P2S_COPY_HALVES && q->len % 2 != 0) || dst == src) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "COPY");
	} else if (q->mode == P2S_COPY_PEER_ASYNC && (w->cu.missing & P2S_FEATURE_PEER) != 0) {
		p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuMemcpyPeerAsync");
	} else if (begin(c, a) && copy(c, a, q, dst, src)) {
		finish(c, a, q->timeout_ns);
	}
	p2s_buffers_unpin(&w->buffers, src);
	p2s_buffers_unpin(&w->buffers, dst);
}

void p2s_op_peek(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	unsigned char *words = c->pinned + P2S_SCRATCH_WORDS;

	if (!p2s_channel_reach(c, b, q->off, q->len, 0) || q->len == 0 || q->len > sizeof a->samples) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "PEEK");
	} else {
		memset(words, 0, sizeof a->samples);
		if (P2S_CU(c, a, cuMemcpyDtoHAsync_v2, words, b->ptr + q->off, q->len, c->stream) &&
			p2s_channel_wait(c, a, q->timeout_ns)) {
			memcpy(a->samples, words, q->len);
			a->samples_len = (uint32_t)q->len;
		}
	}
	p2s_buffers_unpin(&c->worker->buffers, b);
}

void p2s_op_host_copy(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *dev = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *host = p2s_buffers_pin(&c->worker->buffers, q->buf2);

	if (!p2s_channel_reach(c, dev, q->off, q->len, 1) || host == NULL || host->kind != P2S_BUFFER_HOST || q->len == 0 ||
		q->off2 > host->bytes || q->len > host->bytes - q->off2 || q->mode > 1) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "HOST_COPY");
	} else if (begin(c, a)) {
		unsigned char *at = (unsigned char *)host->host + q->off2;
		int queued = q->mode == 0 ? P2S_CU(c, a, cuMemcpyDtoHAsync_v2, at, dev->ptr + q->off, q->len, c->stream)
								  : P2S_CU(c, a, cuMemcpyHtoDAsync_v2, dev->ptr + q->off, at, q->len, c->stream);

		if (queued)
			finish(c, a, q->timeout_ns);
	}
	p2s_buffers_unpin(&c->worker->buffers, host);
	p2s_buffers_unpin(&c->worker->buffers, dev);
}

/* Until when, not for how long: a late wake-up does not add up over the slots. */
static void pace(uint64_t until_ns)
{
	uint64_t now = p2s_now_ns();
	struct timespec ts;

	if (now >= until_ns)
		return;
	ts.tv_sec = (time_t)((until_ns - now) / UINT64_C(1000000000));
	ts.tv_nsec = (long)((until_ns - now) % UINT64_C(1000000000));
	nanosleep(&ts, NULL);
}

/* The flag of slot k behind what the stream was given before. at: offset of the slot. */
static int raise_flag(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, uint32_t k, p2s_cuptr dst,
					  p2s_cuptr src)
{
	uint64_t at = (uint64_t)k * q->slot_bytes + q->flag_off;
	uint64_t seed = p2s_seed_epoch(q->seed, k + 1);

	if (q->mode == P2S_FLAG_WRITE)
		return P2S_CU(c, a, cuStreamWriteValue64_v2, c->stream, dst + at, p2s_word(seed, at / 8), 0);
	if (q->mode == P2S_FLAG_KERNEL)
		return p2s_channel_launch(c, a, P2S_KERNEL_fill, 1, 32, (uint64_t[]){dst, at, at + 8, seed}, 4);
	return P2S_CU(c, a, cuMemcpyAsync, dst + at, src + at, 8, c->stream);
}

static void ce_flag(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, p2s_cuptr dst,
					p2s_cuptr src)
{
	uint64_t start = p2s_now_ns();

	if (!begin(c, a))
		return;
	for (uint32_t k = 0; k < q->rounds; k++) {
		uint64_t at = (uint64_t)k * q->slot_bytes;

		if (q->pace_ns != 0)
			pace(start + k * q->pace_ns);
		if (!P2S_CU(c, a, cuMemcpyAsync, dst + at, src + at, (size_t)q->words * 8, c->stream) ||
			!raise_flag(c, a, q, k, dst, src))
			return;
		if (k % SLOTS_QUEUED == SLOTS_QUEUED - 1 && !p2s_channel_wait(c, a, q->timeout_ns))
			return;
	}
	finish(c, a, q->timeout_ns);
}

void p2s_op_ce_flag(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *dst = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *src = p2s_buffers_pin(&c->worker->buffers, q->buf2);

	if (!p2s_channel_slots(c, dst, q->off, q, 0) || !p2s_channel_slots(c, src, q->off2, q, 0) || dst == src ||
		q->pace_ns > UINT64_C(1000000000) || q->mode > P2S_FLAG_WRITE || (dst->ptr + q->off) % 16 != 0)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "CE_FLAG");
	else if (q->mode == P2S_FLAG_KERNEL && !c->kernels)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_fill");
	else if (q->mode == P2S_FLAG_WRITE && (c->worker->cu.missing & P2S_FEATURE_STREAM_WRITE) != 0)
		p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuStreamWriteValue64");
	else
		ce_flag(c, a, q, dst->ptr + q->off, src->ptr + q->off2);
	p2s_buffers_unpin(&c->worker->buffers, src);
	p2s_buffers_unpin(&c->worker->buffers, dst);
}
