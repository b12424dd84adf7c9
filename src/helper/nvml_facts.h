/* What NVML says about a GPU that decides whether it may be tested at all: MIG, vGPU, confidential mode, MPS, compute mode,
 * pending reset, who uses it; and what explains a result: persistence, display, fabric, links. */
#ifndef P2S_HELPER_NVML_FACTS_H
#define P2S_HELPER_NVML_FACTS_H

#include <stdint.h>

#include "core/model.h"

struct p2s_nvml_ask {
	void *library; /* of dlopen */
	int sock;      /* facts are sent here as they are read */
	const char *host_dir; /* "" this machine */
	uint32_t n;
	void *device[P2S_MAX_GPUS]; /* handles; NULL: not asked */
};

void p2s_nvml_facts(const struct p2s_nvml_ask *ask);

#endif
