/* Devices, primary contexts and streams of this process. */
#ifndef P2S_SIM_CONTEXT_H
#define P2S_SIM_CONTEXT_H

#include <pthread.h>

#include "sim/cu.h"
#include "sim/host.h"
#include "sim/view.h"

struct sim_context {
	int gpu;
	int retained;
	int error;      /* sticky CUresult of a failed kernel; 0 none */
	int late_error; /* becomes sticky after late_calls more calls; 0 none */
	int64_t late_calls;
	int running;    /* kernels at work */
	uint64_t peers; /* bit per GPU: access enabled */
	unsigned flags;
	struct sim_stream *null_stream;
};

/* A piece of work in a stream. run gets the job and returns the modelled duration in ns. */
struct sim_job {
	struct sim_job *next;
	uint64_t (*run)(struct sim_stream *stream, struct sim_job *job);
};

struct sim_stream {
	struct sim_context *context;
	pthread_t thread;
	pthread_mutex_t guard;
	pthread_cond_t wake;
	struct sim_job *first;
	struct sim_job **last;
	uint64_t submitted;
	uint64_t done;
	uint64_t clock_ns; /* modelled time of the engine */
	uint32_t party; /* flow.h: of the gate in the stream; what goes with it was noted */
	int noted;
	struct sim_flow *flow;
	int ending;
};

struct sim_event {
	uint64_t submitted; /* records asked for and records done */
	uint64_t done;
	uint64_t time_ns;   /* of the last */
};

/* CU_OK once cuInit was called with success in this process. */
CUresult sim_started(void);
/* GPU index of a device ordinal, -1. */
int sim_device_gpu(CUdevice dev);
/* Ordinal of a GPU, -1 when it is masked. */
int sim_gpu_device(int gpu);
struct sim_context *sim_context_of(int gpu);
/* The current context of the thread. CU_OK, or the error that the call must return (sticky ones too). */
CUresult sim_current(struct sim_context **ctx);
/* A kernel or engine failed: every later call in the context says so. */
void sim_context_fail(struct sim_context *ctx, int error);
/* The same, but the next `calls` calls do not know it yet. */
void sim_context_fail_late(struct sim_context *ctx, int error, int64_t calls);
/* What ended the context or its GPU, 0 none. */
int sim_context_error(const struct sim_context *ctx);
/* GPU of the thread's current context, SIM_NOBODY. */
int sim_context_gpu(void);
/* Calls that the driver serves only when no kernel of the context runs. */
void sim_context_wait(struct sim_context *ctx);

/* Stream 0 is the context's own. NULL when there is no memory for it. */
struct sim_stream *sim_stream_of(struct sim_context *ctx, CUstream stream);
struct sim_stream *sim_stream_new(struct sim_context *ctx);
/* Takes the job over (free()d after it ran). */
void sim_stream_submit(struct sim_stream *s, struct sim_job *job);
int sim_stream_idle(struct sim_stream *s);
/* Ends the thread once its work is done. Never waits. */
void sim_stream_end(struct sim_stream *s);

#endif
