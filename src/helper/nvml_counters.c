#include "helper/nvml_counters.h"

#include <dlfcn.h>
#include <string.h>

#include "ipc/proto.h"

/* nvmlNvLinkErrorCounter_t: replay, recovery, CRC of flits. The next two (data CRC, data ECC) count what the link corrected: they rose
 * by 66 to 140 in each standard test of a healthy pair (measured on 2x H200, driver 580.159, while these three stayed 0). */
#define LINK_COUNTERS 3
#define FIELD_FIRST 161 /* NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, _RECOVERY, _CRC: of the link in scope */
#define FIELD_COUNT 3
#define TYPE_UNSIGNED_INT 1
#define TYPE_UNSIGNED_LONG 2
#define TYPE_UNSIGNED_LONG_LONG 3

void p2s_nvml_counters_load(struct p2s_nvml_counters *c, void *library)
{
	*(void **)&c->pcie_replays = dlsym(library, "nvmlDeviceGetPcieReplayCounter");
	*(void **)&c->link_errors = dlsym(library, "nvmlDeviceGetNvLinkErrorCounter");
	*(void **)&c->fields = dlsym(library, "nvmlDeviceGetFieldValues");
}

static void send_one(int sock, uint32_t gpu, int32_t which, uint64_t value)
{
	struct p2s_lib_gpu_fact m = {.gpu = gpu, .which = which, .value = value};

	(void)p2s_codec_send(sock, &p2s_lib_table, p2s_id_lib_gpu_fact, &m, -1, p2s_now_ns() + UINT64_C(1000000000));
}

/* Adds the errors of one link; returns whether any counter could be read. Drivers have one of the two ways, or neither. */
static int add_link(const struct p2s_nvml_counters *c, nvml_device device, unsigned link, uint64_t *sum)
{
	struct nvml_field f[FIELD_COUNT];
	int read = 0;

	for (int i = 0; c->link_errors != NULL && i < LINK_COUNTERS; i++) {
		unsigned long long n = 0;

		if (c->link_errors(device, link, i, &n) != NVML_OK)
			continue;
		*sum += n;
		read = 1;
	}
	if (read || c->fields == NULL)
		return read;
	memset(f, 0, sizeof f);
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		f[i].field = FIELD_FIRST + i;
		f[i].scope = link;
	}
	if (c->fields(device, FIELD_COUNT, f) != NVML_OK)
		return 0;
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (f[i].result != NVML_OK)
			continue;
		if (f[i].value_type == TYPE_UNSIGNED_INT)
			*sum += f[i].value.ui;
		else if (f[i].value_type == TYPE_UNSIGNED_LONG || f[i].value_type == TYPE_UNSIGNED_LONG_LONG)
			*sum += f[i].value.ull;
		else
			continue;
		read = 1;
	}
	return read;
}

void p2s_nvml_counters_send(const struct p2s_nvml_counters *c, int sock, uint32_t gpu, nvml_device device, const int *active, int after)
{
	unsigned replays = 0;
	uint64_t errors = 0;
	int read = 0;

	if (c->pcie_replays != NULL && c->pcie_replays(device, &replays) == NVML_OK)
		send_one(sock, gpu, P2S_GPU_FACT_PCIE_REPLAYS_BEFORE + after, replays);
	for (unsigned link = 0; link < NVML_LINKS; link++)
		if (active[link])
			read |= add_link(c, device, link, &errors);
	if (read)
		send_one(sock, gpu, P2S_GPU_FACT_NVLINK_ERRORS_BEFORE + after, errors);
}
