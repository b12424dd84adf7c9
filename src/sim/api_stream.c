/* Driver API: streams and events. Nothing here waits. */
#include <stdlib.h>

#include "sim/api.h"
#include "sim/fault.h"
#include "sim/context.h"
#include "sim/lock.h"

struct event_job {
	struct sim_job job;
	struct sim_event *event;
	uint64_t turn; /* which record of the event */
};

P2S_EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!out || flags > 1)
		return CU_INVALID_VALUE;
	*out = sim_stream_new(ctx);
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

P2S_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (!stream)
		return CU_INVALID_HANDLE;
	sim_stream_end(stream);
	return rc;
}

P2S_EXPORT CUresult cuStreamQuery(CUstream stream)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_stream *s;

	if (rc)
		return rc;
	s = sim_stream_of(ctx, stream);
	if (!s)
		return CU_OUT_OF_MEMORY;
	if (!sim_stream_idle(s))
		return CU_NOT_READY;
	/* A kernel that failed just now: its error is there before it counts as done. */
	return sim_current(&ctx);
}

static uint64_t run_record(struct sim_stream *s, struct sim_job *job)
{
	struct event_job *j = (struct event_job *)(void *)job;

	j->event->time_ns = __atomic_load_n(&s->clock_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&j->event->done, j->turn, __ATOMIC_RELEASE);
	return 0;
}

static uint64_t run_wait(struct sim_stream *s, struct sim_job *job)
{
	struct event_job *j = (struct event_job *)(void *)job;
	uint32_t turns = 0;
	uint64_t now, then;

	while (__atomic_load_n(&j->event->done, __ATOMIC_ACQUIRE) < j->turn)
		sim_relax(&turns);
	now = __atomic_load_n(&s->clock_ns, __ATOMIC_RELAXED);
	then = j->event->time_ns;
	return then > now ? then - now : 0;
}

P2S_EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!out || flags > 7)
		return CU_INVALID_VALUE;
	*out = calloc(1, sizeof(**out));
	return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

static CUresult submit(CUevent event, CUstream stream, uint64_t (*run)(struct sim_stream *, struct sim_job *), int record)
{
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct event_job *j;
	struct sim_stream *s;

	if (rc)
		return rc;
	if (!event)
		return CU_INVALID_HANDLE;
	s = sim_stream_of(ctx, stream);
	j = calloc(1, sizeof(*j));
	if (!s || !j) {
		free(j);
		return CU_OUT_OF_MEMORY;
	}
	if (record)
		event->submitted++;
	*j = (struct event_job){ { NULL, run }, event, event->submitted };
	sim_stream_submit(s, &j->job);
	return CU_OK;
}

P2S_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	SIM_ENTER();
	return submit(event, stream, run_record, 1);
}

P2S_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	SIM_ENTER();
	return flags ? CU_INVALID_VALUE : submit(event, stream, run_wait, 0);
}

static int event_done(const struct sim_event *e)
{
	return __atomic_load_n(&e->done, __ATOMIC_ACQUIRE) == e->submitted;
}

P2S_EXPORT CUresult cuEventQuery(CUevent event)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!event)
		return CU_INVALID_HANDLE;
	return event_done(event) ? CU_OK : CU_NOT_READY;
}

P2S_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (rc)
		return rc;
	if (!ms)
		return CU_INVALID_VALUE;
	if (!start || !end || !start->submitted || !end->submitted)
		return CU_INVALID_HANDLE;
	if (!event_done(start) || !event_done(end))
		return CU_NOT_READY;
	*ms = (float)((double)(int64_t)(end->time_ns - start->time_ns) / 1e6);
	return CU_OK;
}

P2S_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (!event)
		return CU_INVALID_HANDLE;
	/* One whose record is still on its way belongs to the stream until then; that stream may never come to it. */
	if (event_done(event))
		free(event);
	return rc;
}
