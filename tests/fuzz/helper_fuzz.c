/* Any bytes as what the helper says during a run. The whole of p2s_run() works on them: only starting and ending a process, the
 * clock and the socket are played here. Whatever is said, the run comes to its end, gives every descriptor back, and what is then
 * decided stands on legs that were told. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "api/answer.h"
#include "emit/emit.h"
#include "fuzz.h"
#include "ipc/child.h"
#include "ipc/find.h"
#include "ipc/proto.h"
#include "second.h"

#define GPUS 3 /* the last one is not in the group */

static struct fuzz_in said;
static uint64_t now;
static int hello;     /* the helper has introduced itself */
static int said_done; /* status of `done`, -1 none */
static int asleep;    /* the library slept over its deadline: all that is said waits */
static int null_fd = -1;

int32_t __wrap_p2s_find_helper(const char *option, char *path, size_t cap, char *tried, size_t tried_cap);
int __wrap_p2s_child_start(const char *path, pid_t *pid, int *pidfd, int *sock);
int32_t __wrap_p2s_child_deaf(const struct p2s_reaper *r);
void __wrap_p2s_child_kill_group(const struct p2s_reaper *r, pid_t pid);
void __wrap_p2s_child_kill(const struct p2s_reaper *r, int pidfd);
int32_t __wrap_p2s_child_gone(int pidfd, uint64_t deadline_ns);
int32_t __wrap_p2s_child_reap(pid_t pid, int pidfd, uint64_t deadline_ns);
enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns);
enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns);
uint64_t __wrap_p2s_now_ns(void);

int32_t __wrap_p2s_find_helper(const char *option, char *path, size_t cap, char *tried, size_t tried_cap)
{
	(void)option;
	(void)tried;
	(void)tried_cap;
	snprintf(path, cap, "played");
	return 1;
}

int __wrap_p2s_child_start(const char *path, pid_t *pid, int *pidfd, int *sock)
{
	(void)path;
	*pid = 2;
	*pidfd = dup(null_fd);
	*sock = dup(null_fd);
	return 0;
}

int32_t __wrap_p2s_child_deaf(const struct p2s_reaper *r)
{
	(void)r;
	return 0;
}

void __wrap_p2s_child_kill_group(const struct p2s_reaper *r, pid_t pid)
{
	(void)r;
	FUZZ_ASSERT(pid == 2); /* the conductor's own, and nobody else's, whatever pids were told */
}

void __wrap_p2s_child_kill(const struct p2s_reaper *r, int pidfd)
{
	(void)r;
	FUZZ_ASSERT(pidfd < 0 || fcntl(pidfd, F_GETFD) >= 0);
}

int32_t __wrap_p2s_child_gone(int pidfd, uint64_t deadline_ns)
{
	(void)deadline_ns;
	return pidfd < 0 || pidfd % 2 == 0;
}

int32_t __wrap_p2s_child_reap(pid_t pid, int pidfd, uint64_t deadline_ns)
{
	(void)deadline_ns;
	FUZZ_ASSERT(pid == 2 && fcntl(pidfd, F_GETFD) >= 0);
	return 1;
}

uint64_t __wrap_p2s_now_ns(void)
{
	return now += 1000;
}

enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns)
{
	static unsigned char frame[P2S_FRAME_MAX];

	(void)deadline_ns;
	FUZZ_ASSERT(fcntl(sock, F_GETFD) >= 0 && fd < 0 && p2s_codec_encode(table, id, in, frame) > 0);
	return P2S_IO_OK;
}

/* One message. How: bit 7: the fields are the struct's bytes; else they are the frame's. Bit 6: a descriptor comes along. */
static size_t next_frame(const struct p2s_table *table, uint32_t how, unsigned char *frame)
{
	static union p2s_lib_any any;
	const struct p2s_message *m = &table->messages[(how & 63) % table->count];
	size_t want = fuzz_number(&said, 2) & 0x3ff;
	size_t len;
	const uint8_t *fields = fuzz_bytes(&said, want, &len);

	if (how & 128) {
		memset(&any, 0, sizeof any);
		memcpy(&any, fields, len < m->size ? len : m->size);
		return p2s_codec_encode(table, m->id, &any, frame);
	}
	frame[0] = 'P', frame[1] = '2', frame[2] = 'P', frame[3] = 'S';
	frame[4] = (unsigned char)m->id;
	frame[5] = 0;
	frame[6] = (unsigned char)(len + 8);
	frame[7] = (unsigned char)((len + 8) >> 8);
	memcpy(frame + 8, fields, len);
	return len + 8;
}

enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns)
{
	static unsigned char frame[P2S_FRAME_MAX];
	size_t len;
	uint32_t how;

	FUZZ_ASSERT(fcntl(sock, F_GETFD) >= 0 && table == &p2s_lib_table);
	*id = 0;
	if (fd != NULL)
		*fd = -1;
	if (!hello) {
		struct p2s_lib_hello mine = {.protocol = P2S_PROTOCOL, .version = P2S_VERSION_TEXT};

		hello = 1;
		if (asleep)
			now = deadline_ns + UINT64_C(3000000000);
		len = p2s_codec_encode(table, p2s_id_lib_hello, &mine, frame);
		*id = p2s_codec_decode(table, frame, len, out, cap);
		return P2S_IO_OK;
	}
	if (said.left == 0) {
		now = deadline_ns;
		return now % 2 == 0 ? P2S_IO_TIMEOUT : P2S_IO_EOF;
	}
	how = fuzz_number(&said, 1);
	len = next_frame(table, how, frame);
	*id = p2s_codec_decode(table, frame, len, out, cap);
	if (*id == 0)
		return P2S_IO_BAD;
	if (*id == p2s_id_lib_done && said_done < 0)
		said_done = ((union p2s_lib_any *)out)->done.status;
	if (fd != NULL && how & 64)
		*fd = dup(null_fd);
	return P2S_IO_OK;
}

static void machine(struct p2s_model *m)
{
	p2s_model_init(m);
	m->level = P2PSAFE_LEVEL_STANDARD;
	m->created_unix = 1700000000;
	for (int32_t i = 0; i < GPUS; i++) {
		struct p2s_gpu *g = p2s_model_add_gpu(m);

		FUZZ_ASSERT(g != NULL);
		g->bdf.bus = (uint8_t)(i + 1);
		p2s_bdf_format(&g->bdf, g->address);
		snprintf(g->driver, sizeof g->driver, "nvidia");
		g->vendor = 0x10de;
		g->device = 0x2335;
		g->ours = g->in_group = i < 2;
		g->bar_start[2] = UINT64_C(0x100000000000) * (uint64_t)(i + 1);
		g->bar_bytes[2] = UINT64_C(1) << 38;
	}
	FUZZ_ASSERT(p2s_model_make_pairs(m) == 1);
}

/* Written and read back, the report allows the same. */
static void round_trip(const struct p2s_model *m)
{
	struct p2s_model back;
	json_t *top = p2s_emit_report(m, 0);

	FUZZ_ASSERT(top != NULL);
	p2s_model_init(&back);
	FUZZ_ASSERT(p2s_emit_parse(top, &back) == 1 && back.pair_count == m->pair_count);
	back.nothing_tested = m->nothing_tested;
	FUZZ_ASSERT(p2s_rules_judge(&back, NULL) == 1);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		FUZZ_ASSERT(back.consumers[c].allowed == m->consumers[c].allowed && back.consumers[c].verdict == m->consumers[c].verdict);
	p2s_model_free(&back);
	json_decref(top);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct p2s_session s = {.root = {.fd = -1}};
	struct p2s_run_args args = {.request = &s.request, .seam = &s.seam, .mode = P2S_MODE_TEST};
	struct p2s_run_result result;
	struct p2s_model m;
	int lowest;

	if (null_fd < 0)
		null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	lowest = dup(null_fd);
	close(lowest);
	said = (struct fuzz_in){bytes, size};
	now = UINT64_C(1000000000);
	hello = 0;
	said_done = -1;
	asleep = size % 3 == 0;
	args.deadline_ns = now + UINT64_C(20000000000) + size % 2;
	s.request.level = P2PSAFE_LEVEL_STANDARD;
	s.seam.simulated = s.seam.privileged = 1;
	machine(&m);
	FUZZ_ASSERT(p2s_run(&m, &args, &result) == 1);
	FUZZ_ASSERT(result.started && result.done_status == said_done);
	FUZZ_ASSERT(result.complete == (said_done == P2S_DONE_COMPLETE));
	FUZZ_ASSERT(m.gpu_count == GPUS && m.pair_count == 2 && m.staged_count == 1);
	FUZZ_ASSERT(p2s_answer_finish(&s, &m, NULL) == 0);
	second_opinion(&m);
	for (int32_t c = 1; c < P2S_CONSUMERS; c++) /* who did not come to its end did not look once more */
		FUZZ_ASSERT(said_done >= 0 || m.consumers[c].allowed != 1);
	if (size % 4 == 0) /* takes as long as all the rest */
		round_trip(&m);
	p2s_model_free(&m);
	FUZZ_ASSERT(dup(null_fd) == lowest); /* nothing is left open */
	close(lowest);
	return 0;
}
