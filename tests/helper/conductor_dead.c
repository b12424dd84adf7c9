/* What ends a GPU where no leg tells of it, over channels whose answers are played. No process; a clock only to end by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "helper/legs_both.h"

#define GPUS 3
#define OF_PEER P2S_CHAN_PEER
#define OF_GPU P2S_CHAN_GPU

/* Told of a directed pair over one mapping; 0 nothing. */
struct told {
	int32_t load;
	int32_t stale;
};

static struct {
	struct p2s_run run;
	struct p2s_device gpu[GPUS];
	struct p2s_way way[GPUS * GPUS];
	struct p2s_proc proc;
	struct told told[GPUS * GPUS][P2S_M_COUNT];
	uint32_t posted[P2S_CHAN_KINDS][GPUS]; /* operations */
	atomic_uint peeks;
	uint32_t killed;
	uint32_t wedged, lost;
	/* This operation on this channel ends with that, and every one on it from there on. */
	uint32_t bad_op;
	uint32_t bad_gpu;
	int bad_kind;
	int bad_rc;
	int32_t bad_error;
	int bad_last; /* and with it the time is over */
	int catches_up; /* what the deadline cut off is done after all */
	atomic_int bad; /* it came */
} w;

const int32_t p2s_mapping_word[P2S_M_COUNT] = {P2PSAFE_MAPPING_CUMEM, P2PSAFE_MAPPING_IPC, P2PSAFE_MAPPING_PEER};

void p2s_klog_drain(struct p2s_run *run)
{
	(void)run;
}

void p2s_link_fact(struct p2s_run *run, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
                   const char *text)
{
	(void)run, (void)dst, (void)source, (void)text;
	assert_true(severity == P2PSAFE_SEVERITY_DANGER && src >= 0);
	if (strcmp(code, "GPU_LOST") == 0) {
		/* first, for its state alone would mean that it never started */
		assert_true(w.gpu[src].state == P2PSAFE_GPU_STATE_READY && dst == -1);
		w.lost++;
		return;
	}
	assert_string_equal(code, "GPU_WEDGED");
	w.wedged++;
}

void p2s_link_gpu(struct p2s_run *run, uint32_t gpu)
{
	(void)run, (void)gpu;
}

void p2s_link_leg(struct p2s_run *run, const struct p2s_lib_leg *leg)
{
	struct told *t = NULL;

	for (int m = 0; m < P2S_M_COUNT; m++)
		if (p2s_mapping_word[m] == leg->mapping)
			t = &w.told[leg->src * GPUS + leg->dst][m];
	assert_non_null(t);
	/* Of a repetition it would take nothing back. */
	assert_true(run->cycle == 0 || leg->verdict == P2PSAFE_VERDICT_OK);
	if (leg->leg == P2PSAFE_LEG_LOAD)
		t->load = leg->verdict;
	else if (leg->leg == P2PSAFE_LEG_STALE)
		t->stale = leg->verdict;
	else
		fail_msg("leg %d is told of", (int)leg->leg);
}

void p2s_workers_kill(struct p2s_run *run, struct p2s_proc *proc)
{
	(void)run;
	assert_ptr_equal(proc, &w.proc);
	w.killed++;
}

uint64_t p2s_run_rounds(struct p2s_run *run, void (*task)(struct p2s_run *run, uint32_t a, uint32_t b))
{
	(void)run, (void)task; /* what runs beside the load is not played */
	return 0;
}

void p2s_message_under_load(struct p2s_both *x)
{
	(void)x;
}

void p2s_tear_form(struct p2s_both *x, int pull, uint32_t iters)
{
	(void)x, (void)pull, (void)iters;
}

void p2s_chan_release(struct p2s_run *run, struct p2s_chan *chan, uint32_t buf)
{
	(void)run;
	assert_int_equal(buf, P2S_BUF(chan->gpu, P2S_B_HOST)); /* all that the load made for itself */
}

void p2s_chan_arm(struct p2s_chan *chan)
{
	(void)chan;
}

int p2s_chan_ready(struct p2s_run *run, struct p2s_chan *chan, unsigned mask, uint64_t until_ns)
{
	(void)run, (void)chan, (void)mask, (void)until_ns;
	return 1;
}

void p2s_chan_go(struct p2s_chan *chan)
{
	(void)chan;
}

void p2s_chan_abort(struct p2s_chan *chan)
{
	(void)chan;
}

void p2s_chan_look(struct p2s_run *run, struct p2s_chan *chan)
{
	(void)run, (void)chan;
}

int p2s_chan_caught_up(struct p2s_chan *chan, uint64_t until_ns)
{
	assert_true(chan->gpu == w.bad_gpu && until_ns > w.run.last_ns && until_ns < w.run.last_ns + 400 * P2S_MS);
	return w.catches_up;
}

static int kind_of(const struct p2s_chan *chan)
{
	return chan == &w.gpu[chan->gpu].chan[OF_PEER] ? OF_PEER : OF_GPU;
}

/* What conductor_chan.c does to a channel that ends. */
static int answer_of(struct p2s_chan *chan, uint32_t op, struct p2s_op_answer *answer)
{
	memset(answer, 0, sizeof *answer);
	answer->device_ns = 1000;
	if (atomic_load(&chan->dead))
		return answer->rc = atomic_load(&chan->end) == P2S_END_LATE ? P2S_RC_LATE : P2S_RC_UNSENT;
	if (chan->gpu != w.bad_gpu || kind_of(chan) != w.bad_kind || (op != w.bad_op && !atomic_load(&w.bad)))
		return answer->rc = P2S_RC_OK;
	atomic_store(&w.bad, 1);
	if (w.bad_last)
		w.run.stop_ns = 0;
	if (w.bad_rc == P2S_RC_GONE || w.bad_rc == P2S_RC_STUCK || w.bad_rc == P2S_RC_LATE) {
		atomic_store(&chan->dead, 1);
		atomic_store(&chan->end, w.bad_rc == P2S_RC_GONE ? P2S_END_DIED : w.bad_rc == P2S_RC_LATE ? P2S_END_LATE : P2S_END_STUCK);
	}
	answer->cuda_error = w.bad_error;
	return answer->rc = w.bad_rc;
}

void p2s_chan_post(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, int fd)
{
	uint32_t *posted = &w.posted[kind_of(chan)][chan->gpu];

	(void)run, (void)fd;
	pthread_mutex_lock(&chan->lock); /* several threads load the machine */
	*posted = req->op;
	w.peeks += req->op == P2S_OP_PEEK;
}

void p2s_chan_follow(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req)
{
	(void)run, (void)chan, (void)req;
	fail_msg("nothing follows here");
}

int p2s_chan_wait(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd)
{
	uint32_t *posted = &w.posted[kind_of(chan)][chan->gpu];
	int rc = answer_of(chan, *posted, answer);

	(void)run, (void)fd;
	*posted = 0;
	pthread_mutex_unlock(&chan->lock);
	return rc;
}

int p2s_chan_call(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	p2s_chan_post(run, chan, req, -1);
	return p2s_chan_wait(run, chan, answer, NULL);
}

/* A machine on which every pair passed everything. */
static void machine(void)
{
	memset(&w, 0, sizeof w);
	w.run.n = w.run.tested_count = GPUS;
	w.run.gpu = w.gpu;
	w.run.way = w.way;
	w.run.stop_ns = p2s_now_ns() + 100 * P2S_SEC;
	w.run.last_ns = w.run.stop_ns + P2S_SEC;
	w.run.ask.level = P2PSAFE_LEVEL_STANDARD;
	w.bad_gpu = GPUS;
	pthread_mutex_init(&w.run.table_lock, NULL);
	for (uint32_t g = 0; g < GPUS; g++) {
		w.run.tested[g] = g;
		w.gpu[g].state = P2PSAFE_GPU_STATE_READY;
		for (uint32_t b = P2S_B_CUMEM; b <= P2S_B_PEER; b++)
			w.gpu[g].bytes[b] = 8 * P2S_MIB;
		for (int k = 0; k < P2S_CHAN_KINDS; k++) {
			w.gpu[g].chan[k].gpu = g;
			w.gpu[g].chan[k].proc = &w.proc;
			pthread_mutex_init(&w.gpu[g].chan[k].lock, NULL);
			w.gpu[g].inited[k] = 1;
			w.gpu[g].info[k].module = 1;
		}
	}
	for (size_t i = 0; i < GPUS * GPUS; i++) {
		w.way[i].clean = w.way[i].first_done = 1;
		for (int m = 0; m < P2S_M_COUNT; m++) {
			w.way[i].map[m] = P2S_MAP_READY;
			w.way[i].verdict[P2PSAFE_LEG_CE_WRITE][m] = w.way[i].verdict[P2PSAFE_LEG_STALE][m] = P2PSAFE_VERDICT_OK;
		}
	}
}

static void goes_wrong(uint32_t gpu, int kind, uint32_t op, int rc, int32_t error)
{
	w.bad_gpu = gpu;
	w.bad_kind = kind;
	w.bad_op = op;
	w.bad_rc = rc;
	w.bad_error = error;
}

/* Over the mappings of the set: of all pairs of the GPU, both ways, this is told of load, and of no other pair that it
 * failed. */
static void load_is(uint32_t gpu, unsigned mappings, int32_t verdict)
{
	for (uint32_t i = 0; i < GPUS * GPUS; i++) {
		for (int m = 0; m < P2S_M_COUNT && i / GPUS != i % GPUS; m++) {
			const struct told *t = &w.told[i][m];

			if ((i / GPUS == gpu || i % GPUS == gpu) && mappings >> m & 1)
				assert_int_equal(t->load, verdict);
			else
				assert_true(t->load == 0 || t->load == P2PSAFE_VERDICT_OK || t->load == P2PSAFE_VERDICT_UNTESTED);
			assert_int_equal(t->stale, 0);
		}
	}
}

#define ALL_MAPPINGS 7u
#define BETWEEN (1u << P2S_M_CUMEM | 1u << P2S_M_IPC)
#define WITHIN (1u << P2S_M_PEER)

static void whoever_answers_keeps_everything(void **state)
{
	(void)state;
	machine();
	p2s_dead_tell(&w.run);
	assert_int_equal(w.peeks, GPUS * P2S_CHAN_KINDS);
	load_is(GPUS, 0, 0);
	assert_int_equal(w.killed + w.wedged + w.lost, 0);
}

static void a_lost_device_takes_its_pairs_along(void **state)
{
	(void)state;
	machine();
	goes_wrong(1, OF_GPU, P2S_OP_PEEK, P2S_RC_ERROR, 46);
	p2s_dead_tell(&w.run);
	assert_int_equal(w.gpu[1].state, P2PSAFE_GPU_STATE_FAILED);
	assert_int_equal(w.lost, 1);
	assert_true(atomic_load(&w.run.stopped));
	load_is(1, ALL_MAPPINGS, P2PSAFE_VERDICT_ERROR);
}

/* A context, and no more: over what it served nothing can be rested on. */
static void a_lost_context_takes_along_what_it_served(void **state)
{
	(void)state;
	machine();
	goes_wrong(1, OF_GPU, P2S_OP_PEEK, P2S_RC_ERROR, 700);
	p2s_dead_tell(&w.run);
	assert_int_equal(w.gpu[1].state, P2PSAFE_GPU_STATE_READY);
	load_is(1, ALL_MAPPINGS, P2PSAFE_VERDICT_ERROR);
	machine();
	goes_wrong(2, OF_PEER, P2S_OP_PEEK, P2S_RC_ERROR, 700);
	p2s_dead_tell(&w.run);
	load_is(2, WITHIN, P2PSAFE_VERDICT_ERROR);
}

/* The rules know what a wedged GPU is worth. */
static void an_engine_that_does_not_come_back_is_wedged(void **state)
{
	(void)state;
	machine();
	goes_wrong(0, OF_GPU, P2S_OP_PEEK, P2S_RC_TIMEOUT, 0);
	p2s_dead_tell(&w.run);
	assert_int_equal(w.gpu[0].state, P2PSAFE_GPU_STATE_WEDGED);
	assert_int_equal(w.gpu[1].state, P2PSAFE_GPU_STATE_READY);
	assert_int_equal(w.wedged, 1);
	assert_int_equal(w.killed, 1);
	load_is(GPUS, 0, 0);
}

static void whose_end_is_known_is_not_asked(void **state)
{
	(void)state;
	machine();
	w.gpu[0].state = P2PSAFE_GPU_STATE_WEDGED;
	w.gpu[1].inited[OF_PEER] = 0;
	w.gpu[2].bytes[P2S_B_PLAIN] = w.gpu[2].bytes[P2S_B_CUMEM] = 0;
	p2s_dead_tell(&w.run);
	assert_int_equal(w.peeks, 2);
	load_is(GPUS, 0, 0);
}

/* Then an answer could not come in time, which would say nothing. */
static void behind_the_deadline_nobody_is_asked(void **state)
{
	(void)state;
	machine();
	w.run.stop_ns = w.run.last_ns = 1;
	p2s_dead_tell(&w.run);
	assert_int_equal(w.peeks, 0);
	load_is(GPUS, 0, 0);
}

static void stale_is(uint32_t gpu, int32_t verdict)
{
	for (uint32_t i = 0; i < GPUS * GPUS; i++)
		for (int m = 0; m < P2S_M_COUNT && i / GPUS != i % GPUS; m++)
			assert_int_equal(w.told[i][m].stale, i / GPUS == gpu || i % GPUS == gpu ? verdict : 0);
}

/* An engine that had something to do when the deadline came, and did not do it, may hang: no pair of it is OK, over no mapping,
 * though all had passed, and all the same that it was in a repetition. What is done a moment later was only cut off. */
static void silence_at_the_deadline_is_no_pass(void **state)
{
	(void)state;
	for (int kind = 0; kind < P2S_CHAN_KINDS; kind++) {
		for (int catches_up = 0; catches_up < 2; catches_up++) {
			machine();
			goes_wrong(1, kind, P2S_OP_PEEK, P2S_RC_LATE, 0);
			w.run.cycle = 3;
			w.catches_up = catches_up;
			p2s_dead_tell(&w.run);
			stale_is(1, catches_up ? 0 : P2PSAFE_VERDICT_UNTESTED);
			assert_int_equal(w.told[1][P2S_M_PEER].load, 0);
			assert_int_equal(w.gpu[1].state, P2PSAFE_GPU_STATE_READY);
		}
	}
}

/* Under load several senders share a channel. The deadline of one of them is no error of the others. */
static void the_deadline_of_one_sender_is_no_error_of_another(void **state)
{
	(void)state;
	machine();
	goes_wrong(1, OF_PEER, P2S_OP_COPY, P2S_RC_LATE, 0);
	p2s_load_run(&w.run);
	assert_true(atomic_load(&w.bad));
	for (uint32_t i = 0; i < GPUS * GPUS; i++)
		assert_true(w.told[i][P2S_M_PEER].load == 0 || w.told[i][P2S_M_PEER].load == P2PSAFE_VERDICT_OK ||
		            w.told[i][P2S_M_PEER].load == P2PSAFE_VERDICT_UNTESTED);
	assert_int_equal(w.told[1 * GPUS + 0][P2S_M_PEER].load, P2PSAFE_VERDICT_UNTESTED);
	p2s_dead_tell(&w.run);
	stale_is(1, P2PSAFE_VERDICT_UNTESTED);
}

/* Copies to the host run beside those that are judged, and no pair is blamed for what they do wrong. In the last one before the
 * time is over a context is lost, or the process dies: no copy comes behind it that would show it. */
static void an_end_beside_the_load_is_told(void **state)
{
	static const struct {
		int rc;
		int32_t error;
	} list[] = {{P2S_RC_ERROR, 700}, {P2S_RC_GONE, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		machine();
		goes_wrong(1, OF_PEER, P2S_OP_HOST_COPY, list[i].rc, list[i].error);
		w.bad_last = 1;
		p2s_load_run(&w.run);
		assert_true(atomic_load(&w.bad));
		p2s_dead_tell(&w.run);
		load_is(1, WITHIN, P2PSAFE_VERDICT_ERROR);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_answers_keeps_everything),
		cmocka_unit_test(a_lost_device_takes_its_pairs_along),
		cmocka_unit_test(a_lost_context_takes_along_what_it_served),
		cmocka_unit_test(an_engine_that_does_not_come_back_is_wedged),
		cmocka_unit_test(whose_end_is_known_is_not_asked),
		cmocka_unit_test(behind_the_deadline_nobody_is_asked),
		cmocka_unit_test(an_end_beside_the_load_is_told),
		cmocka_unit_test(silence_at_the_deadline_is_no_pass),
		cmocka_unit_test(the_deadline_of_one_sender_is_no_error_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
