/* The part of the CUDA driver API that the helper uses, declared here: no vendor header is needed to build. Values and
 * layouts are those of the public driver API since 12.0; tests/helper/worker_abi.c compares every one of them with the
 * vendor's cuda.h where that is installed. Names keep the vendor's spelling after P2S_ or in lower case, so that no clash can
 * occur when both are included. */
#ifndef P2S_HELPER_CUDA_ABI_H
#define P2S_HELPER_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t p2s_curesult; /* CUresult */
typedef int32_t p2s_cudevice; /* CUdevice */
typedef int32_t p2s_cuenum;   /* any enumeration argument */
typedef uint64_t p2s_cuptr;   /* CUdeviceptr */
typedef uint64_t p2s_cumem;   /* CUmemGenericAllocationHandle */
typedef struct p2s_cuctx_st *p2s_cuctx;
typedef struct p2s_cumodule_st *p2s_cumodule;
typedef struct p2s_cufunction_st *p2s_cufunction;
typedef struct p2s_custream_st *p2s_custream;
typedef struct p2s_cuevent_st *p2s_cuevent;

struct p2s_cuuuid { /* CUuuid */
	char bytes[16];
};

struct p2s_cuipc { /* CUipcMemHandle: passed by value */
	char reserved[64];
};

struct p2s_culocation { /* CUmemLocation */
	int32_t type;
	int32_t id;
};

struct p2s_cuprop { /* CUmemAllocationProp */
	int32_t type;
	int32_t requested_handle_types;
	struct p2s_culocation location;
	void *win32_handle_meta_data;
	struct {
		unsigned char compression_type;
		unsigned char gpu_direct_rdma_capable;
		unsigned short usage;
		unsigned char reserved[4];
	} alloc_flags;
};

struct p2s_cuaccess { /* CUmemAccessDesc */
	struct p2s_culocation location;
	int32_t flags;
};

/* P2S_CU_CONST(our suffix, value, vendor's name) */
#define P2S_CU_CONSTANTS(X)                                                       \
	X(SUCCESS, 0, CUDA_SUCCESS)                                                   \
	X(ERROR_INVALID_VALUE, 1, CUDA_ERROR_INVALID_VALUE)                           \
	X(ERROR_OUT_OF_MEMORY, 2, CUDA_ERROR_OUT_OF_MEMORY)                           \
	X(ERROR_NO_DEVICE, 100, CUDA_ERROR_NO_DEVICE)                                 \
	X(ERROR_INVALID_DEVICE, 101, CUDA_ERROR_INVALID_DEVICE)                       \
	X(ERROR_ECC_UNCORRECTABLE, 214, CUDA_ERROR_ECC_UNCORRECTABLE)                 \
	X(ERROR_NVLINK_UNCORRECTABLE, 220, CUDA_ERROR_NVLINK_UNCORRECTABLE)           \
	X(ERROR_NOT_READY, 600, CUDA_ERROR_NOT_READY)                                 \
	X(ERROR_ILLEGAL_ADDRESS, 700, CUDA_ERROR_ILLEGAL_ADDRESS)                     \
	X(ERROR_LAUNCH_TIMEOUT, 702, CUDA_ERROR_LAUNCH_TIMEOUT)                       \
	X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
	X(ERROR_CONTEXT_IS_DESTROYED, 709, CUDA_ERROR_CONTEXT_IS_DESTROYED)           \
	X(ERROR_ASSERT, 710, CUDA_ERROR_ASSERT)                                       \
	X(ERROR_LAUNCH_FAILED, 719, CUDA_ERROR_LAUNCH_FAILED)                         \
	X(ERROR_UNKNOWN, 999, CUDA_ERROR_UNKNOWN)                                     \
	X(ATTR_MULTIPROCESSOR_COUNT, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)    \
	X(ATTR_INTEGRATED, 18, CU_DEVICE_ATTRIBUTE_INTEGRATED)                        \
	X(ATTR_COMPUTE_MODE, 20, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)                    \
	X(ATTR_CC_MAJOR, 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)            \
	X(ATTR_CC_MINOR, 76, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)            \
	X(ATTR_VMM, 102, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)     \
	X(ATTR_POSIX_FD, 103, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) \
	X(ATTR_RDMA_VMM, 110, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) \
	X(P2P_ACCESS, 2, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)                    \
	X(P2P_NATIVE_ATOMIC, 3, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)      \
	X(JIT_INFO_LOG_BUFFER, 3, CU_JIT_INFO_LOG_BUFFER)                             \
	X(JIT_ERROR_LOG_BUFFER, 5, CU_JIT_ERROR_LOG_BUFFER)                           \
	X(JIT_ERROR_LOG_BUFFER_SIZE, 6, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)           \
	X(STREAM_NON_BLOCKING, 1, CU_STREAM_NON_BLOCKING)                             \
	X(EVENT_DEFAULT, 0, CU_EVENT_DEFAULT)                                         \
	X(HOST_ALLOC_PORTABLE, 1, CU_MEMHOSTALLOC_PORTABLE)                           \
	X(HOST_ALLOC_DEVICEMAP, 2, CU_MEMHOSTALLOC_DEVICEMAP)                         \
	X(HOST_REGISTER_PORTABLE, 1, CU_MEMHOSTREGISTER_PORTABLE)                     \
	X(HOST_REGISTER_DEVICEMAP, 2, CU_MEMHOSTREGISTER_DEVICEMAP)                   \
	X(IPC_LAZY_PEER_ACCESS, 1, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                \
	X(ALLOC_PINNED, 1, CU_MEM_ALLOCATION_TYPE_PINNED)                             \
	X(HANDLE_POSIX_FD, 1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)               \
	X(LOCATION_DEVICE, 1, CU_MEM_LOCATION_TYPE_DEVICE)                            \
	X(ACCESS_READWRITE, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)                    \
	X(GRANULARITY_RECOMMENDED, 1, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)

#define P2S_CU_ENUM(id, value, vendor) P2S_CU_##id = (value),
enum { P2S_CU_CONSTANTS(P2S_CU_ENUM) P2S_CU_END = 1000 };
#undef P2S_CU_ENUM

#define P2S_CU_API_FLOOR 12000 /* driver API 12.0 */

/* Since API 12.2; an older driver refuses it, and the node is unknown. */
#define P2S_CU_ATTR_HOST_NUMA_ID 134

#endif
