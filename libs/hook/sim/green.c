/* Green contexts: a part of the SMs. Simulated as a context of its own; the SM share is kept but not enforced. */
#include "driver.h"

struct CUgreenCtx_st {
    uint32_t magic;
    CUcontext ctx;
};

struct CUdevResourceDesc_st {
    unsigned sms;
};

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int count)
{
    ENTER();
    if (!desc || !resources || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevResourceDesc d = sim_object_new(SIM_GREEN, sizeof *d);
    if (!d)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->sms = 0;
    for (unsigned i = 0; i < count; i++)
        d->sms += resources[i].sm.smCount;
    *desc = d;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    ENTER();
    if (!green || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    CUgreenCtx g = sim_object_new(SIM_GREEN, sizeof *g);
    CUcontext ctx = sim_object_new(SIM_CTX, sizeof *ctx);
    if (!g || !ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = sim_context_new(ctx, dev, 0);
    if (r)
        return r;
    g->ctx = ctx;
    *green = g;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    ENTER();
    if (!green || green->magic != SIM_GREEN)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_close(green->ctx);
    sim_object_free(green, sizeof *green);
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
    ENTER();
    if (!ctx || !green || green->magic != SIM_GREEN)
        return CUDA_ERROR_INVALID_HANDLE;
    *ctx = green->ctx;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    ENTER();
    if (!stream || !green || green->magic != SIM_GREEN || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim_stream_new(green->ctx, flags, priority, false, stream);
    if (!r)
        (*stream)->green = green;
    return r;
}
