#include "helper/legs.h"

#include <stdio.h>
#include <string.h>

#include "core/names.h"
#include "core/word.h"

int p2s_run_may_start(struct p2s_run *run)
{
	p2s_klog_drain(run); /* it may forbid to go on */
	if (atomic_load(&run->stopped))
		return 0;
	if (p2s_now_ns() < run->stop_ns)
		return 1;
	atomic_store(&run->deadline, 1);
	return 0;
}

int p2s_run_may_test(struct p2s_run *run, uint32_t a, uint32_t b)
{
	const struct p2s_way *there = p2s_run_way(run, a, b);
	const struct p2s_way *back = p2s_run_way(run, b, a);

	if (!there->clean || !p2s_run_may_start(run) || atomic_load(&run->gpu[a].out) || atomic_load(&run->gpu[b].out))
		return 0;
	if (p2s_run_keeps_going(run))
		return 1;
	if (!back->clean || atomic_load(&there->bad) || atomic_load(&back->bad))
		return 0;
	return !atomic_load(&run->corrupt) || p2s_run_path(run, a, b) == P2PSAFE_PATH_NVL;
}

int p2s_lane_alive(const struct p2s_lane *lane)
{
	return !atomic_load(&lane->acc->dead) && !atomic_load(&lane->own->dead) && !atomic_load(&lane->run->gpu[lane->a].out) &&
	       !atomic_load(&lane->run->gpu[lane->b].out);
}

int p2s_lane_open(struct p2s_run *run, uint32_t a, uint32_t b, int m, struct p2s_lane *lane)
{
	static const uint32_t own_number[P2S_M_COUNT] = {P2S_B_CUMEM, P2S_B_PLAIN, P2S_B_PEER};
	static const uint32_t in_number[P2S_M_COUNT] = {P2S_B_IN_CUMEM, P2S_B_IN_IPC, P2S_B_PEER};
	int kind = m == P2S_M_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU;
	uint64_t mine = run->gpu[a].bytes[own_number[m]];
	uint64_t theirs = run->gpu[b].bytes[own_number[m]];

	lane->run = run;
	lane->a = a;
	lane->b = b;
	lane->m = m;
	lane->acc = &run->gpu[a].chan[kind];
	lane->own = &run->gpu[b].chan[kind];
	lane->win_own = P2S_BUF(b, own_number[m]);
	lane->win_acc = P2S_BUF(b, in_number[m]);
	lane->loc_acc = P2S_BUF(a, own_number[m]);
	lane->bytes = mine < theirs ? mine : theirs;
	lane->kernels = run->gpu[a].info[kind].module != 0 && run->gpu[b].info[kind].module != 0;
	return p2s_run_way(run, a, b)->map[m] == P2S_MAP_READY && lane->bytes >= P2S_MIB && p2s_lane_alive(lane);
}

uint64_t p2s_run_key(struct p2s_run *run, uint32_t a, uint32_t b, int32_t leg, int m)
{
	uint64_t n = atomic_fetch_add(&run->counter, 1);

	return p2s_mix(run->ask.nonce ^
	               p2s_mix(n << 32 | (uint64_t)(uint32_t)leg << 24 | (uint64_t)(uint32_t)m << 16 | (uint64_t)a << 8 | b));
}

uint64_t p2s_run_engine_ns(const struct p2s_run *run, uint64_t wait_ns)
{
	/* A simulated kernel's clock stands still while it has no CPU, and it has patience while its partner works. */
	return run->ask.host_dir[0] != '\0' ? 30 * wait_ns : wait_ns + P2S_SEC;
}

void p2s_trial_begin(struct p2s_trial *t, const struct p2s_lane *lane, int32_t leg)
{
	memset(t, 0, sizeof *t);
	t->lane = lane;
	t->key = p2s_run_key(lane->run, lane->a, lane->b, leg, lane->m);
	t->poison = p2s_seed(t->key, lane->a, lane->b, 0, 0);
	t->out.src = lane->a;
	t->out.dst = lane->b;
	t->out.leg = leg;
	t->out.mapping = p2s_mapping_word[lane->m];
	t->out.initiator = lane->a;
	t->out.verdict = P2PSAFE_VERDICT_UNTESTED;
	t->out.coverage_of_bytes = lane->bytes;
	t->out.max_handle_bytes = lane->bytes;
}

void p2s_trial_rekey(struct p2s_trial *t)
{
	const struct p2s_lane *lane = t->lane;

	t->key = p2s_run_key(lane->run, lane->a, lane->b, t->out.leg, lane->m);
	t->poison = p2s_seed(t->key, lane->a, lane->b, 0, 0);
	t->epoch = 0;
}

uint64_t p2s_trial_seed(struct p2s_trial *t)
{
	t->epoch = (t->epoch + 1) & 2047;
	return p2s_seed(t->key, t->lane->a, t->lane->b, (uint32_t)t->out.leg, t->epoch);
}

void p2s_lane_remember(const struct p2s_lane *lane, uint64_t key, uint64_t seed)
{
	struct p2s_pattern *h = lane->run->gpu[lane->b].history[lane->m];

	memmove(h + 1, h, 7 * sizeof *h);
	h[0].key = key;
	h[0].seed = seed;
}

void p2s_trial_expect(const struct p2s_trial *t, uint64_t seed, uint64_t in_off, uint64_t in_len, int poisoned,
                      struct p2s_expect *e)
{
	const struct p2s_lane *lane = t->lane;
	const struct p2s_pattern *h = lane->run->gpu[lane->b].history[lane->m];

	memset(e, 0, sizeof *e);
	e->want.key = t->key;
	e->want.seed = seed;
	e->outside = t->poison;
	e->has_before = poisoned;
	e->in_begin = in_off;
	e->in_end = in_off + in_len;
	e->src = lane->a;
	e->dst = lane->b;
	e->leg = (uint32_t)t->out.leg;
	e->gpus = lane->run->n;
	e->bytes = lane->bytes;
	e->earlier = h;
	while (e->earlier_count < 8 && h[e->earlier_count].key != 0)
		e->earlier_count++;
}

int p2s_run_drop_gpu(struct p2s_run *run, uint32_t gpu, int32_t state, const char *error)
{
	struct p2s_device *d = &run->gpu[gpu];
	int first = !atomic_exchange(&d->out, 1);
	int news;

	pthread_mutex_lock(&run->table_lock);
	news = first || (d->state <= P2PSAFE_GPU_STATE_READY && state != 0); /* it was out for no fault of its own */
	if (news) {
		d->state = state;
		snprintf(d->error, sizeof d->error, "%s", error);
	}
	pthread_mutex_unlock(&run->table_lock);
	if (news)
		p2s_link_gpu(run, gpu);
	return first;
}

void p2s_run_wedged(struct p2s_run *run, const struct p2s_chan *chan, uint32_t a, uint32_t b, const char *what)
{
	char text[160];
	uint32_t gpu = chan->gpu;
	uint32_t other = gpu == a ? b : a;

	if (!p2s_run_keeps_going(run))
		atomic_store(&run->stopped, 1);
	snprintf(text, sizeof text, "engine of %s did not come back: %s", run->gpu[gpu].address, what);
	p2s_link_fact(run, "GPU_WEDGED", P2PSAFE_SEVERITY_DANGER, (int32_t)a, (int32_t)b, "test", text);
	p2s_run_drop_gpu(run, gpu, P2PSAFE_GPU_STATE_WEDGED, text);
	p2s_run_drop_gpu(run, other, 0, ""); /* not known to be wedged, but no more is tried on it */
	if (chan == &run->gpu[gpu].chan[P2S_CHAN_GPU])
		p2s_workers_kill(run, chan->proc); /* the peer worker also serves healthy GPUs: it ends with the run */
}

int p2s_run_is_lost(int32_t e)
{
	static const int32_t codes[] = {46 /* DEVICE_UNAVAILABLE */, 100 /* NO_DEVICE */, 214 /* ECC_UNCORRECTABLE */,
	                                220 /* NVLINK_UNCORRECTABLE */, 802 /* SYSTEM_NOT_READY */};

	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (codes[i] == e)
			return 1;
	return 0;
}

/* Nothing more is asked of this channel. */
static void give_up(struct p2s_chan *chan, const char *why)
{
	pthread_mutex_lock(&chan->lock); /* who waits on this channel reads why */
	if (!atomic_exchange(&chan->dead, 1))
		snprintf(chan->why, sizeof chan->why, "%s", why);
	pthread_mutex_unlock(&chan->lock);
}

/* After an error: does the context still do local work? If not, no later leg may be blamed for it. */
static void probe_context(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf, int32_t leg)
{
	struct p2s_op_request req = {.op = P2S_OP_PEEK, .buf = buf, .len = 64};
	struct p2s_op_answer answer;
	char why[96];

	if (atomic_load(&chan->dead) || p2s_chan_call(run, chan, &req, &answer) == P2S_RC_OK)
		return;
	snprintf(why, sizeof why, "context was lost in leg %s", p2s_word_name(P2S_GROUP_LEG, leg));
	give_up(chan, why);
}

static void device_lost(struct p2s_run *run, const struct p2s_chan *chan, const struct p2s_op_answer *answer)
{
	char what[160];

	snprintf(what, sizeof what, "%s: device lost, error %d", answer->where, (int)answer->cuda_error);
	if (!p2s_run_keeps_going(run))
		atomic_store(&run->stopped, 1);
	if (atomic_exchange(&run->gpu[chan->gpu].lost, 1))
		return;
	/* Before its state, which alone would mean that it never started. */
	p2s_link_fact(run, "GPU_LOST", P2PSAFE_SEVERITY_DANGER, (int32_t)chan->gpu, -1, "test", what);
	p2s_run_drop_gpu(run, chan->gpu, P2PSAFE_GPU_STATE_FAILED, what);
}

void p2s_run_own_failed(struct p2s_run *run, struct p2s_chan *chan, const struct p2s_op_answer *answer)
{
	char why[96];

	switch (answer->rc) {
	case P2S_RC_TIMEOUT:
	case P2S_RC_STUCK:
		p2s_run_wedged(run, chan, chan->gpu, chan->gpu, "its own memory");
		return;
	case P2S_RC_GONE:
	case P2S_RC_UNSENT:
	case P2S_RC_LATE:
		return; /* the channel is dead and knows why */
	default:
		if (answer->rc == P2S_RC_ERROR && p2s_run_is_lost(answer->cuda_error))
			device_lost(run, chan, answer);
		snprintf(why, sizeof why, "work on its own memory failed: %.40s: error %d", answer->where, (int)answer->cuda_error);
		give_up(chan, why);
	}
}

void p2s_run_link_failed(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf, const struct p2s_op_answer *answer)
{
	if (p2s_run_is_lost(answer->cuda_error)) {
		device_lost(run, chan, answer);
		return;
	}
	probe_context(run, chan, buf, P2PSAFE_LEG_STAGED);
	if (atomic_load(&chan->dead) && atomic_load(&chan->end) == P2S_END_NONE)
		atomic_store(&chan->end, P2S_END_DIED);
}

/* What it did to the GPUs of the leg, whatever the leg's verdict is. */
static void aftermath(const struct p2s_trial *t, struct p2s_chan *chan, const struct p2s_op_answer *answer)
{
	const struct p2s_lane *lane = t->lane;
	char what[160];

	if (answer->rc == P2S_RC_TIMEOUT || answer->rc == P2S_RC_STUCK) {
		snprintf(what, sizeof what, "leg %s over %s", p2s_word_name(P2S_GROUP_LEG, t->out.leg),
		         p2s_word_name(P2S_GROUP_MAPPING, t->out.mapping));
		p2s_run_wedged(lane->run, chan, lane->a, lane->b, what);
	} else if (answer->rc == P2S_RC_ERROR && t->unheard) {
		p2s_run_link_failed(lane->run, chan, lane->loc_acc, answer);
	} else if (answer->rc == P2S_RC_ERROR && p2s_run_is_lost(answer->cuda_error)) {
		device_lost(lane->run, chan, answer);
	} else if (answer->rc == P2S_RC_ERROR) {
		probe_context(lane->run, lane->acc, lane->loc_acc, t->out.leg);
		probe_context(lane->run, lane->own, lane->win_own, t->out.leg);
	}
}

int p2s_trial_fail(struct p2s_trial *t, struct p2s_chan *chan, const struct p2s_op_answer *answer)
{
	struct p2s_lib_leg *out = &t->out;
	int over = t->over;

	t->over = 1;
	if ((answer->rc == P2S_RC_GONE || answer->rc == P2S_RC_STUCK) && !t->unheard)
		atomic_store(&chan->told, 1);
	aftermath(t, chan, answer);
	if (over)
		return 0;
	switch (answer->rc) {
	case P2S_RC_ERROR:
		out->verdict = P2PSAFE_VERDICT_ERROR;
		out->cuda_error = answer->cuda_error;
		snprintf(out->note, sizeof out->note, "%s: error %d", answer->where, (int)answer->cuda_error);
		return 0;
	case P2S_RC_TIMEOUT:
	case P2S_RC_STUCK:
		out->verdict = P2PSAFE_VERDICT_HANG;
		snprintf(out->note, sizeof out->note, "engine of GPU %s did not come back", t->lane->run->gpu[chan->gpu].address);
		return 0;
	case P2S_RC_GONE:
		out->verdict = P2PSAFE_VERDICT_ERROR;
		snprintf(out->note, sizeof out->note, "%s", answer->where); /* what else this worker served stays untested */
		return 0;
	case P2S_RC_UNSENT: /* what ended the worker was another pair's, unless this leg had begun in it */
		out->verdict = out->rounds > 0 ? P2PSAFE_VERDICT_ERROR : P2PSAFE_VERDICT_UNTESTED;
		snprintf(out->note, sizeof out->note, "%s", answer->where);
		return 0;
	case P2S_RC_UNSUPPORTED:
		out->verdict = P2PSAFE_VERDICT_UNSUPPORTED;
		out->cuda_error = answer->cuda_error;
		snprintf(out->note, sizeof out->note, "%s", answer->where);
		return 0;
	case P2S_RC_LATE:
		snprintf(out->note, sizeof out->note, "deadline");
		return 0;
	case P2S_RC_NO_KERNELS:
		snprintf(out->note, sizeof out->note, "test kernels are not loaded");
		return 0;
	default:
		snprintf(out->note, sizeof out->note, "worker refused a request (%d) %s", answer->rc, answer->where);
		return 0;
	}
}

int p2s_trial_judged(struct p2s_trial *t, const struct p2s_judgement *j)
{
	if (t->over)
		return 0;
	if (j->verdict == P2PSAFE_VERDICT_OK)
		return 1;
	t->over = 1;
	t->out.verdict = j->verdict;
	t->out.damage = j->damage;
	t->out.has_detail = j->has_detail;
	t->out.offset = j->offset;
	t->out.expected = j->expected;
	t->out.found = j->found;
	snprintf(t->out.note, sizeof t->out.note, "%s", j->said[0] != '\0' ? j->said : j->note);
	return 0;
}

int p2s_trial_end(struct p2s_trial *t)
{
	if (!t->over) {
		t->out.verdict = P2PSAFE_VERDICT_OK;
		t->out.error_bound_ppb = p2s_judge_bound_ppb(t->out.rounds);
	}
	if (t->over || !t->quiet)
		p2s_link_leg(t->lane->run, &t->out);
	return !t->over;
}

int p2s_step_prepare(struct p2s_trial *t, uint32_t own_buf, uint64_t own_off, uint64_t own_len, uint64_t own_seed,
                     uint32_t acc_buf, uint64_t acc_off, uint64_t acc_len, uint64_t acc_seed)
{
	struct p2s_run *run = t->lane->run;
	struct p2s_op_request own = {.op = P2S_OP_FILL, .buf = own_buf, .off = own_off, .len = own_len, .seed = own_seed};
	struct p2s_op_request acc = {.op = P2S_OP_FILL, .buf = acc_buf, .off = acc_off, .len = acc_len, .seed = acc_seed};
	struct p2s_op_answer answer[2] = {{.rc = P2S_RC_OK}, {.rc = P2S_RC_OK}};

	if (t->over)
		return 0;
	if (own_len > 0)
		p2s_chan_post(run, t->lane->own, &own, -1);
	if (acc_len > 0)
		p2s_chan_post(run, t->lane->acc, &acc, -1);
	if (own_len > 0)
		p2s_chan_wait(run, t->lane->own, &answer[0], NULL);
	if (acc_len > 0)
		p2s_chan_wait(run, t->lane->acc, &answer[1], NULL);
	if (own_len > 0 && own_buf == t->lane->win_own)
		p2s_lane_remember(t->lane, t->key, own_seed);
	if (answer[0].rc != P2S_RC_OK)
		p2s_trial_fail(t, t->lane->own, &answer[0]);
	if (answer[1].rc != P2S_RC_OK)
		p2s_trial_fail(t, t->lane->acc, &answer[1]);
	return !t->over;
}

int p2s_step_fill(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len, uint64_t seed)
{
	if (chan == t->lane->own)
		return p2s_step_prepare(t, buf, off, len, seed, 0, 0, 0, 0);
	return p2s_step_prepare(t, 0, 0, 0, 0, buf, off, len, seed);
}

static void post_check(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                       const struct p2s_expect *e)
{
	struct p2s_op_request req = {.op = P2S_OP_CHECK,
	                             .buf = buf,
	                             .off = off,
	                             .len = len,
	                             .in_off = e->in_begin,
	                             .in_len = e->in_end - e->in_begin,
	                             .seed = e->want.seed,
	                             .seed2 = e->outside};

	p2s_chan_post(run, chan, &req, -1);
}

int p2s_step_check(struct p2s_trial *t, struct p2s_chan *chan, uint32_t buf, uint64_t off, uint64_t len,
                   const struct p2s_expect *e)
{
	struct p2s_op_answer answer;

	if (t->over)
		return 0;
	post_check(t->lane->run, chan, buf, off, len, e);
	p2s_chan_wait(t->lane->run, chan, &answer, NULL);
	return p2s_step_judge(t, chan, buf, off, len, &answer, e);
}

/* After a read: the accessor looks at what it got while the owner looks whether the source is still what it stored. */
static int check_read(struct p2s_trial *t, uint64_t off, uint64_t len, const struct p2s_expect *got,
                      const struct p2s_expect *source)
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_answer answer[2];

	if (t->over)
		return 0;
	post_check(lane->run, lane->acc, lane->loc_acc, off, len, got);
	post_check(lane->run, lane->own, lane->win_own, off, len, source);
	p2s_chan_wait(lane->run, lane->acc, &answer[0], NULL);
	p2s_chan_wait(lane->run, lane->own, &answer[1], NULL);
	p2s_step_judge(t, lane->acc, lane->loc_acc, off, len, &answer[0], got);
	p2s_step_judge(t, lane->own, lane->win_own, off, len, &answer[1], source); /* also when the leg is over: did it come back? */
	return !t->over;
}

void p2s_trial_cover(struct p2s_trial *t, uint64_t off, uint64_t len)
{
	struct p2s_span now = {off, off + len};
	size_t kept = 0;

	for (size_t i = 0; i < t->spans; i++) {
		const struct p2s_span s = t->span[i];

		if (s.end < now.begin || s.begin > now.end) {
			t->span[kept++] = s;
			continue;
		}
		now.begin = s.begin < now.begin ? s.begin : now.begin;
		now.end = s.end > now.end ? s.end : now.end;
	}
	if (kept < P2S_SPANS)
		t->span[kept++] = now;
	t->spans = kept;
	t->out.coverage_bytes = 0;
	for (size_t i = 0; i < kept; i++)
		t->out.coverage_bytes += t->span[i].end - t->span[i].begin;
	if (t->out.coverage_bytes < t->reach)
		t->out.coverage_bytes = t->reach;
}

int p2s_step_move(struct p2s_trial *t, enum p2s_engine by, uint64_t off, uint64_t len, uint64_t seed)
{
	const struct p2s_lane *lane = t->lane;
	struct p2s_op_request req = {.off = off, .off2 = off, .len = len, .seed = seed};
	struct p2s_op_answer answer;
	uint64_t start = p2s_now_ns();

	if (t->over)
		return 0;
	if (by == P2S_BY_STORE) {
		req.op = P2S_OP_FILL;
		req.buf = lane->win_acc;
	} else if (by == P2S_BY_LOAD || by == P2S_BY_LOAD_RELAXED || by == P2S_BY_LOAD_ACQUIRE) {
		req.op = P2S_OP_LOAD;
		req.buf = lane->loc_acc;
		req.buf2 = lane->win_acc;
		req.mode = (uint32_t)by - P2S_BY_LOAD;
	} else {
		req.op = P2S_OP_COPY;
		req.buf = p2s_engine_reads(by) ? lane->loc_acc : lane->win_acc;
		req.buf2 = p2s_engine_reads(by) ? lane->win_acc : lane->loc_acc;
		req.mode = by == P2S_BY_CE_WRITE_PEER || by == P2S_BY_CE_READ_PEER ? P2S_COPY_PEER_ASYNC : P2S_COPY_ASYNC;
	}
	if (p2s_chan_call(lane->run, lane->acc, &req, &answer) != P2S_RC_OK)
		return p2s_trial_fail(t, lane->acc, &answer);
	t->device_ns = answer.device_ns;
	t->wall_ns = p2s_now_ns() - start;
	t->out.bytes += len;
	t->out.rounds++;
	p2s_trial_cover(t, off, len);
	return 1;
}

int p2s_step_transfer(struct p2s_trial *t, enum p2s_engine by, uint64_t off, uint64_t len, uint64_t in_off, uint64_t in_len,
                      int poison)
{
	const struct p2s_lane *lane = t->lane;
	uint64_t seed = p2s_trial_seed(t);
	struct p2s_expect e, source;
	int ok;

	p2s_trial_expect(t, seed, in_off, in_len, poison, &e);
	if (!p2s_engine_reads(by)) {
		uint64_t copied = by == P2S_BY_STORE ? 0 : in_len;

		ok = p2s_step_prepare(t, lane->win_own, off, poison ? len : 0, t->poison, lane->loc_acc, in_off, copied, seed) &&
		     p2s_step_move(t, by, in_off, in_len, seed);
		p2s_trial_expect(t, seed, in_off, in_len, poison, &e);
		ok = ok && p2s_step_check(t, lane->own, lane->win_own, off, len, &e);
		p2s_lane_remember(lane, t->key, seed);
		return ok;
	}
	p2s_trial_expect(t, seed, off, len, 0, &source);
	return p2s_step_prepare(t, lane->win_own, off, len, seed, lane->loc_acc, off, poison ? len : 0, t->poison) &&
	       p2s_step_move(t, by, in_off, in_len, seed) && check_read(t, off, len, &e, &source);
}

uint64_t p2s_trial_bytes(const struct p2s_trial *t, uint64_t probe, uint64_t budget_ns, uint64_t cap)
{
	uint64_t ns = t->device_ns;
	uint64_t bytes;

	/* A simulated GPU's clock is a model; what it costs is the time of the machine it runs on, of which there is more. */
	if (t->lane->run->ask.host_dir[0] != '\0' && t->wall_ns / 4 > ns)
		ns = t->wall_ns / 4;
	if (ns == 0)
		ns = t->wall_ns;
	if (ns == 0)
		return cap < P2S_MIB ? cap : P2S_MIB;
	bytes = ns < budget_ns / 65536 ? cap : probe / 1024 * budget_ns / ns * 1024;
	if (bytes < P2S_MIB)
		bytes = P2S_MIB;
	bytes -= bytes % (64 * P2S_KIB);
	return bytes < cap ? bytes : cap;
}

int p2s_duo_run(struct p2s_run *run, struct p2s_duo *duo)
{
	/* Simulated kernels share the CPUs with everything else that runs there, and wait longer (twins_wait.c). */
	uint64_t patience = run->ask.host_dir[0] != '\0' ? P2S_SIM_GO_NS : P2S_GO_NS;
	uint64_t until = p2s_now_ns() + patience - 500 * P2S_MS;
	int resident = 1;

	for (int i = 0; i < duo->count; i++)
		p2s_chan_arm(duo->chan[i]);
	for (int i = 0; i < duo->count; i++)
		p2s_chan_post(run, duo->chan[i], &duo->req[i], -1);
	for (int i = 0; i < duo->count; i++)
		resident = resident && p2s_chan_ready(run, duo->chan[i], duo->mask[i], until);
	for (int i = 0; i < duo->count; i++) {
		if (resident)
			p2s_chan_go(duo->chan[i]);
		else
			p2s_chan_abort(duo->chan[i]);
	}
	if (duo->extra_chan != NULL) {
		duo->extra_answer.rc = P2S_RC_OK;
		if (resident)
			p2s_chan_call(run, duo->extra_chan, &duo->extra, &duo->extra_answer);
		if (resident && duo->extra_answer.rc != P2S_RC_OK)
			for (int i = 0; i < duo->count; i++)
				p2s_chan_abort(duo->chan[i]); /* nothing will come any more: nobody need wait for it */
	}
	for (int i = 0; i < duo->count; i++)
		p2s_chan_wait(run, duo->chan[i], &duo->answer[i], NULL);
	return resident;
}

const struct p2s_role_result *p2s_duo_role(const struct p2s_op_answer *answer, int role, struct p2s_role_result *out)
{
	memset(out, 0, sizeof *out);
	if (answer->roles_len >= ((size_t)role + 1) * sizeof *out)
		memcpy(out, answer->roles + (size_t)role * sizeof *out, sizeof *out);
	return out;
}

void p2s_legs_untested(struct p2s_run *run, uint32_t a, uint32_t b, int m, int32_t leg, int32_t verdict, int32_t cuda_error,
                       const char *note)
{
	struct p2s_lib_leg out = {.src = a,
	                          .dst = b,
	                          .leg = leg,
	                          .mapping = p2s_mapping_word[m],
	                          .initiator = a,
	                          .verdict = verdict,
	                          .cuda_error = cuda_error};

	if (p2s_run_way(run, a, b)->verdict[leg][m] != 0)
		return; /* already judged */
	snprintf(out.note, sizeof out.note, "%s", note);
	p2s_link_leg(run, &out);
}
