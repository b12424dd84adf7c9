/* libcuda-shadow.so.1: a wrapper around a driver library for tests of damage, above all around the REAL one on real GPUs.
 * What src's engines do to memory owned by dst happens to a private copy in src's own memory; a forwarder (shadow_forward.c)
 * brings it to the real peer late, in pieces, wrong, or never. Every call succeeds: the private mirror of NVIDIA/nccl#2335
 * and its relatives, on hardware that is in order.
 *
 * Use: p2psafe test --cuda-library .../libcuda-shadow.so.1
 * Configuration: the file shadow.conf beside the library, one line of words:
 *   src=0000:00:06.0 dst=0000:00:07.0   the one direction that is damaged
 *   mode=mirror     what happens (default mirror), see modes[] below
 *   above=33554432  only transfers of more bytes
 *   mapping=ipc     only over this mapping: peer, ipc, cumem
 *   kernels=no      no kernel is found in any module, as without a compiler
 *   driver=PATH     the driver behind (default libcuda.so.1 of the system): the simulated one in tests without GPUs
 * Without the file, or where a wrapped call cannot be understood, calls fail with CUDA_ERROR_UNKNOWN: a test of damage must not
 * pass by accident.
 *
 * How: arguments of launches and copies that point into dst's memory while src's context is current are exchanged for pointers
 * into the copy. Functions that need no change are made from the helper's table (shadow_forward.cmake). */
#include "sim/shadow.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "helper/kernels.h"

/* CUpointer_attribute (cuda.h, CUDA 13.0) */
#define ATTRIBUTE_DEVICE_ORDINAL 9
#define ATTRIBUTE_RANGE_START 11
#define ATTRIBUTE_RANGE_SIZE 12
#define RANGES 1024

static const char *const modes[] = {
	[SHADOW_MIRROR] = "mirror",       /* src reads back what it wrote, dst sees nothing */
	[SHADOW_DROP] = "drop",           /* writes go nowhere, reads are right */
	[SHADOW_STALE] = "stale",         /* a read shows what the read before should have shown */
	[SHADOW_ZEROS] = "zeros",         /* writes arrive as zeros */
	[SHADOW_BIT] = "bit",             /* one bit of each write is wrong */
	[SHADOW_SWAP] = "swap",           /* two pages of each write change places */
	[SHADOW_LATE] = "late",           /* writes arrive 30 ms after they are reported done */
	[SHADOW_MISDIRECT] = "misdirect", /* writes land in other memory of src, at the same offset */
	[SHADOW_REORDER] = "reorder",     /* flags of messages arrive before their payload */
	[SHADOW_TORN] = "torn",           /* 8-byte words arrive in two halves */
};
static const char *const mappings[] = {"any", "peer", "ipc", "cumem"};

/* How a kernel uses its arguments: which one points to memory that is written, which to memory that is read; -1 none. */
enum form { LOCAL, RANGE, MESSAGES, TEAR, OTHER };
static const struct kernel {
	const char *name;
	int args;
	int write;
	int read;
	int form;
} kernels[] = {
	{"p2s_fill", 4, 0, -1, RANGE},    {"p2s_check", 8, -1, -1, LOCAL},  {"p2s_load", 5, -1, 1, RANGE},
	{"p2s_mp", 14, 2, 3, MESSAGES},   {"p2s_tear", 10, 2, 3, TEAR},     {"p2s_wide", 14, 2, 3, MESSAGES},
	{"p2s_atomic", 5, 2, -1, OTHER},  {"p2s_ll", 13, 2, 3, OTHER},
};

struct function {
	p2s_cufunction handle;
	const struct kernel *kernel;
};

struct range {
	p2s_cuptr start;
	uint64_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow shadows[256];
static int shadow_count;
static struct function functions[256];
static int function_count;
static struct range ipc[RANGES]; /* opened legacy handles */
static int ipc_count;
static struct range mapped[RANGES]; /* cuMemMap */
static int mapped_count;
static struct range own[RANGES]; /* plain allocations */
static int own_count;
static struct shadow_conf conf;
static int conf_state; /* 0 not read, 1 good, 2 bad */

static int word_of(const char *const *words, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(words[i], text) == 0)
			return (int)i;
	return -1;
}

static int read_word(char *word)
{
	char *value = strchr(word, '=');
	char *end;

	if (value == NULL)
		return 0;
	*value++ = '\0';
	if (strcmp(word, "src") == 0)
		return snprintf(conf.src, sizeof conf.src, "%s", value) < (int)sizeof conf.src;
	if (strcmp(word, "dst") == 0)
		return snprintf(conf.dst, sizeof conf.dst, "%s", value) < (int)sizeof conf.dst;
	if (strcmp(word, "driver") == 0)
		return snprintf(conf.driver, sizeof conf.driver, "%s", value) < (int)sizeof conf.driver;
	if (strcmp(word, "above") == 0) {
		conf.above = strtoull(value, &end, 10);
		return *value != '\0' && *end == '\0';
	}
	if (strcmp(word, "kernels") == 0)
		return (conf.no_kernels = strcmp(value, "no") == 0);
	if (strcmp(word, "mode") == 0)
		return (conf.mode = word_of(modes, sizeof modes / sizeof modes[0], value)) >= 0;
	if (strcmp(word, "mapping") == 0)
		return (conf.mapping = word_of(mappings, sizeof mappings / sizeof mappings[0], value)) >= 0;
	return 0;
}

static int read_conf(void)
{
	char path[4096], line[1024], *slash, *word, *rest = NULL;
	Dl_info info;
	FILE *f;
	int ok = 1;

	if (dladdr((void *)&lock, &info) == 0)
		return 0;
	snprintf(path, sizeof path - 16, "%s", info.dli_fname);
	slash = strrchr(path, '/');
	if (slash == NULL)
		return 0;
	strcpy(slash, "/shadow.conf");
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	line[0] = '\0';
	ok = fgets(line, sizeof line, f) != NULL;
	fclose(f);
	for (word = strtok_r(line, " \t\n", &rest); word != NULL && ok; word = strtok_r(NULL, " \t\n", &rest))
		ok = read_word(word);
	return ok && conf.src[0] != '\0' && conf.dst[0] != '\0';
}

const struct shadow_conf *p2s_shadow_conf(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&once);
	if (conf_state == 0)
		conf_state = read_conf() ? 1 : 2;
	pthread_mutex_unlock(&once);
	return conf_state == 1 ? &conf : NULL;
}

void *p2s_shadow_next(const char *name)
{
	static void *driver;
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	const struct shadow_conf *c = p2s_shadow_conf();

	if (c == NULL)
		return NULL;
	pthread_mutex_lock(&once);
	if (driver == NULL)
		driver = dlopen(c->driver[0] != '\0' ? c->driver : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	pthread_mutex_unlock(&once);
	return driver == NULL ? NULL : dlsym(driver, name);
}

/* A loader that knows simulated drivers asks this: what the driver behind lacks, the wrapper lacks too. */
int p2psafe_sim_missing(const char *name);
SHADOW_EXPORT int p2psafe_sim_missing(const char *name)
{
	int (*missing)(const char *);

	if (p2s_shadow_conf() == NULL)
		return 0; /* calls say what is wrong */
	if (P2S_SHADOW_NEXT(missing, "p2psafe_sim_missing") && missing(name) == 1)
		return 1;
	return p2s_shadow_next(name) == NULL;
}

static int inside(const struct range *list, int count, p2s_cuptr p)
{
	for (int i = 0; i < count; i++)
		if (p >= list[i].start && p - list[i].start < list[i].size)
			return 1;
	return 0;
}

/* Under the lock. */
static void note_range(struct range *list, int *count, p2s_cuptr start, uint64_t size)
{
	list[*count % RANGES] = (struct range){start, size};
	if (*count < RANGES - 1)
		(*count)++;
}

static int mapping_of(p2s_cuptr p)
{
	return inside(ipc, ipc_count, p) ? SHADOW_IPC : inside(mapped, mapped_count, p) ? SHADOW_CUMEM : SHADOW_PEER;
}

/* The ordinals of src and dst in this process, -1: not here. */
static int ordinals(int *src, int *dst)
{
	int (*by_address)(int *, const char *);

	if (p2s_shadow_conf() == NULL || !P2S_SHADOW_NEXT(by_address, "cuDeviceGetByPCIBusId"))
		return 0;
	if (by_address(src, conf.src) != 0)
		*src = -1;
	if (by_address(dst, conf.dst) != 0)
		*dst = -1;
	return 1;
}

/* 1 if p is memory of dst as src sees it, 0 not, -1 cannot be told. An opened legacy handle may be called memory of the GPU
 * that opened it: whose it is then follows only where there are no more than two GPUs. */
static int owned_by_dst(p2s_cuptr p, int owner, int src, int dst)
{
	int (*count)(int *);
	int gpus, opened;

	if (owner == dst)
		return 1;
	pthread_mutex_lock(&lock);
	opened = inside(ipc, ipc_count, p);
	pthread_mutex_unlock(&lock);
	if (!opened || owner != src)
		return 0;
	return P2S_SHADOW_NEXT(count, "cuDeviceGetCount") && count(&gpus) == 0 && gpus == 2 ? 1 : -1;
}

/* The shadow of the window that p points into while src's context is current; *s NULL: none. Returns a CUresult. */
static int find_shadow(p2s_cuptr p, struct shadow **s)
{
	int (*current)(int *);
	int (*attribute)(void *, int, p2s_cuptr);
	int (*alloc)(p2s_cuptr *, size_t);
	int src, dst, here, whose, owner = -1, rc = 0;
	struct shadow *found = NULL;
	p2s_cuptr start = 0;
	size_t size = 0;

	*s = NULL;
	if (!ordinals(&src, &dst) || !P2S_SHADOW_NEXT(current, "cuCtxGetDevice") ||
	    !P2S_SHADOW_NEXT(attribute, "cuPointerGetAttribute") || !P2S_SHADOW_NEXT(alloc, "cuMemAlloc_v2"))
		return SHADOW_UNKNOWN;
	if (p == 0 || current(&here) != 0 || here != src || attribute(&owner, ATTRIBUTE_DEVICE_ORDINAL, p) != 0)
		return 0;
	whose = dst < 0 ? 0 : owned_by_dst(p, owner, src, dst);
	if (whose <= 0)
		return whose == 0 ? 0 : SHADOW_UNKNOWN;
	if (attribute(&start, ATTRIBUTE_RANGE_START, p) != 0 || attribute(&size, ATTRIBUTE_RANGE_SIZE, p) != 0 || p < start)
		return SHADOW_UNKNOWN;
	pthread_mutex_lock(&lock);
	if (conf.mapping == SHADOW_ANY || mapping_of(p) == conf.mapping) {
		for (int i = 0; i < shadow_count && found == NULL; i++)
			if (shadows[i].start == start && shadows[i].size == size)
				found = &shadows[i];
		if (found == NULL && shadow_count == 256)
			rc = SHADOW_UNKNOWN;
		if (found == NULL && rc == 0) {
			found = &shadows[shadow_count];
			*found = (struct shadow){.start = start, .size = size};
			rc = alloc(&found->copy, size);
			shadow_count += rc == 0;
		}
	}
	pthread_mutex_unlock(&lock);
	*s = rc == 0 ? found : NULL;
	return rc;
}

/* Other memory of src, at least so large. 0: none. */
static p2s_cuptr elsewhere(const struct shadow *s, uint64_t off)
{
	p2s_cuptr at = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < own_count && at == 0; i++)
		if (own[i].size == s->size)
			at = own[i].start + off;
	pthread_mutex_unlock(&lock);
	return at;
}

/* What a bulk transfer is turned into. */
struct plan {
	struct shadow *s;
	uint64_t off;
	uint64_t len;
	int forward;
	int refresh;
};

/* Exchanges the pointer of a bulk write of len bytes, which begin `lead` behind it. */
static int plan_write(p2s_cuptr *p, uint64_t lead, uint64_t len, struct plan *plan)
{
	struct shadow *s;
	int rc = find_shadow(*p, &s);

	if (rc != 0 || s == NULL || len <= conf.above || conf.mode == SHADOW_STALE || conf.mode == SHADOW_REORDER ||
	    conf.mode == SHADOW_TORN)
		return rc;
	plan->off = *p - s->start + lead;
	if (conf.mode == SHADOW_MISDIRECT) {
		p2s_cuptr other = elsewhere(s, *p - s->start);

		*p = other != 0 ? other : *p;
		return other != 0 ? 0 : SHADOW_UNKNOWN;
	}
	plan->s = s;
	plan->len = len;
	plan->forward = conf.mode != SHADOW_MIRROR && conf.mode != SHADOW_DROP;
	*p = s->copy + (*p - s->start);
	return 0;
}

static int plan_read(p2s_cuptr *p, uint64_t lead, uint64_t len, p2s_custream stream, struct plan *plan)
{
	struct shadow *s;
	int rc = find_shadow(*p, &s);

	if (rc != 0 || s == NULL || len <= conf.above || (conf.mode != SHADOW_MIRROR && conf.mode != SHADOW_STALE))
		return rc;
	plan->s = s;
	plan->off = *p - s->start + lead;
	plan->len = len;
	plan->refresh = conf.mode == SHADOW_STALE;
	if (plan->refresh && !s->filled) {
		rc = p2s_shadow_refresh(s, 0, s->size, stream, 1);
		s->filled = rc == 0;
	}
	*p = s->copy + (*p - s->start);
	return rc;
}

static int finish(const struct plan *plan, p2s_custream stream, int rc)
{
	if (rc == 0 && plan->forward)
		rc = p2s_shadow_forward(plan->s, plan->off, plan->len, stream);
	if (rc == 0 && plan->refresh)
		rc = p2s_shadow_refresh(plan->s, plan->off, plan->len, stream, 0);
	return rc;
}

/* Kernels that wait: a writer's window is exchanged where the mode concerns what is seen meanwhile. */
static int plan_waiting(const struct kernel *k, uint64_t *v, p2s_custream stream)
{
	int exchange = conf.mode == SHADOW_MIRROR || conf.mode == SHADOW_DROP;
	struct shadow *s;
	uint64_t off;
	int rc;

	if (conf.above > 0)
		return 0; /* messages are small */
	if (conf.mode == SHADOW_MIRROR && k->read >= 0) {
		rc = find_shadow(v[k->read], &s);
		if (rc != 0)
			return rc;
		if (s != NULL)
			v[k->read] = s->copy + (v[k->read] - s->start);
	}
	rc = find_shadow(v[k->write], &s);
	if (rc != 0 || s == NULL)
		return rc;
	off = v[k->write] - s->start;
	if (conf.mode == SHADOW_REORDER && k->form == MESSAGES) {
		exchange = 1;
		rc = p2s_shadow_messages(s, off, v, stream);
	} else if (conf.mode == SHADOW_TORN && k->form == TEAR) {
		exchange = 1;
		rc = p2s_shadow_tear(s, off, v[4], stream);
	}
	if (exchange && rc == 0)
		v[k->write] = s->copy + off;
	return rc;
}

int cuModuleGetFunction(p2s_cufunction *out, p2s_cumodule module, const char *name);
int cuLaunchKernel(p2s_cufunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, p2s_custream stream, void **params, void **extra);
int cuMemcpyAsync(p2s_cuptr dst, p2s_cuptr src, size_t bytes, p2s_custream stream);
int cuMemcpyPeerAsync(p2s_cuptr dst, p2s_cuctx dst_ctx, p2s_cuptr src, p2s_cuctx src_ctx, size_t bytes, p2s_custream stream);
int cuIpcOpenMemHandle_v2(p2s_cuptr *ptr, struct p2s_cuipc handle, unsigned flags);
int cuMemMap(p2s_cuptr ptr, size_t bytes, size_t offset, p2s_cumem handle, unsigned long long flags);
int cuMemAlloc_v2(p2s_cuptr *ptr, size_t bytes);
int cuStreamWriteValue64_v2(p2s_custream stream, p2s_cuptr ptr, uint64_t value, unsigned flags);
int cuStreamQuery(p2s_custream stream);

SHADOW_EXPORT int cuModuleGetFunction(p2s_cufunction *out, p2s_cumodule module, const char *name)
{
	int (*next)(p2s_cufunction *, p2s_cumodule, const char *);
	int rc = P2S_SHADOW_NEXT(next, "cuModuleGetFunction") ? next(out, module, name) : SHADOW_UNKNOWN;

	if (rc != 0 || conf.no_kernels)
		return rc != 0 ? rc : SHADOW_NO_COMPILER;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
		if (strcmp(kernels[i].name, name) == 0 && function_count < 256)
			functions[function_count++] = (struct function){*out, &kernels[i]};
	pthread_mutex_unlock(&lock);
	return 0;
}

static const struct kernel *kernel_of(p2s_cufunction function)
{
	const struct kernel *k = NULL;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < function_count; i++)
		if (functions[i].handle == function)
			k = functions[i].kernel;
	pthread_mutex_unlock(&lock);
	return k;
}

SHADOW_EXPORT int cuLaunchKernel(p2s_cufunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, p2s_custream stream, void **params, void **extra)
{
	int (*next)(p2s_cufunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, p2s_custream, void **,
	            void **);
	const struct kernel *k = kernel_of(function);
	uint64_t v[P2S_KERNEL_ARGS_MAX];
	void *pointers[P2S_KERNEL_ARGS_MAX];
	struct plan plan = {0};
	int rc = 0;

	if (!P2S_SHADOW_NEXT(next, "cuLaunchKernel") || k == NULL || params == NULL)
		return SHADOW_UNKNOWN;
	for (int i = 0; i < k->args; i++) {
		memcpy(&v[i], params[i], sizeof v[i]);
		pointers[i] = &v[i];
	}
	if (k->form == RANGE && k->write >= 0)
		rc = plan_write(&v[0], v[1], v[2] > v[1] ? v[2] - v[1] : 0, &plan);
	else if (k->form == RANGE)
		rc = plan_read(&v[1], v[2], v[3] > v[2] ? v[3] - v[2] : 0, stream, &plan);
	else if (k->form != LOCAL)
		rc = plan_waiting(k, v, stream);
	if (rc != 0)
		return rc;
	return finish(&plan, stream, next(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra));
}

/* Both kinds of copy: at most one end is a window. */
static int plan_copy(p2s_cuptr *dst, p2s_cuptr *src, size_t bytes, p2s_custream stream, struct plan *plan)
{
	int rc = plan_write(dst, 0, bytes, plan);

	return rc != 0 ? rc : plan_read(src, 0, bytes, stream, plan);
}

SHADOW_EXPORT int cuMemcpyAsync(p2s_cuptr dst, p2s_cuptr src, size_t bytes, p2s_custream stream)
{
	int (*next)(p2s_cuptr, p2s_cuptr, size_t, p2s_custream);
	struct plan plan = {0};
	int rc = plan_copy(&dst, &src, bytes, stream, &plan);

	if (rc != 0 || !P2S_SHADOW_NEXT(next, "cuMemcpyAsync"))
		return SHADOW_UNKNOWN;
	return finish(&plan, stream, next(dst, src, bytes, stream));
}

SHADOW_EXPORT int cuMemcpyPeerAsync(p2s_cuptr dst, p2s_cuctx dst_ctx, p2s_cuptr src, p2s_cuctx src_ctx, size_t bytes,
                                    p2s_custream stream)
{
	int (*next)(p2s_cuptr, p2s_cuctx, p2s_cuptr, p2s_cuctx, size_t, p2s_custream);
	int (*plain)(p2s_cuptr, p2s_cuptr, size_t, p2s_custream);
	p2s_cuptr d = dst, s = src;
	struct plan plan = {0};
	int rc = plan_copy(&d, &s, bytes, stream, &plan);

	if (rc != 0 || !P2S_SHADOW_NEXT(next, "cuMemcpyPeerAsync") || !P2S_SHADOW_NEXT(plain, "cuMemcpyAsync"))
		return SHADOW_UNKNOWN;
	return finish(&plan, stream,
	              d == dst && s == src ? next(dst, dst_ctx, src, src_ctx, bytes, stream) : plain(d, s, bytes, stream));
}

SHADOW_EXPORT int cuStreamQuery(p2s_custream stream)
{
	int (*next)(p2s_custream);
	int busy = p2s_shadow_busy(stream); /* asked first: who ends in between is seen the next time */

	if (!P2S_SHADOW_NEXT(next, "cuStreamQuery"))
		return SHADOW_UNKNOWN;
	return busy ? SHADOW_NOT_READY : next(stream);
}

SHADOW_EXPORT int cuStreamWriteValue64_v2(p2s_custream stream, p2s_cuptr ptr, uint64_t value, unsigned flags)
{
	int (*next)(p2s_custream, p2s_cuptr, uint64_t, unsigned);
	struct shadow *s;
	int rc = find_shadow(ptr, &s);

	if (rc != 0 || !P2S_SHADOW_NEXT(next, "cuStreamWriteValue64_v2"))
		return SHADOW_UNKNOWN;
	if (s != NULL && conf.above == 0 && (conf.mode == SHADOW_MIRROR || conf.mode == SHADOW_DROP))
		ptr = s->copy + (ptr - s->start);
	return next(stream, ptr, value, flags);
}

SHADOW_EXPORT int cuIpcOpenMemHandle_v2(p2s_cuptr *ptr, struct p2s_cuipc handle, unsigned flags)
{
	int (*next)(p2s_cuptr *, struct p2s_cuipc, unsigned);
	int (*attribute)(void *, int, p2s_cuptr);
	int rc = P2S_SHADOW_NEXT(next, "cuIpcOpenMemHandle_v2") ? next(ptr, handle, flags) : SHADOW_UNKNOWN;
	size_t size = 0;

	if (rc != 0)
		return rc;
	if (!P2S_SHADOW_NEXT(attribute, "cuPointerGetAttribute") || attribute(&size, ATTRIBUTE_RANGE_SIZE, *ptr) != 0 || size == 0)
		return SHADOW_UNKNOWN; /* a window that is not known would pass undamaged */
	pthread_mutex_lock(&lock);
	note_range(ipc, &ipc_count, *ptr, size);
	pthread_mutex_unlock(&lock);
	return 0;
}

SHADOW_EXPORT int cuMemMap(p2s_cuptr ptr, size_t bytes, size_t offset, p2s_cumem handle, unsigned long long flags)
{
	int (*next)(p2s_cuptr, size_t, size_t, p2s_cumem, unsigned long long);
	int rc = P2S_SHADOW_NEXT(next, "cuMemMap") ? next(ptr, bytes, offset, handle, flags) : SHADOW_UNKNOWN;

	if (rc == 0) {
		pthread_mutex_lock(&lock);
		note_range(mapped, &mapped_count, ptr, bytes);
		pthread_mutex_unlock(&lock);
	}
	return rc;
}

SHADOW_EXPORT int cuMemAlloc_v2(p2s_cuptr *ptr, size_t bytes)
{
	int (*next)(p2s_cuptr *, size_t);
	int rc = P2S_SHADOW_NEXT(next, "cuMemAlloc_v2") ? next(ptr, bytes) : SHADOW_UNKNOWN;

	if (rc == 0) {
		pthread_mutex_lock(&lock);
		note_range(own, &own_count, *ptr, bytes);
		pthread_mutex_unlock(&lock);
	}
	return rc;
}
