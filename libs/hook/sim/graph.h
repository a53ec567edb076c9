/* Graphs: nodes, and what becomes of them when instantiated. */
#ifndef TESSERA_SIM_GRAPH_H
#define TESSERA_SIM_GRAPH_H

#include "driver.h"

typedef struct { /* a copy or a fill; the contents move when the graph is launched */
    CUdeviceptr dst, src;
    void *host_dst;
    const void *host_src;
    size_t bytes;
    bool fill;
    unsigned value, element;
} Transfer;

struct CUgraphNode_st {
    uint32_t magic;
    CUgraphNodeType type;
    uint64_t id;
    CUgraph graph;
    CUgraphNode *deps;
    size_t dep_count;
    uint64_t mark;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    Kernel cost;
    Transfer transfer;
    CUDA_HOST_NODE_PARAMS host;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUdeviceptr freed;
    uint32_t card; /* of alloc */
    CUgraph child;
    CUevent event;
    CUgraphNode next;
};

struct CUgraph_st {
    uint32_t magic;
    uint64_t id;
    CUgraphNode first, last;
    size_t count;
    bool owned; /* by a child node of another graph */
    Kept *kept;
};

typedef struct {
    CUgraphNode source;
    uint64_t source_id, copied_from; /* copied_from: the node of the original graph, when the graph was cloned for a child node */
    CUgraphNodeType type;
    CUfunction function;
    Kernel cost;
    Transfer transfer;
    CUDA_HOST_NODE_PARAMS host;
    CUdeviceptr dptr;
    size_t bytes;
    uint32_t card;
    CUevent event;
    bool enabled;
} ExecNode;

struct CUgraphExec_st {
    uint32_t magic;
    uint64_t id, flags;
    CUcontext ctx;
    ExecNode *nodes;
    size_t count;
    Kept *kept;
};

CUresult sim_graph_check(CUgraph graph);
CUresult sim_node_new(CUgraphNode *node, CUgraph graph, CUgraphNodeType type, const CUgraphNode *deps, size_t count);
CUresult sim_graph_clone(CUgraph *clone, CUgraph original);
CUresult sim_graph_order(CUgraph graph, CUgraphNode *ordered); /* dependencies first; graph->count places */
CUresult sim_node_set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
CUresult sim_node_set_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult sim_graph_memory_ready(const struct CUgraphExec_st *exec);
CUresult sim_graph_memory_alloc(const ExecNode *node);
CUresult sim_graph_memory_free(CUdeviceptr dptr);
CUresult sim_graph_memory_reserve(const struct CUgraphExec_st *exec);
void sim_transfer(const Transfer *transfer);
CUresult sim_capture_transfer(CUstream stream, const Transfer *transfer);

#endif
