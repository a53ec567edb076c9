/* Memory of graph allocation nodes: one pool per card and process. It is reserved when a graph is uploaded or first launched, is in
 * use between the allocation node's launch and its free, and goes back to the card only by cuDeviceGraphMemTrim. */
#include "graph.h"

static struct {
    uint64_t used, used_high, reserved, reserved_high;
} memory[SIM_CARDS];

static uint64_t granules(uint64_t bytes) { return (bytes + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE; }

static CUresult reserve(uint32_t card, uint64_t total) /* local lock held */
{
    if (total > memory[card].reserved) {
        if (!sim_take(card, total - memory[card].reserved))
            return CUDA_ERROR_OUT_OF_MEMORY;
        memory[card].reserved = total;
    }
    if (memory[card].reserved > memory[card].reserved_high)
        memory[card].reserved_high = memory[card].reserved;
    return CUDA_SUCCESS;
}

/* What an earlier launch allocated must be free again, or is freed now where the graph was instantiated so. */
CUresult sim_graph_memory_ready(const struct CUgraphExec_st *exec)
{
    CUresult r = CUDA_SUCCESS;
    sim_local_lock();
    for (size_t i = 0; i < exec->count && !r; i++) {
        Range *old = exec->nodes[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? sim_range_at(exec->nodes[i].dptr) : NULL;
        if (old && exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
            sim_graph_free(old);
        else if (old)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    sim_local_unlock();
    return r;
}

/* What the graph needs at its peak beside what is in use now. */
CUresult sim_graph_memory_reserve(const struct CUgraphExec_st *exec)
{
    uint64_t now[SIM_CARDS] = {0}, peak[SIM_CARDS] = {0};
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < exec->count; i++) {
        const ExecNode *n = &exec->nodes[i];
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            now[n->card] += granules(n->bytes);
            peak[n->card] = now[n->card] > peak[n->card] ? now[n->card] : peak[n->card];
        }
        for (size_t k = 0; n->type == CU_GRAPH_NODE_TYPE_MEM_FREE && k < i; k++)
            if (exec->nodes[k].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && exec->nodes[k].dptr == n->dptr)
                now[exec->nodes[k].card] -= granules(exec->nodes[k].bytes);
    }
    sim_local_lock();
    for (uint32_t c = 0; c < sim->config.cards && !r; c++)
        if (peak[c])
            r = reserve(c, memory[c].used + peak[c]);
    sim_local_unlock();
    return r;
}

CUresult sim_graph_free(Range *range) /* local lock held; the address stays the node's */
{
    memory[range->card].used -= granules(range->size);
    sim_range_delete(range);
    return CUDA_SUCCESS;
}

CUresult sim_graph_memory_alloc(const ExecNode *node)
{
    sim_local_lock();
    CUresult r = reserve(node->card, memory[node->card].used + granules(node->bytes));
    Range *range = r ? NULL : sim_range_new(RANGE_GRAPH, node->dptr, node->bytes);
    if (range) {
        range->card = node->card;
        memory[node->card].used += granules(node->bytes);
        if (memory[node->card].used > memory[node->card].used_high)
            memory[node->card].used_high = memory[node->card].used;
    }
    sim_local_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_graph_memory_free(CUdeviceptr dptr)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    if (range && range->base == dptr && range->kind == RANGE_GRAPH)
        r = sim_graph_free(range);
    else if (range && range->base == dptr && range->kind == RANGE_POOL) {
        sim_pool_uncharge(range->pool, range->size);
        sim_forget_range(range);
        r = CUDA_SUCCESS;
    }
    sim_local_unlock();
    return r;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
    uint32_t card;
    ENTER();
    NEED(value);
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    uint64_t all[] = {memory[card].used, memory[card].used_high, memory[card].reserved, memory[card].reserved_high};
    if ((unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *)value = all[attr];
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
    uint32_t card;
    ENTER();
    NEED(value);
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    if (*(uint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        memory[card].used_high = memory[card].used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        memory[card].reserved_high = memory[card].reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (r)
        return r;
    sim_local_lock();
    if (memory[card].reserved > memory[card].used) {
        sim_give(card, memory[card].reserved - memory[card].used);
        memory[card].reserved = memory[card].used;
    }
    sim_local_unlock();
    return CUDA_SUCCESS;
}
