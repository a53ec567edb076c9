/* Graphs and stream capture: what is captured is not run, and must not be disturbed; memory that
 * graphs allocate is the device's graph memory. Graph launches are in launch.c. */
#include "charge.h"
#include "pools.h"
#include "spans.h"
#include "start.h"

static void begun(CUresult r) {
    if (r == CUDA_SUCCESS)
        __atomic_add_fetch(&ts_captures, 1, __ATOMIC_RELAXED);
}

/* An invalidated capture ends with an error, but it ends. */
static void ended(CUresult r) {
    int now = __atomic_load_n(&ts_captures, __ATOMIC_RELAXED);
    if (r != CUDA_ERROR_INVALID_VALUE && r != CUDA_ERROR_ILLEGAL_STATE && now > 0)
        __atomic_sub_fetch(&ts_captures, 1, __ATOMIC_RELAXED);
}

#define CAPTURE_WRAPPERS(suffix)                                                                                     \
    CUresult cuStreamBeginCapture##suffix(CUstream stream) {                                                         \
        TS_ENTER(cuStreamBeginCapture##suffix, (stream));                                                            \
        CUresult r = real.cuStreamBeginCapture##suffix(stream);                                                      \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginCapture_v2##suffix(CUstream stream, CUstreamCaptureMode mode) {                            \
        TS_ENTER(cuStreamBeginCapture_v2##suffix, (stream, mode));                                                   \
        CUresult r = real.cuStreamBeginCapture_v2##suffix(stream, mode);                                             \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamBeginCaptureToGraph##suffix(CUstream stream, CUgraph graph, const CUgraphNode *deps,            \
                                                 const CUgraphEdgeData *edges, size_t count,                         \
                                                 CUstreamCaptureMode mode) {                                         \
        TS_ENTER(cuStreamBeginCaptureToGraph##suffix, (stream, graph, deps, edges, count, mode));                    \
        CUresult r = real.cuStreamBeginCaptureToGraph##suffix(stream, graph, deps, edges, count, mode);              \
        begun(r);                                                                                                    \
        return r;                                                                                                    \
    }                                                                                                                \
    CUresult cuStreamEndCapture##suffix(CUstream stream, CUgraph *graph) {                                           \
        TS_ENTER(cuStreamEndCapture##suffix, (stream, graph));                                                       \
        CUresult r = real.cuStreamEndCapture##suffix(stream, graph);                                                 \
        ended(r);                                                                                                    \
        return r;                                                                                                    \
    }

CAPTURE_WRAPPERS()
CAPTURE_WRAPPERS(_ptsz)

CUresult cuStreamDestroy(CUstream stream) {
    TS_ENTER(cuStreamDestroy, (stream));
    ts_line_forget(stream);
    return real.cuStreamDestroy(stream);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    TS_ENTER(cuStreamDestroy_v2, (stream));
    ts_line_forget(stream);
    return real.cuStreamDestroy_v2(stream);
}

/* The handle may come back as another graph. */
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    TS_ENTER(cuGraphExecDestroy, (exec));
    CUresult r = real.cuGraphExecDestroy(exec);
    if (r == CUDA_SUCCESS)
        ts_guess_forget(ts_guess_graph(exec));
    return r;
}

/* A node's memory is taken when the graph runs; one that could never fit is refused here. */
static int refuse(const CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    if (!params || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return 0;
    struct ts_card *card = ts_card_by_device(params->poolProps.location.id);
    if (!card)
        return 0;
    ts_tick();
    if (params->bytesize > ts_charge_room(card) && !ts_pools_give_back(card) &&
        params->bytesize > ts_charge_room(card)) {
        ts_charge_denied(card, params->bytesize);
        return 1;
    }
    ts_pools_graph_memory(card);
    return 0;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    TS_ENTER(cuGraphAddMemAllocNode, (node, graph, deps, count, params));
    if (refuse(params))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddMemAllocNode(node, graph, deps, count, params);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                        CUgraphNodeParams *params) {
    TS_ENTER(cuGraphAddNode, (node, graph, deps, count, params));
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && refuse(&params->alloc))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddNode(node, graph, deps, count, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params) {
    TS_ENTER(cuGraphAddNode_v2, (node, graph, deps, edges, count, params));
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && refuse(&params->alloc))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return real.cuGraphAddNode_v2(node, graph, deps, edges, count, params);
}
