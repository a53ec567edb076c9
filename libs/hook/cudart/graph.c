/* Graphs and the objects that they keep. Conditional nodes are not simulated. */
#include "cudart.h"

API cudaError_t cudaGraphDestroy(CUgraph graph);
API cudaError_t cudaGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
API cudaError_t cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *count);
API cudaError_t cudaGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params);
API cudaError_t cudaGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
API cudaError_t cudaGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
API cudaError_t cudaGraphLaunch(CUgraphExec exec, CUstream stream);
API cudaError_t cudaGraphExecDestroy(CUgraphExec exec);
API cudaError_t cudaGraphConditionalHandleCreate(unsigned long long *handle, CUgraph graph, unsigned value, unsigned flags);
API cudaError_t cudaUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned references, unsigned flags);
API cudaError_t cudaUserObjectRelease(CUuserObject object, unsigned count);
API cudaError_t cudaGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);

cudaError_t cudaGraphDestroy(CUgraph graph) { WITH_DRIVER(driver.cuGraphDestroy(graph)); }
cudaError_t cudaGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) { WITH_DRIVER(driver.cuGraphGetNodes(graph, nodes, count)); }

cudaError_t cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *edges, size_t *count)
{
    WITH_DRIVER(driver.cuGraphNodeGetDependencies_v2(node, deps, edges, count));
}

/* The runtime's structure is the driver's, but for a kernel's function. */
cudaError_t cudaGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_KERNEL || params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return rt_kept(cudaErrorNotSupported);
    WITH_CONTEXT(driver.cuGraphAddNode_v2(node, graph, deps, edges, count, params));
}

cudaError_t cudaGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) { WITH_CONTEXT(driver.cuGraphInstantiateWithFlags(exec, graph, flags)); }
cudaError_t cudaGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) { return cudaGraphInstantiateWithFlags(exec, graph, flags); }
cudaError_t cudaGraphLaunch(CUgraphExec exec, CUstream stream) { WITH_CONTEXT(driver.cuGraphLaunch(exec, stream)); }
cudaError_t cudaGraphExecDestroy(CUgraphExec exec) { WITH_DRIVER(driver.cuGraphExecDestroy(exec)); }

cudaError_t cudaGraphConditionalHandleCreate(unsigned long long *handle, CUgraph graph, unsigned value, unsigned flags)
{
    (void)handle, (void)graph, (void)value, (void)flags;
    return rt_kept(cudaErrorNotSupported);
}

cudaError_t cudaUserObjectCreate(CUuserObject *object, void *data, CUhostFn destroy, unsigned references, unsigned flags)
{
    WITH_DRIVER(driver.cuUserObjectCreate(object, data, destroy, references, flags));
}

cudaError_t cudaUserObjectRelease(CUuserObject object, unsigned count) { WITH_DRIVER(driver.cuUserObjectRelease(object, count)); }
cudaError_t cudaGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) { WITH_DRIVER(driver.cuGraphRetainUserObject(graph, object, count, flags)); }
