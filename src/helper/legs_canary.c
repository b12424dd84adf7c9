/* Canaries: what lies in the buffers of all GPUs while nobody uses them. Bytes of a leg that turn up there went astray. */
#include "helper/legs_canary.h"

#include <stdio.h>
#include <string.h>

#include "core/word.h"

#define AREA P2S_CANARY_BYTES

/* What lies in the first AREA of every buffer while nobody uses it. */
static uint64_t canary_seed(const struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return p2s_seed(p2s_mix(run->ask.nonce ^ 0xca), gpu, gpu, 0, number);
}

uint32_t p2s_canary_buffer(int m)
{
	return m == P2S_M_CUMEM ? P2S_B_CUMEM : m == P2S_M_IPC ? P2S_B_PLAIN : P2S_B_PEER;
}

static struct p2s_chan *channel_of(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return &run->gpu[gpu].chan[number == P2S_B_PEER ? P2S_CHAN_PEER : P2S_CHAN_GPU];
}

/* One that died before is not looked at: its end was told then, and no other pair is to blame for it. */
static int has_buffer(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	return run->gpu[gpu].bytes[number] >= AREA && !atomic_load(&run->gpu[gpu].out) &&
	       !atomic_load(&channel_of(run, gpu, number)->dead);
}

/* Waits for what was posted to a GPU about its own memory. After an error it is asked once more; a second one is its end, and
 * so is a lost device, so that it is blind in the sight of one pair only. Returns 1 if it was done. */
static int take(struct p2s_run *run, uint32_t gpu, uint32_t number, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	struct p2s_chan *chan = channel_of(run, gpu, number);
	int rc = p2s_chan_wait(run, chan, answer, NULL);

	if (rc == P2S_RC_ERROR && !p2s_run_is_lost(answer->cuda_error))
		rc = p2s_chan_call(run, chan, req, answer);
	if (rc != P2S_RC_OK)
		p2s_run_own_failed(run, chan, answer);
	return rc == P2S_RC_OK;
}

static void set_canary(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	struct p2s_op_request req = {.op = P2S_OP_FILL, .buf = P2S_BUF(gpu, number), .len = AREA};
	struct p2s_op_answer answer;

	req.seed = canary_seed(run, gpu, number);
	if (!has_buffer(run, gpu, number))
		return;
	p2s_chan_post(run, channel_of(run, gpu, number), &req, -1);
	take(run, gpu, number, &req, &answer);
}

void p2s_canary_restore(struct p2s_run *run, uint32_t a, uint32_t b, uint32_t number)
{
	uint32_t gpus[2] = {a, b};
	struct p2s_op_request req[2];
	struct p2s_op_answer answer;
	int posted[2] = {0};

	for (int i = 0; i < 2; i++) {
		req[i] = (struct p2s_op_request){.op = P2S_OP_FILL, .buf = P2S_BUF(gpus[i], number), .len = AREA};
		req[i].seed = canary_seed(run, gpus[i], number);
		posted[i] = has_buffer(run, gpus[i], number);
		if (posted[i])
			p2s_chan_post(run, channel_of(run, gpus[i], number), &req[i], -1);
	}
	for (int i = 0; i < 2; i++)
		if (posted[i])
			take(run, gpus[i], number, &req[i], &answer);
}

static void set_canaries_task(struct p2s_run *run, uint32_t gpu, int kind)
{
	if (kind == P2S_CHAN_PEER) {
		set_canary(run, gpu, P2S_B_PEER);
		return;
	}
	set_canary(run, gpu, P2S_B_CUMEM);
	set_canary(run, gpu, P2S_B_PLAIN);
}

/* After damage: what went astray may lie on any GPU, or still be on its way there. Looking first makes it land before the fill,
 * so that the next pair is not blamed for it. */
static void renew_canary(struct p2s_run *run, uint32_t gpu, uint32_t number)
{
	struct p2s_op_request req = {.op = P2S_OP_CHECK, .buf = P2S_BUF(gpu, number), .len = AREA, .in_len = AREA};
	struct p2s_op_answer answer;

	req.seed = req.seed2 = canary_seed(run, gpu, number);
	if (has_buffer(run, gpu, number)) {
		p2s_chan_post(run, channel_of(run, gpu, number), &req, -1);
		take(run, gpu, number, &req, &answer);
	}
	set_canary(run, gpu, number);
}

static void renew_canaries_task(struct p2s_run *run, uint32_t gpu, int kind)
{
	if (kind == P2S_CHAN_PEER) {
		renew_canary(run, gpu, P2S_B_PEER);
		return;
	}
	renew_canary(run, gpu, P2S_B_CUMEM);
	renew_canary(run, gpu, P2S_B_PLAIN);
}

void p2s_canary_note(struct p2s_canary_later *later, const struct p2s_trial *t)
{
	if (later != NULL && later->count < P2S_CANARY_TRACES)
		later->trace[later->count++] = (struct p2s_canary_trace){.lane = *t->lane, .leg = t->out.leg, .key = t->key};
}

/* How many of the samples are words under this key; *move: how far the first of them is from its place. */
static size_t words_of(const struct p2s_run *run, const struct p2s_lane *lane, uint64_t key, const struct p2s_sample *samples,
                       size_t count, int64_t *move)
{
	size_t agree = 0;

	for (size_t i = 0; i < count; i++) {
		struct p2s_tag tag;

		if (!p2s_word_decode(samples[i].found, key, lane->bytes / 8, run->n, &tag))
			continue;
		*move = agree == 0 ? (int64_t)(samples[i].offset - tag.offset * 8) : *move;
		agree++;
	}
	return agree;
}

/* later: not NULL: several legs may have done it. The trial becomes that of the one whose words they are. */
static void blame(struct p2s_trial *t, const struct p2s_canary_later *later, const struct p2s_sample *samples, size_t count)
{
	const struct p2s_run *run = t->lane->run;
	int64_t move = 0;

	for (size_t i = 0; later != NULL && i < later->count; i++) {
		const struct p2s_canary_trace *trace = &later->trace[i];

		if (words_of(run, &trace->lane, trace->key, samples, count, &move) == 0)
			continue;
		p2s_trial_begin(t, &trace->lane, trace->leg);
		t->quiet = 1;
		t->key = trace->key;
		return;
	}
}

/* What lies in the memory of GPU g where it does not belong: bytes of this transfer when at least eight words say so. */
static void stray(struct p2s_trial *t, uint32_t g, uint32_t number, const struct p2s_sample *samples, size_t count)
{
	const struct p2s_run *run = t->lane->run;
	int64_t move = 0;
	size_t agree = words_of(run, t->lane, t->key, samples, count, &move);

	t->over = 1;
	t->out.verdict = P2PSAFE_VERDICT_CORRUPT;
	t->out.damage = agree > 0 && agree >= (count < P2S_JUDGE_AGREE ? count : P2S_JUDGE_AGREE) ? P2PSAFE_DAMAGE_MISDIRECTED
	                                                                                          : P2PSAFE_DAMAGE_UNKNOWN;
	if (count > 0) {
		t->out.has_detail = 1;
		t->out.offset = samples[0].offset;
		t->out.expected = p2s_word(canary_seed(run, g, number), samples[0].offset / 8);
		t->out.found = samples[0].found;
	}
	if (move != 0)
		snprintf(t->out.note, sizeof t->out.note, "bytes appeared in memory of %s, %lld bytes %s", run->gpu[g].address,
		         (long long)(move < 0 ? -move : move), move < 0 ? "before their place" : "behind their place");
	else
		snprintf(t->out.note, sizeof t->out.note, "bytes appeared in memory of %s", run->gpu[g].address);
}

/* Nobody knows what this GPU's memory holds now. Damage that was seen already is what counts. */
static void unseen(struct p2s_trial *t, uint32_t g, const struct p2s_op_answer *answer)
{
	if (t->over)
		return;
	t->over = 1;
	t->out.cuda_error = answer->cuda_error;
	snprintf(t->out.note, sizeof t->out.note, "memory of %s could not be looked at: %.36s",
	         t->lane->run->gpu[g].address, answer->where);
}

/* Is this memory in use by the trial itself? */
static int at_work(const struct p2s_trial *t, int copied, uint32_t g, uint32_t number)
{
	return number == p2s_canary_buffer(t->lane->m) && (g == t->lane->b || (copied && g == t->lane->a));
}

int p2s_canary_look(struct p2s_trial *t, int copied, unsigned numbers, const struct p2s_canary_later *later)
{
	struct p2s_run *run = t->lane->run;
	struct p2s_op_answer failed = {.rc = P2S_RC_OK};
	uint32_t failed_gpu = 0;
	int well = 1;

	for (uint32_t number = P2S_B_CUMEM; number <= P2S_B_PEER; number++) {
		struct p2s_op_request req[P2S_MAX_GPUS];
		int posted[P2S_MAX_GPUS] = {0};

		for (uint32_t i = 0; i < run->tested_count; i++) {
			uint32_t g = run->tested[i];

			if ((numbers & 1u << number) == 0 || !has_buffer(run, g, number) || (later == NULL && at_work(t, copied, g, number)))
				continue;
			req[g] = (struct p2s_op_request){.op = P2S_OP_CHECK, .buf = P2S_BUF(g, number), .len = AREA, .in_len = AREA};
			req[g].seed = req[g].seed2 = canary_seed(run, g, number);
			p2s_chan_post(run, channel_of(run, g, number), &req[g], -1);
			posted[g] = 1;
		}
		for (uint32_t i = 0; i < run->tested_count; i++) {
			uint32_t g = run->tested[i];
			struct p2s_op_answer answer;
			struct p2s_sample samples[P2S_SAMPLES];
			size_t count;

			if (!posted[g])
				continue;
			if (!take(run, g, number, &req[g], &answer)) {
				failed_gpu = failed.rc == P2S_RC_OK ? g : failed_gpu;
				failed = failed.rc == P2S_RC_OK ? answer : failed;
				continue;
			}
			if (answer.bad_words == 0)
				continue;
			if (!well) { /* the first one names it */
				set_canary(run, g, number);
				continue;
			}
			well = 0;
			count = answer.samples_len / sizeof samples[0];
			count = count < P2S_SAMPLES ? count : P2S_SAMPLES;
			memcpy(samples, answer.samples, count * sizeof samples[0]);
			blame(t, later, samples, count);
			stray(t, g, number, samples, count);
			set_canary(run, g, number);
		}
	}
	if (well && failed.rc != P2S_RC_OK)
		unseen(t, failed_gpu, &failed);
	return well && failed.rc == P2S_RC_OK;
}

int p2s_canary_look_later(const struct p2s_canary_later *later, unsigned numbers)
{
	struct p2s_trial t;

	if (later->count == 0)
		return 1;
	p2s_trial_begin(&t, &later->trace[0].lane, later->trace[0].leg);
	t.quiet = 1;
	t.key = later->trace[0].key;
	p2s_canary_look(&t, 0, numbers, later);
	return p2s_trial_end(&t);
}

void p2s_canary_set(struct p2s_run *run)
{
	p2s_run_each(run, P2S_CHAN_KINDS, set_canaries_task);
}

void p2s_canary_renew(struct p2s_run *run)
{
	p2s_run_each(run, P2S_CHAN_KINDS, renew_canaries_task);
}
