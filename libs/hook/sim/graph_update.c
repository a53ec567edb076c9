/* Changing an executable graph. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static CUresult check(CUgraphExec exec)
{
    ENTER();
    return exec && exec->magic == SIM_EXEC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static ExecNode *find(CUgraphExec exec, CUgraphNode node)
{
    for (size_t i = 0; node && i < exec->count; i++)
        if (exec->nodes[i].source == node && exec->nodes[i].source_id == node->id)
            return &exec->nodes[i];
    return NULL;
}

/* The new graph must have the same nodes in the same places; then its parameters are taken over. */
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec fresh;
    CUresult r = check(exec);
    if (!r)
        r = cuGraphInstantiateWithFlags(&fresh, graph, 0);
    if (r)
        return r;
    NEED(info);
    memset(info, 0, sizeof *info);
    if (fresh->count != exec->count)
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < exec->count && !info->result; i++) {
        if (fresh->nodes[i].type != exec->nodes[i].type)
            info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        else if (fresh->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && fresh->nodes[i].bytes != exec->nodes[i].bytes)
            info->result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        if (info->result)
            info->errorNode = fresh->nodes[i].source;
    }
    for (size_t i = 0; i < exec->count && !info->result; i++) {
        ExecNode *to = &exec->nodes[i], *from = &fresh->nodes[i];
        to->function = from->function;
        to->cost = from->cost;
        to->transfer = from->transfer;
        to->host = from->host;
        to->event = from->event;
    }
    cuGraphExecDestroy(fresh);
    return info->result ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {0};
    NEED(result);
    CUresult r = cuGraphExecUpdate_v2(exec, graph, &info);
    *result = info.result;
    if (error_node)
        *error_node = info.errorNode;
    return r;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUresult r = check(exec);
    if (r)
        return r;
    ExecNode *n = find(exec, node);
    if (!n || !params || n->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphNode_st scratch = {0};
    r = sim_node_set_kernel(&scratch, params);
    if (!r) {
        n->function = scratch.kernel.func;
        n->cost = scratch.cost;
    }
    return r;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide = {0};
    NEED(params);
    memcpy(&wide, params, sizeof *params);
    return cuGraphExecKernelNodeSetParams_v2(exec, node, &wide);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    NEED(params);
    return params->type == CU_GRAPH_NODE_TYPE_KERNEL ? cuGraphExecKernelNodeSetParams_v2(exec, node, &params->kernel) : CUDA_ERROR_NOT_SUPPORTED;
}

/* The child's nodes stand in the executable graph in the order of the clone that the node owns; the new child must match it. */
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    CUresult r = check(exec);
    if (!r)
        r = sim_graph_check(child);
    if (r)
        return r;
    if (!node || node->magic != SIM_NODE || !node->child || node->child->count != child->count)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphNode old = node->child->first, new = child->first; old && new; old = old->next, new = new->next) {
        ExecNode *n = find(exec, old);
        if (old->type != new->type || (!n && !old->child))
            return CUDA_ERROR_INVALID_VALUE;
        if (n) {
            n->function = new->kernel.func;
            n->cost = new->cost;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    CUresult r = check(exec);
    ExecNode *n = r ? NULL : find(exec, node);
    if (r)
        return r;
    if (!n || (n->type != CU_GRAPH_NODE_TYPE_KERNEL && n->type != CU_GRAPH_NODE_TYPE_MEMCPY && n->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    n->enabled = enabled != 0;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
    CUresult r = check(exec);
    ExecNode *n = r ? NULL : find(exec, node);
    if (r)
        return r;
    if (!n || !enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = n->enabled;
    return CUDA_SUCCESS;
}
