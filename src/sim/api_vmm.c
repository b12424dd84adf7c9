/* Driver API: virtual memory management with POSIX file descriptors. A descriptor is a memory file with one record that
 * names the allocation, so that it can travel over a socket like the driver's own. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/api.h"
#include "sim/fault.h"
#include "sim/map.h"

#define GRANULARITY (UINT64_C(2) << 20)
#define FD_MAGIC UINT64_C(0x3176646669737032)
#define HANDLES 8192

struct fd_record {
	uint64_t magic;
	uint64_t run;
	int32_t object;
	uint32_t generation;
};

/* A handle of this process: index + 1. It holds the object; mappings hold it too. */
struct handle {
	int used;
	int object;
	uint32_t generation;
	int imported;
	int exportable;
};

static struct handle handles[HANDLES];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static CUmemHandle new_handle(const struct handle *h)
{
	CUmemHandle out = 0;
	size_t i;

	pthread_mutex_lock(&guard);
	for (i = 0; i < HANDLES && !out; i++) {
		if (handles[i].used)
			continue;
		handles[i] = *h;
		handles[i].used = 1;
		out = i + 1;
	}
	pthread_mutex_unlock(&guard);
	return out;
}

static int get_handle(CUmemHandle id, struct handle *out)
{
	int ok;

	pthread_mutex_lock(&guard);
	ok = id > 0 && id <= HANDLES && handles[id - 1].used;
	if (ok)
		*out = handles[id - 1];
	pthread_mutex_unlock(&guard);
	return ok;
}

static int location_gpu(const struct cu_location *l)
{
	return l->type == CU_LOCATION_DEVICE ? sim_device_gpu(l->id) : -1;
}

static CUresult check_prop(const struct cu_alloc_prop *prop, int *gpu)
{
	const struct sim_gpu *g;

	if (!prop || prop->type != CU_ALLOC_PINNED)
		return CU_INVALID_VALUE;
	*gpu = location_gpu(&prop->location);
	if (*gpu < 0)
		return CU_INVALID_DEVICE;
	g = &sim_host()->config.gpus[*gpu];
	if (prop->handle_types & ~CU_HANDLE_FD || (prop->handle_types && !g->cumem_fd))
		return CU_NOT_SUPPORTED;
	return prop->flags.gdr && !g->gdr ? CU_INVALID_VALUE : CU_OK;
}

P2S_EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const struct cu_alloc_prop *prop, int option)
{
	SIM_ENTER();
	CUresult rc = sim_started();
	int gpu;

	if (rc)
		return rc;
	if (!out || (option != 0 && option != 1))
		return CU_INVALID_VALUE;
	rc = check_prop(prop, &gpu);
	if (!rc)
		*out = GRANULARITY;
	return rc;
}

P2S_EXPORT CUresult cuMemCreate(CUmemHandle *out, size_t bytes, const struct cu_alloc_prop *prop, unsigned long long flags)
{
	SIM_ENTER();
	CUresult rc = sim_started();
	struct handle h = { 0 };
	int gpu;

	if (rc)
		return rc;
	if (!out || !bytes || bytes % GRANULARITY || flags)
		return CU_INVALID_VALUE;
	rc = check_prop(prop, &gpu);
	if (rc)
		return rc;
	h.object = sim_object_new(sim_host(), gpu, bytes, GRANULARITY);
	if (h.object < 0)
		return CU_OUT_OF_MEMORY;
	h.generation = sim_host()->shared->objects[h.object].generation;
	h.exportable = prop->handle_types & CU_HANDLE_FD;
	*out = new_handle(&h);
	if (*out)
		return CU_OK;
	sim_object_drop(sim_host(), h.object);
	return CU_OUT_OF_MEMORY;
}

P2S_EXPORT CUresult cuMemRelease(CUmemHandle id)
{
	SIM_ENTER();
	struct handle h;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!get_handle(id, &h))
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&guard);
	handles[id - 1].used = 0;
	pthread_mutex_unlock(&guard);
	sim_object_drop(sim_host(), h.object);
	return CU_OK;
}

P2S_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags)
{
	SIM_ENTER();
	struct sim_map m = { .bytes = bytes, .kind = SIM_KIND_RESERVED, .object = -1 };

	(void)at; /* a hint */
	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!out || !bytes || bytes % GRANULARITY || flags || (align & (align - 1)))
		return CU_INVALID_VALUE;
	m.at = sim_map_range(-1, SIM_KIND_CUMEM, bytes, align > GRANULARITY ? align : GRANULARITY);
	if (!sim_map_add(&m))
		return CU_OUT_OF_MEMORY;
	*out = m.at;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	SIM_ENTER();
	struct sim_map m;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (sim_map_find(ptr, &m) && m.kind != SIM_KIND_RESERVED)
		return CU_INVALID_VALUE; /* still mapped */
	if (!sim_map_remove(ptr, 1u << SIM_KIND_RESERVED, &m))
		return CU_INVALID_VALUE;
	if (m.bytes != bytes) {
		sim_map_add(&m);
		return CU_INVALID_VALUE;
	}
	return CU_OK;
}

P2S_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemHandle id, unsigned long long flags)
{
	SIM_ENTER();
	struct sim_host *host = sim_host();
	struct sim_map room, m = { .at = ptr, .bytes = bytes, .kind = SIM_KIND_CUMEM };
	struct handle h;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (flags || offset || !bytes || !get_handle(id, &h) || bytes > host->shared->objects[h.object].bytes)
		return CU_INVALID_VALUE;
	if (!sim_map_find(ptr, &room) || room.kind != SIM_KIND_RESERVED || room.at + room.bytes < ptr + bytes)
		return CU_INVALID_VALUE;
	if (!sim_object_hold(host, h.object, h.generation))
		return CU_INVALID_VALUE;
	m.object = h.object;
	m.generation = h.generation;
	m.owner = host->shared->objects[h.object].gpu;
	if (!sim_map_add(&m)) {
		sim_object_drop(host, h.object);
		return CU_OUT_OF_MEMORY;
	}
	return CU_OK;
}

P2S_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	SIM_ENTER();
	struct sim_map m;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!sim_map_remove(ptr, 1u << SIM_KIND_CUMEM, &m))
		return CU_INVALID_VALUE;
	if (m.bytes != bytes) {
		sim_map_add(&m);
		return CU_INVALID_VALUE;
	}
	sim_object_drop(sim_host(), m.object);
	return CU_OK;
}

P2S_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const struct cu_access_desc *desc, size_t count)
{
	SIM_ENTER();
	struct sim_host *host = sim_host();
	struct sim_map m;
	size_t i;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!desc || !count || !sim_map_find(ptr, &m) || m.kind != SIM_KIND_CUMEM)
		return CU_INVALID_VALUE;
	for (i = 0; i < count; i++) {
		int gpu = location_gpu(&desc[i].location);

		if (gpu < 0 || (gpu != m.owner && !host->config.links[gpu][m.owner].can_access))
			return CU_INVALID_DEVICE;
		if (desc[i].flags != 0 && desc[i].flags != CU_ACCESS_READWRITE)
			return CU_INVALID_VALUE;
	}
	for (i = 0; i < count; i++)
		if (!sim_map_grant(ptr, bytes, location_gpu(&desc[i].location), desc[i].flags != 0))
			return CU_INVALID_VALUE;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemHandle id, int type, unsigned long long flags)
{
	SIM_ENTER();
	struct sim_host *host = sim_host();
	struct fd_record record = { .magic = FD_MAGIC };
	struct sim_transfer t = { SIM_ANY, 0, SIM_OP_EXPORT, SIM_MAP_CUMEM, 0, 0, NULL };
	struct handle h;
	CUresult rc;
	int fd;

	if (sim_started())
		return CU_NOT_INITIALIZED;
	if (!out || type != CU_HANDLE_FD || flags || !get_handle(id, &h) || !h.exportable)
		return CU_INVALID_VALUE;
	t.dst = host->shared->objects[h.object].gpu;
	rc = sim_fault_call(host, &t);
	if (rc)
		return rc;
	record.run = host->shared->run;
	record.object = h.object;
	record.generation = h.generation;
	fd = memfd_create("p2psafe-sim-handle", MFD_CLOEXEC);
	if (fd < 0)
		return CU_OUT_OF_MEMORY;
	if (pwrite(fd, &record, sizeof(record), 0) != (ssize_t)sizeof(record)) {
		close(fd);
		return CU_OUT_OF_MEMORY;
	}
	*(int *)out = fd;
	return CU_OK;
}

P2S_EXPORT CUresult cuMemImportFromShareableHandle(CUmemHandle *out, void *os_handle, int type)
{
	SIM_ENTER();
	struct sim_host *host = sim_host();
	struct sim_transfer t = { 0, 0, SIM_OP_OPEN, SIM_MAP_CUMEM, 0, 0, NULL };
	struct handle h = { .imported = 1 };
	struct sim_context *ctx;
	struct fd_record r;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!out || type != CU_HANDLE_FD ||
	    pread((int)(intptr_t)os_handle, &r, sizeof(r), 0) != (ssize_t)sizeof(r) || r.magic != FD_MAGIC ||
	    r.run != host->shared->run || !sim_object_hold(host, r.object, r.generation))
		return CU_INVALID_VALUE;
	t.src = ctx->gpu;
	t.dst = host->shared->objects[r.object].gpu;
	rc = sim_fault_call(host, &t);
	if (!rc) {
		h.object = r.object;
		h.generation = r.generation;
		*out = new_handle(&h);
		rc = *out ? CU_OK : CU_OUT_OF_MEMORY;
	}
	if (rc)
		sim_object_drop(host, r.object);
	return rc;
}
