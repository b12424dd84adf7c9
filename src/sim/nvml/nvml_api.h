/* The part of NVML that the simulated libnvidia-ml.so.1 implements: own declarations, from the vendor's documentation. */
#ifndef P2S_SIM_NVML_API_H
#define P2S_SIM_NVML_API_H

#include <stdint.h>

#define P2S_EXPORT __attribute__((visibility("default")))

typedef struct sim_nvml_device *nvmlDevice_t;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_UNKNOWN = 999
};

struct nvml_pci {
	char legacy[16];
	unsigned domain;
	unsigned bus;
	unsigned device;
	unsigned device_id;
	unsigned subsystem_id;
	char address[32];
};

struct nvml_value {
	unsigned field;
	unsigned scope;
	long long timestamp;
	long long latency_us;
	int type; /* 1 unsigned int */
	int result;
	union {
		double d;
		unsigned ui;
		unsigned long long ull;
	} value;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance;
	unsigned compute_instance;
};

struct nvml_fabric { /* nvmlGpuFabricInfo_t */
	unsigned char cluster[16];
	int status;
	unsigned clique;
	unsigned char state;
};

struct nvml_confidential { /* nvmlConfComputeSystemState_t */
	unsigned environment;
	unsigned feature;
	unsigned developer_tools;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char *text, unsigned bytes);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned bytes);
int nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned bytes);
int nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *text, unsigned bytes);
int nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor);
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci);
int nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int index, int *status);
int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *active);
int nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, struct nvml_pci *pci);
int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct nvml_value *values);
int nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *replays);
int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter, unsigned long long *errors);
int nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *pending);
int nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, struct nvml_process *processes);
int nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, struct nvml_process *processes);
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned bytes);
int nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, int *mode);
int nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode);
int nvmlDeviceGetDisplayActive(nvmlDevice_t device, int *active);
int nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, struct nvml_fabric *fabric);
int nvmlSystemGetConfComputeState(struct nvml_confidential *out);

#endif
