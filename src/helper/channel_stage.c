/* One side of transfers through shared host memory (STAGE), as frameworks stage: the sender's copy engine fills slots of a
 * ring, the receiver's empties them, and the CPUs of both processes only poll and count. One loop serves both directions at
 * once. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#define SPIN_NS UINT64_C(20000)    /* without progress: look again at once, */
#define YIELD_NS UINT64_C(2000000) /* then let others run, */
#define NAP_NS 50000L              /* then sleep in short pieces */

struct side { /* sending or receiving */
	struct p2s_channel *c;
	struct p2s_op_answer *a;
	const struct p2s_op_request *q;
	int sends;
	int marks; /* this side's stream is timed by c->mark */
	struct p2s_stage_head *head;
	unsigned char *ring;
	p2s_cuptr dev;
	p2s_custream stream;
	p2s_cuevent *slot;
	/* the transfer at work: `messages` of p2s_row_bytes(row) each */
	unsigned row;
	uint32_t alone; /* how many of the row were done alone */
	uint32_t messages;
	int active;
	uint64_t first;    /* number of its first chunk, counted since the ring was made */
	uint64_t end;      /* number behind its last */
	uint64_t issued;   /* copies given to the engine */
	uint64_t finished; /* copies that are over */
	uint64_t start_ns;
	uint64_t sample[P2S_SAMPLES_MAX]; /* wall times of the row's transfers that went alone */
	struct p2s_stage_row rows[P2S_ROWS];
	int over;
};

/* The next row that is asked for, from `row` on. */
static void seek(struct side *s, unsigned row)
{
	while (row < P2S_ROWS && (row >= s->q->handle_len || s->q->handle[row] == 0))
		row++;
	s->row = row;
	s->alone = 0;
	s->over = row >= P2S_ROWS;
}

static void plan(struct side *s)
{
	uint64_t bytes = p2s_row_bytes(s->row);

	s->messages = s->alone < s->q->rounds ? 1 : s->q->handle[s->row];
	s->first = s->finished;
	s->end = s->first + s->messages * (bytes / p2s_stage_chunk(bytes));
	s->active = 0;
}

static int mark(struct side *s, unsigned which)
{
	if (!s->marks || (s->alone < s->q->rounds && s->alone != 0))
		return 1;
	return P2S_CU(s->c, s->a, cuEventRecord, s->c->mark[4 * s->row + which + (s->alone < s->q->rounds ? 0 : 2)], s->stream);
}

static int issue(struct side *s)
{
	uint64_t bytes = p2s_row_bytes(s->row);
	uint64_t chunk = p2s_stage_chunk(bytes);
	uint64_t at = (s->issued - s->first) % (bytes / chunk) * chunk;
	unsigned char *host = s->ring + s->issued % P2S_STAGE_DEPTH * P2S_STAGE_SLOT;
	struct p2s_channel *c = s->c;
	int ok = s->issued != s->first || mark(s, 0);

	if (ok && s->sends)
		ok = P2S_CU(c, s->a, cuMemcpyDtoHAsync_v2, host, s->dev + at, chunk, s->stream);
	else if (ok)
		ok = P2S_CU(c, s->a, cuMemcpyHtoDAsync_v2, s->dev + at, host, chunk, s->stream);
	ok = ok && P2S_CU(c, s->a, cuEventRecord, s->slot[s->issued % P2S_STAGE_DEPTH], s->stream);
	s->issued++;
	return ok && (s->issued != s->end || mark(s, 1));
}

static uint64_t middle(const uint64_t *sample, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t below = 0;

		for (uint32_t k = 0; k < n; k++)
			below += sample[k] < sample[i] || (k < i && sample[k] == sample[i]);
		if (below == n / 2)
			return sample[i];
	}
	return 0;
}

/* The transfer is over on this side: keep its time, go to the next. */
static void next(struct side *s, uint64_t now)
{
	struct p2s_stage_row *row = &s->rows[s->row];

	if (s->alone < s->q->rounds) {
		s->sample[s->alone++] = now - s->start_ns;
		if (s->alone == s->q->rounds)
			row->wall_alone_ns = s->sends ? 0 : middle(s->sample, s->alone);
	} else {
		row->wall_each_ns = s->sends ? 0 : (now - s->start_ns) / s->messages;
		seek(s, s->row + 1);
	}
	if (!s->over)
		plan(s);
}

/* Does one copy's worth of work, if there is any. 1 done something, 0 nothing to do now, -1 the driver failed. */
static int turn(struct side *s)
{
	int moved = 0;

	if (s->sends && !s->active && s->head->party.word == s->q->idiom && s->head->consumed.word == s->first) {
		s->active = 1;
		s->start_ns = p2s_now_ns();
		s->head->start_ns.word = s->start_ns;
	} else if (!s->sends && !s->active && s->head->produced.word > s->first) {
		s->active = 1;
		s->start_ns = s->head->start_ns.word; /* before the last chunk is given back: then the sender may begin anew */
	}
	if (!s->active)
		return 0;
	if (s->issued < s->end && s->issued - s->finished < P2S_STAGE_DEPTH &&
		(s->sends ? s->issued - s->head->consumed.word < P2S_STAGE_DEPTH : s->head->produced.word > s->issued)) {
		atomic_thread_fence(memory_order_seq_cst);
		if (!issue(s))
			return -1;
		moved = 1;
	}
	if (s->finished < s->issued) {
		p2s_curesult r = s->c->worker->cu.cuEventQuery(s->slot[s->finished % P2S_STAGE_DEPTH]);

		if (r == P2S_CU_ERROR_NOT_READY)
			return moved;
		if (!p2s_channel_ok(s->c, s->a, r, "cuEventQuery"))
			return -1;
		s->finished++;
		atomic_thread_fence(memory_order_seq_cst);
		if (s->finished == s->end) {
			uint64_t done = s->end;

			next(s, p2s_now_ns());
			(s->sends ? &s->head->produced : &s->head->consumed)->word = done;
			return 1;
		}
		(s->sends ? &s->head->produced : &s->head->consumed)->word = s->finished;
		moved = 1;
	}
	return moved;
}

static void open_side(struct side *s, int sends, const struct p2s_buffer *dev, uint64_t off, const struct p2s_buffer *host)
{
	s->sends = sends;
	s->head = host->host;
	s->ring = (unsigned char *)host->host + P2S_STAGE_HEAD;
	s->dev = dev->ptr + off;
	s->slot = s->c->slot[sends ? 0 : 1];
	s->finished = s->issued = sends ? s->head->produced.word : s->head->consumed.word;
	seek(s, 0);
	if (!s->over)
		plan(s);
	if (!sends)
		s->head->party.word = s->q->idiom;
}

static void rest(uint64_t idle_ns)
{
	struct timespec ts = {.tv_nsec = NAP_NS};

	if (idle_ns > YIELD_NS)
		nanosleep(&ts, NULL);
	else if (idle_ns > SPIN_NS)
		sched_yield();
}

/* Runs until both sides are over or a bound is met. */
static void run(struct p2s_channel *c, const struct p2s_op_request *q, struct side *side, int count)
{
	uint64_t start = p2s_now_ns();
	uint64_t last = start;
	int gone = 0;

	while (!gone && (!side[0].over || !side[count - 1].over)) {
		int moved = 0;
		uint64_t now;

		for (int i = 0; i < count && !gone; i++) {
			int did = side[i].over ? 0 : turn(&side[i]);

			gone = did < 0 || side[i].head->stop.word != 0;
			moved |= did;
		}
		now = p2s_now_ns();
		c->control->heartbeat.word++;
		if (moved)
			last = now;
		gone |= now - start > q->max_ns || c->control->abort.word != 0;
		rest(now - last);
	}
	for (int i = 0; i < count && gone; i++)
		side[i].head->stop.word = 1;
}

static void stage(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_op_request *q, struct side *side, int count)
{
	struct p2s_stage_row *rows = side[count - 1].rows; /* the receiver's, where there is one */

	run(c, q, side, count);
	if (a->rc != P2S_RC_OK || (count == 2 && (!P2S_CU(c, a, cuEventRecord, c->aside_end, c->aside) ||
											  !P2S_CU(c, a, cuStreamWaitEvent, c->stream, c->aside_end, 0))))
		return;
	if (!p2s_channel_wait(c, a, q->timeout_ns))
		return;
	for (unsigned r = 0; r < P2S_ROWS; r++) {
		if (r >= q->handle_len || q->handle[r] == 0 || !(side[0].over || r < side[0].row))
			continue;
		rows[r].device_alone_ns = p2s_channel_between(c, c->mark[4 * r], c->mark[4 * r + 1]);
		rows[r].device_each_ns = p2s_channel_between(c, c->mark[4 * r + 2], c->mark[4 * r + 3]) / q->handle[r];
	}
	a->samples_len = sizeof side[0].rows;
	memcpy(a->samples, rows, a->samples_len);
}

static uint64_t largest(const struct p2s_op_request *q)
{
	uint64_t len = 0;

	for (unsigned r = 0; r < P2S_ROWS && r < q->handle_len; r++)
		if (q->handle[r] != 0)
			len = p2s_row_bytes(r);
	return len;
}

void p2s_op_stage(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *dev = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_buffer *out = p2s_buffers_pin(&c->worker->buffers, q->buf2);
	struct p2s_buffer *in = p2s_buffers_pin(&c->worker->buffers, q->buf3);
	struct side side[2];
	uint64_t len = largest(q);
	int bad = dev == NULL || (q->buf2 == 0 && q->buf3 == 0) || len == 0 || q->idiom == 0 || q->max_ns == 0 || q->rounds == 0 ||
			  q->rounds > P2S_SAMPLES_MAX;
	int count = 0;

	memset(side, 0, sizeof side);
	for (int i = 0; i < 2 && !bad; i++) {
		const struct p2s_buffer *host = i == 0 ? out : in;
		uint64_t off = i == 0 ? q->off : q->off2;

		if ((i == 0 ? q->buf2 : q->buf3) == 0)
			continue;
		bad = host == NULL || host->kind != P2S_BUFFER_HOST || host->bytes < P2S_STAGE_BYTES || off % 16 != 0 ||
			  !p2s_channel_reach(c, dev, off, len, 1);
		if (bad)
			break;
		side[count].c = c;
		side[count].a = a;
		side[count].q = q;
		side[count].stream = count == 0 ? c->stream : c->aside;
		side[count].marks = count == 0;
		open_side(&side[count++], i == 0, dev, off, host);
	}
	if (bad)
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "STAGE");
	else if (!c->measures)
		p2s_channel_refuse(a, P2S_RC_NO_KERNELS, "p2s_gate");
	else
		stage(c, a, q, side, count);
	p2s_buffers_unpin(&c->worker->buffers, in);
	p2s_buffers_unpin(&c->worker->buffers, out);
	p2s_buffers_unpin(&c->worker->buffers, dev);
}
