/* Stream capture: asking about one, and changing what its next node depends on. */
#include "capture.h"

#include "control.h"

#include <stdlib.h>
#include <string.h>

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

static uint64_t queries;
uint64_t cuSimCaptureQueries(void) { return __atomic_load_n(&queries, __ATOMIC_RELAXED); }

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUstream s;
    __atomic_add_fetch(&queries, 1, __ATOMIC_RELAXED);
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
        return sim_capture_deps(s, deps, count);
    size_t n = s->dep_count;
    CUgraphNode *all = malloc((n + count + 1) * sizeof *all);
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n)
        memcpy(all, s->deps, n * sizeof *all);
    if (count)
        memcpy(all + n, deps, count * sizeof *all);
    r = sim_capture_deps(s, all, n + count);
    free(all);
    return r;
}
