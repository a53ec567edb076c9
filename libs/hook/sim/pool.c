/* Memory pools and stream-ordered allocation.
 *
 * A pool grows by chunks and gives memory back only at a synchronisation, down to its threshold, or when trimmed. Simplified: an
 * allocation is usable and a free is booked at the call, not when the stream gets there; a pool never fragments. */
#include "driver.h"

#include <string.h>

static CUmemoryPool pools;
static struct CUmemPoolHandle_st default_pool[SIM_CARDS];
static CUmemoryPool current[SIM_CARDS];

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static CUmemoryPool default_of(uint32_t card)
{
    CUmemoryPool p = &default_pool[card];
    sim_local_lock();
    if (!p->magic) {
        p->magic = SIM_POOL;
        p->card = card;
        p->is_default = true;
        p->props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        p->props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, sim_device_of_card(card)};
        p->reuse[1] = p->reuse[2] = p->reuse[3] = 1;
        p->next = pools;
        pools = p;
    }
    sim_local_unlock();
    return p;
}

CUmemoryPool sim_current_pool(uint32_t card) { return current[card] ? current[card] : default_of(card); }

static void shrink(CUmemoryPool p, uint64_t keep) /* local lock held */
{
    uint64_t target = round_up(p->used > keep ? p->used : keep, SIM_GRANULE);
    if (p->reserved > target) {
        if (!p->host)
            sim_give(p->card, p->reserved - target);
        p->reserved = target;
    }
}

void sim_pools_settle(void)
{
    sim_local_lock();
    for (CUmemoryPool p = pools; p; p = p->next)
        if (p->reserved > p->threshold && p->reserved > p->used)
            shrink(p, p->threshold);
    sim_local_unlock();
}

bool sim_pools_shrink(uint32_t card)
{
    bool shrunk = false;
    sim_local_lock();
    for (CUmemoryPool p = pools; p; p = p->next) {
        uint64_t before = p->reserved;
        if (p->card == card)
            shrink(p, 0);
        shrunk = shrunk || p->reserved < before;
    }
    sim_local_unlock();
    return shrunk;
}

static bool grow(CUmemoryPool p, uint64_t need, uint64_t chunk)
{
    uint64_t more = round_up(p->used + need - p->reserved, chunk);
    if (!p->host && !sim_take(p->card, more))
        return false;
    p->reserved += more;
    return true;
}

CUresult sim_pool_charge(CUmemoryPool p, size_t bytes) /* local lock held */
{
    uint64_t need = round_up(bytes, 512);
    if (bytes > sim_capacity(p->card) || (p->props.maxSize && p->used + need > p->props.maxSize))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (p->used + need > p->reserved && !grow(p, need, sim->config.pool_chunk) && !grow(p, need, SIM_GRANULE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->used += need;
    p->used_high = p->used > p->used_high ? p->used : p->used_high;
    p->reserved_high = p->reserved > p->reserved_high ? p->reserved : p->reserved_high;
    return CUDA_SUCCESS;
}

void sim_pool_uncharge(CUmemoryPool p, size_t bytes) /* local lock held */
{
    p->used -= round_up(bytes, 512);
    if (p->destroyed)
        shrink(p, 0);
}

static CUresult usable(CUmemoryPool pool) { return pool && pool->magic == SIM_POOL && !pool->destroyed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
    uint32_t card;
    ENTER();
    NEED(pool);
    CUresult r = sim_card_of(dev, &card);
    if (!r)
        *pool = default_of(card);
    return r;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    uint32_t card;
    ENTER();
    NEED(pool);
    CUresult r = sim_card_of(dev, &card);
    if (!r)
        *pool = sim_current_pool(card);
    return r;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    uint32_t card;
    ENTER();
    CUresult r = sim_card_of(dev, &card);
    if (!r)
        r = usable(pool);
    if (!r && (pool->card != card || pool->imported))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        current[card] = pool;
    return r;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    uint32_t card = 0;
    ENTER();
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    bool host = props->location.type == CU_MEM_LOCATION_TYPE_HOST || props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUresult r = host ? CUDA_SUCCESS : sim_card_of(props->location.id, &card);
    if (r)
        return r;
    CUmemoryPool p = sim_object_new(SIM_POOL, sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->card = card;
    p->host = host;
    p->props = *props;
    p->reuse[1] = p->reuse[2] = p->reuse[3] = 1;
    sim_local_lock();
    p->next = pools;
    pools = p;
    sim_local_unlock();
    *pool = p;
    return CUDA_SUCCESS;
}

/* Allocations that still live keep their memory; the rest goes back now. The object stays, so that they can be freed later. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    ENTER();
    CUresult r = usable(pool);
    if (r || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    sim_local_lock();
    pool->destroyed = true;
    shrink(pool, 0);
    if (current[pool->card] == pool)
        current[pool->card] = NULL;
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    ENTER();
    CUresult r = usable(pool);
    if (r)
        return r;
    sim_local_lock();
    shrink(pool, keep);
    sim_local_unlock();
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER();
    NEED(value);
    CUresult r = usable(pool);
    if (r)
        return r;
    uint64_t *wide = value;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = pool->reuse[attr]; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *wide = pool->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *wide = pool->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *wide = pool->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *wide = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *wide = pool->used_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    ENTER();
    NEED(value);
    CUresult r = usable(pool);
    if (r)
        return r;
    uint64_t wide = 0;
    if (attr > CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        memcpy(&wide, value, sizeof wide);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: pool->reuse[attr] = *(int *)value; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = wide; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* a high mark can only be reset */
        if (wide)
            return CUDA_ERROR_INVALID_VALUE;
        pool->reserved_high = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (wide)
            return CUDA_ERROR_INVALID_VALUE;
        pool->used_high = pool->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    ENTER();
    return map && count ? usable(pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    ENTER();
    if (!flags || !location || usable(pool))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == pool->props.location.id ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* By location and kind of memory (CUDA 13): here pinned memory of cards only. */
static CUresult at_location(const CUmemLocation *location, CUmemAllocationType type, uint32_t *card)
{
    ENTER();
    if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_card_of(location->id, card);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    uint32_t card;
    CUresult r = at_location(location, type, &card);
    return r ? r : cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    uint32_t card;
    CUresult r = at_location(location, type, &card);
    return r ? r : cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    uint32_t card;
    CUresult r = at_location(location, type, &card);
    return r ? r : cuDeviceSetMemPool(location->id, pool);
}
