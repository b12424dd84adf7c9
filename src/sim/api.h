/* Everything that the simulated libcuda.so.1 exports. Names are the driver's exported ones. */
#ifndef P2S_SIM_API_H
#define P2S_SIM_API_H

#include "sim/cu.h"

/* 1 if the simulated host's driver lacks this function: a loader treats it as not found. Not a driver name. */
int p2psafe_sim_missing(const char *name);

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *dev, int ordinal);
CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
CUresult cuDeviceGetUuid_v2(struct cu_uuid *uuid, CUdevice dev);
CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev);
CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *text);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev);
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxGetCurrent(CUcontext *ctx);
CUresult cuCtxGetDevice(CUdevice *dev);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice src, CUdevice dst);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr ptr);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void *p);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags);
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *p);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr);
CUresult cuIpcGetMemHandle(struct cu_ipc_handle *out, CUdeviceptr ptr);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, struct cu_ipc_handle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);

CUresult cuMemCreate(CUmemHandle *out, size_t bytes, const struct cu_alloc_prop *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemHandle handle);
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t bytes);
CUresult cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr ptr, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const struct cu_access_desc *desc, size_t count);
CUresult cuMemExportToShareableHandle(void *out, CUmemHandle handle, int type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemHandle *out, void *os_handle, int type);
CUresult cuMemGetAllocationGranularity(size_t *out, const struct cu_alloc_prop *prop, int option);

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value, unsigned flags);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,
	CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream);
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream);

CUresult cuStreamCreate(CUstream *out, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventCreate(CUevent *out, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, int *options, void **values);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, CUstream stream, void **params, void **extra);

CUresult cuGetErrorName(CUresult error, const char **out);
CUresult cuGetErrorString(CUresult error, const char **out);

#endif
