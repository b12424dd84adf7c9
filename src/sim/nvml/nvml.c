/* The simulated libnvidia-ml.so.1: what cuda.json says about GPUs and links, in NVML's words. It knows no memory of the run. */
#include "sim/nvml/nvml_api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/config.h"

#define LINKS 18
#define CAPS 5
#define LINK_GENERATION 4
#define FIELD_SPEED_COMMON 90 /* MB/s of each link */
#define FIELD_RECOVERY 230     /* what the driver wants done with the GPU */
#define FIELD_ERRORS 161       /* of the link in scope: replay, recovery, CRC */
#define FIELD_ERROR_KINDS 3
#define ERROR_COUNTERS 4       /* the last nvmlNvLinkErrorCounter_t */
#define TYPE_UNSIGNED 1
#define TYPE_UNSIGNED_LONG_LONG 3

struct sim_nvml_device {
	struct sim_gpu gpu; /* the handle is the address of a GPU of the configuration */
};

static struct sim_config config;
static int state; /* 0 not read, 1 good, 2 bad */
static int users;
static int64_t pcie_looks[P2S_MAX_GPUS];
static int64_t link_looks[P2S_MAX_GPUS];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void block_if_told(void)
{
	while (state == 1 && config.nvml.hang)
		pause();
}

static int ready(void)
{
	block_if_told();
	return users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

/* Index of the GPU, or -1 with the result in *rc. */
static int gpu_of(nvmlDevice_t device, int *rc)
{
	int i;

	*rc = ready();
	if (*rc)
		return -1;
	*rc = NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; i < config.gpu_count; i++) {
		if ((void *)device == (void *)&config.gpus[i]) {
			*rc = NVML_SUCCESS;
			return i;
		}
	}
	return -1;
}

/* Where a link of a GPU leads: links are numbered through, peer by peer. -1: nowhere. */
static int link_peer(int gpu, unsigned link)
{
	unsigned n = 0;
	int peer;

	for (peer = 0; peer < config.gpu_count; peer++) {
		const struct sim_link *l = &config.links[gpu][peer];

		if (peer == gpu || !l->nvlink)
			continue;
		n += (unsigned)l->nvlinks;
		if (link < n && link < LINKS)
			return peer;
	}
	return -1;
}

static int put_text(char *out, unsigned bytes, const char *text)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= bytes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(out, text, strlen(text) + 1);
	return NVML_SUCCESS;
}

static int put_pci(struct nvml_pci *pci, int gpu)
{
	const struct p2psafe_bdf *b = &config.gpus[gpu].bdf;

	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof(*pci));
	pci->domain = b->domain;
	pci->bus = b->bus;
	pci->device = b->device;
	snprintf(pci->legacy, sizeof(pci->legacy), "%04X:%02X:%02X.0", b->domain & 0xffff, b->bus, b->device);
	snprintf(pci->address, sizeof(pci->address), "%08X:%02X:%02X.0", b->domain, b->bus, b->device);
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlInit_v2(void)
{
	const char *dir = getenv("P2PSAFE_SIM_HOST");
	char err[400];
	int rc;

	pthread_mutex_lock(&guard);
	if (!state)
		state = dir && dir[0] && sim_config_load(&config, dir, err, sizeof(err)) ? 1 : 2;
	rc = state != 1 ? NVML_ERROR_UNKNOWN : config.nvml.available ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
	if (!rc)
		users++;
	pthread_mutex_unlock(&guard);
	block_if_told();
	return rc;
}

P2S_EXPORT int nvmlShutdown(void)
{
	int rc = ready();

	pthread_mutex_lock(&guard);
	if (!rc)
		users--;
	pthread_mutex_unlock(&guard);
	return rc;
}

P2S_EXPORT const char *nvmlErrorString(int result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "The operation was successful";
	case NVML_ERROR_UNINITIALIZED:
		return "NVML was not first initialized with nvmlInit()";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "A supplied argument is invalid";
	case NVML_ERROR_NOT_SUPPORTED:
		return "The requested operation is not available on target device";
	case NVML_ERROR_NOT_FOUND:
		return "A query to find an object was unsuccessful";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "An input argument is not large enough";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "NVIDIA driver is not loaded";
	default:
		return "An internal driver error occurred";
	}
}

P2S_EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
	const char *dir = getenv("P2PSAFE_SIM_HOST");
	char path[4200], version[80] = "";
	FILE *f;
	int rc = ready(), n;

	if (rc)
		return rc;
	n = snprintf(path, sizeof(path), "%s/root/sys/module/nvidia/version", dir ? dir : "");
	f = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
	if (!f)
		return NVML_ERROR_UNKNOWN;
	if (!fgets(version, sizeof(version), f))
		version[0] = 0;
	fclose(f);
	version[strcspn(version, "\n")] = 0;
	return version[0] ? put_text(text, bytes, version) : NVML_ERROR_UNKNOWN;
}

P2S_EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
	int rc = ready();

	if (!rc && !count)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*count = (unsigned)config.gpu_count;
	return rc;
}

static int put_handle(int gpu, nvmlDevice_t *device)
{
	if (!device)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = (struct sim_nvml_device *)(void *)&config.gpus[gpu];
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	int rc = ready();

	if (rc)
		return rc;
	return index < (unsigned)config.gpu_count ? put_handle((int)index, device) : NVML_ERROR_INVALID_ARGUMENT;
}

P2S_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
	int rc = ready(), gpu;

	if (rc)
		return rc;
	if (!address)
		return NVML_ERROR_INVALID_ARGUMENT;
	gpu = sim_config_gpu(&config, address);
	return gpu < 0 ? NVML_ERROR_NOT_FOUND : put_handle(gpu, device);
}

P2S_EXPORT int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned bytes)
{
	int rc, gpu = gpu_of(device, &rc);

	return rc ? rc : put_text(text, bytes, config.gpus[gpu].uuid);
}

P2S_EXPORT int nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned bytes)
{
	int rc, gpu = gpu_of(device, &rc);

	return rc ? rc : put_text(text, bytes, config.gpus[gpu].name);
}

/* As the driver's own file of the tree has it. */
P2S_EXPORT int nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text, unsigned bytes)
{
	const char *dir = getenv("P2PSAFE_SIM_HOST");
	char path[4200], line[200], version[80] = "";
	int rc, gpu = gpu_of(device, &rc), n;
	FILE *f;

	if (rc)
		return rc;
	n = snprintf(path, sizeof(path), "%s/root/proc/driver/nvidia/gpus/%s/information", dir ? dir : "", config.gpus[gpu].address);
	f = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
	if (!f)
		return NVML_ERROR_NOT_SUPPORTED;
	while (!version[0] && fgets(line, sizeof(line), f))
		(void)sscanf(line, "Video BIOS: %79s", version);
	fclose(f);
	return version[0] ? put_text(text, bytes, version) : NVML_ERROR_NOT_SUPPORTED;
}

P2S_EXPORT int nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
	int rc, gpu = gpu_of(device, &rc);

	if (!rc && !minor)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*minor = (unsigned)config.gpus[gpu].minor;
	return rc;
}

P2S_EXPORT int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci)
{
	int rc, gpu = gpu_of(device, &rc);

	return rc ? rc : put_pci(pci, gpu);
}

P2S_EXPORT int nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *status)
{
	int rc, src = gpu_of(a, &rc), dst;

	if (rc)
		return rc;
	dst = gpu_of(b, &rc);
	if (rc)
		return rc;
	if (src == dst || index < 0 || index >= CAPS || !status)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = config.nvml.p2p[index];
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active)
{
	int rc, gpu = gpu_of(device, &rc);

	if (rc)
		return rc;
	if (!active || link >= LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (link_peer(gpu, 0) < 0)
		return NVML_ERROR_NOT_SUPPORTED; /* a GPU without links */
	*active = link_peer(gpu, link) >= 0;
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version)
{
	int rc, gpu = gpu_of(device, &rc);

	if (rc)
		return rc;
	if (!version || link >= LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (link_peer(gpu, link) < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*version = LINK_GENERATION;
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, struct nvml_pci *pci)
{
	int rc, gpu = gpu_of(device, &rc), peer;

	if (rc)
		return rc;
	if (link >= LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	peer = link_peer(gpu, link);
	return peer < 0 ? NVML_ERROR_NOT_SUPPORTED : put_pci(pci, peer);
}

/* All errors are of the first kind, on the first link; each look sees more of them where cuda.json says so. */
static unsigned long long errors_of(int gpu, unsigned link, int kind)
{
	if (link || kind)
		return 0;
	return (unsigned long long)(config.nvml.nvlink_errors + config.nvml.nvlink_errors_step * link_looks[gpu]++);
}

P2S_EXPORT int nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *replays)
{
	int rc, gpu = gpu_of(device, &rc);

	if (!rc && !replays)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*replays = (unsigned)(config.nvml.pcie_replays + config.nvml.pcie_replays_step * pcie_looks[gpu]++);
	return rc;
}

P2S_EXPORT int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter, unsigned long long *errors)
{
	int rc, gpu = gpu_of(device, &rc);

	if (rc)
		return rc;
	if (!errors || link >= LINKS || counter < 0 || counter > ERROR_COUNTERS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (link_peer(gpu, link) < 0 || !config.nvml.old_counters)
		return NVML_ERROR_NOT_SUPPORTED;
	*errors = errors_of(gpu, link, counter);
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct nvml_value *values)
{
	int rc, gpu = gpu_of(device, &rc), i;

	if (rc)
		return rc;
	if (count < 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++) {
		values[i].timestamp = values[i].latency_us = 0;
		values[i].result = NVML_ERROR_NOT_SUPPORTED;
		if (values[i].field >= FIELD_ERRORS && values[i].field < FIELD_ERRORS + FIELD_ERROR_KINDS && !config.nvml.old_counters &&
		    link_peer(gpu, values[i].scope) >= 0) {
			values[i].type = TYPE_UNSIGNED_LONG_LONG;
			values[i].value.ull = errors_of(gpu, values[i].scope, (int)(values[i].field - FIELD_ERRORS));
			values[i].result = NVML_SUCCESS;
			continue;
		}
		if (values[i].field == FIELD_RECOVERY) {
			values[i].type = TYPE_UNSIGNED;
			values[i].value.ull = 0;
			values[i].value.ui = (unsigned)config.gpus[gpu].recovery_action;
			values[i].result = NVML_SUCCESS;
			continue;
		}
		if (values[i].field != FIELD_SPEED_COMMON || link_peer(gpu, 0) < 0 || !config.nvml.link_bytes_per_s)
			continue;
		values[i].type = TYPE_UNSIGNED;
		values[i].value.ull = 0;
		values[i].value.ui = (unsigned)(config.nvml.link_bytes_per_s / 1000000);
		values[i].result = NVML_SUCCESS;
	}
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending)
{
	int rc, gpu = gpu_of(device, &rc);

	if (rc)
		return rc;
	if (!now || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	*now = *pending = (unsigned)config.gpus[gpu].mig;
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
	int rc, gpu = gpu_of(device, &rc);

	if (!rc && !mode)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*mode = (int)config.gpus[gpu].compute_mode;
	return rc;
}

static int put_int(nvmlDevice_t device, int *out, int64_t (*what)(const struct sim_gpu *g))
{
	int rc, gpu = gpu_of(device, &rc);

	if (!rc && !out)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc)
		*out = (int)what(&config.gpus[gpu]);
	return rc;
}

static int64_t virtualization(const struct sim_gpu *g)
{
	return g->vgpu ? 2 : 0; /* NVML_GPU_VIRTUALIZATION_MODE_VGPU */
}

static int64_t persistence(const struct sim_gpu *g)
{
	return g->persistence;
}

static int64_t display_active(const struct sim_gpu *g)
{
	return g->display_active;
}

P2S_EXPORT int nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, int *mode)
{
	return put_int(device, mode, virtualization);
}

P2S_EXPORT int nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
	return put_int(device, mode, persistence);
}

P2S_EXPORT int nvmlDeviceGetDisplayActive(nvmlDevice_t device, int *active)
{
	return put_int(device, active, display_active);
}

P2S_EXPORT int nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, struct nvml_fabric *fabric)
{
	int rc, gpu = gpu_of(device, &rc);

	if (!rc && !fabric)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc) {
		memset(fabric, 0, sizeof(*fabric));
		fabric->state = (unsigned char)config.gpus[gpu].fabric_state;
		fabric->status = (int)config.gpus[gpu].fabric_status;
	}
	return rc;
}

P2S_EXPORT int nvmlSystemGetConfComputeState(struct nvml_confidential *out)
{
	int rc = ready();

	if (!rc && !out)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (!rc) {
		memset(out, 0, sizeof(*out));
		out->feature = (unsigned)config.nvml.confidential;
	}
	return rc;
}

/* The processes of the run itself are not told, only those that cuda.json names. */
static int put_processes(nvmlDevice_t device, unsigned *count, struct nvml_process *processes, int of_mps)
{
	int rc, gpu = gpu_of(device, &rc), n, i;

	if (!rc && !count)
		rc = NVML_ERROR_INVALID_ARGUMENT;
	if (rc)
		return rc;
	n = of_mps ? (config.gpus[gpu].mps != 0) : config.gpus[gpu].process_count;
	if (*count < (unsigned)n) {
		*count = (unsigned)n;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*count = (unsigned)n;
	for (i = 0; i < n; i++) {
		memset(&processes[i], 0, sizeof(processes[i]));
		processes[i].pid = of_mps ? 1 : (unsigned)config.gpus[gpu].process[i].pid;
	}
	return NVML_SUCCESS;
}

P2S_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, struct nvml_process *processes)
{
	return put_processes(device, count, processes, 0);
}

P2S_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, struct nvml_process *processes)
{
	return put_processes(device, count, processes, 1);
}

P2S_EXPORT int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned bytes)
{
	int rc = ready(), g, i;

	if (rc)
		return rc;
	for (g = 0; g < config.gpu_count; g++)
		for (i = 0; i < config.gpus[g].process_count; i++)
			if (config.gpus[g].process[i].pid == (int64_t)pid)
				return put_text(name, bytes, config.gpus[g].process[i].name);
	return NVML_ERROR_NOT_FOUND;
}
