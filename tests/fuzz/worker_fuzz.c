/* Any bytes as requests to a worker with two GPUs, over a driver that keeps books (played_driver.h) and fails now and then. Whatever the
 * conductor asks for, nothing is touched that was not allocated, mapped or opened for that GPU; every request is answered once; an answer
 * that is OK says so truly; and in the end everything is given back. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "played_driver.h"

#define FD_BYTES (UINT64_C(1) << 20)

static struct p2s_worker worker;
static struct p2s_worker fresh; /* both GPUs ready, no buffer */
static struct fuzz_in asked;
static uint64_t now = 1;
static uint32_t seq; /* of the request that is not answered yet; 0 none */
static int shared_fd;
static size_t open_at_start;

int __wrap_p2s_cuda_load(struct p2s_cuda *cu, const char *path);
uint64_t __wrap_p2s_now_ns(void);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns);
enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns);

int __wrap_p2s_cuda_load(struct p2s_cuda *cu, const char *path)
{
	(void)path;
	played_fill(cu);
	return 1;
}

uint64_t __wrap_p2s_now_ns(void)
{
	return now += UINT64_C(20000000);
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)wanted;
	(void)left;
	return 0;
}

enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns)
{
	static unsigned char frame[P2S_FRAME_MAX];
	const struct p2s_op_answer *a = in;
	const struct p2s_op_device *d = in;

	(void)sock;
	(void)fd;
	(void)deadline_ns;
	FUZZ_ASSERT(seq != 0 && (id == p2s_id_op_answer ? a->seq : d->seq) == seq && p2s_codec_encode(table, id, in, frame) > 0);
	seq = 0;
	if (id == p2s_id_op_device)
		return P2S_IO_OK;
	FUZZ_ASSERT(a->rc >= P2S_RC_OK && a->rc <= P2S_RC_UNSUPPORTED && memchr(a->where, '\0', sizeof a->where) != NULL);
	FUZZ_ASSERT(a->samples_len <= sizeof a->samples && a->roles_len <= sizeof a->roles && a->handle_len <= sizeof a->handle);
	FUZZ_ASSERT((a->rc == P2S_RC_OK) == (a->where[0] == '\0'));
	return P2S_IO_OK;
}

/* A request: fail at which call and how, luck, then how many bytes of the struct. Bit 7 of the first byte: a descriptor comes along. */
enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns)
{
	static const p2s_curesult results[] = {P2S_CU_ERROR_OUT_OF_MEMORY, P2S_CU_ERROR_NOT_READY, P2S_CU_ERROR_ILLEGAL_ADDRESS,
	                                       P2S_CU_ERROR_INVALID_VALUE};
	static unsigned char frame[P2S_FRAME_MAX];
	struct p2s_op_request q = {0};
	uint32_t fail = fuzz_number(&asked, 1);
	size_t len;
	const uint8_t *fields;

	(void)sock;
	(void)deadline_ns;
	FUZZ_ASSERT(seq == 0); /* the one before was answered */
	*id = 0;
	*fd = -1;
	if (asked.left == 0 || fail == 0x7f)
		return P2S_IO_EOF;
	played_fail(fail % 32 < 20 ? 0 : fail % 32 - 19, results[fail / 32 % 4]);
	played_luck(fuzz_number(&asked, 3));
	fields = fuzz_bytes(&asked, fuzz_number(&asked, 1), &len);
	memcpy(&q, fields, len < sizeof q ? len : sizeof q);
	q.op %= P2S_OP_QUIT; /* the end comes by itself */
	q.rounds %= 4096;    /* else one request is the whole search */
	q.seq = 1;
	if (fail & 128) {
		*fd = dup(shared_fd);
		if (q.op == P2S_OP_PEER_ENABLE || q.op == P2S_OP_CAN_ACCESS)
			snprintf(q.text, sizeof q.text, "%s", played_address((int)(q.buf % 2)));
	}
	len = p2s_codec_encode(table, p2s_id_op_request, &q, frame);
	*id = p2s_codec_decode(table, frame, len, out, cap);
	FUZZ_ASSERT(*id == p2s_id_op_request);
	seq = 1;
	return P2S_IO_OK;
}

static void start(void)
{
	worker.count = PLAYED_GPUS;
	worker.cuda_library = "played";
	pthread_mutex_init(&worker.once, NULL);
	p2s_buffers_init(&worker.buffers);
	shared_fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_ASSERT(shared_fd >= 0 && ftruncate(shared_fd, FD_BYTES) == 0);
	for (int i = 0; i < PLAYED_GPUS; i++) {
		struct p2s_channel *c = &worker.channel[i];
		struct p2s_op_request q = {.op = P2S_OP_INIT};
		struct p2s_op_answer a = {0};
		struct p2s_op_device d = {0};
		struct p2s_call call = {.q = &q, .a = &a, .device = &d, .fd_in = shared_fd, .fd_out = -1};

		c->worker = &worker;
		c->index = i;
		c->sock = -1;
		snprintf(q.text, sizeof q.text, "%s", played_address(i));
		played_current(i);
		p2s_op_init(c, &call);
		FUZZ_ASSERT(call.has_device && c->ready && c->kernels != 0);
	}
	fresh = worker;
	open_at_start = played_open();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static int started;
	int lowest;

	if (!started) {
		start();
		started = 1;
	}
	worker = fresh;
	played_forget_access();
	asked = (struct fuzz_in){bytes, size};
	lowest = dup(shared_fd);
	close(lowest);
	for (int i = 0; asked.left > 0; i++) {
		played_current(i % PLAYED_GPUS);
		p2s_channel_main(&worker.channel[i % PLAYED_GPUS]);
		seq = 0;
	}
	played_fail(0, P2S_CU_SUCCESS);
	for (int i = 0; i < PLAYED_GPUS; i++) {
		struct p2s_op_answer a = {0};

		played_current(i);
		p2s_channel_release_all(&worker.channel[i], &a);
	}
	FUZZ_ASSERT(played_open() == open_at_start);
	FUZZ_ASSERT(dup(shared_fd) == lowest);
	close(lowest);
	return 0;
}
