/* cuMemAllocAsync and its kin; inside a capture they become nodes of the graph. */
#include "graph.h"

#include <string.h>
#include <unistd.h>

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool)
{
    CUresult r;
    sim_local_lock();
    r = sim_pool_charge(pool, bytes);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) {
        sim_local_unlock();
        bool again = sim_pools_shrink(pool->card);
        sim_local_lock();
        r = again ? sim_pool_charge(pool, bytes) : r;
    }
    if (!r) {
        CUdeviceptr base = sim_va_take(bytes, 512, false);
        Range *range = base ? sim_range_new(RANGE_POOL, base, bytes) : NULL;
        if (range) {
            range->card = pool->card;
            range->pool = pool;
            *dptr = base;
        } else {
            sim_pool_uncharge(pool, bytes);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_local_unlock();
    return r;
}

static CUresult capture_alloc(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = pool->props, .bytesize = bytes};
    CUresult r = sim_node_new(&node, sim_capture_graph(stream), CU_GRAPH_NODE_TYPE_MEM_ALLOC, NULL, 0);
    if (!r)
        r = sim_node_set_alloc(node, &params);
    if (!r)
        r = sim_capture_add(stream, node);
    if (!r)
        *dptr = params.dptr;
    return r;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    if (!dptr || !bytes || !pool || pool->magic != SIM_POOL || pool->destroyed || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_capturing(s, &error))
        return error ? error : capture_alloc(dptr, bytes, pool, s);
    r = allocate(dptr, bytes, pool);
    return r ? r : sim_enqueue_nothing(s);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    CUstream s;
    CUresult r = sim_stream(stream, &s);
    return r ? r : cuMemAllocFromPoolAsync(dptr, bytes, sim_current_pool(s->ctx->card), stream);
}

static CUresult capture_free(CUdeviceptr dptr, CUstream stream)
{
    CUgraphNode node;
    CUresult r = sim_node_new(&node, sim_capture_graph(stream), CU_GRAPH_NODE_TYPE_MEM_FREE, NULL, 0);
    if (r)
        return r;
    node->freed = dptr;
    return sim_capture_add(stream, node);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    CUstream s;
    CUresult error, r = sim_stream(stream, &s);
    if (r)
        return r;
    if (sim_capturing(s, &error))
        return error ? error : capture_free(dptr, s);
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    if (!range || range->base != dptr)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (range->kind == RANGE_GRAPH)
        r = sim_graph_free(range);
    else if (range->kind == RANGE_POOL) {
        sim_pool_uncharge(range->pool, range->size);
        sim_forget_range(range);
    } else if (range->kind == RANGE_DEVICE || range->kind == RANGE_IMPORTED)
        sim_forget_range(range); /* the real driver takes cuMemAlloc memory too */
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sim_local_unlock();
    return r ? r : sim_enqueue_nothing(s);
}
