/* Stream capture: beginning, growing, joining, ending, asking. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

CUgraph sim_capture_graph(CUstream stream) { return stream->capture->graph; }

static CUresult set_deps(CUstream s, const CUgraphNode *deps, size_t count)
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
    return set_deps(stream, &node, 1);
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
    CUresult r = set_deps(s, all, n);
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
        r = set_deps(s, deps, count);
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

static CUresult info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUstream *out)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (r)
        return r;
    NEED(status);
    if (s->legacy && __atomic_load_n(&sim_capture_count, __ATOMIC_RELAXED)) { /* asking is as illegal as using, but invalidates nothing */
        bool blocked = false;
        sim_local_lock();
        for (CUstream o = sim_streams(); o; o = o->next)
            blocked = blocked || (o->capture && o->ctx == s->ctx && !(o->flags & CU_STREAM_NON_BLOCKING));
        sim_local_unlock();
        if (blocked)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    Capture *c = s->capture;
    *status = !c ? CU_STREAM_CAPTURE_STATUS_NONE : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id && c)
        *id = c->id;
    *out = s;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUstream s;
    return info(stream, status, NULL, &s);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    CUstream s;
    return info(stream, status, id, &s);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
                                   size_t *count)
{
    CUstream s;
    CUresult r = info(stream, status, id, &s);
    if (r || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return r;
    if (graph)
        *graph = s->capture->graph;
    if (deps)
        *deps = s->deps;
    if (edges)
        *edges = NULL;
    if (count)
        *count = s->dep_count;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, deps, NULL, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t count, unsigned int flags)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    if (r)
        return r;
    if (!s->capture || (count && !deps) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return s->capture ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_ILLEGAL_STATE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return set_deps(s, deps, count);
    size_t n = s->dep_count;
    CUgraphNode *all = malloc((n + count + 1) * sizeof *all);
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n)
        memcpy(all, s->deps, n * sizeof *all);
    if (count)
        memcpy(all + n, deps, count * sizeof *all);
    r = set_deps(s, all, n + count);
    free(all);
    return r;
}
