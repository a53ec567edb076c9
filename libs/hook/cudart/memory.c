/* Memory, pools, copies, and what a pointer is. */
#include <string.h>

#include "cudart.h"

typedef CUmemoryPool cudaMemPool_t;
typedef CUstream cudaStream_t;
struct cudaPointerAttributes {
    int type, device; /* type: 0 unknown, 1 host, 2 device, 3 managed */
    void *devicePointer, *hostPointer;
    long reserved[8];
};

#define P(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

API cudaError_t cudaMalloc(void **p, size_t bytes);
API cudaError_t cudaFree(void *p);
API cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned flags);
API cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
API cudaError_t cudaMallocHost(void **p, size_t bytes);
API cudaError_t cudaFreeHost(void *p);
API cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
API cudaError_t cudaHostUnregister(void *p);
API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
API cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream);
API cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value);
API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *value);
API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const CUmemAccessDesc *list, size_t count);
API cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, int kind);
API cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, cudaStream_t stream);
API cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes, cudaStream_t stream);
API cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, int kind, cudaStream_t stream);
API cudaError_t cudaMemset(void *p, int value, size_t bytes);
API cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p);
API cudaError_t cudaIpcGetMemHandle(CUipcMemHandle *handle, void *p);
API cudaError_t cudaIpcOpenMemHandle(void **p, CUipcMemHandle handle, unsigned flags);
API cudaError_t cudaIpcCloseMemHandle(void *p);

static cudaError_t into(void **p, cudaError_t r, CUdeviceptr got)
{
    if (!r)
        *p = (void *)(uintptr_t)got;
    return rt_kept(r);
}

/* Nothing asked for is nothing given, and no error. */
cudaError_t cudaMalloc(void **p, size_t bytes)
{
    CUdeviceptr got = 0;
    cudaError_t r = rt_context();
    if (!r && bytes)
        r = (cudaError_t)driver.cuMemAlloc_v2(&got, bytes);
    return into(p, r, got);
}

cudaError_t cudaFree(void *p) { WITH_CONTEXT(p ? driver.cuMemFree_v2(P(p)) : CUDA_SUCCESS); }

cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned flags)
{
    CUdeviceptr got = 0;
    cudaError_t r = rt_context();
    if (!r)
        r = (cudaError_t)driver.cuMemAllocManaged(&got, bytes, flags);
    return into(p, r, got);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) { WITH_CONTEXT(driver.cuMemHostAlloc(p, bytes, flags | CU_MEMHOSTALLOC_PORTABLE)); }
cudaError_t cudaMallocHost(void **p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
cudaError_t cudaFreeHost(void *p) { WITH_CONTEXT(driver.cuMemFreeHost(p)); }
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) { WITH_CONTEXT(driver.cuMemHostRegister_v2(p, bytes, flags)); }
cudaError_t cudaHostUnregister(void *p) { WITH_CONTEXT(driver.cuMemHostUnregister(p)); }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) { WITH_CONTEXT(driver.cuMemGetInfo_v2(free_bytes, total)); }

cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
    CUdeviceptr got = 0;
    cudaError_t r = rt_context();
    if (!r && bytes)
        r = (cudaError_t)driver.cuMemAllocAsync(&got, bytes, stream);
    return into(p, r, got);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream) { WITH_CONTEXT(p ? driver.cuMemFreeAsync(P(p), stream) : CUDA_SUCCESS); }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) { WITH_DRIVER(driver.cuDeviceGetDefaultMemPool(pool, device)); }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) { WITH_DRIVER(driver.cuMemPoolTrimTo(pool, keep)); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value) { WITH_DRIVER(driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value)); }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *value) { WITH_DRIVER(driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value)); }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const CUmemAccessDesc *list, size_t count) { WITH_DRIVER(driver.cuMemPoolSetAccess(pool, list, count)); }

/* Addresses say where they lie: the kind of a copy is not looked at. */
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
    (void)kind;
    WITH_CONTEXT(bytes ? driver.cuMemcpy(P(dst), P(src), bytes) : CUDA_SUCCESS);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, cudaStream_t stream)
{
    (void)kind;
    WITH_CONTEXT(bytes ? driver.cuMemcpyAsync(P(dst), P(src), bytes, stream) : CUDA_SUCCESS);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes, cudaStream_t stream)
{
    (void)to, (void)from;
    return cudaMemcpyAsync(dst, src, bytes, 4, stream);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, int kind, cudaStream_t stream)
{
    cudaError_t r = rt_context();
    (void)kind;
    for (size_t y = 0; y < height && !r; y++)
        r = (cudaError_t)driver.cuMemcpyAsync(P(dst) + y * dpitch, P(src) + y * spitch, width, stream);
    return rt_kept(r);
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) { WITH_CONTEXT(bytes ? driver.cuMemsetD8_v2(P(p), (unsigned char)value, bytes) : CUDA_SUCCESS); }
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) { WITH_CONTEXT(bytes ? driver.cuMemsetD8Async(P(p), (unsigned char)value, bytes, stream) : CUDA_SUCCESS); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    unsigned type = 0, managed = 0;
    int ordinal = CU_DEVICE_INVALID;
    CUdeviceptr there = 0;
    void *here = NULL;
    void *data[] = {&type, &managed, &ordinal, &there, &here};
    cudaError_t r = rt_context();
    if (!r)
        r = (cudaError_t)driver.cuPointerGetAttributes(5, names, data, P(p));
    if (r)
        return rt_kept(r);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = managed ? 3 : type == CU_MEMORYTYPE_DEVICE ? 2 : type == CU_MEMORYTYPE_HOST ? 1 : 0;
    attributes->device = ordinal;
    attributes->devicePointer = (void *)(uintptr_t)there;
    attributes->hostPointer = attributes->type == 0 ? (void *)(uintptr_t)p : here;
    return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(CUipcMemHandle *handle, void *p) { WITH_CONTEXT(driver.cuIpcGetMemHandle(handle, P(p))); }

cudaError_t cudaIpcOpenMemHandle(void **p, CUipcMemHandle handle, unsigned flags)
{
    CUdeviceptr got = 0;
    cudaError_t r = rt_context();
    if (!r)
        r = (cudaError_t)driver.cuIpcOpenMemHandle_v2(&got, handle, flags);
    return into(p, r, got);
}

cudaError_t cudaIpcCloseMemHandle(void *p) { WITH_CONTEXT(driver.cuIpcCloseMemHandle(P(p))); }
