/* Transfers while everything else moves, too. One process keeps the copy engines busy between all GPUs (the peer mapping, every
 * byte checked by its owner, and host memory beside it) while the others pass messages and tear words over the same links. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/word.h"
#include "helper/legs_both.h"

#define SLICE_MAX (32 * P2S_MIB)
#define SLICE_SMALL (2 * P2S_MIB) /* the first; and where the host does the work: simulated, or without kernels */
#define HOST_BYTES P2S_MIB
#define COPY_NS (4 * P2S_MS) /* what one copy may take, so that a slow way is not loaded for seconds */
#define LEAST_PASSES 2
#define MOST_PASSES 2000

struct load;

struct sender { /* one GPU's copies to its targets */
	struct load *load;
	uint32_t gpu;
	pthread_t thread;
	int started;
};

struct load {
	struct p2s_run *run;
	uint32_t gpu[P2S_MAX_GPUS];
	uint32_t n;
	uint64_t slice; /* room of one sender in each target */
	uint64_t len[P2S_MAX_GPUS * P2S_MAX_GPUS]; /* of the next copy, [from * n + to] */
	int to;   /* index of the only target, -1 all */
	int from; /* index of the only sender, -1 all */
	atomic_int host; /* host memory is mapped on all of them, and works */
	unsigned char mapped[P2S_MAX_GPUS]; /* on this one */
	atomic_int stop;
	struct sender sender[P2S_MAX_GPUS];
	struct p2s_lane lane[P2S_MAX_GPUS * P2S_MAX_GPUS];
	struct p2s_trial trial[P2S_MAX_GPUS * P2S_MAX_GPUS]; /* [from * n + to] */
};

static int call(struct p2s_trial *t, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	if (p2s_chan_call(t->lane->run, chan, req, answer) == P2S_RC_OK)
		return 1;
	return p2s_trial_fail(t, chan, answer);
}

static int check(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed)
{
	struct p2s_expect e;

	p2s_trial_expect(t, seed, off, len, 0, &e);
	return p2s_step_check(t, chan, buf, off, len, &e);
}

/* The own slice to the host and back: traffic that shares the links. What it does wrong is the staged path's fault, which has a
 * test of its own, and no pair is blamed for it unless it is the GPU's end; it then stops. Returns 1 if all came back. */
static int host_round(const struct p2s_trial *of, uint64_t off, uint64_t seed)
{
	struct p2s_trial apart = *of;
	struct p2s_trial *t = &apart;
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_request copy = {
		.op = P2S_OP_HOST_COPY, .buf = lane->loc_acc, .off = off, .buf2 = P2S_BUF(lane->a, P2S_B_HOST), .len = HOST_BYTES};
	struct p2s_op_answer answer;

	apart.unheard = 1;
	copy.off2 = 0;
	if (!call(t, lane->acc, &copy, &answer))
		return 0;
	copy.mode = 1;
	return call(t, lane->acc, &copy, &answer) && check(t, lane->acc, lane->loc_acc, off, HOST_BYTES, seed);
}

/* As much as fits in the time, after a copy of len bytes that took ns. */
static uint64_t next_len(const struct load *l, uint64_t len, uint64_t ns)
{
	uint64_t bytes = ns < COPY_NS / 65536 ? l->slice : len / 1024 * COPY_NS / ns * 1024;

	bytes -= bytes % (64 * P2S_KIB);
	if (bytes < 64 * P2S_KIB)
		bytes = 64 * P2S_KIB;
	return bytes < l->slice ? bytes : l->slice;
}

/* One pass of a sender: new content, to every target, each judged by its owner. Returns 0 when nothing is left to do. */
static int pass(struct load *l, uint32_t s)
{
	uint64_t off = s * l->slice;
	struct p2s_trial *first = NULL;
	uint64_t seed = 0;

	for (uint32_t d = 0; d < l->n; d++) {
		struct p2s_trial *t = &l->trial[s * l->n + d];
		uint64_t len = l->len[s * l->n + d];
		struct p2s_op_request copy = {.op = P2S_OP_COPY, .off = off, .off2 = off, .len = len, .mode = P2S_COPY_ASYNC};
		/* No less than what goes to the host and back. */
		struct p2s_op_request fill = {
			.op = P2S_OP_FILL, .off = off, .len = len < HOST_BYTES && l->slice >= HOST_BYTES ? HOST_BYTES : len};
		struct p2s_op_answer answer;
		uint64_t moved_ns;

		if (d == s || t->lane == NULL || t->over || (l->to >= 0 && (uint32_t)l->to != d))
			continue;
		seed = p2s_trial_seed(t);
		fill.buf = copy.buf2 = t->lane->loc_acc;
		fill.seed = seed;
		copy.buf = t->lane->win_acc;
		if (!call(t, t->lane->acc, &fill, &answer) || !call(t, t->lane->acc, &copy, &answer))
			continue;
		moved_ns = answer.device_ns;
		if (!check(t, t->lane->own, t->lane->win_own, off, len, seed))
			continue;
		l->len[s * l->n + d] = next_len(l, len, moved_ns);
		t->out.bytes += len;
		t->out.rounds++;
		p2s_trial_cover(t, off, len);
		if (first == NULL)
			first = t;
	}
	if (first != NULL && atomic_load(&l->host) && !host_round(first, off, seed))
		atomic_store(&l->host, 0);
	return first != NULL;
}

static void *send_all(void *arg)
{
	struct sender *s = arg;
	struct load *l = s->load;

	for (int i = 0; i < MOST_PASSES && (i < LEAST_PASSES || !atomic_load(&l->stop)); i++)
		if (!p2s_run_may_start(l->run) || !pass(l, s->gpu))
			break;
	return NULL;
}

/* Messages and words over the mapping of separate processes, both ways at once, while the copies run. */
static void under_load(struct p2s_run *run, uint32_t a, uint32_t b)
{
	struct p2s_both x;

	for (int m = P2S_M_CUMEM; m <= P2S_M_IPC; m++) {
		unsigned dirs = 0;

		for (unsigned i = 0; i < 2; i++) {
			uint32_t src = i == 0 ? a : b;
			uint32_t dst = i == 0 ? b : a;
			const struct p2s_way *way = p2s_run_way(run, src, dst);

			/* What one pattern of traffic showed, no other takes back. */
			if (way->verdict[P2PSAFE_LEG_LOAD][m] != 0 && way->verdict[P2PSAFE_LEG_LOAD][m] != P2PSAFE_VERDICT_OK)
				continue;
			if (way->verdict[P2PSAFE_LEG_MP_PULL][m] == P2PSAFE_VERDICT_OK &&
			    way->verdict[P2PSAFE_LEG_TEARING_8][m] == P2PSAFE_VERDICT_OK && p2s_run_may_test(run, src, dst))
				dirs |= 1u << i;
		}
		if (dirs == 0 || !p2s_both_open(run, a, b, m, dirs, P2PSAFE_LEG_LOAD, &x))
			continue;
		p2s_message_under_load(&x);
		for (int pull = 0; pull < 2; pull++)
			p2s_tear_form(&x, pull, p2s_both_slow(run) ? 500 : 2000);
		p2s_both_end(&x);
		return;
	}
}

static int open_lanes(struct load *l)
{
	uint64_t least = UINT64_MAX;
	int small = p2s_both_slow(l->run);
	int any = 0;

	for (uint32_t i = 0; i < l->n * l->n; i++) {
		uint32_t s = i / l->n;
		uint32_t d = i % l->n;
		uint32_t a = l->gpu[s];
		uint32_t b = l->gpu[d];

		if (s == d || !p2s_run_may_test(l->run, a, b) ||
		    p2s_run_way(l->run, a, b)->verdict[P2PSAFE_LEG_CE_WRITE][P2S_M_PEER] != P2PSAFE_VERDICT_OK ||
		    !p2s_lane_open(l->run, a, b, P2S_M_PEER, &l->lane[i]))
			continue;
		p2s_trial_begin(&l->trial[i], &l->lane[i], P2PSAFE_LEG_LOAD);
		least = l->lane[i].bytes < least ? l->lane[i].bytes : least;
		small |= !l->lane[i].kernels;
		any = 1;
	}
	if (!any)
		return 0;
	l->slice = least / l->n / (64 * P2S_KIB) * (64 * P2S_KIB);
	if (l->slice > (small ? SLICE_SMALL : SLICE_MAX))
		l->slice = small ? SLICE_SMALL : SLICE_MAX;
	for (uint32_t i = 0; i < l->n * l->n; i++)
		l->len[i] = l->slice < SLICE_SMALL ? l->slice : SLICE_SMALL; /* its time says how much is next */
	return l->slice > 0;
}

static void map_host(struct load *l)
{
	l->host = l->slice >= HOST_BYTES;
	for (uint32_t i = 0; i < l->n && l->host; i++) {
		struct p2s_chan *chan = &l->run->gpu[l->gpu[i]].chan[P2S_CHAN_PEER];
		struct p2s_op_request req = {.op = P2S_OP_HOST_MAP, .buf = P2S_BUF(l->gpu[i], P2S_B_HOST), .len = HOST_BYTES};
		struct p2s_op_answer answer;
		int fd = memfd_create("p2psafe-load", MFD_CLOEXEC);

		l->host = fd >= 0 && ftruncate(fd, (off_t)HOST_BYTES) == 0;
		if (l->host) {
			p2s_chan_post(l->run, chan, &req, fd);
			l->host = l->mapped[i] = p2s_chan_wait(l->run, chan, &answer, NULL) == P2S_RC_OK;
		}
		if (fd >= 0)
			close(fd);
	}
}

/* The next cycle maps it anew. */
static void release_host(struct load *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (l->mapped[i])
			p2s_chan_release(l->run, &l->run->gpu[l->gpu[i]].chan[P2S_CHAN_PEER], P2S_BUF(l->gpu[i], P2S_B_HOST));
}

/* One pattern of traffic: all to all, all to one, one to all. */
static void pattern(struct load *l, int from, int to)
{
	l->from = from;
	l->to = to;
	atomic_store(&l->stop, 0);
	for (uint32_t s = 0; s < l->n; s++) {
		l->sender[s] = (struct sender){.load = l, .gpu = s};
		if (from < 0 || (uint32_t)from == s)
			l->sender[s].started = pthread_create(&l->sender[s].thread, NULL, send_all, &l->sender[s]) == 0;
	}
	p2s_run_rounds(l->run, under_load);
	atomic_store(&l->stop, 1);
	for (uint32_t s = 0; s < l->n; s++)
		if (l->sender[s].started)
			pthread_join(l->sender[s].thread, NULL);
}

void p2s_load_run(struct p2s_run *run)
{
	static struct load l; /* large; one run per process */

	if (run->ask.level == P2PSAFE_LEVEL_QUICK || !p2s_run_may_start(run))
		return;
	memset(&l, 0, sizeof l);
	l.run = run;
	for (uint32_t i = 0; i < run->tested_count; i++)
		if (!atomic_load(&run->gpu[run->tested[i]].out))
			l.gpu[l.n++] = run->tested[i];
	if (!open_lanes(&l))
		return;
	map_host(&l);
	pattern(&l, -1, -1);
	for (uint32_t i = 0; i < l.n && (i == 0 || run->ask.level == P2PSAFE_LEVEL_THOROUGH); i++) {
		if (l.n > 2 && p2s_run_may_start(run))
			pattern(&l, -1, (int)i);
		if (p2s_run_may_start(run))
			pattern(&l, (int)i, -1);
	}
	release_host(&l);
	for (uint32_t i = 0; i < l.n * l.n; i++) {
		static const struct p2s_judgement none = {.verdict = P2PSAFE_VERDICT_UNTESTED, .note = "no copy was made under load"};

		if (l.trial[i].lane == NULL)
			continue;
		if (l.trial[i].out.rounds == 0)
			p2s_trial_judged(&l.trial[i], &none);
		else if (!atomic_load(&l.host) && !l.trial[i].over)
			snprintf(l.trial[i].out.note, sizeof l.trial[i].out.note, "without traffic to host memory");
		p2s_trial_end(&l.trial[i]);
	}
}
