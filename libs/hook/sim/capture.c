/* Stream capture: beginning, growing, joining, ending. Asking is in capture_query.c. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

CUgraph sim_capture_graph(CUstream stream) { return stream->capture->graph; }

CUresult sim_capture_deps(CUstream s, const CUgraphNode *deps, size_t count)
{
    CUgraphNode *copy = malloc((count + 1) * sizeof *copy);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (count)
        memcpy(copy, deps, count * sizeof *copy);
    free(s->deps);
    s->deps = copy;
    s->dep_count = count;
    return CUDA_SUCCESS;
}

CUresult sim_capture_add(CUstream stream, CUgraphNode node)
{
    free(node->deps);
    node->deps = stream->deps;
    node->dep_count = stream->dep_count;
    stream->deps = NULL;
    return sim_capture_deps(stream, &node, 1);
}

CUresult sim_capture_transfer(CUstream stream, const Transfer *transfer)
{
    CUgraphNode node;
    CUresult r = sim_node_new(&node, stream->capture->graph, transfer->fill ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY, NULL, 0);
    if (r)
        return r;
    node->transfer = *transfer;
    return sim_capture_add(stream, node);
}

CUresult sim_capture_record(CUstream s, CUevent e)
{
    free(e->deps);
    e->deps = malloc((s->dep_count + 1) * sizeof *e->deps);
    if (!e->deps)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (s->dep_count)
        memcpy(e->deps, s->deps, s->dep_count * sizeof *e->deps);
    e->dep_count = s->dep_count;
    e->capture_id = s->capture->id;
    return CUDA_SUCCESS;
}

/* Waiting for an event of a capture draws the stream into it. */
CUresult sim_capture_wait(CUstream s, CUevent e, bool *handled)
{
    Capture *c = NULL;
    *handled = false;
    sim_local_lock();
    for (Capture *at = sim_captures; at && e->capture_id; at = at->next)
        if (at->id == e->capture_id)
            c = at;
    sim_local_unlock();
    if (!e->capture_id) {
        if (!s->capture)
            return CUDA_SUCCESS;
        s->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!c)
        return CUDA_ERROR_CAPTURED_EVENT; /* that capture is over */
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (s->capture && s->capture != c) {
        s->capture->invalid = c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    *handled = true;
    size_t n = s->capture ? s->dep_count : 0;
    CUgraphNode *all = malloc((n + e->dep_count + 1) * sizeof *all);
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n)
        memcpy(all, s->deps, n * sizeof *all);
    for (size_t i = 0; i < e->dep_count; i++) {
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known = known || all[k] == e->deps[i];
        if (!known)
            all[n++] = e->deps[i];
    }
    s->capture = c;
    CUresult r = sim_capture_deps(s, all, n);
    free(all);
    return r;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    CUstream s;
    CUresult r = sim_stream(handle, &s);
    if (r)
        return r;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    Capture *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->graph = graph;
    c->given = graph != NULL;
    if (!graph)
        r = cuGraphCreate(&c->graph, 0);
    if (!r)
        r = sim_capture_deps(s, deps, count);
    if (r) {
        free(c);
        return r;
    }
    c->id = sim_next_id();
    c->mode = mode;
    c->origin = s;
    c->thread = sim_capture_thread();
    sim_local_lock();
    c->next = sim_captures;
    sim_captures = c;
    s->capture = c;
    __atomic_add_fetch(&sim_capture_count, 1, __ATOMIC_RELAXED);
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, mode, NULL, NULL, 0); }
CUresult cuStreamBeginCapture(CUstream stream) { return begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0); }

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    (void)edges;
    CUresult r = sim_graph_check(graph);
    return r ? r : begin(stream, mode, graph, deps, count);
}

/* The nodes are made anew instead of being compared with those that are there (assumed: nobody keeps them). */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data)
{
    (void)callback, (void)data;
    CUresult r = sim_graph_check(graph);
    if (!r)
        r = begin(stream, mode, graph, NULL, 0);
    while (!r && graph->first)
        r = cuGraphDestroyNode(graph->first);
    return r;
}

/* What is drawn is not simulated: the nodes go where such a capture ends. */
CUresult cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams *params)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    NEED(params);
    if (r)
        return r;
    return sim->config.cig ? begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED, NULL, NULL, 0) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamEndCaptureToCig(CUstream stream)
{
    CUstream s;
    CUgraph graph;
    CUresult r = sim_stream(stream, &s);
    if (r)
        return r;
    r = sim->config.cig ? cuStreamEndCapture(stream, &graph) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : cuGraphDestroy(graph);
}

static void dissolve(Capture *c) /* local lock held */
{
    for (CUstream s = sim_streams(); s; s = s->next)
        if (s->capture == c) {
            s->capture = NULL;
            s->dep_count = 0;
        }
    for (Capture **at = &sim_captures; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            __atomic_sub_fetch(&sim_capture_count, 1, __ATOMIC_RELAXED);
            free(c);
            return;
        }
}

void sim_capture_abandon(CUstream s) /* the stream goes away: so does a capture that began there */
{
    Capture *c = s->capture;
    if (!c)
        return;
    if (c->origin == s)
        dissolve(c);
    else
        c->invalid = true;
}

static void mark(CUgraphNode node, uint64_t with)
{
    if (node->mark == with)
        return;
    node->mark = with;
    for (size_t i = 0; i < node->dep_count; i++)
        mark(node->deps[i], with);
}

static bool joined(Capture *c) /* local lock held: does all other work of the capture lead back to its origin? */
{
    uint64_t with = sim_next_id();
    for (size_t i = 0; i < c->origin->dep_count; i++)
        mark(c->origin->deps[i], with);
    for (CUstream s = sim_streams(); s; s = s->next)
        for (size_t i = 0; s->capture == c && i < s->dep_count; i++)
            if (s->deps[i]->mark != with)
                return false;
    return true;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (r)
        return r;
    NEED(graph);
    *graph = NULL;
    Capture *c = s->capture;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sim_capture_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    sim_local_lock();
    if (c->origin != s) {
        c->invalid = true;
        sim_local_unlock();
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (c->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(c))
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    CUgraph made = c->graph;
    bool given = c->given;
    dissolve(c);
    sim_local_unlock();
    if (!r)
        *graph = made;
    else if (!given)
        cuGraphDestroy(made);
    return r;
}
