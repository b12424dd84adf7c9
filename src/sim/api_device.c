/* Driver API: start, devices, contexts, peer access. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/api.h"
#include "sim/context.h"
#include "sim/fault.h"
#include "sim/lock.h"

static int started;
static int visible[P2S_MAX_GPUS];
static int visible_count;
static struct sim_context contexts[P2S_MAX_GPUS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static __thread struct sim_context *current;

/* Ordinals before the mask: PCI order, or the most SMs first (the driver's default). */
static void device_order(const struct sim_config *c, int *order)
{
	const char *text = getenv("CUDA_DEVICE_ORDER");
	int i, j;

	for (i = 0; i < c->gpu_count; i++)
		order[i] = i;
	if (text && !strcmp(text, "PCI_BUS_ID"))
		return;
	for (i = 1; i < c->gpu_count; i++) {
		int gpu = order[i];

		for (j = i; j > 0 && c->gpus[order[j - 1]].sm_count < c->gpus[gpu].sm_count; j--)
			order[j] = order[j - 1];
		order[j] = gpu;
	}
}

static int is_uuid(const char *word)
{
	return !strncmp(word, "GPU-", 4);
}

/* GPU of one word of CUDA_VISIBLE_DEVICES: an unambiguous beginning of a UUID as it is printed, or a number, behind which
 * anything may follow. -1: none. */
static int named_gpu(const struct sim_config *c, const int *order, const char *word)
{
	size_t length = strlen(word);
	int i, found = -1;
	char *end;
	long n;

	if (is_uuid(word)) {
		while (word[length - 1] == ' ')
			length--;
		for (i = 0; i < c->gpu_count; i++) {
			if (strncmp(c->gpus[i].uuid, word, length) != 0)
				continue;
			if (found >= 0)
				return -1;
			found = i;
		}
		return found;
	}
	n = strtol(word, &end, 10);
	return end != word && n >= 0 && n < c->gpu_count ? order[n] : -1;
}

/* The list ends at the first word that names nothing, or in another way than the first; a GPU named twice leaves none. */
static void apply_mask(const struct sim_config *c)
{
	const char *mask = getenv("CUDA_VISIBLE_DEVICES");
	int order[P2S_MAX_GPUS], uuids = mask && is_uuid(mask), i;

	device_order(c, order);
	visible_count = 0;
	if (!mask) {
		for (i = 0; i < c->gpu_count; i++)
			visible[visible_count++] = order[i];
		return;
	}
	while (*mask && visible_count < P2S_MAX_GPUS) {
		char word[64];
		size_t n = strcspn(mask, ",");
		int gpu;

		if (n >= sizeof(word))
			return;
		memcpy(word, mask, n);
		word[n] = 0;
		gpu = is_uuid(word) == uuids ? named_gpu(c, order, word) : -1;
		if (gpu < 0)
			return;
		for (i = 0; i < visible_count; i++) {
			if (visible[i] == gpu) {
				visible_count = 0;
				return;
			}
		}
		visible[visible_count++] = gpu;
		mask += n + (mask[n] == ',');
	}
}

CUresult sim_started(void)
{
	return __atomic_load_n(&started, __ATOMIC_ACQUIRE) ? CU_OK : CU_NOT_INITIALIZED;
}

int sim_device_gpu(CUdevice dev)
{
	return dev >= 0 && dev < visible_count ? visible[dev] : -1;
}

int sim_gpu_device(int gpu)
{
	int i;

	for (i = 0; i < visible_count; i++)
		if (visible[i] == gpu)
			return i;
	return -1;
}

struct sim_context *sim_context_of(int gpu)
{
	return &contexts[gpu];
}

CUresult sim_current(struct sim_context **ctx)
{
	CUresult rc = sim_started();

	if (rc)
		return rc;
	if (!current || !current->retained)
		return CU_INVALID_CONTEXT;
	*ctx = current;
	if (__atomic_load_n(&current->late_error, __ATOMIC_ACQUIRE) &&
	    __atomic_sub_fetch(&current->late_calls, 1, __ATOMIC_ACQ_REL) < 0)
		sim_context_fail(current, current->late_error);
	return sim_context_error(current);
}

int sim_context_error(const struct sim_context *ctx)
{
	const struct sim_host *h = sim_host();
	int error = __atomic_load_n(&ctx->error, __ATOMIC_ACQUIRE), lost = sim_gpu_lost(h, ctx->gpu);

	if (lost || error)
		return lost ? lost : error;
	return h->config.gpus[ctx->gpu].mps ? __atomic_load_n(&h->shared->gpus[ctx->gpu].mps_error, __ATOMIC_ACQUIRE) : 0;
}

int sim_context_gpu(void)
{
	return current && current->retained ? current->gpu : SIM_NOBODY;
}

void sim_context_wait(struct sim_context *ctx)
{
	uint32_t turns = 0;

	while (sim_host()->config.gpus[ctx->gpu].alloc_waits && __atomic_load_n(&ctx->running, __ATOMIC_ACQUIRE))
		sim_relax(&turns);
}

void sim_context_fail_late(struct sim_context *ctx, int error, int64_t calls)
{
	if (__atomic_load_n(&ctx->late_error, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&ctx->late_calls, calls, __ATOMIC_RELAXED);
	__atomic_store_n(&ctx->late_error, error, __ATOMIC_RELEASE);
}

void sim_context_fail(struct sim_context *ctx, int error)
{
	struct sim_host *h = sim_host();
	int none = 0;

	if (h->config.gpus[ctx->gpu].mps)
		__atomic_store_n(&h->shared->gpus[ctx->gpu].mps_error, (int32_t)error, __ATOMIC_RELEASE);
	__atomic_compare_exchange_n(&ctx->error, &none, error, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

P2S_EXPORT int p2psafe_sim_missing(const char *name)
{
	const struct sim_config *c = sim_host_config();
	int i;

	for (i = 0; c && name && i < c->missing_count; i++)
		if (!strcmp(c->missing[i], name))
			return 1;
	return 0;
}

P2S_EXPORT CUresult cuInit(unsigned flags)
{
	SIM_ENTER();
	struct sim_host *h = sim_host();
	CUresult rc = CU_OK;

	if (flags)
		return CU_INVALID_VALUE;
	if (!h)
		return CU_UNKNOWN;
	if (h->config.init_error)
		return (CUresult)h->config.init_error;
	pthread_mutex_lock(&guard);
	if (!started) {
		apply_mask(&h->config);
		if (!visible_count)
			rc = CU_NO_DEVICE;
		else
			__atomic_store_n(&started, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&guard);
	return rc;
}

P2S_EXPORT CUresult cuDriverGetVersion(int *version)
{
	SIM_ENTER();
	const struct sim_config *c = sim_host_config();

	if (!version)
		return CU_INVALID_VALUE;
	if (!c)
		return CU_UNKNOWN;
	*version = (int)c->driver_api;
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGetCount(int *count)
{
	SIM_ENTER();
	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!count)
		return CU_INVALID_VALUE;
	*count = visible_count;
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
	SIM_ENTER();
	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!dev)
		return CU_INVALID_VALUE;
	if (sim_device_gpu(ordinal) < 0)
		return CU_INVALID_DEVICE;
	*dev = ordinal;
	return CU_OK;
}

/* The GPU of a device for calls that only ask. */
static CUresult asked(const void *out, CUdevice dev, const struct sim_gpu **gpu)
{
	int i = sim_device_gpu(dev);

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!out)
		return CU_INVALID_VALUE;
	if (i < 0)
		return CU_INVALID_DEVICE;
	*gpu = &sim_host()->config.gpus[i];
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(name, dev, &g);

	if (rc)
		return rc;
	if (len <= 0)
		return CU_INVALID_VALUE;
	snprintf(name, (size_t)len, "%s", g->name);
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGetUuid_v2(struct cu_uuid *uuid, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(uuid, dev, &g);

	if (!rc)
		memcpy(uuid->bytes, g->uuid_bytes, sizeof(uuid->bytes));
	return rc;
}

P2S_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(text, dev, &g);
	char upper[P2S_BDF_TEXT];
	int i;

	if (rc)
		return rc;
	/* The driver prints upper case. */
	for (i = 0; i < P2S_BDF_TEXT; i++)
		upper[i] = (char)toupper((unsigned char)g->address[i]);
	if (len <= (int)strlen(upper))
		return CU_INVALID_VALUE;
	memcpy(text, upper, strlen(upper) + 1);
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *text)
{
	SIM_ENTER();
	int gpu;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!dev || !text)
		return CU_INVALID_VALUE;
	gpu = sim_config_gpu(&sim_host()->config, text);
	if (gpu < 0 || sim_gpu_device(gpu) < 0)
		return CU_INVALID_DEVICE;
	*dev = sim_gpu_device(gpu);
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(bytes, dev, &g);

	if (!rc)
		*bytes = (size_t)g->memory_bytes;
	return rc;
}

P2S_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(value, dev, &g);

	if (rc)
		return rc;
	switch (attribute) {
	case CU_ATTR_MAX_THREADS:
		*value = 1024;
		return CU_OK;
	case CU_ATTR_SM_COUNT:
		*value = (int)g->sm_count;
		return CU_OK;
	case CU_ATTR_INTEGRATED:
		*value = (int)g->integrated;
		return CU_OK;
	case CU_ATTR_HOST_NUMA_ID:
		*value = (int)g->host_numa_id;
		return CU_OK;
	case CU_ATTR_COMPUTE_MODE:
		*value = (int)g->compute_mode;
		return CU_OK;
	case CU_ATTR_PCI_BUS:
		*value = (int)g->bdf.bus;
		return CU_OK;
	case CU_ATTR_PCI_DEVICE:
		*value = (int)g->bdf.device;
		return CU_OK;
	case CU_ATTR_PCI_DOMAIN:
		*value = (int)g->bdf.domain;
		return CU_OK;
	case CU_ATTR_COPY_ENGINES:
		*value = 3;
		return CU_OK;
	case CU_ATTR_CC_MAJOR:
		*value = (int)g->cc_major;
		return CU_OK;
	case CU_ATTR_CC_MINOR:
		*value = (int)g->cc_minor;
		return CU_OK;
	case CU_ATTR_POSIX_FD:
		*value = (int)g->cumem_fd;
		return CU_OK;
	case CU_ATTR_GDR_VMM:
	case CU_ATTR_GDR:
		*value = (int)g->gdr;
		return CU_OK;
	case CU_ATTR_MAP_HOST:
	case CU_ATTR_CONCURRENT_KERNELS:
	case CU_ATTR_ECC:
	case CU_ATTR_UNIFIED:
	case CU_ATTR_HOST_POINTER:
	case CU_ATTR_HOST_REGISTER:
	case CU_ATTR_VMM:
		*value = 1;
		return CU_OK;
	case CU_ATTR_HOST_ATOMICS:
		*value = 0;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

P2S_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
	SIM_ENTER();
	const struct sim_gpu *g;
	CUresult rc = asked(out, dev, &g);
	struct sim_context *ctx;
	int gpu = sim_device_gpu(dev);

	if (rc)
		return rc;
	if (g->init_error)
		return (CUresult)g->init_error;
	if (sim_gpu_lost(sim_host(), gpu))
		return (CUresult)sim_gpu_lost(sim_host(), gpu);
	if (g->compute_mode == 2 || !sim_gpu_enter(sim_host(), gpu, g->compute_mode == 3 && !g->mps))
		return CU_DEVICE_UNAVAILABLE;
	pthread_mutex_lock(&guard);
	ctx = &contexts[gpu];
	if (!ctx->retained) {
		ctx->gpu = gpu;
		ctx->error = 0;
		ctx->late_error = 0;
		ctx->peers = 0;
	}
	ctx->retained++;
	pthread_mutex_unlock(&guard);
	*out = ctx;
	return CU_OK;
}

P2S_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	SIM_ENTER();
	int gpu = sim_device_gpu(dev), last;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (gpu < 0)
		return CU_INVALID_DEVICE;
	pthread_mutex_lock(&guard);
	if (!contexts[gpu].retained) {
		pthread_mutex_unlock(&guard);
		return CU_INVALID_CONTEXT;
	}
	last = !--contexts[gpu].retained;
	pthread_mutex_unlock(&guard);
	if (last)
		sim_gpu_leave(sim_host(), gpu);
	return CU_OK;
}

P2S_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	SIM_ENTER();
	int gpu = sim_device_gpu(dev);

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (gpu < 0)
		return CU_INVALID_DEVICE;
	contexts[gpu].flags = flags;
	return CU_OK;
}

P2S_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	SIM_ENTER();
	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (ctx && (ctx < contexts || ctx >= contexts + P2S_MAX_GPUS || !ctx->retained))
		return CU_INVALID_CONTEXT;
	current = ctx;
	return CU_OK;
}

P2S_EXPORT CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	SIM_ENTER();
	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!ctx)
		return CU_INVALID_VALUE;
	*ctx = current;
	return CU_OK;
}

P2S_EXPORT CUresult cuCtxGetDevice(CUdevice *dev)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!dev)
		return CU_INVALID_VALUE;
	*dev = sim_gpu_device(ctx->gpu);
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	SIM_ENTER();
	int a = sim_device_gpu(dev), b = sim_device_gpu(peer);

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!can)
		return CU_INVALID_VALUE;
	if (a < 0 || b < 0)
		return CU_INVALID_DEVICE;
	*can = a != b && sim_host()->config.links[a][b].can_access;
	return CU_OK;
}

P2S_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice src, CUdevice dst)
{
	SIM_ENTER();
	int a = sim_device_gpu(src), b = sim_device_gpu(dst);
	const struct sim_link *l;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!value)
		return CU_INVALID_VALUE;
	if (a < 0 || b < 0 || a == b)
		return CU_INVALID_DEVICE;
	l = &sim_host()->config.links[a][b];
	switch (attribute) {
	case CU_P2P_RANK:
		*value = l->nvlink ? 0 : 1;
		return CU_OK;
	case CU_P2P_ACCESS:
	case CU_P2P_ARRAYS:
		*value = (int)l->can_access;
		return CU_OK;
	case CU_P2P_ATOMICS:
		*value = l->can_access && l->native_atomics;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

P2S_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_transfer t = { 0, 0, SIM_OP_ENABLE, SIM_MAP_PEER, 0, 0, NULL };

	if (rc)
		return rc;
	if (flags)
		return CU_INVALID_VALUE;
	if (!peer || peer < contexts || peer >= contexts + P2S_MAX_GPUS || !peer->retained)
		return CU_INVALID_CONTEXT;
	if (peer == ctx)
		return CU_INVALID_DEVICE;
	if (!sim_host()->config.links[ctx->gpu][peer->gpu].can_access)
		return CU_PEER_UNSUPPORTED;
	if (ctx->peers >> peer->gpu & 1)
		return CU_PEER_ALREADY;
	t.src = ctx->gpu;
	t.dst = peer->gpu;
	rc = sim_fault_call(sim_host(), &t);
	if (!rc)
		__atomic_or_fetch(&ctx->peers, UINT64_C(1) << peer->gpu, __ATOMIC_RELEASE);
	return rc;
}

P2S_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!peer || peer < contexts || peer >= contexts + P2S_MAX_GPUS)
		return CU_INVALID_CONTEXT;
	if (!(ctx->peers >> peer->gpu & 1))
		return CU_PEER_NOT_ENABLED;
	__atomic_and_fetch(&ctx->peers, ~(UINT64_C(1) << peer->gpu), __ATOMIC_RELEASE);
	return CU_OK;
}
