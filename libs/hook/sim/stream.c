/* Streams: handles, the default streams, enqueuing, synchronising. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static CUstream streams; /* all of this process; local lock */
static _Thread_local struct {
    CUcontext ctx;
    uint64_t id;
    CUstream stream;
} own[16]; /* this thread's default stream in each context that it used */

CUstream sim_streams(void) { return streams; }

CUresult sim_stream_new(CUcontext ctx, unsigned flags, int priority, bool legacy, CUstream *stream)
{
    CUstream s = sim_object_new(SIM_STREAM, sizeof *s);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    s->slot = sim_new_stream(ctx->slot, legacy || !(flags & CU_STREAM_NON_BLOCKING), legacy ? SIM_NONE : ctx->legacy->slot);
    sim_unlock();
    if (s->slot == SIM_NONE) {
        sim_object_free(s, sizeof *s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->ctx = ctx;
    s->ctx_id = ctx->id;
    s->id = sim_next_id();
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->legacy = legacy;
    sim_local_lock();
    s->next = streams;
    streams = s;
    sim_local_unlock();
    *stream = s;
    return CUDA_SUCCESS;
}

static CUresult per_thread(CUcontext ctx, CUstream *stream)
{
    unsigned at = 0;
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        if (own[i].ctx == ctx && own[i].id == ctx->id) {
            *stream = own[i].stream;
            return CUDA_SUCCESS;
        }
        if (!own[i].ctx || !sim_context_alive(own[i].ctx, own[i].id))
            at = i;
    }
    CUresult r = sim_stream_new(ctx, CU_STREAM_DEFAULT, 0, false, stream);
    if (!r) {
        own[at].ctx = ctx;
        own[at].id = ctx->id;
        own[at].stream = *stream;
    }
    return r;
}

CUresult sim_stream(CUstream handle, CUstream *stream)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        if (r)
            return r;
        if (handle == CU_STREAM_PER_THREAD || (!handle && sim_per_thread))
            return per_thread(ctx, stream);
        *stream = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (r == CUDA_ERROR_NOT_INITIALIZED)
        return r;
    if (handle->magic != SIM_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_context_alive(handle->ctx, handle->ctx_id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *stream = handle;
    return CUDA_SUCCESS;
}

CUresult sim_enqueue(CUstream stream, const Kernel *kernel)
{
    sim_lock();
    SimContext *c = &sim->context[stream->ctx->slot];
    sim_catch_up(c->card);
    while (c->pending >= SIM_PENDING && c->live)
        sim_wait(SIM_WAIT_ROOM, stream->ctx->slot, SIM_PENDING, false);
    SimOp *op = sim_push(stream->slot, kernel ? SIM_OP_KERNEL : SIM_OP_NOTHING);
    if (op && kernel) {
        op->demand = kernel->demand;
        op->left_ns = kernel->ns;
        sim->proc[sim_process()].launches++;
    }
    if (op && (!kernel || !kernel->ns))
        sim_catch_up(c->card);
    sim_unlock();
    return op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_enqueue_nothing(CUstream stream) { return sim_enqueue(stream, NULL); }

void sim_wait_on(SimWaitKind kind, uint32_t object, uint64_t ticket)
{
    SimThread probe = {.kind = kind, .object = object, .ticket = ticket};
    sim_lock();
    for (uint32_t i = 0; i < sim->config.cards; i++)
        sim_catch_up(i);
    if (!sim_satisfied(&probe))
        sim_wait(kind, object, ticket, false);
    sim_unlock();
}

/* The legacy stream waits for the blocking streams of its context: an empty operation in it stands behind them all. */
void sim_wait_stream(CUstream stream)
{
    if (stream->legacy)
        sim_enqueue_nothing(stream);
    sim_wait_on(SIM_WAIT_STREAM, stream->slot, sim->stream[stream->slot].issued);
}

void sim_wait_context(CUcontext ctx)
{
    sim_lock();
    SimCard *card = &sim->card[ctx->card];
    struct {
        uint32_t slot;
        uint64_t ticket;
    } *busy = malloc((card->active_count + 1) * sizeof *busy);
    uint32_t n = 0;
    sim_catch_up(ctx->card);
    for (uint32_t i = 0; busy && i < card->active_count; i++)
        if (sim->stream[card->active[i]].context == ctx->slot) {
            busy[n].slot = card->active[i];
            busy[n++].ticket = sim->stream[card->active[i]].issued;
        }
    sim_unlock();
    for (uint32_t i = 0; i < n; i++)
        sim_wait_on(SIM_WAIT_STREAM, busy[i].slot, busy[i].ticket);
    free(busy);
}

static void unlink_stream(CUstream s)
{
    for (CUstream *at = &streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            return;
        }
}

static void close_stream(CUstream s) /* local lock held */
{
    sim_capture_abandon(s);
    unlink_stream(s);
    sim_lock();
    sim_drop_stream(s->slot); /* what is queued still runs */
    sim_unlock();
    free(s->deps);
    sim_object_free(s, sizeof *s);
}

void sim_streams_close(CUcontext ctx)
{
    sim_local_lock();
    for (CUstream s = streams, next; s; s = next) {
        next = s->next;
        if (s->ctx == ctx)
            close_stream(s);
    }
    sim_local_unlock();
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!stream || (flags & ~1u))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_stream_new(ctx, flags, priority, false, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUstream s;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_stream(stream, &s);
    if (r)
        return r;
    sim_local_lock();
    close_stream(s);
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

CUresult cuStreamSynchronize(CUstream stream)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (!r)
        r = sim_unsafe_stream(s);
    if (r)
        return r;
    sim_wait_stream(s);
    sim_pools_settle();
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (!r)
        r = sim_unsafe_stream(s);
    if (r)
        return r;
    if (s->legacy)
        sim_enqueue_nothing(s);
    sim_lock();
    sim_catch_up(s->ctx->card);
    bool done = sim->stream[s->slot].done >= sim->stream[s->slot].issued;
    if (!done)
        sim_poll();
    sim_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

#define STREAM(out)                        \
    CUstream s;                            \
    CUresult bad_stream = sim_stream(stream, &s); \
    if (bad_stream)                        \
        return bad_stream;                 \
    NEED(out)

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    STREAM(priority);
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    STREAM(flags);
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    STREAM(id);
    *id = s->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    STREAM(ctx);
    *ctx = s->ctx;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, CUgreenCtx *green)
{
    STREAM(ctx);
    *ctx = s->ctx;
    if (green)
        *green = s->green;
    return CUDA_SUCCESS;
}


CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    STREAM(device);
    *device = s->ctx->device;
    return CUDA_SUCCESS;
}

/* Attributes are taken, and answered with zeros (assumed: nobody reads back what he set). */
CUresult cuStreamSetAttribute(CUstream stream, CUlaunchAttributeID id, const CUlaunchAttributeValue *value)
{
    (void)id;
    STREAM(value);
    (void)s;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream stream, CUlaunchAttributeID id, CUlaunchAttributeValue *value)
{
    STREAM(value);
    memset(value, 0, sizeof *value);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    CUstream to, from;
    CUresult r = sim_stream(dst, &to);
    return r ? r : sim_stream(src, &from);
}
