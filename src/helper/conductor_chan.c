#define _GNU_SOURCE
#include "helper/conductor.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ABORT_NS (300 * P2S_MS)  /* what a kernel gets to end after the abort word is raised */
#define EAGER_NS UINT64_C(1000000) /* as long as a worker stays awake for its engine (channel.c) */
#define ANSWER_NS (700 * P2S_MS) /* for the worker to answer after its own time-out and abort */

int p2s_chan_open(struct p2s_chan *chan, uint32_t gpu, int *child_sock)
{
	int pair[2];
	void *page;

	chan->gpu = gpu;
	chan->sock = chan->page_fd = *child_sock = -1;
	pthread_mutex_init(&chan->lock, NULL);
	chan->page_fd = memfd_create("p2psafe-control", MFD_CLOEXEC);
	if (chan->page_fd < 0 || ftruncate(chan->page_fd, P2S_CTL_BYTES) != 0)
		return 0;
	page = mmap(NULL, P2S_CTL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, chan->page_fd, 0);
	if (page == MAP_FAILED)
		return 0;
	chan->page = page;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return 0;
	chan->sock = pair[0];
	*child_sock = pair[1];
	return 1;
}

void p2s_chan_close(struct p2s_chan *chan)
{
	if (chan->sock >= 0)
		close(chan->sock);
	if (chan->page_fd >= 0)
		close(chan->page_fd);
	if (chan->page != NULL)
		munmap(chan->page, P2S_CTL_BYTES);
	chan->sock = chan->page_fd = -1;
	chan->page = NULL;
}

static void die(struct p2s_chan *chan, int end, const char *why)
{
	if (atomic_exchange(&chan->dead, 1))
		return;
	snprintf(chan->why, sizeof chan->why, "%s", why);
	atomic_store(&chan->end, end);
}

/* Why the socket of a worker ended: its exit, if it comes soon. */
static void note_end(struct p2s_run *run, struct p2s_chan *chan)
{
	char why[96];
	int gone;

	pthread_mutex_lock(&run->proc_lock);
	gone = p2s_spawn_wait(chan->proc, &run->seam, p2s_now_ns() + (chan->proc->killed ? 0 : 200 * P2S_MS));
	snprintf(why, sizeof why, "worker died: %s", gone ? chan->proc->how : "closed its channel");
	pthread_mutex_unlock(&run->proc_lock);
	die(chan, P2S_END_DIED, why);
}

static void send_request(struct p2s_run *run, struct p2s_chan *chan, const struct p2s_op_request *req, int fd)
{
	enum p2s_io io;

	if (atomic_load(&chan->dead))
		return;
	io = p2s_codec_send(chan->sock, &p2s_op_table, p2s_id_op_request, req, fd, p2s_now_ns() + 100 * P2S_MS);
	if (io == P2S_IO_EOF || io == P2S_IO_ERROR)
		note_end(run, chan);
	else if (io != P2S_IO_OK)
		die(chan, P2S_END_DIED, "worker takes no requests");
	else
		chan->sent = req->seq;
}

void p2s_chan_post(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, int fd)
{
	uint64_t now = p2s_now_ns();

	pthread_mutex_lock(&chan->lock);
	if (req->timeout_ns == 0)
		req->timeout_ns = 2 * P2S_SEC;
	req->seq = ++chan->seq;
	chan->op = req->op;
	chan->wait_until_ns = now + req->timeout_ns + ABORT_NS + ANSWER_NS;
	send_request(run, chan, req, fd);
}

static int stuck(struct p2s_run *run, struct p2s_chan *chan)
{
	p2s_workers_kill(run, chan->proc);
	die(chan, P2S_END_STUCK, "worker did not answer and was killed");
	return P2S_RC_STUCK;
}

void p2s_chan_follow(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req)
{
	if (req->timeout_ns == 0)
		req->timeout_ns = 2 * P2S_SEC;
	req->seq = ++chan->seq;
	chan->behind_ns = req->timeout_ns;
	send_request(run, chan, req, -1);
}

void p2s_chan_look(struct p2s_run *run, struct p2s_chan *chan)
{
	struct pollfd p = {.fd = chan->sock};

	pthread_mutex_lock(&chan->lock);
	if (chan->sock >= 0 && !atomic_load(&chan->dead) && poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0)
		note_end(run, chan);
	pthread_mutex_unlock(&chan->lock);
}

/* Operations are short: where there are CPUs to spare, looking costs less time than waking up. */
static enum p2s_io listen_eagerly(struct p2s_run *run, struct p2s_chan *chan, union p2s_op_any *any, uint16_t *got, int *fd)
{
	uint64_t until = p2s_now_ns() + EAGER_NS;
	enum p2s_io io = P2S_IO_TIMEOUT;

	while (run->eager && io == P2S_IO_TIMEOUT && p2s_now_ns() < until)
		io = p2s_codec_recv(chan->sock, &p2s_op_table, got, any, sizeof *any, fd, 0);
	return io;
}

/* Receives one message of either kind. *got gets its id. */
static int receive(struct p2s_run *run, struct p2s_chan *chan, union p2s_op_any *any, uint16_t *got, int *fd)
{
	uint64_t until = chan->wait_until_ns;
	int aborted = 0;

	*got = 0;
	if (fd != NULL)
		*fd = -1;
	if (atomic_load(&chan->dead) && atomic_load(&chan->end) == P2S_END_LATE)
		return P2S_RC_LATE; /* which is nobody's fault, whoever asked first */
	if (atomic_load(&chan->dead)) /* before what is waited for was sent, or when what follows it was */
		return chan->behind_ns != 0 ? P2S_RC_GONE : P2S_RC_UNSENT;
	for (;;) {
		uint64_t limit = until < run->last_ns ? until : run->last_ns;
		enum p2s_io io = listen_eagerly(run, chan, any, got, fd);
		uint32_t seq;

		if (io == P2S_IO_TIMEOUT)
			io = p2s_codec_recv(chan->sock, &p2s_op_table, got, any, sizeof *any, fd, limit);
		seq = *got == p2s_id_op_device ? any->device.seq : any->answer.seq;

		if (io == P2S_IO_OK && seq == chan->seq - (chan->behind_ns != 0))
			return P2S_RC_OK;
		if (io == P2S_IO_OK) {
			if (fd != NULL && *fd >= 0)
				close(*fd);
			continue; /* the late answer to a request that was given up */
		}
		if (io == P2S_IO_EOF || io == P2S_IO_ERROR) {
			note_end(run, chan);
			return P2S_RC_GONE;
		}
		if (io == P2S_IO_BAD) {
			die(chan, P2S_END_DIED, "worker sent a malformed message");
			return P2S_RC_GONE;
		}
		if (p2s_now_ns() >= run->last_ns) {
			p2s_chan_abort(chan);
			die(chan, P2S_END_LATE, "the deadline came first");
			atomic_store(&run->deadline, 1);
			return P2S_RC_LATE;
		}
		if (aborted)
			return stuck(run, chan);
		aborted = 1;
		p2s_chan_abort(chan);
		until = p2s_now_ns() + ABORT_NS;
	}
}

int p2s_chan_caught_up(struct p2s_chan *chan, uint64_t until_ns)
{
	int ok = 1;

	pthread_mutex_lock(&chan->lock);
	for (uint32_t seq = 0; ok && seq != chan->sent;) {
		union p2s_op_any any;
		uint16_t got;
		int fd;

		ok = p2s_codec_recv(chan->sock, &p2s_op_table, &got, &any, sizeof any, &fd, until_ns) == P2S_IO_OK;
		if (!ok)
			break;
		if (fd >= 0)
			close(fd);
		seq = got == p2s_id_op_device ? any.device.seq : any.answer.seq;
		ok = got == p2s_id_op_device || any.answer.rc == P2S_RC_OK;
	}
	pthread_mutex_unlock(&chan->lock);
	return ok;
}

int p2s_chan_wait(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_answer *answer, int *fd)
{
	union p2s_op_any any;
	uint16_t got;
	int rc = receive(run, chan, &any, &got, fd);

	memset(answer, 0, sizeof *answer);
	if (rc == P2S_RC_OK && got == p2s_id_op_answer) {
		*answer = any.answer;
		rc = answer->rc;
		chan->busy_ns += answer->device_ns;
	} else if (rc == P2S_RC_OK) {
		rc = P2S_RC_BAD_REQUEST;
	} else {
		snprintf(answer->where, sizeof answer->where, "%.47s", chan->why);
	}
	answer->rc = rc;
	if (chan->behind_ns != 0) { /* that one is waited for next */
		chan->wait_until_ns = p2s_now_ns() + chan->behind_ns + ABORT_NS + ANSWER_NS;
		chan->behind_ns = 0;
		return rc;
	}
	pthread_mutex_unlock(&chan->lock);
	return rc;
}

int p2s_chan_wait_device(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_device *device, struct p2s_op_answer *answer)
{
	union p2s_op_any any;
	uint16_t got;
	int rc = receive(run, chan, &any, &got, NULL);

	memset(answer, 0, sizeof *answer);
	if (rc == P2S_RC_OK && got == p2s_id_op_device) {
		*device = any.device;
	} else if (rc == P2S_RC_OK && got == p2s_id_op_answer && any.answer.rc != P2S_RC_OK) {
		*answer = any.answer;
		rc = answer->rc;
	} else if (rc == P2S_RC_OK) {
		rc = P2S_RC_BAD_REQUEST;
	} else {
		snprintf(answer->where, sizeof answer->where, "%.47s", chan->why);
	}
	answer->rc = rc;
	pthread_mutex_unlock(&chan->lock);
	return rc;
}

int p2s_chan_call(struct p2s_run *run, struct p2s_chan *chan, struct p2s_op_request *req, struct p2s_op_answer *answer)
{
	p2s_chan_post(run, chan, req, -1);
	return p2s_chan_wait(run, chan, answer, NULL);
}

void p2s_chan_arm(struct p2s_chan *chan)
{
	if (chan->page == NULL)
		return;
	chan->page->ready[0].word = 0;
	chan->page->ready[1].word = 0;
	chan->page->go.word = 0;
	chan->page->abort.word = 0;
	atomic_thread_fence(memory_order_seq_cst);
}

int p2s_chan_ready(struct p2s_run *run, struct p2s_chan *chan, unsigned mask, uint64_t until_ns)
{
	uint64_t limit = until_ns < run->last_ns ? until_ns : run->last_ns;

	for (unsigned spin = 0;; spin++) {
		unsigned seen = (chan->page->ready[0].word != 0 ? 1U : 0U) | (chan->page->ready[1].word != 0 ? 2U : 0U);
		char one;

		if ((seen & mask) == mask) {
			atomic_thread_fence(memory_order_seq_cst);
			return 1;
		}
		if (atomic_load(&chan->dead) || p2s_now_ns() >= limit)
			return 0;
		if (spin < 200) {
			sched_yield();
		} else {
			struct timespec ts = {.tv_nsec = 20000};

			/* An answer before the kernel was ready means that it never started. */
			if (recv(chan->sock, &one, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR))
				return 0;
			nanosleep(&ts, NULL);
		}
	}
}

void p2s_chan_go(struct p2s_chan *chan)
{
	atomic_thread_fence(memory_order_seq_cst);
	chan->page->go.word = 1;
	atomic_thread_fence(memory_order_seq_cst);
}

void p2s_chan_abort(struct p2s_chan *chan)
{
	if (chan->page == NULL)
		return;
	chan->page->abort.word = 1;
	atomic_thread_fence(memory_order_seq_cst);
}
