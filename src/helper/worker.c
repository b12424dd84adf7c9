/* A worker process: one thread per channel, and the main thread, which only watches. When a conductor is gone while a
 * thread is stuck inside the driver, the process ends at once; nothing here ever waits for the driver's teardown. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define GRACE_NS (2 * P2S_ABORT_NS) /* from the end of a socket to the end of its thread: abort, wait, one answer */
#define LOOK_MS 100
#define STATUS_STUCK 3

struct start {
	struct p2s_channel *channel;
	int done_fd;
};

static struct p2s_worker worker;
static struct start starts[P2S_MAX_GPUS];

static void *run(void *arg)
{
	struct start *s = arg;
	char byte = 0;

	p2s_channel_main(s->channel);
	/* The socket stays open until here: its end tells the conductor that the channel is done. */
	close(s->channel->sock);
	while (write(s->done_fd, &byte, 1) < 0 && errno == EINTR)
		;
	return NULL;
}

/* Watches until every thread has ended. Returns 0, or STATUS_STUCK when a thread outlives its socket. */
static int watch(int count, int done_fd)
{
	struct pollfd p[P2S_MAX_GPUS + 1];
	uint64_t hung_up[P2S_MAX_GPUS] = {0};

	for (int i = 0; i < count; i++)
		p[i] = (struct pollfd){.fd = worker.channel[i].sock, .events = POLLRDHUP};
	p[count] = (struct pollfd){.fd = done_fd, .events = POLLIN};
	for (;;) {
		int left = 0;

		for (int i = 0; i < count; i++) {
			if (atomic_load(&worker.channel[i].ended))
				p[i].fd = -1;
			else
				left++;
		}
		if (left == 0)
			return 0;
		if (poll(p, (nfds_t)count + 1, LOOK_MS) < 0 && errno != EINTR)
			return STATUS_STUCK;
		if (p[count].revents & POLLIN) {
			char bytes[P2S_MAX_GPUS];
			ssize_t n = read(done_fd, bytes, sizeof bytes);

			(void)n; /* only wakes this loop; `ended` says who */
		}
		for (int i = 0; i < count; i++) {
			if (p[i].fd >= 0 && (p[i].revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) {
				/* seen: from here on the clock counts, polling it again would only spin */
				hung_up[i] = p2s_now_ns();
				p[i].fd = -1;
			}
			if (hung_up[i] != 0 && !atomic_load(&worker.channel[i].ended) && p2s_now_ns() - hung_up[i] > GRACE_NS)
				return STATUS_STUCK;
		}
	}
}

int p2s_worker_main(const struct p2s_worker_args *args)
{
	int pipe_fds[2];

	if (args->count < 1 || args->count > P2S_MAX_GPUS || pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return 2;
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* short sleeps while polling should be short */
	worker.cuda_library = args->cuda_library;
	worker.count = args->count;
	worker.eager = args->eager;
	pthread_mutex_init(&worker.once, NULL);
	p2s_buffers_init(&worker.buffers);
	for (int i = 0; i < args->count; i++) {
		struct p2s_channel *c = &worker.channel[i];

		c->worker = &worker;
		c->index = i;
		c->sock = args->fds[i];
	}
	for (int i = 0; i < args->count; i++) {
		starts[i] = (struct start){.channel = &worker.channel[i], .done_fd = pipe_fds[1]};
		if (pthread_create(&worker.channel[i].thread, NULL, run, &starts[i]) != 0)
			_exit(2);
		pthread_detach(worker.channel[i].thread);
	}
	_exit(watch(args->count, pipe_fds[0]));
}
