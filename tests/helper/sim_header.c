/* The vendor's header, where it is installed, and our own declarations agree: numbers, layouts, and every exported
 * signature. */
#include <cuda.h>

#include <stdio.h>

/* Own names of the same things, with other spellings of the types. */
#define CUresult sim_result
#define CUdevice sim_dev
#define CUdeviceptr sim_ptr
#define CUmemHandle sim_mem_handle
#define CUcontext sim_ctx
#define CUstream sim_stream_handle
#define CUevent sim_event_handle
#define CUmodule sim_module_handle
#define CUfunction sim_function_handle
#include "sim/cu.h"

/* S(own number, vendor's number) */
#define NUMBERS(S)                                                       \
	S(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)                    \
	S(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)                    \
	S(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)                \
	S(CU_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE)          \
	S(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE)                            \
	S(CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE)                  \
	S(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)                \
	S(CU_PEER_UNSUPPORTED, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)       \
	S(CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX)                        \
	S(CU_NO_JIT, CUDA_ERROR_JIT_COMPILER_NOT_FOUND)                  \
	S(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE)                  \
	S(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND)                            \
	S(CU_NOT_READY, CUDA_ERROR_NOT_READY)                            \
	S(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)                \
	S(CU_PEER_ALREADY, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)       \
	S(CU_PEER_NOT_ENABLED, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)       \
	S(CU_HOST_ALREADY, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)    \
	S(CU_HOST_NOT, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)            \
	S(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)                    \
	S(CU_UNKNOWN, CUDA_ERROR_UNKNOWN)                                \
	S(CU_ATTR_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)    \
	S(CU_ATTR_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED)            \
	S(CU_ATTR_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)        \
	S(CU_ATTR_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)               \
	S(CU_ATTR_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)         \
	S(CU_ATTR_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)         \
	S(CU_ATTR_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) \
	S(CU_ATTR_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) \
	S(CU_ATTR_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
	S(CU_ATTR_POSIX_FD, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) \
	S(CU_ATTR_GDR_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) \
	S(CU_ATTR_GDR, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)    \
	S(CU_ATTR_HOST_POINTER, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) \
	S(CU_P2P_RANK, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)         \
	S(CU_P2P_ACCESS, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)       \
	S(CU_P2P_ATOMICS, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) \
	S(CU_POINTER_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)       \
	S(CU_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) \
	S(CU_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE)        \
	S(CU_MEMORY_HOST, CU_MEMORYTYPE_HOST)                            \
	S(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE)                        \
	S(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE)               \
	S(CU_ALLOC_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED)                \
	S(CU_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)        \
	S(CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)       \
	S(CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER)                     \
	S(CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)

#define SAME(own, vendor) _Static_assert((int)(own) == (int)(vendor), #own);
NUMBERS(SAME)

_Static_assert(sizeof(struct cu_uuid) == sizeof(CUuuid), "uuid");
_Static_assert(sizeof(struct cu_ipc_handle) == sizeof(CUipcMemHandle), "IPC handle");
_Static_assert(sizeof(struct cu_alloc_prop) == sizeof(CUmemAllocationProp), "allocation properties");
_Static_assert(offsetof(struct cu_alloc_prop, location) == offsetof(CUmemAllocationProp, location), "location");
_Static_assert(offsetof(struct cu_alloc_prop, win32) == offsetof(CUmemAllocationProp, win32HandleMetaData), "win32");
_Static_assert(offsetof(struct cu_alloc_prop, flags.gdr) == offsetof(CUmemAllocationProp,
	allocFlags.gpuDirectRDMACapable), "gdr");
_Static_assert(sizeof(struct cu_access_desc) == sizeof(CUmemAccessDesc), "access");
_Static_assert(offsetof(struct cu_access_desc, flags) == offsetof(CUmemAccessDesc, flags), "access flags");

int main(void)
{
	int n = 0;

#define COUNT_ONE(own, vendor) n++;
	NUMBERS(COUNT_ONE)
	printf("%d numbers and 8 layouts are the vendor's (driver API %d)\n", n, CUDA_VERSION);
	return 0;
}
