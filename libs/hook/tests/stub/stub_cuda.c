/* The smallest libcuda.so.1 that the hook runs on: one card, calls of a few nanoseconds. For unit
 * tests and as the bare baseline of the benchmarks; for anything true to the driver see sim/. */
#include <string.h>

#include "cuda_abi.h"

static size_t used;
static const size_t total = (size_t)80 << 30;
static CUdeviceptr next_pointer = 0x7000000000;
static unsigned long long launches;
static int context;

#define CTX ((CUcontext)&context)
#define OK(symbol, params, body)            \
    CUresult symbol params {                \
        body;                               \
        return CUDA_SUCCESS;                \
    }

OK(cuInit, (unsigned int flags), (void)flags)
OK(cuDriverGetVersion, (int *version), *version = 12080)
OK(cuDeviceGet, (CUdevice *device, int ordinal), *device = ordinal)
OK(cuDeviceGetCount, (int *count), *count = 1)
OK(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice dev), ((void)dev, *bytes = total))
OK(cuCtxGetCurrent, (CUcontext *ctx), *ctx = CTX)
OK(cuCtxSetCurrent, (CUcontext ctx), (void)ctx)
OK(cuCtxGetDevice, (CUdevice *dev), *dev = 0)
OK(cuCtxSynchronize, (void), (void)0)
OK(cuDevicePrimaryCtxRetain, (CUcontext *ctx, CUdevice dev), ((void)dev, *ctx = CTX))
OK(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (void)dev)
OK(cuMemGetInfo_v2, (size_t *free_bytes, size_t *all), (*free_bytes = total - used, *all = total))
OK(cuMemFree_v2, (CUdeviceptr dptr), (void)dptr)
OK(cuStreamIsCapturing, (CUstream s, CUstreamCaptureStatus *status), ((void)s, *status = CU_STREAM_CAPTURE_STATUS_NONE))
OK(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), (void)mode)
OK(cuEventCreate, (CUevent *event, unsigned int flags), ((void)flags, *event = (CUevent)&context))
OK(cuEventRecord, (CUevent event, CUstream stream), ((void)event, (void)stream))
OK(cuEventQuery, (CUevent event), (void)event)
OK(cuEventElapsedTime, (float *ms, CUevent a, CUevent b), ((void)a, (void)b, *ms = 0.005f))
OK(cuModuleGetFunction, (CUfunction *f, CUmodule m, const char *n), ((void)m, (void)n, *f = (CUfunction)&launches))

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    for (int b = 0; b < 16; b++)
        uuid->bytes[b] = (char)(b ? 0x51 * (b + 1) + 29 * dev : dev);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    *dptr = __atomic_fetch_add(&next_pointer, bytes + 512, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    (void)params, (void)extra;
    launches++;
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    void *address;
} names[] = {{"cuInit", (void *)cuInit}, {"cuMemAlloc", (void *)cuMemAlloc_v2}, {"cuMemFree", (void *)cuMemFree_v2},
             {"cuMemGetInfo", (void *)cuMemGetInfo_v2}, {"cuLaunchKernel", (void *)cuLaunchKernel}};

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    (void)version, (void)flags;
    *pfn = !strcmp(symbol, "cuGetProcAddress") ? (void *)cuGetProcAddress_v2 : NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !*pfn; i++)
        if (!strcmp(names[i].name, symbol))
            *pfn = names[i].address;
    if (status)
        *status = *pfn ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
