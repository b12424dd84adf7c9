/* Static evidence against a test: what NVML knows before the first byte between two GPUs. A GPU that must not be tested
 * takes no part; its pairs stay UNTESTED with the reason. Asked to keep going, the test runs and the reason is told.
 * What the library knows of driver and IOMMU it says itself, when it is asked before each first contact. */
#include "helper/conductor.h"

#include <stdio.h>
#include <string.h>

#include "helper/legs.h"

/* A fact that forbids a test, by its value. */
static const struct {
	int32_t which;
	int32_t state;
	const char *text;
} stops[] = {
	{P2S_GPU_FACT_MIG, P2PSAFE_GPU_STATE_RISKY, "MIG is on: parts of a GPU have no peers"},
	{P2S_GPU_FACT_VGPU, P2PSAFE_GPU_STATE_RISKY, "a vGPU: what lies behind it is shared with others"},
	{P2S_GPU_FACT_CONFIDENTIAL, P2PSAFE_GPU_STATE_RISKY, "confidential mode is on"},
	{P2S_GPU_FACT_MPS, P2PSAFE_GPU_STATE_RISKY, "an MPS server holds it: a fault here ends other programs"},
	{P2S_GPU_FACT_PENDING_RESET, P2PSAFE_GPU_STATE_RISKY, "the driver wants this GPU reset or drained first"},
	{P2S_GPU_FACT_OTHER_PROCESS, P2PSAFE_GPU_STATE_BUSY, "another user's compute process runs on it"},
};

static void stop(struct p2s_run *run, uint32_t g, int32_t state, const char *source, const char *text)
{
	int out = atomic_load(&run->gpu[g].out);

	if (out && run->gpu[g].state != P2PSAFE_GPU_STATE_FAILED)
		return;
	p2s_link_fact(run, "PROBE_RISK_HIGH", P2PSAFE_SEVERITY_WARNING, (int32_t)g, -1, source, text);
	if (!out && !p2s_run_keeps_going(run)) /* one that failed is out: whoever else holds it may be why */
		p2s_run_drop_gpu(run, g, state, text);
}

static void by_nvml(struct p2s_run *run, uint32_t g)
{
	const int32_t *fact = run->gpu[g].fact;
	char text[96];

	for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
		if (fact[stops[i].which] == P2S_YES)
			stop(run, g, stops[i].state, "NVML", stops[i].text);
	/* What the driver API says about the compute mode was looked at when the context was made. */
	if (fact[P2S_GPU_FACT_COMPUTE_MODE] > 0) {
		snprintf(text, sizeof text, "compute mode %d: exclusive use by one process", (int)fact[P2S_GPU_FACT_COMPUTE_MODE]);
		stop(run, g, P2PSAFE_GPU_STATE_RISKY, "NVML", text);
	}
	if (fact[P2S_GPU_FACT_BUSY_PROCESS] == P2S_YES && fact[P2S_GPU_FACT_OTHER_PROCESS] != P2S_YES)
		p2s_link_fact(run, "GPU_BUSY", P2PSAFE_SEVERITY_INFO, (int32_t)g, -1, "NVML",
		              "a compute process runs on it that is ours or cannot be seen from here");
}

/* What NVML did not tell is not known, which is not "off": the test runs, and it is said what was not looked at. */
static void tell_silence(struct p2s_run *run)
{
	const struct p2s_side *nvml = &run->side[1];

	if (nvml->proc == NULL || (nvml->answered && nvml->status != P2S_DONE_COMPLETE))
		p2s_link_fact(run, "NVML_MISSING", P2PSAFE_SEVERITY_WARNING, -1, -1, "libnvidia-ml.so.1",
		              "NVML cannot be used here; MIG, vGPU, MPS, confidential mode, pending resets and other processes are not "
		              "known, nor are NVLinks: every path is that of the PCIe tree");
	else if (!nvml->answered)
		p2s_link_fact(run, "NVML_STUCK", P2PSAFE_SEVERITY_WARNING, -1, -1, "libnvidia-ml.so.1",
		              "NVML did not answer in time; MIG, MPS, pending resets and other processes are not known");
}

void p2s_risk_static(struct p2s_run *run)
{
	tell_silence(run);
	for (uint32_t i = 0; i < run->tested_count; i++)
		by_nvml(run, run->tested[i]);
}
