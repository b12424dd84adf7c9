/* The driver library, loaded at run time. Not linked: a machine without a driver must still get a report. */
#ifndef P2S_HELPER_CUDA_LOADER_H
#define P2S_HELPER_CUDA_LOADER_H

#include "helper/cuda_abi.h"
#include "helper/ops.h"

struct p2s_cuda {
#define P2S_CU_SYM(name, args, feature) p2s_curesult(*name) args;
#include "helper/cuda_syms.def"
#undef P2S_CU_SYM
	uint32_t missing;          /* P2S_FEATURE_* disabled by missing symbols */
	char missing_required[48]; /* first required symbol that is missing; "" none */
	int simulated;             /* this is the simulated driver */
	char error[160];           /* why the library did not load; "" it did */
};

/* Loads path (NULL: libcuda.so.1) and fills *cu. Returns 1 when every required symbol is there. 0: error or
 * missing_required say why. The library is never unloaded: drivers do not survive that. */
int p2s_cuda_load(struct p2s_cuda *cu, const char *path);

#endif
