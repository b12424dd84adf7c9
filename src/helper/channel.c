#define _GNU_SOURCE
#include "helper/channel.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS UINT64_C(50000)      /* small operations end within this: no sleep, least latency */
#define YIELD_NS UINT64_C(300000)    /* then let others run */
#define YIELD_EAGER_NS UINT64_C(1000000) /* where there are CPUs to spare: no chunk of a streamed buffer ends in a sleep */
#define SLEEP_NS 50000L              /* then sleep in short pieces */
#define HANGUP_NS UINT64_C(20000000) /* how often a long wait looks whether the conductor is still there */
#define EAGER_NS UINT64_C(100000)    /* after an answer the next request is often near: waking up costs more than looking */

static const struct {
	p2s_channel_op *run;
	int needs_device; /* INIT must have succeeded */
} ops[] = {
	[P2S_OP_INIT] = {p2s_op_init, 0},
	[P2S_OP_ALLOC] = {p2s_op_alloc, 1},
	[P2S_OP_EXPORT] = {p2s_op_export, 1},
	[P2S_OP_IMPORT] = {p2s_op_import, 1},
	[P2S_OP_PEER_ENABLE] = {p2s_op_peer_enable, 1},
	[P2S_OP_CAN_ACCESS] = {p2s_op_can_access, 1},
	[P2S_OP_RELEASE] = {p2s_op_release, 1},
	[P2S_OP_FILL] = {p2s_op_fill, 1},
	[P2S_OP_CHECK] = {p2s_op_check, 1},
	[P2S_OP_LOAD] = {p2s_op_load, 1},
	[P2S_OP_COPY] = {p2s_op_copy, 1},
	[P2S_OP_PEEK] = {p2s_op_peek, 1},
	[P2S_OP_HOST_MAP] = {p2s_op_host_map, 1},
	[P2S_OP_HOST_COPY] = {p2s_op_host_copy, 1},
	[P2S_OP_MP] = {p2s_op_mp, 1},
	[P2S_OP_TEAR] = {p2s_op_tear, 1},
	[P2S_OP_ATOMIC] = {p2s_op_atomic, 1},
	[P2S_OP_CE_FLAG] = {p2s_op_ce_flag, 1},
	[P2S_OP_FILL_SLOTS] = {p2s_op_fill_slots, 1},
	[P2S_OP_MEM_INFO] = {p2s_op_mem_info, 1},
	[P2S_OP_LL] = {p2s_op_ll, 1},
	[P2S_OP_SPEED_INIT] = {p2s_op_speed_init, 1},
	[P2S_OP_SPEED] = {p2s_op_speed, 1},
	[P2S_OP_ROWS] = {p2s_op_rows, 1},
	[P2S_OP_LATENCY] = {p2s_op_latency, 1},
	[P2S_OP_PONG] = {p2s_op_pong, 1},
	[P2S_OP_STAGE] = {p2s_op_stage, 1},
	[P2S_OP_QUIT] = {p2s_op_quit, 0},
};

/* Errors after which a context answers nothing else. */
static int ends_context(p2s_curesult r)
{
	switch (r) {
	case P2S_CU_ERROR_ECC_UNCORRECTABLE:
	case P2S_CU_ERROR_NVLINK_UNCORRECTABLE:
	case P2S_CU_ERROR_ILLEGAL_ADDRESS:
	case P2S_CU_ERROR_LAUNCH_TIMEOUT:
	case P2S_CU_ERROR_CONTEXT_IS_DESTROYED:
	case P2S_CU_ERROR_ASSERT:
		return 1;
	default: /* 714..719: stack, instruction, alignment, address space, program counter, launch failed */
		return r >= 714 && r <= P2S_CU_ERROR_LAUNCH_FAILED;
	}
}

static void set_where(char *to, size_t cap, const char *where)
{
	size_t n = strlen(where);

	if (n > 3 && strcmp(where + n - 3, "_v2") == 0)
		n -= 3;
	snprintf(to, cap, "%.*s", (int)n, where);
}

int p2s_channel_ok(struct p2s_channel *c, struct p2s_op_answer *a, p2s_curesult r, const char *where)
{
	if (r == P2S_CU_SUCCESS)
		return 1;
	if (a->rc != P2S_RC_ERROR) { /* the first error is the cause, the next may follow from it */
		a->rc = P2S_RC_ERROR;
		a->cuda_error = r;
		set_where(a->where, sizeof a->where, where);
	}
	if (ends_context(r) && c->sticky == 0) {
		c->sticky = r;
		set_where(c->sticky_where, sizeof c->sticky_where, where);
	}
	return 0;
}

int p2s_channel_refuse(struct p2s_op_answer *a, int32_t rc, const char *where)
{
	a->rc = rc;
	set_where(a->where, sizeof a->where, where);
	return 0;
}

static int hung_up(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

int p2s_channel_wait(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns)
{
	uint64_t start = p2s_now_ns();
	uint64_t looked = start;
	uint64_t raised = 0;
	uint64_t limit = timeout_ns != 0 ? timeout_ns : P2S_DEFAULT_NS;
	uint64_t awake = c->worker->eager ? YIELD_EAGER_NS : YIELD_NS;

	for (;;) {
		p2s_curesult r = c->worker->cu.cuStreamQuery(c->stream);
		uint64_t now;

		if (c->control != NULL)
			c->control->heartbeat.word++;
		if (r != P2S_CU_ERROR_NOT_READY) {
			/* Only an abort of our own making, for work that is over now, may be taken back. */
			if (raised != 0 && c->control != NULL && r == P2S_CU_SUCCESS)
				c->control->abort.word = 0;
			return p2s_channel_ok(c, a, r, "cuStreamQuery");
		}
		now = p2s_now_ns();
		if (raised != 0 && now - raised > P2S_ABORT_NS) {
			c->stuck = 1;
			return p2s_channel_refuse(a, P2S_RC_TIMEOUT, "cuStreamQuery");
		}
		if (raised == 0 && now - looked > HANGUP_NS) {
			looked = now;
			c->hangup = hung_up(c->sock);
		}
		if (raised == 0 && (now - start > limit || c->hangup)) {
			raised = now;
			if (c->control != NULL)
				c->control->abort.word = 1;
		}
		if (now - start > awake) {
			struct timespec ts = {.tv_nsec = SLEEP_NS};

			nanosleep(&ts, NULL);
		} else if (now - start > SPIN_NS) {
			sched_yield();
		}
	}
}

int p2s_channel_launch(struct p2s_channel *c, struct p2s_op_answer *a, int kernel, uint32_t grid, uint32_t block,
					   const uint64_t *args, size_t count)
{
	uint64_t values[P2S_KERNEL_ARGS_MAX];
	void *pointers[P2S_KERNEL_ARGS_MAX];

	if (count > P2S_KERNEL_ARGS_MAX)
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "launch");
	for (size_t i = 0; i < count; i++) {
		values[i] = args[i];
		pointers[i] = &values[i];
	}
	return P2S_CU(c, a, cuLaunchKernel, c->fn[kernel], grid, 1, 1, block, 1, 1, 0, c->stream, pointers, NULL);
}

uint64_t p2s_channel_between(struct p2s_channel *c, p2s_cuevent begin, p2s_cuevent end)
{
	float ms = 0;

	if (c->worker->cu.cuEventElapsedTime(&ms, begin, end) != P2S_CU_SUCCESS || !(ms > 0) || ms > 1e9f)
		return 0;
	return (uint64_t)((double)ms * 1e6);
}

uint64_t p2s_channel_elapsed(struct p2s_channel *c)
{
	return p2s_channel_between(c, c->begin, c->end);
}

int p2s_channel_reach(const struct p2s_channel *c, const struct p2s_buffer *b, uint64_t off, uint64_t len, int local)
{
	int own;

	if (b == NULL || b->kind == P2S_BUFFER_HOST || off > b->bytes || len > b->bytes - off)
		return 0;
	own = b->channel == c->index;
	if (local)
		return own && (b->kind == P2S_BUFFER_PLAIN || b->kind == P2S_BUFFER_CUMEM);
	/* Peer access covers only cuMemAlloc memory; without it a kernel would fault and a copy would be staged unseen. */
	return own || (b->kind == P2S_BUFFER_PLAIN && (c->enabled >> b->channel & 1) != 0);
}

/* A stream that did not come back once may have come back since; until then nothing is queued behind it. */
static int usable(struct p2s_channel *c, struct p2s_op_answer *a)
{
	p2s_curesult r;

	if (c->sticky != 0) {
		a->rc = P2S_RC_ERROR;
		a->cuda_error = c->sticky;
		snprintf(a->where, sizeof a->where, "%s", c->sticky_where);
		return 0;
	}
	if (!c->ready)
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "no INIT");
	if (!c->stuck)
		return 1;
	r = c->worker->cu.cuStreamQuery(c->stream);
	if (r == P2S_CU_ERROR_NOT_READY)
		return p2s_channel_refuse(a, P2S_RC_TIMEOUT, "cuStreamQuery");
	c->stuck = 0;
	return p2s_channel_ok(c, a, r, "cuStreamQuery");
}

/* An operation is done when its answer arrives, also one that failed half way: what it had queued would come when others use that
 * memory, or when it is no longer mapped. The first error stays the answer, unless the engine does not come back. */
static void settle(struct p2s_channel *c, const struct p2s_op_request *q, struct p2s_op_answer *a)
{
	struct p2s_op_answer rest = {0};

	if ((a->rc == P2S_RC_ERROR || a->rc == P2S_RC_UNSUPPORTED) && c->ready && !c->stuck && c->sticky == 0 &&
		!p2s_channel_wait(c, &rest, q->timeout_ns) && rest.rc == P2S_RC_TIMEOUT)
		p2s_channel_refuse(a, P2S_RC_TIMEOUT, rest.where);
}

/* Serves one request. Returns 0 when the channel must end. */
static int serve(struct p2s_channel *c, const struct p2s_op_request *q, int fd)
{
	static const struct p2s_op_answer zero;
	struct p2s_op_answer a = zero;
	struct p2s_op_device device = {0};
	struct p2s_call call = {.q = q, .a = &a, .device = &device, .fd_in = fd, .fd_out = -1};
	enum p2s_io io;

	a.first_bad = ~UINT64_C(0);
	if (q->op >= sizeof ops / sizeof ops[0] || ops[q->op].run == NULL)
		p2s_channel_refuse(&a, P2S_RC_BAD_REQUEST, "op");
	else if (!ops[q->op].needs_device || usable(c, &a))
		ops[q->op].run(c, &call);
	settle(c, q, &a);
	if (call.fd_in >= 0)
		close(call.fd_in);
	a.seq = q->seq;
	if (call.has_device) {
		device.seq = q->seq;
		io = p2s_codec_send(c->sock, &p2s_op_table, p2s_id_op_device, &device, -1, p2s_now_ns() + P2S_DEFAULT_NS);
	} else {
		io = p2s_codec_send(c->sock, &p2s_op_table, p2s_id_op_answer, &a, call.fd_out, p2s_now_ns() + P2S_DEFAULT_NS);
	}
	if (call.fd_out >= 0)
		close(call.fd_out);
	return io == P2S_IO_OK && q->op != P2S_OP_QUIT;
}

/* The next request. An idle channel waits for ever: the end of the socket ends it, and the conductor has the clock. */
static enum p2s_io next(struct p2s_channel *c, union p2s_op_any *any, uint16_t *id, int *fd)
{
	uint64_t start = p2s_now_ns();
	enum p2s_io io = P2S_IO_TIMEOUT;

	while (c->worker->eager && io == P2S_IO_TIMEOUT && p2s_now_ns() - start < EAGER_NS)
		io = p2s_codec_recv(c->sock, &p2s_op_table, id, any, sizeof *any, fd, 0);
	while (io == P2S_IO_TIMEOUT)
		io = p2s_codec_recv(c->sock, &p2s_op_table, id, any, sizeof *any, fd, p2s_now_ns() + P2S_DEFAULT_NS);
	return io;
}

void *p2s_channel_main(void *arg)
{
	struct p2s_channel *c = arg;
	union p2s_op_any any;

	for (;;) {
		uint16_t id = 0;
		int fd = -1;

		if (next(c, &any, &id, &fd) != P2S_IO_OK)
			break;
		if (id != p2s_id_op_request) {
			if (fd >= 0)
				close(fd);
			break;
		}
		if (!serve(c, &any.request, fd))
			break;
	}
	atomic_store(&c->ended, 1);
	return NULL;
}
