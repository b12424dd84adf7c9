/* Driver API: plain allocations, pinned host memory, pointers, legacy IPC. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/api.h"
#include "sim/fault.h"
#include "sim/map.h"

#define BLOCK (UINT64_C(2) << 20) /* large allocations start at 2 MiB, as with the driver */
#define IPC_MAGIC UINT64_C(0x3176637069737032)
#define IPC_LAZY_PEER 1

struct ipc_record {
	uint64_t magic;
	uint64_t run;
	uint32_t generation;
	int32_t object;
	uint64_t offset;
	uint64_t bytes;
	uint32_t pid;
	uint32_t unused;
	uint64_t unused2[2];
};

_Static_assert(sizeof(struct ipc_record) == sizeof(struct cu_ipc_handle), "an IPC handle is 64 bytes");

static CUresult alloc_on(struct sim_context *ctx, size_t bytes, CUdeviceptr *ptr)
{
	struct sim_host *h = sim_host();
	uint64_t align = bytes >= BLOCK ? BLOCK : SIM_CHUNK;
	struct sim_map m = { .bytes = bytes, .kind = SIM_KIND_PLAIN, .owner = ctx->gpu };

	m.object = sim_object_new(h, ctx->gpu, bytes, align);
	if (m.object < 0)
		return CU_OUT_OF_MEMORY;
	m.generation = h->shared->objects[m.object].generation;
	m.at = sim_map_range(ctx->gpu, SIM_KIND_PLAIN, bytes, align);
	if (!sim_map_add(&m)) {
		sim_object_drop(h, m.object);
		return CU_OUT_OF_MEMORY;
	}
	*ptr = m.at;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!ptr || !bytes || bytes > (UINT64_C(1) << 42))
		return CU_INVALID_VALUE;
	sim_context_wait(ctx);
	return alloc_on(ctx, bytes, ptr);
}

P2S_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_map m;

	if (rc)
		return rc;
	if (!ptr)
		return CU_OK;
	sim_context_wait(ctx);
	if (!sim_map_remove(ptr, 1u << SIM_KIND_PLAIN, &m))
		return CU_INVALID_VALUE;
	sim_object_drop(sim_host(), m.object);
	return CU_OK;
}

P2S_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!free_bytes || !total)
		return CU_INVALID_VALUE;
	*free_bytes = sim_object_free_bytes(sim_host(), ctx->gpu);
	*total = (size_t)sim_host()->config.gpus[ctx->gpu].memory_bytes;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!p || !bytes || flags > 15)
		return CU_INVALID_VALUE;
	return sim_map_host_add(p, bytes, 0) ? CU_OK : CU_HOST_ALREADY;
}

P2S_EXPORT CUresult cuMemHostUnregister(void *p)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	uint64_t bytes;

	if (rc)
		return rc;
	return sim_map_host_remove(p, 0, &bytes) ? CU_OK : CU_HOST_NOT;
}

P2S_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	uint64_t left;

	if (rc)
		return rc;
	if (!out || flags || !sim_map_host_find(p, &left))
		return CU_INVALID_VALUE;
	*out = (CUdeviceptr)(uintptr_t)p;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	void *p;

	if (rc)
		return rc;
	if (!out || !bytes || flags > 7)
		return CU_INVALID_VALUE;
	sim_context_wait(ctx);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	if (!sim_map_host_add(p, bytes, 1)) {
		munmap(p, bytes);
		return CU_OUT_OF_MEMORY;
	}
	*out = p;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemFreeHost(void *p)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	uint64_t bytes;

	if (rc)
		return rc;
	sim_context_wait(ctx);
	if (!sim_map_host_remove(p, 1, &bytes))
		return CU_INVALID_VALUE;
	munmap(p, bytes);
	return CU_OK;
}

P2S_EXPORT CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	SIM_ENTER();
	struct sim_map m = { 0 };
	uint64_t left = 0;
	int device;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!data)
		return CU_INVALID_VALUE;
	device = sim_map_is_device(ptr) && sim_map_find(ptr, &m) && m.object >= 0;
	if (!device && (sim_map_is_device(ptr) || !sim_map_host_find((const void *)(uintptr_t)ptr, &left)))
		return CU_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_MEMORY_TYPE:
		*(unsigned *)data = device ? CU_MEMORY_DEVICE : CU_MEMORY_HOST;
		return CU_OK;
	case CU_POINTER_DEVICE:
		*(CUdeviceptr *)data = ptr;
		return CU_OK;
	case CU_POINTER_MANAGED:
		*(unsigned *)data = 0;
		return CU_OK;
	case CU_POINTER_MAPPED:
		*(int *)data = 1;
		return CU_OK;
	default:
		break;
	}
	if (!device)
		return CU_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_CONTEXT:
		*(CUcontext *)data = sim_context_of(m.owner);
		return CU_OK;
	case CU_POINTER_ORDINAL:
		*(int *)data = sim_gpu_device(m.owner);
		return CU_OK;
	case CU_POINTER_BUFFER_ID:
		*(unsigned long long *)data = (unsigned long long)m.object << 32 | m.generation;
		return CU_OK;
	case CU_POINTER_IPC:
		*(int *)data = m.kind == SIM_KIND_PLAIN;
		return CU_OK;
	case CU_POINTER_RANGE_START:
		*(CUdeviceptr *)data = m.at;
		return CU_OK;
	case CU_POINTER_RANGE_SIZE:
		*(size_t *)data = m.bytes;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

P2S_EXPORT CUresult cuIpcGetMemHandle(struct cu_ipc_handle *out, CUdeviceptr ptr)
{
	SIM_ENTER();
	struct sim_host *h = sim_host();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct ipc_record record = { .magic = IPC_MAGIC };
	struct sim_transfer t = { SIM_ANY, 0, SIM_OP_EXPORT, SIM_MAP_IPC, 0, 0, NULL };
	struct sim_map m;

	if (rc)
		return rc;
	if (!out || !sim_map_find(ptr, &m) || m.kind != SIM_KIND_PLAIN)
		return CU_INVALID_VALUE;
	if (!h->config.gpus[m.owner].ipc)
		return CU_NOT_SUPPORTED;
	t.dst = m.owner;
	rc = sim_fault_call(h, &t);
	if (rc)
		return rc;
	record.run = h->shared->run;
	record.object = m.object;
	record.generation = m.generation;
	record.bytes = m.bytes;
	record.pid = (uint32_t)getpid();
	/* As with the driver, the handle names the whole allocation, whatever pointer inside it was given. */
	memcpy(out->reserved, &record, sizeof(record));
	return CU_OK;
}

static CUresult open_record(struct sim_context *ctx, const struct ipc_record *r, CUdeviceptr *out)
{
	struct sim_host *h = sim_host();
	struct sim_transfer t = { ctx->gpu, 0, SIM_OP_OPEN, SIM_MAP_IPC, 0, 0, NULL };
	struct sim_map m = { .bytes = r->bytes, .kind = SIM_KIND_IPC, .object = r->object, .generation = r->generation,
		             .access = UINT64_C(1) << ctx->gpu };
	CUresult rc;

	if (!sim_object_hold(h, r->object, r->generation))
		return CU_INVALID_VALUE;
	m.owner = t.dst = h->shared->objects[r->object].gpu;
	rc = m.owner == ctx->gpu || h->config.links[ctx->gpu][m.owner].can_access ? CU_OK : CU_PEER_UNSUPPORTED;
	if (!rc)
		rc = sim_fault_call(h, &t);
	if (!rc) {
		m.at = sim_map_range(m.owner, SIM_KIND_IPC, m.bytes, BLOCK);
		rc = sim_map_add(&m) ? CU_OK : CU_OUT_OF_MEMORY;
	}
	if (rc)
		sim_object_drop(h, r->object);
	else
		*out = m.at;
	return rc;
}

P2S_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, struct cu_ipc_handle handle, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct ipc_record r;
	struct sim_host *h = sim_host();

	if (rc)
		return rc;
	memcpy(&r, handle.reserved, sizeof(r));
	if (!out || flags != IPC_LAZY_PEER || r.magic != IPC_MAGIC || r.run != h->shared->run || r.object < 0 ||
	    r.object >= SIM_OBJECTS)
		return CU_INVALID_VALUE;
	/* A process cannot open a handle of its own. */
	if (r.pid == (uint32_t)getpid())
		return CU_INVALID_CONTEXT;
	return open_record(ctx, &r, out);
}

P2S_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_map m;

	if (rc)
		return rc;
	if (!sim_map_remove(ptr, 1u << SIM_KIND_IPC, &m))
		return CU_INVALID_VALUE;
	sim_object_drop(sim_host(), m.object);
	return CU_OK;
}
