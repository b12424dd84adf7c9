/* Any bytes as what the conductor is told by whoever started it: the run, its GPUs, answers about risk. Its own main function works on
 * them up to the place where workers would be started. It takes a whole order with every value in range, or none; and an answer about
 * risk that is no clear "go" stops. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuzz.h"
#include "helper/conductor.h"
#include "helper/roles.h"

#define NOW UINT64_C(1000000000000)

static struct fuzz_in told;
static uint32_t sent; /* messages that were sent to the library */
static int accepted;
static int went; /* the last answer about risk */
static struct p2s_run *used; /* the conductor's own; it begins each process with zeroes */

enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns);
enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns);
uint64_t __wrap_p2s_now_ns(void);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
long __wrap_syscall(long number, ...);
int __wrap_setpgid(pid_t pid, pid_t group);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

/* A conductor that gives up ends its process, and with it what it allocated. Here it is given back after each run. */
static void *made[64];
static size_t made_count;

void *__wrap_calloc(size_t count, size_t size)
{
	void *p = __real_calloc(count, size);

	FUZZ_ASSERT(made_count < sizeof made / sizeof made[0]);
	made[made_count++] = p;
	return p;
}

uint64_t __wrap_p2s_now_ns(void)
{
	return NOW;
}

/* Nothing of this process is closed, and its group stays. */
long __wrap_syscall(long number, ...)
{
	(void)number;
	return 0;
}

int __wrap_setpgid(pid_t pid, pid_t group)
{
	(void)pid;
	(void)group;
	return 0;
}

enum p2s_io __wrap_p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns)
{
	(void)in;
	(void)fd;
	(void)deadline_ns;
	FUZZ_ASSERT(sock == P2S_LIB_FD && table == &p2s_lib_table && (sent > 0 || id == p2s_id_lib_hello));
	sent++;
	return P2S_IO_OK;
}

/* How: bit 7: the fields are the struct's bytes, and bit 6: on top of a good message; else they are the frame's. */
enum p2s_io __wrap_p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                                  uint64_t deadline_ns)
{
	static unsigned char frame[P2S_FRAME_MAX];
	union p2s_lib_any any;
	uint32_t how = fuzz_number(&told, 1);
	const struct p2s_message *m = &table->messages[(how & 63) % table->count];
	size_t want = fuzz_number(&told, 1) % 200;
	size_t len;
	const uint8_t *fields;

	(void)deadline_ns;
	FUZZ_ASSERT(sock == P2S_LIB_FD && fd == NULL);
	*id = 0;
	if (told.left == 0)
		return P2S_IO_EOF;
	fields = fuzz_bytes(&told, want, &len);
	memset(&any, 0, sizeof any);
	if (how & 64 && m->id == p2s_id_lib_run)
		any.run = (struct p2s_lib_run){.protocol = P2S_PROTOCOL, .version = P2S_VERSION_TEXT, .mode = P2S_MODE_TEST,
		                               .level = P2PSAFE_LEVEL_QUICK, .deadline_ns = NOW + P2S_SEC, .gpu_count = len > 0 ? fields[0] % 9 : 2};
	else if (how & 64 && m->id == p2s_id_lib_gpu_in)
		any.gpu_in = (struct p2s_lib_gpu_in){.index = len > 0 ? fields[0] : 0, .address = "0000:01:00.0", .test = 1};
	else
		memcpy(&any, fields, len < m->size ? len : m->size);
	if (how & 128) {
		len = p2s_codec_encode(table, m->id, &any, frame);
	} else {
		frame[0] = 'P', frame[1] = '2', frame[2] = 'P', frame[3] = 'S';
		frame[4] = (unsigned char)m->id;
		frame[5] = 0;
		frame[6] = (unsigned char)(len + 8);
		frame[7] = (unsigned char)((len + 8) >> 8);
		memcpy(frame + 8, fields, len);
		len += 8;
	}
	*id = p2s_codec_decode(table, frame, len, out, cap);
	if (*id == p2s_id_lib_risk_answer)
		went = ((union p2s_lib_any *)out)->risk_answer.go;
	return *id == 0 ? P2S_IO_BAD : P2S_IO_OK;
}

/* The order was taken: this is the thread that listens on. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	struct p2s_run *run = arg;
	struct p2psafe_bdf bdf;
	uint32_t tested = 0;

	(void)thread;
	(void)attr;
	accepted = 1;
	used = run;
	FUZZ_ASSERT(run->n <= P2S_MAX_GPUS && run->ask.protocol == P2S_PROTOCOL);
	FUZZ_ASSERT(run->tested_count <= run->n);
	FUZZ_ASSERT(run->ask.mode >= P2S_MODE_PROBE && run->ask.mode <= P2S_MODE_RECHECK && run->ask.level >= P2PSAFE_LEVEL_QUICK &&
	            run->ask.level <= P2PSAFE_LEVEL_THOROUGH && run->ask.deadline_ns > NOW);
	FUZZ_ASSERT(memchr(run->ask.host_dir, '\0', sizeof run->ask.host_dir) != NULL &&
	            memchr(run->ask.cuda_library, '\0', sizeof run->ask.cuda_library) != NULL);
	FUZZ_ASSERT(run->simulated == (run->ask.host_dir[0] != '\0' || run->ask.cuda_library[0] != '\0'));
	for (uint32_t i = 0; i < run->n; i++) {
		FUZZ_ASSERT(p2s_bdf_parse(run->gpu[i].address, &bdf) && run->gpu[i].chan[0].sock == -1);
		if (run->gpu[i].test)
			FUZZ_ASSERT(tested < run->tested_count && run->tested[tested++] == i);
	}
	FUZZ_ASSERT(tested == run->tested_count);
	atomic_store(&run->finishing, 1); /* else the end of the input would end this process */
	went = -1;
	start(run);
	FUZZ_ASSERT(run->risk_answer == (went == P2S_RISK_GO || went == P2S_RISK_SKIP ? went : went == -1 ? run->risk_answer : P2S_RISK_STOP));
	FUZZ_ASSERT(run->risk_answer >= -1 && run->risk_answer <= P2S_RISK_SKIP);
	return EAGAIN; /* and no further */
}

static void conduct(const uint8_t *bytes, size_t size)
{
	int rc;

	told = (struct fuzz_in){bytes, size};
	sent = 0;
	accepted = 0;
	if (used != NULL)
		memset(used, 0, sizeof *used);
	rc = p2s_conductor_main();
	FUZZ_ASSERT(rc == (accepted ? 1 : 3) && sent == 1);
	while (made_count > 0)
		free(made[--made_count]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const uint8_t no_gpus[] = {0xc0, 1, 0, 0};

	if (used == NULL) {
		conduct(no_gpus, sizeof no_gpus);
		FUZZ_ASSERT(used != NULL);
	}
	conduct(bytes, size);
	return 0;
}
