/* Host links, and the path through host memory that every pair could fall back to: each GPU has a ring of pinned memory on its
 * own node, through which it sends (see p2s_stage_head). */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/word.h"
#include "helper/measure.h"

#define LINK_BYTES (P2S_STAGE_DEPTH * P2S_STAGE_SLOT)
#define LINK_PLAYED P2S_MIB
#define LINK_SAMPLE_NS UINT64_C(1500000)
#define LINK_SAMPLES 3
#define BUSY_NS (25 * P2S_MS) /* how long all links are kept busy while they are looked at, */
#define LOOK_NS (5 * P2S_MS)  /* and how long before that, as a sleeping link takes its time to speed up */
#define ROUNDS_MOST 64
#define STAGED_NS (400 * P2S_MS)    /* all rows of one direction; what does not fit is no row */
#define STAGED_PLAYED (16 * P2S_MIB) /* largest row of a simulated machine, whose host memory costs real time, */
#define STAGED_CROWDED (4 * P2S_MIB) /* and of one with more GPUs than */
#define STAGED_GPUS 8
#define STAGED_BOTH_ROW 13          /* 16 MiB */
#define STAGED_BOTH_PLAYED 9        /* 1 MiB */

/* The memory of this GPU that is copied: of the gpu worker, whichever it has. 0 none. */
static uint32_t memory_of(const struct p2s_device *d, uint32_t gpu, uint64_t *bytes)
{
	uint32_t number = d->bytes[P2S_B_PLAIN] != 0 ? P2S_B_PLAIN : P2S_B_CUMEM;

	*bytes = d->bytes[number];
	return *bytes >= P2S_MIB ? P2S_BUF(gpu, number) : 0;
}

/* A GPU whose own link to the host does not answer. */
static void link_failed(struct p2s_measure *m, uint32_t gpu, struct p2s_chan *chan, const struct p2s_op_answer *a)
{
	char text[160];

	uint64_t bytes;

	m->ring[gpu] = 0;
	if (a->rc == P2S_RC_ERROR)
		p2s_run_link_failed(m->run, chan, memory_of(&m->run->gpu[gpu], gpu, &bytes), a);
	if (a->rc != P2S_RC_TIMEOUT && a->rc != P2S_RC_STUCK)
		return;
	snprintf(text, sizeof text, "engine of %s did not come back: copy to or from the host", m->run->gpu[gpu].address);
	if (!p2s_run_keeps_going(m->run))
		atomic_store(&m->run->stopped, 1);
	p2s_link_fact(m->run, "GPU_WEDGED", P2PSAFE_SEVERITY_DANGER, (int32_t)gpu, -1, "test", text);
	p2s_run_drop_gpu(m->run, gpu, P2PSAFE_GPU_STATE_WEDGED, text);
	p2s_workers_kill(m->run, chan->proc);
}

static int map_ring(struct p2s_measure *m, uint32_t owner, uint32_t gpu)
{
	struct p2s_chan *chan = &m->run->gpu[gpu].chan[P2S_CHAN_GPU];
	struct p2s_op_request req = {.op = P2S_OP_HOST_MAP,
	                             .buf = P2S_BUF(owner, P2S_B_RING),
	                             .len = P2S_STAGE_BYTES,
	                             .timeout_ns = p2s_run_engine_ns(m->run, P2S_SEC)};
	struct p2s_op_answer answer;

	if (m->ring_fd[owner] < 0)
		return 0;
	p2s_chan_post(m->run, chan, &req, m->ring_fd[owner]);
	return p2s_chan_wait(m->run, chan, &answer, NULL) == P2S_RC_OK;
}

static void unmap_ring(struct p2s_measure *m, uint32_t owner, uint32_t gpu)
{
	struct p2s_op_request req = {.op = P2S_OP_RELEASE, .buf = P2S_BUF(owner, P2S_B_RING)};
	struct p2s_op_answer answer;

	p2s_chan_call(m->run, &m->run->gpu[gpu].chan[P2S_CHAN_GPU], &req, &answer);
}

static void make_ring(struct p2s_measure *m, uint32_t gpu)
{
	m->ring_fd[gpu] = memfd_create("p2psafe-ring", MFD_CLOEXEC);
	m->ring[gpu] = m->ring_fd[gpu] >= 0 && ftruncate(m->ring_fd[gpu], (off_t)P2S_STAGE_BYTES) == 0 &&
				   m->inited[P2S_CHAN_GPU][gpu] && map_ring(m, gpu, gpu);
}

/* Nobody is at the ring now: its counts begin anew, also where one side had given up before the other was done. */
static void rewind_ring(struct p2s_measure *m, uint32_t gpu)
{
	static const unsigned char zero[sizeof(struct p2s_stage_head)];

	if (pwrite(m->ring_fd[gpu], zero, sizeof zero, 0) != (ssize_t)sizeof zero)
		m->ring[gpu] = 0;
}

static void aim_link(struct p2s_measure *m, struct p2s_crowd *crowd, uint32_t gpu, uint32_t mode, uint64_t rate,
					 uint64_t sample_ns, uint32_t samples)
{
	struct p2s_device *d = &m->run->gpu[gpu];
	struct p2s_crowd_item *item = p2s_crowd_add(crowd, &d->chan[P2S_CHAN_GPU], P2S_OP_SPEED);
	uint64_t bytes;
	double rounds;

	item->req.buf = memory_of(d, gpu, &bytes);
	item->req.buf2 = P2S_BUF(gpu, P2S_B_RING);
	item->req.off2 = P2S_STAGE_HEAD;
	item->req.mode = mode;
	item->req.len = m->played ? LINK_PLAYED : LINK_BYTES < bytes ? LINK_BYTES : bytes;
	rounds = (double)rate * (double)sample_ns / 1e9 / (double)item->req.len;
	item->req.rounds = m->played || rounds < 1 ? 1 : rounds > ROUNDS_MOST ? ROUNDS_MOST : (uint32_t)rounds;
	item->req.words = m->played ? 1 : samples;
	item->req.flag_off = m->played ? 0 : 1;
}

static uint64_t rate_of(const struct p2s_measure *m, const struct p2s_crowd_item *item)
{
	if (item->answer.rc != P2S_RC_OK || item->answer.value != m->party || item->answer.device_ns == 0)
		return 0;
	return (uint64_t)((double)item->req.len * item->req.rounds * 1e9 / (double)item->answer.device_ns);
}

/* One GPU's link, while nothing else moves. */
static void one_link(struct p2s_measure *m, uint32_t gpu, uint64_t *to_host)
{
	static const struct {
		uint32_t mode;
		int32_t which;
	} ways[] = {{P2S_SPEED_TO_HOST, P2S_GPU_FACT_TO_HOST},
				{P2S_SPEED_FROM_HOST, P2S_GPU_FACT_FROM_HOST},
				{P2S_SPEED_HOST_BOTH, P2S_GPU_FACT_HOST_BOTH_WAYS}};
	static struct p2s_crowd crowd;

	*to_host = 0;
	for (size_t i = 0; i < sizeof ways / sizeof ways[0] && m->ring[gpu] && p2s_measure_may(m); i++) {
		struct p2s_lib_gpu_fact out = {.gpu = gpu, .which = ways[i].which};
		uint64_t rate = *to_host;

		/* First a short look at how fast it is, so that a slow link is not kept busy for long. */
		for (int look = rate == 0 && !m->played ? 0 : 1; look < 2 && m->ring[gpu]; look++) {
			crowd.count = 0;
			crowd.ready = 3;
			aim_link(m, &crowd, gpu, ways[i].mode, rate, look == 0 ? 0 : LINK_SAMPLE_NS, look == 0 ? 1 : LINK_SAMPLES);
			p2s_crowd_run(m, &crowd);
			rate = rate_of(m, &crowd.item[0]);
			if (crowd.item[0].answer.rc != P2S_RC_OK)
				link_failed(m, gpu, crowd.item[0].chan, &crowd.item[0].answer);
		}
		if (*to_host == 0)
			*to_host = rate;
		out.value = rate;
		if (rate != 0)
			p2s_link_send(m->run, p2s_id_lib_gpu_fact, &out, -1);
	}
}

static void look_at_links(struct p2s_run *run)
{
	struct timespec ts = {.tv_nsec = (long)LOOK_NS};

	nanosleep(&ts, NULL);
	p2s_workers_ask_host(run);
}

/* All links busy at once, and the host worker reads how fast and wide they are now. */
static void links_under_load(struct p2s_measure *m, const uint64_t *rate)
{
	static struct p2s_crowd crowd;

	crowd.count = 0;
	crowd.ready = 3;
	crowd.meanwhile = look_at_links;
	for (uint32_t i = 0; i < m->n; i++)
		if (m->ring[m->gpu[i]] && rate[i] != 0)
			aim_link(m, &crowd, m->gpu[i], P2S_SPEED_TO_HOST, rate[i], BUSY_NS / P2S_SAMPLES_MAX, P2S_SAMPLES_MAX);
	if (crowd.count == 0 || !p2s_measure_may(m))
		return;
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < crowd.count; i++)
		if (crowd.item[i].answer.rc != P2S_RC_OK)
			link_failed(m, crowd.item[i].chan->gpu, crowd.item[i].chan, &crowd.item[i].answer);
}

void p2s_measure_host_links(struct p2s_measure *m)
{
	uint64_t rate[P2S_MAX_GPUS] = {0};

	for (uint32_t i = 0; i < m->n && p2s_measure_may(m); i++) {
		make_ring(m, m->gpu[i]);
		if (m->ring[m->gpu[i]])
			one_link(m, m->gpu[i], &rate[i]);
	}
	links_under_load(m, rate);
}

/* ---- the staged path ---- */

struct stage { /* src to dst */
	uint32_t src;
	uint32_t dst;
	uint64_t key;
	uint64_t seed;
	uint64_t len;
	struct p2s_crowd_item *send;
	struct p2s_crowd_item *receive;
};

static unsigned char repeats(uint64_t bytes)
{
	return bytes <= 64 * P2S_KIB ? 32 : bytes <= P2S_MIB ? 16 : bytes <= 16 * P2S_MIB ? 4 : 1;
}

static int fill_source(struct p2s_measure *m, struct stage *s)
{
	struct p2s_op_request fill = {.op = P2S_OP_FILL, .len = s->len, .timeout_ns = p2s_run_engine_ns(m->run, P2S_SEC)};
	struct p2s_chan *chan = &m->run->gpu[s->src].chan[P2S_CHAN_GPU];
	struct p2s_op_answer answer;
	uint64_t bytes;

	s->key = p2s_run_key(m->run, s->src, s->dst, P2PSAFE_LEG_STAGED, P2S_M_COUNT);
	s->seed = fill.seed = p2s_seed(s->key, s->src, s->dst, P2PSAFE_LEG_STAGED, 2);
	fill.buf = memory_of(&m->run->gpu[s->src], s->src, &bytes);
	if (p2s_chan_call(m->run, chan, &fill, &answer) == P2S_RC_OK)
		return 1;
	link_failed(m, s->src, chan, &answer);
	return 0;
}

/* Bytes of the largest transfer that arrived whole: time may have been too short for all. */
static uint64_t arrived(const struct stage *s)
{
	struct p2s_stage_row got[P2S_ROWS];
	uint64_t bytes = 0;

	if (s->receive->answer.rc != P2S_RC_OK || s->receive->answer.samples_len != sizeof got)
		return 0;
	memcpy(got, s->receive->answer.samples, sizeof got);
	for (unsigned r = 0; r < s->receive->req.handle_len; r++)
		if (got[r].wall_each_ns != 0)
			bytes = p2s_row_bytes(r);
	return bytes;
}

/* The receiver looks at what came last. Wrong bytes: the staged path of this pair is not safe either. */
static void check_target(struct p2s_measure *m, const struct stage *s)
{
	uint64_t len = arrived(s);
	struct p2s_op_request check = {.op = P2S_OP_CHECK,
	                               .len = len,
	                               .in_len = len,
	                               .seed = s->seed,
	                               .seed2 = s->seed,
	                               .timeout_ns = p2s_run_engine_ns(m->run, P2S_SEC)};
	struct p2s_lib_staged out = {.a = s->src, .b = s->dst, .verdict = P2PSAFE_VERDICT_CORRUPT, .bytes = len};
	struct p2s_chan *chan = &m->run->gpu[s->dst].chan[P2S_CHAN_GPU];
	struct p2s_op_answer answer;
	uint64_t bytes;

	if (len == 0)
		return;
	check.buf = memory_of(&m->run->gpu[s->dst], s->dst, &bytes);
	if (p2s_chan_call(m->run, chan, &check, &answer) != P2S_RC_OK) {
		link_failed(m, s->dst, chan, &answer);
		return;
	}
	if (answer.bad_words == 0)
		return;
	out.damage = P2PSAFE_DAMAGE_UNKNOWN;
	snprintf(out.note, sizeof out.note, "%u to %u through host memory, while it was timed", s->src, s->dst);
	p2s_run_way(m->run, s->src, s->dst)->staged_ok = p2s_run_way(m->run, s->dst, s->src)->staged_ok = 0;
	p2s_link_send(m->run, p2s_id_lib_staged, &out, -1);
}

static void tell_rows(struct p2s_measure *m, const struct stage *s)
{
	struct p2s_stage_row sent[P2S_ROWS];
	struct p2s_stage_row got[P2S_ROWS];
	uint64_t best = 0;
	uint64_t least = 0;

	if (s->send->answer.rc != P2S_RC_OK || s->receive->answer.rc != P2S_RC_OK || s->send->answer.samples_len != sizeof sent ||
		s->receive->answer.samples_len != sizeof got)
		return;
	memcpy(sent, s->send->answer.samples, sizeof sent);
	memcpy(got, s->receive->answer.samples, sizeof got);
	for (unsigned r = 0; r < s->send->req.handle_len; r++) {
		uint64_t bytes = p2s_row_bytes(r);
		uint64_t alone = got[r].wall_alone_ns;
		uint64_t each = got[r].wall_each_ns;
		uint64_t rate;

		/* A modelled machine's CPUs are not those of this one: the halves follow each other, chunk by chunk. */
		if (m->played) {
			uint64_t longer =
				sent[r].device_alone_ns > got[r].device_alone_ns ? sent[r].device_alone_ns : got[r].device_alone_ns;
			uint64_t shorter = sent[r].device_alone_ns + got[r].device_alone_ns - longer;

			alone = each == 0 ? 0 : longer + shorter / (bytes / p2s_stage_chunk(bytes));
			each = each == 0                                        ? 0
				   : sent[r].device_each_ns > got[r].device_each_ns ? sent[r].device_each_ns
																	: got[r].device_each_ns;
		}
		if (alone == 0 || each == 0)
			continue;
		rate = (uint64_t)((double)bytes * 1e9 / (double)each);
		best = rate > best ? rate : best;
		least = least == 0 ? alone : least;
		p2s_measure_tell(m, s->src, s->dst, P2S_MEASURE_STAGED, rate, bytes);
		p2s_measure_tell(m, s->src, s->dst, P2S_MEASURE_STAGED_NS, alone, bytes);
	}
	p2s_measure_tell(m, s->src, s->dst, P2S_MEASURE_STAGED, best, 0);
	p2s_measure_tell(m, s->src, s->dst, P2S_MEASURE_STAGED_NS, least, 0);
}

static struct p2s_crowd_item *side(struct p2s_measure *m, struct p2s_crowd *crowd, uint32_t gpu)
{
	struct p2s_device *d = &m->run->gpu[gpu];
	struct p2s_crowd_item *item = p2s_crowd_add(crowd, &d->chan[P2S_CHAN_GPU], P2S_OP_STAGE);
	uint64_t bytes;

	item->req.buf = memory_of(d, gpu, &bytes);
	item->req.idiom = m->party + 1; /* any number that the ring has not seen */
	item->req.rounds = m->played ? 1 : 3;
	item->req.max_ns = m->played ? 20 * P2S_SEC : STAGED_NS;
	item->req.timeout_ns = item->req.max_ns + 2 * P2S_SEC;
	return item;
}

static void one_way(struct p2s_measure *m, struct stage *s, uint32_t count)
{
	static struct p2s_crowd crowd;
	uint64_t cap = UINT64_MAX;

	crowd.count = crowd.ready = 0;
	if (count == 0 || !p2s_measure_may(m))
		return;
	if (m->played)
		cap = m->n > STAGED_GPUS ? STAGED_CROWDED : STAGED_PLAYED;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t mine, theirs, most;

		memory_of(&m->run->gpu[s[i].src], s[i].src, &mine);
		memory_of(&m->run->gpu[s[i].dst], s[i].dst, &theirs);
		most = mine < theirs ? mine : theirs;
		most = most < cap ? most : cap;
		s[i].send = side(m, &crowd, s[i].src);
		s[i].receive = side(m, &crowd, s[i].dst);
		s[i].send->req.buf2 = s[i].receive->req.buf3 = P2S_BUF(s[i].src, P2S_B_RING);
		for (unsigned r = 0; r < P2S_ROWS && p2s_row_bytes(r) <= most; r++) {
			s[i].send->req.handle[r] = m->played ? 1 : repeats(p2s_row_bytes(r));
			s[i].send->req.handle_len = r + 1;
			s[i].len = p2s_row_bytes(r);
		}
		memcpy(s[i].receive->req.handle, s[i].send->req.handle, sizeof s[i].send->req.handle);
		s[i].receive->req.handle_len = s[i].send->req.handle_len;
	}
	for (uint32_t i = 0; i < count; i++)
		if (!fill_source(m, &s[i]))
			return;
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < count; i++) {
		int ok = 1;

		for (int end = 0; end < 2; end++) {
			struct p2s_crowd_item *item = end == 0 ? s[i].send : s[i].receive;

			if (item->answer.rc == P2S_RC_OK)
				continue;
			link_failed(m, item->chan->gpu, item->chan, &item->answer);
			ok = 0;
		}
		if (!ok)
			m->ring[s[i].src] = 0;
		else if (arrived(&s[i]) != s[i].len)
			rewind_ring(m, s[i].src); /* a slow path, whose largest sizes found no time */
		if (ok)
			check_target(m, &s[i]);
		if (p2s_run_way(m->run, s[i].src, s[i].dst)->staged_ok)
			tell_rows(m, &s[i]);
	}
}

/* Both directions at once: each memory's lower half is sent, its upper half received into. */
static void both_ways(struct p2s_measure *m, const struct stage *s, uint32_t count)
{
	static struct p2s_crowd crowd;
	unsigned row = m->played ? STAGED_BOTH_PLAYED : STAGED_BOTH_ROW;

	crowd.count = crowd.ready = 0;
	if (count == 0 || !p2s_measure_may(m))
		return;
	for (uint32_t i = 0; i < count; i++) {
		for (int end = 0; end < 2; end++) {
			uint32_t me = end == 0 ? s[i].src : s[i].dst;
			uint32_t other = end == 0 ? s[i].dst : s[i].src;
			struct p2s_crowd_item *item = side(m, &crowd, me);

			item->req.off2 = p2s_row_bytes(row);
			item->req.buf2 = P2S_BUF(me, P2S_B_RING);
			item->req.buf3 = P2S_BUF(other, P2S_B_RING);
			item->req.handle[row] = m->played ? 1 : 8;
			item->req.handle_len = row + 1;
		}
	}
	p2s_crowd_run(m, &crowd);
	for (uint32_t i = 0; i < count; i++) {
		struct p2s_stage_row got[P2S_ROWS];
		uint64_t ns = 0;

		for (int end = 0; end < 2; end++) {
			const struct p2s_crowd_item *item = &crowd.item[2 * i + (uint32_t)end];
			uint64_t each;

			/* What is wrong with its own link must not show as another pair's fault later. */
			if (item->answer.rc != P2S_RC_OK)
				link_failed(m, item->chan->gpu, item->chan, &item->answer);
			if (item->answer.rc != P2S_RC_OK || item->answer.samples_len != sizeof got) {
				ns = UINT64_MAX;
				continue;
			}
			memcpy(got, item->answer.samples, sizeof got);
			each = got[row].wall_each_ns == 0 ? UINT64_MAX : m->played ? got[row].device_each_ns : got[row].wall_each_ns;
			ns = each > ns ? each : ns;
		}
		if (ns != 0 && ns != UINT64_MAX) {
			p2s_measure_tell(m, s[i].src, s[i].dst, P2S_MEASURE_STAGED_BOTH_WAYS,
							 (uint64_t)(2 * (double)p2s_row_bytes(row) * 1e9 / (double)ns), 0);
			continue;
		}
		rewind_ring(m, s[i].src);
		rewind_ring(m, s[i].dst);
	}
}

void p2s_measure_staged(struct p2s_measure *m, const uint32_t *pair, uint32_t pairs)
{
	struct stage there[P2S_MAX_GPUS];
	struct stage back[P2S_MAX_GPUS];
	uint32_t n = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < pairs && p2s_measure_may(m); i++) {
		uint32_t a = m->gpu[pair[2 * i]];
		uint32_t b = m->gpu[pair[2 * i + 1]];

		if (!p2s_run_way(m->run, a, b)->staged_ok || !m->ring[a] || !m->ring[b] || atomic_load(&m->run->gpu[a].out) ||
			atomic_load(&m->run->gpu[b].out) || !map_ring(m, a, b))
			continue;
		if (!map_ring(m, b, a)) {
			unmap_ring(m, a, b);
			continue;
		}
		there[n] = (struct stage){.src = a, .dst = b};
		back[n++] = (struct stage){.src = b, .dst = a};
	}
	one_way(m, there, n);
	for (uint32_t i = 0; i < n; i++)
		if (m->ring[back[i].src] && m->ring[back[i].dst])
			back[kept++] = back[i];
	one_way(m, back, kept);
	both_ways(m, back, kept);
	for (uint32_t i = 0; i < n; i++) {
		unmap_ring(m, there[i].src, there[i].dst);
		unmap_ring(m, there[i].dst, there[i].src);
	}
}

void p2s_measure_host_end(struct p2s_measure *m)
{
	for (uint32_t g = 0; g < m->run->n; g++)
		if (m->ring_fd[g] >= 0)
			close(m->ring_fd[g]);
}
