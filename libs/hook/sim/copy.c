/* Copies. They take no time on the card (assumed) but keep their place in the stream; contents move at the call. */
#include "graph.h"

/* A synchronous copy or fill: ordered behind the legacy (or per-thread) stream, and finished on return. */
static CUresult synchronous(const Transfer *t)
{
    CUstream s;
    CUresult error, r = sim_stream(NULL, &s);
    if (r)
        return r;
    if (sim_capturing(s, &error))
        return error ? error : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((r = sim_unsafe()))
        return r;
    if ((r = sim_enqueue_nothing(s)))
        return r;
    sim_wait_stream(s);
    sim_local_lock();
    r = t->bytes ? sim_copy(t->dst, t->host_dst, t->src, t->host_src, t->bytes) : CUDA_SUCCESS;
    sim_local_unlock();
    return r;
}

static CUresult asynchronous(const Transfer *t, CUstream stream)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    if (sim_capturing(s, &error))
        return error ? error : sim_capture_transfer(s, t);
    if ((r = sim_enqueue_nothing(s)))
        return r;
    sim_local_lock();
    r = t->bytes ? sim_copy(t->dst, t->host_dst, t->src, t->host_src, t->bytes) : CUDA_SUCCESS;
    sim_local_unlock();
    return r;
}

#define HTOD {.dst = dst, .host_src = src, .bytes = bytes}
#define DTOH {.host_dst = dst, .src = src, .bytes = bytes}
#define DTOD {.dst = dst, .src = src, .bytes = bytes}

#define COPY(symbol, params, transfer)           \
    CUresult symbol params                       \
    {                                            \
        Transfer t = transfer;                   \
        return synchronous(&t);                  \
    }
#define COPY_ASYNC(symbol, params, transfer)     \
    CUresult symbol params                       \
    {                                            \
        Transfer t = transfer;                   \
        return asynchronous(&t, stream);         \
    }

COPY(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes), HTOD)
COPY(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes), DTOH)
COPY(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), DTOD)
COPY(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), DTOD)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), HTOD)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), DTOH)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), DTOD)
COPY_ASYNC(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), DTOD)

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes)
{
    return dst_ctx && src_ctx ? cuMemcpyDtoD_v2(dst, src, bytes) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes, CUstream stream)
{
    return dst_ctx && src_ctx ? cuMemcpyDtoDAsync_v2(dst, src, bytes, stream) : CUDA_ERROR_INVALID_CONTEXT;
}

/* One row of a 2D or 3D copy; array contents are not kept. */
static CUresult row(const CUDA_MEMCPY2D *c, size_t y)
{
    size_t from = (c->srcY + y) * c->srcPitch + c->srcXInBytes, to = (c->dstY + y) * c->dstPitch + c->dstXInBytes;
    bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_SUCCESS;
    return sim_copy(c->dstDevice + to, to_host ? (char *)c->dstHost + to : NULL, c->srcDevice + from, from_host ? (const char *)c->srcHost + from : NULL, c->WidthInBytes);
}

static CUresult rows(const CUDA_MEMCPY2D *c, size_t height)
{
    CUresult r = CUDA_SUCCESS;
    sim_local_lock();
    for (size_t y = 0; y < height && !r && c->WidthInBytes; y++)
        r = row(c, y);
    sim_local_unlock();
    return r;
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *c)
{
    return (CUDA_MEMCPY2D){.srcXInBytes = c->srcXInBytes, .srcY = c->srcY, .srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost, .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray, .srcPitch = c->srcPitch, .dstXInBytes = c->dstXInBytes, .dstY = c->dstY, .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost, .dstDevice = c->dstDevice, .dstArray = c->dstArray, .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes, .Height = c->Height};
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    Transfer nothing = {.bytes = 0};
    NEED(copy);
    CUresult r = synchronous(&nothing);
    return r ? r : rows(copy, copy->Height);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return cuMemcpy2DUnaligned_v2(copy); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    Transfer nothing = {.bytes = 0};
    NEED(copy);
    CUresult r = asynchronous(&nothing, stream);
    return r ? r : rows(copy, copy->Height);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    NEED(copy);
    CUDA_MEMCPY2D c = flat(copy);
    return copy->Depth > 1 ? CUDA_ERROR_NOT_SUPPORTED : cuMemcpy2DUnaligned_v2(&c);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    NEED(copy);
    CUDA_MEMCPY2D c = flat(copy);
    return copy->Depth > 1 ? CUDA_ERROR_NOT_SUPPORTED : cuMemcpy2DAsync_v2(&c, stream);
}
