/* Driver API: copies. The engine is that of the stream's GPU. Memory it may not reach goes through host memory. */
#include <stdlib.h>
#include <string.h>

#include "sim/active.h"
#include "sim/api.h"
#include "sim/fault.h"
#include "sim/flow.h"
#include "sim/lock.h"
#include "sim/map.h"

#define LOCAL_BYTES_PER_S UINT64_C(2000000000000)
#define START_NS 2000
#define FLAG_BYTES 8
#define SMALL (UINT64_C(64) << 10)
#define OVERTAKE_NS UINT64_C(1000000) /* how long a copy stays behind the flag that overtook it */

struct copy_job {
	struct sim_job job;
	struct sim_view to;
	struct sim_view from;
	struct sim_hit hit;
	uint64_t bytes;
	int staged; /* through host memory */
	int set;    /* memset: value */
	int value;
	uint64_t ns;
	uint32_t party; /* who moves with it; see flow.h */
};

static uint64_t duration(uint64_t bytes, uint64_t bytes_per_s, uint64_t latency_ns)
{
	return latency_ns + (uint64_t)((double)bytes * 1e9 / (double)bytes_per_s);
}

static uint64_t copy_ns(const struct sim_view *to, const struct sim_view *from, uint64_t bytes, int staged)
{
	const struct sim_config *c = &sim_host()->config;
	const struct sim_view *far = sim_view_remote(to) ? to : from;

	if (staged || to->host_bytes || from->host_bytes)
		return duration(bytes, (uint64_t)c->staged_bytes_per_s, (uint64_t)c->staged_latency_ns);
	if (sim_view_remote(far)) {
		const struct sim_link *l = &c->links[far->accessor][far->owner];

		return duration(bytes, (uint64_t)l->bytes_per_s, (uint64_t)l->latency_ns + START_NS);
	}
	return duration(bytes, LOCAL_BYTES_PER_S, START_NS);
}

/* The view of a GPU on its own memory, whoever asked. */
static struct sim_view owners_view(const struct sim_view *v)
{
	struct sim_view own = *v;

	own.accessor = own.owner;
	own.mapping = 0;
	return own;
}

/* The fault that the copy meets. One of op staged changes the bytes on their way from host memory into the device. */
static struct sim_hit find_hit(struct copy_job *j)
{
	struct sim_hit none = { NULL, 0, 8 };
	struct sim_transfer t = { SIM_ANY, j->to.owner, SIM_OP_STAGED, 0, j->to.offset, j->bytes, NULL };

	if (j->set)
		return none;
	if (!j->staged)
		return sim_view_copy_hit(&j->to, &j->from, j->bytes);
	if (!j->from.host_bytes)
		t.src = j->from.owner;
	j->to = owners_view(&j->to);
	j->from = owners_view(&j->from);
	return sim_fault_find(j->to.host, &t);
}

/* A flag that overtakes its data: small copies to a peer wait behind the next flag when the plan says so. */
static int overtaken(const struct copy_job *j)
{
	struct sim_transfer t = sim_view_transfer(&j->to, SIM_OP_FLAG, 0, FLAG_BYTES);

	return sim_view_remote(&j->to) && j->bytes != FLAG_BYTES && j->bytes <= SMALL &&
	       sim_fault_peek(j->to.host, &t) == SIM_REORDER;
}

static uint64_t run_copy(struct sim_stream *s, struct sim_job *job);

/* The flag copy that follows in the stream, if it comes soon and the plan lets it overtake. */
static struct copy_job *overtaking_flag(struct sim_stream *s)
{
	uint64_t until = sim_now() + OVERTAKE_NS;
	struct sim_job *next = NULL;
	struct copy_job *flag;

	while (!next && sim_now() < until) {
		pthread_mutex_lock(&s->guard);
		next = s->first;
		pthread_mutex_unlock(&s->guard);
		if (!next)
			sim_sleep_ns(20000);
	}
	if (!next || next->run != run_copy)
		return NULL;
	/* Only this thread takes jobs out: it stays where it is. */
	flag = (struct copy_job *)(void *)next;
	return flag->bytes == FLAG_BYTES && flag->hit.fault && flag->hit.fault->effect == SIM_REORDER ? flag : NULL;
}

static void finish(struct sim_stream *s, enum sim_outcome rc, int error)
{
	if (rc == SIM_WEDGED)
		sim_fault_park();
	if (rc == SIM_FAILED)
		sim_context_fail(s->context, error);
}

static uint64_t run_copy(struct sim_stream *s, struct sim_job *job)
{
	struct copy_job *j = (struct copy_job *)(void *)job, *flag;
	enum sim_outcome rc = SIM_OK;
	int error = 0;

	if (sim_context_error(s->context))
		return 0;
	sim_active_enter(sim_host());
	if (overtaken(j) && (flag = overtaking_flag(s)) != NULL) {
		rc = sim_view_copy(&flag->to, &flag->from, flag->bytes, &flag->hit, &error);
		sim_sleep_ns(OVERTAKE_NS);
	}
	if (rc == SIM_OK && j->set)
		rc = sim_view_set(&j->to, j->bytes, (unsigned char)j->value, &error);
	else if (rc == SIM_OK)
		rc = sim_view_copy(&j->to, &j->from, j->bytes, &j->hit, &error);
	sim_active_leave(sim_host());
	finish(s, rc, error);
	if (j->party) {
		const struct sim_view *far = sim_view_remote(&j->to) ? &j->to : &j->from;

		j->ns = j->ns * sim_flow_share(sim_host(), j->party, far->accessor, far->owner, j->from.owner, j->to.owner) / 1000;
	}
	return j->ns;
}

static CUresult submit(struct sim_context *ctx, CUstream stream, const struct copy_job *model)
{
	struct sim_stream *s = sim_stream_of(ctx, stream);
	const struct sim_fault *f;
	struct copy_job *j;

	j = s ? malloc(sizeof(*j)) : NULL;
	if (!j)
		return CU_OUT_OF_MEMORY;
	*j = *model;
	j->job.run = run_copy;
	j->ns = copy_ns(&j->to, &j->from, j->bytes, j->staged);
	j->hit = find_hit(j);
	f = j->hit.fault;
	if (f && f->effect == SIM_SLOW)
		j->ns *= (uint64_t)f->factor;
	if (f && f->effect == SIM_FAST)
		j->ns /= (uint64_t)f->factor;
	if (f && f->effect == SIM_ERROR) {
		CUresult rc = (CUresult)f->error;

		free(j);
		return rc;
	}
	if (!j->set && !j->staged && !j->to.host_bytes && !j->from.host_bytes)
		j->party = sim_flow_note(s, j->from.owner, j->to.owner);
	sim_stream_submit(s, &j->job);
	return CU_OK;
}

/* The stream's context does the copy. */
static CUresult engine_of(CUstream stream, struct sim_context **ctx)
{
	CUresult rc = sim_current(ctx);

	if (!rc && stream)
		*ctx = stream->context;
	return rc;
}

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	struct copy_job j = { .bytes = bytes };
	enum sim_resolve to, from;
	struct sim_context *ctx;
	CUresult rc = engine_of(stream, &ctx);

	if (rc)
		return rc;
	if (!bytes)
		return CU_OK;
	to = sim_map_view(ctx, dst, bytes, &j.to);
	from = sim_map_view(ctx, src, bytes, &j.from);
	if (to == SIM_UNMAPPED || from == SIM_UNMAPPED)
		return CU_INVALID_VALUE;
	j.staged = to == SIM_NO_ACCESS || from == SIM_NO_ACCESS || (j.from.host_bytes && !j.to.host_bytes);
	return submit(ctx, stream, &j);
}

P2S_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	SIM_ENTER();
	return copy(dst, src, bytes, stream);
}

P2S_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,
                                      CUstream stream)
{
	SIM_ENTER();
	if (!dst_ctx || !src_ctx)
		return CU_INVALID_CONTEXT;
	if (!sim_map_is_device(dst) || !sim_map_is_device(src))
		return CU_INVALID_VALUE;
	return copy(dst, src, bytes, stream);
}

P2S_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	SIM_ENTER();
	if (!dst || sim_map_is_device((uint64_t)(uintptr_t)dst) || !sim_map_is_device(src))
		return CU_INVALID_VALUE;
	return copy((CUdeviceptr)(uintptr_t)dst, src, bytes, stream);
}

P2S_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	SIM_ENTER();
	if (!src || !sim_map_is_device(dst))
		return CU_INVALID_VALUE;
	return copy(dst, (CUdeviceptr)(uintptr_t)src, bytes, stream);
}

P2S_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	SIM_ENTER();
	struct copy_job j = { .bytes = bytes, .set = 1, .value = value };
	struct sim_context *ctx;
	CUresult rc = engine_of(stream, &ctx);

	if (rc)
		return rc;
	if (!bytes)
		return CU_OK;
	if (!sim_map_is_device(dst) || sim_map_view(ctx, dst, bytes, &j.to) != SIM_RESOLVED)
		return CU_INVALID_VALUE;
	j.from = j.to;
	return submit(ctx, stream, &j);
}
