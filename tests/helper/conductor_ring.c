/* The rings that staged transfers are measured through (measure_host.c), with workers that are played: one that gives up in time
 * costs the numbers that it did not get to, and no others; one whose engine fails is told of at once. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper/measure.h"

#define GPUS 2
#define CROWDS 8
#define MEMORY (64 * P2S_MIB)
#define ENOUGH_ROWS 4

static struct {
	uint32_t crowds;
	int slow;          /* both sides give up behind ENOUGH_ROWS */
	uint32_t fails_at; /* crowd whose first item is answered so; 0 none */
	int32_t rc;
	int fresh[CROWDS]; /* all rings of this crowd began anew */
	int wedged, broken;
} played;

static struct p2s_run run;
static struct p2s_measure m;

/* ---- what measure_host.c calls ---- */

int p2s_measure_may(struct p2s_measure *a)
{
	(void)a;
	return 1;
}

void p2s_measure_tell(struct p2s_measure *a, uint32_t src, uint32_t dst, int32_t kind, uint64_t value, uint64_t bytes)
{
	(void)a, (void)src, (void)dst, (void)kind, (void)value, (void)bytes;
}

struct p2s_crowd_item *p2s_crowd_add(struct p2s_crowd *crowd, struct p2s_chan *chan, uint32_t op)
{
	struct p2s_crowd_item *item = &crowd->item[crowd->count++];

	memset(item, 0, sizeof *item);
	item->chan = chan;
	item->req.op = op;
	return item;
}

/* Reads the ring's head, and leaves it as two sides do of which one gave up. */
static int use_ring(uint32_t id)
{
	int fd = m.ring_fd[(id >> 16) - 1];
	struct p2s_stage_head head;
	int fresh;

	assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
	fresh = head.stop.word == 0 && head.produced.word == head.consumed.word;
	head.produced.word += 9;
	head.consumed.word += played.slow ? 7 : 9;
	head.stop.word = played.slow != 0;
	assert_int_equal(pwrite(fd, &head, sizeof head, 0), sizeof head);
	return fresh;
}

int p2s_crowd_run(struct p2s_measure *a, struct p2s_crowd *crowd)
{
	uint32_t number = ++played.crowds;

	(void)a;
	assert_true(number < CROWDS);
	played.fresh[number] = 1;
	for (uint32_t i = 0; i < crowd->count; i++) {
		struct p2s_crowd_item *item = &crowd->item[i];
		struct p2s_stage_row row[P2S_ROWS];

		assert_int_equal(item->req.op, P2S_OP_STAGE);
		if (item->req.buf2 != 0) /* every ring once: by its sender */
			played.fresh[number] &= use_ring(item->req.buf2);
		memset(row, 0, sizeof row);
		for (uint32_t r = 0; r < item->req.handle_len && (!played.slow || r < ENOUGH_ROWS); r++)
			if (item->req.handle[r] != 0)
				row[r] = (struct p2s_stage_row){1000, 1000, 1000, 1000};
		memcpy(item->answer.samples, row, sizeof row);
		item->answer.samples_len = sizeof row;
		if (number == played.fails_at && i == 0)
			item->answer.rc = played.rc;
	}
	return 1;
}

void p2s_chan_post(struct p2s_run *a, struct p2s_chan *chan, struct p2s_op_request *req, int fd)
{
	(void)a, (void)chan, (void)fd;
	assert_int_equal(req->op, P2S_OP_HOST_MAP);
}

int p2s_chan_wait(struct p2s_run *a, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd)
{
	(void)a, (void)chan, (void)fd;
	memset(answer, 0, sizeof *answer);
	return P2S_RC_OK;
}

int p2s_chan_call(struct p2s_run *a, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	(void)a, (void)chan, (void)req;
	memset(answer, 0, sizeof *answer);
	return P2S_RC_OK;
}

uint64_t p2s_run_engine_ns(const struct p2s_run *a, uint64_t wait_ns)
{
	(void)a;
	return wait_ns;
}

uint64_t p2s_run_key(struct p2s_run *a, uint32_t src, uint32_t dst, int32_t leg, int mapping)
{
	(void)a, (void)leg, (void)mapping;
	return src * 64 + dst;
}

void p2s_run_link_failed(struct p2s_run *a, struct p2s_chan *chan, uint32_t buf, const struct p2s_op_answer *answer)
{
	(void)a, (void)chan, (void)buf, (void)answer;
	played.broken++;
}

int p2s_run_drop_gpu(struct p2s_run *a, uint32_t gpu, int32_t state, const char *error)
{
	(void)a, (void)gpu, (void)error;
	played.wedged += state == P2PSAFE_GPU_STATE_WEDGED;
	return 1;
}

void p2s_link_fact(struct p2s_run *a, const char *code, int32_t severity, int32_t src, int32_t dst, const char *source,
				   const char *text)
{
	(void)a, (void)code, (void)severity, (void)src, (void)dst, (void)source, (void)text;
}

void p2s_link_send(struct p2s_run *a, uint16_t id, const void *message, int fd)
{
	(void)a, (void)id, (void)message, (void)fd;
}

void p2s_workers_kill(struct p2s_run *a, struct p2s_proc *proc)
{
	(void)a, (void)proc;
}

void p2s_workers_ask_host(struct p2s_run *a)
{
	(void)a;
}

/* ---- */

/* One round of the only pair. */
static void measure(int slow, uint32_t fails_at, int32_t rc)
{
	static struct p2s_device gpu[GPUS];
	static struct p2s_way way[GPUS * GPUS];
	const uint32_t pair[] = {0, 1};

	memset(&played, 0, sizeof played);
	played.slow = slow;
	played.fails_at = fails_at;
	played.rc = rc;
	memset(&m, 0, sizeof m);
	memset(gpu, 0, sizeof gpu);
	run.n = m.n = GPUS;
	run.gpu = gpu;
	run.way = way;
	m.run = &run;
	for (uint32_t g = 0; g < GPUS; g++) {
		m.gpu[g] = gpu[g].chan[P2S_CHAN_GPU].gpu = g;
		gpu[g].bytes[P2S_B_PLAIN] = MEMORY;
		m.ring[g] = 1;
		m.ring_fd[g] = memfd_create("ring", MFD_CLOEXEC);
		assert_int_equal(ftruncate(m.ring_fd[g], (off_t)P2S_STAGE_BYTES), 0);
	}
	for (size_t i = 0; i < GPUS * GPUS; i++)
		way[i].staged_ok = 1;
	p2s_measure_staged(&m, pair, 1);
}

static void end(void)
{
	p2s_measure_host_end(&m);
}

/* There, back, and both at once: each finds its rings as new, and so does the next round. */
static void a_slow_path_is_measured_as_far_as_it_goes(void **state)
{
	const uint32_t pair[] = {0, 1};

	(void)state;
	for (int slow = 0; slow < 2; slow++) {
		measure(slow, 0, P2S_RC_OK);
		assert_int_equal(played.crowds, 3);
		p2s_measure_staged(&m, pair, 1);
		assert_int_equal(played.crowds, 6);
		for (uint32_t i = 1; i <= played.crowds; i++)
			assert_true(played.fresh[i]);
		assert_int_equal(played.wedged + played.broken, 0);
		end();
	}
}

/* Wherever an engine fails or does not come back: it is told then, and the ring is used no more. */
static void a_failed_link_is_told(void **state)
{
	(void)state;
	for (uint32_t at = 1; at <= 3; at++) {
		measure(0, at, P2S_RC_TIMEOUT);
		assert_int_equal(played.wedged, 1);
		assert_false(m.ring[0] && m.ring[1]);
		end();
		measure(0, at, P2S_RC_ERROR);
		assert_int_equal(played.broken, 1);
		assert_false(m.ring[0] && m.ring[1]);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_path_is_measured_as_far_as_it_goes),
		cmocka_unit_test(a_failed_link_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
