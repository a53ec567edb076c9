/* Executable graphs. A launch puts the nodes on the stream one behind the other in dependency order (assumed; the real driver runs
 * independent branches side by side). */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static CUresult check(CUgraphExec exec)
{
    ENTER();
    return exec && exec->magic == SIM_EXEC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t flat_count(CUgraph graph)
{
    size_t n = 0;
    for (CUgraphNode at = graph->first; at; at = at->next)
        n += at->child ? flat_count(at->child) : 1;
    return n;
}

static ExecNode exec_node(CUgraphNode n)
{
    return (ExecNode){.source = n, .source_id = n->id, .type = n->type, .function = n->kernel.func, .cost = n->cost, .transfer = n->transfer, .host = n->host,
                      .dptr = n->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? n->freed : n->alloc.dptr, .bytes = n->alloc.bytesize, .card = n->card, .event = n->event,
                      .enabled = true};
}

static CUresult flatten(CUgraph graph, ExecNode *nodes, size_t *at)
{
    CUgraphNode *ordered = malloc((graph->count + 1) * sizeof *ordered);
    CUresult r = ordered ? sim_graph_order(graph, ordered) : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->count && !r; i++) {
        if (ordered[i]->child)
            r = flatten(ordered[i]->child, nodes, at);
        else
            nodes[(*at)++] = exec_node(ordered[i]);
    }
    free(ordered);
    return r;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUcontext ctx;
    size_t at = 0;
    CUresult r = sim_graph_check(graph);
    if (r)
        return r;
    if (!exec || (flags & ~15ull))
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sim_current(&ctx)))
        return r;
    CUgraphExec e = sim_object_new(SIM_EXEC, sizeof *e);
    ExecNode *nodes = malloc((flat_count(graph) + 1) * sizeof *nodes);
    r = e && nodes ? flatten(graph, nodes, &at) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        free(nodes);
        return r;
    }
    e->id = sim_next_id();
    e->flags = flags;
    e->ctx = ctx;
    e->nodes = nodes;
    e->count = at;
    e->kept = sim_kept_copy(graph->kept);
    *exec = e;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) { return instantiate(exec, graph, flags); }

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_size)
{
    if (error_node)
        *error_node = NULL;
    if (log && log_size)
        *log = 0;
    return instantiate(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t log_size)
{
    return cuGraphInstantiate_v2(exec, graph, error_node, log, log_size);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    NEED(params);
    CUresult r = instantiate(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (!r && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        r = cuGraphUpload(*exec, params->hUploadStream);
    return r;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    CUstream s;
    CUresult r = check(exec);
    if (!r)
        r = sim_stream(stream, &s);
    if (!r)
        r = sim_graph_memory_reserve(exec);
    return r ? r : sim_enqueue_nothing(s);
}

static CUresult run(const ExecNode *n, CUstream s)
{
    if (!n->enabled)
        return CUDA_SUCCESS;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return sim_enqueue(s, &n->cost);
    case CU_GRAPH_NODE_TYPE_HOST: return sim_host_enqueue(s, n->host.fn, n->host.userData);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return sim_graph_memory_alloc(n);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return sim_graph_memory_free(n->dptr);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return cuEventRecord(n->event, s);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuStreamWaitEvent(s, n->event, 0);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET: sim_transfer(&n->transfer); return CUDA_SUCCESS;
    default: return CUDA_SUCCESS;
    }
}

static CUresult captured_launch(CUgraphExec exec, CUstream s)
{
    CUgraph child;
    CUgraphNode node, last = NULL;
    CUresult r = cuGraphCreate(&child, 0);
    for (size_t i = 0; i < exec->count && !r; i++) { /* the launch becomes a child graph of the same work */
        r = sim_node_new(&node, child, exec->nodes[i].type, last ? &last : NULL, last != NULL);
        if (r)
            break;
        node->cost = exec->nodes[i].cost;
        node->kernel.func = exec->nodes[i].function;
        node->transfer = exec->nodes[i].transfer;
        node->host = exec->nodes[i].host;
        last = node;
    }
    if (!r)
        r = sim_node_new(&node, sim_capture_graph(s), CU_GRAPH_NODE_TYPE_GRAPH, NULL, 0);
    if (r)
        return r;
    child->owned = true;
    node->child = child;
    return sim_capture_add(s, node);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUstream s;
    CUresult error, r = check(exec);
    if (!r)
        r = sim_stream(stream, &s);
    if (r)
        return r;
    if (sim_capturing(s, &error))
        return error ? error : captured_launch(exec, s);
    r = sim_graph_memory_ready(exec);
    if (!r)
        r = sim_graph_memory_reserve(exec);
    for (size_t i = 0; i < exec->count && !r; i++)
        r = run(&exec->nodes[i], s);
    return r ? r : sim_enqueue_nothing(s);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUresult r = check(exec);
    if (r)
        return r;
    free(exec->nodes);
    sim_kept_drop(exec->kept);
    sim_object_free(exec, sizeof *exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    CUresult r = check(exec);
    if (r)
        return r;
    NEED(flags);
    *flags = exec->flags;
    return CUDA_SUCCESS;
}
