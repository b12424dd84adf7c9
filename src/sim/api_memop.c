/* Driver API: one word stored in stream order, as a copy engine's flag. */
#include <stdlib.h>
#include <string.h>

#include "sim/api.h"
#include "sim/fault.h"
#include "sim/map.h"

#define WRITE_NS 2000

struct write_job {
	struct sim_job job;
	struct sim_view to;
	struct sim_view from;
	struct sim_hit hit;
	uint64_t value;
};

static uint64_t run_write(struct sim_stream *s, struct sim_job *job)
{
	struct write_job *j = (struct write_job *)(void *)job;
	enum sim_outcome rc;
	int error = 0;

	if (__atomic_load_n(&s->context->error, __ATOMIC_ACQUIRE))
		return 0;
	j->from.host = j->to.host;
	j->from.host_bytes = (unsigned char *)&j->value;
	rc = sim_view_copy(&j->to, &j->from, sizeof(j->value), &j->hit, &error);
	if (rc == SIM_WEDGED)
		sim_fault_park();
	if (rc == SIM_FAILED)
		sim_context_fail(s->context, error);
	return WRITE_NS;
}

P2S_EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags)
{
	struct sim_context *ctx;
	struct write_job model, *j;
	struct sim_stream *s;
	CUresult rc;

	SIM_ENTER();
	rc = sim_current(&ctx);
	if (rc)
		return rc;
	if (stream)
		ctx = stream->context;
	memset(&model, 0, sizeof(model));
	if (flags || addr % 8 || !sim_map_is_device(addr) || sim_map_view(ctx, addr, sizeof(value), &model.to) != SIM_RESOLVED)
		return CU_INVALID_VALUE;
	s = sim_stream_of(ctx, stream);
	j = s ? malloc(sizeof(*j)) : NULL;
	if (!j)
		return CU_OUT_OF_MEMORY;
	*j = model;
	j->job.run = run_write;
	j->value = value;
	j->hit = sim_view_copy_hit(&j->to, &j->from, sizeof(value));
	if (j->hit.fault && j->hit.fault->effect == SIM_ERROR) {
		rc = (CUresult)j->hit.fault->error;
		free(j);
		return rc;
	}
	sim_stream_submit(s, &j->job);
	return CU_OK;
}
