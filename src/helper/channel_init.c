/* INIT: everything that could block behind a waiting kernel (contexts, memory, modules, first launches) happens here. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/bdf.h"
#include "helper/near.h"

#define FLOOR_WHERE "cuDriverGetVersion"

/* Loads the driver and calls cuInit, once per process. */
static int load(struct p2s_worker *w, struct p2s_op_answer *a)
{
	pthread_mutex_lock(&w->once);
	if (w->loaded == 0) {
		uint64_t start = p2s_now_ns();

		w->loaded = -1;
		if (!p2s_cuda_load(&w->cu, w->cuda_library)) {
			snprintf(w->init_where, sizeof w->init_where, "%s", w->cu.error[0] != '\0' ? "dlopen" : w->cu.missing_required);
		} else {
			w->init_error = w->cu.cuInit(0);
			snprintf(w->init_where, sizeof w->init_where, "%s", "cuInit");
			if (w->init_error == P2S_CU_SUCCESS) {
				w->init_error = w->cu.cuDriverGetVersion(&w->version);
				snprintf(w->init_where, sizeof w->init_where, "%s", FLOOR_WHERE);
				if (w->init_error == P2S_CU_SUCCESS && w->version >= P2S_CU_API_FLOOR)
					w->loaded = 1;
			}
		}
		w->init_ns = p2s_now_ns() - start;
	}
	pthread_mutex_unlock(&w->once);
	if (w->loaded == 1)
		return 1;
	/* rc UNSUPPORTED: no library ("dlopen"), a missing symbol (its name), an API below the floor (value: the version).
	 * rc ERROR: what cuInit said. */
	a->rc = w->init_error != P2S_CU_SUCCESS ? P2S_RC_ERROR : P2S_RC_UNSUPPORTED;
	a->cuda_error = w->init_error;
	a->value = (uint64_t)(w->version > 0 ? w->version : 0);
	snprintf(a->where, sizeof a->where, "%s", w->init_where);
	return 0;
}

int p2s_channel_device(struct p2s_channel *c, struct p2s_op_answer *a, const char *address, p2s_cudevice *dev)
{
	struct p2psafe_bdf want;
	int count = 0;

	if (!p2s_bdf_parse(address, &want))
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "address");
	if (!P2S_CU(c, a, cuDeviceGetCount, &count))
		return 0;
	/* Ordinals move with masks and order settings; the address does not. */
	for (int i = 0; i < count; i++) {
		struct p2psafe_bdf have;
		p2s_cudevice d = -1;
		char text[32] = "";

		if (!P2S_CU(c, a, cuDeviceGet, &d, i) || !P2S_CU(c, a, cuDeviceGetPCIBusId, text, (int)sizeof text, d))
			return 0;
		if (p2s_bdf_parse(text, &have) && p2s_bdf_compare(&have, &want) == 0) {
			*dev = d;
			return 1;
		}
	}
	a->rc = P2S_RC_ERROR;
	a->cuda_error = P2S_CU_ERROR_INVALID_DEVICE;
	snprintf(a->where, sizeof a->where, "cuDeviceGetPCIBusId");
	return 0;
}

static int attribute(struct p2s_channel *c, p2s_cudevice dev, int32_t which)
{
	int value = 0;

	return c->worker->cu.cuDeviceGetAttribute(&value, which, dev) == P2S_CU_SUCCESS ? value : 0;
}

/* Handles as file descriptors: 1, 0 not offered, -1 not known: what cannot be read is no refusal, which others would get, too. */
static int32_t handles_as_fd(const struct p2s_channel *c)
{
	static const int32_t needed[] = {P2S_CU_ATTR_VMM, P2S_CU_ATTR_POSIX_FD};
	int32_t all = 1;

	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		int value = 0;

		if (c->worker->cu.cuDeviceGetAttribute(&value, needed[i], c->dev) != P2S_CU_SUCCESS)
			return -1;
		all = all && value != 0;
	}
	return all;
}

static void describe(struct p2s_channel *c, struct p2s_op_device *d)
{
	const struct p2s_cuda *cu = &c->worker->cu;
	struct p2s_cuuuid u;
	size_t bytes = 0;
	int node = -1;

	d->cuda_version = c->worker->version;
	d->ordinal = c->dev;
	d->cc_major = attribute(c, c->dev, P2S_CU_ATTR_CC_MAJOR);
	d->cc_minor = attribute(c, c->dev, P2S_CU_ATTR_CC_MINOR);
	d->sm_count = attribute(c, c->dev, P2S_CU_ATTR_MULTIPROCESSOR_COUNT);
	d->compute_mode = attribute(c, c->dev, P2S_CU_ATTR_COMPUTE_MODE);
	d->integrated = attribute(c, c->dev, P2S_CU_ATTR_INTEGRATED);
	d->gdr_capable = attribute(c, c->dev, P2S_CU_ATTR_RDMA_VMM);
	d->cumem_fd = handles_as_fd(c);
	d->missing = cu->missing;
	if (d->missing & P2S_FEATURE_CUMEM)
		d->cumem_fd = 0;
	if (cu->cuDeviceTotalMem_v2(&bytes, c->dev) == P2S_CU_SUCCESS)
		d->memory_bytes = bytes;
	if (cu->cuDeviceGetName(d->name, (int)sizeof d->name - 1, c->dev) != P2S_CU_SUCCESS)
		d->name[0] = '\0';
	if (cu->cuDeviceGetUuid_v2(&u, c->dev) == P2S_CU_SUCCESS) {
		size_t n = (size_t)snprintf(d->uuid, sizeof d->uuid, "GPU-");

		for (size_t i = 0; i < sizeof u.bytes; i++)
			n += (size_t)snprintf(d->uuid + n, sizeof d->uuid - n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
								  (unsigned char)u.bytes[i]);
	}
	snprintf(d->address, sizeof d->address, "%s", c->address);
	c->arch = 10 * d->cc_major + d->cc_minor;
	c->sm_count = d->sm_count > 0 ? d->sm_count : 1;
	c->gdr = d->gdr_capable;
	c->cumem = d->cumem_fd > 0;
	c->numa_node = -1;
	if (cu->cuDeviceGetAttribute(&node, P2S_CU_ATTR_HOST_NUMA_ID, c->dev) == P2S_CU_SUCCESS)
		c->numa_node = node;
	if (c->numa_node < 0 && c->worker->cuda_library == NULL) /* a driver given by name may play another machine */
		c->numa_node = p2s_near_node(c->address);
}

/* Stream, events, pinned block, scratch and the control page as the GPU sees it. */
static int furnish(struct p2s_channel *c, struct p2s_op_answer *a)
{
	struct p2s_check_result *start;
	struct p2s_control *own;
	void *pinned = NULL;

	if (!P2S_CU(c, a, cuStreamCreate, &c->stream, P2S_CU_STREAM_NON_BLOCKING) ||
		!P2S_CU(c, a, cuEventCreate, &c->begin, P2S_CU_EVENT_DEFAULT) ||
		!P2S_CU(c, a, cuEventCreate, &c->end, P2S_CU_EVENT_DEFAULT) ||
		!P2S_CU(c, a, cuMemHostRegister_v2, c->control, P2S_CTL_BYTES,
				P2S_CU_HOST_REGISTER_PORTABLE | P2S_CU_HOST_REGISTER_DEVICEMAP) ||
		!P2S_CU(c, a, cuMemHostGetDevicePointer_v2, &c->control_dev, c->control, 0) ||
		!P2S_CU(c, a, cuMemHostAlloc, &pinned, P2S_SCRATCH_BYTES, P2S_CU_HOST_ALLOC_PORTABLE | P2S_CU_HOST_ALLOC_DEVICEMAP) ||
		!P2S_CU(c, a, cuMemHostGetDevicePointer_v2, &c->pinned_dev, pinned, 0) ||
		!P2S_CU(c, a, cuMemAlloc_v2, &c->scratch, P2S_SCRATCH_BYTES))
		return 0;
	memset(pinned, 0, P2S_SCRATCH_BYTES);
	c->pinned = pinned;
	own = (struct p2s_control *)(void *)(c->pinned + P2S_SCRATCH_CONTROL);
	own->go.word = 1;
	start = (struct p2s_check_result *)(void *)(c->pinned + P2S_SCRATCH_START);
	start->first_bad = ~UINT64_C(0);
	return 1;
}

/* One launch of every kernel that touches nothing: the driver loads code and makes its queues now. */
static int first_launches(struct p2s_channel *c, struct p2s_op_answer *a, uint64_t timeout_ns)
{
	const uint64_t ctl = c->pinned_dev + P2S_SCRATCH_CONTROL;
	const uint64_t words = c->scratch + P2S_SCRATCH_WORDS;
	const uint64_t check = c->scratch + P2S_SCRATCH_CHECK;
	const uint64_t roles = c->scratch + P2S_SCRATCH_ROLES;
	const uint64_t max_ns = UINT64_C(1000000);

	return p2s_channel_launch(c, a, P2S_KERNEL_fill, 1, 32, (uint64_t[]){words, 0, 0, 0}, 4) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_check, 1, 32, (uint64_t[]){words, 0, 0, 0, 0, 0, 0, check}, 8) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_load, 1, 32, (uint64_t[]){words, words, 0, 0, 0}, 5) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_mp, 2, 32,
							  (uint64_t[]){ctl, roles, 0, 0, 0, 0, 0, 1, 64, 8, 0, 0, max_ns, max_ns}, 14) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_tear, 2, 32, (uint64_t[]){ctl, roles, 0, 0, 1, 0, 0, 0, max_ns, max_ns}, 10) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_atomic, 1, 32, (uint64_t[]){ctl, roles, words, 0, 0}, 5) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_wide, 2, 64,
							  (uint64_t[]){ctl, roles, 0, 0, 0, 0, 0, 1, 64, 8, 0, 0, max_ns, max_ns}, 14) &&
		   p2s_channel_launch(c, a, P2S_KERNEL_ll, 2, 32, (uint64_t[]){ctl, roles, 0, 0, 0, 0, 0, 2, 16, 0, 0, max_ns, max_ns},
							  13) &&
		   p2s_channel_wait(c, a, timeout_ns);
}

void p2s_op_init(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_device *d = call->device;
	struct p2s_op_answer *a = call->a;
	struct p2psafe_bdf bdf;
	struct stat st;
	size_t free_bytes = 0;
	size_t total = 0;
	uint64_t t0;
	uint64_t t1;
	void *page;

	if (c->ready || c->control != NULL || call->fd_in < 0 || fstat(call->fd_in, &st) != 0 || st.st_size < P2S_CTL_BYTES) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "INIT");
		return;
	}
	page = mmap(NULL, P2S_CTL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, call->fd_in, 0);
	if (page == MAP_FAILED) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "mmap");
		return;
	}
	c->control = page;
	c->text_only = q->mode == P2S_INIT_TEXT;
	if (!load(c->worker, a) || !p2s_channel_device(c, a, q->text, &c->dev))
		return;
	if (p2s_bdf_parse(q->text, &bdf))
		p2s_bdf_format(&bdf, c->address);
	d->init_ns = c->worker->init_ns;
	t0 = p2s_now_ns();
	if (!P2S_CU(c, a, cuDevicePrimaryCtxRetain, &c->ctx, c->dev) || !P2S_CU(c, a, cuCtxSetCurrent, c->ctx))
		return;
	describe(c, d);
	if (!furnish(c, a))
		return;
	t1 = p2s_now_ns();
	d->context_ns = t1 - t0;
	c->kernels = p2s_channel_module(c, 0, &d->cuda_error, d->jit_log, sizeof d->jit_log);
	if (c->kernels ? !first_launches(c, a, q->timeout_ns) : !p2s_channel_host_init(c, a))
		return;
	d->module = c->kernels;
	d->module_ns = p2s_now_ns() - t1;
	if (!P2S_CU(c, a, cuMemGetInfo_v2, &free_bytes, &total))
		return;
	d->free_bytes = free_bytes;
	c->ready = 1;
	call->has_device = 1;
}
