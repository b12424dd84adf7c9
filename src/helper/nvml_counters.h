/* Error counters as the driver keeps them: PCIe replays and NVLink errors, before and after a test. */
#ifndef P2S_HELPER_NVML_COUNTERS_H
#define P2S_HELPER_NVML_COUNTERS_H

#include <stdint.h>

#include "helper/nvml_abi.h"

struct p2s_nvml_counters { /* functions; NULL: this library has none */
	int (*pcie_replays)(nvml_device, unsigned *);
	int (*link_errors)(nvml_device, unsigned link, int counter, unsigned long long *);
	int (*fields)(nvml_device, int, struct nvml_field *);
};

void p2s_nvml_counters_load(struct p2s_nvml_counters *c, void *library);
/* Sends what can be read of GPU number gpu; after: 0 before the test, 1 behind it. active[NVML_LINKS]: its links that are up. */
void p2s_nvml_counters_send(const struct p2s_nvml_counters *c, int sock, uint32_t gpu, nvml_device device, const int *active, int after);

#endif
