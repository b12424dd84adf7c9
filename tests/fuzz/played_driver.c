#define _GNU_SOURCE
#include "played_driver.h"

#include <fcntl.h>
#include <unistd.h>

#define ENTRIES 256
#define BACKED (UINT64_C(64) << 10)  /* allocations up to this size have bytes */
#define MOST (UINT64_C(1) << 34)
#define GRANULARITY (UINT64_C(2) << 20)

enum kind { NONE, DEVICE, HOST, RANGE, HANDLE };

struct entry {
	enum kind kind;
	int gpu;      /* who made it */
	int ours;     /* HOST: allocated here */
	int mapped;   /* RANGE */
	int access;   /* RANGE: set */
	uint64_t at;  /* address, or the number of a handle */
	uint64_t bytes;
	unsigned char *backing;
};

static struct entry book[ENTRIES];
static uint64_t next_address = UINT64_C(0x700000000000);
static uint64_t next_handle = 1;
static int current;
static int enabled[PLAYED_GPUS][PLAYED_GPUS];
static uint32_t fail_at;
static p2s_curesult fail_with;
static uint32_t luck;

const char *played_address(int gpu)
{
	return gpu == 0 ? "0000:01:00.0" : "0000:41:00.0";
}

void played_current(int gpu)
{
	current = gpu;
}

void played_fail(uint32_t n, p2s_curesult result)
{
	fail_at = n;
	fail_with = result;
}

void played_luck(uint32_t l)
{
	luck = l;
}

void played_forget_access(void)
{
	memset(enabled, 0, sizeof enabled);
}

size_t played_open(void)
{
	size_t n = 0;

	for (int i = 0; i < ENTRIES; i++)
		n += book[i].kind != NONE;
	return n;
}

/* Does this call fail? */
static p2s_curesult turn(void)
{
	return fail_at > 0 && --fail_at == 0 ? fail_with : P2S_CU_SUCCESS;
}

#define TURN()                               \
	do {                                     \
		p2s_curesult failed_ = turn();       \
		if (failed_ != P2S_CU_SUCCESS)       \
			return failed_;                  \
	} while (0)

static struct entry *find(enum kind kind, uint64_t at)
{
	for (int i = 0; i < ENTRIES; i++)
		if (book[i].kind == kind && book[i].at == at)
			return &book[i];
	return NULL;
}

static struct entry *add(enum kind kind, uint64_t at, uint64_t bytes)
{
	for (int i = 0; i < ENTRIES; i++) {
		if (book[i].kind != NONE)
			continue;
		book[i] = (struct entry){.kind = kind, .gpu = current, .at = at, .bytes = bytes};
		return &book[i];
	}
	return NULL;
}

static void drop(struct entry *e)
{
	FUZZ_ASSERT(e != NULL);
	free(e->backing);
	memset(e, 0, sizeof *e);
}

/* Who may reach it from the current context: its maker, whoever has access to the maker's context, everybody where it is the host's. */
static int reaches(const struct entry *e)
{
	return e->kind == HOST || (e->kind == DEVICE && (e->gpu == current || enabled[current][e->gpu])) ||
	       (e->kind == RANGE && e->gpu == current && e->mapped && e->access);
}

/* The entry that holds all of it. */
static struct entry *touch(uint64_t at, uint64_t bytes)
{
	for (int i = 0; i < ENTRIES; i++) {
		struct entry *e = &book[i];

		if ((e->kind == DEVICE || e->kind == HOST || e->kind == RANGE) && at >= e->at && at - e->at <= e->bytes &&
		    bytes <= e->bytes - (at - e->at) && reaches(e))
			return e;
	}
	fprintf(stderr, "GPU %d touches %#llx, %llu bytes: nobody gave it that\n", current, (unsigned long long)at,
	        (unsigned long long)bytes);
	abort();
}

static unsigned char *bytes_of(uint64_t at, uint64_t bytes)
{
	struct entry *e = touch(at, bytes);

	if (e->kind == HOST)
		return (unsigned char *)(uintptr_t)at;
	return e->backing != NULL ? e->backing + (at - e->at) : NULL;
}

static p2s_curesult move(uint64_t dst, uint64_t src, uint64_t bytes)
{
	unsigned char *to = bytes_of(dst, bytes);
	const unsigned char *from = bytes_of(src, bytes);

	if (to != NULL && from != NULL && bytes > 0)
		memmove(to, from, bytes);
	return P2S_CU_SUCCESS;
}

/* ---- kernels: what each touches, by helper/kernels.h ---- */

#define NAME(name, count) {"p2s_" #name, count},
static const struct {
	const char *name;
	int args;
} kernels[] = {P2S_KERNELS(NAME) P2S_KERNELS_MEASURE(NAME)};
#undef NAME

static void span(uint64_t at, uint64_t begin, uint64_t end)
{
	FUZZ_ASSERT(begin <= end && at + end >= at);
	if (end > begin)
		touch(at + begin, end - begin);
}

static void role(uint64_t res, int which, uint64_t rounds)
{
	struct p2s_role_result *r = (void *)(bytes_of(res, 2 * sizeof *r) + (size_t)which * sizeof *r);
	uint32_t l = luck >> which * 8 & 255;

	FUZZ_ASSERT((uintptr_t)r % 8 == 0);
	r->status = l % 8 == 0 ? l / 8 % 6 : P2S_ROLE_DONE;
	r->rounds_done = l % 16 == 3 ? 0 : rounds;
	r->seen_a = r->seen_b = 1;
	r->samples = l % 32 == 5 ? ~UINT64_C(0) : 0;
}

static void slots(uint64_t at, uint64_t rounds, uint64_t slot, uint64_t last)
{
	FUZZ_ASSERT(at % 8 == 0 && slot % 8 == 0);
	if (at != 0 && rounds > 0)
		touch(at, (rounds - 1) * slot + last);
}

static void run_kernel(int k, const uint64_t *v, uint32_t threads)
{
	struct p2s_check_result *c;

	switch (k) {
	case P2S_KERNEL_fill:
		span(v[0], v[1], v[2]);
		break;
	case P2S_KERNEL_check:
		span(v[0], v[1], v[2]);
		FUZZ_ASSERT((v[1] | v[2]) % 8 == 0 && threads % 32 == 0);
		c = (void *)bytes_of(v[7], sizeof *c);
		c->compared += luck % 64 == 7 ? 0 : (v[2] - v[1]) / 8;
		c->bad_words = luck % 16 == 3 ? luck >> 4 : 0;
		c->samples = luck % 16 == 3 ? luck >> 8 : 0;
		break;
	case P2S_KERNEL_load:
		span(v[0], v[2], v[3]);
		span(v[1], v[2], v[3]);
		break;
	case P2S_KERNEL_mp:
	case P2S_KERNEL_wide:
		touch(v[0], P2S_CTL_POLLS + 8);
		slots(v[2], v[6], v[8], v[9] + 8);
		slots(v[3], v[6], v[8], v[9] + 8);
		role(v[1], 0, v[6]);
		role(v[1], 1, v[6]);
		break;
	case P2S_KERNEL_ll:
		touch(v[0], P2S_CTL_POLLS + 8);
		slots(v[2], v[6], v[8], v[7] * 8);
		slots(v[3], v[6], v[8], v[7] * 8);
		role(v[1], 0, v[6]);
		role(v[1], 1, v[6]);
		break;
	case P2S_KERNEL_tear:
		touch(v[0], P2S_CTL_POLLS + 8);
		if (v[7] > 0) {
			slots(v[2], 1, 8, (v[4] + 1) * 8);
			slots(v[3], 1, 8, (v[4] + 1) * 8);
		}
		role(v[1], 0, v[7]);
		role(v[1], 1, v[7]);
		break;
	case P2S_KERNEL_atomic:
		touch(v[0], P2S_CTL_POLLS + 8);
		slots(v[2], v[3] > 0, 8, 16);
		role(v[1], 0, 32 * v[3]);
		break;
	case P2S_KERNEL_gate:
		touch(v[0], P2S_CTL_POLLS + 8);
		role(v[1], 0, 0);
		break;
	case P2S_KERNEL_pump:
		FUZZ_ASSERT((v[0] | v[1] | v[2]) % 16 == 0);
		if (v[3] > 0) {
			span(v[0], 0, v[2]);
			span(v[1], 0, v[2]);
		}
		break;
	case P2S_KERNEL_chase:
		FUZZ_ASSERT((v[2] & (v[2] - 1)) == 0 && v[0] % 4 == 0 && v[3] % 4 == 0);
		span(v[0], 0, v[2]);
		role(v[1], 0, v[4]);
		break;
	case P2S_KERNEL_issue:
		FUZZ_ASSERT(v[0] % 16 == 0);
		span(v[0], 0, v[3] > 0 ? v[2] * 16 : 0);
		role(v[1], 0, v[3]);
		break;
	default:
		FUZZ_ASSERT(k == P2S_KERNEL_pong);
		touch(v[0], P2S_CTL_POLLS + 8);
		if (v[5] > 0) {
			span(v[2], 0, 136);
			span(v[3], 0, 136);
		}
		role(v[1], 0, v[5]);
	}
}

/* ---- the calls ---- */

#define CALL(name, ...) static p2s_curesult name(__VA_ARGS__)
#define UNUSED(x) ((void)(x))

CALL(cuInit, unsigned int flags)
{
	UNUSED(flags);
	return turn();
}

CALL(cuDriverGetVersion, int *version)
{
	TURN();
	*version = 12080;
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetCount, int *count)
{
	TURN();
	*count = PLAYED_GPUS;
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGet, p2s_cudevice *dev, int ordinal)
{
	TURN();
	FUZZ_ASSERT(ordinal >= 0 && ordinal < PLAYED_GPUS);
	*dev = ordinal;
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetPCIBusId, char *text, int len, p2s_cudevice dev)
{
	TURN();
	snprintf(text, (size_t)len, "%s", played_address(dev));
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetName, char *name, int len, p2s_cudevice dev)
{
	TURN();
	snprintf(name, (size_t)len, "played %d", (int)dev);
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetUuid_v2, struct p2s_cuuuid *uuid, p2s_cudevice dev)
{
	TURN();
	memset(uuid, dev, sizeof *uuid);
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceTotalMem_v2, size_t *bytes, p2s_cudevice dev)
{
	TURN();
	UNUSED(dev);
	*bytes = MOST;
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetAttribute, int *value, p2s_cuenum attribute, p2s_cudevice dev)
{
	TURN();
	UNUSED(dev);
	*value = attribute == P2S_CU_ATTR_CC_MAJOR                                                    ? 9
	         : attribute == P2S_CU_ATTR_MULTIPROCESSOR_COUNT                                      ? 8
	         : attribute == P2S_CU_ATTR_CC_MINOR || attribute == P2S_CU_ATTR_COMPUTE_MODE ? 0
	                                                                                      : 1;
	return attribute == P2S_CU_ATTR_HOST_NUMA_ID ? P2S_CU_ERROR_INVALID_VALUE : P2S_CU_SUCCESS;
}

CALL(cuDevicePrimaryCtxRetain, p2s_cuctx *ctx, p2s_cudevice dev)
{
	TURN();
	*ctx = (p2s_cuctx)(uintptr_t)(dev + 1);
	return P2S_CU_SUCCESS;
}

CALL(cuCtxSetCurrent, p2s_cuctx ctx)
{
	TURN();
	FUZZ_ASSERT((int)(uintptr_t)ctx == current + 1);
	return P2S_CU_SUCCESS;
}

CALL(cuModuleLoadDataEx, p2s_cumodule *mod, const void *image, unsigned int n, p2s_cuenum *options, void **values)
{
	TURN();
	UNUSED(n);
	UNUSED(options);
	UNUSED(values);
	FUZZ_ASSERT(image != NULL);
	*mod = (p2s_cumodule)(uintptr_t)1;
	return P2S_CU_SUCCESS;
}

CALL(cuModuleGetFunction, p2s_cufunction *fn, p2s_cumodule mod, const char *name)
{
	TURN();
	UNUSED(mod);
	for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
		if (strcmp(kernels[i].name, name) == 0)
			*fn = (p2s_cufunction)(uintptr_t)(i + 1);
	return P2S_CU_SUCCESS;
}

CALL(cuLaunchKernel, p2s_cufunction fn, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
     unsigned int bz, unsigned int shared, p2s_custream stream, void **args, void **extra)
{
	size_t k = (uintptr_t)fn - 1;
	uint64_t v[P2S_KERNEL_ARGS_MAX];

	FUZZ_ASSERT(fn != NULL && stream != NULL && shared == 0 && extra == NULL && gy == 1 && gz == 1 && by == 1 && bz == 1);
	FUZZ_ASSERT(gx > 0 && bx >= 32 && bx <= 1024);
	for (int i = 0; i < kernels[k].args; i++)
		memcpy(&v[i], args[i], 8);
	TURN();
	run_kernel((int)k, v, bx);
	return P2S_CU_SUCCESS;
}

CALL(cuStreamCreate, p2s_custream *stream, unsigned int flags)
{
	TURN();
	UNUSED(flags);
	*stream = (p2s_custream)(uintptr_t)1;
	return P2S_CU_SUCCESS;
}

CALL(cuStreamQuery, p2s_custream stream)
{
	FUZZ_ASSERT(stream != NULL);
	return turn();
}

CALL(cuEventCreate, p2s_cuevent *event, unsigned int flags)
{
	TURN();
	UNUSED(flags);
	*event = (p2s_cuevent)(uintptr_t)1;
	return P2S_CU_SUCCESS;
}

CALL(cuEventRecord, p2s_cuevent event, p2s_custream stream)
{
	FUZZ_ASSERT(event != NULL && stream != NULL);
	return turn();
}

CALL(cuEventQuery, p2s_cuevent event)
{
	FUZZ_ASSERT(event != NULL);
	return turn();
}

CALL(cuStreamWaitEvent, p2s_custream stream, p2s_cuevent event, unsigned int flags)
{
	UNUSED(flags);
	FUZZ_ASSERT(event != NULL && stream != NULL);
	return turn();
}

CALL(cuEventElapsedTime, float *ms, p2s_cuevent start, p2s_cuevent end)
{
	static const float odd[] = {0.5f, 0, -1, 1e30f};

	TURN();
	FUZZ_ASSERT(start != NULL && end != NULL);
	*ms = odd[luck >> 20 & 3];
	return P2S_CU_SUCCESS;
}

CALL(cuMemGetInfo_v2, size_t *free_bytes, size_t *total)
{
	TURN();
	*free_bytes = *total = MOST;
	return P2S_CU_SUCCESS;
}

CALL(cuMemAlloc_v2, p2s_cuptr *ptr, size_t bytes)
{
	struct entry *e;

	TURN();
	if (bytes > MOST || (e = add(DEVICE, next_address, bytes)) == NULL)
		return P2S_CU_ERROR_OUT_OF_MEMORY;
	next_address += (bytes + 0x1fffff) & ~(size_t)0x1fffff;
	if (bytes <= BACKED)
		e->backing = calloc(1, bytes);
	*ptr = e->at;
	return P2S_CU_SUCCESS;
}

CALL(cuMemFree_v2, p2s_cuptr ptr)
{
	drop(find(DEVICE, ptr));
	return turn();
}

CALL(cuMemHostAlloc, void **ptr, size_t bytes, unsigned int flags)
{
	TURN();
	UNUSED(flags);
	*ptr = calloc(1, bytes);
	FUZZ_ASSERT(*ptr != NULL && add(HOST, (uintptr_t)*ptr, bytes) != NULL);
	return P2S_CU_SUCCESS;
}

CALL(cuMemHostGetDevicePointer_v2, p2s_cuptr *ptr, void *host, unsigned int flags)
{
	TURN();
	UNUSED(flags);
	touch((uintptr_t)host, 1);
	*ptr = (uintptr_t)host;
	return P2S_CU_SUCCESS;
}

CALL(cuMemHostRegister_v2, void *ptr, size_t bytes, unsigned int flags)
{
	TURN();
	UNUSED(flags);
	return add(HOST, (uintptr_t)ptr, bytes) != NULL ? P2S_CU_SUCCESS : P2S_CU_ERROR_OUT_OF_MEMORY;
}

CALL(cuMemHostUnregister, void *ptr)
{
	drop(find(HOST, (uintptr_t)ptr));
	return turn();
}

CALL(cuMemcpyAsync, p2s_cuptr dst, p2s_cuptr src, size_t bytes, p2s_custream stream)
{
	UNUSED(stream);
	TURN();
	return move(dst, src, bytes);
}

CALL(cuMemcpyPeerAsync, p2s_cuptr dst, p2s_cuctx dst_ctx, p2s_cuptr src, p2s_cuctx src_ctx, size_t bytes, p2s_custream stream)
{
	UNUSED(stream);
	TURN();
	FUZZ_ASSERT(dst_ctx != NULL && src_ctx != NULL);
	return move(dst, src, bytes);
}

CALL(cuMemcpyDtoHAsync_v2, void *dst, p2s_cuptr src, size_t bytes, p2s_custream stream)
{
	UNUSED(stream);
	TURN();
	return move((uintptr_t)dst, src, bytes);
}

CALL(cuMemcpyHtoDAsync_v2, p2s_cuptr dst, const void *src, size_t bytes, p2s_custream stream)
{
	UNUSED(stream);
	TURN();
	return move(dst, (uintptr_t)src, bytes);
}

CALL(cuStreamWriteValue64_v2, p2s_custream stream, p2s_cuptr ptr, uint64_t value, unsigned int flags)
{
	UNUSED(stream);
	UNUSED(value);
	UNUSED(flags);
	TURN();
	FUZZ_ASSERT(ptr % 8 == 0);
	touch(ptr, 8);
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceCanAccessPeer, int *can, p2s_cudevice dev, p2s_cudevice peer)
{
	TURN();
	*can = dev != peer;
	return P2S_CU_SUCCESS;
}

CALL(cuDeviceGetP2PAttribute, int *value, p2s_cuenum attribute, p2s_cudevice src, p2s_cudevice dst)
{
	TURN();
	UNUSED(attribute);
	*value = src != dst;
	return P2S_CU_SUCCESS;
}

CALL(cuCtxEnablePeerAccess, p2s_cuctx peer, unsigned int flags)
{
	int gpu = (int)(uintptr_t)peer - 1;

	UNUSED(flags);
	TURN();
	FUZZ_ASSERT(gpu >= 0 && gpu < PLAYED_GPUS && gpu != current);
	if (enabled[current][gpu])
		return P2S_CU_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	enabled[current][gpu] = 1;
	return P2S_CU_SUCCESS;
}

CALL(cuIpcGetMemHandle, struct p2s_cuipc *handle, p2s_cuptr ptr)
{
	TURN();
	FUZZ_ASSERT(find(DEVICE, ptr) != NULL);
	memset(handle, 7, sizeof *handle);
	return P2S_CU_SUCCESS;
}

/* A foreign block of unknown size: as large as what is asked for, for all that the worker can know. */
CALL(cuIpcOpenMemHandle_v2, p2s_cuptr *ptr, struct p2s_cuipc handle, unsigned int flags)
{
	struct entry *e;

	UNUSED(flags);
	TURN();
	if (handle.reserved[0] == 0 || (e = add(DEVICE, next_address, UINT64_C(1) << 46)) == NULL)
		return P2S_CU_ERROR_INVALID_VALUE;
	next_address += UINT64_C(1) << 46;
	*ptr = e->at;
	return P2S_CU_SUCCESS;
}

CALL(cuIpcCloseMemHandle, p2s_cuptr ptr)
{
	drop(find(DEVICE, ptr));
	return turn();
}

CALL(cuMemGetAllocationGranularity, size_t *bytes, const struct p2s_cuprop *prop, p2s_cuenum option)
{
	TURN();
	UNUSED(prop);
	UNUSED(option);
	*bytes = GRANULARITY;
	return P2S_CU_SUCCESS;
}

CALL(cuMemCreate, p2s_cumem *handle, size_t bytes, const struct p2s_cuprop *prop, unsigned long long flags)
{
	TURN();
	UNUSED(flags);
	FUZZ_ASSERT(bytes % GRANULARITY == 0 && prop->location.id == current);
	if (bytes > MOST || add(HANDLE, next_handle, bytes) == NULL)
		return P2S_CU_ERROR_OUT_OF_MEMORY;
	*handle = next_handle++;
	return P2S_CU_SUCCESS;
}

CALL(cuMemRelease, p2s_cumem handle)
{
	drop(find(HANDLE, handle));
	return turn();
}

CALL(cuMemAddressReserve, p2s_cuptr *ptr, size_t bytes, size_t align, p2s_cuptr addr, unsigned long long flags)
{
	TURN();
	UNUSED(addr);
	UNUSED(flags);
	FUZZ_ASSERT(align == GRANULARITY);
	if (bytes == 0 || bytes % GRANULARITY != 0 || bytes > UINT64_C(1) << 46)
		return P2S_CU_ERROR_INVALID_VALUE;
	if (add(RANGE, next_address, bytes) == NULL)
		return P2S_CU_ERROR_OUT_OF_MEMORY;
	*ptr = next_address;
	next_address += bytes;
	return P2S_CU_SUCCESS;
}

CALL(cuMemAddressFree, p2s_cuptr ptr, size_t bytes)
{
	struct entry *e = find(RANGE, ptr);

	FUZZ_ASSERT(e != NULL && e->bytes == bytes && !e->mapped);
	drop(e);
	return turn();
}

CALL(cuMemMap, p2s_cuptr ptr, size_t bytes, size_t offset, p2s_cumem handle, unsigned long long flags)
{
	struct entry *e = find(RANGE, ptr);
	const struct entry *h = find(HANDLE, handle);

	UNUSED(flags);
	TURN();
	FUZZ_ASSERT(e != NULL && h != NULL && offset == 0 && bytes == e->bytes && !e->mapped);
	if (bytes > h->bytes)
		return P2S_CU_ERROR_INVALID_VALUE;
	e->mapped = 1;
	return P2S_CU_SUCCESS;
}

CALL(cuMemUnmap, p2s_cuptr ptr, size_t bytes)
{
	struct entry *e = find(RANGE, ptr);

	FUZZ_ASSERT(e != NULL && e->mapped && bytes == e->bytes);
	e->mapped = e->access = 0;
	return turn();
}

CALL(cuMemSetAccess, p2s_cuptr ptr, size_t bytes, const struct p2s_cuaccess *desc, size_t count)
{
	struct entry *e = find(RANGE, ptr);

	TURN();
	FUZZ_ASSERT(e != NULL && e->mapped && bytes == e->bytes && count == 1 && desc->location.id == current);
	e->access = 1;
	return P2S_CU_SUCCESS;
}

CALL(cuMemExportToShareableHandle, void *out, p2s_cumem handle, p2s_cuenum type, unsigned long long flags)
{
	int fd;

	UNUSED(flags);
	TURN();
	FUZZ_ASSERT(find(HANDLE, handle) != NULL && type == P2S_CU_HANDLE_POSIX_FD);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	memcpy(out, &fd, sizeof fd);
	return P2S_CU_SUCCESS;
}

CALL(cuMemImportFromShareableHandle, p2s_cumem *handle, void *os_handle, p2s_cuenum type)
{
	TURN();
	FUZZ_ASSERT(type == P2S_CU_HANDLE_POSIX_FD && fcntl((int)(intptr_t)os_handle, F_GETFD) >= 0);
	if (add(HANDLE, next_handle, GRANULARITY) == NULL)
		return P2S_CU_ERROR_OUT_OF_MEMORY;
	*handle = next_handle++;
	return P2S_CU_SUCCESS;
}

void played_fill(struct p2s_cuda *cu)
{
	memset(cu, 0, sizeof *cu);
#define P2S_CU_SYM(name, args, feature) cu->name = name;
#include "helper/cuda_syms.def"
#undef P2S_CU_SYM
}
