/* A CUDA runtime library of our own, over the driver: enough of libcudart.so.13 for PyTorch, and for the simulated driver, on which NVIDIA's own
 * stops at its integrity check. Written from ABI facts; the functions are those that PyTorch's libraries import. It reaches the driver
 * as NVIDIA's does: one dlsym, of cuGetProcAddress_v2, and everything else through that; the primary context through the driver's export
 * table. Not for use on a real card. */
#ifndef TESSERA_CUDART_H
#define TESSERA_CUDART_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda_abi.h"

#define API __attribute__((visibility("default")))
typedef int cudaError_t; /* the driver's numbers: since CUDA 10.1 the runtime has the same for what both can say */
enum { cudaSuccess = 0, cudaErrorInvalidDeviceFunction = 98, cudaErrorNotSupported = 801, CARDS = 16, VERSION = 13020 };

typedef struct {
    unsigned x, y, z;
} dim3;

/* The driver's functions that are used: ELF name (its type), the name that is asked for, the version of the ABI. */
#define DRIVER_FUNCTIONS(X)                                                     \
    X(cuInit, cuInit, 2000)                                                     \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020)                             \
    X(cuGetErrorString, cuGetErrorString, 6000)                                 \
    X(cuGetErrorName, cuGetErrorName, 6000)                                     \
    X(cuGetExportTable, cuGetExportTable, 3000)                                 \
    X(cuDeviceGet, cuDeviceGet, 2000)                                           \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000)                                 \
    X(cuDeviceGetName, cuDeviceGetName, 2000)                                   \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040)                               \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020)                              \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                         \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010)                           \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000)                       \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020)              \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040)        \
    X(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 11040)        \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000)               \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                   \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                   \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000)                                     \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000)                             \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050)           \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)                       \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020)                                      \
    X(cuMemAlloc_v2, cuMemAlloc, 3020)                                          \
    X(cuMemFree_v2, cuMemFree, 3020)                                            \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000)                               \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020)                                     \
    X(cuMemFreeHost, cuMemFreeHost, 2000)                                       \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050)                            \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000)                           \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020)                                  \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020)                                    \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020)                                  \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020)                      \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)                      \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020)                            \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000)                     \
    X(cuMemcpy, cuMemcpy, 4000)                                                 \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000)                                       \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020)                                \
    X(cuMemsetD8_v2, cuMemsetD8, 3020)                                          \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020)                                   \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010)                               \
    X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000)                         \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010)                           \
    X(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010)                           \
    X(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010)                         \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050)             \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000)                                \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000)                           \
    X(cuStreamQuery, cuStreamQuery, 2000)                                       \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020)                               \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050)                           \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000)                           \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000)                          \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010)                     \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030)          \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000)                            \
    X(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030)                 \
    X(cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies, 11030) \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010) \
    X(cuEventCreate, cuEventCreate, 2000)                                       \
    X(cuEventDestroy_v2, cuEventDestroy, 4000)                                  \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010)                    \
    X(cuEventQuery, cuEventQuery, 2000)                                         \
    X(cuEventSynchronize, cuEventSynchronize, 2000)                             \
    X(cuEventElapsedTime_v2, cuEventElapsedTime, 12080)                         \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000)                                \
    X(cuLaunchKernel, cuLaunchKernel, 4000)                                     \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                                \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)               \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000)                              \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000)                      \
    X(cuLibraryUnload, cuLibraryUnload, 12000)                                  \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000)                            \
    X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040)                  \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000)                            \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000)                          \
    X(cuKernelSetAttribute, cuKernelSetAttribute, 12000)                        \
    X(cuKernelGetAttribute, cuKernelGetAttribute, 12000)                        \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) \
    X(cuUserObjectCreate, cuUserObjectCreate, 11030)                            \
    X(cuUserObjectRelease, cuUserObjectRelease, 11030)                          \
    X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030)                  \
    X(cuGraphDestroy, cuGraphDestroy, 10000)                                    \
    X(cuGraphGetNodes, cuGraphGetNodes, 10000)                                  \
    X(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, 12030)         \
    X(cuGraphAddNode_v2, cuGraphAddNode, 12030)                                 \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)          \
    X(cuGraphLaunch, cuGraphLaunch, 10000)                                      \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000)

struct Driver {
    PFN_cuGetProcAddress_v2 look_up;
#define MEMBER(symbol, base, version) PFN_##symbol symbol;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
};
extern struct Driver driver;

cudaError_t rt_ready(void);              /* the driver is there and initialised */
cudaError_t rt_context(void);            /* and this thread has a context */
cudaError_t rt_kept(cudaError_t result); /* what cudaGetLastError will say */
int rt_device(void);                     /* that this thread has chosen */

/* A call that needs a context, a call that needs the driver only: the result is remembered when it is an error. */
#define WITH_CONTEXT(call)                          \
    do {                                            \
        cudaError_t r_ = rt_context();              \
        return rt_kept(r_ ? r_ : (cudaError_t)(call)); \
    } while (0)
#define WITH_DRIVER(call)                           \
    do {                                            \
        cudaError_t r_ = rt_ready();                \
        return rt_kept(r_ ? r_ : (cudaError_t)(call)); \
    } while (0)

#endif
