/* Events: marks on the timeline. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUevent events; /* all of this process; local lock */

typedef struct {
    uint64_t magic;
    uint32_t slot, pid;
    uint64_t space;
} EventHandle;

static CUresult check(CUevent e)
{
    ENTER();
    if (!e || e->magic != SIM_EVENT)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_context_alive(e->ctx, e->ctx_id) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!event || (flags & ~7u) || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent e = sim_object_new(SIM_EVENT, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    e->slot = sim_new_event();
    sim_unlock();
    if (e->slot == SIM_NONE) {
        sim_object_free(e, sizeof *e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ctx = ctx;
    e->ctx_id = ctx->id;
    e->flags = flags;
    sim_local_lock();
    e->next = events;
    events = e;
    sim_local_unlock();
    *event = e;
    return CUDA_SUCCESS;
}

/* The record that queries and waits are about: the last of this process, and of an event that processes share, the last of any. */
static uint64_t last_record(CUevent e)
{
    return e->flags & CU_EVENT_INTERPROCESS ? __atomic_load_n(&sim->event[e->slot].issued, __ATOMIC_ACQUIRE) : e->recorded;
}

static void close_event(CUevent e) /* local lock held */
{
    for (CUevent *at = &events; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    sim_lock();
    if (!e->imported)
        sim_drop_event(e->slot);
    sim_unlock();
    free(e->deps);
    sim_object_free(e, sizeof *e);
}

void sim_events_close(CUcontext ctx)
{
    sim_local_lock();
    for (CUevent e = events, next; e; e = next) {
        next = e->next;
        if (e->ctx == ctx)
            close_event(e);
    }
    sim_local_unlock();
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult r = check(event);
    if (r)
        return r;
    sim_local_lock();
    close_event(event);
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    CUstream s;
    CUresult error, r = check(event);
    if (!r)
        r = sim_stream(stream, &s);
    if (r)
        return r;
    if (s->ctx != event->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capturing(s, &error)) {
        CUgraphNode node;
        if (error || !(flags & CU_EVENT_RECORD_EXTERNAL))
            return error ? error : sim_capture_record(s, event);
        r = sim_node_new(&node, sim_capture_graph(s), CU_GRAPH_NODE_TYPE_EVENT_RECORD, NULL, 0);
        if (!r)
            node->event = event;
        return r ? r : sim_capture_add(s, node);
    }
    sim_lock();
    sim_catch_up(s->ctx->card);
    SimOp *op = sim_push(s->slot, SIM_OP_RECORD);
    if (op) {
        op->event = event->slot;
        event->recorded = op->generation = ++sim->event[event->slot].issued;
        event->capture_id = 0;
        sim_catch_up(s->ctx->card);
    }
    sim_unlock();
    return op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

static CUresult may_ask(CUevent event)
{
    CUresult r = check(event);
    if (!r && event->capture_id)
        r = CUDA_ERROR_CAPTURED_EVENT;
    return r ? r : sim_unsafe();
}

CUresult cuEventQuery(CUevent event)
{
    CUresult r = may_ask(event);
    if (r)
        return r;
    sim_lock();
    sim_catch_up(event->ctx->card);
    bool done = sim->event[event->slot].done >= last_record(event);
    if (!done)
        sim_poll();
    sim_unlock();
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult r = may_ask(event);
    if (r)
        return r;
    sim_wait_on(SIM_WAIT_EVENT, event->slot, last_record(event));
    sim_pools_settle();
    return CUDA_SUCCESS;
}

/* The time between two marks on the card's clock: what others' slices took is in it. */
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    CUresult r = check(start);
    if (!r)
        r = check(end);
    if (r)
        return r;
    NEED(ms);
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->capture_id || end->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;
    sim_lock();
    sim_catch_up(start->ctx->card);
    sim_catch_up(end->ctx->card);
    const SimEvent *a = &sim->event[start->slot], *b = &sim->event[end->slot];
    bool done = a->done >= start->recorded && b->done >= end->recorded;
    double ns = (double)b->time_ns - (double)a->time_ns;
    sim_unlock();
    if (!done)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)(ns / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end) { return cuEventElapsedTime(ms, start, end); }

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUstream s;
    bool handled = false;
    CUresult r = check(event);
    if (!r)
        r = sim_stream(stream, &s);
    if (r)
        return r;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == 0 || !s->capture)
        r = sim_capture_wait(s, event, &handled);
    if (r || handled)
        return r;
    if (s->capture) { /* an external wait is a node */
        CUgraphNode node;
        r = sim_node_new(&node, sim_capture_graph(s), CU_GRAPH_NODE_TYPE_WAIT_EVENT, NULL, 0);
        if (!r)
            node->event = event;
        return r ? r : sim_capture_add(s, node);
    }
    if (!last_record(event))
        return CUDA_SUCCESS;
    sim_lock();
    sim_catch_up(s->ctx->card);
    SimOp *op = sim_push(s->slot, SIM_OP_WAIT);
    if (op) {
        op->event = event->slot;
        op->generation = last_record(event);
        sim_catch_up(s->ctx->card);
    }
    sim_unlock();
    return op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    CUresult r = check(event);
    if (r)
        return r;
    NEED(handle);
    if (!(event->flags & CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_HANDLE;
    EventHandle h = {.magic = SIM_MAGIC, .slot = event->slot, .pid = (uint32_t)getpid(), .space = sim_pid_space()};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
    return CUDA_SUCCESS;
}

/* The opened event is the exporter's, and of no use once that is gone (assumed; the real one keeps it). */
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    CUcontext ctx;
    EventHandle h;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    memcpy(&h, &handle, sizeof h);
    if (!event || h.magic != SIM_MAGIC || h.slot >= SIM_EVENTS || !sim->event[h.slot].live)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == (uint32_t)getpid() && h.space == sim_pid_space())
        return CUDA_ERROR_INVALID_CONTEXT;
    CUevent e = sim_object_new(SIM_EVENT, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->slot = h.slot;
    e->ctx = ctx;
    e->ctx_id = ctx->id;
    e->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    e->imported = true;
    sim_local_lock();
    e->next = events;
    events = e;
    sim_local_unlock();
    *event = e;
    return CUDA_SUCCESS;
}
