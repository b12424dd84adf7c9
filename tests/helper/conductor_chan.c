/* Channels to workers that are silent when the deadline comes; the test is the worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "helper/conductor.h"

static struct p2s_run run;
static struct p2s_chan chan;
static int worker; /* its end of the channel */

void p2s_workers_kill(struct p2s_run *r, struct p2s_proc *proc)
{
	(void)r, (void)proc;
	fail_msg("a worker is killed");
}

int p2s_spawn_wait(struct p2s_proc *proc, const struct p2s_seam *seam, uint64_t deadline_ns)
{
	(void)proc, (void)seam, (void)deadline_ns;
	return 0;
}

static int open_channel(void **state)
{
	static struct p2s_proc proc;

	(void)state;
	memset(&run, 0, sizeof run);
	memset(&chan, 0, sizeof chan);
	pthread_mutex_init(&run.proc_lock, NULL);
	chan.proc = &proc;
	run.last_ns = p2s_now_ns() + 100 * P2S_SEC;
	return p2s_chan_open(&chan, 0, &worker) ? 0 : -1;
}

static int close_channel(void **state)
{
	(void)state;
	p2s_chan_close(&chan);
	if (worker >= 0)
		close(worker);
	return 0;
}

static struct p2s_op_request request(void)
{
	return (struct p2s_op_request){.op = P2S_OP_PEEK, .buf = P2S_BUF(0, P2S_B_PLAIN), .len = 64};
}

/* What the worker was sent and did not take yet. Returns the number of the last. */
static uint32_t take_requests(uint32_t *count)
{
	union p2s_op_any any;
	uint32_t seq = 0;
	uint16_t id;

	for (*count = 0; p2s_codec_recv(worker, &p2s_op_table, &id, &any, sizeof any, NULL, 0) == P2S_IO_OK; ++*count)
		seq = any.request.seq;
	return seq;
}

static void answer(uint32_t seq, int32_t rc)
{
	struct p2s_op_answer a = {.seq = seq, .rc = rc};

	assert_int_equal(p2s_codec_send(worker, &p2s_op_table, p2s_id_op_answer, &a, -1, 0), P2S_IO_OK);
}

static int wait_answer(void)
{
	struct p2s_op_answer a;
	int rc = p2s_chan_wait(&run, &chan, &a, NULL);

	assert_int_equal(a.rc, rc);
	return rc;
}

static int ask(void)
{
	struct p2s_op_request req = request();

	p2s_chan_post(&run, &chan, &req, -1);
	return wait_answer();
}

/* The deadline has come, and one thing is not done. */
static uint32_t fall_behind(void)
{
	uint32_t count;
	uint32_t seq;

	run.last_ns = p2s_now_ns();
	assert_int_equal(ask(), P2S_RC_LATE);
	assert_int_equal(atomic_load(&chan.end), P2S_END_LATE);
	assert_true(atomic_load(&run.deadline));
	seq = take_requests(&count);
	assert_int_equal(count, 1);
	return seq;
}

/* Nobody's request is sent any more, and that is no error: it is as late for all. */
static void whoever_asks_behind_the_deadline_is_late(void **state)
{
	uint32_t count;

	(void)state;
	fall_behind();
	assert_int_equal(ask(), P2S_RC_LATE);
	assert_int_equal(ask(), P2S_RC_LATE);
	take_requests(&count);
	assert_int_equal(count, 0);
}

static void so_is_what_follows(void **state)
{
	struct p2s_op_request first = request();
	struct p2s_op_request second = request();

	(void)state;
	run.last_ns = p2s_now_ns();
	p2s_chan_post(&run, &chan, &first, -1);
	p2s_chan_follow(&run, &chan, &second);
	assert_int_equal(wait_answer(), P2S_RC_LATE);
	assert_int_equal(wait_answer(), P2S_RC_LATE);
	assert_int_equal(ask(), P2S_RC_LATE);
	answer(first.seq, P2S_RC_OK);
	assert_false(p2s_chan_caught_up(&chan, 0)); /* with one of two */
	answer(second.seq, P2S_RC_OK);
	assert_true(p2s_chan_caught_up(&chan, 0));
}

static void what_is_done_a_moment_later_is_done(void **state)
{
	uint32_t seq;

	(void)state;
	seq = fall_behind();
	assert_int_equal(ask(), P2S_RC_LATE); /* not sent, so not waited for */
	assert_false(p2s_chan_caught_up(&chan, p2s_now_ns() + P2S_MS));
	answer(seq, P2S_RC_OK);
	assert_true(p2s_chan_caught_up(&chan, 0));
}

static void an_answer_that_it_is_not_done_is_none(void **state)
{
	(void)state;
	answer(fall_behind(), P2S_RC_TIMEOUT);
	assert_false(p2s_chan_caught_up(&chan, 0));
}

static void nor_is_a_worker_that_ended(void **state)
{
	(void)state;
	fall_behind();
	close(worker);
	worker = -1;
	assert_false(p2s_chan_caught_up(&chan, p2s_now_ns() + 100 * P2S_SEC));
}

/* Whose worker ended is told apart from that. */
static void behind_a_worker_that_ended_nothing_is_sent(void **state)
{
	struct p2s_op_request req = request();

	(void)state;
	p2s_chan_post(&run, &chan, &req, -1);
	close(worker);
	worker = -1;
	assert_int_equal(wait_answer(), P2S_RC_GONE);
	assert_int_equal(atomic_load(&chan.end), P2S_END_DIED);
	run.last_ns = p2s_now_ns();
	assert_int_equal(ask(), P2S_RC_UNSENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(whoever_asks_behind_the_deadline_is_late),
		TEST(so_is_what_follows),
		TEST(what_is_done_a_moment_later_is_done),
		TEST(an_answer_that_it_is_not_done_is_none),
		TEST(nor_is_a_worker_that_ended),
		TEST(behind_a_worker_that_ended_nothing_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
