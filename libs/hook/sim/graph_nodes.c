/* Making nodes of every kind, and reading them back. */
#include "graph.h"

#include <string.h>

CUresult sim_node_set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUfunction f = params->func;
    if (!f && params->kern && cuKernelGetFunction(&f, params->kern))
        return CUDA_ERROR_INVALID_VALUE;
    if (!f || f->magic != SIM_FUNCTION || !params->gridDimX || !params->gridDimY || !params->gridDimZ)
        return CUDA_ERROR_INVALID_VALUE;
    node->kernel = *params;
    node->kernel.func = f;
    node->cost = sim_kernel(f, params->gridDimX, params->gridDimY, params->gridDimZ, params->kernelParams, params->extra);
    return CUDA_SUCCESS;
}

static CUDA_KERNEL_NODE_PARAMS_v2 widen(const CUDA_KERNEL_NODE_PARAMS_v1 *v1)
{
    CUDA_KERNEL_NODE_PARAMS_v2 v2 = {0};
    memcpy(&v2, v1, sizeof *v1); /* v2 begins with v1 */
    return v2;
}

static CUresult drop_if(CUresult r, CUgraphNode node)
{
    if (r)
        cuGraphDestroyNode(node);
    return r;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUresult r = params ? sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_KERNEL, deps, count) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : drop_if(sim_node_set_kernel(*node, params), *node);
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED(params);
    CUDA_KERNEL_NODE_PARAMS_v2 wide = widen(params);
    return cuGraphAddKernelNode_v2(node, graph, deps, count, &wide);
}

#define NODE(node, kind)                                                                  \
    ENTER();                                                                              \
    if (!(node) || (node)->magic != SIM_NODE || (node)->type != (kind))                   \
    return CUDA_ERROR_INVALID_VALUE

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    NODE(node, CU_GRAPH_NODE_TYPE_KERNEL);
    NEED(params);
    *params = node->kernel;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NODE(node, CU_GRAPH_NODE_TYPE_KERNEL);
    NEED(params);
    memcpy(params, &node->kernel, sizeof *params);
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    NODE(node, CU_GRAPH_NODE_TYPE_KERNEL);
    NEED(params);
    return sim_node_set_kernel(node, params);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED(params);
    CUDA_KERNEL_NODE_PARAMS_v2 wide = widen(params);
    return cuGraphKernelNodeSetParams_v2(node, &wide);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
    if (!params || !ctx || (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_MEMSET, deps, count);
    if (!r)
        (*node)->transfer = (Transfer){.dst = params->dst, .bytes = params->width * params->elementSize, .fill = true, .value = params->value, .element = params->elementSize};
    return r;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_MEMCPY3D *params, CUcontext ctx)
{
    if (!params || !ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_MEMCPY, deps, count);
    if (!r && params->Height <= 1 && params->Depth <= 1) /* contents of larger boxes are not moved */
        (*node)->transfer = (Transfer){.dst = params->dstDevice + params->dstXInBytes, .src = params->srcDevice + params->srcXInBytes,
                                       .host_dst = params->dstMemoryType == CU_MEMORYTYPE_HOST ? (char *)params->dstHost + params->dstXInBytes : NULL,
                                       .host_src = params->srcMemoryType == CU_MEMORYTYPE_HOST ? (const char *)params->srcHost + params->srcXInBytes : NULL,
                                       .bytes = params->WidthInBytes};
    return r;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_HOST, deps, count);
    if (!r)
        (*node)->host = *params;
    return r;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count)
{
    return sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_EMPTY, deps, count);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child)
{
    CUgraph copy;
    CUresult r = sim_graph_clone(&copy, child); /* the node owns a clone */
    if (r)
        return r;
    r = sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_GRAPH, deps, count);
    if (r)
        cuGraphDestroy(copy);
    else {
        copy->owned = true;
        (*node)->child = copy;
    }
    return r;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    NODE(node, CU_GRAPH_NODE_TYPE_GRAPH);
    NEED(graph);
    *graph = node->child;
    return CUDA_SUCCESS;
}

/* The address is fixed now, the memory comes at launch. */
CUresult sim_node_set_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUresult r = params->bytesize ? sim_card_of(params->poolProps.location.id, &node->card) : CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    sim_local_lock();
    params->dptr = sim_va_take(params->bytesize, SIM_GRANULE, false);
    sim_local_unlock();
    node->alloc = *params;
    return params->dptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUresult r = params ? sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, deps, count) : CUDA_ERROR_INVALID_VALUE;
    return r ? r : drop_if(sim_node_set_alloc(*node, params), *node);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    NODE(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    NEED(params);
    *params = node->alloc;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dptr)
{
    CUresult r = dptr ? sim_node_new(node, graph, CU_GRAPH_NODE_TYPE_MEM_FREE, deps, count) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        (*node)->freed = dptr;
    return r;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *dptr)
{
    NODE(node, CU_GRAPH_NODE_TYPE_MEM_FREE);
    NEED(dptr);
    *dptr = node->freed;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *params)
{
    ENTER();
    NEED(params);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return cuGraphAddKernelNode_v2(node, graph, deps, count, &params->kernel);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return cuGraphAddMemAllocNode(node, graph, deps, count, &params->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(node, graph, deps, count, params->free.dptr);
    case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(node, graph, deps, count, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(node, graph, deps, count);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    (void)edges;
    return cuGraphAddNode(node, graph, deps, count, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    return cuGraphAddNode_v2(node, graph, deps, edges, count, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    NEED(params);
    return params->type == CU_GRAPH_NODE_TYPE_KERNEL ? cuGraphKernelNodeSetParams_v2(node, &params->kernel) : CUDA_ERROR_NOT_SUPPORTED;
}
