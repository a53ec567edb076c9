/* Green contexts: a part of the SMs. Simulated as a context of its own; the SM share is kept but not enforced. */
#include "driver.h"

#include <string.h>

struct CUgreenCtx_st {
    uint32_t magic;
    unsigned sms;
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
    g->sms = desc->sms;
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

/* Groups of equal size, of an even number of SMs and at least what is asked for; what is over is the remainder. */
CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned int *count, const CUdevResource *input, CUdevResource *remaining, unsigned int flags, unsigned int least)
{
    ENTER();
    (void)flags;
    if (!count || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned all = input->sm.smCount, each = (least + 1) / 2 * 2;
    each = each < 2 ? 2 : each;
    if (each > all)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    unsigned possible = all / each, made = groups && *count < possible ? *count : possible;
    for (unsigned i = 0; groups && i < made; i++) {
        groups[i] = *input;
        groups[i].sm.smCount = each;
    }
    if (remaining) {
        *remaining = *input;
        remaining->sm.smCount = all - made * each;
        if (!remaining->sm.smCount)
            remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
    *count = made;
    return CUDA_SUCCESS;
}

static CUresult sms_of(CUdevResource *resource, CUdevResourceType type, unsigned sms)
{
    NEED(resource);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    resource->sm.smCount = sms;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
    ENTER();
    return green && green->magic == SIM_GREEN ? sms_of(resource, type, green->sms) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuCtxGetDevResource(CUcontext ctx, CUdevResource *resource, CUdevResourceType type)
{
    CUresult r = ctx ? sim_ready() : sim_current(&ctx);
    return r ? r : ctx->magic == SIM_CTX && ctx->live ? sms_of(resource, type, sim->config.card[ctx->card].sms) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuStreamGetDevResource(CUstream stream, CUdevResource *resource, CUdevResourceType type)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    return r ? r : s->green ? cuGreenCtxGetDevResource(s->green, resource, type) : cuCtxGetDevResource(s->ctx, resource, type);
}

CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *id)
{
    ENTER();
    return green && green->magic == SIM_GREEN ? cuCtxGetId(green->ctx, id) : CUDA_ERROR_INVALID_HANDLE;
}

/* A mark behind, or a wait of, all that the context has queued: of its legacy stream here. */
CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    ENTER();
    return green && green->magic == SIM_GREEN ? cuEventRecord(event, green->ctx->legacy) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    ENTER();
    return green && green->magic == SIM_GREEN ? cuStreamWaitEvent(green->ctx->legacy, event, 0) : CUDA_ERROR_INVALID_HANDLE;
}
