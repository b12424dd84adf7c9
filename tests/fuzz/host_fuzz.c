/* Any bytes as host.json (first byte even) or cuda.json (odd) of a simulated host: read as a whole or refused with a reason, and
 * no number from outside its range. */
#include "folder.h"
#include "fuzz.h"
#include "inventory/host_json.h"
#include "sim/config.h"

static void host(void)
{
	struct p2s_seam seam;
	struct p2s_fault fault = {0};
	int32_t rc = p2s_host_json_read(folder_path(), &seam, &fault);

	FUZZ_ASSERT(rc == 0 || (rc == P2PSAFE_E_CONFIG && fault.text[0] != '\0'));
	FUZZ_ASSERT(seam.simulated == 1); /* never taken for a real machine */
	if (rc != 0)
		return;
	FUZZ_ASSERT((seam.privileged == 0 || seam.privileged == 1) && memchr(seam.cpuid_signature, '\0', sizeof seam.cpuid_signature) != NULL);
	FUZZ_ASSERT(strcmp(seam.log_state, "readable") == 0 || strcmp(seam.log_state, "denied") == 0 || strcmp(seam.log_state, "absent") == 0);
	for (int i = 0; i < P2S_MINORS; i++)
		FUZZ_ASSERT(seam.access[i] >= -1 && seam.access[i] <= 1);
}

static void cuda(void)
{
	static struct sim_config c;
	char err[256];

	if (!sim_config_load(&c, folder_path(), err, sizeof err)) {
		FUZZ_ASSERT(err[0] != '\0');
		return;
	}
	FUZZ_ASSERT(c.gpu_count >= 0 && c.gpu_count <= P2S_MAX_GPUS && c.fault_count >= 0 && c.fault_count <= SIM_MAX_FAULTS);
	FUZZ_ASSERT(c.missing_count <= SIM_MAX_MISSING && c.uplink_count <= SIM_MAX_UPLINKS);
	for (int i = 0; i < c.gpu_count; i++) {
		FUZZ_ASSERT(sim_config_gpu(&c, c.gpus[i].address) == i && c.gpus[i].free_bytes <= c.gpus[i].memory_bytes);
		FUZZ_ASSERT(c.gpus[i].process_count <= SIM_MAX_PROCESSES && c.gpus[i].minor >= 0);
		for (int k = 0; k < c.gpu_count; k++)
			FUZZ_ASSERT(c.links[i][k].bytes_per_s > 0 && c.links[i][k].granularity >= 8 && c.links[i][k].granularity <= 128);
	}
	for (int i = 0; i < c.fault_count; i++) {
		const struct sim_fault *f = &c.faults[i];

		FUZZ_ASSERT(f->src >= SIM_NOBODY && f->src < c.gpu_count && f->dst >= SIM_NOBODY && f->dst < c.gpu_count);
		FUZZ_ASSERT(f->ops != 0 && f->effect != SIM_NONE && memchr(f->kmsg, '\0', sizeof f->kmsg) != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = {bytes, size};

	if (fuzz_number(&in, 1) % 2 == 0) {
		folder_write("host.json", in.at, in.left);
		host();
	} else {
		folder_write("cuda.json", in.at, in.left);
		cuda();
	}
	return 0;
}
