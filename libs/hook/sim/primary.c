/* Primary contexts: one per card and process, counted. */
#include "driver.h"

static struct {
    struct CUctx_st ctx;
    unsigned references, flags;
} primary[SIM_CARDS];

CUcontext sim_primary(uint32_t card) { return primary[card].ctx.live ? &primary[card].ctx : NULL; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    uint32_t card;
    ENTER();
    NEED(ctx);
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    CUcontext c = &primary[card].ctx;
    if (!c->live) {
        c->magic = SIM_CTX;
        c->primary = true;
        r = sim_context_new(c, dev, primary[card].flags);
    }
    if (!r) {
        primary[card].references++;
        *ctx = c;
    }
    pthread_mutex_unlock(&making);
    return r;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    if (!primary[card].references)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary[card].references == 0 && primary[card].ctx.live)
        sim_context_close(&primary[card].ctx);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

/* Everything in it is destroyed at once; the references stay to be released, and the next retain makes it anew (assumed). */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (!r && primary[card].ctx.live)
        sim_context_close(&primary[card].ctx);
    return r;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (!r)
        primary[card].flags = primary[card].ctx.flags = flags;
    return r;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    if (flags)
        *flags = primary[card].flags;
    if (active)
        *active = primary[card].ctx.live;
    return CUDA_SUCCESS;
}
