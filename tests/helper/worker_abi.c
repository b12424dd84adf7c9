/* Compares the helper's own declarations of the driver API with the vendor's header: layouts, constants, and the arguments of
 * every function of cuda_syms.def. Built only where cuda.h is installed; elsewhere it skips. */
#include <stdio.h>

#if __has_include(<cuda.h>)
#define __CUDA_API_VERSION_INTERNAL /* declare every version under its exported name */
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "helper/cuda_abi.h"
#include "helper/ops.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_MEMBER(ours, om, theirs, tm)                                                                                      \
	_Static_assert(offsetof(ours, om) == offsetof(theirs, tm) && sizeof(((ours *)0)->om) == sizeof(((theirs *)0)->tm),         \
				   #theirs "." #tm)

SAME_SIZE(p2s_curesult, CUresult);
SAME_SIZE(p2s_cudevice, CUdevice);
SAME_SIZE(p2s_cuptr, CUdeviceptr);
SAME_SIZE(p2s_cumem, CUmemGenericAllocationHandle);
SAME_SIZE(p2s_cuctx, CUcontext);
SAME_SIZE(struct p2s_cuuuid, CUuuid);
SAME_SIZE(struct p2s_cuipc, CUipcMemHandle);
SAME_SIZE(struct p2s_culocation, CUmemLocation);
SAME_MEMBER(struct p2s_culocation, type, CUmemLocation, type);
SAME_MEMBER(struct p2s_culocation, id, CUmemLocation, id);
SAME_SIZE(struct p2s_cuprop, CUmemAllocationProp);
SAME_MEMBER(struct p2s_cuprop, type, CUmemAllocationProp, type);
SAME_MEMBER(struct p2s_cuprop, requested_handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_MEMBER(struct p2s_cuprop, location, CUmemAllocationProp, location);
SAME_MEMBER(struct p2s_cuprop, win32_handle_meta_data, CUmemAllocationProp, win32HandleMetaData);
SAME_MEMBER(struct p2s_cuprop, alloc_flags.compression_type, CUmemAllocationProp, allocFlags.compressionType);
SAME_MEMBER(struct p2s_cuprop, alloc_flags.gpu_direct_rdma_capable, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_MEMBER(struct p2s_cuprop, alloc_flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_SIZE(struct p2s_cuaccess, CUmemAccessDesc);
SAME_MEMBER(struct p2s_cuaccess, location, CUmemAccessDesc, location);
SAME_MEMBER(struct p2s_cuaccess, flags, CUmemAccessDesc, flags);

#define CONSTANT(id, value, vendor) _Static_assert((value) == (int)(vendor), #vendor);
P2S_CU_CONSTANTS(CONSTANT)
#if CUDA_VERSION >= 12020
_Static_assert(P2S_CU_ATTR_HOST_NUMA_ID == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, "since API 12.2");
#endif
_Static_assert(CUDA_VERSION >= P2S_CU_API_FLOOR, "the header is older than the floor");

/* Every function: the argument list of the table, with our type names standing for the vendor's, must be compatible with
 * the vendor's prototype. Enumerations are compatible with unsigned int in every compiler of this platform. */
#define p2s_curesult CUresult
#define p2s_cuenum unsigned int
#define p2s_cudevice CUdevice
#define p2s_cuptr CUdeviceptr
#define p2s_cumem CUmemGenericAllocationHandle
#define p2s_cuctx CUcontext
#define p2s_cumodule CUmodule
#define p2s_cufunction CUfunction
#define p2s_custream CUstream
#define p2s_cuevent CUevent
#define p2s_cuuuid CUuuid_st
#define p2s_cuipc CUipcMemHandle_st
#define p2s_cuprop CUmemAllocationProp_st
#define p2s_cuaccess CUmemAccessDesc_st
#define P2S_CU_SYM(name, args, feature) _Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult args), #name);
#include "helper/cuda_syms.def"
#undef P2S_CU_SYM

int main(void)
{
	printf("compared with cuda.h of API %d\n", CUDA_VERSION);
	return 0;
}
#else
int main(void)
{
	printf("cuda.h is not installed\n");
	return 77;
}
#endif
