/* Linear device memory: alloc, pitch, free, what is free. */
#include "driver.h"

#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* Takes physical memory; a full card first gets back what pools of this process keep unused (assumed). */
static bool take(uint32_t card, uint64_t bytes) { return sim_take(card, bytes) || (sim_pools_shrink(card) && sim_take(card, bytes)); }

/* Allocations below half a page share the pages that their addresses lie in; others have whole pages of their own. */
typedef struct {
    uint64_t page;
    unsigned allocations;
} Page;
static void *pages; /* tree; local lock */

static int order(const void *a, const void *b)
{
    uint64_t x = ((const Page *)a)->page, y = ((const Page *)b)->page;
    return x < y ? -1 : x > y;
}

static bool join_page(uint32_t card, CUdeviceptr base)
{
    Page key = {base / sim->config.alloc_granule, 1}, **found = tfind(&key, &pages, order);
    if (found) {
        (*found)->allocations++;
        return true;
    }
    Page *page = malloc(sizeof *page);
    if (!page)
        return false;
    *page = key;
    if (sim_take(card, sim->config.alloc_granule) && tsearch(page, &pages, order))
        return true;
    free(page);
    return false;
}

static void leave_page(uint32_t card, CUdeviceptr base)
{
    Page key = {base / sim->config.alloc_granule, 0}, **found = tfind(&key, &pages, order), *page = found ? *found : NULL;
    if (!page || --page->allocations)
        return;
    tdelete(page, &pages, order);
    free(page);
    sim_give(card, sim->config.alloc_granule);
}

CUresult sim_alone(Range *range)
{
    if (!range->small)
        return CUDA_SUCCESS;
    if (!sim_take(range->card, sim->config.alloc_granule))
        return CUDA_ERROR_OUT_OF_MEMORY;
    leave_page(range->card, range->base);
    range->small = false;
    range->held = sim->config.alloc_granule;
    return CUDA_SUCCESS;
}

static bool take_for(uint32_t card, CUdeviceptr base, uint64_t held)
{
    if (held)
        return take(card, held);
    sim_local_lock();
    bool got = join_page(card, base);
    sim_local_unlock();
    if (!got && sim_pools_shrink(card)) {
        sim_local_lock();
        got = join_page(card, base);
        sim_local_unlock();
    }
    return got;
}

static void give_for(uint32_t card, CUdeviceptr base, uint64_t held, bool small) /* local lock held */
{
    if (held)
        sim_give(card, held);
    if (small)
        leave_page(card, base);
}

CUresult sim_alloc(CUdeviceptr *dptr, size_t bytes, RangeKind kind, bool low)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!dptr || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if ((r = sim_unsafe()))
        return r;
    if (bytes > sim_capacity(ctx->card))
        return CUDA_ERROR_OUT_OF_MEMORY; /* also keeps the rounding below from overflowing */
    uint64_t page = sim->config.alloc_granule;
    bool small = page > 1024 && bytes < page / 2;
    uint64_t held = small ? 0 : round_up(bytes, page);
    sim_local_lock();
    CUdeviceptr base = sim_va_take(bytes, 512, low);
    sim_local_unlock();
    if (!base)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool taken = take_for(ctx->card, base, held);
    sim_local_lock();
    Range *range = taken ? sim_range_new(kind, base, bytes) : NULL;
    if (range) {
        range->card = ctx->card;
        range->ctx = ctx;
        range->held = held;
        range->small = small;
    } else {
        if (taken)
            give_for(ctx->card, base, held, small);
        sim_va_give(base, bytes);
    }
    sim_local_unlock();
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *dptr = base;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes) { return sim_alloc(dptr, bytes, RANGE_DEVICE, false); }

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
    CUdeviceptr wide = 0;
    CUresult r = dptr ? sim_alloc(&wide, bytes, RANGE_DEVICE, true) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *dptr = (CUdeviceptr_v1)wide;
    return r;
}

static CUresult pitched(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned element, bool low)
{
    if (!dptr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = round_up(width, 512); /* the texture pitch alignment of current cards */
    if (row < width || height > SIZE_MAX / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = sim_alloc(dptr, row * height, RANGE_DEVICE, low);
    if (!r)
        *pitch = row;
    return r;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    return pitched(dptr, pitch, width, height, element, false);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
    CUdeviceptr wide = 0;
    size_t row = 0;
    if (!dptr || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pitched(&wide, &row, width, height, element, true);
    if (!r) {
        *dptr = (CUdeviceptr_v1)wide;
        *pitch = (unsigned)row;
    }
    return r;
}

void sim_forget_range(Range *range)
{
    RangeKind kind = range->kind;
    CUdeviceptr base = range->base;
    size_t size = range->size;
    if (range->block != SIM_NONE)
        sim_block_drop(range->block);
    else
        give_for(range->card, range->base, range->held, range->small);
    if (range->resident)
        sim_give(range->card, range->resident);
    if (range->data)
        munmap(range->data, size);
    sim_range_delete(range);
    if (kind == RANGE_MANAGED || kind == RANGE_HOST)
        munmap((void *)(uintptr_t)base, round_up(size, (uint64_t)sysconf(_SC_PAGESIZE)));
    else if (kind != RANGE_REGISTERED)
        sim_va_give(base, size);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    CUcontext ctx;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!dptr)
        return CUDA_SUCCESS;
    if ((r = sim_unsafe()))
        return r;
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    bool whole = range && range->base == dptr;
    RangeKind kind = range ? range->kind : RANGE_HOST;
    CUcontext owner = range ? range->ctx : NULL;
    sim_local_unlock();
    if (!whole || (kind != RANGE_DEVICE && kind != RANGE_MANAGED && kind != RANGE_POOL && kind != RANGE_GRAPH && kind != RANGE_IMPORTED))
        return CUDA_ERROR_INVALID_VALUE;
    sim_wait_context(owner && owner->live ? owner : ctx); /* freeing waits for work that may use the memory */
    sim_local_lock();
    range = sim_range_at(dptr);
    if (!range || range->base != dptr)
        r = CUDA_ERROR_INVALID_VALUE; /* freed by another thread meanwhile */
    else if (kind == RANGE_GRAPH)
        r = sim_graph_free(range);
    else {
        if (kind == RANGE_POOL)
            sim_pool_uncharge(range->pool, range->size);
        sim_forget_range(range);
    }
    sim_local_unlock();
    sim_pools_settle();
    return r;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr) { return cuMemFree_v2(dptr); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUcontext ctx;
    uint64_t used;
    CUresult r = sim_current(&ctx);
    if (r)
        return r;
    if (!free_bytes && !total)
        return CUDA_ERROR_INVALID_VALUE;
    sim_used(ctx->card, &used);
    if (free_bytes)
        *free_bytes = sim_capacity(ctx->card) - used;
    if (total)
        *total = sim_capacity(ctx->card);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
    size_t f = 0, t = 0;
    CUresult r = cuMemGetInfo_v2(&f, &t);
    if (!r && free_bytes)
        *free_bytes = f > UINT32_MAX ? UINT32_MAX : (unsigned)f;
    if (!r && total)
        *total = t > UINT32_MAX ? UINT32_MAX : (unsigned)t;
    return r;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr dptr)
{
    ENTER();
    sim_local_lock();
    Range *range = sim_range_at(dptr);
    if (range && base)
        *base = range->base;
    if (range && size)
        *size = range->size;
    sim_local_unlock();
    return range ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
