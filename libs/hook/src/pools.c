#include "pools.h"

#include <string.h>

#include "charge.h"
#include "ledger.h"
#include "lock.h"
#include "memory.h"
#include "start.h"

#define POOLS 128
#define NOWHERE 255u /* memory of the host, or of another process: not charged here */

struct pool {
    CUmemoryPool handle; /* NULL: free entry */
    uint32_t card;
    uint64_t charged;
};

static struct pool pools[POOLS];
static uint64_t graph_charged[TESSERA_CARDS];
static uint8_t graph_used[TESSERA_CARDS];
static ts_lock guard;
static int loose; /* some pool may hold memory that nobody uses */

static uint64_t reading(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    if (!real.cuMemPoolGetAttribute || real.cuMemPoolGetAttribute(pool, attribute, &value) != CUDA_SUCCESS)
        return 0;
    return value;
}

static struct pool *find(CUmemoryPool handle) {
    for (int i = 0; i < POOLS; i++)
        if (pools[i].handle == handle)
            return &pools[i];
    return NULL;
}

/* A pool that nobody told us about: a device's default pool, or one made before we looked. */
static uint32_t card_of_unknown(CUmemoryPool handle, const struct ts_card *current) {
    CUmemoryPool theirs;
    int devices = 0;
    if (real.cuDeviceGetCount && real.cuDeviceGetDefaultMemPool && real.cuDeviceGetCount(&devices) == CUDA_SUCCESS)
        for (int d = 0; d < devices; d++)
            if (real.cuDeviceGetDefaultMemPool(&theirs, d) == CUDA_SUCCESS && theirs == handle) {
                struct ts_card *card = ts_card_by_device(d);
                return card ? card->index : NOWHERE;
            }
    return current ? current->index : NOWHERE;
}

static void remember(CUmemoryPool handle, uint32_t card) {
    struct pool *pool = find(handle);
    if (!pool)
        pool = find(NULL);
    if (pool)
        *pool = (struct pool){.handle = handle, .card = card, .charged = pool->handle ? pool->charged : 0};
}

/* With guard held. `extra` was charged ahead and is part of what the pool now shows. */
static void settle(struct pool *pool, uint64_t extra) {
    if (pool->card >= TESSERA_CARDS)
        return;
    uint64_t now = reading(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    if (now != pool->charged + extra)
        ts_recharge(&ts_cards[pool->card], TESSERA_POOL, pool->charged + extra, now);
    pool->charged = now;
    if (now > reading(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
        loose = 1;
}

static void settle_graphs(void) {
    for (uint32_t i = 0; i < TESSERA_CARDS; i++) {
        cuuint64_t now = 0;
        if (!graph_used[i] || ts_cards[i].ordinal < 0 || !real.cuDeviceGetGraphMemAttribute ||
            real.cuDeviceGetGraphMemAttribute(ts_cards[i].ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) !=
                CUDA_SUCCESS)
            continue;
        ts_recharge(&ts_cards[i], TESSERA_GRAPH, graph_charged[i], now);
        graph_charged[i] = now;
    }
}

void ts_pools_settle(void) {
    ts_lock_take(&guard);
    loose = 0;
    for (int i = 0; i < POOLS; i++)
        if (pools[i].handle)
            settle(&pools[i], 0);
    settle_graphs();
    ts_lock_give(&guard);
}

void ts_pools_settle_if_loose(void) {
    if (ts_unlikely(__atomic_load_n(&loose, __ATOMIC_RELAXED)))
        ts_pools_settle();
}

int ts_pools_give_back(struct ts_card *card) {
    uint64_t before = ts_charged(card);
    int any = 0;
    for (int i = 0; i < POOLS; i++) {
        ts_lock_take(&guard);
        CUmemoryPool handle = pools[i].card == card->index ? pools[i].handle : NULL;
        ts_lock_give(&guard);
        if (handle && real.cuMemPoolTrimTo)
            any |= real.cuMemPoolTrimTo(handle, 0) == CUDA_SUCCESS;
    }
    if (graph_used[card->index] && real.cuDeviceGraphMemTrim)
        any |= real.cuDeviceGraphMemTrim(card->ordinal) == CUDA_SUCCESS;
    if (any)
        ts_pools_settle();
    return ts_charged(card) < before;
}

void ts_pools_graph_memory(struct ts_card *card) {
    if (card)
        graph_used[card->index] = 1;
}

int ts_pools_capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!real.cuStreamIsCapturing)
        return 0;
    return real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void ts_pools_reset(void) {
    memset(pools, 0, sizeof pools);
    memset(graph_charged, 0, sizeof graph_charged);
    memset(graph_used, 0, sizeof graph_used);
    guard.word = 0;
    loose = 0;
}

int ts_pool_forget(CUdeviceptr dptr) {
    struct ts_holding holding;
    return ts_ledger_take(TS_ASYNC, dptr, &holding);
}

/* How much the pool would have to grow at least; asked of the tile before the driver is called. */
static uint64_t growth(CUmemoryPool handle, uint64_t bytes) {
    uint64_t held = reading(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t used = reading(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    uint64_t idle = held > used ? held - used : 0;
    return bytes > idle ? bytes - idle : 0;
}

static struct ts_card *prepare(CUmemoryPool handle, struct ts_card *current) {
    ts_lock_take(&guard);
    struct pool *pool = find(handle);
    if (!pool) {
        remember(handle, card_of_unknown(handle, current));
        pool = find(handle);
    }
    if (pool)
        settle(pool, 0);
    ts_lock_give(&guard);
    return pool && pool->card < TESSERA_CARDS ? &ts_cards[pool->card] : NULL;
}

static void settle_one(CUmemoryPool handle, uint64_t extra) {
    ts_lock_take(&guard);
    struct pool *pool = find(handle);
    if (pool)
        settle(pool, extra);
    ts_lock_give(&guard);
}

static int is_over(const struct ts_card *card) {
    return card->limit_bytes && ts_charged(card) > card->limit_bytes;
}

typedef CUresult (*free_function)(CUdeviceptr, CUstream);

/* What every stream-ordered allocation does; CALL is the driver's function with its arguments. */
#define ALLOCATE(handle, current, CALL, give_back)                                                       \
    do {                                                                                                 \
        struct ts_card *card = prepare(handle, current);                                                 \
        uint64_t ahead = card ? growth(handle, ts_memory_round(bytes)) : 0;                              \
        if (card && !ts_memory_ask(card, TESSERA_POOL, ahead))                                           \
            return CUDA_ERROR_OUT_OF_MEMORY;                                                             \
        CUresult r = CALL;                                                                               \
        settle_one(handle, ahead);                                                                       \
        return finish(card, handle, r, dptr, bytes, stream, give_back);                                  \
    } while (0)

/* The pool grew in pieces of its own size: if that broke the limit, the allocation is undone. */
static CUresult finish(struct ts_card *card, CUmemoryPool handle, CUresult r, CUdeviceptr *dptr, size_t bytes,
                       CUstream stream, free_function give_back) {
    if (r != CUDA_SUCCESS || !card)
        return r;
    if (is_over(card) && give_back) {
        give_back(*dptr, stream);
        if (real.cuMemPoolTrimTo)
            real.cuMemPoolTrimTo(handle, 0);
        settle_one(handle, 0);
        ts_charge_denied(card, bytes);
        *dptr = 0;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct ts_holding holding = {.key = *dptr, .bytes = bytes, .thing = TS_ASYNC, .kind = TESSERA_POOL,
                                 .card = (uint8_t)card->index};
    ts_ledger_put(&holding);
    return r;
}

/* While a stream is captured, the allocation becomes a node of a graph. */
static int is_node(CUstream stream, struct ts_card *card, size_t bytes, CUresult *refusal) {
    if (!ts_pools_capturing(stream))
        return 0;
    ts_pools_graph_memory(card);
    *refusal = card && bytes > ts_charge_room(card) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (*refusal != CUDA_SUCCESS)
        ts_charge_denied(card, bytes);
    return 1;
}

static CUmemoryPool current_pool(const struct ts_card *card) {
    CUmemoryPool pool = NULL;
    if (card && card->ordinal >= 0 && real.cuDeviceGetMemPool)
        real.cuDeviceGetMemPool(&pool, card->ordinal);
    return pool;
}

#define ASYNC_WRAPPERS(suffix, null_stream)                                                                      \
    CUresult cuMemAllocAsync##suffix(CUdeviceptr *dptr, size_t bytes, CUstream stream) {                         \
        TS_ENTER(cuMemAllocAsync##suffix, (dptr, bytes, stream));                                                \
        struct ts_card *current = ts_card_current();                                                             \
        CUmemoryPool pool = current_pool(current);                                                               \
        CUresult refusal;                                                                                        \
        if (!current || !pool || !bytes || !dptr)                                                                \
            return real.cuMemAllocAsync##suffix(dptr, bytes, stream);                                            \
        if (is_node(stream ? stream : null_stream, current, bytes, &refusal))                                    \
            return refusal ? refusal : real.cuMemAllocAsync##suffix(dptr, bytes, stream);                        \
        ALLOCATE(pool, current, real.cuMemAllocAsync##suffix(dptr, bytes, stream), real.cuMemFreeAsync##suffix); \
    }                                                                                                            \
    CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,                 \
                                             CUstream stream) {                                                  \
        TS_ENTER(cuMemAllocFromPoolAsync##suffix, (dptr, bytes, pool, stream));                                  \
        struct ts_card *current = ts_card_current();                                                             \
        CUresult refusal;                                                                                        \
        if (!pool || !bytes || !dptr)                                                                            \
            return real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, pool, stream);                              \
        if (is_node(stream ? stream : null_stream, current, bytes, &refusal))                                    \
            return refusal ? refusal : real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, pool, stream);          \
        ALLOCATE(pool, current, real.cuMemAllocFromPoolAsync##suffix(dptr, bytes, pool, stream),                 \
                 real.cuMemFreeAsync##suffix);                                                                   \
    }                                                                                                            \
    CUresult cuMemFreeAsync##suffix(CUdeviceptr dptr, CUstream stream) {                                         \
        TS_ENTER(cuMemFreeAsync##suffix, (dptr, stream));                                                        \
        struct ts_holding holding;                                                                               \
        int known = ts_ledger_take(TS_ASYNC, dptr, &holding) || ts_ledger_take(TS_POINTER, dptr, &holding);      \
        CUresult r = real.cuMemFreeAsync##suffix(dptr, stream);                                                  \
        if (known && r != CUDA_SUCCESS)                                                                          \
            ts_ledger_put(&holding);                                                                             \
        else if (known)                                                                                          \
            ts_memory_drop(&holding);                                                                            \
        __atomic_store_n(&loose, 1, __ATOMIC_RELAXED);                                                           \
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

CUresult cuEventSynchronize(CUevent event) {
    TS_ENTER(cuEventSynchronize, (event));
    CUresult r = real.cuEventSynchronize(event);
    ts_pools_settle_if_loose();
    return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    TS_ENTER(cuMemPoolCreate, (pool, props));
    CUresult r = real.cuMemPoolCreate(pool, props);
    if (r == CUDA_SUCCESS) {
        struct ts_card *card =
            props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? ts_card_by_device(props->location.id) : NULL;
        ts_lock_take(&guard);
        remember(*pool, card ? card->index : NOWHERE);
        ts_lock_give(&guard);
    }
    return r;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
    TS_ENTER(cuMemPoolImportFromShareableHandle, (pool, shareable, type, flags));
    CUresult r = real.cuMemPoolImportFromShareableHandle(pool, shareable, type, flags);
    if (r == CUDA_SUCCESS) {
        ts_lock_take(&guard);
        remember(*pool, NOWHERE);
        ts_lock_give(&guard);
    }
    return r;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    TS_ENTER(cuMemPoolDestroy, (pool));
    ts_lock_take(&guard);
    struct pool *known = pool ? find(pool) : NULL;
    struct pool was = known ? *known : (struct pool){.card = NOWHERE};
    if (known)
        *known = (struct pool){0};
    ts_lock_give(&guard);
    CUresult r = real.cuMemPoolDestroy(pool);
    if (!was.handle)
        return r;
    if (r == CUDA_SUCCESS && was.card < TESSERA_CARDS) {
        ts_uncharge(&ts_cards[was.card], TESSERA_POOL, was.charged);
    } else if (r != CUDA_SUCCESS) {
        ts_lock_take(&guard);
        remember(pool, was.card);
        struct pool *again = find(pool);
        if (again)
            again->charged = was.charged;
        ts_lock_give(&guard);
    }
    return r;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    TS_ENTER(cuMemPoolTrimTo, (pool, keep));
    CUresult r = real.cuMemPoolTrimTo(pool, keep);
    settle_one(pool, 0);
    return r;
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    TS_ENTER(cuDeviceGraphMemTrim, (device));
    CUresult r = real.cuDeviceGraphMemTrim(device);
    ts_pools_settle();
    return r;
}

void ts_pools_graph_launched(void) {
    static const uint8_t none[TESSERA_CARDS];
    if (ts_likely(!memcmp(graph_used, none, sizeof none)))
        return;
    ts_lock_take(&guard);
    settle_graphs();
    ts_lock_give(&guard);
}
