/* What a context says about itself, its limits, peers and green contexts. */
#include "driver.h"

#define CURRENT(ctx)                      \
    CUcontext ctx;                        \
    CUresult no_context = sim_current(&ctx); \
    if (no_context)                       \
    return no_context

CUresult cuCtxGetDevice(CUdevice *dev)
{
    CURRENT(ctx);
    NEED(dev);
    *dev = ctx->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CURRENT(ctx);
    NEED(flags);
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

static CUresult given_or_current(CUcontext *ctx)
{
    ENTER();
    if (!*ctx)
        return sim_current(ctx);
    return (*ctx)->magic == SIM_CTX && (*ctx)->live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    CUresult r = given_or_current(&ctx);
    if (r)
        return r;
    NEED(id);
    *id = ctx->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    CUresult r = given_or_current(&ctx);
    if (r)
        return r;
    NEED(version);
    *version = ctx->api;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CURRENT(ctx);
    CUresult r = sim_unsafe_stream(ctx->legacy);
    if (r)
        return r;
    sim_wait_context(ctx);
    sim_pools_settle();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    CUresult r = given_or_current(&ctx);
    if (!r)
        r = sim_unsafe_stream(ctx->legacy);
    if (r)
        return r;
    sim_wait_context(ctx);
    sim_pools_settle();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CURRENT(ctx);
    NEED(value);
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = ctx->limit[limit];
    return CUDA_SUCCESS;
}

/* The device heap and the printf buffer live in device memory: what exceeds their defaults is taken from the card. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CURRENT(ctx);
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE) {
        size_t before = ctx->limit[limit];
        if (value > before && !sim_take(ctx->card, value - before))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (value < before)
            value = before; /* assumed: neither shrinks */
        ctx->held += value - before;
    }
    ctx->limit[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CURRENT(ctx);
    (void)ctx;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CURRENT(ctx);
    if (flags || !peer || peer->magic != SIM_CTX || peer->card == ctx->card)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx->peers >> peer->card & 1)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peers |= 1ull << peer->card;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CURRENT(ctx);
    if (!peer || peer->magic != SIM_CTX || !(ctx->peers >> peer->card & 1))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    ctx->peers &= ~(1ull << peer->card);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    CURRENT(ctx);
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

/* Preferences: taken, without an effect. */
CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    CURRENT(ctx);
    (void)ctx;
    NEED(config);
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    CURRENT(ctx);
    (void)ctx, (void)config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    CURRENT(ctx);
    (void)ctx;
    NEED(config);
    *config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    CURRENT(ctx);
    (void)ctx, (void)config;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    CURRENT(ctx);
    (void)ctx;
    return CUDA_SUCCESS;
}
