/* The part of the driver API that the simulated libcuda.so.1 implements: own declarations, written from the vendor's
 * documentation of driver API 12. tests/helper/sim_header.c compares them with the vendor's header where that is installed. */
#ifndef P2S_SIM_CU_H
#define P2S_SIM_CU_H

#include <stddef.h>
#include <stdint.h>

#define P2S_EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemHandle;
typedef struct sim_context *CUcontext;
typedef struct sim_stream *CUstream;
typedef struct sim_event *CUevent;
typedef struct sim_module *CUmodule;
typedef struct sim_function *CUfunction;

struct cu_uuid {
	char bytes[16];
};

struct cu_ipc_handle {
	char reserved[64];
};

struct cu_location {
	int type;
	int id;
};

struct cu_alloc_prop {
	int type;
	int handle_types;
	struct cu_location location;
	void *win32;
	struct {
		unsigned char compression;
		unsigned char gdr;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
};

struct cu_access_desc {
	struct cu_location location;
	int flags;
};

enum {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NOT_INITIALIZED = 3,
	CU_DEVICE_UNAVAILABLE = 46,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_CONTEXT = 201,
	CU_PEER_UNSUPPORTED = 217,
	CU_INVALID_PTX = 218,
	CU_NO_JIT = 221,
	CU_INVALID_HANDLE = 400,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_PEER_ALREADY = 704,
	CU_PEER_NOT_ENABLED = 705,
	CU_HOST_ALREADY = 712,
	CU_HOST_NOT = 713,
	CU_NOT_SUPPORTED = 801,
	CU_UNKNOWN = 999
};

enum {
	CU_ATTR_MAX_THREADS = 1,
	CU_ATTR_SM_COUNT = 16,
	CU_ATTR_INTEGRATED = 18,
	CU_ATTR_HOST_NUMA_ID = 134,
	CU_ATTR_MAP_HOST = 19,
	CU_ATTR_COMPUTE_MODE = 20,
	CU_ATTR_CONCURRENT_KERNELS = 31,
	CU_ATTR_ECC = 32,
	CU_ATTR_PCI_BUS = 33,
	CU_ATTR_PCI_DEVICE = 34,
	CU_ATTR_COPY_ENGINES = 40,
	CU_ATTR_UNIFIED = 41,
	CU_ATTR_PCI_DOMAIN = 50,
	CU_ATTR_CC_MAJOR = 75,
	CU_ATTR_CC_MINOR = 76,
	CU_ATTR_HOST_ATOMICS = 86,
	CU_ATTR_HOST_POINTER = 91,
	CU_ATTR_HOST_REGISTER = 99,
	CU_ATTR_VMM = 102,
	CU_ATTR_POSIX_FD = 103,
	CU_ATTR_GDR_VMM = 110,
	CU_ATTR_GDR = 116
};

enum { CU_P2P_RANK = 1, CU_P2P_ACCESS = 2, CU_P2P_ATOMICS = 3, CU_P2P_ARRAYS = 4 };
enum { CU_POINTER_CONTEXT = 1, CU_POINTER_MEMORY_TYPE = 2, CU_POINTER_DEVICE = 3, CU_POINTER_HOST = 4, CU_POINTER_BUFFER_ID = 7,
       CU_POINTER_MANAGED = 8, CU_POINTER_ORDINAL = 9, CU_POINTER_IPC = 10, CU_POINTER_RANGE_START = 11,
       CU_POINTER_RANGE_SIZE = 12, CU_POINTER_MAPPED = 13 };
enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE = 2 };
enum { CU_LOCATION_DEVICE = 1, CU_ALLOC_PINNED = 1, CU_HANDLE_FD = 1, CU_ACCESS_READ = 1, CU_ACCESS_READWRITE = 3 };
enum { CU_JIT_ERROR_LOG = 5, CU_JIT_ERROR_LOG_BYTES = 6 };

#endif
