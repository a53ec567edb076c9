/* Contexts made with cuCtxCreate, and every thread's stack of current contexts. */
#include "driver.h"

#include <string.h>

enum { DEPTH = 64 };
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int top;

bool sim_context_alive(CUcontext ctx, uint64_t id) { return ctx && ctx->live && ctx->id == id; }

static CUresult check(CUcontext ctx)
{
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx->magic != SIM_CTX)
        return CUDA_ERROR_INVALID_CONTEXT;
    return ctx->live ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_current(CUcontext *ctx)
{
    ENTER();
    *ctx = top ? stack[top - 1] : NULL;
    return check(*ctx);
}

static uint64_t context_bytes(void) /* the same for every context of a process */
{
    const SimConfig *c = &sim->config;
    uint64_t steps = c->context_most > c->context_bytes ? (c->context_most - c->context_bytes) / SIM_GRANULE + 1 : 1;
    return c->context_bytes + sim_process() * UINT64_C(2654435761) % steps * SIM_GRANULE;
}

CUresult sim_context_new(CUcontext ctx, CUdevice device, unsigned flags)
{
    uint32_t card;
    CUresult r = sim_card_of(device, &card);
    if (r)
        return r;
    uint64_t bytes = context_bytes();
    if (!sim_take(card, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    uint32_t slot = sim_new_context(card);
    sim_unlock();
    if (slot == SIM_NONE) {
        sim_give(card, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ctx->card = card;
    ctx->device = device;
    ctx->slot = slot;
    ctx->id = sim_next_id();
    ctx->flags = flags;
    ctx->api = 3020;
    ctx->held = bytes;
    ctx->peers = 0;
    memset(ctx->limit, 0, sizeof ctx->limit);
    ctx->limit[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1048576;
    ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    ctx->live = true;
    return sim_stream_new(ctx, CU_STREAM_DEFAULT, 0, true, &ctx->legacy);
}

/* Memory that goes with its context: modules and arrays. */
bool sim_context_charge(CUcontext ctx, uint64_t bytes)
{
    if (bytes && !sim_take(ctx->card, bytes) && !(sim_pools_shrink(ctx->card) && sim_take(ctx->card, bytes)))
        return false;
    __atomic_add_fetch(&ctx->held, bytes, __ATOMIC_RELAXED);
    return true;
}

void sim_context_uncharge(CUcontext ctx, uint64_t id, uint64_t bytes)
{
    if (!bytes || !sim_context_alive(ctx, id))
        return;
    __atomic_sub_fetch(&ctx->held, bytes, __ATOMIC_RELAXED);
    sim_give(ctx->card, bytes);
}

static void collect(Range *range, void *arg)
{
    struct {
        CUcontext ctx;
        Range *found;
    } *want = arg;
    bool owned = range->kind == RANGE_DEVICE || range->kind == RANGE_MANAGED || range->kind == RANGE_HOST || range->kind == RANGE_IPC;
    if (owned && range->ctx == want->ctx)
        want->found = range;
}

/* Everything that belongs to the context goes with it: streams, events, modules, allocations. Pool and VMM memory stays. */
void sim_context_close(CUcontext ctx)
{
    struct {
        CUcontext ctx;
        Range *found;
    } want = {.ctx = ctx};
    sim_wait_context(ctx);
    sim_local_lock();
    do {
        want.found = NULL;
        sim_ranges_walk(collect, &want);
        if (want.found)
            sim_forget_range(want.found);
    } while (want.found);
    sim_local_unlock();
    sim_events_close(ctx);
    sim_streams_close(ctx);
    ctx->live = false;
    sim_lock();
    sim->context[ctx->slot].live = 0;
    sim_unlock();
    sim_give(ctx->card, ctx->held);
    ctx->held = 0;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice dev, unsigned api)
{
    ENTER();
    NEED(out);
    if (top == DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext ctx = sim_object_new(SIM_CTX, sizeof *ctx);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = sim_context_new(ctx, dev, flags);
    if (r) {
        sim_object_free(ctx, sizeof *ctx);
        return r;
    }
    ctx->api = api;
    stack[top++] = ctx;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice dev) { return create(ctx, flags, dev, 3010); }
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice dev) { return create(ctx, flags, dev, 3020); }

CUresult cuCtxCreate_v3(CUcontext *ctx, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice dev)
{
    if (count < 0 || (count && !params))
        return CUDA_ERROR_INVALID_VALUE;
    return create(ctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
    if (params && params->numExecAffinityParams && !params->execAffinityParams)
        return CUDA_ERROR_INVALID_VALUE;
    return create(ctx, flags, dev, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    ENTER();
    CUresult r = check(ctx);
    if (r)
        return r;
    if (ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_context_close(ctx);
    if (top && stack[top - 1] == ctx)
        top--;
    return CUDA_SUCCESS; /* the object is kept: other threads may still have it current */
}

CUresult cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    ENTER();
    CUresult r = check(ctx);
    if (r)
        return r;
    if (top == DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[top++] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }

CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
    ENTER();
    if (!top)
        return CUDA_ERROR_INVALID_CONTEXT;
    top--;
    if (ctx)
        *ctx = stack[top];
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *ctx) { return cuCtxPopCurrent_v2(ctx); }

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    ENTER();
    if (!ctx) {
        top -= top > 0;
        return CUDA_SUCCESS;
    }
    CUresult r = check(ctx);
    if (r)
        return r;
    top += top == 0;
    stack[top - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
    ENTER();
    NEED(ctx);
    *ctx = top ? stack[top - 1] : NULL;
    return CUDA_SUCCESS;
}
