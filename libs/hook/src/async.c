/* Stream-ordered allocation, and the calls after which pools may have given memory back. */
#include "capture.h"
#include "charge.h"
#include "clock.h"
#include "foreign.h"
#include "ledger.h"
#include "memory.h"
#include "points.h"
#include "pools.h"
#include "relaxed.h"
#include "shortage.h"
#include "start.h"

#define TRIALS 20 /* milliseconds that a refused allocation waits for its memory to come back */

typedef CUresult (*free_function)(CUdeviceptr, CUstream);

static CUmemoryPool current_pool(const struct ts_card *card) {
    CUmemoryPool pool = NULL;
    if (card && card->ordinal >= 0 && real.cuDeviceGetMemPool)
        real.cuDeviceGetMemPool(&pool, card->ordinal);
    return pool;
}

/* While a stream is captured, the allocation becomes a node of a graph: charged when that is
 * launched, refused now if it could never fit. */
static int is_node(CUstream stream, struct ts_card *card, size_t bytes, CUresult *refusal) {
    if (!ts_capturing(stream))
        return 0;
    ts_pools_graph_memory(card);
    *refusal = card && ts_get(card->limit_bytes) && bytes > ts_get(card->limit_bytes) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (*refusal != CUDA_SUCCESS)
        ts_charge_denied(card, bytes);
    return 1;
}

/* The pool grew in pieces of its own size and broke the limit: undo it. The memory comes back when
 * the stream gets to the free, which is waited for a little. */
static CUresult undo(struct ts_pool *pool, CUdeviceptr *dptr, CUstream stream, free_function give_back) {
    give_back(*dptr, stream);
    *dptr = 0;
    for (int i = 0; i < TRIALS; i++) {
        ts_pool_trim(pool);
        if (!ts_pool_grown(pool, 0))
            break;
        ts_sleep(TS_MS);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A card without a place here has no pool that we could ask for. */
static CUresult refused(struct ts_card *card, size_t bytes) {
    ts_charge_denied(card, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What every stream-ordered allocation does; CALL is the driver's function with its arguments. */
#define ALLOCATE(pool, CALL, give_back)                                                  \
    do {                                                                                 \
        uint64_t ahead;                                                                  \
        if (!ts_pool_take(pool, ts_memory_round(bytes), 0, &ahead))                         \
            return CUDA_ERROR_OUT_OF_MEMORY;                                             \
        ts_point("pool: charged");                                                       \
        CUresult r;                                                                      \
        TS_ALLOCATE(r, ts_pool_card(pool), ts_memory_round(bytes), CALL);                \
        ts_point("pool: driver");                                                        \
        return settled(pool, ahead, r, dptr, bytes, stream, give_back);                  \
    } while (0)

static CUresult settled(struct ts_pool *pool, uint64_t ahead, CUresult r, CUdeviceptr *dptr, size_t bytes,
                        CUstream stream, free_function give_back) {
    struct ts_card *card = ts_pool_card(pool);
    uint64_t over = ts_pool_grown(pool, ahead);
    if (r == CUDA_SUCCESS && over && give_back) {
        r = undo(pool, dptr, stream, give_back);
        ts_charge_denied(card, bytes);
    } else if (r == CUDA_SUCCESS) {
        struct ts_holding holding = {.key = *dptr, .bytes = ts_memory_round(bytes), .owner = ts_pool_handle(pool),
                                     .thing = TS_ASYNC, .kind = TESSERA_POOL, .card = (uint8_t)card->index};
        ts_ledger_put(&holding);
    }
    ts_pool_finish(pool);
    ts_point("pool: settled");
    return r;
}

#define ASYNC_WRAPPERS(suffix, null_stream)                                                                      \
    CUresult cuMemAllocAsync##suffix(CUdeviceptr *dptr, size_t bytes, CUstream stream) {                         \
        TS_ENTER(cuMemAllocAsync##suffix, (dptr, bytes, stream));                                                \
        struct ts_card *current = ts_card_current();                                                             \
        CUmemoryPool handle = current_pool(current);                                                             \
        CUresult refusal;                                                                                        \
        if (current && !current->granted && bytes)                                                               \
            return refused(current, bytes);                                                                      \
        if (!current || !handle || !bytes || !dptr)                                                              \
            return real.cuMemAllocAsync##suffix(dptr, bytes, stream);                                            \
        if (is_node(stream ? stream : null_stream, current, bytes, &refusal))                                    \
            return refusal ? refusal : real.cuMemAllocAsync##suffix(dptr, bytes, stream);                        \
        struct ts_pool *pool = ts_pool_of(handle, current);                                                      \
        if (!pool)                                                                                               \
            return real.cuMemAllocAsync##suffix(dptr, bytes, stream);                                            \
        ALLOCATE(pool, real.cuMemAllocAsync##suffix(dptr, bytes, stream), real.cuMemFreeAsync##suffix);          \
    }                                                                                                            \
    CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *dptr, size_t bytes, CUmemoryPool handle,               \
                                             CUstream stream) {                                                  \
        TS_ENTER(cuMemAllocFromPoolAsync##suffix, (dptr, bytes, handle, stream));                                \
        struct ts_card *current = ts_card_current();                                                             \
        CUresult refusal;                                                                                        \
        if (!handle || !bytes || !dptr)                                                                          \
            return real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, handle, stream);                            \
        if (is_node(stream ? stream : null_stream, current, bytes, &refusal))                                    \
            return refusal ? refusal : real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, handle, stream);        \
        struct ts_pool *pool = ts_pool_of(handle, current);                                                      \
        if (!pool)                                                                                               \
            return real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, handle, stream);                            \
        ALLOCATE(pool, real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, handle, stream),                        \
                 real.cuMemFreeAsync##suffix);                                                                   \
    }                                                                                                            \
    CUresult cuMemFreeAsync##suffix(CUdeviceptr dptr, CUstream stream) {                                         \
        TS_ENTER(cuMemFreeAsync##suffix, (dptr, stream));                                                        \
        struct ts_holding holding;                                                                               \
        if (ts_any_capture() && ts_capturing(stream ? stream : null_stream)) /* a node: nothing is freed yet */  \
            return real.cuMemFreeAsync##suffix(dptr, stream);                                                    \
        int known = ts_ledger_take(TS_ASYNC, dptr, &holding) || ts_ledger_take(TS_POINTER, dptr, &holding) ||    \
                    ts_foreign_take(dptr, &holding);                                                             \
        if (known && ts_unlikely(holding.references))                                                            \
            ts_foreign_freed(&holding);                                                                          \
        CUresult r = real.cuMemFreeAsync##suffix(dptr, stream);                                                  \
        ts_point("free: driver");                                                                                \
        if (known && r != CUDA_SUCCESS)                                                                          \
            ts_ledger_put(&holding);                                                                             \
        else if (known)                                                                                          \
            ts_memory_drop(&holding);                                                                            \
        ts_pools_loosen();                                                                                       \
        return r;                                                                                                \
    }                                                                                                            \
    CUresult cuStreamSynchronize##suffix(CUstream stream) {                                                      \
        TS_ENTER(cuStreamSynchronize##suffix, (stream));                                                         \
        CUresult r = real.cuStreamSynchronize##suffix(stream);                                                   \
        ts_pools_settle_if_loose();                                                                              \
        return r;                                                                                                \
    }

ASYNC_WRAPPERS(, CU_STREAM_LEGACY)
ASYNC_WRAPPERS(_ptsz, CU_STREAM_PER_THREAD)

CUresult cuCtxSynchronize(void) {
    TS_ENTER(cuCtxSynchronize, ());
    CUresult r = real.cuCtxSynchronize();
    ts_pools_settle_if_loose();
    return r;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    TS_ENTER(cuCtxSynchronize_v2, (context));
    CUresult r = real.cuCtxSynchronize_v2(context);
    ts_pools_settle_if_loose();
    return r;
}

CUresult cuEventSynchronize(CUevent event) {
    TS_ENTER(cuEventSynchronize, (event));
    CUresult r = real.cuEventSynchronize(event);
    ts_pools_settle_if_loose();
    return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    TS_ENTER(cuMemPoolCreate, (pool, props));
    CUresult r = real.cuMemPoolCreate(pool, props);
    if (r == CUDA_SUCCESS)
        ts_pool_remember(*pool, props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? ts_card_by_device(props->location.id)
                                                                                     : NULL);
    return r;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
    TS_ENTER(cuMemPoolImportFromShareableHandle, (pool, shareable, type, flags));
    CUresult r = real.cuMemPoolImportFromShareableHandle(pool, shareable, type, flags);
    if (r == CUDA_SUCCESS)
        ts_pool_remember(*pool, NULL);
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    TS_ENTER(cuMemPoolDestroy, (pool));
    struct ts_pool_memory was = ts_pool_leave(pool);
    CUresult r = real.cuMemPoolDestroy(pool);
    ts_point("pool destroy: driver");
    ts_pool_left(was, pool, r);
    return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    TS_ENTER(cuMemPoolTrimTo, (pool, keep));
    CUresult r = real.cuMemPoolTrimTo(pool, keep);
    ts_point("trim: driver");
    ts_pool_settle(pool);
    return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    TS_ENTER(cuDeviceGraphMemTrim, (device));
    CUresult r = real.cuDeviceGraphMemTrim(device);
    ts_point("graph trim: driver");
    ts_pools_settle();
    return r;
}
