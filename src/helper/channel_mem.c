/* Operations on buffers: make, hand out, take in, free. */
#define _GNU_SOURCE
#include "helper/channel.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bdf.h"
#include "helper/near.h"

/* cuMemAlloc serves small requests from shared blocks; whole blocks make an IPC handle cover exactly one buffer. */
#define PLAIN_BYTES (UINT64_C(2) << 20)

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* As NCCL allocates: pinned device memory, exportable as a file descriptor, readable by a NIC where the device can. */
static struct p2s_cuprop properties(const struct p2s_channel *c)
{
	struct p2s_cuprop p;

	memset(&p, 0, sizeof p);
	p.type = P2S_CU_ALLOC_PINNED;
	p.requested_handle_types = P2S_CU_HANDLE_POSIX_FD;
	p.location.type = P2S_CU_LOCATION_DEVICE;
	p.location.id = c->dev;
	p.alloc_flags.gpu_direct_rdma_capable = c->gdr != 0;
	return p;
}

/* Reserves an address range, maps the handle there and gives this GPU access. On failure all is undone. */
static int map(struct p2s_channel *c, struct p2s_op_answer *a, struct p2s_buffer *b, uint64_t granularity)
{
	const struct p2s_cuda *cu = &c->worker->cu;
	struct p2s_cuaccess access = {.location = {P2S_CU_LOCATION_DEVICE, c->dev}, .flags = P2S_CU_ACCESS_READWRITE};

	if (!P2S_CU(c, a, cuMemAddressReserve, &b->ptr, b->bytes, granularity, 0, 0))
		return 0;
	if (P2S_CU(c, a, cuMemMap, b->ptr, b->bytes, 0, b->handle, 0)) {
		if (P2S_CU(c, a, cuMemSetAccess, b->ptr, b->bytes, &access, 1))
			return 1;
		cu->cuMemUnmap(b->ptr, b->bytes);
	}
	cu->cuMemAddressFree(b->ptr, b->bytes);
	return 0;
}

static int alloc_cumem(struct p2s_channel *c, struct p2s_op_answer *a, struct p2s_buffer *b, uint64_t len)
{
	struct p2s_cuprop prop = properties(c);
	size_t granularity = 0;

	if (!c->cumem)
		return p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuMemCreate");
	if (!P2S_CU(c, a, cuMemGetAllocationGranularity, &granularity, &prop, P2S_CU_GRANULARITY_RECOMMENDED))
		return 0;
	if (granularity == 0)
		granularity = PLAIN_BYTES;
	b->bytes = round_up(len, granularity);
	if (!P2S_CU(c, a, cuMemCreate, &b->handle, b->bytes, &prop, 0))
		return 0;
	if (map(c, a, b, granularity))
		return 1;
	c->worker->cu.cuMemRelease(b->handle);
	return 0;
}

void p2s_op_alloc(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b;
	int32_t kind;
	int got;

	if (q->len == 0 || q->len > UINT64_C(1) << 46 || (q->mode != P2S_ALLOC_PLAIN && q->mode != P2S_ALLOC_CUMEM)) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "ALLOC");
		return;
	}
	b = p2s_buffers_new(&c->worker->buffers, q->buf, c->index);
	if (b == NULL) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "buffer");
		return;
	}
	if (q->mode == P2S_ALLOC_CUMEM) {
		kind = P2S_BUFFER_CUMEM;
		got = alloc_cumem(c, a, b, q->len);
	} else {
		kind = P2S_BUFFER_PLAIN;
		b->bytes = round_up(q->len, PLAIN_BYTES);
		got = P2S_CU(c, a, cuMemAlloc_v2, &b->ptr, b->bytes);
	}
	a->value = got ? b->bytes : 0;
	p2s_buffers_finish(&c->worker->buffers, b, got ? kind : P2S_BUFFER_FREE);
}

void p2s_op_export(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b = p2s_buffers_pin(&c->worker->buffers, q->buf);
	struct p2s_cuipc ipc;

	if (b == NULL || b->channel != c->index) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "buffer");
	} else if (q->mode == P2PSAFE_MAPPING_IPC && b->kind == P2S_BUFFER_PLAIN) {
		if (c->worker->cu.missing & P2S_FEATURE_IPC) {
			p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuIpcGetMemHandle");
		} else if (P2S_CU(c, a, cuIpcGetMemHandle, &ipc, b->ptr)) {
			memcpy(a->handle, ipc.reserved, sizeof ipc.reserved);
			a->handle_len = sizeof ipc.reserved;
		}
	} else if (q->mode == P2PSAFE_MAPPING_CUMEM && b->kind == P2S_BUFFER_CUMEM) {
		int fd = -1;

		if (P2S_CU(c, a, cuMemExportToShareableHandle, &fd, b->handle, P2S_CU_HANDLE_POSIX_FD, 0))
			call->fd_out = fd;
	} else {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "EXPORT");
	}
	p2s_buffers_unpin(&c->worker->buffers, b);
}

static int import_ipc(struct p2s_channel *c, struct p2s_op_answer *a, struct p2s_buffer *b, const struct p2s_op_request *q)
{
	struct p2s_cuipc ipc;

	if (c->worker->cu.missing & P2S_FEATURE_IPC)
		return p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuIpcOpenMemHandle");
	if (q->handle_len != sizeof ipc.reserved)
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "handle");
	memcpy(ipc.reserved, q->handle, sizeof ipc.reserved);
	return P2S_CU(c, a, cuIpcOpenMemHandle_v2, &b->ptr, ipc, P2S_CU_IPC_LAZY_PEER_ACCESS);
}

static int import_cumem(struct p2s_channel *c, struct p2s_op_answer *a, struct p2s_buffer *b, int fd)
{
	struct p2s_cuprop prop = properties(c);
	size_t granularity = 0;

	if (!c->cumem)
		return p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuMemImportFromShareableHandle");
	if (fd < 0)
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "handle");
	if (!P2S_CU(c, a, cuMemGetAllocationGranularity, &granularity, &prop, P2S_CU_GRANULARITY_RECOMMENDED) ||
		!P2S_CU(c, a, cuMemImportFromShareableHandle, &b->handle, (void *)(intptr_t)fd, P2S_CU_HANDLE_POSIX_FD))
		return 0;
	if (map(c, a, b, granularity))
		return 1;
	c->worker->cu.cuMemRelease(b->handle);
	return 0;
}

void p2s_op_import(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b;
	int32_t kind;
	int got;

	if (q->len == 0 || (q->mode != P2PSAFE_MAPPING_IPC && q->mode != P2PSAFE_MAPPING_CUMEM)) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "IMPORT");
		return;
	}
	b = p2s_buffers_new(&c->worker->buffers, q->buf, c->index);
	if (b == NULL) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "buffer");
		return;
	}
	b->bytes = q->len;
	if (q->mode == P2PSAFE_MAPPING_IPC) {
		kind = P2S_BUFFER_IMPORT_IPC;
		got = import_ipc(c, a, b, q);
	} else {
		kind = P2S_BUFFER_IMPORT_CUMEM;
		got = import_cumem(c, a, b, call->fd_in);
	}
	a->value = got ? b->bytes : 0;
	p2s_buffers_finish(&c->worker->buffers, b, got ? kind : P2S_BUFFER_FREE);
}

void p2s_op_peer_enable(struct p2s_channel *c, struct p2s_call *call)
{
	struct p2s_worker *w = c->worker;
	struct p2s_op_answer *a = call->a;
	struct p2psafe_bdf want;
	struct p2psafe_bdf have;
	p2s_curesult r;

	if (w->cu.missing & P2S_FEATURE_PEER) {
		p2s_channel_refuse(a, P2S_RC_UNSUPPORTED, "cuCtxEnablePeerAccess");
		return;
	}
	if (!p2s_bdf_parse(call->q->text, &want)) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "address");
		return;
	}
	for (int32_t i = 0; i < w->count; i++) {
		const struct p2s_channel *o = &w->channel[i];

		/* ready was set before that channel's INIT was answered, and the conductor asks only after that */
		if (i == c->index || !o->ready || !p2s_bdf_parse(o->address, &have) || p2s_bdf_compare(&have, &want) != 0)
			continue;
		r = w->cu.cuCtxEnablePeerAccess(o->ctx, 0);
		/* Only we enable it here: a driver that says so before is wrong, and copies without access are staged unseen. */
		if ((r == P2S_CU_ERROR_PEER_ACCESS_ALREADY_ENABLED && (c->enabled >> i & 1) != 0) ||
			p2s_channel_ok(c, a, r, "cuCtxEnablePeerAccess"))
			c->enabled |= UINT64_C(1) << i;
		return;
	}
	p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "PEER_ENABLE");
}

void p2s_op_can_access(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_cuda *cu = &c->worker->cu;
	struct p2s_op_answer *a = call->a;
	p2s_cudevice owner = -1;
	int can = 0;
	int value = 0;

	if (!p2s_channel_device(c, a, call->q->text, &owner) || !P2S_CU(c, a, cuDeviceCanAccessPeer, &can, c->dev, owner))
		return;
	a->value = can != 0;
	if (cu->missing & P2S_FEATURE_ATOMICS)
		return;
	if (cu->cuDeviceGetP2PAttribute(&value, P2S_CU_P2P_ACCESS, c->dev, owner) == P2S_CU_SUCCESS && value)
		a->value |= 2;
	value = 0;
	if (cu->cuDeviceGetP2PAttribute(&value, P2S_CU_P2P_NATIVE_ATOMIC, c->dev, owner) == P2S_CU_SUCCESS)
		a->value |= value ? 4 | 8 : 8;
}

static int free_buffer(struct p2s_channel *c, struct p2s_op_answer *a, const struct p2s_buffer *b, int32_t kind)
{
	int ok;

	switch (kind) {
	case P2S_BUFFER_PLAIN:
		return P2S_CU(c, a, cuMemFree_v2, b->ptr);
	case P2S_BUFFER_IMPORT_IPC:
		return P2S_CU(c, a, cuIpcCloseMemHandle, b->ptr);
	case P2S_BUFFER_CUMEM:
	case P2S_BUFFER_IMPORT_CUMEM:
		/* each is tried whatever the one before says: an error can be of earlier work, and the call done all the same */
		ok = P2S_CU(c, a, cuMemUnmap, b->ptr, b->bytes);
		ok = P2S_CU(c, a, cuMemAddressFree, b->ptr, b->bytes) && ok;
		return P2S_CU(c, a, cuMemRelease, b->handle) && ok;
	default:
		ok = P2S_CU(c, a, cuMemHostUnregister, b->host);
		munmap(b->host, b->bytes);
		return ok;
	}
}

static int release(struct p2s_channel *c, struct p2s_op_answer *a, uint32_t id)
{
	int32_t kind = P2S_BUFFER_FREE;
	struct p2s_buffer *b = p2s_buffers_claim(&c->worker->buffers, id, c->index, &kind);
	int ok;

	if (b == NULL)
		return p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "buffer");
	ok = free_buffer(c, a, b, kind);
	/* Freed or lost: the id is gone either way, so that nothing can touch the address again. */
	p2s_buffers_finish(&c->worker->buffers, b, P2S_BUFFER_FREE);
	return ok;
}

void p2s_op_release(struct p2s_channel *c, struct p2s_call *call)
{
	release(c, call->a, call->q->buf);
}

void p2s_channel_release_all(struct p2s_channel *c, struct p2s_op_answer *a)
{
	uint32_t id;

	while ((id = p2s_buffers_any(&c->worker->buffers, c->index)) != 0)
		release(c, a, id);
}

void p2s_op_host_map(struct p2s_channel *c, struct p2s_call *call)
{
	const struct p2s_op_request *q = call->q;
	struct p2s_op_answer *a = call->a;
	struct p2s_buffer *b;
	struct stat st;
	int got = 0;

	if (q->len == 0 || call->fd_in < 0 || fstat(call->fd_in, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size < q->len) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "HOST_MAP");
		return;
	}
	b = p2s_buffers_new(&c->worker->buffers, q->buf, c->index);
	if (b == NULL) {
		p2s_channel_refuse(a, P2S_RC_BAD_REQUEST, "buffer");
		return;
	}
	b->bytes = q->len;
	b->host = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, call->fd_in, 0);
	if (b->host == MAP_FAILED) {
		p2s_channel_refuse(a, P2S_RC_ERROR, "mmap");
	} else {
		/* Pages belong near the GPU that maps them first: those that exist already stay where they are. */
		(void)p2s_near_place(c->numa_node, b->host, b->bytes);
		got = P2S_CU(c, a, cuMemHostRegister_v2, b->host, b->bytes,
					 P2S_CU_HOST_REGISTER_PORTABLE | P2S_CU_HOST_REGISTER_DEVICEMAP);
		if (!got)
			munmap(b->host, b->bytes);
	}
	a->value = got ? b->bytes : 0;
	p2s_buffers_finish(&c->worker->buffers, b, got ? P2S_BUFFER_HOST : P2S_BUFFER_FREE);
}

void p2s_op_mem_info(struct p2s_channel *c, struct p2s_call *call)
{
	size_t free_bytes = 0;
	size_t total = 0;

	if (P2S_CU(c, call->a, cuMemGetInfo_v2, &free_bytes, &total))
		call->a->value = free_bytes;
}

void p2s_op_quit(struct p2s_channel *c, struct p2s_call *call)
{
	/* After an error or with a stuck engine the driver may never return: the end of the process frees everything. */
	if (c->ready && c->sticky == 0 && !c->stuck)
		p2s_channel_release_all(c, call->a);
}
