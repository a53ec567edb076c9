/* Host functions: run in stream order by one helper thread of the process, started when the first is enqueued. In virtual time the
 * helper holds time still while a function runs. */
#include "graph.h"

#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static SimOp *next_ready(uint32_t *card_index) /* lock held */
{
    for (uint32_t c = 0; c < sim->config.cards; c++)
        for (uint32_t i = 0; i < sim->card[c].active_count; i++) {
            const SimStream *s = &sim->stream[sim->card[c].active[i]];
            SimOp *op = &sim->op[s->head];
            if (op->kind == SIM_OP_HOST && op->generation == 0 && op->fn && sim->context[s->context].proc == sim_process() && sim_stream_may_run(s, op)) {
                *card_index = c;
                return op;
            }
        }
    return NULL;
}

static void *run(void *arg)
{
    (void)arg;
    uint32_t card;
    sim_thread_join(true);
    sim_lock();
    for (;;) {
        SimOp *op = next_ready(&card);
        if (!op) {
            sim_wait(SIM_WAIT_HOST, 0, 0, true);
            continue;
        }
        CUhostFn fn = (CUhostFn)(uintptr_t)op->fn;
        void *data = (void *)(uintptr_t)op->data;
        sim_unlock();
        fn(data);
        sim_lock();
        op->generation = 1; /* still the head of its stream: nothing passes it */
        sim_catch_up(card);
        sim_notify();
    }
    return NULL;
}

static void start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) == 0)
        pthread_detach(thread);
}

CUresult sim_host_enqueue(CUstream stream, CUhostFn fn, void *data)
{
    pthread_once(&once, start);
    sim_lock();
    sim_catch_up(stream->ctx->card);
    SimOp *op = sim_push(stream->slot, SIM_OP_HOST);
    if (op) {
        op->fn = (uint64_t)(uintptr_t)fn;
        op->data = (uint64_t)(uintptr_t)data;
        sim_catch_up(stream->ctx->card);
        sim_notify();
    }
    sim_unlock();
    return op ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    NEED(fn);
    if (sim_capturing(s, &error)) {
        CUgraphNode node;
        r = error ? error : sim_node_new(&node, sim_capture_graph(s), CU_GRAPH_NODE_TYPE_HOST, NULL, 0);
        if (!r)
            node->host = (CUDA_HOST_NODE_PARAMS){fn, data};
        return r ? r : sim_capture_add(s, node);
    }
    return sim_host_enqueue(s, fn, data);
}

typedef struct {
    CUstreamCallback fn;
    CUstream stream;
    void *data;
} Callback;

static void call_back(void *arg)
{
    Callback c = *(Callback *)arg;
    free(arg);
    c.fn(c.stream, CUDA_SUCCESS, c.data);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *data, unsigned int flags)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    if (!fn || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_capturing(s, &error))
        return error ? error : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    Callback *c = malloc(sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (Callback){fn, stream, data};
    return sim_host_enqueue(s, call_back, c);
}
