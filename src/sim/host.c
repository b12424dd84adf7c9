#include "sim/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/fault.h"
#include "sim/kmsg.h"
#include "sim/lock.h"

#define READY (~UINT32_C(0))
#define PAGE UINT64_C(4096)
#define MAX_SPAN (UINT64_C(1) << 46) /* half of the address space of a process */
#define WAIT_NS UINT64_C(2000000000)

static struct sim_host host;
static int config_state; /* 0 not read, 1 good, 2 bad */
static int memory_state;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

void sim_log(const char *format, ...)
{
	const char *fd = getenv("P2PSAFE_SIM_LOG");
	char line[600];
	va_list ap;
	int n, m;

	if (!fd || !fd[0])
		return;
	n = snprintf(line, sizeof(line), "simulated driver: ");
	va_start(ap, format);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = (int)strlen(line);
	line[n++] = '\n';
	if (write(atoi(fd), line, (size_t)n) < 0)
		return;
}

static int load_config(void)
{
	char err[400];
	const char *dir = getenv("P2PSAFE_SIM_HOST");

	if (config_state)
		return config_state == 1;
	config_state = 2;
	if (!dir || !dir[0]) {
		sim_log("P2PSAFE_SIM_HOST is not set");
		return 0;
	}
	if (!sim_config_load(&host.config, dir, err, sizeof(err))) {
		sim_log("%s", err);
		return 0;
	}
	config_state = 1;
	return 1;
}

const struct sim_config *sim_host_config(void)
{
	int ok;

	pthread_mutex_lock(&guard);
	ok = load_config();
	pthread_mutex_unlock(&guard);
	return ok ? &host.config : NULL;
}

/* Hands out parts of the shared file; with base NULL it only counts. */
struct layout {
	unsigned char *base;
	uint64_t used;
};

static void *take(struct layout *l, uint64_t bytes)
{
	void *at = l->base ? l->base + l->used : NULL;

	l->used += (bytes + PAGE - 1) / PAGE * PAGE;
	return at;
}

static void take_store(struct layout *l, struct sim_store *s, uint64_t bytes)
{
	s->bytes = bytes / SIM_CHUNK * SIM_CHUNK;
	s->chunks = take(l, s->bytes / SIM_CHUNK * sizeof(struct sim_chunk));
	s->data = take(l, s->bytes);
}

static void lay_out(struct layout *l)
{
	const struct sim_config *c = &host.config;
	uint64_t pairs = (uint64_t)c->gpu_count * (uint64_t)c->gpu_count;
	int s, d;

	l->used = 0;
	host.shared = take(l, sizeof(*host.shared));
	host.rings = take(l, pairs * sizeof(*host.rings));
	host.fault_counts = take(l, (uint64_t)c->fault_count * pairs * sizeof(uint32_t));
	host.kmsg = take(l, ((uint64_t)c->fault_count * (uint64_t)c->gpu_count + 1) * sizeof(*host.kmsg));
	for (d = 0; d < c->gpu_count; d++) {
		uint64_t bytes = (uint64_t)c->gpus[d].memory_bytes;

		take_store(l, &host.memory[d], bytes);
		if (c->has_stale) {
			take_store(l, &host.old[d], bytes);
			host.memory[d].old = &host.old[d];
		}
		for (s = 0; s < c->gpu_count && c->has_mirror; s++)
			if (sim_fault_plans(c, SIM_MIRROR, s, d))
				take_store(l, &host.mirrors[sim_pair(&host, s, d)], bytes);
	}
}

static int open_memory(void)
{
	const char *text = getenv("P2PSAFE_SIM_FD");

	if (!text || !text[0])
		return memfd_create("p2psafe-sim", MFD_CLOEXEC);
	return atoi(text);
}

/* The first process to come makes the header; the others wait for it. A process that died in between is replaced. */
static int attach_header(struct sim_shared *s)
{
	uint64_t start = sim_now();
	uint32_t me = (uint32_t)getpid();

	for (;;) {
		uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE), turns = 100;

		if (state == READY)
			break;
		if (!state || !sim_alive(state)) {
			if (!__atomic_compare_exchange_n(&s->state, &state, me, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				continue;
			s->digest = host.config.digest;
			if (getrandom(&s->run, sizeof(s->run), 0) != (ssize_t)sizeof(s->run))
				return 0;
			__atomic_store_n(&s->state, READY, __ATOMIC_RELEASE);
			break;
		}
		if (sim_now() - start > WAIT_NS)
			return 0;
		sim_relax(&turns);
	}
	return s->digest == host.config.digest;
}

static int attach(void)
{
	struct layout l = { NULL, 0 };
	size_t gpus = (size_t)host.config.gpu_count;
	struct stat st;
	void *at;
	int fd;

	host.memory = calloc(gpus + 1, sizeof(*host.memory));
	host.old = calloc(gpus + 1, sizeof(*host.old));
	host.mirrors = calloc(gpus * gpus + 1, sizeof(*host.mirrors));
	if (!host.memory || !host.old || !host.mirrors)
		return 0;
	lay_out(&l);
	if (l.used > MAX_SPAN) {
		sim_log("this host needs %llu bytes of address space", (unsigned long long)l.used);
		return 0;
	}
	fd = open_memory();
	/* Growing is idempotent: all processes compute the same size from the same file. */
	if (fd < 0 || fstat(fd, &st) || (st.st_size < (off_t)l.used && ftruncate(fd, (off_t)l.used))) {
		sim_log("no shared memory: %s", strerror(errno));
		return 0;
	}
	at = mmap(NULL, l.used, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (!getenv("P2PSAFE_SIM_FD"))
		close(fd);
	if (at == MAP_FAILED) {
		sim_log("cannot map %llu bytes: %s", (unsigned long long)l.used, strerror(errno));
		return 0;
	}
	madvise(at, l.used, MADV_DONTDUMP);
	l.base = at;
	lay_out(&l);
	if (!attach_header(host.shared)) {
		sim_log("the shared memory belongs to another host");
		return 0;
	}
	return 1;
}

struct sim_host *sim_host(void)
{
	int ok;

	pthread_mutex_lock(&guard);
	if (!memory_state)
		memory_state = load_config() && attach() ? 1 : 2;
	ok = memory_state == 1;
	pthread_mutex_unlock(&guard);
	return ok ? &host : NULL;
}
