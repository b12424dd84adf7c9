/* Driver API: modules and launches. The image must be the PTX text of the test kernels; what runs is their twins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/active.h"
#include "sim/api.h"
#include "sim/fault.h"
#include "sim/flow.h"
#include "sim/lock.h"
#include "sim/ring.h"
#include "sim/twins.h"

#define MAX_FUNCTIONS 16
#define LAUNCH_NS 3000
#define LOCAL_BYTES_PER_S 2000000000000.0

struct sim_function {
	const struct sim_twin *twin;
	struct sim_context *context;
};

struct sim_module {
	struct sim_context *context;
	struct sim_function functions[MAX_FUNCTIONS];
	int has[MAX_FUNCTIONS];
};

const struct sim_twin sim_twins[] = {
#define TWIN(name, args) { "p2s_" #name, args, sim_twin_##name },
	P2S_KERNELS(TWIN) P2S_KERNELS_MEASURE(TWIN)
#undef TWIN
};
const int sim_twin_count = sizeof(sim_twins) / sizeof(sim_twins[0]);

int sim_kernel_view(struct sim_kernel *k, uint64_t ptr, uint64_t bytes, struct sim_view *v)
{
	struct sim_context as_launched = *k->context;

	as_launched.peers = k->peers;
	if (!sim_map_is_device(ptr) || sim_map_view(&as_launched, ptr, bytes, v) != SIM_RESOLVED)
		return CU_ILLEGAL_ADDRESS;
	return CU_OK;
}

int sim_kernel_outcome(enum sim_outcome rc, int error)
{
	return rc == SIM_WEDGED ? SIM_TWIN_WEDGED : rc == SIM_FAILED ? error : CU_OK;
}

uint64_t sim_kernel_ns(const struct sim_view *v, uint32_t op, uint64_t at, uint64_t bytes)
{
	const struct sim_link *l = &v->host->config.links[v->accessor][v->owner];
	struct sim_transfer t = sim_view_transfer(v, op, at, bytes);
	uint64_t ns;

	if (!sim_view_remote(v))
		return LAUNCH_NS + (uint64_t)((double)bytes * 1e9 / LOCAL_BYTES_PER_S);
	ns = (uint64_t)l->latency_ns + (uint64_t)((double)bytes * 1e9 / (double)l->bytes_per_s);
	return LAUNCH_NS + sim_fault_time(v->host, &t, ns);
}

static void jit_log(unsigned count, const int *options, void **values, const char *text)
{
	char *log = NULL;
	size_t bytes = 0;
	unsigned i;

	for (i = 0; i < count; i++) {
		if (options[i] == CU_JIT_ERROR_LOG)
			log = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BYTES)
			bytes = (size_t)(uintptr_t)values[i];
	}
	if (log && bytes)
		snprintf(log, bytes, "%s", text);
}

P2S_EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, int *options, void **values)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_module *m;
	const char *text = image;
	int i;

	if (rc)
		return rc;
	sim_context_wait(ctx);
	if (!out || !image || (count && (!options || !values)))
		return CU_INVALID_VALUE;
	if (!sim_host()->config.gpus[ctx->gpu].jit) {
		jit_log(count, options, values, "this simulated driver has no PTX compiler");
		return CU_NO_JIT;
	}
	if (!strstr(text, ".version") || !strstr(text, ".target") || !strstr(text, ".address_size")) {
		jit_log(count, options, values, "not PTX text");
		return CU_INVALID_PTX;
	}
	m = calloc(1, sizeof(*m));
	if (!m)
		return CU_OUT_OF_MEMORY;
	m->context = ctx;
	for (i = 0; i < sim_twin_count && i < MAX_FUNCTIONS; i++) {
		char entry[64];

		snprintf(entry, sizeof(entry), ".entry %s", sim_twins[i].name);
		m->functions[i] = (struct sim_function){ &sim_twins[i], ctx };
		m->has[i] = strstr(text, entry) != NULL;
	}
	*out = m;
	return CU_OK;
}

P2S_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);

	if (!module)
		return CU_INVALID_HANDLE;
	free(module);
	return rc;
}

P2S_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	int i;

	if (rc)
		return rc;
	if (!out || !module || !name)
		return CU_INVALID_VALUE;
	for (i = 0; i < sim_twin_count && i < MAX_FUNCTIONS; i++) {
		if (module->has[i] && !strcmp(name, sim_twins[i].name)) {
			*out = &module->functions[i];
			return CU_OK;
		}
	}
	return CU_NOT_FOUND;
}

static uint64_t run_kernel(struct sim_stream *s, struct sim_job *job)
{
	struct sim_kernel *k = (struct sim_kernel *)(void *)job;
	struct sim_host *h = sim_host();
	int rc, d;

	if (sim_context_error(s->context))
		return 0;
	if (k->effect == SIM_WEDGE || k->effect == SIM_HANG)
		sim_fault_park();
	__atomic_add_fetch(&s->context->running, 1, __ATOMIC_ACQ_REL);
	sim_active_enter(h);
	rc = k->twin(k);
	sim_active_leave(h);
	if (rc != SIM_TWIN_WEDGED)
		__atomic_sub_fetch(&s->context->running, 1, __ATOMIC_ACQ_REL);
	if (rc == SIM_TWIN_WEDGED)
		sim_fault_park();
	/* A kernel ends when its stores have landed. */
	for (d = 0; d < h->config.gpu_count; d++)
		sim_ring_drain(h, s->context->gpu, d);
	if (rc)
		sim_context_fail(s->context, rc);
	return k->ns;
}

/* Where a pump's bytes will go; what it may not reach shows when it runs. */
static void note_pump(struct sim_stream *s, struct sim_kernel *k)
{
	struct sim_view to, from;

	if (!sim_kernel_view(k, k->args[0], k->args[2], &to) && !sim_kernel_view(k, k->args[1], k->args[2], &from))
		k->party = sim_flow_note(s, from.owner, to.owner);
}

P2S_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                   unsigned shared, CUstream stream, void **params, void **extra)
{
	SIM_ENTER();
	struct sim_context *ctx;
	CUresult rc = sim_current(&ctx);
	struct sim_transfer t = { 0, SIM_ANY, SIM_OP_LAUNCH, SIM_MAP_ALL, 0, 0, NULL };
	struct sim_hit hit;
	struct sim_kernel *k;
	struct sim_stream *s;
	unsigned i;

	if (rc)
		return rc;
	if (!f)
		return CU_INVALID_HANDLE;
	if (!gx || !gy || !gz || !bx || !by || !bz || (uint64_t)bx * by * bz > 1024 || shared > 49152 || extra ||
	    (f->twin->args && !params))
		return CU_INVALID_VALUE;
	s = sim_stream_of(ctx, stream);
	if (!s || s->context != f->context)
		return s ? CU_INVALID_HANDLE : CU_OUT_OF_MEMORY;
	t.src = s->context->gpu;
	hit = sim_fault_find(sim_host(), &t);
	rc = sim_fault_stop(sim_host(), hit.fault, s->context->gpu);
	if (rc && rc != SIM_FAULT_WEDGED)
		return rc;
	k = calloc(1, sizeof(*k));
	if (!k)
		return CU_OUT_OF_MEMORY;
	k->job.run = run_kernel;
	k->context = s->context;
	k->twin = f->twin->twin;
	k->ns = LAUNCH_NS;
	k->peers = __atomic_load_n(&s->context->peers, __ATOMIC_ACQUIRE);
	k->effect = hit.fault ? hit.fault->effect : SIM_NONE;
	for (i = 0; i < f->twin->args; i++)
		memcpy(&k->args[i], params[i], 8);
	if (k->twin == sim_twin_gate)
		sim_flow_gate(s, (uint32_t)k->args[2]);
	if (k->twin == sim_twin_pump && k->args[3])
		note_pump(s, k);
	sim_stream_submit(s, &k->job);
	return CU_OK;
}
